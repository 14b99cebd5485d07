"""Evaluation report: tables of metrics, the comparison of variants, and the JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bot.evaluation.answer_metrics import Metrics
from rag_core.errors import SettingsWrong, translate_errors

R = TypeVar("R")
MetricsByLanguage = Mapping[str, Metrics]  # "all" and each language -> its figures
# What a recipe gets right and what it costs a question, and the same of the plans that are made for it.
RECIPE_FIGURES = (
    "shown_right", "wrong", "abstained", "refused", "supported", "by_model", "fell_back", "calls", "tokens", "seconds",
    "latency_ms_p95", "under_10_s", "under_30_s", "tool_timeout_rate", "memory_mb",
)  # fmt: skip
PLAN_FIGURES = ("valid", "ended", "usable", "mean_queries", "shortfalls", "calls", "tokens", "seconds")
_SPEED_METRICS = ("latency_ms_p50", "latency_ms_p95", "per_second")  # compared as ratios between variants
_NOT_WRITABLE_TEXT = "The {} cannot be written ({{}}): name another file with --{}."
# For each command the figures that say most, and what they say.
_SUMMARIES = {
    "answers": (
        ("truthfulness", "truthfulness_error", "shown_right", "wrong", "abstained"),
        "Truthfulness {0} ± {1} of 100. Of 100 questions that the posts answer, {2} are shown the right answer, {3} "
        "only a wrong one, {4} none.",
    ),
    "retrieval": (
        ("recall@1", "recall@5", "recall@20"),
        "Of 100 posts that answer, {0} are found first, {1} among the first five, {2} among the first twenty.",
    ),
    "talk": (
        ("handled", "talk_handled", "question_answered"),
        "{0} of 100 texts get the reply they should: {1} of 100 greetings and the like, {2} of 100 questions.",
    ),
    "followups": (
        ("understood", "shown_right", "alone_shown_right"),
        "{0} of 100 follow-ups are understood, {1} are shown the right answer; asked in full, {2} would be.",
    ),
    "dates": (
        ("right", "false_finds", "per_second"),
        "{0} of 100 expressions of time are read rightly; of 100 texts that only look like one, {1} are taken for it.",
    ),
    "judge": (
        ("auc", "confidence_auc", "seconds"),
        "Of 100 pairs of a right sentence and another one the model tells {0} rightly, the rules alone {1}.",
    ),
    "plans": (("valid", "mean_queries", "tokens_per_s"), "{0} of 100 plans are valid."),
    "verify": (
        ("accuracy", "balanced_accuracy", "macro_f1"),
        "{0} of 100 claims are judged rightly; with each verdict weighing the same, {1}.",
    ),
}


def format_report(
    command: str, found: Mapping[str, MetricsByLanguage], *, everything: bool, main: str | None = None
) -> str:
    """Format what a command measured, for each variant: the main figures, or `everything`, and a sentence.

    The sentence is about the variant `main` (default: the first), in all languages.
    """
    names, sentence = _SUMMARIES[command]
    main = next(iter(found)) if main is None else main
    figures = [found[main]["all"][name] for name in names]
    if not everything:
        found = {
            variant: {lang: {name: figures[name] for name in names} for lang, figures in metrics.items()}
            for variant, metrics in found.items()
        }
    report = format_comparison(found) if len(found) > 1 else format_table(next(iter(found.values())))
    if None not in figures:
        about = f"{main}: " if len(found) > 1 else ""
        report += f"\n\n{about}{sentence.format(*(f'{100 * (figure or 0):.0f}' for figure in figures))}"
    return report if everything else f"{report}\nMore figures: --all."


def format_recipes(found: Mapping[str, MetricsByLanguage], figures: Sequence[str]) -> str:
    """Format one table of recipes: a line for each, with these figures of all languages."""
    return format_rows({name: {key: metrics["all"][key] for key in figures} for name, metrics in found.items()})


def format_table(metrics: MetricsByLanguage) -> str:
    """Format the metrics as a table: a line for each figure, a column for each language."""
    rows = [[name, *(_format_figure(metrics[lang][name]) for lang in metrics)] for name in metrics["all"]]
    return _format_columns(["", *metrics], rows)


def format_rows(parts: MetricsByLanguage) -> str:
    """Format a table with a line for each part and a column for each figure."""
    names = next(iter(parts.values()))
    rows = [[part, *(_format_figure(found[name]) for name in names)] for part, found in parts.items()]
    return _format_columns(["", *names], rows)


def format_comparison(found: Mapping[str, MetricsByLanguage]) -> str:
    """Format a table for each language, with a column for each variant and the ratios to the first one's speed."""
    first, *others = found
    ratios = compute_ratios(found)
    tables = []
    for lang in found[first]:
        rows = []
        for name in found[first][lang]:
            cells = [_format_figure(metrics[lang][name]) for metrics in found.values()]
            cells += [f"× {r:.3g}" if (r := ratios[other][lang].get(name)) is not None else "" for other in others]
            rows.append([name, *cells])
        tables.append(_format_columns([lang, *found, *(f"/ {first}" for _ in others)], rows))
    return "\n\n".join(tables)


def compute_ratios(found: Mapping[str, MetricsByLanguage]) -> dict[str, dict[str, Metrics]]:
    """Compute the times and speeds of each further variant as multiples of the first one's."""
    first, *others = found

    def ratio(other: str, lang: str, name: str) -> float | None:
        value, first_value = found[other][lang][name], found[first][lang][name]
        return round(value / first_value, 3) if value is not None and first_value else None

    return {
        other: {
            lang: {name: ratio(other, lang, name) for name in _SPEED_METRICS if name in figures}
            for lang, figures in found[other].items()
        }
        for other in others
    }


_BOOTSTRAP_DRAWS = 1000
DifferenceIntervals = dict[str, tuple[float, float, float]]  # by metric: difference, and its 95 % interval


def compute_difference_intervals(
    rows: Mapping[str, Sequence[R]], compute: Callable[[Sequence[R]], Metrics]
) -> dict[str, DifferenceIntervals]:
    """Compute by how much each further variant differs from the first one, with paired bootstrap intervals of 95 %.

    Questions are drawn with replacement, the same for both variants (Efron & Tibshirani, "An Introduction to the
    Bootstrap", 1993, percentile method). Speeds are left out, and figures that some draws do not have.
    """
    (_, reference), *others = rows.items()
    if not others:
        return {}
    draws = np.random.default_rng(1).integers(len(reference), size=(_BOOTSTRAP_DRAWS, len(reference)))
    reference_draws = [compute([reference[n] for n in draw]) for draw in draws]
    found: dict[str, DifferenceIntervals] = {}
    for name, other in others:
        whole, other_draws = compute(other), [compute([other[n] for n in draw]) for draw in draws]
        found[name] = {}
        for metric, first in compute(reference).items():
            value = whole[metric]
            pairs = [(a[metric], b[metric]) for a, b in zip(reference_draws, other_draws, strict=True)]
            differences = [b - a for a, b in pairs if a is not None and b is not None]
            if metric in _SPEED_METRICS or first is None or value is None or len(differences) < len(pairs):
                continue
            low, high = np.percentile(differences, (2.5, 97.5))
            found[name][metric] = round(value - first, 4), round(float(low), 4), round(float(high), 4)
    return found


def format_difference_intervals(command: str, found: Mapping[str, DifferenceIntervals], first: str) -> str:
    """Format the intervals of the figures that say most, a line each."""
    lines = []
    for other, intervals in found.items():
        for name in _SUMMARIES[command][0]:
            if name in intervals:
                difference, low, high = intervals[name]
                lines.append(f"{name} of {other} less that of {first}: {difference:+.3f} ({low:+.3f} to {high:+.3f})")
    return "\n".join(lines)


def _format_figure(value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.3f}"


def _format_columns(head: list[str], rows: list[list[str]]) -> str:
    """Format columns: names left-aligned, figures right-aligned, with minimum widths of 24 and 10."""
    widths = [max(10, *(len(row[n]) + 2 for row in (head, *rows))) for n in range(len(head))]
    widths[0] = max(24, widths[0])
    lines = []
    for name, *cells in (head, *rows):
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append(f"{name:{widths[0]}}{line}".rstrip())
    return "\n".join(lines)


def require_writable(file: Path | None, what: str, option: str) -> None:
    """Check an output path. Raises SettingsWrong if the folder is missing or the name is a folder's."""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        reason = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise SettingsWrong(_NOT_WRITABLE_TEXT.format(what, option).format(reason))


def write_json_report(
    file: Path | None,
    command: str,
    data: str,
    settings: Mapping[str, Any],
    metrics: Mapping[str, Any],
    rows: int,
    **more: Any,
) -> None:
    """Write what was measured as one JSON object, if a file was named. Raises SettingsWrong if it cannot be written."""
    if file is None:
        return
    report = {"command": command, "data": data, "settings": settings, "metrics": metrics, "rows": rows, **more}
    with translate_errors(SettingsWrong, OSError, say=_NOT_WRITABLE_TEXT.format("figures", "json")):
        file.write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")
