"""Time that can be trusted: how long something took, whatever happens to the clock on the wall."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Clock", "ClockDrift", "elapsed"]

# Sleep counts: a laptop that was closed for three days was out of touch for three days. macOS has no
# CLOCK_BOOTTIME, and its CLOCK_MONOTONIC counts sleep.
_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# The wall clock is put right by seconds all the time; more than this is a jump.
_MIN_JUMP_SECONDS = 60.0


def elapsed() -> float:
    """Seconds since some moment; never set back, and sleep counts."""
    return time.clock_gettime(_BOOT_CLOCK_ID)


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks: Unix seconds as the wall has them, and seconds that only ever pass."""

    wall: Callable[[], float] = time.time
    elapsed: Callable[[], float] = elapsed


@dataclass(slots=True)
class ClockDrift:
    """Notices when the wall clock jumps. Not frozen: it remembers how far the two clocks were apart."""

    clock: Clock
    _apart: float = field(init=False)

    def __post_init__(self) -> None:
        self._apart = self.clock.wall() - self.clock.elapsed()

    def jump(self) -> float:
        """By how many seconds the wall clock was set since the last look; 0 for less than a minute."""
        apart = self.clock.wall() - self.clock.elapsed()
        by = apart - self._apart
        if abs(by) < _MIN_JUMP_SECONDS:
            return 0.0
        self._apart = apart
        return by
