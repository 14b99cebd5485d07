"""Late interaction: similarities of a question to every token of a passage, and so to any piece of it.

Source: Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over
BERT" (2020), https://arxiv.org/abs/2004.12832; here with the tokens of an embedding model that was trained for means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TokenVectors(NamedTuple):
    """Vectors of the tokens of a text: shape (tokens, dimension), and their offsets in it: shape (tokens, 2)."""

    vectors: NDArray[np.float32]
    spans: NDArray[np.int64]


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-9)
    return units


class PassageSimilarity:
    """Similarity of a question to a passage: `post` is MaxSim over all its tokens, `cosine` that of the mean vectors.

    MaxSim is the mean, over the tokens of the question, of the cosine to the nearest token of the text.
    """

    def __init__(self, question: TokenVectors, passage: TokenVectors) -> None:
        self._passage, self._mean = passage, _normalize(question.vectors.mean(axis=0))
        self._cosines = _normalize(question.vectors) @ _normalize(passage.vectors).T
        self.post, self.cosine = self._measure(slice(None))

    def measure_piece(self, span: tuple[int, int]) -> tuple[float, float]:
        """MaxSim and cosine of the piece at these offsets; both 0 where it has no token, as behind a cut."""
        first, end = np.searchsorted(self._passage.spans[:, 1], span, side="right")
        return self._measure(slice(int(first), int(end)))

    def _measure(self, tokens: slice) -> tuple[float, float]:
        vectors, cosines = self._passage.vectors[tokens], self._cosines[:, tokens]
        if not cosines.size:
            return 0.0, 0.0
        return float(cosines.max(axis=1).mean()), float(_normalize(vectors.mean(axis=0)) @ self._mean)
