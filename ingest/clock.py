"""Monotonic clock, wall clock, and detection of jumps of the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Clock", "ClockDrift", "elapsed"]

# Sleep must count: a laptop closed for three days was offline for three days. macOS has no CLOCK_BOOTTIME, and its
# CLOCK_MONOTONIC counts sleep.
_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# The wall clock is corrected by seconds all the time; more than this is a jump.
_MIN_JUMP_SECONDS = 60.0


def elapsed() -> float:
    """Monotonic seconds from an arbitrary start; time asleep counts."""
    return time.clock_gettime(_BOOT_CLOCK_ID)


@dataclass(frozen=True, slots=True)
class Clock:
    """Pair of clocks: wall clock in Unix seconds, and monotonic seconds."""

    wall: Callable[[], float] = time.time
    elapsed: Callable[[], float] = elapsed


@dataclass(slots=True)
class ClockDrift:
    """Detector of wall-clock jumps. Mutable: it stores the last offset between the two clocks."""

    clock: Clock
    _apart: float = field(init=False)

    def __post_init__(self) -> None:
        self._apart = self.clock.wall() - self.clock.elapsed()

    def jump(self) -> float:
        """Seconds by which the wall clock has jumped since the last call; 0 below one minute."""
        apart = self.clock.wall() - self.clock.elapsed()
        by = apart - self._apart
        if abs(by) < _MIN_JUMP_SECONDS:
            return 0.0
        self._apart = apart
        return by
