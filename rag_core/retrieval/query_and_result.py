"""Query and result of the retrievers: what the lexical and the dense index are asked for, and what they found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rag_core.retrieval.stored_vectors import Vector, VectorReader
from rag_core.text.tokens import tokenize
from rag_core.types import PassageRef, SearchFilter

LEXICAL, DENSE, BOTH = "lexical", "dense", "both"

RankedPlaces = list[tuple[PassageRef, float]]


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """Retrieval query: `legs` as in `Plan`, `k` hits of each retriever; `should` are preferred words,
    `aliases` as in the plan."""

    text: str
    legs: str
    k: int
    only: SearchFilter
    lang: str
    should: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """Text of the lexical query: the query and the preferred words that it lacks."""
        known = set(tokenize(self.text))
        return " ".join((self.text, *(word for word in self.should if not known.issuperset(tokenize(word)))))


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """Retrieval result: ranked places, the retriever of each, and the query vector where the dense search answered.

    `found_by` says lexical, dense or both. `by_words` is false where the lexical search failed and only dense hits are
    returned; `cosines` are those of the dense hits, and `vectors` reads stored vectors for those who go on with the
    query vector.
    """

    ranked: RankedPlaces
    found_by: dict[PassageRef, str]
    vector: Vector | None
    by_words: bool = True
    cosines: Mapping[PassageRef, float] = field(default_factory=dict)
    vectors: VectorReader | None = None
