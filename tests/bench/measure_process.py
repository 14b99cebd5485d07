"""How things are measured: times, memory, disk. Every engine is measured in a process of its own."""

import ctypes
import gc
import json
import resource
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_ROUNDS = 3
_FEWEST = 5  # queries


def times(queries, ask, budget=20.0):
    """Milliseconds of each query, the best of three rounds: what else the machine did is not counted.

    Of slow ones only so many are asked as `budget` seconds allow, but at least five.
    """
    ask(queries[0])  # what is made at the first use
    slow = seconds(partial(ask, queries[0]))
    some = queries[: max(_FEWEST, int(budget / _ROUNDS / slow))]
    rounds = [[seconds(partial(ask, query)) * 1000 for query in some] for _ in range(_ROUNDS)]
    return [min(each) for each in zip(*rounds, strict=True)]


def percentiles(took, name="query"):
    return {f"{name}_p50_ms": float(np.percentile(took, 50)), f"{name}_p95_ms": float(np.percentile(took, 95))}


def seconds(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def memory_mb():
    """What this process and its children hold now, mapped files included, after giving back what is not needed."""
    gc.collect()
    if sys.platform != "linux":
        return peak_mb()
    ctypes.CDLL(None).malloc_trim(0)
    family = [Path("/proc/self"), *(Path(f"/proc/{child}") for child in _children())]
    pages = sum(int((one / "statm").read_text(encoding="ascii").split()[1]) for one in family)
    return pages * resource.getpagesize() / 2**20


def _children():
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found += (task / "children").read_text(encoding="ascii").split()
    return found


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform == "linux" else 2**20)


def disk_mb(place):
    files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20


def in_child(script, *words):
    """Run a script in a process of its own; the last line it prints is a JSON object.

    The process is told the moment it was started at, on the monotonic clock, as its last argument.
    Raises subprocess.CalledProcessError where it fails.
    """
    command = [sys.executable, str(script), *words, repr(time.monotonic())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
