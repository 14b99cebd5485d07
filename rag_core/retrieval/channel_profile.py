"""Channel profile: what a channel writes about, how often and since when, from its own posts alone."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.storage import Archive, visible_posts
from rag_core.text.morphology import is_noun, list_dictionary_forms
from rag_core.text.names import find_names, strip_inflection
from rag_core.text.names_given_in_posts import list_time_stems, list_written_namings
from rag_core.text.tokens import tokenize
from rag_core.types import Post

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

    `read` are the latest posts, from which names and subjects come; `namings` are pairs (noun, name).
    """

    posts: int
    first: datetime
    last: datetime
    weekly: float
    read: tuple[Post, ...]
    names: tuple[tuple[str, int], ...]
    subjects: tuple[tuple[str, int], ...]
    namings: tuple[tuple[str, str], ...]


async def profile_channel(
    archive: Archive, chat_id: int, weigh: Callable[[str], float] | None = None
) -> ChannelProfile | None:
    """Profile a channel; None where it has no posts. Raises ArchiveUnavailable.

    `weigh`: the inverse document frequency of a term in the channels that the reader may read; by default in this one.
    """
    span = await visible_posts.fetch_post_span(archive, chat_id)
    if span is None:
        return None
    read = tuple(await visible_posts.list_latest_posts(archive, chat_id, _MAX_READ_POSTS))
    texts = [post.text for post in read]
    if weigh is None:
        weigh = await asyncio.to_thread(_count_document_frequencies, texts)
    names, subjects, namings = await asyncio.to_thread(_extract_topics, texts, weigh)
    return ChannelProfile(span.posts, span.first, span.last, span.recent / 4, read, names, subjects, namings)


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
