"""Digest of a period for a reader: what is new, each subject once, the subjects that most channels carry first.

An event is a family of copies among the posts that the reader may read, with the rewordings of other channels within
half a day; a subject is an event with the posts that share its rarer words within a day. A line is the opening of an
event's first post, in its own words; the subject's further posts are counted, not quoted. Left out: regular columns,
advertisements, questions, jokes, and posts that go on from another, unless there is nothing else. From the archive
alone: no index is needed.
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
from typing import Literal, NamedTuple, TypeVar

from rag_core.dates.calendar_arithmetic import shift_months
from rag_core.engine import Engine
from rag_core.evidence import gather_evidence, order_copies
from rag_core.retrieval.search import resolve_filter
from rag_core.storage import Archive, visible_posts
from rag_core.storage.near_duplicates import DisjointSets, PostCopies, fetch_copies
from rag_core.storage.posts import fetch_passages
from rag_core.text.sentences import MAX_ANSWER_LENGTH, build_text_key, find_opening, says_something, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Draft, Hit, Passage, PassageRef, Plan, Post, PostKey, Question, Sentence
from rag_core.writing.extract import fit_dated_lines, format_post_count, frame_quote, quote_span

MAX_DIGEST_LINES = 10
_MAX_POSTS = 3000  # the newest of a period
_MIN_OPENING_LENGTH = 30  # characters: less is a greeting or a heading
_LEAD_TERMS, _MIN_LEAD_TERMS = 60, 5  # terms of a post's beginning that are compared
_MIN_SHARED_PAIRS, _REWORDED_WITHIN = 0.5, timedelta(hours=12)
_MAX_PAIR_POSTS = 50  # a pair of terms that more posts have tells nothing
_MAX_QUOTE_LENGTH = 180  # characters of a line
# Posts about one subject share so much of the shorter one's weight (inverse document frequency), and so much in all.
_MIN_SUBJECT_SHARE, _MIN_SUBJECT_WEIGHT, _SUBJECT_WITHIN = 0.37, 12.0, timedelta(hours=24)
_MIN_FREQUENCY_POSTS = 100  # fewer posts tell little of how rare a term is
_MAX_TERM_POSTS = 60  # the newest posts with a term that are compared by it
_LINKS = re.compile(r"(?:https?|tg)://[^\s)]+|@\w+")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_CORRECTION = re.compile(
    r"\b(?:отмен(?:[ия]\w+|ён|ен\w?)|отмена|пере(?:нес(?:ен|ён|л|ут)|нос(?:ит|ят))\w*|отложен\w*|отложил\w*|"
    r"не состо(?:ится|ялся|ялась|ялось)|опроверг\w*|опроверж\w+|исправлен(?:о|ие|а)|уточнение|upd|"
    r"cancel(?:s|led|ed|lation)|call(?:s|ed) off|postpone[sd]?|reschedul\w+|correct(?:ed|ion)|den(?:y|ies|ied)|"
    r"retract\w+)\b",
    re.IGNORECASE,
)
# An opening that goes on from another post, or speaks of what only its picture shows.
_CONTINUED = re.compile(
    r"\W*(?:а|но|и|да|ещ[её]|вот|также|тем временем|между тем|при этом|ну|кстати|то же|там|там же|так|как ранее|"
    r"продолжа(?:ем|ется)|and|but|also|meanwhile|more|so|well|here(?: is|'s| are)?|by the way|"
    r"кадры|видео|фото|footage|video|photos?)(?=[\s:,])",
    re.IGNORECASE,
)
_ADVERTISEMENT = re.compile(r"\berid\b|#(?:реклама|промо|ad|sponsored)\b|\bпромокод\w*|\bpromo ?code", re.IGNORECASE)
_LAUGHTER = re.compile("[\U0001f602\U0001f605\U0001f606\U0001f639\U0001f921\U0001f923]")
_PERIODS = {"daily": 1, "ежедневно": 1, "weekly": 7, "еженедельно": 7}
_SCHEDULE = re.compile(rf"({'|'.join(_PERIODS)})(?:\s+(?:at\s+|в\s+)?(\d{{1,2}})(?::00)?)?(?:\s|$)", re.I)
_OFF_WORDS, _NOW_WORDS = frozenset({"off", "выкл", "stop", "стоп"}), frozenset({"now", "сейчас"})
_DEFAULT_HOUR = 9


class DigestSchedule(NamedTuple):
    """Schedule of digests: every `days` days at `hour`, or one at once where this is None; `rest`: such as channels."""

    days: int
    hour: int | None
    rest: str


def parse_digest_command(text: str) -> DigestSchedule | Literal["off"] | None:
    """Parse "daily 9 @channel", "now @channel", "off" or a channel alone, which asks for one now; else None."""
    text = " ".join(sorted(text.split(), key=lambda word: word.startswith("@")))  # channels may also stand before
    if text.lower() in _OFF_WORDS:
        return "off"
    first, _, rest = text.partition(" ")
    if first.lower() in _NOW_WORDS or first.startswith("@"):
        return DigestSchedule(0, None, text if first.startswith("@") else rest)
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
    found = await visible_posts.list_posts_between(archive, channels, since, until, _MAX_POSTS)
    copies = await fetch_copies(archive, [post.key for post in found], channels)
    return await asyncio.to_thread(_select_lines, found, copies)


def _select_lines(found: Sequence[Post], copies: Mapping[PostKey, PostCopies]) -> list[DigestLine]:
    families = {family[0].key: family for family in _group_families(found, copies)}
    newest = {key: max(post.date for post in family) for key, family in families.items()}
    firsts = sorted((family[0] for family in families.values()), key=lambda post: (newest[post.key], post.key))
    # a sentence of several events, such as a call to subscribe, says nothing about one
    spoken = Counter(
        key for post in firsts for key in {build_text_key(post.text[a:b]) for a, b in split_sentences(post.text)}
    )
    subjects = _find_subjects(firsts, spoken)
    carried, latest = {}, {}
    for post in firsts:
        subject = [families[one.key] for one in (post, *subjects[post.key])]
        carried[post.key] = len({copy.key.chat_id for family in subject for copy in family})
        latest[post.key] = max(newest[family[0].key] for family in subject)
    spans = {post.key: span for post in firsts if (span := find_opening(post.text, spoken, _MAX_QUOTE_LENGTH))}
    openings = {post.key: post.text[slice(*spans[post.key])] for post in firsts if post.key in spans}
    # a regular column opens with the same words and other numbers; a heading alone is no part of an opening
    told_of = [post for post in firsts if len(openings.get(post.key, "")) >= _MIN_OPENING_LENGTH]
    column = {
        post.key: (post.key.chat_id, build_text_key(_DIGITS.sub(" ", openings[post.key][slice(*first)])))
        for post in told_of
        for first in split_sentences(openings[post.key])[:1]
    }
    columns = Counter(column.values())
    # half a quotation, or what goes on from another post, cannot be understood alone
    news = [
        post
        for post in told_of
        for opening in [openings[post.key]]
        if columns[column[post.key]] == 1
        and not (_ADVERTISEMENT.search(post.text) or _LAUGHTER.search(post.text) or _CONTINUED.match(opening))
        and opening.count("«") == opening.count("»")
        and not opening.rstrip().endswith("?")
    ] or told_of

    def rank(post: Post) -> tuple[int, float, int, int, PostKey]:
        # of one subject the event that most channels copied and most posts are about
        own = len({copy.key.chat_id for copy in families[post.key]})
        return -carried[post.key], -latest[post.key].timestamp(), -own, -len(subjects[post.key]), post.key

    shared = sorted((post for post in news if carried[post.key] > 1), key=rank)
    single = choose_posts([post for post in news if carried[post.key] == 1], bounded=True)
    lines: list[DigestLine] = []
    told: set[PostKey] = set()
    for post in [*shared, *single]:
        if not told.isdisjoint({post.key, *(one.key for one in subjects[post.key])}):
            continue
        related = tuple(subjects[post.key])
        told |= {post.key, *(one.key for other in (post, *related) for one in subjects[other.key])}
        changed = bool(_CORRECTION.search(openings[post.key]))
        lines.append(DigestLine(post, *spans[post.key], carried[post.key], changed, related))
        if len(lines) == MAX_DIGEST_LINES:
            break
    return lines


def _find_subjects(firsts: Sequence[Post], spoken: Mapping[str, int]) -> dict[PostKey, list[Post]]:
    """Find for each event the others of its subject: within a day, with enough of the weight of its rarer words."""
    leads = []
    for post in firsts:
        spans = split_sentences(post.text)
        own = (post.text[a:b] for a, b in spans if spoken.get(build_text_key(post.text[a:b]), 0) <= 1)
        leads.append(frozenset(tokenize(_LINKS.sub(" ", " ".join(own)))[:_LEAD_TERMS]))
    frequency = Counter(term for lead in leads for term in lead)
    total = max(len(firsts), _MIN_FREQUENCY_POSTS)
    weights = {term: math.log(total / count) for term, count in frequency.items()}
    whole = [sum(weights[term] for term in lead) for lead in leads]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    found: dict[PostKey, list[Post]] = {post.key: [] for post in firsts}
    for place, post in enumerate(firsts):
        shared: defaultdict[int, float] = defaultdict(float)
        for term in sorted(leads[place]):
            for other in holders[term][-_MAX_TERM_POSTS:]:
                shared[other] += weights[term]
            holders[term].append(place)
        for other, weight in shared.items():
            shorter = min(whole[place], whole[other])
            near = abs(post.date - firsts[other].date) <= _SUBJECT_WITHIN
            if near and weight >= max(_MIN_SUBJECT_WEIGHT, _MIN_SUBJECT_SHARE * shorter):
                found[post.key].append(firsts[other])
                found[firsts[other].key].append(post)
    return found


def _group_families(found: Sequence[Post], copies: Mapping[PostKey, PostCopies]) -> list[list[Post]]:
    """Group posts into families, the original first; posts must be in order of their dates."""
    families, first_of_family = DisjointSets(), dict[int, int]()
    for place, post in enumerate(found):
        if post.key in copies:
            families.join(first_of_family.setdefault(copies[post.key].family, place), place)
    for one, other in _find_rewordings(found):
        families.join(min(one, other), max(one, other))
    grouped: defaultdict[int, list[Post]] = defaultdict(list)
    for place, post in enumerate(found):
        grouped[families.root(place)].append(post)
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
            same = count >= _MIN_SHARED_PAIRS * len(pairs[shorter]) and numbers[shorter] <= numbers[longer]
            elsewhere = found[other].key.chat_id != post.key.chat_id
            if same and elsewhere and post.date - found[other].date <= _REWORDED_WITHIN:
                alike.append((other, place))
        for pair in pairs[place]:
            holders[pair].append(place)
    return alike


MAX_LINES = 7
_MAX_COUNT_LENGTH = 65  # characters of the sentence that counts the posts
_MAX_READ_POSTS = 3 * MAX_LINES  # some have no text, or are copies
_RECENT_DAYS = (7, 31, 366)  # "what is new" without a period: the shortest of these that has enough posts, else all
_ENOUGH_POSTS = 5
_RECENTLY = timedelta(days=31)
_MAX_YEARS_BACK = 20  # "in October": the latest October with posts
_MAX_NEWEST_POSTS = 200  # without a bounded period: the newest that take turns by channel
_MAX_COMPARED_POSTS = 50  # posts of one part of the period from which the channel least shown is taken


async def summarize_period(question: Question, plan: Plan, rag: Engine, *, counted: bool) -> Draft:
    """Summarize the posts of a period: dated lines, newest first, and their number.

    With `counted` the number comes first, then the lines, oldest first. Where a recent period has no posts, the last
    before it; a draft without sentences: there is nothing to quote.
    """
    places = await _find_posts(question, plan, rag, counted=counted)
    if places:
        bounded = plan.since is not None and plan.until is not None
        passages = await fetch_passages(rag.archive, choose_posts(places, bounded=bounded))
        outer = await fetch_passages(rag.archive, [places[0], places[-1]])
        ends = [question.localize(one.date) for one in outer.values()]
        lines = list_dated_lines(await _quote_openings([*passages.values()], question, rag), question)
        if not lines or not ends:
            return Draft()
        count = format_post_count(len(places), (min(ends), max(ends)), question.lang)
        shown = lines[::-1] if counted else lines
        total = Sentence(count, tuple(line.citations[0] for line in shown))
        if counted:
            return Draft((total, *shown), 1.0)
        return Draft((*lines, total) if len(places) > len(lines) else lines, 1.0)
    if counted or plan.since is None or (plan.until and plan.until <= question.asked_at - _RECENTLY):
        return Draft()
    # "what is new today" on a quiet day: the last post before it
    before = await resolve_filter(replace(plan, since=None, until=plan.since), question.viewer, rag)
    earlier = (await asyncio.to_thread(rag.lexical.all_of, before))[: -_MAX_READ_POSTS - 1 : -1]
    passages = await fetch_passages(rag.archive, earlier)
    for quote in (await _quote_openings([*passages.values()], question, rag))[:1]:
        return Draft((frame_quote(quote, "before", question),), 1.0)
    return Draft()


async def _find_posts(question: Question, plan: Plan, rag: Engine, *, counted: bool) -> list[PassageRef]:
    """Find the posts of the period, oldest first; without a period the recent ones, or all that are to be counted."""
    plans = [plan]
    if plan.yearless:

        def shift(moment: datetime | None, back: int) -> datetime | None:
            return moment and datetime.combine(shift_months(moment.date(), -12 * back), moment.timetz())

        years = range(_MAX_YEARS_BACK)
        plans = [replace(plan, since=shift(plan.since, back), until=shift(plan.until, back)) for back in years]
    elif plan.since is None and plan.until is None and not (plan.has_filters or counted):
        tomorrow = question.asked_at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        plans = [replace(plan, since=tomorrow - timedelta(days=days), until=tomorrow) for days in _RECENT_DAYS]
        plans.append(replace(plan, until=tomorrow))
    places: list[PassageRef] = []
    for one in plans:
        only = await resolve_filter(one, question.viewer, rag)
        places = await asyncio.to_thread(rag.lexical.all_of, only)
        if len(places) >= (1 if plan.yearless else _ENOUGH_POSTS):
            break
    return places


T = TypeVar("T", Post, PassageRef)


def choose_posts(places: Sequence[T], *, bounded: bool) -> list[T]:
    """Choose the posts to read, best first: spread over a bounded period, else the newest; of all channels alike."""
    newest = places[::-1]
    length = max(1, -(-len(newest) // MAX_LINES)) if bounded else _MAX_NEWEST_POSTS
    slices = [list(newest[start : start + length]) for start in range(0, len(newest), length)]
    used: Counter[int] = Counter()
    chosen: list[T] = []
    while len(chosen) < _MAX_READ_POSTS and (full := [one for one in slices if one]):
        for one in full if bounded else full[:1]:
            place = min(one[:_MAX_COMPARED_POSTS], key=lambda place: used[place.key.chat_id])
            one.remove(place)
            used[place.key.chat_id] += 1
            chosen.append(place)
    return chosen[:_MAX_READ_POSTS]


async def _quote_openings(passages: Sequence[Passage], question: Question, rag: Engine) -> list[Sentence]:
    """Quote the opening of each post, in the order given; of copies only the original."""
    hits = [Hit(passage, -float(n), "") for n, passage in enumerate(passages)]
    originals = [source.passage for source in (await gather_evidence(hits, question.viewer, rag)).sources]
    spoken = Counter(
        key for one in originals for key in {build_text_key(one.text[a:b]) for a, b in split_sentences(one.text)}
    )
    return [quote_span(one, span) for one in originals if (span := find_opening(one.text, spoken))]


def list_dated_lines(quotes: Sequence[Sentence], question: Question) -> tuple[Sentence, ...]:
    """List quotes, best first, as one answer: dated, and newest first."""
    telling = [one for one in quotes if says_something(one.text)][:MAX_LINES]
    dated = ((question.localize(one.citations[0].date), one) for one in telling)
    lines = fit_dated_lines(dated, question.lang, MAX_ANSWER_LENGTH - _MAX_COUNT_LENGTH)
    return tuple(sorted(lines, key=lambda line: line.citations[0].date, reverse=True))
