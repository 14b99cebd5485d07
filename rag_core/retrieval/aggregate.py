"""Aggregation over all matching posts: exact counts, first and last mentions, timelines, posts of a period.

Such questions ("when was it first mentioned", "how many posts about it", "what was posted on Monday") need every
matching post, not only the best few.

The index matches stems, in headers too, so each candidate post is read and checked. A Russian surname has two stems
("Торосов" and "Торосова"), and one of them may be another word ("Иванов", "Иван"): both are searched for, and then the
surname is matched by its form.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from rag_core.engine import Engine
from rag_core.planning.intents import Request, asks_for_mentions, asks_whose_posts, estimate_requests
from rag_core.retrieval.channel_answers import define_name, introduce_channels
from rag_core.retrieval.coming_events import list_coming_events
from rag_core.retrieval.digests import MAX_LINES, list_dated_lines, summarize_period
from rag_core.retrieval.search import find_titled_channel, resolve_filter
from rag_core.storage import posts, visible_posts
from rag_core.storage.posts import fetch_passages
from rag_core.text.names import build_surname_pattern, get_surname_base, list_surname_stems
from rag_core.text.query_terms import QueryTerms, extract_name_stems
from rag_core.text.sentences import (
    MAX_SENTENCE_LENGTH,
    TextSpan,
    build_text_key,
    find_opening,
    split_into_pieces,
)
from rag_core.text.tokens import put_in_nominative, tokenize
from rag_core.types import (
    Draft,
    Evidence,
    Kind,
    PassageRef,
    Plan,
    Post,
    PostKey,
    Question,
    SearchFilter,
    Sentence,
    Source,
    Viewer,
)
from rag_core.writing import extract
from rag_core.writing.extract import MAX_FRAMED_QUOTE_LENGTH, frame_quote, quote_span

_MAX_READ_POSTS = 500  # the newest that have all the words
_MAX_DATED_POSTS = 3
_AT_START, _IN_TITLE, _ELSEWHERE = range(3)
# "How many posts were there in May" asks for their number, "what is the last post?" for one.
_COUNT_ASKED = re.compile(r"^(?:(?:а|и|ну|so|and) )?(?:сколько|как часто|в скольких|how (?:many|often))\b")
_LAST_POST_ASKED = re.compile(
    r"\b(?:последн(?:ий|ее|яя) (?:пост|сообщение|запись|публикация)|(?:latest|last|newest) (?:post|message))\b\W*$",
    re.I,
)
_QUOTED = re.compile(r"[«\"“„]([^»\"”“]+)[»\"”]")


async def date_posts(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Date the posts that begin with the words asked for or have them in their title, newest first.

    Words in quotes may also stand elsewhere in a post. None: no post has them so, it is searched like any other.
    """
    quoted = _QUOTED.search(question.text)
    phrase = build_text_key(quoted[1] if quoted else plan.topic)
    terms = tuple(dict.fromkeys(tokenize(phrase)))
    if not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in reversed(places)))[:_MAX_READ_POSTS]
    stored = await visible_posts.fetch_posts(rag.archive, keys)
    there = [key for key in keys if key in stored]
    ranked = await asyncio.to_thread(lambda: [_rank_text(stored[key].text, phrase, terms) for key in there])
    spans = {k: one for k, one in zip(there, ranked, strict=True) if one and (one[0] < _ELSEWHERE or quoted)}
    best = min((rank for rank, _ in spans.values()), default=_ELSEWHERE)
    found = [key for key, (rank, _) in spans.items() if rank == best]
    originals = {build_text_key(stored[key].text): key for key in found}  # of copies the oldest
    sentences = []
    for key in sorted(originals.values(), key=lambda one: stored[one].date, reverse=True)[:_MAX_DATED_POSTS]:
        sentences.append(frame_quote(quote_span(stored[key], spans[key][1]), "posted", question))
    return Draft(tuple(sentences), 1.0) if sentences else None


def _rank_text(text: str, phrase: str, terms: Collection[str]) -> tuple[int, TextSpan] | None:
    """Rank a text by where it has a phrase, with the sentence to quote; None where it does not."""
    words, whole = f" {phrase} ", f" {build_text_key(text)} "
    spans = split_into_pieces(text, MAX_FRAMED_QUOTE_LENGTH)
    if not spans:
        return None
    if whole.startswith(words):
        return _AT_START, spans[0]
    if set(terms) <= set(tokenize(text[slice(*spans[0])])):
        return _IN_TITLE, spans[0]
    if words not in whole:
        return None
    return _ELSEWHERE, next((one for one in spans if words in f" {build_text_key(text[slice(*one)])} "), spans[0])


_POSTS_PER_READ = 1000  # posts in one read, so that other readers of the archive get their turn
_MAX_STEM_COMBINATIONS = 16


@dataclass(frozen=True, slots=True)
class MentionTerm:
    """Required term of a post: any of the index terms, or the form of a surname; `written`: word of the question."""

    terms: tuple[str, ...]
    form: re.Pattern[str] | None = None
    written: str = field(default="", compare=False)

    def stands_in(self, text: str, found: frozenset[str]) -> bool:
        """Whether a lower-case text without ё, with the terms `found`, contains it."""
        return bool(self.form.search(text)) if self.form else not found.isdisjoint(self.terms)


def build_mention_term(term: str, written: str) -> MentionTerm:
    """Build the required term of a query term; `written` is its word in the question, with capital letters."""
    base = get_surname_base(written)
    if base is None:
        return MentionTerm((term,), None, written)
    return MentionTerm(list_surname_stems(written) or (term,), build_surname_pattern(base), written)


async def find_mentions(words: Sequence[MentionTerm], plan: Plan, viewer: Viewer, rag: Engine) -> Sequence[PassageRef]:
    """Find every post whose own text contains all the terms, oldest first; for LAST newest first.

    The index lists them where it tells a post's terms from those of its header. For surnames, and an index that does
    not, posts are read: about 100 µs each. For the first and the last mention, reading ends with the batch that has it.
    """
    if not words or not viewer.channels:
        return []
    only, watermark = await resolve_filter(plan, viewer, rag), rag.lexical.watermark
    if not any(word.form or len(word.terms) > 1 for word in words):
        terms = [word.terms[0] for word in words]
        listed = await asyncio.to_thread(rag.lexical.mentioning, terms, only)
        changes = await posts.list_post_changes(rag.archive, watermark, _POSTS_PER_READ) if listed else []
        if len(changes) < _POSTS_PER_READ:
            # since the index was brought up to date
            changed = {change.key: join_post_text(change.post) if change.post else "" for change in changes}
            gone = changed.keys() - _find_holding(changed, words)
            there = tuple(place for place in listed if place.key not in gone) if gone else listed
            return there[::-1] if plan.kind is Kind.LAST else there
    # passages with at least one stem of each term, oldest first
    ways = list(product(*(word.terms for word in words)))[:_MAX_STEM_COMBINATIONS]
    candidates = await asyncio.to_thread(rag.lexical.matching, ways[0], only, *ways[1:])
    places = list({place.key: place for place in reversed(candidates)}.values())
    places = places if plan.kind is Kind.LAST else places[::-1]
    kept: list[PassageRef] = []
    for first in range(0, len(places), _POSTS_PER_READ):
        some = places[first : first + _POSTS_PER_READ]
        stored = await visible_posts.fetch_posts(rag.archive, [place.key for place in some])
        texts = {key: join_post_text(post) for key, post in stored.items()}
        held = await asyncio.to_thread(_find_holding, texts, words)
        kept += [place for place in some if place.key in held]
        if kept and plan.kind in {Kind.FIRST, Kind.LAST}:
            break
    return kept


def _find_holding(texts: Mapping[PostKey, str], words: Sequence[MentionTerm]) -> set[PostKey]:
    """Find the texts that hold all words."""
    by_terms, held = any(not word.form for word in words), set[PostKey]()
    for key, text in texts.items():
        low, terms = text.lower().replace("ё", "е"), frozenset(tokenize(text) if by_terms else ())
        if all(word.stands_in(low, terms) for word in words):
            held.add(key)
    return held


def join_post_text(post: Post) -> str:
    """Join the text of a post and the name of its file."""
    name = post.media.file_name if post.media else None
    return "\n".join(filter(None, (post.text, name)))


MAX_LINKED_POSTS = 5  # posts linked under a count; more would be noise, as the count itself is exact
_MAX_NEWS_LENGTH = 160  # characters of a post in a line of news, where its opening does not name the topic
_MAX_OPENING_LENGTH = 90  # characters of each post in a list


def extract_mention_terms(question: Question, plan: Plan, rag: Engine) -> list[MentionTerm]:
    """Extract the required terms: quoted words, else names, else the whole topic; only terms that the index knows."""
    asked = plan.asked or question.text
    in_quotes = [term for phrase in _QUOTED.findall(asked) for term in tokenize(phrase)]
    named = extract_name_stems(asked)
    topic = tokenize(plan.topic)
    chosen = in_quotes or [term for term in topic if term in named] or topic
    seen, spoken = SearchFilter(question.viewer.channels), reversed(re.findall(r"[^\W_]+", question.text))
    written = {term: word for word in spoken for term in tokenize(word)}
    words = [build_mention_term(term, written.get(term, term)) for term in dict.fromkeys(chosen)]
    return [word for word in words if any(rag.lexical.known(term, seen) for term in word.terms)]


_ANSWERS = {
    Kind.COMING: list_coming_events,
    Kind.DEFINITION: define_name,
    Kind.INTRODUCTION: introduce_channels,
    Kind.WHEN: date_posts,
}


async def answer_by_aggregation(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Answer a question of another kind than facts, by dates and counts over all matching posts.

    A draft without sentences: no post of the period has the terms. None: no post is about them at all.
    """
    if plan.kind is Kind.POSTED:
        counted = _COUNT_ASKED.search(question.text.lower().replace("ё", "е")) is not None
        draft = await summarize_period(question, plan, rag, counted=counted)
        return replace(draft, sentences=draft.sentences[:1]) if _LAST_POST_ASKED.search(question.text) else draft
    if answer := _ANSWERS.get(plan.kind):
        return await answer(question, plan, rag)
    if plan.kind is Kind.NEWS and plan.channels is None and asks_whose_posts(question.text):
        # "what is new at owl hill": the posts of the channel that has the topic in its title
        titled = await find_titled_channel(plan.topic, question.viewer, rag)
        if titled is not None:
            posted = replace(plan, kind=Kind.POSTED, channels=frozenset({titled}))
            if (digest := await summarize_period(question, posted, rag, counted=False)).sentences:
                return digest
    words = await asyncio.to_thread(extract_mention_terms, question, plan, rag)  # blocking for an index on a server
    expressed = {term for word in words for term in word.terms}
    if plan.kind is Kind.NEWS and not (asks_for_mentions(question.text) and expressed.issuperset(tokenize(plan.topic))):
        # likelier than all else: what was taken for a topic may be another word
        if estimate_requests(question.text)[Request.DIGEST] >= 0.5 and not asks_whose_posts(question.text):
            return await summarize_period(question, replace(plan, kind=Kind.POSTED), rag, counted=False)
        return None  # posts with a part of the topic may be about something else: the search tells how near they are
    places = await find_mentions(words, plan, question.viewer, rag)
    if not places:
        return Draft() if words and (plan.since or plan.until) else None
    if plan.kind is Kind.NEWS:
        return await _list_news(question, places, words, rag)
    if plan.kind in {Kind.HOW_MANY, Kind.TIMELINE}:
        return await _count_mentions(question, places, words, rag, dated=plan.kind is Kind.TIMELINE)
    for shown in await _quote_mentions(question, places[:1], words, rag):
        return Draft((frame_quote(shown, "first" if plan.kind is Kind.FIRST else "last", question),), 1.0)
    return None


async def _list_news(
    question: Question, places: Sequence[PassageRef], words: Sequence[MentionTerm], rag: Engine
) -> Draft | None:
    """Dated lines of the newest posts about a topic: the opening where it names the topic, else the piece that does."""
    newest = list(places[: -2 * MAX_LINES - 1 : -1])
    mentions = await _quote_mentions(question, newest, words, rag, longest=_MAX_NEWS_LENGTH)
    quotes = {one.citations[0].post: one for one in mentions}
    for passage in (await fetch_passages(rag.archive, newest)).values():
        span = find_opening(passage.text)
        whole = (quote := quotes.get(passage.key)) and not quote.text[0].islower()
        if span and quote and (not whole or _find_holding({passage.key: passage.text[slice(*span)]}, words)):
            quotes[passage.key] = quote_span(passage, span)
    lines = list_dated_lines(list({build_text_key(s.text): s for s in quotes.values()}.values()), question)
    return Draft(lines, 1.0) if lines else None


async def _count_mentions(
    question: Question, places: Sequence[PassageRef], words: Sequence[MentionTerm], rag: Engine, *, dated: bool
) -> Draft | None:
    """Count the posts and cite at most five, evenly spread, with the first and the last; `dated`: quote them too."""
    linked = list(places)
    if len(places) > MAX_LINKED_POSTS:
        linked = [places[n * (len(places) - 1) // (MAX_LINKED_POSTS - 1)] for n in range(MAX_LINKED_POSTS)]
    longest = _MAX_OPENING_LENGTH if dated else MAX_FRAMED_QUOTE_LENGTH
    shown = await _quote_mentions(question, linked, words, rag, longest=longest)
    ends = await fetch_passages(rag.archive, [places[0], places[-1]])
    if not shown or len(ends) < len({places[0].key, places[-1].key}):  # deleted meanwhile
        return None
    dates = [question.localize(passage.date) for passage in ends.values()]
    wording = [put_in_nominative(word.written) for word in words]
    count = extract.format_post_count(len(places), (min(dates), max(dates)), question.lang, wording)
    if len(count) > MAX_SENTENCE_LENGTH:
        return None
    total = Sentence(count, tuple(s.citations[0] for s in shown))
    days = ((question.localize(s.citations[0].date), s) for s in shown)
    return Draft((total, *extract.fit_dated_lines(days, question.lang)) if dated else (total,), 1.0)


async def _quote_mentions(
    question: Question,
    places: Sequence[PassageRef],
    words: Sequence[MentionTerm],
    rag: Engine,
    *,
    longest: int = MAX_FRAMED_QUOTE_LENGTH,
) -> list[Sentence]:
    passages = await fetch_passages(rag.archive, places)
    wording = " ".join(put_in_nominative(word.written) for word in words)
    asked = QueryTerms.of(wording or question.text, rag.lexical.statistics(question.viewer.channels).weight)
    quotes: list[Sentence] = []
    for place in places:
        if passage := passages.get(place):
            evidence = Evidence((Source(1, passage, 1.0),))
            quotes += map(extract.quote_piece, extract.rank_pieces(asked, evidence, longest).pieces[:1])
    return quotes
