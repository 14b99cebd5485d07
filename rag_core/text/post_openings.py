"""Post openings: the first sentences of a post that say something, and the key by which texts are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from rag_core.text.sentences import TextSpan, split_long_span, split_sentences

_LINKS_AND_MENTIONS = re.compile(r"https?://\S+|\bt\.me/\S+|(?<!\w)@\w+")
_LINK_SIGNS = ("://", "t.me/", "@")
_NO_WORD = re.compile(r"[\W_]+")
_MAX_OPENING_LENGTH, _MIN_OPENING_LENGTH = 110, 30  # characters of a post in a line
_MAX_OPENING_GAP = 3  # characters between two sentences that adjoin
_LINKS_AND_TAGS = re.compile(r"https?://\S+|[#@]\w+")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}")
_MIN_WORDS = 2  # of a sentence that says something


@lru_cache(maxsize=1000)  # each passage of a question is compared several times
def build_text_key(text: str) -> str:
    """Build the comparison key of a text: its words, without links, mentions and punctuation."""
    low = text.lower().replace("ё", "е")
    if any(sign in low for sign in _LINK_SIGNS):
        low = _LINKS_AND_MENTIONS.sub(" ", low)
    return _NO_WORD.sub(" ", low).strip()


def find_opening(
    text: str, spoken: Mapping[str, int] = MappingProxyType({}), longest: int = _MAX_OPENING_LENGTH
) -> TextSpan | None:
    """Find the first sentences that say something, of at most `longest` characters together.

    `spoken` counts the posts that have a sentence: what stands in several says nothing about one.
    """
    spans = split_sentences(text)
    for n, (start, end) in enumerate(spans):
        if not says_something(text[start:end]) or spoken.get(build_text_key(text[start:end]), 0) > 1:
            continue
        if end - start > longest:
            return split_long_span(text, (start, end), longest)[0]
        for next_start, next_end in spans[n + 1 :]:
            said_often = spoken.get(build_text_key(text[next_start:next_end]), 0) > 1
            if said_often or next_start - end > _MAX_OPENING_GAP or text[next_start] in "#@":
                break
            if next_end - start > longest:
                # a greeting or a heading says little without a piece of what follows
                short = end - start < _MIN_OPENING_LENGTH
                return split_long_span(text, (start, next_end), longest)[0] if short else (start, end)
            end = next_end
        return start, end
    return None


def says_something(text: str) -> bool:
    """Whether a text has words besides links and tags."""
    return len(_LONG_WORD.findall(_LINKS_AND_TAGS.sub(" ", text))) >= _MIN_WORDS
