"""bench.json as a picture: three panels, logarithmic, every line labelled at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

Line = tuple[str, list[tuple[int, float]]]  # label, (posts, value)

_OURS = "citegram"
_INK, _MUTED, _GRID = "#1d2433", "#667085", "#e6e9f0"
_ACCENT = "#0b6bcb"
_PEERS = ("#d1495b", "#c98a1b", "#6b5ca5", "#2f8f6b", "#667085")
_LABELS = {
    "citegram": "Citegram", "sqlite-fts5": "SQLite FTS5", "lancedb": "LanceDB", "lancedb ivf_pq": "LanceDB, indexed",
}  # fmt: skip


def plot_results(told: Mapping[str, Any], file: Path) -> None:
    """Draw a report of the bench into a PNG file."""
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "text.color": _INK})
    figure = Figure(
        figsize=(13, 4.6), dpi=160, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    )
    metrics = told["metrics"]
    panels: Sequence[tuple[str, str, list[Line]]] = (
        ("Finding words", "the 50 best of all posts", _lines(metrics, "lexical", "query_p95_ms")),
        (
            "Finding meanings",
            "the 50 nearest in 3 channels and half a year",
            _lines(metrics, "dense", "filtered_p95_ms"),
        ),
        ("From start to answer", "everything, words alone", _own(metrics)),
    )
    drawn = [panel for panel in panels if panel[2]]  # of the legs that were measured
    if not drawn:
        return
    figure.set_size_inches(4.8 * len(drawn), 4.8)
    for axes, (title, said, lines) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        _panel(axes, title, said, lines)
    cpus = told["settings"]["machine"]["cpus"]
    said = f"Lower is better: 95 of 100 take no longer. Logarithmic. The same posts and questions for all, {cpus} CPUs."
    figure.supxlabel(said, x=0.012, ha="left", fontsize=9, color=_MUTED)
    figure.savefig(file)


def _lines(metrics: Mapping[str, Any], leg: str, name: str) -> list[Line]:
    """One line for each engine that has the figure."""
    found = dict[str, list[tuple[int, float]]]()
    for size, legs in metrics.items():
        for engine, row in legs.get(leg, {}).items():
            if name in row:
                found.setdefault(engine, []).append((int(size), row[name]))
    return [*found.items()]


def _own(metrics: Mapping[str, Any]) -> list[Line]:
    figures = (
        ("question → answer", "whole", "answer_p95_ms", 1),
        ("exec → ready", "whole", "exec_to_ready_s", 1000),
    )
    return [
        (label, [(size, value * unit) for size, value in points])
        for label, leg, name, unit in figures
        for _, points in _lines(metrics, leg, name)
    ]


def _panel(axes: Axes, title: str, said: str, lines: list[Line]) -> None:
    axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", pad=24)
    axes.text(0, 1.03, said, transform=axes.transAxes, fontsize=9, color=_MUTED)
    axes.set_xscale("log")
    axes.set_yscale("log")
    colours = iter(_PEERS)
    ends: list[tuple[int, float, str, str]] = []
    for label, points in lines:
        ours = label == _OURS or label.startswith("question")
        colour = _ACCENT if ours else next(colours)
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs, ys, color=colour, lw=3 if ours else 1.8, marker="o", ms=7 if ours else 4.5, zorder=3 if ours else 2
        )
        ends.append((xs[-1], ys[-1], _LABELS.get(label, label), colour))
    _dress(axes, [x for _, points in lines for x, _ in points], [y for _, points in lines for _, y in points])
    _label(axes, ends)


def _dress(axes: Axes, xs: list[int], ys: list[float]) -> None:
    axes.set_xlim(min(xs) / 1.25, max(xs) * max(max(xs) / min(xs), 10) ** 0.75 * 1.5)  # room for the labels
    axes.set_ylim(min(ys) / 2, max(ys) * 2.5)
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(xs))))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e6:g}M posts" if x >= 1e6 else f"{x / 1000:g}k"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _time(y)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", length=0, colors=_MUTED)
    axes.grid(which="major", color=_GRID, lw=1)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)


def _label(axes: Axes, ends: list[tuple[int, float, str, str]]) -> None:
    """Write each line's name and last value beside its end, lowest first, none on another."""
    low, high = axes.get_ylim()
    step = (high / low) ** 0.062  # the height of a line of text
    floor = dict[int, float]()
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        at = max(y, floor.get(x, low))
        floor[x] = at * step
        axes.text(x * 1.22, at, f"{name}  {_time(y)}", color=colour, fontsize=9.5, va="center", fontweight="bold")


def _time(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.2g} ms" if ms < 10 else f"{ms:.0f} ms"
