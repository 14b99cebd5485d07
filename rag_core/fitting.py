"""Evidence made to fit a model's context: the more relevant a post, the more of it is shown; numbers stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_core.analysis import terms
from rag_core.doors.llm import Seat
from rag_core.quoting import quoted_post
from rag_core.sentences import Span, pieces, sentences
from rag_core.types import Evidence, Source

__all__ = ["Excerpt", "fitted", "in_order"]

_LEAST_SHARE = 0.2  # of the best post's room, for one that was hardly found
_SEAM = 2  # tokens that a line end, or a cut between two pieces, may cost beside the pieces' own
_GAP = " … "


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of a source, and about how many tokens it takes with its markers."""

    source: Source
    text: str
    tokens: int

    @property
    def quoted(self) -> str:
        """As it stands in the prompt."""
        return quoted_post(self.text, self.source.number, self.source.passage.header)


@dataclass(frozen=True, slots=True)
class _Piece:
    span: Span
    tokens: int
    worth: float


async def fitted(evidence: Evidence, question: str, tokens: int, seat: Seat) -> list[Excerpt]:
    """Excerpts of at most `tokens` tokens together, best first. What no longer fits is left out; that is no error.

    Room is shared in proportion to relevance; what a short post leaves is for those behind it. Of a post that is too
    long the sentences stay that have most of the question's words, in their order. Raises GenerationFailed.
    """
    sources = [source for source in evidence.sources if source.passage.text.strip()]
    spans = [_spans(source.passage.text) for source in sources]
    texts = [source.passage.text[a:b] for source, found in zip(sources, spans, strict=True) for a, b in found]
    frames = [quoted_post("", source.number, source.passage.header) for source in sources]
    counts = iter(await seat.count([*frames, *texts]))
    framed = [next(counts) + _SEAM for _ in frames]
    asked, top = frozenset(terms(question)), max((source.score for source in sources), default=0.0)
    weights = [max(_LEAST_SHARE, source.score / top) if top > 0 else 1.0 for source in sources]
    shown: list[Excerpt] = []
    left = tokens
    for n, source in enumerate(sources):
        found = [_Piece((a, b), next(counts) + _SEAM, _worth(source.passage.text[a:b], asked)) for a, b in spans[n]]
        room = int(left * weights[n] / sum(weights[n:])) - framed[n]
        if excerpt := _excerpt(source, found, room, left - framed[n], framed[n]):
            shown.append(excerpt)
            left -= excerpt.tokens
    return shown


def in_order(excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    """As a model reads them best: the first first, the second last, the weakest in the middle.

    Source: Liu et al., "Lost in the Middle" (2023), https://arxiv.org/abs/2307.03172
    """
    return [*excerpts[:1], *excerpts[2:], *excerpts[1:2]]


def _spans(text: str) -> list[Span]:
    """Sentences; those too long for one, in pieces that do not overlap."""
    found: list[Span] = []
    for sentence in sentences(text):
        end = sentence[0]
        for start, stop in pieces(text, sentence):
            if stop > end:
                found.append((max(start, end), stop))
                end = stop
    return found


def _worth(text: str, asked: frozenset[str]) -> float:
    return len(asked & frozenset(terms(text)))


def _excerpt(source: Source, found: list[_Piece], room: int, most: int, framed: int) -> Excerpt | None:
    """The best pieces that fit into `room`; the best one alone may take up to `most`."""
    chosen: list[_Piece] = []
    for piece in sorted(found, key=lambda piece: (-piece.worth, piece.span)):
        if piece.tokens <= room or (not chosen and piece.tokens <= most):
            chosen.append(piece)
            room -= piece.tokens
    if not chosen:
        return None
    text = source.passage.text
    chosen.sort(key=lambda piece: piece.span)
    shown, end = "", None
    for piece in chosen:
        start, stop = piece.span
        between = "" if end is None else text[end:start] if not text[end:start].strip() else _GAP
        shown, end = shown + between + text[start:stop], stop
    return Excerpt(source, shown, framed + sum(piece.tokens for piece in chosen))
