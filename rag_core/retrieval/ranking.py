"""Reranking by features: recency, and the wanted kind of answer near the words of the question.

Everyday questions ask how things are now, and the newest of several posts about a price or a date holds. Both features
are shares of the best score; they change the order of hits, and add none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rag_core.index.postings import TermStatistics
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import split_sentences
from rag_core.text.synonyms import annotate_answer_kinds
from rag_core.text.tokens import tokenize
from rag_core.types import Passage, PassageRef, Plan, Question

__all__ = ["rerank_by_features"]

_RECENCY_WEIGHT, _KIND_WEIGHT = 0.4, 0.4
_RECENCY_DAYS = 365.0  # after so many days a post's bonus has fallen to 1/e
# Words that ask for what was: then the newest post has no bonus.
_PAST = re.compile(
    r"\b(?:(?:19|20)\d\d|перв\w+|раньше|был[аио]?|прошл\w+|first|last (?:year|month|time)|used to|were|was|did)\b", re.I
)


def rerank_by_features(
    ranked: list[tuple[PassageRef, float]], passages: Mapping[PassageRef, Passage], plan: Plan, question: Question,
    statistics: TermStatistics,
) -> list[tuple[PassageRef, float]]:  # fmt: skip
    """Rerank the hits of the question's own query; hits without a passage are left out."""
    asked = QueryTerms.of(plan.queries[0], statistics.weight, plan.aliases)
    wanted = {kind for found in asked.variants.values() for kind in found if kind.startswith("<")}
    present = not (plan.since or plan.until or _PAST.search(question.text))
    top = max((score for _, score in ranked), default=0.0) or 1.0

    def score_features(passage: Passage) -> float:
        header = frozenset(tokenize(passage.header))
        sentences = [passage.text[start:end] for start, end in split_sentences(passage.text)]
        terms = [frozenset(tokenize(sentence)) for sentence in sentences]
        bonus = 0.0
        if present:
            age = max(0.0, (question.asked_at - passage.date).total_seconds() / 86_400)
            bonus += _RECENCY_WEIGHT * math.exp(-age / _RECENCY_DAYS) * asked.met(header.union(*terms))
        if wanted:
            # a sentence with the one before it: "Bread. 90 a loaf."
            near = (
                asked.met(header.union(*terms[max(0, n - 1) : n + 1]))
                for n, sentence in enumerate(sentences)
                if wanted.intersection(annotate_answer_kinds(sentence))
            )
            bonus += _KIND_WEIGHT * max(near, default=0.0)
        return bonus

    scored = [(place, score / top + score_features(passages[place])) for place, score in ranked if place in passages]
    return sorted(scored, key=lambda hit: -hit[1])
