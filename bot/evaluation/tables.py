"""Evaluation report: tables on the terminal and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bot.evaluation.scoring import Metrics
from rag_core.errors import SettingsWrong, translate_errors

MetricsByLanguage = Mapping[str, Metrics]  # "all" and each language -> its figures

_SPEED_METRICS = ("latency_ms_p50", "latency_ms_p95", "per_second")  # compared as ratios between variants
_NOT_WRITABLE_TEXT = "The {} cannot be written ({{}}): name another file with --{}."


# For each command the three figures that say most, and what they say.
_SUMMARIES = {
    "answers": (
        ("shown_right", "wrong", "abstained"),
        "Of 100 questions that the posts answer, {0} are shown the right answer, {1} only a wrong one, {2} none.",
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
    "plans": (("valid", "mean_queries", "tokens_per_s"), "{0} of 100 plans are valid."),
    "verify": (
        ("accuracy", "balanced_accuracy", "macro_f1"),
        "{0} of 100 claims are judged rightly; with each verdict weighing the same, {1}.",
    ),
}


def format_report(
    command: str, found: Mapping[str, MetricsByLanguage], *, everything: bool, main: str | None = None
) -> str:
    """Format what a command measured, for each variant: three figures, or `everything`, and a sentence.

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
        report += (
            "\n\n"
            + (f"{main}: " if len(found) > 1 else "")
            + sentence.format(*(f"{100 * (figure or 0):.0f}" for figure in figures))
        )
    return report if everything else f"{report}\nMore figures: --all."


def format_table(metrics: MetricsByLanguage) -> str:
    """Format the metrics as a table: a line for each figure, a column for each language."""
    rows = [[name, *(_format_figure(metrics[lang][name]) for lang in metrics)] for name in metrics["all"]]
    return _format_columns(["", *metrics], rows)


def format_rows(parts: MetricsByLanguage) -> str:
    """Format a table with a line for each part and a column for each figure."""
    names = next(iter(parts.values()))
    return _format_columns(
        ["", *names], [[part, *(_format_figure(found[name]) for name in names)] for part, found in parts.items()]
    )


def format_comparison(found: Mapping[str, MetricsByLanguage]) -> str:
    """Format a table for each language, with a column for each variant and the ratios to the first one's speed."""
    first, *others = found
    ratio = compute_ratios(found)
    tables = []
    for lang in found[first]:
        rows = []
        for name in found[first][lang]:
            cells = [_format_figure(metrics[lang][name]) for metrics in found.values()]
            cells += [f"× {r:.3g}" if (r := ratio[other][lang].get(name)) is not None else "" for other in others]
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
    """Check an output path before anything is measured.

    Raises SettingsWrong if the folder is missing or the name is a folder's.
    """
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        reason = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise SettingsWrong(_NOT_WRITABLE_TEXT.format(what, option).format(reason))


def write_json_report(file: Path, result: Mapping[str, Any]) -> None:
    """Write one JSON object. Raises SettingsWrong if the file cannot be written."""
    with translate_errors(SettingsWrong, OSError, say=_NOT_WRITABLE_TEXT.format("figures", "json")):
        file.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")
