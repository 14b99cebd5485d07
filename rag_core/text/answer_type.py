"""Answer type of a question: a price, hours, a date, a place, a person, a reason ...; and a check for it in a text.

Rules for Russian and English, also for colloquial questions. They rank candidates and never decide alone. The words by
which a question asks for its type ("how much is", "во сколько") are no terms of its topic.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from rag_core.text.numbers import CARDINALS, compile_pattern, extract_figures
from rag_core.text.tokens import stem


class AnswerType(StrEnum):
    """Type of the expected answer."""

    PRICE = "price"
    HOURS = "hours"
    PHONE = "phone"
    EMAIL = "email"
    DATE = "date"
    NUMBER = "number"
    PLACE = "place"
    PERSON = "person"
    NAME = "name"
    REASON = "reason"
    STATE = "state"
    STEPS = "steps"
    LIST = "list"
    YES_NO = "yes_no"
    ANYTHING = "anything"


# Types that no pattern tells from other sentences.
VAGUE_TYPES = frozenset(
    {
        AnswerType.ANYTHING, AnswerType.YES_NO, AnswerType.STEPS, AnswerType.LIST, AnswerType.STATE, AnswerType.PLACE,
        AnswerType.REASON,
    }
)  # fmt: skip

_HOW_MUCH_RU = r"ск[оа]л?ь?к[оаи]?"  # сколько, скока, скоко, сколька
_NOW_RU = r"(?:(?:щас|сейчас|счас|теперь|примерно|вообще|сегодня|будет|это|там|у вас) ){0,2}"
# By kind; the kind that matches first in the question is the one, of several at one place the first listed. A match is
# only words of asking, none of the topic.
_ANSWER_TYPE_WORDS = (
    (AnswerType.REASON, r"почему|отчего|зачем|из-за чего|по какой причине|с чего вдруг|в чем причина|why|how come|what for|"
                        r"for what reason|what caused"),
    (AnswerType.PHONE, r"номер телефон\w*|телефон\w*|"
                       r"(?:куда|как) (?:по|до)звонить\w*|phone number|(?<!my )(?<!a )(?<!new )(?<!lost )phone|telephone|"
                       r"what number|what(?:'s|s| is) (?!the |this |its )[^\W\d_]{2,20}'?s number(?! of)|the number (?:to call|for|if|of)|whats? the number if"),
    (AnswerType.EMAIL, r"e-?mail(?: address)?|(?:е|э|и)-?ме[ий]л\w{0,2}|электронн\w+ (?:почт|адрес)\w*"),
    (AnswerType.PRICE, rf"{_HOW_MUCH_RU} {_NOW_RU}(?:сто[ия]\w*|платить|заплат\w+|отда[тл]\w+|беру?т|просят|надо денег)|"
                       rf"за {_HOW_MUCH_RU}|{_HOW_MUCH_RU} (?:денег|руб\w*)|{_HOW_MUCH_RU}(?= (?:[^\s?]+ ){{1,4}}?сто[ия](?:т|ть|л[аои]?)(?!\w))|"
                       rf"во {_HOW_MUCH_RU} (?:обойд|вста[нё]|выйд|стоит)\w*|поч[её]м|почом|цен[аыу]|ценник\w*|прайс|стоимость|тариф\w*|(?:какой|курс) (?:счет|курс|тариф)|"
                       r"дорог(?:ой|ая|о|ие|ое)|(?:by |for )?how much (?:is|are|was|were|does|do|did|for|to|will|would|it|a|an|the|per)"
                       r"(?: (?:it|that|one))?(?: costs?\b)?|what(?= (?:[^\s?]+ ){1,6}?(?:costs?|pay)(?!\w))|how much (?:money|cash)|"
                       r"costs?|prices?|pricing|fees?|fares?|how expensive|expensive|cheap|charge"),
    (AnswerType.HOURS, r"во ск[оа]л?ь?к[оаи]|(?:до|со?|к) ск[оа]л?ь?к[иоа]|(?:до|с|в) како(?:го|й|м) час\w*|часы работы|"
                       r"режим работы|(?:по|в) как(?:им|ие) (?:дн\w+|вечер\w*)|(?:what|which) (?:days|nights|evenings|mornings)(?= (?:are|is|do|does|can)(?!\w))|график\w*|расписани\w+|когда (?:[^\s?]+ ){0,3}?работа(?:ет|ют|ете)(?!\w)|"
                       r"как работа\w+|(?:at |until |till |by )?what time|opening hours|working hours|hours|how late|how early|"
                       r"when do (?:you|they|we)"),
    (AnswerType.DATE, r"(?:ко?гда|када)(?: в| это| был\w?)* последний раз|ко?гда|када|(?:до |с |к )?как(?:ой|ого|ом|ому) (?:год|числ|век|дн|день|месяц|дат|врем)\w*|как(?:ая|ую|ой) дат\w*|"
                      r"до какого|с какого|when (?:was|is) the last time|when|(?:what|which|on what|on which) (?:year|date|days?|nights?|month|century|decade)|whens|"
                      r"how soon|until when|since when|how long (?:can|until|till)"),
    (AnswerType.NAME, r"как (?:его |ее |их )?(?:зовут|звали|звать|называ\w+|именуют|назвали)|(?:what|which)'?s? (?:is |was |are |were )?the names?(?: of)?|"
                      r"what(?:'s|s| is| are| was| were)(?= (?:[^\s?]+ ){1,4}?(?:called|named))|что за|как(?:ой|ая|ое|ие) (?:имя|название|фамилия)"),
    (AnswerType.NUMBER, rf"{_HOW_MUCH_RU}(?: раз| лет| человек| штук)?|скольк\w+|насколько|на {_HOW_MUCH_RU}|много|"
                        r"(?:by )?how (?:many|much|old|long|far|tall|large|big|high|fast|often|deep|wide|heavy|cold|hot|warm)|percentage|"
                        r"what (?:percent\w*|number|amount|fraction|share|population|size|length|height|speed|temperature)|"
                        r"как(?:ой|ое|ая|ова|ую|ов) (?:процент|размер|объем|количеств|част|дол|длин|высот|площад|численн|ширин|скорост|"
                        r"ставк|сумм|плат|зарплат|температур|вмест|вес)\w*|"
                        r"(?:процент|размер|количеств|ставк|сумм|зарплат|температур|высот|площад)\w* как(?:ой|ая|ое|ова?|овы)"),
    (AnswerType.PLACE, r"где|куда|откуда|по какому адресу|адрес|в как(?:ом|ой) (?:город|стран|штат|област|мест|район|регион|улиц|"
                       r"дом|здани|зал|комнат|школ)\w*|where(?:'s|s)?|whereabouts|what address|"
                       r"(?:what|which) (?:city|country|state|town|region|river|place|street|room|building)"),
    (AnswerType.PERSON, r"кто(?! так)|кого|кем|кому|у кого|чей|чья|чье|чьи|о ком|who(?:'s|s|se|m)?|(?:what|which) (?:university|"
                        r"school|team|company|person|man|woman|king|queen|author|channel)|как(?:ой|ая|ое|ом|ую|ие) (?:компани|"
                        r"команд|человек|школ|университет|автор|канал|мастер)\w*"),
    (AnswerType.STATE, r"что (?:там )?(?:с|со|случилось с|стало с)|как (?:там|дела|поживает)|what happened (?:to|with)|"
                       r"what(?:'s| is) (?:up|going on|the state|the status|the matter)(?: with| of)?|вакансии|status of"),
    (AnswerType.STEPS, r"как(?= (?:(?:мне|нам|можно|лучше|туда|сюда|бы|вообще|правильно) ){0,2}\w+т[ьи](?:ся)?(?!\w))|что (?:мне |нам )?(?:надо |нужно )?делать|"
                       r"how (?:do|does|can|could|should|to|would) (?:i|you|we|one|people|they)?|what should (?:i|we)(?: do)?"),
    (AnswerType.LIST, r"как(?:ие|их|ими)|что входит|перечисли\w*|назови\w*|список|what (?:kinds?|types?|sorts?) of|"
                      r"list|name all|what(?:'s|s) in|меню"),
    (AnswerType.YES_NO, r"ли|есть|можно|нельзя|нужн[ао]?|надо|правда|действительно|разве|остал[ои]сь|"
                        r"(?:^|(?<=[,;.!] ))(?:(?:so|and|hey|hi|but|excuse me),? )?(?:is|are|was|were|am|do|does|did|can|could|will|would|has|have|had|should|may|might|any)"
                        r"(?: (?:it|there|i|you|we|they|he|she)(?: (?:still|true|need|have|possible))?(?: (?:to|that))?)?|"
                        r"(?:is|are) there|is it|do i need|can i"),
)  # fmt: skip
_ANSWER_TYPE_PATTERNS = tuple(
    (want, re.compile(rf"(?<![\w-])(?:{pattern})(?![\w])")) for want, pattern in _ANSWER_TYPE_WORDS
)
# Words that begin a clause as well: "what turned up when you tidied the shed" does not ask when.
_CLAUSE_TYPES = frozenset({AnswerType.DATE, AnswerType.PLACE, AnswerType.PERSON, AnswerType.YES_NO, AnswerType.REASON})
_OPEN_BEGINNING = re.compile(r"(?:and |а |и |so )?(?:what|which|что|че|чего|чем|как\w*)(?!\w)")
_OPEN_WORDS = re.compile(r"(?<!\w)(?:что|че|чего|чем|чему|кто|как\w*|who|what|which|how|tell|расскаж\w*)(?!\w)")
_DEFINED = re.compile(r"\s*(?:[Ww]ho(?:'s| is| was| are)|[Кк]то) [A-ZА-ЯЁ]")
# "How did the price change" asks for all values of a series.
_CHANGES_ASKED = re.compile(
    r"как (?:\w+ )?(?:из)?мен[яи]л(?:ся|ась|ось|ись)|как (?:\w+ )?(?:росл[аио]|вырос\w*|подорожал\w*)|(?:история|динамика) (?:цен\w*|изменени\w+)|"
    r"how (?:has|have|had|did|does|do)(?= (?:[^\s?]+ ){1,6}?(?:changed?|evolved?|gr[eo]wn?)(?!\w))|changed over time|price history|history of the price"
)
_CHANGE_WORDS = re.compile(r"(?<!\w)(?:(?:из)?мен[яи]л\w+|changed?|evolved?|histor\w+|истори\w+|динамик\w+)(?!\w)")
_WORD = re.compile(r"\w+")
_MAX_ASKING_LENGTH = 1000  # characters of a question that are read for its type

# Of the patterns below a question needs those of its type: they are compiled with their first use.

_NUMBER_WORDS = (CARDINALS.keys() - set("оба обе обоих both zero ноль нуля".split())) | set(
    "hundred thousand million billion third twice сотни тысяча тысячи тысяч миллион миллиона миллионов миллиард миллиарда "
    "миллиардов дважды трижды".split()
)
_MONTHS = (
    r"янв(?:ар[яьею]\w*)?|фев(?:рал\w+)?|март[аеу]?|апрел\w+|ма[йяе]|июн\w+|июл\w+|август\w*|сентябр\w+|октябр\w+|ноябр\w+|"
    r"декабр\w+|jan(?:uary)?|feb(?:ruary)?|march|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?"
)
_WEEKDAYS = (
    r"понедельник\w*|вторник\w*|сред[ауы]|четверг\w*|пятниц\w+|суббот\w+|воскресень\w+|mondays?|tuesdays?|wednesdays?|"
    r"thursdays?|fridays?|saturdays?|sundays?"
)
_CALENDAR_NAME = re.compile(rf"(?=[a-z])(?:{_MONTHS}|{_WEEKDAYS})")  # capitalized in English only
_DATE = (
    rf"\b(?:1\d{{3}}|20\d\d)\b|\b\d{{1,2}}[./]\d{{1,2}}\b|\b\d{{1,2}}:\d\d\b|\b(?:{_MONTHS}|{_WEEKDAYS})\b|"
    r"\b(?:век[аеу]?|century|centuries|decade)\b|\b\d{1,4}\s(?:ah|ad|bce?|ce|г\.?х|(?:до\s)?н\.?\s?э)\b"
)
_NAME = re.compile(r"[^\W\d_][\w'’-]*")
_PRICE = (
    r"(?<!\d)\d{1,9}(?:[\s.,]\d{1,3}){0,4}\s?(?:(?:тыс|млн|млрд|million|thousand|k)\w{0,3}\.?\s?)?"
    r"(?:₽|руб\w*|р\b|\$|€|£|usd|eur|долл\w*|евро|коп\w*|bucks|dollars?|euros?|rub\w*)|"
    r"\b[^\W\d_]{2,20}\s(?:euros?|dollars?|bucks|pounds|рубл\w+|евро|долларов)\b|[$€£]\s?\d|бесплатн\w*|\bдаром\b|"
    r"\bfree\b|no charge|\bdiscount|скидк"
)
_HOURS = (
    r"\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?(?:am|pm|a\.m|p\.m|o'clock|час|утра|вечера|дня|ночи)|"
    rf"\b(?:с|до|from|until|till|at|by|к)\s\d{{1,2}}\b(?!\s?(?:{_MONTHS})\b)|"
    rf"(?:{_WEEKDAYS}|будни|будням|выходные|выходным|ежедневно|часы|daily|hours)[^.\n]{{0,20}}?\b\d{{1,2}}\s?[–—-]\s?\d{{1,2}}\b|"
    r"круглосуточно|без выходных|выходной|\b(?:noon|midnight|sunset|dusk|dawn|полдень|полноч\w+)\b"
)
_PHONE = r"(?<![\d./=])\+?\d(?:[\s()-]{0,2}\d){4,14}(?![\d.])|(?<!\w)@\w{4,}"
_EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.\w{2}"
_SINGLE = frozenset(word for word, value in CARDINALS.items() if value == 1)
_COUNTED = re.compile(rf"(?<!\w)(?:{_HOW_MUCH_RU}|how many)\s(\w{{3,30}})")


def _normalize_text(text: str) -> str:
    # a tenth of the time of `str.translate`
    return text.lower().replace("ё", "е").replace("’", "'").replace("‘", "'").replace("`", "'")


@lru_cache(maxsize=256)
def detect_answer_type(question: str) -> tuple[AnswerType, frozenset[str]]:
    """Detect the expected answer type by the question's words, and the stems of the words that ask for it."""
    question = question[:_MAX_ASKING_LENGTH]
    asked = _normalize_text(question)
    found = [
        (match.start(), want, pattern) for want, pattern in _ANSWER_TYPE_PATTERNS if (match := pattern.search(asked))
    ]
    if not found:
        # "fare 36 rubles": a statement about a price is to be compared with the price
        price = compile_pattern(_PRICE).search(asked)
        if price and price[0][0].isdigit():
            return AnswerType.PRICE, frozenset()
        # "The library is open on Sundays?": a statement with a question mark is to be confirmed
        closed = asked.rstrip().endswith("?") and len(_WORD.findall(asked)) > 1 and not _OPEN_WORDS.search(asked)
        return (AnswerType.YES_NO if closed else AnswerType.ANYTHING), frozenset()
    at, want, pattern = min(found, key=lambda one: one[0])
    if (at and want in _CLAUSE_TYPES and _OPEN_BEGINNING.match(asked)) or (
        want is AnswerType.PERSON and _DEFINED.match(question)
    ):
        return AnswerType.ANYTHING, frozenset()
    matches = [match[0] for match in pattern.finditer(asked)]
    if _CHANGES_ASKED.search(asked):
        matches += _CHANGE_WORDS.findall(asked)
    return want, frozenset(filter(None, (stem(word) for match in matches for word in _WORD.findall(match))))


def asks_for_changes(question: str) -> bool:
    """Whether a question asks how a value changed."""
    return bool(_CHANGES_ASKED.search(_normalize_text(question[:_MAX_ASKING_LENGTH])))


def extract_values(text: str) -> frozenset[str]:
    """Extract numbers in figures and in words."""
    low = _normalize_text(text)
    return extract_figures(low) | (_NUMBER_WORDS & set(_WORD.findall(low)))


def asks_for_count(question: str) -> bool:
    """Whether a question asks how many of something there are."""
    return bool(_COUNTED.search(_normalize_text(question[:_MAX_ASKING_LENGTH])))


def extract_name_stems(text: str) -> frozenset[str]:
    """Extract stems of capitalized words that are not the first of a sentence."""
    inner = set[str]()
    for word in _NAME.finditer(text):
        if word[0][0].isupper() and len(word[0]) > 1 and not _CALENDAR_NAME.fullmatch(word[0].lower()):
            before = text[: word.start()].rstrip(" \"'«“„(—–-\t")
            if before and before[-1] not in ".!?…\n":
                inner.add(stem(word[0].lower()))
    return frozenset(inner - {""})


def contains_answer_type(want: AnswerType, text: str, question: str) -> bool:
    """Whether the text contains the wanted type, beyond what the question already says.

    False for reasons, steps, places and others that any sentence may be.
    """
    if want in VAGUE_TYPES:
        return want is AnswerType.ANYTHING
    low, (asked, stems) = _normalize_text(text), _read_question(question)
    if pattern := _TYPE_PATTERNS.get(want):
        return any(m[0] not in asked for m in compile_pattern(pattern).finditer(low))
    if want is AnswerType.NUMBER:
        return bool(extract_values(low) - {*extract_figures(asked), *_WORD.findall(asked)} - _SINGLE)
    return bool(extract_name_stems(text) - stems)


@lru_cache(maxsize=256)  # one question is held against each sentence of the posts that were found
def _read_question(question: str) -> tuple[str, frozenset[str]]:
    asked = _normalize_text(question)
    return asked, frozenset(map(stem, _WORD.findall(asked)))


_TYPE_PATTERNS = {
    AnswerType.PRICE: _PRICE, AnswerType.HOURS: _HOURS, AnswerType.PHONE: _PHONE, AnswerType.DATE: _DATE,
    AnswerType.EMAIL: _EMAIL,
}  # fmt: skip
