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


_MONTH_STEMS = (
    ("январ", "january"), ("феврал", "february"), ("март", "march"), ("апрел", "april"), ("ма[йяе]", "may"),
    ("июн", "june"), ("июл", "july"), ("август", "august"), ("сентябр", "september"), ("октябр", "october"),
    ("ноябр", "november"), ("декабр", "december"),
)  # fmt: skip
_MONTH = "|".join(f"(?P<m{i}>{ru}\\w*|{en})" for i, (ru, en) in enumerate(_MONTH_STEMS, 1))
_IN = r"(?:в|во|за|in|during|for)"
_YEAR = r"(?P<year>20\d\d)"
_UNIT = r"(?P<unit>год\w*|месяц\w*|недел\w+|year|month|week)"
_THIS = r"(?P<this>эт\w+|текущ\w+|this)"
_PAST = r"(?P<past>прошл\w+|предыдущ\w+|last|previous)"


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
    (re.compile(rf"\b{_IN}\s+{_YEAR}(?:\s*(?:году|год|г\.))?(?!\w)"), _year),
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
