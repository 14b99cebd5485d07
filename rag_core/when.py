"""Words about time to a range of days: "в марте 2025", "last month", "вчера". Rules, Russian and English.

This searches the past: a bare month is the latest one that has begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["Period", "period"]


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, `until` exclusive, and the words of the question that say so."""

    since: datetime
    until: datetime
    words: str


_SOFT, _HARD = "(?:ь|я|е|ю|ем)", "(?:а|е|у|ом)?"  # whole words: "в Мартышкино" is no month
_MONTHS = (
    (f"январ{_SOFT}", "january"), (f"феврал{_SOFT}", "february"), (f"март{_HARD}", "march"),
    (f"апрел{_SOFT}", "april"), ("ма(?:й|я|е|ю|ем)", "may"), (f"июн{_SOFT}", "june"), (f"июл{_SOFT}", "july"),
    (f"август{_HARD}", "august"), (f"сентябр{_SOFT}", "september"), (f"октябр{_SOFT}", "october"),
    (f"ноябр{_SOFT}", "november"), (f"декабр{_SOFT}", "december"),
)  # fmt: skip
_MONTH = "|".join(f"(?P<m{i}>{ru}|{en})" for i, (ru, en) in enumerate(_MONTHS, 1))
_IN = r"(?:в|во|за|in|during|for)"
_IN_YEAR = r"(?:в|in|during|(?:за|for)(?=\s+\d+\s*(?:год|г\.|\W*$)))"  # "за 2000 рублей" is no year
_YEAR = r"(?P<year>20\d\d)"
_UNIT = r"(?P<unit>год(?:а|у|ом|е)?|месяц(?:а|у|ем|е)?|недел(?:я|и|е|ю|ей)|year|month|week)"
_THIS = r"(?P<this>эт(?:от|ого|ому|им|ом|а|ой|у)|текущ(?:ий|его|ем|ая|ей|ую)|this)"
_PAST = r"(?P<past>прошл(?:ый|ого|ым|ом|ая|ой|ую)|предыдущ(?:ий|его|ем|ая|ей|ую)|last|previous)"


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _month(found: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    month = next(i for i in range(1, 13) if found[f"m{i}"])
    year = int(found["year"]) if found["year"] else now.year - (month > now.month)
    since = _day(now).replace(year=year, month=month, day=1)
    return since, (since + timedelta(days=31)).replace(day=1)


def _year(found: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    since = _day(now).replace(year=int(found["year"]), month=1, day=1)
    return since, since.replace(year=since.year + 1)


def _relative(found: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    today, back = _day(now), 1 if found["past"] else 0
    if found["unit"].startswith(("год", "year")):
        since = today.replace(year=today.year - back, month=1, day=1)
        return since, since.replace(year=since.year + 1)
    if found["unit"].startswith(("месяц", "month")):
        since = today.replace(day=1)
        if back:
            since = (since - timedelta(days=1)).replace(day=1)
        return since, (since + timedelta(days=31)).replace(day=1)
    since = today - timedelta(days=today.weekday() + 7 * back)
    return since, since + timedelta(days=7)


def _today(found: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    since = _day(now) - timedelta(days=1 if found["yesterday"] else 0)
    return since, since + timedelta(days=1)


_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], tuple[datetime, datetime]]], ...] = (
    (re.compile(rf"\b{_IN}\s+(?:{_MONTH})(?:\s+(?:of\s+)?{_YEAR}(?:\s*г(?:ода|оду|\.)?)?)?(?!\w)"), _month),
    (re.compile(rf"\b{_IN_YEAR}\s+{_YEAR}(?:\s*(?:году|год|г\.))?(?!\w)"), _year),
    (re.compile(rf"\b(?:{_IN}\s+|на\s+)?(?:{_THIS}|{_PAST})\s+{_UNIT}\b"), _relative),
    (re.compile(r"\b(?:(?P<yesterday>вчера|yesterday)|сегодня|today)\b"), _today),
)  # fmt: skip


def period(text: str, now: datetime) -> Period | None:
    """The range of days the text speaks of, seen from `now`; None where it speaks of none."""
    low = text.lower().replace("ё", "е")
    for pattern, bounds in _RULES:
        if found := pattern.search(low):
            since, until = bounds(found, now)
            return Period(since, until, found[0])
    return None
