"""Posts cut into passages: most are one; long ones are cut where a paragraph or sentence ends."""

from __future__ import annotations

import re
from math import ceil

from rag_core.header import header
from rag_core.readable import readable
from rag_core.types import Channel, Passage, Post

__all__ = ["passages"]

# 200-300 tokens, overlap 50. A run of up to six letters is about one token of a multilingual
# model (English words have 1.3 of its tokens, Russian ones 1.9), a punctuation mark is one.
_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")
_MOST = 300
_OVERLAP = 50
# How far a cut or a start may move to meet the end of a paragraph or sentence.
_LEEWAY = 40
_SENTENCE_ENDS = frozenset('.!?…»"”)')

_Span = tuple[int, int]


def passages(post: Post, channel: Channel, parent: str | None) -> tuple[Passage, ...]:
    """The passages of a post; `parent` is the text it replies to. None for a post without text and file name."""
    if post.text.strip():
        cuts = _cuts(post.text)
    elif post.media and post.media.file_name:
        cuts = [(0, 0)]
    else:
        return ()
    line = readable(header(post, channel, parent))
    return tuple(
        Passage(post.key, part, line, post.text[start:end], start, end, post.date, post.edited, post.origin)
        for part, (start, end) in enumerate(cuts)
    )


def _cuts(text: str) -> list[_Span]:
    tokens = [match.span() for match in _TOKEN.finditer(text)]
    if len(tokens) <= _MOST:
        stripped = text.strip()
        start = text.index(stripped)
        return [(start, start + len(stripped))]
    found, first = [], 0
    while True:
        last = _end(text, tokens, first)
        found.append(_span(text, tokens, first, last))
        if last == len(tokens):
            return found
        first = _best(text, tokens, range(last - _OVERLAP - _LEEWAY // 2, last - _OVERLAP + _LEEWAY // 2))


def _end(text: str, tokens: list[_Span], first: int) -> int:
    """Where the passage that begins at token `first` ends, so that what is left falls into equal parts."""
    left = len(tokens) - first
    if left <= _MOST:
        return len(tokens)
    parts = ceil((left - _OVERLAP) / (_MOST - _OVERLAP))
    size = ceil((left + _OVERLAP * (parts - 1)) / parts)
    return _best(text, tokens, range(first + size - _LEEWAY, first + min(size + _LEEWAY, _MOST) + 1))


def _best(text: str, tokens: list[_Span], candidates: range) -> int:
    """The token before which it is best to cut: a paragraph, else a sentence, else a word, the later the better."""
    return max(candidates, key=lambda at: (_rank(text, tokens, at), at))


def _rank(text: str, tokens: list[_Span], at: int) -> int:
    gap = text[tokens[at - 1][1] : tokens[at][0]]
    if "\n" in gap:
        return 3
    if gap and text[tokens[at - 1][1] - 1] in _SENTENCE_ENDS:
        return 2
    return 1 if gap else 0


def _span(text: str, tokens: list[_Span], first: int, last: int) -> _Span:
    """From token `first` to before token `last`; what no token holds (rare marks) stays with its neighbour."""
    start = 0 if first == 0 else tokens[first][0]
    end = len(text) if last == len(tokens) else tokens[last][0]
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
