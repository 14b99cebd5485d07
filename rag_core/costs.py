"""What the work of a language model cost, added up for the trace: figures only."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from rag_core.doors.llm import Figures

__all__ = ["Costs"]


@dataclass
class Costs:
    """Calls, tokens and times of one stage. Not frozen: they add up. A call that was broken off counts as a call."""

    calls: int = 0
    figures: list[Figures] = field(default_factory=list)
    _began: float = field(default_factory=perf_counter)
    _first: float | None = None

    def begin(self) -> None:
        """The model is ours from now on."""
        self._began = perf_counter()

    def call(self) -> None:
        """Something is asked of the model."""
        self.calls += 1

    def paid(self, figures: Figures) -> None:
        """It has answered."""
        self.figures.append(figures)

    def sentence(self) -> None:
        """There is something to show; only the first time counts."""
        if self._first is None:
            self._first = perf_counter() - self._began

    def noted(self) -> dict[str, float]:
        """As they stand in a trace; tokens per second are those of writing, without the reading of the prompt."""
        tokens = sum(one.tokens for one in self.figures)
        writing = sum(max(0.0, one.took_ms - one.first_ms) for one in self.figures) / 1000
        found: dict[str, float] = {
            "calls": self.calls,
            "tokens": tokens,
            "prompt_tokens": sum(one.prompt_tokens for one in self.figures),
            "evaluated": sum(one.evaluated for one in self.figures),
        }
        if writing > 0:
            found["tokens_per_s"] = round(tokens / writing, 1)
        if self._first is not None:
            found["first_sentence_ms"] = round(self._first * 1000, 1)
        return found
