"""What counts as right (DESIGN 8), and the figures that are made of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from resource import RUSAGE_SELF, getrusage

import numpy as np
from babel.dates import format_date

from bot.evaluation.datasets import Query
from rag_core.types import Answer

__all__ = ["Judged", "Metrics", "Ranked", "answer_metrics", "holds_answer", "judged", "retrieval_metrics"]

Metrics = dict[str, float | None]  # the names of DESIGN 8; None where nothing was there to measure

_LONGEST_SENTENCE, _LONGEST_ANSWER = 300, 600  # characters: longer is no answer but a text to search in
_GROUPED = re.compile(r"(?<=\d)[\s\u00a0\u202f,](?=\d{3}(?!\d))")
_WORD = re.compile(r"[^\W_]+")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


def _words(text: str) -> str:
    plain = _GROUPED.sub("", text.lower().replace("ё", "е"))
    return f" {' '.join(_WORD.findall(plain))} "


def _spellings(answer: str) -> list[str]:
    """An answer as it is, and a date in its usual writings."""
    found = _ISO.fullmatch(answer.strip())
    if not found:
        return [answer]
    day = date(*map(int, found.groups()))
    forms = ("d MMMM y", "MMMM d, y", "d MMM y", "dd.MM.y", "d.MM.y", "y-MM-dd")
    return [format_date(day, form, locale=lang) for form in forms for lang in ("ru", "en")]


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the accepted answers stands in the text as whole words."""
    shown = _words(text)
    return any((wanted := _words(form)).strip() and wanted in shown for a in answers for form in _spellings(a))


@dataclass(frozen=True, slots=True)
class Judged:
    """One question and what came of it."""

    lang: str
    group: str
    answerable: bool
    refused: bool
    first_right: bool
    shown_right: bool
    cited_right: tuple[bool, ...]
    covered_sentences: tuple[bool, ...]
    length: int
    took_ms: float
    confidence: float


def judged(query: Query, answer: Answer, ids: Sequence[str], took_ms: float) -> Judged:
    """Judge an answer; `ids` are the dataset's names of the cited posts, in order of citation."""
    shown = [sentence.text for sentence in answer.sentences]
    fits = all(len(s) <= _LONGEST_SENTENCE for s in shown) and sum(map(len, shown)) <= _LONGEST_ANSWER
    return Judged(
        lang=query.lang,
        group=query.group,
        answerable=query.answerable,
        refused=answer.refused,
        first_right=bool(shown) and fits and holds_answer(shown[0], query.answers),
        shown_right=fits and any(holds_answer(s, query.answers) for s in shown),
        cited_right=tuple(name in query.relevant for name in ids),
        covered_sentences=tuple(bool(s.citations) for s in answer.sentences),
        length=sum(map(len, shown)),
        took_ms=took_ms,
        confidence=answer.confidence,
    )


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 4) if values else None


def _percentile(values: Sequence[float], share: int) -> float | None:
    return round(float(np.percentile(values, share)), 2) if values else None


def answer_metrics(rows: Sequence[Judged]) -> Metrics:
    """What became of the questions. No model yet: no calls and tokens; no tools and caches: no rates."""
    can, cannot = [r for r in rows if r.answerable], [r for r in rows if not r.answerable]
    shown = [r for r in can if not r.refused]
    return {
        "first_right": _mean([r.first_right for r in can]),
        "shown_right": _mean([r.shown_right for r in can]),
        "wrong": _mean([not r.refused and not r.shown_right for r in can]),
        "abstained": _mean([r.refused for r in can]),
        "refused": _mean([r.refused for r in cannot]),
        "first_citation_right": _mean([bool(r.cited_right) and r.cited_right[0] for r in shown]),
        "citation_precision": _mean([hit for r in shown for hit in r.cited_right]),
        "citation_coverage": _mean([c for r in rows for c in r.covered_sentences]),
        "latency_ms_p50": _percentile([r.took_ms for r in rows], 50),
        "latency_ms_p95": _percentile([r.took_ms for r in rows], 95),
        "calls": 0.0,
        "tokens": 0.0,
        "answer_length": _mean([r.length for r in shown]),
        "tool_timeout_rate": None,
        "cache_hit_rate": None,
        "memory_mb": round(getrusage(RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


@dataclass(frozen=True, slots=True)
class Ranked:
    """One question, and which of the found documents were relevant, best first."""

    lang: str
    hits: tuple[bool, ...]
    relevant: int
    took_ms: float


def retrieval_metrics(rows: Sequence[Ranked]) -> Metrics:
    """recall@k: the share of the relevant documents within the first k; all_relevant@20: all of them are."""

    def within(row: Ranked, k: int) -> float:
        return sum(row.hits[:k]) / row.relevant

    def reciprocal(row: Ranked) -> float:
        return next((1 / n for n, hit in enumerate(row.hits[:10], 1) if hit), 0.0)

    def gain(row: Ranked) -> float:
        best = sum(1 / math.log2(n + 1) for n in range(1, min(row.relevant, 10) + 1))
        return sum(1 / math.log2(n + 1) for n, hit in enumerate(row.hits[:10], 1) if hit) / best

    return {
        "recall@1": _mean([within(r, 1) for r in rows]),
        "recall@5": _mean([within(r, 5) for r in rows]),
        "recall@20": _mean([within(r, 20) for r in rows]),
        "all_relevant@20": _mean([sum(r.hits[:20]) == r.relevant for r in rows]),
        "mrr@10": _mean([reciprocal(r) for r in rows]),
        "ndcg@10": _mean([gain(r) for r in rows]),
        "latency_ms_p50": _percentile([r.took_ms for r in rows], 50),
        "latency_ms_p95": _percentile([r.took_ms for r in rows], 95),
    }
