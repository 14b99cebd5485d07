"""Lexicon and tokenizer of dates in lower-case texts without ё: month names, units, numbers, numeric dates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from rag_core.dates.calendar_arithmetic import DateRange, Recurrence
from rag_core.text.numbers import CARDINALS, ORDINAL_ENDINGS_RU, ORDINAL_STEMS_RU, ORDINALS, ORDINALS_EN
from rag_core.text.tokens import CYRILLIC

_SOFT_ENDINGS, _HARD_ENDINGS = "ь я е ю ем", " а е у ом"  # whole words: "в Мартышкино" is not a month
_MONTH_STEMS = (
    ("январ", "january", "янв jan"), ("феврал", "february", "февр фев feb"), ("март", "march", "мар mar"),
    ("апрел", "april", "апр apr"), ("ма", "may", ""), ("июн", "june", "июн jun"), ("июл", "july", "июл jul"),
    ("август", "august", "авг aug"), ("сентябр", "september", "сент сен sept sep"), ("октябр", "october", "окт oct"),
    ("ноябр", "november", "нояб ноя nov"), ("декабр", "december", "дек dec"),
)  # fmt: skip


def _inflect(stem: str, endings: str) -> list[str]:
    return [stem + ending for ending in endings.split(" ")]


_MONTH_FORMS = [
    [*_inflect(ru, "й я е ю ем" if ru == "ма" else _HARD_ENDINGS if ru[-1] == "т" else _SOFT_ENDINGS), en]
    for ru, en, _ in _MONTH_STEMS
]
MONTH = "(?:" + "|".join(word for forms in _MONTH_FORMS for word in sorted(forms, key=len, reverse=True)) + ")"
# Only next to a day or a year: "mar" and "сен" alone are other words.
MONTH_SHORT = f"(?:{MONTH}|(?:{'|'.join(w for *_, short in _MONTH_STEMS for w in short.split())})\\b\\.?)"
_MONTH_NUMBERS = {
    word: number
    for number, (forms, (*_, short)) in enumerate(zip(_MONTH_FORMS, _MONTH_STEMS, strict=True), 1)
    for word in (*forms, *short.split())
}

_WEEKDAYS = (
    ("понедельник понедельника понедельнику понедельником понедельнике monday mondays", "пнд пн mon"),
    ("вторник вторника вторнику вторником вторнике tuesday tuesdays", "втр вт tues tue"),
    ("среда среду среды среде средой wednesday wednesdays", "срд ср wed"),
    ("четверг четверга четвергу четвергом четверге thursday thursdays", "чтв чт thurs thur thu"),
    ("пятница пятницу пятницы пятнице пятницей friday fridays", "птн пт fri"),
    ("суббота субботу субботы субботе субботой saturday saturdays", "сбт сб sat"),
    ("воскресенье воскресенья воскресенью воскресеньем sunday sundays", "вск вс sun"),
)
_UNITS = {
    "day": "day days день дня дней дни дню днем днями днях сутки суток",
    "week": "week weeks wk wks неделя недели неделе неделю недель неделей неделями нед",
    "month": "month months mth mths месяц месяца месяцу месяцем месяце месяцев месяцы",
    "quarter": "quarter quarters qtr qtrs квартал квартала кварталу кварталом квартале кварталов кварталы кв",
    "half": "полугодие полугодия полугодии полугодию полугодием полугодий",
    "year": "year years yr yrs год года году годом годе годы годов годах годам лет",
    "decade": "decade decades десятилетие десятилетия десятилетии десятилетий десятилетию",
    "hour": "hour hours час часа часов",
    "fortnight": "fortnight fortnights",
}
_SEASONS = {12: "winter зима зиму зимы зимой зиме", 3: "spring весна весну весны весной весне",
            6: "summer лето летом лета", 9: "autumn fall осень осени осенью"}  # fmt: skip
_ADJECTIVE = "ый ого ому ым ом ая ой ую ые ых ыми ое"
_HUSHING_ADJECTIVE = "ий его ему ем ая ей ую ие их ее"
_SOFT_ADJECTIVE = "ий его ему им ем яя ей юю ие их ими ее"
_DIRECTIONS = {
    "this": ["этот", "этого", "этому", "этим", "этом", "эта", "этой", "эту", "эти", "этих", "это", "this", "current",
             *_inflect("текущ", _HUSHING_ADJECTIVE), *_inflect("нынешн", _SOFT_ADJECTIVE)],
    "last": ["last", "previous", *_inflect("прошл", _ADJECTIVE), *_inflect("предыдущ", _HUSHING_ADJECTIVE)],
    "before last": _inflect("позапрошл", _ADJECTIVE),
    "past": ["past", *_inflect("минувш", _HUSHING_ADJECTIVE), *_inflect("прошедш", _HUSHING_ADJECTIVE)],
    "latest": _inflect("последн", _SOFT_ADJECTIVE),
    "next": ["next", "upcoming", "coming", "след", *_inflect("следующ", _HUSHING_ADJECTIVE),
             *_inflect("следущ", _HUSHING_ADJECTIVE), *_inflect("будущ", _HUSHING_ADJECTIVE), *_inflect("ближайш", _HUSHING_ADJECTIVE)],
    "that": ["тот", "том", "той", "ту", "те", "тех", "that"],
}  # fmt: skip
_PARTS = {
    "start": "начало начала начале началу beginning start early", "middle": "середина середины середине середину middle mid",
    "end": "конец конца конце концу end late", "earlier": "earlier", "later": "later",
}  # fmt: skip
_DAY_OFFSETS = {0: "сегодня седня today", -1: "вчера yesterday", -2: "позавчера", -3: "позапозавчера", 1: "завтра tomorrow tmrw tmr tomoro",
                2: "послезавтра"}  # fmt: skip
_DAY_ADJECTIVES = {0: "сегодняшн", -1: "вчерашн", -2: "позавчерашн", 1: "завтрашн"}
_ARTICLES_AND_COUNTS = {1: "a an", 2: "couple двух пару пара", 3: "few several несколько"}
_DECADES = {20: "twenties", 30: "thirties", 40: "forties", 50: "fifties", 60: "sixties", 70: "seventies",
            80: "eighties", 90: "nineties", 100: "noughties aughts нулевые нулевых"}  # fmt: skip

_DAY_STEMS_RU = sorted((stem for n, stem in ORDINAL_STEMS_RU.items() if n <= 30), key=len, reverse=True)
_ORDINAL_WORDS = (
    rf"(?:двадцать |тридцать )?(?:{'|'.join(_DAY_STEMS_RU)})(?:{'|'.join(ORDINAL_ENDINGS_RU)})|"
    rf"(?:twenty|thirty)[- ](?:{'|'.join(ORDINALS_EN[:9])})|{'|'.join(sorted(ORDINALS_EN, key=len, reverse=True))}|thirtieth"
)
_ORDINAL_SUFFIX = r"(?:-?(?:ое|ого|его|ему|ому|го|му|ым|ое|е|й|я)(?![а-я])|(?:st|nd|rd|th)\b)"
DAY_AFTER = rf"(?:(?:[12]\d|3[01]|0?[1-9]){_ORDINAL_SUFFIX}?(?!\d)|{_ORDINAL_WORDS})"  # after a month


def parse_month(word: str) -> int:
    """Parse a month name to 1..12."""
    return _MONTH_NUMBERS[word.rstrip(".")]


def parse_day_number(word: str) -> int:
    """Parse a day number, 1..31, from figures with or without an ending, or from an ordinal in words."""
    if figures := re.match(r"\d+", word):
        return int(figures[0])
    tens, _, last = word.replace("-", " ").rpartition(" ")
    return {"": 0, "двадцать": 20, "twenty": 20}.get(tens, 30) + ORDINALS[last]


@dataclass(frozen=True, slots=True)
class DateToken:
    """Token at [start:end] of a text; `kind` "" is any other word or sign.

    `value` depends on the kind: a number, the name of a unit or direction, the (year, month, day) of a numeric date.
    `short`: an abbreviation, or an article as a number.
    """

    kind: str
    value: object
    start: int
    end: int
    text: str
    short: bool = False


_OTHER_WORDS: dict[tuple[str, object], str] = {
    ("", None): "понедельникам вторникам четвергам пятницам субботам воскресеньям",  # no misspelt "вторником"
    ("weekend", None): "weekend weekends выходные выходных выходным выходными выхи выхах выхам викенд уикенд уикенда",
    ("half", None): "half половина половине половину половины половиной",
    ("half a year", None): "полгода",
    ("of last year", None): " ".join(_inflect("прошлогодн", _SOFT_ADJECTIVE)),
    ("century", None): "century centuries век века веке веку столетие столетия столетии",
    ("clock", "day"): "утро утром утра morning afternoon днем вечер вечером вечера evening tonight ночи",
    ("clock", "night"): "night ночью ночь",
    ("ago", None): "ago back назад",
    ("numbers of a month", None): "числа число числах числам",
    ("moment", None): "now present",
    ("new year", None): "new нового новым",
    ("other", None): "other",
    ("holiday", (12, 25, 1)): "christmas xmas",  # month, first day, days
    ("holiday", (1, 7, 1)): "рождество рождества рождеству рождеством рождестве",
    ("holiday", (10, 31, 1)): "halloween хэллоуин хэллоуина хэллоуину хэллоуином хэллоуине",
    ("holiday", (5, 1, 11)): "майские майских",
    ("holiday", (1, 1, 8)): "новогодние новогодних",
}
_GLUE_WORDS = "под the of in on at за в во на по до к и and to through thru until till from с со через тому now hence"


def _build_lexicon() -> dict[str, tuple[str, object, bool]]:
    months = zip(_MONTH_FORMS, (short for *_, short in _MONTH_STEMS), strict=True)
    rows: list[tuple[str, object, str, bool]] = []
    for kind, named in (("month", enumerate(((" ".join(full), short) for full, short in months), 1)),
                        ("weekday", enumerate(_WEEKDAYS))):  # fmt: skip
        for n, (full, short) in named:
            rows += [(kind, n, full, False), (kind, n, short, True)]
    tables: dict[str, dict[Any, str]] = {"unit": _UNITS, "season": _SEASONS, "part": _PARTS, "day": _DAY_OFFSETS,
                                         "direction": {k: " ".join(v) for k, v in _DIRECTIONS.items()}}  # fmt: skip
    rows += [(kind, value, words, False) for kind, table in tables.items() for value, words in table.items()]
    rows += [("day", n, " ".join(_inflect(stem, _SOFT_ADJECTIVE)), False) for n, stem in _DAY_ADJECTIVES.items()]
    rows += [("cardinal", n, words, n == 1) for n, words in _ARTICLES_AND_COUNTS.items()]
    rows += [("cardinal", int(n), word, n == 1) for word, n in CARDINALS.items() if n.is_integer() and 1 <= n <= 100]
    rows += [("ordinal", n, word, False) for word, n in ORDINALS.items()]
    for n, words in _DECADES.items():
        plural = _inflect(ORDINAL_STEMS_RU[n], "ые ых ым ыми") if n < 100 else []
        rows.append(("decade", 1900 + n, " ".join([words, *plural]), False))
    rows += [(kind, value, words, False) for (kind, value), words in _OTHER_WORDS.items()]
    rows += [(word, None, word, False) for word in _GLUE_WORDS.split()]
    # the first meaning of a word wins
    return {word: (kind, value, short) for kind, value, words, short in reversed(rows) for word in words.split()}


_LEXICON = _build_lexicon()
_MIN_TYPO_LENGTH, _MAX_TYPO_LENGTH = 6, 15  # characters: a shorter word is another word as often as a typo


def _delete_letters(word: str) -> list[str]:
    return [word, *(word[:n] + word[n + 1 :] for n in range(1, len(word) - 1))]


_TYPO_TARGETS = {
    key: word
    for word, (kind, *_) in _LEXICON.items()
    if kind in {"month", "weekday", "day", "unit"} and len(word) >= _MIN_TYPO_LENGTH
    for key in _delete_letters(word)
}


_ROMAN_NUMERALS = {w: n for n, w in enumerate("i ii iii iv".split(), 1)} | {
    w: n for n, w in enumerate("xi xii xiii xiv xv xvi xvii xviii xix xx xxi".split(), 11)
}
_YEAR, _M, _D = r"(?P<y{}>(?:19|20)\d\d)", r"(?P<m{}>1[0-2]|0?[1-9])", r"(?P<d{}>3[01]|[12]\d|0?[1-9])"
_A, _B = r"(?P<a{}>3[01]|[12]\d|0?[1-9])", r"(?P<b{}>3[01]|[12]\d|0?[1-9])"
_NUMERIC_PATTERNS = (
    rf"{_YEAR}[-/.]{_M}[-/.]{_D}(?!\d)",
    rf"{_YEAR}(?P<m{{0}}>1[0-2]|0[1-9])(?P<d{{0}}>3[01]|[12]\d|0[1-9])(?!\d)",
    rf"{_YEAR}[-/]{_M}(?![\d/]|-\d)",
    rf"{_M}[/.]{_YEAR}(?![\d/]|-\d\d?-)",
    rf"{_A}\.\s?(?P<b{{0}}>1[0-2]|0?[1-9])\.\s?(?P<y{{0}}>(?:19|20)?\d\d)(?![\d.]\d|\d)",
    rf"{_A}(?P<slash{{0}}>[/-]){_B}[/-](?P<y{{0}}>(?:19|20)\d\d|\d\d(?![/-]))(?![\d/])",
    rf"{_A}\.(?P<b{{0}}>1[0-2]|0[1-9])(?P<dot{{0}}>\.)?(?![\d.%]|\s*(?:%|проц|руб|тыс|млн|кг|км))",
    rf"(?!24/7\b){_A}\s?(?P<slash{{0}}>/)\s?{_B}(?![\d/]|-\d+-\d)",
)
_TOKEN = re.compile(
    r"(?<![\d./])(?:"
    + "|".join(f"(?P<date{n}>{p.replace('{0}', '{}').replace('{}', str(n))})" for n, p in enumerate(_NUMERIC_PATTERNS))
    + ")"
    rf"|(?P<decade>(?:(?:1[5-9]|20)\d|[2-9])0(?:\s?'?s\b|-?[ехы]х?\b(?!\s+числ)))"
    rf"|(?P<number>\d+)(?P<ordinal>{_ORDINAL_SUFFIX})?|'(?P<short_year>\d\d)\b"
    r"|(?P<quarter>\b(?P<size>[qh])(?P<nth>[1-4])\b)|(?P<word>[^\W\d_]+)|(?P<sign>[^\w\s]|_)"
)


def _build_token(found: re.Match[str], cyrillic: bool) -> DateToken:
    at, text = found.span(), found[0]
    if word := found["word"]:
        if word not in _LEXICON and _MIN_TYPO_LENGTH <= len(word) <= _MAX_TYPO_LENGTH:
            # one letter inside it may be wrong, missing, doubled or misplaced; endings are not touched
            targets = (_TYPO_TARGETS.get(key, "") for key in _delete_letters(word))
            near = (one for one in targets if one[-1:] == word[-1] and abs(len(one) - len(word)) <= 1)
            word = next(near, word)
        roman = ("roman", _ROMAN_NUMERALS[word], False) if word in _ROMAN_NUMERALS else ("", None, False)
        kind, value, short = _LEXICON.get(word, roman)
        return DateToken(kind, value, *at, text, short)
    if found["number"]:
        return DateToken("ordinal" if found["ordinal"] else "number", int(found["number"][:9]), *at, text)
    if found["sign"]:
        return DateToken("-" if text in "-–—" else text, None, *at, text)
    if found["short_year"]:
        return DateToken("short year", int(found["short_year"]), *at, text)
    if found["quarter"]:
        return DateToken("quarter", (3 if found["size"] == "q" else 6, int(found["nth"])), *at, text)
    if found["decade"]:
        first = int(re.match(r"\d+", text)[0])  # type: ignore[index]
        return DateToken("decade", first + 1900 if first < 100 else first, *at, text)
    named = found.groupdict().items()
    parts = {key.rstrip("0123456789"): value for key, value in named if value and key[-1].isdecimal()}
    number = {key: int(value) for key, value in parts.items() if value.isdecimal() and key in "abymd"}
    if "a" in number:
        a, b = number["a"], number["b"]
        month_first = a <= 12 and (("slash" in parts and not cyrillic) or b > 12)
        number["m"], number["d"] = (a, b) if month_first else (b, a)
    if number["m"] > 12:  # "15/15"
        return DateToken("", None, *at, text)
    # "10.1" is a number, "03.05" hardly
    sure = "y" in number or "dot" in parts or found[0].startswith("0")
    return DateToken("date", (number.get("y"), number["m"], number.get("d")), *at, text, not sure)


# Places called by a date: "площадь 1905 года", "улица Восьмого Марта".
_PLACE_NOUNS = {
    *"улица улице улицы улицу ул площадь площади пл проспект проспекте переулок бульвар бульваре сквер сквере".split(),
    *"парк парке станция станции метро набережная имени street square avenue station".split(),
}


@dataclass(frozen=True, slots=True)
class DateMatch:
    """Date expression at [at:to] of a text: `read(today)` gives its range, None for an impossible date.

    `end` is the number of the token after it. `fields` are (year, month, day) of a calendar date, so that a missing
    year can be taken from the other end of a range. `needs` names the words required before it: "в марте" is a date,
    "март" may be a café; "" requires none. `recurrence` is set where another range can hold it: "May of last year".
    """

    at: int
    to: int
    end: int
    read: Callable[[date], DateRange | None]
    fields: tuple[int | None, int | None, int | None] | None = None
    needs: str = ""
    slack: int = 0
    pair: bool = False  # a range by itself, with beginning and end
    recurrence: Recurrence | None = None
    holds: bool = False  # a unit or a year, in which recurring dates lie


class TokenReader:
    """Reader of one text. Each method reads what begins at token `i`, or gives None; depth counts nested expressions."""

    def __init__(self, text: str) -> None:
        cyrillic = bool(CYRILLIC.search(text))
        self.text, self.tokens = text, [_build_token(found, cyrillic) for found in _TOKEN.finditer(text)]

    def kind(self, i: int) -> str:
        """Kind of a token; "place" is a noun of places that are called by dates, "end" is outside of the text."""
        if not 0 <= i < len(self.tokens):
            return "end"
        token = self.tokens[i]
        return token.kind or ("place" if token.text in _PLACE_NOUNS else "")

    def value(self, i: int) -> Any:
        """Value of a token; None outside of the text."""
        return self.tokens[i].value if 0 <= i < len(self.tokens) else None

    def word(self, i: int) -> str:
        """Text of a token; empty outside of the text."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def glued(self, i: int) -> bool:
        """Whether a token touches the one before it."""
        return 0 < i < len(self.tokens) and self.tokens[i - 1].end == self.tokens[i].start

    def skip(self, i: int, *kinds: str) -> int:
        """Skip up to three tokens of these kinds."""
        for _ in range(3):
            i += self.kind(i) in kinds
        return i

    def match(self, i: int, end: int, read: Callable[[date], DateRange | None], **more: Any) -> DateMatch:
        """Build the match of the tokens from `i` to before `end`."""
        return DateMatch(self.tokens[i].start, self.tokens[end - 1].end, end, read, **more)

    def recurring(self, i: int, end: int, recurrence: Recurrence, **more: Any) -> DateMatch:
        """Build the match of a recurring date, by itself the latest that has begun."""
        return self.match(i, end, recurrence.find_latest, recurrence=recurrence, **more)

    def number(self, i: int) -> tuple[int, bool, int] | None:
        """Number in figures or words: its value, whether it is an ordinal, and the token after it."""
        kind, value = self.kind(i), self.value(i)
        if kind in {"number", "ordinal"}:
            return value, kind == "ordinal", i + 1
        if kind != "cardinal":
            return None
        if self.tokens[i].short and self.kind(i + 1) == "cardinal":  # "a few", "a couple of"
            i, value = i + 1, self.value(i + 1)
        end = self.skip(i + 1, "of") if self.word(i) == "couple" else i + 1
        after = end + (self.kind(end) == "-" and self.glued(end))
        if value in range(20, 100) and self.kind(after) in {"cardinal", "ordinal"} and self.value(after) < 10:
            return value + self.value(after), self.kind(after) == "ordinal", after + 1
        return value, False, end

    def day(self, i: int) -> tuple[int, int] | None:
        """Day of a month: 5, 5th, fifth; and the token after it."""
        found = self.number(i)
        if self.glued(i) and self.kind(i - 1) in {".", ","} and self.glued(i - 1):
            return None  # "6,107.31 August"
        if not found or (self.kind(i) == "cardinal" and not found[1]):
            return None
        return (found[0], found[2]) if 1 <= found[0] <= 31 else None

    def year(self, i: int) -> tuple[int, int, bool] | None:
        """Year in figures or words, the token after it, and whether a word says that it is a year."""
        found = self._year_number(i)
        if not found:
            return None
        year, end = found
        if self.kind(end) == "unit" and self.value(end) == "year" and self.word(end).startswith(("г", "y")):
            return year, end + 1, True
        if self.word(end) == "г":
            return year, end + 1 + (self.word(end + 1) == "."), True
        return (year, end, False) if year > 99 or self.kind(i) == "short year" else None

    def _year_number(self, i: int) -> tuple[int, int] | None:
        kind, value, word = self.kind(i), self.value(i), self.word(i)
        if kind == "short year":
            return value, i + 1
        if kind in {"number", "ordinal"} and len(str(value)) == 4:
            return (value, i + 1) if 1800 <= value < 2100 else None
        # "24-го года" and "в 98 году", but "24 года" and "5 лет" are counts
        after = self.word(i + 1)
        if kind == "ordinal" and word[:2].isdecimal() and "-" in word and value < 100:
            return value, i + 1
        two = kind == "number" and len(word) == 2
        if two and (after == "году" or (after == "года" and value % 10 not in {2, 3, 4})):
            return value, i + 1
        if word in {"two", "две"} and after in {"thousand", "тысячи"}:
            rest = self.number(self.skip(i + 2, "and"))
            return (2000 + rest[0], rest[2]) if rest and rest[0] < 100 else None
        if word == "тысяча" and after == "девятьсот":
            rest = self.number(i + 2)
            return (1900 + rest[0], rest[2]) if rest and rest[0] < 100 else None
        century = kind == "cardinal" and value in {19, 20} and not word.startswith(("д", "о"))
        if century and (rest := self.number(i + 1)):
            return (value * 100 + rest[0], rest[2]) if 10 <= rest[0] < 100 and self.kind(i + 1) == "cardinal" else None
        # "в девяносто восьмом году"
        if (found := self.number(i)) and found[1] and 10 < found[0] < 100 and kind == "cardinal":
            return (found[0], found[2]) if self.word(found[2]).startswith("год") else None
        return (2000, i + 1) if value == 2000 and kind == "ordinal" else None

    def _trailing_year(self, i: int) -> tuple[int | None, int]:
        at = self.skip(i, ",", "of", "in", "-", "/")
        if found := self.year(at):
            return found[:2]
        two = self.kind(i) == "number" and len(self.word(i)) == 2
        dated = two and self.kind(i - 1) == "month" and self.kind(i - 2) in {"number", "ordinal", "-", "/"}
        if dated and self.kind(i + 1) not in {":", ".", "unit", "month"} and not self.glued(i):
            return self.value(i), i + 1  # "3 Aug 96"
        return None, i
