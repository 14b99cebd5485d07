"""Coverage: measures how well the evidence covers a question, by its best post and the best piece of it.

The probability that follows from it, and what is shown at which probability: rag_core/calibration.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rag_core.calibration import FEW_TERMS, FEW_TRANSLATED_TERMS, CoverageFeatures
from rag_core.index.bm25_postings import TermStatistics
from rag_core.text.answer_type import VALUED_TYPES, extract_asking_stems, extract_capitalized_stems, extract_name_stems
from rag_core.text.query_terms import QueryTerms, is_asking_stem
from rag_core.text.stem_similarity import find_similar_stems
from rag_core.text.tokens import tokenize
from rag_core.writing.extract_candidates import ExtractCandidate


def measure_coverage(
    asked: QueryTerms,
    best: ExtractCandidate | None,
    statistics: TermStatistics,
    *,
    contested: bool = False,
    likeness: float = 0.0,
    foreign: bool = False,
) -> CoverageFeatures:
    """Measure coverage of a question by the post of the best candidate; `statistics` of posts the asker may read.

    `foreign`: the post is of another language than the question, so that it is met by translations.
    """
    if best is None or not asked.share:
        return CoverageFeatures()
    passage = best.source.passage
    words = tokenize(f"{passage.header}\n{passage.text}")
    there = frozenset(words)
    names, asking = extract_name_stems(asked.text) & asked.share.keys(), extract_asking_stems(asked.text)
    topical = [t for t in asked.share if t not in asking and not is_asking_stem(t)] or list(asked.share)
    counted = topical
    translated = foreign and math.log(len(topical)) <= FEW_TRANSLATED_TERMS
    if math.log(len(topical)) > FEW_TERMS and not translated:
        # among many words one has a synonym in any post by chance: only the question's own words tell
        asked, counted = replace(asked, variants={}), [*asked.share]  # as the weights for longer questions were fitted
    written = extract_capitalized_stems(f"{passage.header}\n{passage.text}") if names else frozenset[str]()
    similar = find_similar_stems(asked.share, words)
    near = {term: max(asked.match(term, there), *(one for one, _ in similar[term][:1]), 0.0) for term in asked.share}
    return CoverageFeatures(
        strength=statistics.score(asked.order, words, asked.variants) / sum(map(statistics.weight, asked.share)),
        kin=asked.similar_share(there),
        # a name is not met by a common word of the same stem ("Марте" and "с 1 марта")
        names=sum(near[name] * (name not in there or name in written) for name in names) / len(names) if names else 0.5,
        count=sum(map(near.__getitem__, counted)) / len(counted),
        length=math.log(len(topical)),
        chances=math.log1p(sum(map(statistics.frequency, asked.share))),
        known=sum(share * (statistics.frequency(term) > 0 or near[term]) for term, share in asked.share.items()),
        heard=sum(share for term, share in asked.share.items() if term in asking or statistics.frequency(term) > 0),
        piece=best.features.terms + best.features.kin,
        contested=float(contested),
        words=len(asked.text.split()),
        held=float(best.holds) if asked.want in VALUED_TYPES else 0.5,
        likeness=likeness,
        translated=translated,
    )
