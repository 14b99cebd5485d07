"""Sentences: their bounds in the text of a passage, and pieces short enough to show.

Spans are (start, end) in code points; every piece is a verbatim part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from rag_core.text.tokens import tokenize

TextSpan = tuple[int, int]
MAX_SENTENCE_LENGTH = 300  # characters of one shown sentence: a reader takes in that much at a glance
MAX_ANSWER_LENGTH = 600  # characters of all shown sentences together
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


# Possessive, and only from the beginning of a run of marks: linear time in a text of nothing but dots. The marks and the
# line end come first in the pattern, so that it is not tried at every letter.
_SENTENCE_END = re.compile(r"[.!?…\n](?:(?<=\n)\n*|(?<![.!?…].)[.!?…]*+[\"'»”’)\]]*+(?=\s))")
_SENTENCE_START = re.compile(r"[\s\"'«“„‘(\[—–\-*•]*(?:[A-ZА-ЯЁ0-9]|[^\w\s])")
_LAST_WORD = re.compile(r"[^\W\d_]+(?=\.$)")
# Abbreviations that always have a word after them: the full stop behind them never ends a sentence.
_OPEN_ABBREVIATIONS = frozenset(
    "ул пр просп пер пл д кв стр корп им св акад проф доц тов гр гл рис табл см ср напр т тел обл р оз о "
    "mr mrs ms dr prof st vs no fig gen col lt sgt rev hon jr sr approx al e g i".split()
)
_MAX_ABBREVIATION_LENGTH = 9  # characters, with the full stop, and more: a longer word is none
_MIN_CUT_DISTANCE = 10  # least average distance between two cuts, in characters
_WHITESPACE = re.compile(r"\s+")
_CLAUSE_BREAK = re.compile(r"(?<=[,;:)])\s+|(?<!\s)\s+(?=[—–(])")


def is_pasted(text: str) -> bool:
    """Whether a text goes on after the end of a sentence and asks nothing: it was likely pasted from a post."""
    return "?" not in text and bool(_SENTENCE_END.search(text.strip()))


def split_sentences(text: str) -> list[TextSpan]:
    """Split a text into sentences, in order, without the white space around them."""
    cuts = [0]
    for mark in _SENTENCE_END.finditer(text):
        end = mark.end()
        if mark[0][0] != "\n":
            if not _SENTENCE_START.match(text, end):
                continue
            start = max(0, end - _MAX_ABBREVIATION_LENGTH)
            word = _LAST_WORD.search(text, start, end) if text[end - 1] == "." else None
            # an initial ("J. Smith", "К. Чуковский") or an abbreviation does not end a sentence
            if word and ((len(word[0]) == 1 and word[0].isupper()) or word[0].lower() in _OPEN_ABBREVIATIONS):
                continue
        cuts.append(end)
    return _strip_pieces(text, pairwise([*cuts, len(text)]))


@lru_cache(maxsize=500)  # each passage of a question is read by the ranking, the extract and the search for copies
def tokenize_sentences(text: str) -> tuple[tuple[TextSpan, tuple[str, ...]], ...]:
    """Split a text into sentences, each with its terms, in order; of the last 500 texts from a cache."""
    return tuple((span, tuple(tokenize(text[slice(*span)]))) for span in split_sentences(text))


def _strip_pieces(text: str, pieces: Iterable[TextSpan]) -> list[TextSpan]:
    texts = ((end, text[start:end].lstrip()) for start, end in pieces)
    return [(end - len(piece), end - len(piece) + len(piece.rstrip())) for end, piece in texts if piece]


def split_long_span(text: str, span: TextSpan, longest: int = MAX_SENTENCE_LENGTH) -> list[TextSpan]:
    """Split a long sentence into overlapping windows that hold every word, cut between clauses where possible."""
    start, end = span
    if end - start <= longest:
        return [span]
    clauses = [start, *(m.end() for m in _CLAUSE_BREAK.finditer(text, start, end)), end]
    cuts = [start, *(cut for a, b in pairwise(clauses) for cut in (*_cut_between_words(text, a, b, longest), b))]
    if len(cuts) * _MIN_CUT_DISTANCE > end - start:  # closer than in any prose: windows would repeat the same words
        kept = cuts[:1]
        for cut, following in pairwise(cuts):
            if cut - kept[-1] >= _MIN_CUT_DISTANCE or following - kept[-1] > longest:
                kept.append(cut)
        cuts = [*kept, *cuts[-1:]] if kept[-1] != cuts[-1] else kept
    spans, reach = list[TextSpan](), 0
    for i, first in enumerate(cuts[:-1]):
        reach = max(reach, i + 1)
        while reach + 1 < len(cuts) and cuts[reach + 1] - first <= longest:
            reach += 1
        windows = _strip_pieces(text, [(first, cuts[reach])])
        spans += [window for window in windows if not spans or window[1] > spans[-1][1]]
    return spans


def split_between_words(text: str, span: TextSpan, longest: int, *, overlapping: bool = False) -> list[TextSpan]:
    """Split a long sentence into parts of at most `longest` characters: consecutive ones, or overlapping by half."""
    start, end = span
    if end - start <= longest:
        return [span]
    cuts = [start, *_cut_between_words(text, start, end, longest // 2 if overlapping else longest), end]
    return _strip_pieces(text, zip(cuts, cuts[2 if overlapping else 1 :], strict=False))


def _cut_between_words(text: str, start: int, end: int, longest: int) -> Iterator[int]:
    """Cut points of a clause that is longer than `longest` by itself."""
    while end - start > longest:
        spaces = (m.end() for m in _WHITESPACE.finditer(text, start + 1, start + longest))
        start = max(spaces, default=start + longest)
        yield start


def split_into_pieces(text: str, longest: int = MAX_SENTENCE_LENGTH) -> list[TextSpan]:
    """Split a text into sentences, and those that are longer than `longest` characters into parts."""
    return [piece for one in split_sentences(text) for piece in split_long_span(text, one, longest)]
