"""Circuit breaker of a model: one that hung is left alone for a while, so that one question waits for it and no other.

https://martinfowler.com/bliki/CircuitBreaker.html
"""

from __future__ import annotations

import asyncio
import math

from rag_core.errors import ModelLeftAlone

_FIRST_PAUSE_S, _PAUSE_GROWTH, _MAX_PAUSE_S = 15.0, 4.0, 600.0
_DECAY = 0.9  # of the slowest answer, with each one that is quicker


class CircuitBreaker:
    """Open while a model is left alone. `hangs` in a row make the pause longer: 15, 60, 240 s, at most 10 minutes.

    `slowest`: seconds for each character of the slowest prompt that was answered by yes or no; infinite before one was.
    """

    def __init__(self) -> None:
        self.hangs, self.slowest, self._until = 0, math.inf, -math.inf

    def require_closed(self) -> None:
        """Raise ModelLeftAlone while the model is left alone."""
        if asyncio.get_running_loop().time() < self._until:
            raise ModelLeftAlone("The model did not answer: it is left alone for a while.")

    def record_hang(self) -> float:
        """Record that the model did not answer in time; the seconds that it is left alone."""
        pause = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * _PAUSE_GROWTH**self.hangs)
        self.hangs += 1
        self._until = asyncio.get_running_loop().time() + pause
        return pause

    def record_answer(self, seconds_per_character: float = 0.0) -> None:
        """Record that the model answered, and how slowly where that was a yes or no."""
        self.hangs = 0
        if seconds_per_character:
            before = 0.0 if math.isinf(self.slowest) else _DECAY * self.slowest
            self.slowest = max(seconds_per_character, before)
