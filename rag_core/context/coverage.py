"""Coverage: how well the evidence covers a question, and the probability that it answers.

Coverage decides between an answer and a refusal. Two logistic regressions over a few features of the question, the best
post and its best piece: one for brief everyday questions, whose words posts seldom repeat, and one for longer ones. The
weights of the first were fitted on questions typed by people over channels and on short ones of XQuAD, each channel in
turn left out (`citegram eval coverage`), those of the second on XQuAD with whole articles removed, alone and among
Russian news, and RuBQ over the news.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rag_core.index.postings import TermStatistics
from rag_core.text.answer_type import (
    VALUED_TYPES,
    extract_asking_stems,
    extract_capitalized_stems,
    extract_name_stems,
)
from rag_core.text.query_terms import ASKING_STEMS, QueryTerms, find_similar_stems
from rag_core.text.tokens import tokenize
from rag_core.writing.extract_candidates import ExtractCandidate

_FEW_TERMS = math.log(4.5)
_MANY_WORDS = 9
_ALL_KNOWN, _NEARLY_KNOWN, _MOSTLY_KNOWN, _HALF_KNOWN = 0.99, 0.8, 0.65, 0.55  # of the weight of a question
_TYPICAL_CHANCES = 2.9  # value of `chances` in a few hundred posts, on which the other weights were fitted

# Of the model for brief questions, by the names of `Coverage.brief_features`; more evidence never counts against.
BRIEF_SIGNS = {
    "strength": 1, "kin": 1, "count": 1, "length": 1, "chances": -1, "piece": 1, "contested": -1, "held": 1,
    "likeness": 1,
}  # fmt: skip
_LEAST_PIECE = 0.25  # of a brief question's weight; below, only its most common words are met
_BRIEF_SHIFT = -5.45
_BRIEF_WEIGHTS = (0.94, 2.61, 2.63, 1.58, -0.24, 2.08, -0.84, 1.24, 1.89)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Features of the coverage.

    strength: BM25 score of the post over the weight of all query terms
    kin: share of the query weight matched by similar stems only, 0..1
    names: share of the question's names in the post, 0..1; 0.5 where the question has none
    count: share of the query terms in the post, similar stems in part, 0..1; of a brief question without words of
        asking
    length: logarithm of the number of query terms; a share of few terms is more easily matched by chance
    known: share of the query weight matched by any post that the asker may read, or in other words by this one; terms
        that other posts have and this one lacks count against it
    heard: as `known`, and the words of asking
    chances: logarithm of the number of posts with a query term, summed over the terms; among many posts one
        matches by chance
    piece: share of the query weight matched by the piece itself, similar stems in part
    contested: 1 where a later post of the same channel may give another value
    words: number of words in the question, with those that are no terms
    held: 1 where the piece holds a value of the wanted kind, 0.5 where almost any sentence may
    likeness: cosine of the post to the question over the mean one; 0 without a result of the dense retriever
    """

    strength: float = 0.0
    kin: float = 0.0
    names: float = 0.0
    count: float = 0.0
    length: float = 0.0
    known: float = 0.0
    heard: float = 0.0
    chances: float = _TYPICAL_CHANCES
    piece: float = 0.0
    contested: float = 0.0
    words: int = 0
    held: float = 0.5
    likeness: float = 0.0

    @property
    def brief(self) -> bool:
        """Whether the question has few terms, and no name that the post lacks."""
        return self.length <= _FEW_TERMS and (self.names == 0.5 or self.names > 0.99)

    @property
    def partial(self) -> bool:
        """Whether no post knows a word of a brief question, or the post has none of its names: nothing is sure then.

        Of a longer question, no post knows a good part.
        """
        return self.heard < (_ALL_KNOWN if self.brief else _NEARLY_KNOWN) or self.names == 0.0

    @property
    def lenient(self) -> bool:
        """Whether the lower threshold of brief questions holds.

        A question of many words names its topic: a post that lacks most of it is about something else. So is any post
        if no post has the telling words of the question, or the piece no value of the wanted kind.
        """
        written_out = self.words >= _MANY_WORDS and (self.count < 0.5 or self.known < _MOSTLY_KNOWN)
        return self.brief and self.held > 0 and self.known >= _HALF_KNOWN and not written_out

    @property
    def brief_features(self) -> tuple[float, ...]:
        """Features of the model for brief questions, in the order of BRIEF_SIGNS."""
        chances = self.chances - _TYPICAL_CHANCES
        return (
            self.strength, self.kin, self.count, self.length, chances, self.piece, self.contested, self.held,
            self.likeness,
        )  # fmt: skip

    @property
    def likely(self) -> float:
        """Probability that the post answers the question, 0..1."""
        if self.brief and self.piece < _LEAST_PIECE:
            return 0.0
        if self.brief:
            z = _BRIEF_SHIFT + sum(w * v for w, v in zip(_BRIEF_WEIGHTS, self.brief_features, strict=True))
        else:
            z = (
                -11.2
                + 10.9 * self.strength
                + 10.9 * self.kin
                + 2.8 * self.names
                + 2.7 * self.count
                + 3.0 * self.length
                - 2.5 * self.known
                - 0.2 * (self.chances - _TYPICAL_CHANCES)
            )
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))


def measure_coverage(
    asked: QueryTerms,
    best: ExtractCandidate | None,
    statistics: TermStatistics,
    *,
    contested: bool = False,
    likeness: float = 0.0,
) -> Coverage:
    """Measure coverage of a question by the post of the best candidate; `statistics` of posts the asker may read."""
    if best is None or not asked.share:
        return Coverage()
    passage = best.source.passage
    words = tokenize(f"{passage.header}\n{passage.text}")
    there = frozenset(words)
    names, asking = extract_name_stems(asked.text) & asked.share.keys(), extract_asking_stems(asked.text)
    topical = [t for t in asked.share if t not in asking and t not in ASKING_STEMS] or list(asked.share)
    counted = topical
    if math.log(len(topical)) > _FEW_TERMS:
        # among many words one has a synonym in any post by chance: only the question's own words tell
        asked, counted = replace(asked, variants={}), [*asked.share]  # as the weights for longer questions were fitted
    written = extract_capitalized_stems(f"{passage.header}\n{passage.text}") if names else frozenset[str]()
    similar = find_similar_stems(asked.share, words)
    near = {term: max(asked.match(term, there), *(one for one, _ in similar[term][:1]), 0.0) for term in asked.share}
    return Coverage(
        strength=statistics.score(asked.order, words, asked.variants) / sum(map(statistics.weight, asked.share)),
        kin=asked.similar_share(there),
        # a name is not met by a common word of the same stem ("Марте" and "с 1 марта")
        names=sum(near[name] * (name not in there or name in written) for name in names) / len(names) if names else 0.5,
        count=sum(map(near.__getitem__, counted)) / len(counted),
        length=math.log(len(topical)),
        chances=math.log1p(sum(map(statistics.frequency, asked.share))),
        known=sum(share * (statistics.frequency(term) > 0 or near[term]) for term, share in asked.share.items()),
        heard=sum(share for term, share in asked.share.items() if _is_heard(term, asked, asking, statistics)),
        piece=best.features.terms + best.features.kin,
        contested=float(contested),
        words=len(asked.text.split()),
        held=float(best.holds) if asked.want in VALUED_TYPES else 0.5,
        likeness=likeness,
    )


def _is_heard(term: str, asked: QueryTerms, asking: frozenset[str], statistics: TermStatistics) -> bool:
    return term in asking or statistics.frequency(term) > 0
