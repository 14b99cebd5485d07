"""How many passages hold each term, kept here: stages ask for a term's weight a hundred times a question.

Eight bytes a term in two arrays, and a dict of what changed since they were made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts"]

_MOST_RECENT = 50_000  # changed terms before they are folded in: some 5 MB


class Counts:
    """Passages by dimension. One writer, any number of readers."""

    def __init__(self) -> None:
        self.size = 0  # passages
        # Replaced as one, so that a reader finds each term once.
        self._now = (np.zeros(0, np.uint32), np.zeros(0, np.uint32), Counter[int]())

    def __getitem__(self, dimension: int) -> int:
        """How many passages hold the term of this dimension."""
        numbers, counts, recent = self._now
        at = int(numbers.searchsorted(np.uint32(dimension)))
        before = int(counts[at]) if at < len(numbers) and numbers[at] == dimension else 0
        return max(0, before + recent[dimension])

    def moved(self, gone: Iterable[Iterable[int]], come: Iterable[Iterable[int]]) -> None:
        """Passages went and came, each with the dimensions it holds."""
        recent = self._now[2]
        for sign, passages in ((-1, gone), (1, come)):
            for dimensions in passages:
                self.size += sign
                for one in dimensions:
                    recent[one] += sign
        self.size = max(0, self.size)
        if len(recent) > _MOST_RECENT:
            self._fold()

    def _fold(self) -> None:
        numbers, counts, recent = self._now
        more = np.fromiter(recent.keys(), np.uint32, len(recent))
        joined = np.union1d(numbers, more)
        totals = np.zeros(len(joined), np.int64)
        totals[joined.searchsorted(numbers)] += counts
        totals[joined.searchsorted(more)] += np.fromiter(recent.values(), np.int64, len(recent))
        kept = totals > 0
        self._now = (joined[kept], totals[kept].astype(np.uint32), Counter())

    def dump(self) -> dict[str, NDArray[np.uint32]]:
        """What `restored` takes."""
        self._fold()
        numbers, counts, _ = self._now
        return {"dimensions": numbers, "counts": counts}

    @classmethod
    def restored(cls, size: int, numbers: NDArray[np.uint32], counts: NDArray[np.uint32]) -> Counts:
        """What `dump` gave. Raises ValueError where it does not fit together."""
        if len(numbers) != len(counts):
            raise ValueError("not as many terms as counts")
        made = cls()
        made.size, made._now = size, (numbers.astype(np.uint32), counts.astype(np.uint32), Counter())
        return made
