"""Browsing with /search: parse the request, list the matching posts, locate snippets and highlights.

Posts with all the words come first, best first, then similar ones; a request of filters only lists all their posts,
newest first. At most 500 posts are listed; checking one takes a third of a millisecond.

Watches are standing searches ("percolation"), by an inverted map from terms to watches. A post matches where all words
of the watch stand in it, in any form, of four words or more three quarters; in a post of the other language their
translations count as well; and, for "ticket under 500", an amount that is not above the limit.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.evidence import compose_evidence
from rag_core.planning import queries
from rag_core.planning.intents import extract_topic
from rag_core.planning.queries import parse_filters
from rag_core.retrieval.aggregate import MentionTerm, build_mention_term, join_post_text
from rag_core.retrieval.search import note_unindexed_posts, resolve_filter, search_passages
from rag_core.run import Run, Stage
from rag_core.storage import channels, near_duplicates, visible_posts
from rag_core.storage.subscriptions import Watch
from rag_core.text.numbers import CURRENCIES, Number, parse_numbers
from rag_core.text.query_terms import expand_words, is_asking_word
from rag_core.text.sentences import TextSpan, split_into_pieces
from rag_core.text.tokens import detect_language, fold_case, normalize_characters, tokenize
from rag_core.types import Channel, Hit, Kind, Passage, Plan, Post, PostKey, Question, SearchFilter, Shortfall, Viewer

_COMBINING_MARK = "[\u0300-\u036f]"  # stress marks and the like
_WORD = re.compile(rf"[^\W_](?:[^\W_]|{_COMBINING_MARK})*")
_MAX_SNIPPET_STARTS = 200  # highlights that are tried as the first of a snippet
_MAX_PHRASE_LENGTH = 300  # characters
_LEAD_FRACTION = 4  # one part in so many of a snippet comes before its first highlight


class Highlight(NamedTuple):
    """Highlight: a span in code points, and the number of the matching word (0, 1, ...) or phrase (-1, -2, ...)."""

    start: int
    end: int
    which: int


@dataclass(frozen=True, slots=True)
class TextMatcher:
    """Matcher of words in any form and of exact phrases."""

    words: tuple[MentionTerm, ...] = ()
    phrases: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, words: str, phrases: Sequence[str] = ()) -> TextMatcher:
        """Build from the words as written, and from exact phrases, #tags and @names."""
        terms: dict[str, MentionTerm] = {}
        for piece in re.findall(r"[^\W_]+", words):
            for term in tokenize(piece):
                word = build_mention_term(term, piece)
                # by its form only a surname of several stems: one may be another word ("Иванов", "Иван")
                terms[term] = word if len(word.terms) > 1 else MentionTerm(word.terms, written=piece)
        return cls(tuple(terms.values()), tuple(_compile_phrase(phrase) for phrase in phrases if _WORD.search(phrase)))

    def all_in(self, text: str) -> bool:
        """Whether the text contains all words and phrases."""
        if not self.phrases_in(text):
            return False
        low, terms = fold_case(normalize_characters(text)), frozenset(tokenize(text))
        return all(word.stands_in(low, terms) for word in self.words)

    def phrases_in(self, text: str) -> bool:
        """Whether the text contains all phrases."""
        low = fold_case(normalize_characters(text)) if self.phrases else ""
        return all(phrase.search(low) for phrase in self.phrases)

    def within(self, text: str) -> list[Highlight]:
        """Highlights of all matches, in the order of the text, without overlaps."""
        low = fold_case(normalize_characters(text))
        matches = ((n, m) for n, phrase in enumerate(self.phrases, 1) for m in phrase.finditer(low))
        highlights = [Highlight(*m.span(), -n) for n, m in matches]
        number_of: dict[str, int] = {}  # of the first word with a term: one look-up for each word of the text
        for n, word in enumerate(self.words):
            for term in () if word.form else word.terms:
                number_of.setdefault(term, n)
        forms = [(n, word.form) for n, word in enumerate(self.words) if word.form]
        for piece in _WORD.finditer(low):
            numbers = [number_of[term] for term in tokenize(piece[0]) if term in number_of]
            numbers += [n for n, form in forms if form.search(piece[0])][:1]
            if numbers:
                highlights.append(Highlight(*piece.span(), min(numbers)))
        highlights.sort(key=lambda spot: (spot.start, -spot.end))
        kept: list[Highlight] = []
        for spot in highlights:
            if not kept or spot.start >= kept[-1].end:
                kept.append(spot)
        return kept


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    folded = fold_case(normalize_characters(phrase))
    if len(folded) > _MAX_PHRASE_LENGTH:  # the rest is ignored: so long a phrase occurs in one text only
        folded = folded[:_MAX_PHRASE_LENGTH].rpartition(" ")[0] or folded[:_MAX_PHRASE_LENGTH]
    # possessive: without backtracking, as a text full of marks would take far too long
    pieces = re.findall(r"[^\W_]+", folded)
    spelt = ["".join(f"{re.escape(letter)}{_COMBINING_MARK}*+" for letter in piece) for piece in pieces]
    sign = phrase[0] if phrase[0] in "#@" else ""
    return re.compile(rf"(?<![^\W_]){sign}" + r"[\W_]++".join(spelt) + r"(?![^\W_])")


def select_snippet(text: str, spots: Sequence[Highlight], longest: int) -> tuple[int, int]:
    """Select the span of at most `longest` characters with the most distinct highlights, cut between words."""
    if len(text) <= longest:
        return 0, len(text)
    tried = spots[:_MAX_SNIPPET_STARTS]

    within = {one: {s.which for s in tried if one.start <= s.start and s.end <= one.start + longest} for one in tried}
    first = max(tried, key=lambda one: len(within[one]), default=Highlight(0, 0, 0))
    start = max(0, first.start - longest // _LEAD_FRACTION)
    if start:
        start = text.find(" ", start, first.start) + 1 or first.start
    end = min(len(text), start + longest)
    if end < len(text) and (space := text.rfind(" ", max(first.end, start + longest // 2), end)) > 0:
        end = space
    return start, end


# "posts about the ferry" searches for "the ferry"
_POSTS_ABOUT = re.compile(
    r"^\W*(?:(?:покажи|найди|show|find)(?:\s+(?:мне|me))?\s+)?(?:(?:все|all|the)\s+)?"
    r"(?:посты?|сообщени[яе]|публикаци[ия]|записи|новости|что\s+(?:писали|пишут|говорили|сообщали|было|нового)|"
    r"posts?|messages?|news|what\s+(?:was|has been|is|did\s+\w+)\s+(?:posted|written|write|said|say|new))\s+"
    r"(?:про|об?|обо|about|on|of)\s+(?=\w)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Parsed /search request; `words` as written, "" for filters only, which then list all their posts.

    Phrases in `plan.must` are required word for word. `filters` are the pieces of the text that became filters,
    `beside` those of them that name metadata of a post: its author, origin, media kind or file.
    """

    plan: Plan
    words: str = ""
    filters: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def parse_search_request(question: Question, known: Mapping[int, Channel]) -> SearchRequest:
    """Parse a /search request. `known`: channels by id; only those that the asker may read can be named.

    A period always filters posts here, whatever words surround it; a quoted title is no period.
    """
    text = queries.sanitize_query(question.text)
    folded = fold_case(text)
    unquoted = queries.QUOTED.sub(lambda found: " " * len(found[0]), folded)
    period = parse_period(unquoted, question.asked_at)
    readable = question.viewer.select_readable(known)
    parsed = parse_filters(text.replace("ё", "е").replace("Ё", "Е"), readable)
    pieces = [*([(unquoted, period.words)] if period else []), *((folded, words) for words in parsed.words)]
    matches = (re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", low) for low, piece in pieces if piece)
    spans = sorted({match.span() for match in matches if match})
    filters = tuple(text[start:end] for start, end in spans)
    beside = tuple(piece for piece in filters if fold_case(piece) in parsed.beside)
    letters = list(text)
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    rest = " ".join("".join(letters).split())
    plan = Plan((), Kind.POSTED, channels=parsed.channels, authors=parsed.authors, origins=parsed.origins,
                media=parsed.media, files=parsed.files)  # fmt: skip
    if period:
        plan = replace(plan, since=period.since, until=period.until, slack=period.slack)
    words = _POSTS_ABOUT.sub("", rest).strip(" \t,;:.!?—–-")
    # "что писали вчера" and "posts of @harbour_news" have filters only
    if not tokenize(words) or (filters and not tokenize(extract_topic(fold_case(rest)))):
        return SearchRequest(plan, "", filters, beside)
    must, should = queries.extract_phrases(words)
    variants = queries.generate_query_variants(words)
    plan = replace(plan, queries=(words, *variants), kind=Kind.FACT, topic=words, must=must, should=should)
    return SearchRequest(replace(plan, legs=queries.choose_retrievers(plan)[0]), words, filters, beside)


MAX_LISTED_POSTS = 500  # a hundred pages; checking one post takes a third of a millisecond
_POSTS_PER_READ = 500  # posts in one read, so that other readers of the archive get their turn
_MAX_SCORED_PASSAGES = 4 * MAX_LISTED_POSTS  # passages sorted by score; those behind them are newest first

_PostsByKey = dict[PostKey, Post]


@dataclass(frozen=True, slots=True)
class FoundPost:
    """Found post with its copies; `whole`: it contains all the words, and is not merely similar."""

    post: Post
    copies: tuple[PostKey, ...] = ()
    whole: bool = True

    @property
    def text(self) -> str:
        """Text of the post and the name of its file."""
        return join_post_text(self.post)


@dataclass(frozen=True, slots=True)
class SearchListing:
    """Search result: posts with all the words first; of copies only one.

    `only` is the filter of the search. `matching` is the number of posts with all the words, each copy counted:
    exact unless `more` is set, when there are further posts that are not listed.
    """

    sought: SearchRequest
    only: SearchFilter
    spots: TextMatcher
    found: tuple[FoundPost, ...]
    matching: int
    more: bool
    channels: Mapping[int, Channel]
    shortfalls: tuple[Shortfall, ...]

    @property
    def whole(self) -> int:
        """Number of listed posts with all the words."""
        return sum(one.whole for one in self.found)


async def list_posts(question: Question, rag: Engine) -> SearchListing:
    """List the matching posts that this asker may read; none where neither words nor filters were understood.

    An index that is down is not "nothing found": raises IndexUnavailable, ArchiveUnavailable, StageTimeout.
    """
    run = Run(rag.budgets, "search", shortfalls=[*rag.without, *question.viewer.list_shortfalls()])
    try:
        known = await channels.load_channels(rag.archive)
        wanted = parse_search_request(question, known)
        only = await run.require(Stage.FILTER, resolve_filter(wanted.plan, question.viewer, rag))
        spots = TextMatcher.of(wanted.words, wanted.plan.must)
        whole, near, more = dict[PostKey, Post](), dict[PostKey, Post](), False
        if wanted.words:  # posts with all the words, and similar ones, both best first
            exact = _find_exact_matches(wanted.words, only, spots, rag)
            matching, more = await run.attempt(Stage.CHRONICLE, exact, (whole, False))
            best = [hit.passage.key for hit in await search_passages(wanted.plan, question, rag, run)]
            whole = {key: matching[key] for key in (*(key for key in best if key in matching), *matching)}
            others = _read_matching_posts([key for key in best if key not in whole], spots.phrases_in, rag)
            near, _ = await run.require(Stage.FETCH, others)
        elif wanted.filters:  # all posts that pass them, newest first
            async with run.stage(Stage.LEXICAL):
                keys = [place.key for place in reversed(await asyncio.to_thread(rag.lexical.all_of, only))]
                whole, more = await _read_matching_posts(keys, spots.all_in, rag)
        entries = await _merge_copies(whole, near, question.viewer, rag, run)
        await note_unindexed_posts(question.viewer, rag, run, vectors=bool(wanted.words))
        seen = question.viewer.select_readable(known)
        return SearchListing(wanted, only, spots, entries, len(whole), more, seen, tuple(run.shortfalls))
    finally:
        rag.traced(run)


async def _find_exact_matches(
    words: str, only: SearchFilter, spots: TextMatcher, rag: Engine
) -> tuple[_PostsByKey, bool]:
    """Find posts with a stem of each word, also in different passages, best first, and check them by their text."""

    def find_by_stems() -> list[PostKey]:
        keys_by_word = []
        for word in spots.words:
            first, *others = word.terms
            places = rag.lexical.matching((first,), only, *((stem,) for stem in others))
            keys_by_word.append(dict.fromkeys(place.key for place in reversed(places)))
        fewest = min(keys_by_word, key=len, default={})
        matching = {key: None for key in fewest if all(key in keys for keys in keys_by_word)}
        scored = rag.lexical.search(tokenize(words), only, _MAX_SCORED_PASSAGES) if len(matching) > 1 else []
        return list(dict.fromkeys((*(place.key for place, _ in scored if place.key in matching), *matching)))

    return await _read_matching_posts(await asyncio.to_thread(find_by_stems), spots.all_in, rag)


async def _read_matching_posts(
    keys: Sequence[PostKey], fits: Callable[[str], bool], rag: Engine
) -> tuple[_PostsByKey, bool]:
    kept: _PostsByKey = {}
    for first in range(0, len(keys), _POSTS_PER_READ):
        some = keys[first : first + _POSTS_PER_READ]
        stored = await visible_posts.fetch_posts(rag.archive, some)
        there = [stored[key] for key in some if key in stored]
        fitting = await asyncio.to_thread(list, filter(lambda post: fits(join_post_text(post)), there))
        room = MAX_LISTED_POSTS - len(kept)
        kept |= {post.key: post for post in fitting[:room]}
        if len(fitting) > room:
            return kept, True
    return kept, False


async def _merge_copies(
    whole: _PostsByKey, near: _PostsByKey, viewer: Viewer, rag: Engine, run: Run
) -> tuple[FoundPost, ...]:
    if not whole and not near:
        return ()
    everything = {**whole, **near}
    fetching = near_duplicates.fetch_copies(rag.archive, everything, viewer.channels)
    known = await run.attempt(Stage.COPIES, fetching, dict)
    passages = (Passage(p.key, 0, "", p.text, 0, len(p.text), p.date, p.edited, p.origin) for p in everything.values())
    hits = [Hit(passage, 0.0, "") for passage in passages]
    evidence = await asyncio.to_thread(compose_evidence, hits, known, len(hits))
    cited = [source.passage for source in evidence.sources]
    return tuple(FoundPost(everything[p.key], p.copies, any(key in whole for key in (p.key, *p.copies))) for p in cited)


_MIN_VARIANT_WEIGHT = 0.8  # a translation's; synonyms of one language ("fire", "blaze", "burn") would tell too much
_ALL_REQUIRED_TERMS, _REQUIRED_SHARE = 3, 0.75
_QUIET_HOURS = re.compile(r"(?:quiet|тихо)\s+(?:(\d{1,2})\s*[-–—]\s*(\d{1,2})|off|выкл)", re.I)
_LIMIT_WORDS = re.compile(
    r"(?:^|\W)(?:under|below|less than|cheaper than|at most|no more than|up to|"
    r"дешевле|меньше|менее|ниже|не дороже|не больше|не более|до)(?:\s+чем)?\s*[$€£₽]?\s*$"
)
_MAX_LIMIT_WORDS_LENGTH = 30
_NAME = re.compile(r"\b\w+[A-ZА-Я]\w*")  # "ChatGPT": capital letters after the first; a name has no translation
_CURRENCY_WORD = re.compile(
    r"^\s*(?:[₽$€£]|(?:руб|долл|dollar|euro|rouble|rubl|евро|юан|pound)\w*\.?|(?:usd|eur|rub|р)\b\.?)"
)


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """Parsed watch: its terms, their translations, how many must be met, and the greatest amount, if any."""

    terms: tuple[str, ...]
    translations: tuple[frozenset[str], ...]
    required: int
    lang: str
    limit: float | None = None
    currency: str = ""

    def count_met(self, found: frozenset[str], lang: str) -> int:
        """Count the terms that are met by the terms of a text in this language."""
        return sum(
            term in found or (lang != self.lang and not other.isdisjoint(found))
            for term, other in zip(self.terms, self.translations, strict=True)
        )

    def allows(self, amounts: Sequence[Number]) -> bool:
        """Whether one of these amounts is within the limit; true without a limit."""
        wanted = {self.currency} if self.currency else CURRENCIES
        return self.limit is None or any(one.unit in wanted and min(one.values) <= self.limit for one in amounts)


def parse_watch(text: str) -> WatchQuery:
    """Parse the text of a watch without its filters; a query without terms matches nothing."""
    low, limit, currency = text.lower().replace("ё", "е"), None, ""
    last = len(low.rstrip(" .!?"))
    for number in parse_numbers(low, detect_language(text)):
        cue = _LIMIT_WORDS.search(low, max(0, number.start - _MAX_LIMIT_WORDS_LENGTH), number.start)
        priced = number.unit in CURRENCIES or (not number.unit and number.end >= last)
        if cue and priced:
            limit, currency = max(number.values), number.unit
            low = f"{low[: cue.start()]} {_CURRENCY_WORD.sub(' ', low[number.end :])}"
            break
    words = list(dict.fromkeys(tokenize(low)))
    if "?" in text:  # "how much is …?": the words of asking do not stand in posts
        words = [word for word in words if not is_asking_word(word)] or words
    names = frozenset(stem for name in _NAME.findall(text) for stem in tokenize(name))
    variants = {word: found for word, found in expand_words(low).items() if word not in names}
    found = (variants.get(word, {}) for word in words)
    translations = tuple(frozenset(v for v, w in one.items() if w >= _MIN_VARIANT_WEIGHT) for one in found)
    required = len(words) if len(words) <= _ALL_REQUIRED_TERMS else math.ceil(_REQUIRED_SHARE * len(words))
    return WatchQuery(tuple(words), translations, required, detect_language(text), limit, currency)


def split_channels(text: str, readable: Mapping[int, Channel]) -> tuple[str, frozenset[int] | None]:
    """Split a watch into its words and the readable channels that it names, None for none."""
    filters = parse_filters(text.replace("ё", "е"), readable)
    if filters.channels is None:
        return text, None
    words = text.replace("ё", "е")
    for piece in set(filters.words) - set(filters.beside):
        words = re.sub(re.escape(piece), " ", words, flags=re.I)
    return words, filters.channels


def parse_quiet_hours(text: str) -> str | None:
    """Parse "quiet 22-8" to "22-8", "quiet off" to ""; None for another text."""
    quiet = _QUIET_HOURS.fullmatch(text)
    if quiet is None:
        return None
    start, end = (int(quiet[1]) % 24, int(quiet[2]) % 24) if quiet[1] else (0, 0)
    return "" if start == end else f"{start}-{end}"


class WatchIndex:
    """Inverted index of watches."""

    def __init__(self, watches: Iterable[Watch]) -> None:
        self._by_term: dict[str, list[tuple[Watch, WatchQuery]]] = defaultdict(list)
        for watch in watches:
            query = parse_watch(watch.query)
            # A post that meets enough terms meets one of these; long words are rarer than short ones.
            longest = sorted(zip(query.terms, query.translations, strict=True), key=lambda one: -len(one[0]))
            chosen = longest[: len(query.terms) - query.required + 1]
            for term in {term for word, other in chosen for term in (word, *other)}:
                self._by_term[term].append((watch, query))

    def match(self, post: Post) -> list[Watch]:
        """Match a post: the watches that it is for."""
        found = frozenset(tokenize(post.text))
        candidates = {watch.id: (watch, query) for term in found for watch, query in self._by_term.get(term, ())}
        lang = detect_language(post.text) if candidates else ""
        chat = post.key.chat_id
        open_to = ((w, query) for w, query in candidates.values() if w.channels is None or chat in w.channels)
        matched = [(watch, query) for watch, query in open_to if query.count_met(found, lang) >= query.required]
        limited = any(query.limit is not None for _, query in matched)
        amounts = parse_numbers(post.text.lower().replace("ё", "е"), lang) if limited else []
        return [watch for watch, query in matched if query.allows(amounts)]


def find_quote(watch: Watch, text: str) -> TextSpan | None:
    """Find the sentence of a post that meets most terms of a watch; None where none meets any."""
    query, lang = parse_watch(watch.query), detect_language(text)
    met = {span: query.count_met(frozenset(tokenize(text[slice(*span)])), lang) for span in split_into_pieces(text)}
    return max(filter(met.get, met), key=met.__getitem__, default=None)
