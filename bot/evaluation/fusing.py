"""Which fusion is safe for the embedding model in use: every candidate on the same two rankings of each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from bot.evaluation.index import Indexed
from rag_core.doors.lexical import Filter, Place
from rag_core.fuse import Fusion
from rag_core.search import by_meaning, by_words

__all__ = ["Legs", "both_legs", "safest"]

_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_CANDIDATES = tuple(Fusion(kind, weight) for kind in ("sum", "rrf") for weight in _WEIGHTS)
_DEPTHS = (1, 5, 20)
_MAY_LOSE = 0.005  # of a recall, against the lexical leg alone: less is noise
_TOP = 50  # hits of each leg, as in an answer
_WORDS_ALONE = Fusion("sum", 0.0)

Ranking = list[tuple[Place, float]]


@dataclass(frozen=True, slots=True)
class Legs:
    """What each leg found for one question, and what is relevant."""

    lang: str
    relevant: frozenset[str]
    lexical: Ranking
    dense: Ranking
    names: dict[Place, str]

    def recalls(self, fusion: Fusion) -> tuple[float, ...]:
        """1 or 0 for each depth: whether a relevant document is that high; then the reciprocal rank to 10."""
        order = fusion(self.lexical, self.dense, _TOP)
        hits = [self.names[place] in self.relevant for place, _ in order]
        reciprocal = next((1 / n for n, hit in enumerate(hits[:10], 1) if hit), 0.0)
        return (*(float(any(hits[:depth])) for depth in _DEPTHS), reciprocal)


async def both_legs(data: Indexed) -> list[Legs]:
    """Ask both legs every answerable question."""
    only = Filter(data.viewer.channels)
    rows = []
    for query in tqdm([q for q in data.dataset.queries if q.relevant], desc="legs", delay=1, leave=False):
        lexical = await by_words(query.text, only, _TOP, data.rag)
        dense, _ = await by_meaning(query.text, only, _TOP, data.rag)
        names = {place: data.id_of(place.key) for place, _ in [*lexical, *dense]}
        rows.append(Legs(query.lang, query.relevant, lexical, dense, names))
    return rows


def safest(rows: Sequence[Legs]) -> dict[str, Fusion]:
    """For each language the fusion with the best mean reciprocal rank that loses nothing at any depth.

    Where none is safe, the words alone; of equals the one that trusts the dense leg less.
    """
    found = {}
    for lang in sorted({row.lang for row in rows}):
        own = [row for row in rows if row.lang == lang]
        base = _means(own, _WORDS_ALONE)
        safe = [(f, m) for f in _CANDIDATES if _loses_nothing(m := _means(own, f), base)]
        better = [(f, m) for f, m in safe if m[-1] > base[-1]]
        best = max(better, key=lambda pair: (round(float(pair[1][-1]), 4), -pair[0].dense), default=None)
        found[lang] = best[0] if best else _WORDS_ALONE
    return found


def _means(rows: Sequence[Legs], fusion: Fusion) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = np.mean([row.recalls(fusion) for row in rows], axis=0)
    return means


def _loses_nothing(
    means: np.ndarray[tuple[int], np.dtype[np.float64]], base: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> bool:
    return bool(np.all(means[:-1] >= base[:-1] - _MAY_LOSE))
