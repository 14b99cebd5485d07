"""Digest of a period for a reader: what is new, each event once, the events that most channels carry first.

An event is a family of copies among the posts that the reader may read, with the rewordings of other channels within
half a day. A line is the opening of the family's first post, in its own words; further posts about its subject within
a day are counted, not quoted. From the archive alone: no index is needed.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from rag_core.context.evidence import build_text_key, order_copies
from rag_core.retrieval.digest import choose_posts, find_opening
from rag_core.storage import Archive, posts
from rag_core.storage.near_duplicates import PostCopies, fetch_copies
from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Post, PostKey
from rag_core.writing.extract import announces_change

MAX_DIGEST_LINES = 10
_MAX_POSTS = 3000  # the newest of a period
_MIN_OPENING_LENGTH = 30  # characters: less is a greeting or a heading
_LEAD_TERMS, _MIN_LEAD_TERMS = 60, 5  # terms of a post's beginning that are compared
_MIN_SHARED_PAIRS, _REWORDED_WITHIN = 0.5, timedelta(hours=12)
_MAX_PAIR_POSTS = 50  # a pair of terms that more posts have tells nothing
_MAX_QUOTE_LENGTH = 180  # characters of a line
# Posts about one subject share so much of the shorter one's weight (inverse document frequency), and so much in all.
_MIN_SUBJECT_SHARE, _MIN_SUBJECT_WEIGHT, _SUBJECT_WITHIN = 0.42, 12.0, timedelta(hours=24)
_MIN_FREQUENCY_POSTS = 100  # fewer posts tell little of how rare a term is
_PERIODS = {"daily": 1, "ежедневно": 1, "weekly": 7, "еженедельно": 7}
_SCHEDULE = re.compile(rf"({'|'.join(_PERIODS)})(?:\s+(?:at\s+|в\s+)?(\d{{1,2}})(?::00)?)?(?:\s|$)", re.I)
_OFF_WORDS, _NOW_WORDS = frozenset({"off", "выкл", "stop", "стоп"}), frozenset({"now", "сейчас"})
_DEFAULT_HOUR = 9


@dataclass(frozen=True, slots=True)
class DigestSchedule:
    """Schedule of digests: every `days` days at `hour`; `rest` is what is written after it, such as channels."""

    days: int
    hour: int
    rest: str


def parse_digest_command(text: str) -> DigestSchedule | Literal["off", "now"] | None:
    """Parse "daily 9 @channel", "now" or "off"; None for another text."""
    if text.lower() in _OFF_WORDS:
        return "off"
    if text.lower() in _NOW_WORDS:
        return "now"
    found = _SCHEDULE.match(text)
    hour = int(found[2] or _DEFAULT_HOUR) if found else 24
    return DigestSchedule(_PERIODS[found[1].lower()], hour, text[found.end() :]) if found and hour < 24 else None


@dataclass(frozen=True, slots=True)
class DigestLine:
    """Line of a digest: a span of a post, the number of channels that carry it, and whether it announces a change.

    `related`: further posts about the same subject, which have no line; `heading`: of all of them, by a model.
    """

    post: Post
    start: int
    end: int
    channels: int
    changed: bool
    related: tuple[Post, ...] = ()
    heading: str = ""

    @property
    def quote(self) -> str:
        """The post's own words."""
        return self.post.text[self.start : self.end]


async def build_period_digest(
    archive: Archive, channels: Collection[int], since: datetime, until: datetime
) -> list[DigestLine]:
    """Build the digest of these channels; no line where nothing is new. Raises ArchiveUnavailable."""
    found = await posts.list_posts_between(archive, channels, since, until, _MAX_POSTS)
    copies = await fetch_copies(archive, [post.key for post in found], channels)
    return await asyncio.to_thread(_select_lines, found, copies)


def _select_lines(found: Sequence[Post], copies: Mapping[PostKey, PostCopies]) -> list[DigestLine]:
    families = _group_families(found, copies)
    carried = {family[0].key: len({post.key.chat_id for post in family}) for family in families}
    newest = {family[0].key: max(post.date for post in family) for family in families}
    firsts = sorted((family[0] for family in families), key=lambda post: (newest[post.key], post.key))
    shared = sorted(
        (post for post in firsts if carried[post.key] > 1), key=lambda post: (carried[post.key], newest[post.key])
    )
    single = choose_posts([post for post in firsts if carried[post.key] == 1], bounded=True)
    # a sentence of several events, such as a call to subscribe, says nothing about one
    spoken = Counter(
        key for post in firsts for key in {build_text_key(post.text[a:b]) for a, b in split_sentences(post.text)}
    )
    lines: list[DigestLine] = []
    subjects = _SubjectComparison(firsts)
    for post in [*reversed(shared), *single]:
        span = find_opening(post.text, spoken, _MAX_QUOTE_LENGTH)
        if not span or span[1] - span[0] < _MIN_OPENING_LENGTH:
            continue
        if not any(subjects.is_shared(post, line.post) for line in lines):
            lines.append(DigestLine(post, *span, carried[post.key], announces_change(post.text[slice(*span)])))
        if len(lines) == MAX_DIGEST_LINES:
            break
    return [
        replace(
            line,
            related=tuple(one for one in firsts if one.key != line.post.key and subjects.is_shared(one, line.post)),
        )
        for line in lines
    ]


class _SubjectComparison:
    """Comparison of posts of one period by the terms of their beginnings, weighted by inverse document frequency."""

    def __init__(self, found: Sequence[Post]) -> None:
        self._leads = {post.key: frozenset(tokenize(post.text)[:_LEAD_TERMS]) for post in found}
        frequency = Counter(term for lead in self._leads.values() for term in lead)
        total = max(len(found), _MIN_FREQUENCY_POSTS)
        self._weights = {term: math.log(total / count) for term, count in frequency.items()}

    def is_shared(self, one: Post, other: Post) -> bool:
        """Whether two posts are about one subject."""
        if abs(one.date - other.date) > _SUBJECT_WITHIN:
            return False
        first, second = self._leads[one.key], self._leads[other.key]
        shared = self._weigh(first & second)
        shorter = min(self._weigh(first), self._weigh(second))
        return shared >= max(_MIN_SUBJECT_WEIGHT, _MIN_SUBJECT_SHARE * shorter)

    def _weigh(self, terms: Collection[str]) -> float:
        return sum(self._weights[term] for term in terms)


def _group_families(found: Sequence[Post], copies: Mapping[PostKey, PostCopies]) -> list[list[Post]]:
    """Group posts into families, the original first; posts must be in order of their dates."""
    root = list(range(len(found)))

    def find_root(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    first_of_family: dict[int, int] = {}
    for place, post in enumerate(found):
        if post.key in copies:
            root[place] = find_root(first_of_family.setdefault(copies[post.key].family, place))
    for one, other in _find_rewordings(found):
        root[find_root(max(one, other))] = find_root(min(one, other))
    grouped: defaultdict[int, list[Post]] = defaultdict(list)
    for place, post in enumerate(found):
        grouped[find_root(place)].append(post)
    return [order_copies(family) for family in grouped.values()]


def _find_rewordings(found: Sequence[Post]) -> list[tuple[int, int]]:
    """Find pairs of posts of different channels where the shorter beginning rewords the other."""
    leads = [tokenize(post.text)[:_LEAD_TERMS] for post in found]
    pairs = [frozenset(pairwise(lead)) if len(lead) >= _MIN_LEAD_TERMS else frozenset() for lead in leads]
    numbers = [frozenset(term for term in lead if term[0].isdigit()) for lead in leads]
    holders: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    alike = []
    for place, post in enumerate(found):
        shared = Counter(other for pair in pairs[place] for other in holders[pair][-_MAX_PAIR_POSTS:])
        for other, count in shared.items():
            shorter, longer = sorted((place, other), key=lambda one: len(pairs[one]))
            if (
                count >= _MIN_SHARED_PAIRS * len(pairs[shorter])
                and found[other].key.chat_id != post.key.chat_id
                and post.date - found[other].date <= _REWORDED_WITHIN
                and numbers[shorter] <= numbers[longer]
            ):
                alike.append((other, place))
        for pair in pairs[place]:
            holders[pair].append(place)
    return alike
