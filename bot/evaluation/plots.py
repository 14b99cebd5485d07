"""Evaluation plots (PNG): recall@k, and the outcomes of the questions.

The only module that imports matplotlib, which comes with `citegram[plots]`: import it only where a plot is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from bot.evaluation.scoring import JudgedAnswer, RankedQuery
from rag_core.errors import SettingsWrong, translate_errors

__all__ = ["PlotCaption", "draw_outcomes", "draw_recall"]

_TEXT_COLOUR, _MUTED_COLOUR, _GRID_COLOUR = "#1d2433", "#667085", "#e6e9f0"
_LINE_COLOURS = ("#0b6bcb", "#d1495b", "#2f8f6b", "#c98a1b", "#6b5ca5")
_LANGUAGE_NAMES = {"ru": "Russian", "en": "English"}
_RECALL_DEPTHS = (1, 5, 10, 20)

RecallCurve = list[tuple[int, float]]  # k, recall among the first k
_RIGHT_COLOUR, _LATER_COLOUR, _ABSTAINED_COLOUR, _WRONG_COLOUR = "#0b6bcb", "#7db3e8", "#d5dae3", "#d1495b"


@dataclass(frozen=True, slots=True)
class PlotCaption:
    """Title above a plot and note below it."""

    title: str
    said: str


@dataclass(frozen=True, slots=True)
class _OutcomeGroup:
    """Possible outcomes of a question: name and colour of each."""

    title: str
    shares: tuple[tuple[str, str], ...]


_ANSWERABLE_OUTCOMES = _OutcomeGroup(
    "The answer is in the posts",
    (
        ("right at once", _RIGHT_COLOUR),
        ("right further down", _LATER_COLOUR),
        ("abstained", _ABSTAINED_COLOUR),
        ("wrong", _WRONG_COLOUR),
    ),
)
_UNANSWERABLE_OUTCOMES = _OutcomeGroup(
    "The answer is not there", (("refused, rightly", _RIGHT_COLOUR), ("answered all the same", _WRONG_COLOUR))
)


@dataclass(frozen=True, slots=True)
class _OutcomeBar:
    """Questions of one language in one variant: their number, and the share of each outcome."""

    way: str
    lang: str
    asked: int
    shares: tuple[float, ...]


def draw_recall(found: Mapping[str, Sequence[RankedQuery]], caption: PlotCaption, file: Path) -> None:
    """Draw recall@k: a line for each variant and a panel for each language; one variant has one panel."""
    langs = sorted({row.lang for rows in found.values() for row in rows})
    if len(found) == 1:
        ((_, rows),) = found.items()
        panels = [
            ("", {_get_language_name(lang): _compute_recall_curve(_filter_by_language(rows, lang)) for lang in langs})
        ]
    else:
        panels = [
            (
                _get_language_name(lang),
                {name: _compute_recall_curve(_filter_by_language(rows, lang)) for name, rows in found.items()},
            )
            for lang in langs
        ]
    figure = _make_figure(2.2 + 4.2 * len(panels), 3.9 + 0.2 * len(panels[0][1]), caption)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    lowest = min(curve[0][1] for _, lines in panels for curve in lines.values())
    for n, (axis, (title, lines)) in enumerate(zip(axes, panels, strict=True)):
        axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
        axis.set_xlim(0.4, 20.6)
        axis.set_ylim(max(0.0, lowest - 0.06), 1.015)
        _draw_lines(axis, lines, named=not n, first_broad=len(found) > 1)
    _save_figure(figure, file)


def draw_outcomes(found: Mapping[str, Sequence[JudgedAnswer]], caption: PlotCaption, file: Path) -> None:
    """Draw the outcomes: a stacked bar for each language and variant; answerable and unanswerable questions apart."""
    panels = [
        (group, bars)
        for group in (_ANSWERABLE_OUTCOMES, _UNANSWERABLE_OUTCOMES)
        if (bars := _build_bars(found, group is _ANSWERABLE_OUTCOMES))
    ]
    figure = _make_figure(2.4 + 5.2 * len(panels), 1.9 + 0.42 * len(panels[0][1]), caption)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    shown_labels: list[str] = []
    for axis, (group, bars) in zip(axes, panels, strict=True):
        asked = sum(bar.asked for bar in bars if bar.way == bars[0].way)
        axis.set_title(f"{group.title}: {asked} questions", loc="left", fontsize=11, fontweight="bold", pad=26)
        _draw_stacked_bars(axis, bars, [colour for _, colour in group.shares])
        labels = [
            f"{_get_language_name(bar.lang)}, {bar.way}" if bar.way else _get_language_name(bar.lang) for bar in bars
        ]
        axis.set_yticklabels([""] * len(labels) if labels == shown_labels else labels)
        shown_labels = labels
        handles = [Patch(color=colour, label=name) for name, colour in group.shares]
        axis.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.012, 0.985), ncols=4, frameon=False,
                   fontsize=9, handlelength=0.9, handleheight=0.9, handletextpad=0.4, columnspacing=1.2,
                   borderpad=0.2)  # fmt: skip
    _save_figure(figure, file)


def _get_language_name(lang: str) -> str:
    return _LANGUAGE_NAMES.get(lang, lang)


def _make_figure(width: float, height: float, caption: PlotCaption) -> Figure:
    mpl.rcParams.update(
        {"font.family": "DejaVu Sans", "font.size": 10, "text.color": _TEXT_COLOUR, "text.parse_math": False}
    )
    layout = ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.1, wspace=0.06)
    figure = Figure(figsize=(width, height), dpi=160, facecolor="white", layout=layout)
    figure.suptitle(caption.title, x=0.012, ha="left", fontsize=14, fontweight="bold")
    figure.supxlabel(caption.said, x=0.012, ha="left", fontsize=9, color=_MUTED_COLOUR)
    return figure


def _save_figure(figure: Figure, file: Path) -> None:
    with translate_errors(
        SettingsWrong, OSError, say="The plot cannot be written ({}): name another file with --plot."
    ):
        figure.savefig(file, format="png")


def _filter_by_language(rows: Sequence[RankedQuery], lang: str) -> list[RankedQuery]:
    return [row for row in rows if row.lang == lang]


def _compute_recall_curve(rows: Sequence[RankedQuery]) -> RecallCurve:
    return [
        (k, sum(sum(row.hits[:k]) / row.relevant for row in rows) / len(rows))
        for k in range(1, max(_RECALL_DEPTHS) + 1)
    ]


def _draw_lines(axes: Axes, lines: Mapping[str, RecallCurve], named: bool, first_broad: bool) -> None:
    """Draw the curves, and their values at some depths below the axis in the colour of the curve."""
    for n, ((name, curve), colour) in enumerate(zip(lines.items(), _pick_colours(len(lines)), strict=True)):
        # Where curves coincide, the thin one is visible on the broad one.
        broad = first_broad and not n
        axes.plot(*zip(*curve, strict=True), color=colour, lw=4.5 if broad else 1.8, alpha=0.55 if broad else 1,
                  solid_capstyle="round")  # fmt: skip
        at = dict(curve)
        axes.plot(
            _RECALL_DEPTHS, [at[k] for k in _RECALL_DEPTHS], color=colour, ls="", marker="o", ms=7 if broad else 4.5
        )
        beneath = -34 - 15 * n  # points
        for k in _RECALL_DEPTHS:
            _draw_text(axes, f"{at[k]:.3f}", (k, beneath), colour)
        if named:
            _draw_text(axes, name, (-1.2, beneath), colour, align="right")
    if named:
        _draw_text(axes, "among the first", (-1.2, -9), _MUTED_COLOUR, align="right")
    axes.xaxis.set_major_locator(FixedLocator(_RECALL_DEPTHS))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.2f}" if share <= 1 else ""))
    _style_axes(axes, "y")


def _draw_text(axes: Axes, text: str, at: tuple[float, float], colour: str, align: str = "center") -> None:
    """Draw a text at (x, points below the x axis)."""
    across, under = at
    axes.annotate(text, (across, 0), (0, under), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                  ha=align, va="center", fontsize=9.5, color=colour, fontweight="bold",
                  annotation_clip=False)  # fmt: skip


def _pick_colours(n: int) -> list[str]:
    return [_LINE_COLOURS[i % len(_LINE_COLOURS)] for i in range(n)]


def _build_bars(found: Mapping[str, Sequence[JudgedAnswer]], answerable: bool) -> list[_OutcomeBar]:
    langs = sorted({row.lang for rows in found.values() for row in rows if row.answerable is answerable})
    bars = []
    for lang in langs:
        for name, rows in found.items():
            group = [row for row in rows if row.lang == lang and row.answerable is answerable]
            bars.append(
                _OutcomeBar(
                    name if len(found) > 1 else "", lang, len(group), _compute_outcome_shares(group, answerable)
                )
            )
    return bars


def _compute_outcome_shares(rows: Sequence[JudgedAnswer], answerable: bool) -> tuple[float, ...]:
    refused = sum(row.refused for row in rows)
    first, right = sum(row.first_right for row in rows), sum(row.shown_right for row in rows)
    counts = (
        (first, right - first, refused, len(rows) - right - refused) if answerable else (refused, len(rows) - refused)
    )
    return tuple(count / len(rows) for count in counts)


def _draw_stacked_bars(axes: Axes, bars: Sequence[_OutcomeBar], colours: Sequence[str]) -> None:
    position, positions = 0.0, list[float]()
    for before, bar in zip((None, *bars), bars, strict=False):
        position += 1.35 if before and before.lang != bar.lang else 1.0
        positions.append(position)
        left = 0.0
        for share, colour in zip(bar.shares, colours, strict=True):
            axes.barh(position, share, left=left, height=0.74, color=colour, edgecolor="white", linewidth=1.2)
            if share >= 0.02:
                ink = _TEXT_COLOUR if colour == _ABSTAINED_COLOUR else "white"
                label = f"{share:.0%}" if share >= 0.07 else f"{100 * share:.0f}"
                axes.text(left + share / 2, position, label, ha="center", va="center", fontsize=9, color=ink,
                          fontweight="bold")  # fmt: skip
            left += share
    axes.set_xlim(0, 1)
    axes.set_ylim(position + 0.55, 0.45)
    axes.yaxis.set_major_locator(FixedLocator(positions))
    axes.xaxis.set_major_locator(FixedLocator([]))
    _style_axes(axes)


def _style_axes(axes: Axes, grid: str = "") -> None:
    axes.tick_params(which="both", length=0, colors=_MUTED_COLOUR)
    if grid:
        axes.yaxis.grid(color=_GRID_COLOUR, lw=1)
        axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
