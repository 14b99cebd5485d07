"""Standing queries: which watches a post matches ("percolation"), by an inverted map from terms to watches.

A post matches where all words of the watch stand in it, in any form, of four words or more three quarters; in a post of
the other language their translations count as well; and, for "ticket under 500", an amount that is not above the limit.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_core.planning.queries import parse_filters
from rag_core.storage.subscriptions import Watch
from rag_core.text.numbers import CURRENCIES, Number, parse_numbers
from rag_core.text.query_terms import expand_words, is_asking_word
from rag_core.text.sentences import TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import Channel, Post

_MIN_VARIANT_WEIGHT = 0.8  # a translation's; synonyms of one language ("fire", "blaze", "burn") would tell too much
_ALL_REQUIRED_TERMS, _REQUIRED_SHARE = 3, 0.75
_MAX_QUOTE_LENGTH = 300
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
    translations = tuple(
        frozenset(v for v, weight in variants.get(word, {}).items() if weight >= _MIN_VARIANT_WEIGHT) for word in words
    )
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
        matched = [
            (watch, query)
            for watch, query in candidates.values()
            if (watch.channels is None or post.key.chat_id in watch.channels)
            and query.count_met(found, lang) >= query.required
        ]
        limited = any(query.limit is not None for _, query in matched)
        amounts = parse_numbers(post.text.lower().replace("ё", "е"), lang) if limited else []
        return [watch for watch, query in matched if query.allows(amounts)]


def find_quote(watch: Watch, text: str) -> TextSpan | None:
    """Find the sentence of a post that meets most terms of a watch; None where none meets any."""
    query, lang, best, most = parse_watch(watch.query), detect_language(text), None, 0
    for whole in split_sentences(text):
        for start, end in split_long_span(text, whole, _MAX_QUOTE_LENGTH):
            met = query.count_met(frozenset(tokenize(text[start:end])), lang)
            if met > most:
                best, most = (start, end), met
    return best
