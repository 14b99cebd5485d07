"""A clock and a disk from outside, for `fault_matrix.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chaos.slow_disk_and_clock import FaultInjection


@pytest.fixture
def weather(tmp_path: Path) -> FaultInjection:
    found = FaultInjection(tmp_path)
    if found.lacking:
        pytest.skip(found.lacking)
    return found


@pytest.fixture
def inside(weather: FaultInjection, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """What a few words of Python say in a process that lives in this weather."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    weather.begin()

    def said(words: str) -> Any:
        script = f"import json, os, sqlite3, tempfile, time; print(json.dumps({words}))"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
        )
        return json.loads(done.stdout)

    return said


def test_the_clock_of_a_process_is_set_from_outside_and_that_which_only_passes_is_not(
    weather: FaultInjection, inside: Callable[[str], Any]
) -> None:
    clocks = "[time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()]"
    weather.set(wall=-7200, slept=86400)
    wall, slept, passed = inside(clocks)
    assert wall == pytest.approx(time.time() - 7200, abs=60)
    assert slept == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME) + 86400, abs=60)
    assert passed == pytest.approx(time.monotonic(), abs=60)
    weather.set(wall=86400)
    hour = inside('int(sqlite3.connect(":memory:").execute("SELECT unixepoch()").fetchone()[0])')
    assert hour == pytest.approx(time.time() + 86400, abs=60)


def test_a_disk_is_as_slow_as_it_is_told_to_be(weather: FaultInjection, inside: Callable[[str], Any]) -> None:
    synced = "[(file := tempfile.TemporaryFile()).fileno(), time.monotonic(), os.fsync(file), time.monotonic()]"
    weather.set(sync=0.3)
    _, before, _, after = inside(synced)
    assert after - before >= 0.3
