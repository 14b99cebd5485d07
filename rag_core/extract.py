"""Writing without a model: the one to three pieces of the evidence that answer best, word for word.

A candidate is a sentence, or up to three neighbouring ones while they stay short: what answers often
needs the sentence before it ("It opened in May"). Candidates are ranked by a weighted sum of a few
plain features; the weights were fitted by logistic regression over pairs (right above wrong) on the
XQuAD development questions, and rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise

from rag_core.analysis import terms
from rag_core.asked import Asked, kindred
from rag_core.compose import fingerprint
from rag_core.sentences import LONGEST, MOST_SHOWN, Span, pieces, sentences
from rag_core.types import Citation, Evidence, Sentence, Source
from rag_core.wants import Want, holds

__all__ = ["Candidate", "best_pieces", "quoted"]

_MOST_JOINED = 3  # sentences
_GAP = 3  # characters between two sentences that adjoin
# What each feature is worth.
_TERMS, _KIN, _NEAR, _RANK, _BEST, _WANTED, _PAIRS, _DENSE = 5.5, 5.5, 2.0, 3.5, 0.8, 1.8, 1.1, 2.5
_SAME_POST, _ADJOINING = 2.0, 1.0
_SHORT = 0.6  # per LONGEST characters: of two equally good pieces the shorter
# Of posts of one channel that fit equally well the latest: it supersedes the others (prices, hours, plans).
_SUPERSEDED = 1.0

_MARKS = re.compile(r"https?://\S+|[#@]\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of a source that may be shown; `start` and `end` count in the passage's text.

    `useful` is false where it holds nothing that was asked for.
    """

    source: Source
    start: int
    end: int
    score: float
    useful: bool

    def overlaps(self, other: Candidate) -> bool:
        """Whether both show the same place of a post, or one says in another post all that the other says."""
        if self.source.number == other.source.number:
            return self.start < other.end and other.start < self.end
        mine, theirs = self.said, other.said
        return mine in theirs or theirs in mine

    @property
    def said(self) -> str:
        """Its words alone, each between spaces."""
        return f" {fingerprint(self.source.passage.text[self.start : self.end])} "


def _spans(text: str, found: list[Span], longest: int) -> list[tuple[Span, int, int]]:
    """Pieces to consider, none longer than `longest`: (span, first sentence, last sentence)."""
    result: list[tuple[Span, int, int]] = []
    for i, (start, end) in enumerate(found):
        if end - start > longest:
            result += [(window, i, i) for window in pieces(text, (start, end), longest)]
            continue
        for j in range(i, min(i + _MOST_JOINED, len(found))):
            if found[j][1] - start > longest:
                break
            result.append(((start, found[j][1]), i, j))
    return result


def _says_something(text: str) -> bool:
    """Whether there is a word that is no hashtag, mention or link."""
    return bool(_LETTERS.search(_MARKS.sub(" ", text)))


def _candidates(asked: Asked, source: Source, standing: float, longest: int) -> list[Candidate]:
    """Every piece of a source with its score; `standing` is what its source is worth."""
    text = source.passage.text
    found = [(a, b) for a, b in sentences(text) if _says_something(text[a:b])]
    stems = [frozenset(terms(text[a:b])) for a, b in found]
    title = frozenset(terms(source.passage.header))
    pairs = set(pairwise(asked.order))
    kin_of = kindred(asked.share, chain.from_iterable(stems))
    result = []
    for (start, end), i, j in _spans(text, found, longest):
        order = terms(text[start:end])
        here = frozenset(order)
        near = frozenset().union(title, *stems[max(0, i - 1) : i], *stems[j + 1 : j + 2]) - here
        kin = sum(
            share * next((near for near, other in kin_of[term] if other in here), 0.0)
            for term, share in asked.share.items()
            if term not in here
        )
        met = asked.met(here)
        has = holds(asked.want, text[start:end], asked.text)
        score = (
            standing
            + _TERMS * met
            + _KIN * kin
            + _NEAR * asked.met(near)
            + _WANTED * (0.5 if asked.want is Want.ANYTHING else has)
            + _PAIRS * len(pairs & set(pairwise(order))) / max(1, len(pairs))
            + _DENSE * len(here & asked.share.keys()) / max(5, len(here))
            - _SHORT * (end - start) / LONGEST
        )
        useful = met + kin > 0 or (has and asked.want is not Want.ANYTHING)
        result.append(Candidate(source, start, end, score, useful))
    return result


def _standing(source: Source, evidence: Evidence) -> float:
    """What a source is worth by its own score, by being the best (several can be), and by later posts beside it."""
    top = max(other.score for other in evidence.sources)
    worth = _RANK * (source.score / top if top > 0 else 1.0) + _BEST * (source.score >= top)
    chat, date = source.passage.key.chat_id, source.passage.date
    siblings = [s.passage.date for s in evidence.sources if s.passage.key.chat_id == chat and s is not source]
    return worth - _SUPERSEDED * sum(later > date for later in siblings) / max(1, len(siblings))


def best_pieces(asked: Asked, evidence: Evidence, most: int, margin: float, longest: int = LONGEST) -> list[Candidate]:
    """The best pieces, best first: at most `most`, no two overlapping, together short enough to be shown.

    A further piece is shown only when its score is within `margin` of the first; `longest` is in characters.
    """
    found = (c for s in evidence.sources for c in _candidates(asked, s, _standing(s, evidence), longest))
    ranked = sorted(found, key=lambda c: -c.score)
    if not ranked:
        return []
    chosen, room = ranked[:1], MOST_SHOWN - (ranked[0].end - ranked[0].start)
    bar = ranked[0].score - margin
    for candidate in sorted(ranked[1:], key=lambda c: -_beside(c, ranked[0])):
        if len(chosen) == most or _beside(candidate, ranked[0]) < bar:
            break
        length = candidate.end - candidate.start
        goes_on = candidate.useful or (asked.want is Want.ANYTHING and _adjoins(candidate, ranked[0]))
        if goes_on and length <= room and not any(candidate.overlaps(other) for other in chosen):
            chosen.append(candidate)
            room -= length
    return chosen


def _adjoins(candidate: Candidate, first: Candidate) -> bool:
    gap = max(candidate.start - first.end, first.start - candidate.end)
    return candidate.source.number == first.source.number and gap <= _GAP


def _beside(candidate: Candidate, first: Candidate) -> float:
    """The score of a further piece: what stands in the same post, best right beside the first, goes on with it."""
    same = candidate.source.number == first.source.number
    return candidate.score + _SAME_POST * same + _ADJOINING * _adjoins(candidate, first)


def quoted(piece: Candidate) -> Sentence:
    """A piece as a sentence of an answer: its own words, cited where they stand in the post."""
    passage = piece.source.passage
    quote = passage.text[piece.start : piece.end]
    place = passage.start + piece.start
    citation = Citation(passage.key, quote, place, place + len(quote), passage.date)
    return Sentence(quote, (citation,))
