"""Vector search under nine filters: times, processor time and recall@50, beside the exact scan in numpy.

The filters: one channel, three, all twelve; each without dates, in half a year, in two weeks. Vectors and questions
are those of `dense_engines.py`. Milliseconds of a busy machine mean little: there the processor time of the store's
worker process counts.

python tests/bench/filtered_vectors.py [--posts 100k] [--questions 40]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dense_engines import Near, Ours, Rows, draw, find_nearest, slices
from bench.measure_process import disk_mb, memory_mb, seconds
from bench.run_bench import parse_size
from bench.synthetic_posts import CHANNELS, Frame
from numpy.typing import NDArray

from rag_core.types import SearchFilter

_ROUNDS = 3
_CHATS = [channel.chat_id for channel in CHANNELS]
_FILTERS = [f"{chats}, {dates}" for chats in ("1 channel", "3 channels", "12 channels")
            for dates in ("any date", "half a year", "two weeks")]  # fmt: skip


def list_filters(near: Near) -> Iterator[SearchFilter]:
    """The nine filters of a question, in the order of `_FILTERS`."""
    window = near.window
    middle = window.since + timedelta(days=80)
    periods = [(None, None), (window.since, window.until), (middle, middle + timedelta(days=14))]
    for chats in (sorted(window.channels)[:1], window.channels, _CHATS):
        for since, until in periods:
            yield SearchFilter(frozenset(chats), since, until)


def scan(rows: Rows, frame: Frame, vector: Rows, only: SearchFilter) -> list[int]:
    """The nearest posts that pass, by comparing with all of them; a filtered scan copies what passes."""
    numbers = np.flatnonzero(frame.inside(only))
    return find_nearest(rows @ vector if len(numbers) == len(rows) else rows[numbers] @ vector, numbers)


def read_processor_seconds(pid: int) -> float:
    """Processor time of all threads of a process so far, in nanoseconds' resolution; 0 where Linux does not say."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


def measure(size: int, count: int, folder: Path) -> dict[str, Any]:
    """Fill a store and measure it."""
    frame = Frame.make(size)
    asked = draw(frame, count)
    before = memory_mb()
    store = Ours(frame, folder)
    written = [seconds(lambda some=some, rows=rows: store.put(some, rows)) for some, rows in slices(size)]  # type: ignore[misc]
    told: dict[str, Any] = {"posts": size, "insert_per_s": size / sum(written)}
    told["memory_after_filling_mb"] = memory_mb() - before
    told["close_s"] = seconds(store.close)
    told["disk_mb"] = disk_mb(folder)
    told["reopen_s"] = seconds(store.reopen)
    told["memory_after_opening_mb"] = memory_mb() - before
    worker = store.store._handle.opened._engine.pid  # type: ignore[attr-defined]
    told["first_ms"] = 1000 * seconds(lambda: store.search(asked[0]))
    took, busy, found = _ask(store, asked, worker)
    told["memory_mb"] = memory_mb() - before
    rows = np.concatenate([some for _, some in slices(size)])
    scanned, recall = np.full(took.shape, np.inf), np.ones(took.shape)
    for (i, j), hits in found.items():
        only = [*list_filters(asked[i])][j]
        began = time.perf_counter()
        exact = scan(rows, frame, asked[i].vector, only)
        scanned[i, j] = 1000 * (time.perf_counter() - began)
        recall[i, j] = len({*hits} & {*exact}) / len(exact) if exact else 1.0
    store.close()
    each = {"ms": took, "worker_ms": busy, "scan_ms": scanned}
    told["filters"] = {
        name: {key: [*np.percentile(figures[:, j], [50, 95]).round(2)] for key, figures in each.items()}
        | {"recall": recall[:, j].mean().round(4)}
        for j, name in enumerate(_FILTERS)
    }
    told |= {f"{key}_p50_p95": [*np.percentile(figures, [50, 95]).round(2)] for key, figures in each.items()}
    return told | {"recall": recall.mean().round(5), "worst_recall": recall.min()}


Figures = NDArray[np.float64]


def _ask(store: Ours, asked: list[Near], worker: int) -> tuple[Figures, Figures, dict[tuple[int, int], list[int]]]:
    """Milliseconds and processor milliseconds of each question under each filter, the best of three rounds."""
    took, busy = (np.full((len(asked), len(_FILTERS)), np.inf) for _ in range(2))
    found = {}
    for _ in range(_ROUNDS):
        for i, near in enumerate(asked):
            for j, only in enumerate(list_filters(near)):
                began, worked = time.perf_counter(), read_processor_seconds(worker)
                found[i, j] = store.find(near, only)
                took[i, j] = min(took[i, j], 1000 * (time.perf_counter() - began))
                busy[i, j] = min(busy[i, j], 1000 * (read_processor_seconds(worker) - worked))
    return took, busy, found


def main() -> None:
    """Measure and print a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=parse_size, default=100_000)
    parser.add_argument("--questions", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="citegram-bench-") as folder:
        print(json.dumps(measure(args.posts, args.questions, Path(folder)), indent=1, default=float))


if __name__ == "__main__":
    main()
