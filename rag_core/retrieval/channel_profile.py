"""Channel profile: what a channel writes about, how often and since when, from its own posts alone.

And the channel that words describe: "what is new at the bakery" asks for the posts of a channel that has another name.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.engine import Engine
from rag_core.storage import Archive, posts
from rag_core.storage.channels import load_channels
from rag_core.storage.posts import list_first_texts
from rag_core.text.aliases import list_time_stems, list_written_namings
from rag_core.text.morphology import is_noun, list_dictionary_forms
from rag_core.text.names import find_names, strip_inflection, transliterate_word
from rag_core.text.query_expansion import SYNONYM_WEIGHT, expand_words
from rag_core.text.query_terms import find_similar_stems, strip_combining_form
from rag_core.text.tokens import stem, tokenize
from rag_core.types import Viewer

_MAX_READ_POSTS = 1000  # the latest
_MAX_LISTED = 6
_MIN_COUNT = 2  # posts: what stands in one is no subject of a channel
_COMMON_WORD = re.compile(r"(?<![\w-])[a-zа-яё]{4,}(?![\w-])")
_WITHIN_SENTENCE = re.compile(r"[\w,;)»”\"]\s+[«„“\"'(]*$")
_START_LENGTH = 8  # characters before a name that show whether it begins a sentence
_ADDRESS = re.compile(r"(?:https?://|t\.me/|www\.|@)\S+")
_MAX_SHARE, _MIN_SHARED_POSTS = 0.7, 10  # what stands in more of so many posts is a signature


@dataclass(frozen=True, slots=True)
class ChannelProfile:
    """Profile of a channel: `weekly` posts in the four weeks before its last one; counts are numbers of posts.

    `read` is the number of the latest posts that names and subjects come from; `namings` are pairs (noun, name).
    """

    posts: int
    first: datetime
    last: datetime
    weekly: float
    read: int
    names: tuple[tuple[str, int], ...]
    subjects: tuple[tuple[str, int], ...]
    namings: tuple[tuple[str, str], ...]


async def profile_channel(
    archive: Archive, chat_id: int, weigh: Callable[[str], float] | None = None
) -> ChannelProfile | None:
    """Profile a channel; None where it has no posts. Raises ArchiveUnavailable.

    `weigh`: the inverse document frequency of a term in the channels that the reader may read; by default in this one.
    """
    span = await posts.fetch_post_span(archive, chat_id)
    if span is None:
        return None
    texts = await posts.list_latest_texts(archive, chat_id, _MAX_READ_POSTS)
    if weigh is None:
        weigh = await asyncio.to_thread(_count_document_frequencies, texts)
    names, subjects, namings = await asyncio.to_thread(_extract_topics, texts, weigh)
    return ChannelProfile(span.posts, span.first, span.last, span.recent / 4, len(texts), names, subjects, namings)


_MAX_DESCRIBED_CHANNELS, _MAX_DESCRIBING_TERMS = 200, 4
_MAX_COUNTED_CHANNELS = 16
_FIRST_POSTS = 3  # they say what a channel is, where the history begins with them
INTRODUCTION_PATTERN = re.compile(
    r"\b(?:канал\w*|чат\w*|сообществ\w+|привет\w*|здравствуй\w*|добро пожаловать|меня зовут|"
    r"channel|chat|this is|welcome|hello|hi|we|мы)\b|\bhere,",
    re.IGNORECASE,
)
_MIN_LIKENESS = 0.6  # of stems of one family: "шахматистов" and "шахматы"


async def find_described_channel(words: str, viewer: Viewer, rag: Engine) -> int | None:
    """Find the channel that words describe, of those that the viewer may read; None if none or several.

    Each of the words that posts know, a synonym, a translation or a word of its family stands in the channel's title
    or in a first post that introduces the channel.
    """
    terms = list(dict.fromkeys(tokenize(words)))
    if not 0 < len(terms) <= _MAX_DESCRIBING_TERMS or len(viewer.channels) > _MAX_DESCRIBED_CHANNELS:
        return None
    known, first = await load_channels(rag.archive), await list_first_texts(rag.archive, viewer.channels, _FIRST_POSTS)
    introductions = {
        chat: frozenset(tokenize("\n".join([*names, *filter(INTRODUCTION_PATTERN.search, texts)]).replace("_", " ")))
        for chat, texts in first.items()
        if chat in known and (names := (known[chat].title, known[chat].username or ""))
    }
    return await asyncio.to_thread(_choose_described, terms, words, introductions, rag)


def _choose_described(
    terms: Sequence[str], words: str, introductions: Mapping[int, frozenset[str]], rag: Engine
) -> int | None:
    frequency = rag.lexical.statistics(frozenset(introductions)).frequency
    # of the words of introductions alone: others, also of channels that the viewer may not read, change nothing
    variants, family = expand_words(words), find_similar_stems(terms, sorted(set().union(*introductions.values())))
    scores, possible = defaultdict[int, float](float), set(introductions)
    for term in terms:
        forms = {term, strip_combining_form(term) or term}
        forms |= {other for likeness, other in family[term] if likeness >= _MIN_LIKENESS}
        ways = forms | {stem(spelt) for spelt in transliterate_word(term)}
        ways |= {other for other, weight in variants.get(term, {}).items() if weight >= SYNONYM_WEIGHT}
        introduced = {chat for chat, said in introductions.items() if not ways.isdisjoint(said)}
        if introduced or any(map(frequency, forms)):
            possible &= introduced  # a word that is nowhere describes nothing
        counts = {  # posts of a channel with one of the words: that which most of them have
            chat: max(map(rag.lexical.statistics(frozenset({chat})).frequency, ways))
            for chat in sorted(introduced)[:_MAX_COUNTED_CHANNELS]
        }
        for chat in introduced:
            scores[chat] += 1 / len(introduced) + counts.get(chat, 0) / max(1, sum(counts.values()))
    best = sorted(possible & scores.keys(), key=lambda chat: -scores[chat])[:2]
    if not best or (len(best) > 1 and scores[best[0]] == scores[best[1]]):
        return None
    return best[0]


def _count_document_frequencies(texts: Sequence[str]) -> Callable[[str], float]:
    frequency = Counter(term for text in texts for term in set(tokenize(text)))
    return lambda term: math.log((len(texts) + 1) / (frequency[term] + 0.5))


_Counts = tuple[tuple[str, int], ...]


def _extract_topics(
    texts: Sequence[str], weigh: Callable[[str], float]
) -> tuple[_Counts, _Counts, tuple[tuple[str, str], ...]]:
    names, words = _GroupedCounts(), _GroupedCounts()
    texts = [_ADDRESS.sub(" ", text) for text in texts]
    namings = Counter(pair for text in texts for pair in set(list_written_namings(text)))
    for text in texts:
        for match in find_names(text):
            parts = match[0].split()
            before = text[max(0, match.start() - _START_LENGTH) : match.start()]
            within = _WITHIN_SENTENCE.search(before) is not None
            if not tokenize(parts[0]):  # "In Riga": a name begins with no function word
                parts, within = parts[1:], True
            # one capital letter at the beginning of a sentence makes no name
            if len(parts) > 1 or (parts and len(parts[0]) > 1 and within):
                names.add(tuple(strip_inflection(word) for word in " ".join(parts).lower().split()), " ".join(parts))
        names.close_post()
        for match in _COMMON_WORD.finditer(text):
            for term in tokenize(match[0]):
                words.add(term, match[0])
        words.close_post()
    most = _MAX_SHARE * len(texts) if len(texts) >= _MIN_SHARED_POSTS else len(texts)
    named = [(written, count) for _, written, count in names.list_frequent() if count <= most]
    common = [one for one in words.list_frequent() if one[2] <= most and one[0] not in list_time_stems()]
    subjects = sorted(common, key=lambda one: (-one[2] * weigh(str(one[0])), one[1]))
    nouns = [
        (next(iter(list_dictionary_forms(word)), word), count)
        for _, word, count in subjects[: 10 * _MAX_LISTED]
        if word.isascii() or is_noun(word)
    ]
    pairs = [pair for pair, count in namings.most_common(_MAX_LISTED) if count >= _MIN_COUNT]
    return tuple(named[:_MAX_LISTED]), tuple(nouns[:_MAX_LISTED]), tuple(pairs)


class _GroupedCounts:
    """Numbers of posts in which words stand that have one key in common, such as a stem."""

    def __init__(self) -> None:
        self._posts: Counter[Hashable] = Counter()
        self._forms: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
        self._here: set[Hashable] = set()

    def add(self, key: Hashable, written: str) -> None:
        """Count a form in the present post."""
        self._here.add(key)
        self._forms[key][written] += 1

    def close_post(self) -> None:
        """End the present post."""
        self._posts.update(self._here)
        self._here.clear()

    def list_frequent(self) -> list[tuple[Hashable, str, int]]:
        """List keys with their most frequent form and the number of posts, the most frequent first."""
        found = [
            (key, min(self._forms[key].items(), key=lambda one: (-one[1], one[0]))[0], count)
            for key, count in self._posts.items()
            if count >= _MIN_COUNT
        ]
        return sorted(found, key=lambda one: (-one[2], one[1]))
