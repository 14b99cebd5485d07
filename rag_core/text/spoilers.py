"""Spoilers: words that a post hides are hidden wherever they are shown, in a chat by format, elsewhere covered.

They are found by their words: a text may show a part of a spoiler, and a model may use its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rag_core.text.tokens import tokenize
from rag_core.types import Entity, Post

COVER = "▒"
_WORD = re.compile(r"\w+")
_MAX_SPOILERS = 100  # of a post, as many as Telegram allows entities; more are read as one
_LONG_RUN = 3  # words of a spoiler in a row that are hidden though each stands openly in the post as well


@dataclass(frozen=True, slots=True)
class Spoiler:
    """Hidden text: `words` in order, in lower case; `telling`: terms that the post has nowhere else."""

    text: str
    words: tuple[str, ...]
    telling: frozenset[str]


def list_spoilers(posts: Iterable[Post]) -> tuple[Spoiler, ...]:
    """List the spoilers of posts, with the addresses under hidden words."""
    found = []
    for post in posts:
        shown, hidden = split_off_spoilers(post.text, post.entities)
        elsewhere = frozenset(tokenize(shown)) if hidden else frozenset[str]()
        found += [Spoiler(text, _split_words(text), frozenset(tokenize(text)) - elsewhere) for text in hidden if text]
    return tuple(found)


def split_off_spoilers(text: str, entities: Sequence[Entity]) -> tuple[str, list[str]]:
    """Split a text into what it shows, with spaces for its spoilers, and what it hides, with addresses under it."""
    spans = [(2 * e.offset, 2 * (e.offset + e.length)) for e in entities if e.type == "spoiler"]
    if not spans:
        return text, []
    units = text.encode("utf-16-le")
    hidden = [units[start:end].decode("utf-16-le", "replace") for start, end in spans]
    shown, covers = bytearray(units), bytearray(len(units) + 1)
    for start, end in spans:
        shown[start:end] = " ".encode("utf-16-le") * len(units[start:end:2])
        covers[start:end] = b"\1" * len(units[start:end])
    hidden += [e.url for e in entities if e.url and 2 * e.offset < len(covers) and covers[2 * e.offset]]
    return shown.decode("utf-16-le", "replace"), hidden if len(hidden) <= _MAX_SPOILERS else [" ".join(hidden)]


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(text))


def find_spoiler_spans(text: str, spoilers: Iterable[Spoiler]) -> list[tuple[int, int]]:
    """Find what a text shows of spoilers, as merged spans in code points."""
    matches = list(_WORD.finditer(text))
    words, terms = [match[0].lower() for match in matches], [tokenize(match[0]) for match in matches]
    spans = []
    for spoiler in spoilers:
        if not spoiler.words:  # nothing but signs
            spans += [match.span() for match in re.finditer(re.escape(spoiler.text.strip()), text)]
            continue
        own, whole = frozenset(spoiler.words), f" {' '.join(spoiler.words)} "
        telling = [not spoiler.telling.isdisjoint(here) for here in terms]
        held = [word in own or tells for word, tells in zip(words, telling, strict=True)]
        for hidden, run in groupby(range(len(words)), held.__getitem__):
            there = list(run)
            said = f" {' '.join(words[n] for n in there)} "
            if hidden and (len(there) >= _LONG_RUN or any(telling[n] for n in there) or whole in said):
                spans.append((matches[there[0]].start(), matches[there[-1]].end()))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def cover_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Cover spans of a text; its length in UTF-16 units and its white space stay."""
    for start, end in sorted(spans, reverse=True):
        covered = "".join(c if c.isspace() else COVER * (1 + (c > "\uffff")) for c in text[start:end])
        text = f"{text[:start]}{covered}{text[end:]}"
    return text


def cover_spoilers(text: str, spoilers: Sequence[Spoiler]) -> str:
    """Cover what a text shows of spoilers."""
    return cover_spans(text, find_spoiler_spans(text, spoilers)) if spoilers else text
