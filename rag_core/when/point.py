"""A time found in a text, and the pieces that the patterns of several kinds of times share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from rag_core.when.days import Days, latest
from rag_core.when.lexicon import DAY_NUMBER, MONTH, MONTH_SHORT, WEEKDAY_SHORT, YEAR

__all__ = [
    "D2",
    "MS",
    "OF",
    "OF_YEAR",
    "PART",
    "PAST",
    "THE",
    "THIS",
    "TO",
    "WEEKDAY_FIRST",
    "D",
    "M",
    "Match",
    "Point",
    "Rule",
    "Y",
    "calendar",
    "century",
]


@dataclass(frozen=True, slots=True)
class Point:
    """A time found in a text at [at:to]: `read(today)` gives its days, None where there are none.

    `fields` are (year, month, day) of a calendar date, so that a neighbour can lend a missing year. `needs` says
    what must stand before it to be one at all: "в марте" is a time, "март" may be a café; "" for nothing.
    """

    at: int
    to: int
    read: Callable[[date], Days | None]
    fields: tuple[int | None, int | None, int | None] | None = None
    needs: str = ""
    slack: int = 0
    pair: bool = False  # holds its own beginning and end
    recent: bool = False  # counts back from today


OF_YEAR = r"(?:\s*(?:г(?:ода|оду|од|\.)?|year)(?!\w))?"  # "2023 г."
OF = r"(?:\s*(?:of|the|,|-|/)\s*|\s+)"
WEEKDAY_FIRST = rf"(?:{WEEKDAY_SHORT}[\s,]*)?"
THE = r"(?:the\s+)?"
Y = rf"(?P<y>{YEAR})"
D, D2 = rf"(?P<d>{DAY_NUMBER})", rf"(?P<d2>{DAY_NUMBER})"
M, MS = rf"(?P<m>{MONTH})", rf"(?P<m>{MONTH_SHORT})"
TO = r"\s*(?:по|до|-|–|—|to|through|thru|until|till|and|и)\s*(?:the\s+)?"
THIS = r"(?P<this>эт(?:от|ого|ому|им|ом|а|ой|у|и|их|о)|текущ(?:ий|его|ем|ая|ей|ую)|нынешн(?:ий|его|ем|яя|ей|юю)|this|current|that(?: one)?)"
PAST = (
    r"(?P<past>(?:поза)?прошл(?:ый|ого|ым|ом|ая|ой|ую|ые|ых|ое)|предыдущ(?:ий|его|ем|ая|ей|ую|ие|их)|"
    r"последн(?:ий|его|ем|яя|ей|юю|ие|их)|last|previous|past)"
)
PART = (
    r"(?P<part>начал(?:о|а|е|у)|середин(?:а|ы|е|у)|кон(?:ец|ца|це|цу)|(?:the )?(?:beginning|start|middle|end) of(?: the)?|"
    r"early|mid|late|later|earlier)"
)
Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[[Match], Point | None]]


def calendar(found: Match, y: int | None, m: int | None, d: int | None, needs: str = "") -> Point:
    """A date, month or year; what is None is missing."""
    return Point(found.start(), found.end(), lambda today: latest(y, m, d, today), (y, m, d), needs)


def century(yy: int, today: date) -> int:
    """The year of two figures that is not to come; others as they are."""
    return yy if yy > 99 else yy + (2000 if yy <= today.year % 100 else 1900)
