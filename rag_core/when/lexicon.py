"""The words of time, Russian and English, as patterns and what they mean. Texts are lower case, without ё."""

from __future__ import annotations

import re

__all__ = [
    "DAY_AFTER",
    "DAY_NUMBER",
    "MONTH",
    "MONTH_SHORT",
    "NUMBER",
    "SEASON",
    "UNIT",
    "WEEKDAY",
    "WEEKDAY_SHORT",
    "YEAR",
    "day_number",
    "month_of",
    "number_of",
    "season_of",
    "unit_of",
    "weekday_of",
    "year_of",
]

_SOFT, _HARD = "(?:ь|я|е|ю|ем)", "(?:а|е|у|ом)?"  # whole words: "в Мартышкино" is no month
_MONTHS = (
    (f"январ{_SOFT}|january", "янв|jan"), (f"феврал{_SOFT}|february", "февр|фев|feb"),
    (f"март{_HARD}|march", "мар|mar"), (f"апрел{_SOFT}|april", "апр|apr"), ("ма(?:й|я|е|ю|ем)|may", "may"),
    (f"июн{_SOFT}|june", "июн|jun"), (f"июл{_SOFT}|july", "июл|jul"), (f"август{_HARD}|august", "авг|aug"),
    (f"сентябр{_SOFT}|september", "сент|сен|sept|sep"), (f"октябр{_SOFT}|october", "окт|oct"),
    (f"ноябр{_SOFT}|november", "нояб|ноя|nov"), (f"декабр{_SOFT}|december", "дек|dec"),
)  # fmt: skip
MONTH = "(?:" + "|".join(full for full, _ in _MONTHS) + ")"
# Beside a day or a year only: "mar", "сен" alone are other words.
MONTH_SHORT = "(?:" + "|".join(f"{full}|(?:{short})\\b\\.?" for full, short in _MONTHS) + ")"
_MONTH_NUMBERS = [(re.compile(f"(?:{full}|{short})\\.?$"), n) for n, (full, short) in enumerate(_MONTHS, 1)]

_WEEKDAYS = (
    ("понедельник(?:а|у|ом|е)?|mondays?", "пнд|пн|mon"), ("вторник(?:а|у|ом|е)?|tuesdays?", "втр|вт|tues|tue"),
    ("сред(?:а|у|ы|е|ой)|wednesdays?", "срд|ср|wed"), ("четверг(?:а|у|ом|е)?|thursdays?", "чтв|чт|thurs|thur|thu"),
    ("пятниц(?:а|у|ы|е|ей)|fridays?", "птн|пт|fri"), ("суббот(?:а|у|ы|е|ой)|saturdays?", "сбт|сб|sat"),
    ("воскресень(?:е|я|ю|ем)|sundays?", "вск|вс|sun"),
)  # fmt: skip
WEEKDAY = "(?:" + "|".join(full for full, _ in _WEEKDAYS) + ")"
WEEKDAY_SHORT = "(?:" + "|".join(f"{full}|(?:{short})\\b\\.?" for full, short in _WEEKDAYS) + ")"
_WEEKDAY_NUMBERS = [(re.compile(f"(?:{full}|{short})\\.?$"), n) for n, (full, short) in enumerate(_WEEKDAYS)]

_UNITS = {
    "weekend": "weekends?|выходн(?:ые|ых|ым|ыми|ой)", "day": "days?|дн(?:я|ей|и|ю|ем|ями|ях)|день|сут(?:ки|ок)",
    "week": "weeks?|wks?|недел(?:я|и|е|ю|ь|ей|ями)", "month": "months?|mths?|месяц(?:а|у|ем|е|ев|ы)?",
    "quarter": "quarters?|qtrs?|квартал(?:а|у|ом|е|ов|ы)?", "half": "half[- ]years?|полугоди(?:е|я|и|ю|ем|й)",
    "year": "years?|yrs?|год(?:а|у|ом|е|ы|ов)?|лет", "decade": "decades?|десятилети(?:е|я|и|й|ю)",
}  # fmt: skip
UNIT = "(?:" + "|".join(_UNITS.values()) + ")"
_UNIT_NAMES = [(re.compile(f"(?:{pattern})$"), name) for name, pattern in _UNITS.items()]

_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9,
            "зим": 12, "весн": 3, "лет": 6, "осен": 9}  # fmt: skip
SEASON = "(?:winter|spring|summer|autumn|fall|зим(?:а|у|ы|ой)|весн(?:а|у|ы|ой)|лет(?:о|ом|а)|осен(?:ь|и|ью))"

_CARDINALS = {
    1: "one|an?|один|одну|одного|одна", 2: "two|a couple(?: of)?|couple(?: of)?|два|две|двух|пару|пара",
    3: "three|a few|few|several|три|трех|несколько", 4: "four|четыре|четырех", 5: "five|пять|пяти",
    6: "six|шесть|шести", 7: "seven|семь|семи", 8: "eight|восемь|восьми", 9: "nine|девять|девяти",
    10: "ten|десять|десяти", 11: "eleven|одиннадцать", 12: "twelve|двенадцать", 13: "thirteen", 14: "fourteen",
    15: "fifteen|пятнадцать", 18: "eighteen", 20: "twenty|двадцать|двадцати", 24: "twenty-four",
    30: "thirty|тридцать", 50: "fifty|пятьдесят", 100: "hundred|сто",
}  # fmt: skip
NUMBER = r"(?:\d{1,4}|" + "|".join(_CARDINALS.values()) + ")"
_CARDINAL_OF = {w: n for n, words in _CARDINALS.items() for w in words.replace("(?: of)?", "").split("|")}
_CARDINAL_OF |= {"an": 1, "a": 1}

_TEENS_RU = "одиннадцат двенадцат тринадцат четырнадцат пятнадцат шестнадцат семнадцат восемнадцат девятнадцат".split()
_RU = ["", "перв", "втор", "трет", "четверт", "пят", "шест", "седьм", "восьм", "девят", "десят", *_TEENS_RU, "двадцат"]
_EN = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_RU_END = "(?:ое|ого|ому|ым|ый|ая|ую|ой|ом|ье|ьего|ьему|ий|ья|ью|ей)"
_ORDINALS = (
    f"(?:двадцать |тридцать )?(?:{'|'.join(sorted(filter(None, _RU), key=len, reverse=True))}){_RU_END}|тридцат{_RU_END}|"
    f"(?:twenty|thirty)[- ](?:{'|'.join(_EN[:9])})|{'|'.join(sorted(_EN, key=len, reverse=True))}|thirtieth"
)
_SUFFIX = r"(?:-?(?:ое|ого|его|ему|ому|го|му|ым|ое|е|й|я)(?![а-я])|(?:st|nd|rd|th)\b)?"
DAY_AFTER = rf"(?:(?:[12]\d|3[01]|0?[1-9]){_SUFFIX}(?!\d)|{_ORDINALS})"  # where a month stands before it
DAY_NUMBER = rf"(?:(?<![\d.,:/-])(?:[12]\d|3[01]|0?[1-9]){_SUFFIX}(?!\d)|{_ORDINALS})"
YEAR = r"(?:(?:1[89]|20)\d\d(?!\d)|nineteen [a-z]+(?:[ -][a-z]+)?|two thousand(?: and)? [a-z]+(?:[ -][a-z]+)?)"


def month_of(word: str) -> int:
    """1..12."""
    return next(n for pattern, n in _MONTH_NUMBERS if pattern.match(word))


def weekday_of(word: str) -> int:
    """Monday is 0."""
    return next(n for pattern, n in _WEEKDAY_NUMBERS if pattern.match(word))


def unit_of(word: str) -> str:
    """day, week, weekend, month, quarter, half, year, decade."""
    return next(name for pattern, name in _UNIT_NAMES if pattern.match(word))


def season_of(word: str) -> int:
    """The month a season begins in."""
    return next(n for start, n in _SEASONS.items() if word.startswith(start))


def number_of(word: str) -> int:
    """A number in figures or words."""
    return int(word) if word.isdecimal() else _CARDINAL_OF[re.sub(r" of$", "", word)]


def day_number(word: str) -> int:
    """1..31, from figures with or without an ending, or from an ordinal in words."""
    if figures := re.match(r"\d+", word):
        return int(figures[0])
    tens = 20 if word.startswith(("двадцать ", "twenty")) else 30 if word.startswith(("тридца", "thirt")) else 0
    if word in {"twentieth", "thirtieth"} or (word.startswith("тридцат") and " " not in word):
        return 20 if word == "twentieth" else 30
    last = re.split(r"[ -]", word)[-1]
    if word in _EN:
        return _EN.index(word) + 1
    if tens and last in _EN:
        return tens + _EN.index(last) + 1
    stem = max((s for s in _RU if s and last.startswith(s)), key=len)
    return (tens if " " in word else 0) + _RU.index(stem)


_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}


def year_of(words: str) -> int | None:
    """A year in figures or in English words; None for words that are no number."""
    if words.isdecimal():
        return int(words)
    rest = [w for w in re.split(r"[ -]", words) if w != "and"]
    base, rest = (1900, rest[1:]) if rest[0] == "nineteen" else (2000, rest[2:])
    total = 0
    for word in rest:
        value = _TENS.get(word, _CARDINAL_OF.get(word))
        if value is None:
            return None
        total += value
    return base + total
