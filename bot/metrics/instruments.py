"""What is counted and timed while the bot works: the names, what they mean, and their buckets.

Names follow https://prometheus.io/docs/practices/naming/. Labels hold words of the code alone, at most `_MOST` of
each: every value is a series for as long as the bot runs.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

__all__ = ["OTHER", "Few", "Instruments"]

OTHER = "other"
_MOST = 64  # values of one label
_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # seconds: budgets of stages are 1 to 10
_LONG = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 180, 600)  # seconds: a question may take 90, and wait
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FEW = (1, 2, 3, 4, 6, 8, 12)

disable_created_metrics()  # type: ignore[no-untyped-call] # another series beside each


class Few:
    """Lets the first values of a label pass, and calls all further ones "other"."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """The value, or "other"."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


class Instruments:
    """All of one bot; `registry` holds them and what is known of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        # Each label's names of its own: those of all together are more than one may have.
        self.stage_name, self.recipe_name, self.tool_name, self.method_name = Few(), Few(), Few(), Few()
        self._questions()
        self._stages()
        self._outside()

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(f"citegram_{name}", said, labels, registry=self.registry)

    def _histogram(self, name: str, said: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"citegram_{name}", said, labels, registry=self.registry, buckets=buckets)

    def _questions(self) -> None:
        self.questions = self._counter(
            "questions", "Questions: answered, refused, trouble, stopped.", "kind", "recipe", "outcome"
        )
        self.took = self._histogram("question_seconds", "From a worker's taking it to its delivery.", _LONG, "recipe")
        self.waited = self._histogram("queue_wait_seconds", "From asking to a worker's taking it, in seconds.", _LONG)
        self.steps = self._histogram("question_steps", "Steps of a recipe that goes by steps.", _FEW, "recipe")
        self.rounds = self._histogram("question_rounds", "Searches made for one question.", _FEW, "recipe")
        self.confidence = self._histogram(
            "confidence", "How much of a question its evidence covers, 0 to 1.", _SHARES, "recipe"
        )
        self.coverage = self._histogram(
            "citation_coverage", "Share of an answer's sentences that cite a post.", _SHARES, "recipe"
        )

    def _stages(self) -> None:
        self.stage = self._histogram("stage_seconds", "How long a stage took, failed or not.", _QUICK, "stage")
        self.failures = self._counter("stage_failures", "Stages that failed: timeout, stopped, failed.", "stage", "why")
        self.without = self._counter("shortfalls", "What answers did without, by stage.", "stage")
        self.tool = self._histogram("tool_seconds", "How long a tool took, failed or not.", _QUICK, "tool")
        self.tools = self._counter("tool_calls", "Calls of tools: ok, timeout, failed.", "tool", "outcome")
        self.reflections = self._counter("reflections", "Drafts that a model judged: ok, failed.", "outcome")
        self.calls = self._counter("model_calls", "Generations asked of a language model.", "stage")
        self.tokens = self._counter("model_tokens", "Tokens that a model read or wrote.", "stage", "kind")

    def _outside(self) -> None:
        self.telegram = self._counter(
            "telegram_calls", "Tries of Telegram's methods, by what came of them.", "method", "outcome"
        )
        self.telegram_took = self._histogram(
            "telegram_call_seconds", "How long tries took, but for those that wait for updates.", _QUICK
        )
        self.logged = self._counter("log_records", "Lines of the log: warning, error.", "level")
        self.scrape_failures = self._counter("scrape_failures", "Parts that a scrape could not tell.", "part")
