"""Extractive answers: the one to three pieces of the evidence that answer best, word for word.

A candidate is a sentence, or up to three neighbouring ones while they stay short: an answer often needs the sentence
before it ("It opened in May"). Candidates are ranked by a weighted sum of a few plain features. The weights were
fitted by logistic regression over pairs (right above wrong) on the XQuAD development questions, and rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, pairwise

from rag_core.context.evidence import build_text_key
from rag_core.text.answer_type import AnswerType, contains_answer_type
from rag_core.text.query_terms import QueryTerms, kindred
from rag_core.text.sentences import MAX_ANSWER_LENGTH, MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Evidence, Sentence, Source

__all__ = ["ExtractCandidate", "quote_piece", "select_best_pieces"]

_MAX_JOINED_SENTENCES = 3  # sentences
_MAX_GAP = 3  # characters between two sentences that adjoin
# Weights of the features.
(
    _TERMS_WEIGHT,
    _KIN_WEIGHT,
    _NEAR_WEIGHT,
    _RANK_WEIGHT,
    _BEST_WEIGHT,
    _ANSWER_TYPE_WEIGHT,
    _PAIRS_WEIGHT,
    _DENSITY_WEIGHT,
) = 5.5, 5.5, 2.0, 3.5, 0.8, 1.8, 1.1, 2.5
_SAME_POST_BONUS, _ADJOINING_BONUS = 2.0, 1.0
_LENGTH_PENALTY = 0.6  # per MAX_SENTENCE_LENGTH characters: of two equally good pieces the shorter wins
# The latest of equally good posts of one channel wins: it supersedes the others (prices, hours, plans).
_SUPERSEDED_PENALTY = 1.0

_LINKS_AND_TAGS = re.compile(r"https?://\S+|[#@]\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class ExtractCandidate:
    """Candidate piece of a source for an extractive answer.

    `start` and `end` are offsets in the passage's text. `useful` is false if the piece holds no query term, no
    related word and no expression of the expected answer type.
    """

    source: Source
    start: int
    end: int
    score: float
    useful: bool

    def overlaps(self, other: ExtractCandidate) -> bool:
        """Check whether the pieces overlap in one post, or one piece repeats the words of the other."""
        if self.source.number == other.source.number:
            return self.start < other.end and other.start < self.end
        mine, theirs = self.said, other.said
        return mine in theirs or theirs in mine

    @property
    def said(self) -> str:
        """Words of the piece without punctuation, each between spaces."""
        return f" {build_text_key(self.source.passage.text[self.start : self.end])} "


def _enumerate_spans(text: str, found: list[TextSpan], longest: int) -> list[tuple[TextSpan, int, int]]:
    """Candidate spans, none longer than `longest`: (span, first sentence, last sentence)."""
    result: list[tuple[TextSpan, int, int]] = []
    for i, (start, end) in enumerate(found):
        if end - start > longest:
            result += [(window, i, i) for window in split_long_span(text, (start, end), longest)]
            continue
        for j in range(i, min(i + _MAX_JOINED_SENTENCES, len(found))):
            if found[j][1] - start > longest:
                break
            result.append(((start, found[j][1]), i, j))
    return result


def _has_plain_words(text: str) -> bool:
    """Check for a word that is no hashtag, mention or link."""
    return bool(_LETTERS.search(_LINKS_AND_TAGS.sub(" ", text)))


def _score_candidates(asked: QueryTerms, source: Source, standing: float, longest: int) -> list[ExtractCandidate]:
    """Score every piece of a source; `standing` is the score of the source itself."""
    text = source.passage.text
    found = [(a, b) for a, b in split_sentences(text) if _has_plain_words(text[a:b])]
    stems = [frozenset(tokenize(text[a:b])) for a, b in found]
    title = frozenset(tokenize(source.passage.header))
    pairs = set(pairwise(asked.order))
    kin_of = kindred(asked.share, chain.from_iterable(stems))
    result = []
    for (start, end), i, j in _enumerate_spans(text, found, longest):
        order = tokenize(text[start:end])
        here = frozenset(order)
        near = frozenset().union(title, *stems[max(0, i - 1) : i], *stems[j + 1 : j + 2]) - here
        kin = sum(
            share * next((near for near, other in kin_of[term] if other in here), 0.0)
            for term, share in asked.share.items()
            if term not in here
        )
        met = asked.met(here)
        has = contains_answer_type(asked.want, text[start:end], asked.text)
        score = (
            standing
            + _TERMS_WEIGHT * met
            + _KIN_WEIGHT * kin
            + _NEAR_WEIGHT * asked.met(near)
            + _ANSWER_TYPE_WEIGHT * (0.5 if asked.want is AnswerType.ANYTHING else has)
            + _PAIRS_WEIGHT * len(pairs & set(pairwise(order))) / max(1, len(pairs))
            + _DENSITY_WEIGHT * len(here & asked.share.keys()) / max(5, len(here))
            - _LENGTH_PENALTY * (end - start) / MAX_SENTENCE_LENGTH
        )
        useful = met + kin > 0 or (has and asked.want is not AnswerType.ANYTHING)
        result.append(ExtractCandidate(source, start, end, score, useful))
    return result


def _score_source(source: Source, evidence: Evidence) -> float:
    """Score of a source: its retrieval score, a bonus for the best (several can tie), a penalty for later posts."""
    top = max(other.score for other in evidence.sources)
    score = _RANK_WEIGHT * (source.score / top if top > 0 else 1.0) + _BEST_WEIGHT * (source.score >= top)
    chat, date = source.passage.key.chat_id, source.passage.date
    siblings = [s.passage.date for s in evidence.sources if s.passage.key.chat_id == chat and s is not source]
    return score - _SUPERSEDED_PENALTY * sum(later > date for later in siblings) / max(1, len(siblings))


def select_best_pieces(
    asked: QueryTerms, evidence: Evidence, most: int, margin: float, longest: int = MAX_SENTENCE_LENGTH
) -> list[ExtractCandidate]:
    """Select the best pieces, best first: at most `most`, without overlaps, together at most MAX_ANSWER_LENGTH long.

    A further piece is added only if its score is within `margin` of the first; `longest` is in characters.
    """
    found = (c for s in evidence.sources for c in _score_candidates(asked, s, _score_source(s, evidence), longest))
    ranked = sorted(found, key=lambda c: -c.score)
    if not ranked:
        return []
    chosen, characters_left = ranked[:1], MAX_ANSWER_LENGTH - (ranked[0].end - ranked[0].start)
    bar = ranked[0].score - margin
    for candidate in sorted(ranked[1:], key=lambda c: -_score_beside_first(c, ranked[0])):
        if len(chosen) == most or _score_beside_first(candidate, ranked[0]) < bar:
            break
        length = candidate.end - candidate.start
        goes_on = candidate.useful or (asked.want is AnswerType.ANYTHING and _adjoins(candidate, ranked[0]))
        if goes_on and length <= characters_left and not any(candidate.overlaps(other) for other in chosen):
            chosen.append(candidate)
            characters_left -= length
    return chosen


def _adjoins(candidate: ExtractCandidate, first: ExtractCandidate) -> bool:
    gap = max(candidate.start - first.end, first.start - candidate.end)
    return candidate.source.number == first.source.number and gap <= _MAX_GAP


def _score_beside_first(candidate: ExtractCandidate, first: ExtractCandidate) -> float:
    """Score of a further piece: text of the same post gets a bonus, text adjoining the first piece a larger one."""
    same = candidate.source.number == first.source.number
    return candidate.score + _SAME_POST_BONUS * same + _ADJOINING_BONUS * _adjoins(candidate, first)


def quote_piece(piece: ExtractCandidate) -> Sentence:
    """Convert a piece to a sentence of the answer: quoted word for word, cited at its place in the post."""
    passage = piece.source.passage
    quote = passage.text[piece.start : piece.end]
    place = passage.start + piece.start
    citation = Citation(passage.key, quote, place, place + len(quote), passage.date)
    return Sentence(quote, (citation,))
