"""The picture of a soak: memory, descriptors and the waits of readers over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.process_metrics import Sample
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

_INK, _GRID, _LINES = "#1d2433", "#e6e9f0", ("#0b6bcb", "#2f8f6b", "#d1495b")


def plot_soak(file: Path, samples: Sequence[Sample], waits: Sequence[tuple[float, float]], warm: float) -> None:
    """Write a PNG; what is left of `warm` (seconds) is not judged."""
    figure = Figure(figsize=(9, 8), layout=ConstrainedLayoutEngine())
    memory, counts, seconds = figure.subplots(3, 1, sharex=True)
    at = [one.at / 60 for one in samples]
    memory.plot(at, [one.rss for one in samples], color=_LINES[0], label="memory in use, with children")
    memory.plot(at, [one.own for one in samples], color=_LINES[1], label="of it backed by no file")
    memory.set_ylabel("MB")
    counts.plot(at, [one.descriptors for one in samples], color=_LINES[0], label="descriptors")
    counts.plot(at, [one.threads for one in samples], color=_LINES[1], label="threads")
    counts.plot(at, [one.tasks for one in samples], color=_LINES[2], label="tasks")
    seconds.scatter([asked / 60 for asked, _ in waits], [took for _, took in waits], s=4, color=_LINES[0], label="wait")
    seconds.set_yscale("log")
    seconds.set_ylabel("seconds to an answer")
    seconds.set_xlabel("minutes")
    for axes in (memory, counts, seconds):
        axes.axvspan(0, warm / 60, color=_GRID)
        axes.grid(color=_GRID)
        axes.legend(loc="upper right", frameon=False, labelcolor=_INK)
    memory.set_ylim(bottom=0)
    counts.set_ylim(bottom=0)
    figure.savefig(file, dpi=120)
