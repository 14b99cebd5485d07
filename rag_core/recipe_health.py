"""Circuit breaker for recipes: one that fails too often is left out for five minutes, then tried again.

A recipe is judged by its last 20 answers, and by no fewer than 4: one failure is no rate. After the pause one
question is let through, and its result decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["RecipeHealth"]

_WINDOW_ANSWERS = 20  # last answers of a recipe that count
_MIN_ANSWERS = 4  # answers before a recipe can be left out: one failure is no rate
_PAUSE_SECONDS = 300.0  # before a trial


@dataclass
class RecipeHealth:
    """Circuit breaker for each recipe, by the outcomes of its last answers. `clock` gives seconds."""

    clock: Callable[[], float]
    _ended: dict[str, deque[bool]] = field(default_factory=dict)
    _resting: dict[str, float] = field(default_factory=dict)

    def ended(self, recipe: str, *, well: bool, limit: float) -> None:
        """Record an outcome. `limit` is the share of failures (0-1) above which the recipe pauses."""
        last = self._ended.setdefault(recipe, deque(maxlen=_WINDOW_ANSWERS))
        last.append(well)
        if recipe in self._resting:  # this was the trial after the pause
            del self._resting[recipe]
            last.clear()
            last.append(well)
            if not well:
                self._resting[recipe] = self.clock()
        elif len(last) >= _MIN_ANSWERS and last.count(False) > limit * len(last):
            self._resting[recipe] = self.clock()

    def resting(self, recipe: str) -> bool:
        """Whether a recipe is paused now. After the pause one question is let through as a trial."""
        since = self._resting.get(recipe)
        if since is None:
            return False
        if self.clock() - since < _PAUSE_SECONDS:
            return True
        self._resting[recipe] = self.clock()  # other questions wait for the result of the trial
        return False

    def rates(self) -> dict[str, tuple[int, int]]:
        """Failures and answers in the window, by recipe."""
        return {name: (last.count(False), len(last)) for name, last in self._ended.items()}
