"""Chunking: split posts into passages.

Most posts are one passage. A long post is cut at the end of a paragraph, else of a sentence, else of a word, so that
its passages have about equal length.
"""

from __future__ import annotations

import re
from math import ceil

from rag_core.text.header import build_header
from rag_core.text.tokens import normalize_characters
from rag_core.types import Channel, Passage, Post

# 200-300 tokens, overlap 50. A run of up to six letters is about one token of a multilingual
# model (English words have 1.3 of its tokens, Russian ones 1.9), a punctuation mark is one.
_TOKEN_PATTERN = re.compile(r"\w{1,6}|[^\w\s]")
_MAX_TOKENS = 300
_OVERLAP_TOKENS = 50
# How far a cut or a start may move to reach the end of a paragraph or sentence.
_LEEWAY_TOKENS = 40
_SENTENCE_ENDS = frozenset('.!?…»"”)')

_Span = tuple[int, int]


def split_into_passages(post: Post, channel: Channel, parent: str | None) -> tuple[Passage, ...]:
    """Split a post into passages; `parent` is the text it replies to.

    Returns an empty tuple for a post without text and file name.
    """
    if post.text.strip():
        cuts = _find_cuts(post.text)
    elif post.media and post.media.file_name:
        cuts = [(0, 0)]
    else:
        return ()
    line = normalize_characters(build_header(post, channel, parent))
    return tuple(
        Passage(post.key, part, line, post.text[start:end], start, end, post.date, post.edited, post.origin)
        for part, (start, end) in enumerate(cuts)
    )


def _find_cuts(text: str) -> list[_Span]:
    tokens = [match.span() for match in _TOKEN_PATTERN.finditer(text)]
    if len(tokens) <= _MAX_TOKENS:
        stripped = text.strip()
        start = text.index(stripped)
        return [(start, start + len(stripped))]
    spans, first = [], 0
    while True:
        last = _find_passage_end(text, tokens, first)
        spans.append(_trim_span(text, tokens, first, last))
        if last == len(tokens):
            return spans
        first = _choose_cut(
            text,
            tokens,
            range(last - _OVERLAP_TOKENS - _LEEWAY_TOKENS // 2, last - _OVERLAP_TOKENS + _LEEWAY_TOKENS // 2),
        )


def _find_passage_end(text: str, tokens: list[_Span], first: int) -> int:
    """End of the passage that begins at token `first`, chosen so that the rest splits into equal parts."""
    left = len(tokens) - first
    if left <= _MAX_TOKENS:
        return len(tokens)
    parts = ceil((left - _OVERLAP_TOKENS) / (_MAX_TOKENS - _OVERLAP_TOKENS))
    size = ceil((left + _OVERLAP_TOKENS * (parts - 1)) / parts)
    return _choose_cut(
        text, tokens, range(first + size - _LEEWAY_TOKENS, first + min(size + _LEEWAY_TOKENS, _MAX_TOKENS) + 1)
    )


def _choose_cut(text: str, tokens: list[_Span], candidates: range) -> int:
    """Token before which to cut: the end of a paragraph, else of a sentence, else of a word; the latest of equals."""
    return max(candidates, key=lambda at: (_rank_cut(text, tokens, at), at))


def _rank_cut(text: str, tokens: list[_Span], at: int) -> int:
    gap = text[tokens[at - 1][1] : tokens[at][0]]
    if "\n" in gap:
        return 3
    if gap and text[tokens[at - 1][1] - 1] in _SENTENCE_ENDS:
        return 2
    return 1 if gap else 0


def _trim_span(text: str, tokens: list[_Span], first: int, last: int) -> _Span:
    """Span from token `first` up to token `last`; rare characters outside any token stay with their neighbour."""
    start = 0 if first == 0 else tokens[first][0]
    end = len(text) if last == len(tokens) else tokens[last][0]
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())
