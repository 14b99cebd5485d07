"""What a question asks for: the type of its answer, and its terms with their weights.

Answer type: a price, hours, a date, a place, a person, a reason ...; and a check for it in a text. Rules for Russian and
English, also for colloquial questions. They rank candidates and never decide alone. The words by which a question asks
for its type ("how much is", "во сколько") are no terms of its topic.

Query terms: their weights, and what share of a question the terms of a text cover. Words that only name the kind of
answer ("name", "number", "cost") weigh less: posts seldom repeat them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from rag_core.text.numbers import CARDINALS, compile_pattern, extract_figures
from rag_core.text.tokens import (
    STOP_WORDS,
    WORD,
    list_dictionary_forms,
    measure_stem_similarity,
    stem,
    stem_dictionary_form,
    tokenize,
)


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
_ANSWER_TYPE_PATTERNS = [(want, re.compile(rf"(?<![\w-])(?:{words})(?![\w])")) for want, words in _ANSWER_TYPE_WORDS]
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


def _normalize_text(text: str) -> str:
    # a tenth of the time of `str.translate`
    return text.lower().replace("ё", "е").replace("’", "'").replace("‘", "'").replace("`", "'")


@lru_cache(maxsize=256)
def detect_answer_type(question: str) -> tuple[AnswerType, frozenset[str]]:
    """Detect the expected answer type by the question's words, and the stems of the words that ask for it."""
    question = question[:_MAX_ASKING_LENGTH]
    asked = _normalize_text(question)
    matched = ((pattern.search(asked), want, pattern) for want, pattern in _ANSWER_TYPE_PATTERNS)
    found = [(match.start(), want, pattern) for match, want, pattern in matched if match]
    if not found:
        # "fare 36 rubles": a statement about a price is to be compared with the price
        price = compile_pattern(_PRICE).search(asked)
        if price and price[0][0].isdigit():
            return AnswerType.PRICE, frozenset()
        # "The library is open on Sundays?": a statement with a question mark is to be confirmed
        closed = asked.rstrip().endswith("?") and len(_WORD.findall(asked)) > 1 and not _OPEN_WORDS.search(asked)
        return (AnswerType.YES_NO if closed else AnswerType.ANYTHING), frozenset()
    at, want, pattern = min(found, key=lambda one: one[0])
    within = at and want in _CLAUSE_TYPES and _OPEN_BEGINNING.match(asked)
    if within or (want is AnswerType.PERSON and _DEFINED.match(question)):
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
    """Whether a text has the wanted type, beyond what the question says; never a type that no pattern tells."""
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


_SYNONYMS = Path(__file__).with_name("synonyms.txt")
# Weights of variants, against 1 for the word itself. A translation is worth more than a synonym: a post in the other
# language has no other word of the question.
SYNONYM_WEIGHT, TRANSLATION_WEIGHT, _RELATED_WEIGHT, _ANNOTATION_WEIGHT = 0.5, 0.8, 0.3, 0.8
_PHRASE_FACTOR = 0.5  # for a word of a phrase
_MAX_WORDS = 40  # words of a question that are looked up
_MAX_PHRASE_WORDS = 3
_ORDINAL_OR_DAY = re.compile(r"(?a:([1-9]|[12]\d|3[01])(st|nd|rd|th)?)")

_ANNOTATIONS = {
    "<money>": re.compile(
        r"[$€£₽]\s?\d|\d\s?(?:[$€£₽]|(?:руб|тыс|млн|eur|usd|dollar|pound|quid|rub|bucks|тенге|доллар|евро)|[рk]\b)",
        re.I,
    ),
    "<clock>": re.compile(
        r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?![\d:])|\b(?:1[0-2]|\d)\s?[ap]\.?m\b|\b\d{1,2}\s(?:час|утра|вечера)",
        re.I,
    ),
    "<phone>": re.compile(
        r"(?<![\d-])(?:\+\d[\d\s()-]{7,16}\d|\(?\d{3}\)?[\s-]\d{2,3}[\s-]\d{2}(?:[\s-]?\d{2})?|\d{1,3}-\d{2}-\d{2}|"
        r"1[01]\d)(?![\d-])"
    ),
}


def annotate_answer_kinds(text: str) -> list[str]:
    """List the kinds of answers that a text holds, as terms that no word can be."""
    return [kind for kind, pattern in _ANNOTATIONS.items() if pattern.search(text)]


class _Group(NamedTuple):
    """Group of a table: terms of each language with their factors; `related` words weigh less than synonyms."""

    terms: dict[str, dict[str, float]]
    related: bool


_STOP_MARK = "'"  # before a stop word in a phrase, as other words may have the stem of one: "имя" and "им"


@cache
def _read_table() -> tuple[Mapping[tuple[str, ...], list[_Group]], frozenset[str]]:
    """Read the table: the groups that hold each phrase, in which stop words stay whole, and the stems of no group."""
    groups, singles = defaultdict[tuple[str, ...], list[_Group]](list), set[str]()
    for line in _SYNONYMS.read_text(encoding="utf-8").lower().replace("ё", "е").splitlines():
        if line.startswith("="):
            singles.update(map(stem_dictionary_form, line[1:].split()))
        if not line or line[0] in "#=":
            continue
        group = _Group({"ru": {}, "en": {}}, line.startswith("~"))
        for terms, side in zip(group.terms.values(), line.lstrip("~").split("|"), strict=True):
            for entry in filter(None, map(str.strip, side.split(","))):
                if entry in _ANNOTATIONS:
                    terms[entry] = 1.0
                    continue
                words = WORD.findall(entry)
                phrase = tuple(_STOP_MARK + w if w in STOP_WORDS else stem_dictionary_form(w) for w in words)
                factor = 1.0 if len(phrase) == 1 else _PHRASE_FACTOR
                terms |= {t: max(factor, terms.get(t, 0.0)) for t in phrase if t[0] != _STOP_MARK}
                if group not in groups[phrase]:
                    groups[phrase].append(group)
    return dict(groups), frozenset(singles)


def is_table_word(word: str) -> bool:
    """Whether the table holds a lower-case word, in either language."""
    term, (groups, singles) = stem(word), _read_table()
    return bool(term) and (term in singles or (term,) in groups)


@cache
def list_table_stems() -> tuple[str, ...]:
    """List the stems of single words in the table, sorted: what a typo may be read as."""
    groups, singles = _read_table()
    return tuple(sorted({phrase[0] for phrase in groups if len(phrase) == 1 and phrase[0][0] != _STOP_MARK} | singles))


@lru_cache(maxsize=256)  # search, reranking, extract and coverage of one question ask for the same words
def expand_words(text: str) -> Mapping[str, Mapping[str, float]]:
    """Expand the words of a question: term -> its variants with weights, 0..1.

    A phrase ("how much", "bus stop") is expanded under the phrase itself, which is no term of any post.
    """
    words = [word.lower().replace("ё", "е") for word in WORD.findall(text)[:_MAX_WORDS]]
    variants, (groups, _) = dict[str, dict[str, float]](), _read_table()
    for word in words:
        if day := _ORDINAL_OR_DAY.fullmatch(word):  # "the 11th" and "11 July"
            ending = "th" if word in {"11", "12", "13"} else {"1": "st", "2": "nd", "3": "rd"}.get(word[-1], "th")
            variants[word] = {day[1]: 1.0} if day[2] else {f"{word}{ending}": 1.0}
    stems = [_STOP_MARK + word if word in STOP_WORDS else stem(word) or word for word in words]
    for first, word in enumerate(words):
        lang = "en" if word.isascii() else "ru"
        for length in range(1, min(_MAX_PHRASE_WORDS, len(words) - first) + 1):
            phrase = tuple(stems[first : first + length])
            keys, term = [phrase], " ".join(phrase)
            if length == 1 and word not in STOP_WORDS:
                keys += [(stem_dictionary_form(form.replace("ё", "е")),) for form in list_dictionary_forms(word)]
            for group in (group for key in dict.fromkeys(keys) for group in groups.get(key, ())):
                found = variants.setdefault(term, {})  # the greatest weight of each
                for other, terms in group.terms.items():
                    base = SYNONYM_WEIGHT if other == lang else TRANSLATION_WEIGHT
                    base = _RELATED_WEIGHT if group.related else base
                    for variant, factor in terms.items():
                        if variant != term:
                            weight = _ANNOTATION_WEIGHT if variant in _ANNOTATIONS else base * factor
                            found[variant] = max(weight, found.get(variant, 0.0))
    return variants


TermWeight = Callable[[str], float]  # term to weight, above 0


# Words that only name the kind of answer and say nothing of the topic: posts seldom repeat them.
_ASKING_WORDS = (
    "назвать называется называется называют называлась называли название имя зовут звали тип вид род часть число "
    "количество  процент способ образ причина цель роль место человек люди лицо событие случилось случиться "
    "произошло происходит  происходить стало стал стать стали привело привести означает означать считается "
    "считать известен известный известна известно  известны используется использовать используют применяется "
    "составляет составлять занимает находится находиться находился  расположен расположена относится относиться "
    "говорится сказать говорить начать начали начало сделать сделал делать  является служит имеет иметь имел дать "
    "дал результат пример термин слово фамилия город страна год день время  name call called type kind sort part "
    "number amount percentage way reason cause purpose role place person people  event happen happened occur "
    "become became led lead result mean means consider considered known use used make made  locate located refer "
    "referred say said begin began start give gave example term word title year day time city country  group "
    "thing many several main"
    " today tomorrow yesterday yet still now current currently nowadays сегодня завтра вчера"
    " нынче нынешний текущий актуальный тот та те каким какими будут буду будем get gets got one"
    " cost costs price prices стоит стоить стоят стоила стоило цена цены обойдется"
).split()


@cache
def _list_asking_stems() -> frozenset[str]:  # not at import: they need the dictionary
    return frozenset(map(stem, _ASKING_WORDS))


_ASKING_WEIGHT = 0.3
# Terms of a question up to which variants have their full weight, and from which they have none: on XQuAD, with seven
# terms on average, variants at full weight lost 2 points at rank 1.
_FULL_WEIGHT_TERMS, _NO_VARIANT_TERMS = 3, 6
_LEAST_TRANSLATION_FACTOR = 0.5  # of a translation, however many terms there are
_ALIAS_WEIGHT = 0.8  # of another name, as of a translation
_UNKNOWN_TERM = "\0"  # no term of any index


@lru_cache(maxsize=20_000)
def is_asking_word(word: str) -> bool:
    """Whether a word only names the kind of answer that is asked for."""
    terms = tokenize(word)
    return bool(terms) and _list_asking_stems().issuperset(terms)


# Beginnings of Russian compounds, whose second part may stand alone in a post: "главврач", "авиабилет", "микрочип".
_COMBINING_FORM = re.compile(
    r"(?:авиа|авто|агро|аква|био|вело|ветеринар|вет|видео|газо|глав|гос|дет|евро|зам|зоо|инфо|кино|мед|микро|мини|мото|мульти|"
    r"онлайн|пол|проф|радио|само|санит|спец|спорт|стом|супер|теле|тур|физ|фото|хоз|экспресс|электро)(?=[а-я]{3})"
)


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Query terms with weights: each term's share of the total weight; the shares add up to 1.

    `variants`: synonyms and translations of each term, with weights 0..1, and of phrases, which are no terms.
    """

    text: str
    order: tuple[str, ...]
    share: dict[str, float]
    want: AnswerType
    variants: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, text: str, weigh: TermWeight, aliases: Iterable[tuple[str, str]] = ()) -> QueryTerms:
        """Build from the text of the question, the term weights of the index, and (term, other name)."""
        order, variants = tuple(tokenize(text)), {term: {**found} for term, found in expand_words(text).items()}
        want, asking = detect_answer_type(text)
        asking |= _list_asking_stems()
        for term, name in aliases:
            variants.setdefault(term, {})[name] = _ALIAS_WEIGHT
        unknown = weigh(_UNKNOWN_TERM)
        weights = {}
        for term in dict.fromkeys(order):
            weight = weigh(term)
            if weight >= unknown:  # no post has it: it matters as much as its rarest variant that one has
                first = _COMBINING_FORM.match(term)
                if first and weigh(head := term[first.end() :]) < unknown:
                    variants.setdefault(term, {}).setdefault(head, SYNONYM_WEIGHT)
                known = (other for variant in variants.get(term, ()) if (other := weigh(variant)) < unknown)
                weight = max(known, default=weight)
            weights[term] = weight * (_ASKING_WEIGHT if term in asking else 1.0)
        total = sum(weights.values()) or 1.0
        shares = {term: weight / total for term, weight in weights.items()}
        return cls(text, order, shares, want, variants)

    def matched_share(self, found: frozenset[str]) -> float:
        """Weight share of the question's terms that are among the found terms; variants count by their weights."""
        covered = 0.0
        for term, share in self.share.items():
            if term in found:
                covered += share
            elif (near := self.variants.get(term)) and not found.isdisjoint(near):
                covered += share * max(weight for variant, weight in near.items() if variant in found)
        return covered

    def similar_share(self, found: frozenset[str]) -> float:
        """Weight share that similar stems cover beyond what `matched_share` counts, in proportion to their similarity."""
        covered = 0.0
        for term, share in self.share.items():
            if term not in found:
                variants = self.variants.get(term, {}).items()
                credit = max((weight for variant, weight in variants if variant in found), default=0.0)
                covered += share * max(0.0, measure_stem_similarity(term, found) - credit)
        return covered

    def weigh_variants(self) -> dict[str, dict[str, float]]:
        """Variants for the lexical search. A long question has words enough of its own: its variants weigh less.

        A post in the other language has no other word of it: half the weight of translations stays.
        """
        spare = (_NO_VARIANT_TERMS - len(self.share)) / (_NO_VARIANT_TERMS - _FULL_WEIGHT_TERMS)
        synonym_factor = min(1.0, max(0.0, spare))
        translation_factor = max(synonym_factor, _LEAST_TRANSLATION_FACTOR)
        weighed: dict[str, dict[str, float]] = {term: {} for term in self.variants}
        for term, found in self.variants.items():
            for variant, weight in found.items():
                is_translation = variant.isascii() != term.isascii() and variant not in _ANNOTATIONS
                if factor := translation_factor if is_translation else synonym_factor:
                    weighed[term][variant] = weight * factor
        return weighed
