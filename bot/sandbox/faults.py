"""Fault injection: errors, proxies' pages, dropped connections and delays on the way to Telegram, on demand.

The rate limits are Telegram's published ones and are off until `limits = True`
(https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from bot.sandbox.entities import BotApiError

FaultKind = Literal["429", "500", "502html", "409", "garbled", "drop", "lost", "stall"]

_CHAT_LIMIT = (1, 1.0)
_GROUP_LIMIT = (20, 60.0)
_OVERALL_LIMIT = (30, 1.0)
_LIMITED_METHOD_PREFIXES = ("send", "edit", "forward", "copy")


@dataclass(slots=True)
class Fault:
    """A pending fault: the next `times` calls of `method` meet it ("*": any but getUpdates; "file": a download).

    "drop" closes the connection before the call is read, "lost" after it is carried out; "stall" waits `seconds` and
    then carries it out; "409" reports another poller with the same token; "garbled" answers truncated JSON.
    """

    method: str
    kind: FaultKind
    times: int
    retry_after: int
    seconds: float


@dataclass(slots=True)
class FaultInjector:
    """Pending faults and rate limits."""

    clock: Callable[[], float]
    limits: bool = False
    waiting: list[Fault] = field(default_factory=list)
    _sent: dict[object, deque[float]] = field(default_factory=dict)
    _storm: tuple[float, Fault, Random] | None = None

    def fail_next(
        self, method: str, kind: FaultKind = "429", *, times: int = 1, retry_after: int = 1, seconds: float = 10
    ) -> None:
        """Make the next `times` calls of a method fail."""
        self.waiting.append(Fault(method.lower(), kind, times, retry_after, seconds))

    def storm(self, kind: FaultKind, share: float, *, retry_after: int = 1, seconds: float = 10, seed: int = 0) -> None:
        """Make this share (0..1) of all calls but getUpdates fail, until `clear`. The same seed selects the same."""
        self._storm = share, Fault("*", kind, 1, retry_after, seconds), Random(seed)  # noqa: S311 - no secret

    def clear(self) -> None:
        """Remove the pending faults, and end the storm."""
        self.waiting.clear()
        self._storm = None

    def meet(self, method: str) -> Fault | None:
        """Take the fault for this call, if any."""
        name = method.lower()
        for fault in self.waiting:
            if fault.method == name or (fault.method == "*" and name != "getupdates"):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        if self._storm and name != "getupdates" and self._storm[2].random() < self._storm[0]:
            return self._storm[1]
        return None

    def count(self, method: str, chat_id: int | None) -> None:
        """Count a call against the rate limits; raises 429 with `retry_after` beyond them."""
        if not self.limits or not method.lower().startswith(_LIMITED_METHOD_PREFIXES):
            return
        windows: list[tuple[object, int, float]] = [("all", *_OVERALL_LIMIT)]
        if chat_id is not None and not method.lower().endswith(("draft", "action")):
            windows.append((chat_id, *_CHAT_LIMIT))
            if chat_id < 0:
                windows.append((("group", chat_id), *_GROUP_LIMIT))
        now = self.clock()
        wait = max(self._wait(key, most, span, now) for key, most, span in windows)
        if wait > 0:
            raise too_many_requests(math.ceil(wait))
        for key, _, _ in windows:
            self._sent.setdefault(key, deque()).append(now)

    def _wait(self, key: object, most: int, span: float, now: float) -> float:
        times = self._sent.setdefault(key, deque())
        while times and times[0] <= now - span:
            times.popleft()
        return times[0] + span - now if len(times) >= most else 0.0


def too_many_requests(seconds: int) -> BotApiError:
    """Build a 429 error with the seconds to wait."""
    return BotApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
