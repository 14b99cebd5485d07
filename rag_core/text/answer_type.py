"""Answer type of a question: a date, a number or a name; and a check whether a text contains one.

Rules for Russian and English. They rank candidates and never decide alone.
"""

from __future__ import annotations

import re
from enum import StrEnum

from rag_core.text.tokens import stem

__all__ = ["AnswerType", "contains_answer_type", "detect_answer_type", "extract_name_stems", "extract_numbers"]


class AnswerType(StrEnum):
    """Type of the expected answer."""

    DATE = "date"
    NUMBER = "number"
    NAME = "name"
    ANYTHING = "anything"


_ANSWER_TYPE_WORDS = (
    (AnswerType.DATE, r"when|(what|which) (year|date|day|month|century|decade)|what time|когда|как(ой|ого|ом|ому) "
                r"(год|числ|век|дн|месяц|дат|врем|час)\w*|как(ая|ую|ой) дат\w*|во сколько|до какого|с какого"),
    (AnswerType.NUMBER, r"how (many|much|old|long|far|tall|large|big|high|fast|often|deep|wide)|percentage|"
                  r"what (percent\w*|number|amount|price|cost|fee|fraction|share|population|size|length|height|speed)|"
                  r"сколько|скольк\w+|насколько|почем|какой (процент|размер|тариф|объем|счет|курс)|какое количество|"
                  r"как(ая|ова|ую|ой|ов) (част|дол|цен|стоимост|длин|высот|площад|численн|ширин|скорост|ставк|сумм|"
                  r"плат|зарплат|температур|вмест)\w*"),
    (AnswerType.NAME, r"who|whom|whose|where|кто|кого|кем|кому|чей|чья|чье|чьи|о ком|где|куда|откуда|"
                r"как (зовут|звали|назыв\w+)|"
                r"what('s| is| was| are| were)? the names?|(what|which) (city|country|state|town|region|river|place|"
                r"street|university|school|team|company|person|man|woman|king|queen|author|channel)|"
                r"как(ой|ая|ое|ом|ую|ие) (город|стран|штат|област|мест|район|регион|улиц|компани|команд|человек|школ|"
                r"университет|автор|канал|рек)\w*"),
)  # fmt: skip
_ANSWER_TYPE_PATTERNS = tuple((want, re.compile(rf"\b(?:{pattern})\b")) for want, pattern in _ANSWER_TYPE_WORDS)

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fifteen twenty thirty forty fifty sixty "
    "hundred thousand million billion half third twice dozen один одна одного два две двух три трех четыре четырех "
    "пять пяти шесть шести семь семи восемь восьми девять девяти десять десяти двенадцать пятнадцать двадцать тридцать "
    "сорок пятьдесят сто сотни тысяча тысячи тысяч миллион миллиона миллионов миллиард миллиарда миллиардов половина "
    "половину половины треть трети четверть дважды трижды двое трое полтора".split()
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
_DATE = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)\b|\b\d{{1,2}}[./]\d{{1,2}}\b|\b\d{{1,2}}:\d\d\b|\b(?:{_MONTHS}|{_WEEKDAYS})\b|"
    r"\b(?:век[аеу]?|century|centuries|decade)\b"
)
_NAME = re.compile(r"[^\W\d_][\w'’-]*")


def detect_answer_type(question: str) -> AnswerType:
    """Detect the expected answer type by the question's words."""
    asked = question.lower().replace("ё", "е")
    return next((want for want, pattern in _ANSWER_TYPE_PATTERNS if pattern.search(asked)), AnswerType.ANYTHING)


def extract_numbers(text: str) -> frozenset[str]:
    """Extract numbers written in figures, as strings."""
    return frozenset(_NUMBER.findall(text))


def extract_name_stems(text: str) -> frozenset[str]:
    """Extract stems of capitalized words that are not the first of a sentence."""
    words = list(_NAME.finditer(text))
    inner = (m for m in words if m[0][0].isupper() and len(m[0]) > 1 and not _begins_sentence(text, m.start()))
    return frozenset(filter(None, (stem(m[0].lower()) for m in inner)))


def _begins_sentence(text: str, at: int) -> bool:
    before = text[:at].rstrip(" \"'«“„(—–-\t")
    return not before or before[-1] in ".!?…\n"


def contains_answer_type(want: AnswerType, text: str, question: str) -> bool:
    """Whether the text contains the wanted type, beyond what the question already says."""
    if want is AnswerType.ANYTHING:
        return True
    low = text.lower().replace("ё", "е")
    asked = question.lower().replace("ё", "е")
    if want is AnswerType.DATE:
        return any(m[0] not in asked for m in _DATE.finditer(low))
    if want is AnswerType.NUMBER:
        numbers = {*extract_numbers(low), *(_NUMBER_WORDS & set(re.findall(r"\w+", low)))}
        return bool(numbers - {*extract_numbers(asked), *re.findall(r"\w+", asked)})
    stems = {stem(word) for word in re.findall(r"\w+", asked)}
    return bool(extract_name_stems(text) - stems)
