"""Times counted back from today: three weeks ago, за последние 2 дня, last month, yesterday."""

from __future__ import annotations

import re

from rag_core.when.days import Days
from rag_core.when.lexicon import (
    NUMBER,
    UNIT,
    number_of,
    unit_of,
)
from rag_core.when.point import (
    PART,
    PAST,
    THIS,
    Match,
    Point,
    Rule,
)
from rag_core.when.relative import ago, last_n, named

__all__ = ["RULES"]


_MANY = re.compile(r"(?:million|billion|thousand|hundred|млн|млрд|миллион\w*|миллиард\w*|тысяч\w*)\.?\s*$")


def _ago(found: Match) -> Point | None:
    if _MANY.search(found.string[: found.start()]):
        return None  # 66 million years
    n = number_of(found["n"]) if found["n"] else 1
    name = "week" if found["unit"].startswith("fortnight") else unit_of(found["unit"])
    n *= 2 if found["unit"].startswith("fortnight") else 1
    slack = {"week": 3, "month": 10, "quarter": 45, "half": 60, "year": 45, "decade": 400}.get(name, 0)
    return Point(found.start(), found.end(), lambda today: ago(n, name, today), slack=slack)


def _last_n(found: Match) -> Point:
    half = found["unit"] == "полгода"
    n, name = number_of(found["n"]) if found["n"] else 1, "half" if half else unit_of(found["unit"])
    return Point(found.start(), found.end(), lambda today: last_n(n, name, today))


def _half_ago(found: Match) -> Point:
    months = 6 if found["half"] == "полгода" else 18
    return Point(found.start(), found.end(), lambda today: ago(months, "month", today), slack=30)


def _named(found: Match) -> Point:
    parts, name = found.groupdict(), unit_of(found["unit"])
    if parts.get("working") and name == "week":
        name = "working week"
    past = parts.get("past") or ""
    by = -2 if past.startswith("поза") or parts.get("twice") else -1 if past else 0
    which = parts.get("part") or ""
    # "последний день Помпеи", "в последние годы жизни": the last ones of something, not of our days
    needs = "last" if past.startswith("последн") else ""
    return Point(found.start(), found.end(), lambda today: named(name, by, today, which), needs=needs)


def _near(found: Match) -> Point:
    back = {"поза": 2, "позапоза": 3, "the day before": 2, "day before": 2}.get((found["before"] or "").strip(), 1)
    return Point(found.start(), found.end(), lambda today: ago(back, "day", today))


def _today(found: Match) -> Point:
    return Point(found.start(), found.end(), lambda today: ago(0, "day", today))


def _now(found: Match) -> Point:
    return Point(found.start(), found.end(), lambda today: ago(0, "day", today), needs="range")


def _letter_ago(found: Match) -> Point:
    name = {"d": "day", "w": "week", "m": "month", "y": "year"}[found["unit"]]
    return Point(found.start(), found.end(), lambda today: ago(int(found["n"]), name, today))


def _before_last(found: Match) -> Point:
    return Point(found.start(), found.end(), lambda today: named(unit_of(found["unit"]), -2, today, ""))


RULES: tuple[Rule, ...] = (
    (re.compile(r"\b(?:tomorrow|завтра(?:шнего дня)?|now|сих пор|present)\b"), _now),
    (re.compile(rf"\b(?:(?P<n>{NUMBER})\s*)?(?P<unit>{UNIT}|fortnights?)\s+(?:тому\s+)?(?:ago|back|earlier|before (?:today|now)|назад)\b"), _ago),
    (re.compile(r"\b(?P<half>полгода|полтора года)\s+(?:тому\s+)?назад\b"), _half_ago),
    (re.compile(r"\bза\s+(?P<n>)(?:(?:все\s+)?(?:последн(?:ий|юю|ее)|прошедш(?:ий|ую|ее|ие))\s+)?(?P<unit>день|сутки|неделю|месяц|квартал|"
        r"полугодие|год|полгода)(?!\s*\d|\w)"), _last_n),
    (re.compile(r"\b(?P<past>)(?:the\s+(?=weekend))?(?P<unit>выходны(?:е|х)|(?<=the )weekend)\b"), _named),
    (re.compile(r"\b(?P<n>\d{1,3})(?P<unit>d|w|m|y)\s+ago\b"), _letter_ago),
    (re.compile(rf"\b(?:{PAST}|the\s+(?:last|past|previous))\s+(?P<n>{NUMBER})\s+(?P<unit>{UNIT})\b"), _last_n),
    (re.compile(rf"\b(?:{PART}\s+)?(?:{THIS}|{PAST})\s*(?:(?:calendar|календарн\w+|(?P<working>working|рабоч\w+))\s+)?(?P<unit>{UNIT})\b(?!\s+of\b)"), _named),
    (re.compile(rf"\bthe (?P<unit>{UNIT}) before (?P<past>last)(?P<twice>)\b"), _before_last),
    (re.compile(r"\b(?P<before>(?:поза)+|(?:the )?day before )?(?:вчера|yesterday)\b"), _near),
    (re.compile(r"\b(?:сегодня|today|tonight)\b"), _today),
    (re.compile(r"\bthe day before(?=\W*$)"), lambda f: Point(f.start(), f.end(), lambda today: ago(1, "day", today))),
    (re.compile(r"\b(?:to|till) date\b"), lambda f: Point(f.start(), f.end(), lambda today: Days(None, today))),
)  # fmt: skip
