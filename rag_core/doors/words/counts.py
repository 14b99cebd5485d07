"""Document frequencies by channel, kept here: stages ask for a term's weight a hundred times a question.

Sixteen bytes for each term and channel in two arrays, and a dict of what changed since they were made.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts"]

_MOST_RECENT = 50_000  # changed terms before they are folded in: some 10 MB
_CHAT_BITS = 32


class Counts:
    """Passages by channel and dimension. One writer, any number of readers."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}  # passages by channel
        self._numbers: dict[int, int] = {}  # channel -> its number in the keys
        # Sorted keys (dimension above channel number), their counts, and changes by dimension and channel number.
        # Replaced as one, so that a reader finds each term once.
        self._now = (np.zeros(0, np.uint64), np.zeros(0, np.uint32), defaultdict[int, Counter[int]](Counter))

    @property
    def size(self) -> int:
        """Passages of all channels."""
        return sum(self.sizes.values())

    def size_of(self, channels: Collection[int]) -> int:
        """Passages of some channels."""
        return sum(self.sizes.get(chat, 0) for chat in channels)

    def frequency(self, dimension: int, channels: Collection[int]) -> int:
        """How many passages of these channels hold the term of this dimension."""
        keys, counts, recent = self._now
        allowed = {number for chat in channels if (number := self._numbers.get(chat)) is not None}
        first, last = keys.searchsorted(np.array([dimension, dimension + 1], np.uint64) << np.uint64(_CHAT_BITS))
        numbers: list[int] = (keys[first:last] & np.uint64(2**_CHAT_BITS - 1)).tolist()
        held: list[int] = counts[first:last].tolist()
        before = sum(count for number, count in zip(numbers, held, strict=True) if number in allowed)
        changed = recent.get(dimension)
        return max(0, before + (sum(changed[number] for number in allowed) if changed else 0))

    def change(self, chat: int, gone: Iterable[Iterable[int]] = (), come: Iterable[Iterable[int]] = ()) -> None:
        """Passages of a channel went and came, each with the dimensions it holds."""
        number, recent = self._numbers.setdefault(chat, len(self._numbers)), self._now[2]
        size = self.sizes.get(chat, 0)
        for sign, passages in ((-1, gone), (1, come)):
            for dimensions in passages:
                size += sign
                for one in dimensions:
                    recent[one][number] += sign
        self.sizes[chat] = max(0, size)
        if len(recent) > _MOST_RECENT:
            self._fold()

    def forget(self, chat: int) -> None:
        """Drop all counts of a channel."""
        self._fold()
        keys, counts, _ = self._now
        kept = (keys & np.uint64(2**_CHAT_BITS - 1)) != np.uint64(self._numbers.get(chat, 2**_CHAT_BITS - 1))
        self._now = (keys[kept], counts[kept], defaultdict(Counter))
        self.sizes.pop(chat, None)

    def _fold(self) -> None:
        keys, counts, recent = self._now
        changed = {
            dimension << _CHAT_BITS | number: change
            for dimension, by_number in recent.items()
            for number, change in by_number.items()
        }
        more = np.fromiter(changed.keys(), np.uint64, len(changed))
        joined = np.union1d(keys, more)
        totals = np.zeros(len(joined), np.int64)
        totals[joined.searchsorted(keys)] += counts
        totals[joined.searchsorted(more)] += np.fromiter(changed.values(), np.int64, len(changed))
        kept = totals > 0
        self._now = (joined[kept], totals[kept].astype(np.uint32), defaultdict(Counter))

    def dump(self) -> tuple[dict[str, NDArray[np.generic]], list[tuple[int, int]]]:
        """What `restored` takes: arrays, and by channel, in the order of their numbers, how many passages it has."""
        self._fold()
        keys, counts, _ = self._now
        return {"keys": keys, "counts": counts}, [(chat, self.sizes.get(chat, 0)) for chat in self._numbers]

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[np.generic]], sizes: Iterable[tuple[int, int]]) -> Counts:
        """What `dump` gave. Raises ValueError or KeyError where it does not fit together."""
        keys, counts = arrays["keys"].astype(np.uint64), arrays["counts"].astype(np.uint32)
        if len(keys) != len(counts):
            raise ValueError("not as many terms as counts")
        restored = cls()
        restored.sizes = {int(chat): int(size) for chat, size in sizes}
        restored._numbers = {chat: number for number, chat in enumerate(restored.sizes)}
        restored._now = (keys, counts, defaultdict(Counter))
        return restored
