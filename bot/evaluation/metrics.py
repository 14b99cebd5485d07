"""Metrics: judged answers, figures of answers and of retrieval, tables, comparisons; fits of fusion and thresholds."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bot.data_folder import iterate_with_progress_bar
from bot.evaluation.data import EvaluationQuery, IndexedDataset
from bot.evaluation.judging import holds_answer, is_short_enough
from rag_core.calibration import Calibration
from rag_core.retrieval.fusion import Fusion
from rag_core.retrieval.search import search_dense, search_lexical
from rag_core.run import Run
from rag_core.types import AGENT_RECIPE, Answer, Certainty, PassageRef, SearchFilter

Metrics = dict[str, float | None]  # by the usual names of the field; None if nothing could be measured


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One question and its judged answer.

    `stale_first`: the first sentence holds an answer that no longer holds, and none that does; None if the question
    has no such answers. `supported`: the posts support every sentence that a model wrote; None without a model.
    `fell_back`: another recipe answered than was asked for. `by_model`: the shown sentences are the model's;
    `first_ms`: from the start of its session to the first of them, None if it wrote nothing. `queries` are those of
    the plan, None where nothing was searched; `agent`: that recipe answered.
    """

    lang: str
    group: str
    answerable: bool
    refused: bool
    first_right: bool
    shown_right: bool
    cited_right: tuple[bool, ...]
    covered_sentences: tuple[bool, ...]
    took_ms: float
    confidence: float
    certainty: Certainty = Certainty.SURE
    stale_first: bool | None = None
    kind: str = ""
    typo: bool = False
    supported: bool | None = None
    by_model: bool = False
    fell_back: bool = False
    calls: float = 0.0
    tokens: float = 0.0
    first_ms: float | None = None
    queries: float | None = None
    agent: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether something is shown as sure."""
        return self.certainty is Certainty.SURE and not self.refused


def judge_answer(
    query: EvaluationQuery, answer: Answer, ids: Sequence[str], took_ms: float, run: Run | None = None
) -> JudgedAnswer:
    """Judge an answer and its `run`; `ids` are the dataset's ids of the cited posts, in order of citation."""
    spans = run.spans if run else []
    last = dict[str, Any]()
    for span in spans:
        last |= span.counts
    texts = [sentence.text for sentence in answer.sentences]
    fits = is_short_enough(texts, query.kind)
    lacks = {shortfall.stage for shortfall in answer.shortfalls}
    first_right = bool(texts) and fits and holds_answer(texts[0], query.answers)
    return JudgedAnswer(
        lang=query.lang,
        group=query.group,
        answerable=query.answerable,
        refused=answer.refused,
        first_right=first_right,
        shown_right=fits and any(holds_answer(s, query.answers) for s in texts),
        cited_right=tuple(name in query.relevant for name in ids),
        covered_sentences=tuple(bool(s.citations) for s in answer.sentences),
        took_ms=took_ms,
        confidence=answer.confidence,
        certainty=answer.certainty,
        stale_first=bool(texts) and not first_right and holds_answer(texts[0], query.stale) if query.stale else None,
        kind=query.kind,
        typo=query.typo,
        supported="support" not in lacks if answer.model or "support" in lacks else None,
        by_model=answer.model is not None,
        # One call if a span of the model has no count.
        calls=sum(float(span.counts.get("calls", "tokens" in span.counts)) for span in spans),
        tokens=sum(float(span.counts.get("tokens", 0)) for span in spans),
        first_ms=last.get("first_sentence_ms"),
        queries=last.get("queries"),
        agent=answer.recipe == AGENT_RECIPE,
    )


def compute_mean(values: Iterable[float], places: int = 4) -> float | None:
    """Compute a mean; None of nothing."""
    found = list(values)
    return round(float(np.mean(found)), places) if found else None


def compute_percentile(values: Iterable[float], percent: int, places: int = 2) -> float | None:
    """Compute a percentile; None of nothing."""
    found = list(values)
    return round(float(np.percentile(found, percent)), places) if found else None


def compute_answer_metrics(rows: Sequence[JudgedAnswer]) -> Metrics:
    """Compute the outcome shares; calls and tokens are means for a question.

    truthfulness is the mean of 1 for what is right (shown, or refused where the posts do not say it), -1 for what is
    only wrong, and 0 for a refusal of what they say (CRAG, Yang et al. 2024, https://arxiv.org/abs/2406.04744), and
    truthfulness_error half of its interval of 95 %. sure_share and sure_right are shares of the answerable questions,
    sure_wrong of all that were answered as sure, probable_right of all that were answered as probable, stale_first of
    those for which a stale answer is known.
    """
    answerable, unanswerable = [r for r in rows if r.answerable], [r for r in rows if not r.answerable]
    answered = [r for r in answerable if not r.refused]
    scores = [1.0 if (r.shown_right if r.answerable else r.refused) else -float(not r.refused) for r in rows]
    return {
        "truthfulness": compute_mean(scores),
        "truthfulness_error": round(1.96 * float(np.std(scores)) / math.sqrt(len(rows)), 4) if rows else None,
        "first_right": compute_mean(r.first_right for r in answerable),
        "shown_right": compute_mean(r.shown_right for r in answerable),
        "wrong": compute_mean(not r.refused and not r.shown_right for r in answerable),
        "abstained": compute_mean(r.refused for r in answerable),
        "refused": compute_mean(r.refused for r in unanswerable),
        "sure_share": compute_mean(r.is_sure for r in answerable),
        "sure_right": compute_mean(r.is_sure and r.shown_right for r in answerable),
        "sure_wrong": compute_mean(not r.shown_right for r in rows if r.is_sure),
        "probable_right": compute_mean(r.shown_right for r in rows if r.certainty is Certainty.PROBABLE),
        "unanswerable_sure": compute_mean(r.is_sure for r in unanswerable),
        "unanswerable_probable": compute_mean(r.certainty is Certainty.PROBABLE for r in unanswerable),
        "stale_first": compute_mean(r.stale_first for r in answerable if r.stale_first is not None),
        "first_citation_right": compute_mean(bool(r.cited_right) and r.cited_right[0] for r in answered),
        "citation_precision": compute_mean(hit for r in answered for hit in r.cited_right),
        "citation_coverage": compute_mean(c for r in rows for c in r.covered_sentences),
        "latency_ms_p50": compute_percentile((r.took_ms for r in rows), 50),
        "latency_ms_p95": compute_percentile((r.took_ms for r in rows), 95),
        "by_model": compute_mean(r.by_model for r in answered),
        "supported": compute_mean(r.supported for r in rows if r.supported is not None),
        "agent": compute_mean(r.agent for r in rows),
        "fell_back": compute_mean(r.fell_back for r in rows),
        "calls": compute_mean(r.calls for r in rows),
        "tokens": compute_mean(r.tokens for r in rows),
        "first_sentence_ms_p50": compute_percentile((r.first_ms for r in rows if r.first_ms is not None), 50),
        "queries": compute_mean(r.queries for r in rows if r.queries is not None),
    }


_METRICS_BY_KIND = (
    "truthfulness", "first_right", "shown_right", "wrong", "abstained", "sure_right", "sure_wrong", "stale_first",
    "refused", "agent",
)  # fmt: skip


def compute_metrics_by_kind(rows: Sequence[JudgedAnswer]) -> dict[str, Metrics]:
    """Compute the main metrics for each kind of question, and for those with a typo; none if no question has a kind."""
    parts = {kind: [r for r in rows if r.kind == kind] for kind in sorted({r.kind for r in rows} - {""})}
    parts |= {"typo": typos} if (typos := [r for r in rows if r.typo]) else {}
    metrics = {name: compute_answer_metrics(part) | {"rows": len(part)} for name, part in parts.items()}
    return {name: {key: found[key] for key in ("rows", *_METRICS_BY_KIND)} for name, found in metrics.items()}


class RankedQuery(NamedTuple):
    """One question, and for each retrieved document, best first, whether it is relevant.

    `across`: no relevant document is in the question's language. `queries` of its plan.
    """

    lang: str
    hits: tuple[bool, ...]
    relevant: int
    took_ms: float
    across: bool = False
    queries: int = 0


def compute_retrieval_metrics(rows: Sequence[RankedQuery]) -> Metrics:
    """Compute the retrieval metrics.

    recall@k: share of the relevant documents in the first k, also of the questions across languages alone;
    all_relevant@20: share of questions with all of them.
    """
    measures: dict[str, Callable[[RankedQuery], float]] = {
        "recall@1": lambda row: sum(row.hits[:1]) / row.relevant,
        "recall@5": lambda row: sum(row.hits[:5]) / row.relevant,
        "recall@20": lambda row: sum(row.hits[:20]) / row.relevant,
        "all_relevant@20": lambda row: float(sum(row.hits[:20]) == row.relevant),
        "mrr@10": lambda row: next((1 / n for n, hit in enumerate(row.hits[:10], 1) if hit), 0.0),
        "ndcg@10": lambda row: (
            sum(hit / math.log2(n + 1) for n, hit in enumerate(row.hits[:10], 1))
            / sum(1 / math.log2(n + 1) for n in range(1, min(row.relevant, 10) + 1))
        ),
    }
    across = [row for row in rows if row.across]
    metrics = {name: compute_mean(map(measure, rows)) for name, measure in measures.items()}
    metrics |= {f"across_{name}": compute_mean(map(measures[name], across)) for name in ("recall@5", "recall@20")}
    metrics["queries"] = compute_mean(row.queries for row in rows)
    return metrics | {f"latency_ms_p{p}": compute_percentile((r.took_ms for r in rows), p) for p in (50, 95)}


def compute_by_language(rows: Sequence[Any], metrics: Callable[[Sequence[Any]], Metrics]) -> dict[str, Metrics]:
    """Compute the metrics for all rows and for those of each language."""
    langs = sorted({row.lang for row in rows})
    return {"all": metrics(rows)} | {lang: metrics([r for r in rows if r.lang == lang]) for lang in langs}


R = TypeVar("R")
TableColumn = tuple[str, Mapping[str, float | str | None]]  # head, and the cells by the name of their line
MetricsByLanguage = Mapping[str, Metrics]  # "all" and each language -> its figures
_SPEED_METRICS = ("latency_ms_p50", "latency_ms_p95")  # compared as ratios between variants
_FEWEST_ROWS = 30  # of fewer no shares are said
# For each command the figures that say most, and what they say; a share is followed by its interval.
_SUMMARIES = {
    "answers": (
        ("truthfulness", "truthfulness_error", "shown_right", "wrong", "abstained"),
        "Of the {rows} questions that the posts answer, {shown_right} are shown the right answer, {wrong} only a wrong "
        "one, {abstained} none.",
    ),
    "retrieval": (
        ("recall@1", "recall@5", "recall@20"),
        "Of the posts that answer {rows} questions, {recall@1} are found first, {recall@5} among the first five, "
        "{recall@20} among the first twenty.",
    ),
    "talk": (
        ("handled", "talk_handled", "question_answered"), "Of {rows} texts {handled} get the reply that they should."
    ),
    "followups": (
        ("understood", "shown_right", "alone_shown_right"), "Of {rows} follow-up questions {understood} are understood."
    ),
    "judge": (("auc", "confidence_auc", "seconds"), ""),
    "plans": (("valid", "mean_queries", "tokens_per_s"), "Of {rows} plans {valid} are valid."),
    "verify": (("accuracy", "balanced_accuracy", "opposite"), "Of {rows} claims {accuracy} are judged rightly."),
}  # fmt: skip


def compute_wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Compute the 95 % interval of a share of n (Wilson 1927)."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def format_report(
    command: str, found: Mapping[str, MetricsByLanguage], rows: int, *, everything: bool, main: str | None = None
) -> str:
    """Format what a command measured, for each variant: the main figures, or `everything`.

    A sentence says what they mean for the variant `main` (default: the first), in all languages, as shares of so many
    rows with their intervals. Of few rows it counts, and one variant has no table but with `everything`.
    """
    (names, sentence), many = _SUMMARIES[command], rows >= _FEWEST_ROWS
    main = main or next(iter(found))
    figures = {name: figure for name in names if (figure := found[main]["all"][name]) is not None}
    shown = found if everything else {
        variant: {lang: {name: metrics[lang][name] for name in names} for lang in metrics}
        for variant, metrics in found.items()
    }  # fmt: skip
    first, ratios = next(iter(shown)), compute_ratios(found)
    if len(shown) > 1:  # a table for each language, with the ratios to the first variant's speed
        parts: list[str] = []
        for lang in shown[first]:
            columns: list[TableColumn] = [(name, metrics[lang]) for name, metrics in shown.items()]
            columns += [
                (f"/ {first}", {name: f"× {share:.3g}" for name, share in ratio[lang].items() if share is not None})
                for ratio in ratios.values()
            ]
            parts.append(format_table(columns, lang))
    else:
        parts = [format_table(list(shown[first].items()))] if everything or many else []
    if sentence and len(figures) == len(names):
        shares = {}
        for name, figure in figures.items():
            low, high = compute_wilson_interval(min(1.0, max(0.0, figure)), max(rows, 1))
            share = f"{figure:.0%} ({low:.0%} to {high:.0%})"
            shares[name] = share if many else f"{figure * rows:.0f}"
        about = f"{main}: " if len(found) > 1 else ""
        brackets = " In brackets: the interval of 95%." if many else ""
        parts.append(f"{about}{sentence.format(rows=rows, **shares)}{brackets}")
    if not many:
        parts.append(f"Measured: {rows}. Too few for shares: take {_FEWEST_ROWS} or more.")
    return "\n\n".join(parts) + ("" if everything else "\nMore figures: --all.")


def format_table(columns: Sequence[TableColumn], corner: str = "") -> str:
    """Format a line for each figure of the first column: names left-aligned, figures right-aligned."""
    lines = [[corner, *(head for head, _ in columns)]]
    for name in columns[0][1]:
        line = [name]
        for _, cells in columns:
            value = cells.get(name, "")
            if isinstance(value, float):
                value = f"{value:.0f}" if value >= 1000 else f"{value:.3f}"
            line.append("-" if value is None else str(value))
        lines.append(line)
    widths = [max(least, *(len(line[n]) + 2 for line in lines)) for n, least in enumerate([24] + [10] * len(columns))]
    return "\n".join(
        (f"{name:{widths[0]}}" + "".join(map(str.rjust, cells, widths[1:]))).rstrip() for name, *cells in lines
    )


def compute_ratios(found: Mapping[str, MetricsByLanguage]) -> dict[str, dict[str, Metrics]]:
    """Compute the times of each further variant as multiples of the first one's, by language."""
    (_, reference), *others = found.items()
    ratios: dict[str, dict[str, Metrics]] = {}
    for other, metrics in others:
        ratios[other] = {lang: {} for lang in metrics}
        for lang, figures in metrics.items():
            for name in _SPEED_METRICS:
                if name in figures:
                    value, first = figures[name], reference[lang][name]
                    ratios[other][lang][name] = round(value / first, 3) if value is not None and first else None
    return ratios


BOOTSTRAP_DRAWS = 1000
DifferenceIntervals = dict[str, tuple[float, float, float]]  # by metric: difference, and its 95 % interval


def compute_difference_intervals(
    rows: Mapping[str, Sequence[R]], compute: Callable[[Sequence[R]], Metrics]
) -> dict[str, DifferenceIntervals]:
    """Compute by how much each further variant differs from the first one, with paired bootstrap intervals of 95 %.

    Questions are drawn with replacement, the same for both variants (Efron & Tibshirani, "An Introduction to the
    Bootstrap", 1993, percentile method). Speeds are left out, and figures that some draws do not have.
    """
    (_, reference), *others = rows.items()
    found: dict[str, DifferenceIntervals] = {}
    draws = np.random.default_rng(1).integers(len(reference), size=(BOOTSTRAP_DRAWS, len(reference)))
    reference_draws = [compute([reference[n] for n in draw]) for draw in draws]
    for variant, other in others:
        whole, other_draws = compute(other), [compute([other[n] for n in draw]) for draw in draws]
        found[variant] = {}
        for name, first in compute(reference).items():
            value, pairs = whole[name], zip(reference_draws, other_draws, strict=True)
            differences = [b - a for x, y in pairs if (a := x[name]) is not None and (b := y[name]) is not None]
            if name in _SPEED_METRICS or first is None or value is None or len(differences) < BOOTSTRAP_DRAWS:
                continue
            low, high = np.percentile(differences, (2.5, 97.5))
            found[variant][name] = round(value - first, 4), round(float(low), 4), round(float(high), 4)
    return found


def format_difference_intervals(command: str, found: Mapping[str, DifferenceIntervals], first: str) -> str:
    """Format the intervals of the figures that say most, a line each."""
    return "\n".join(
        "{} of {} less that of {}: {:+.3f} ({:+.3f} to {:+.3f})".format(name, other, first, *intervals[name])
        for other, intervals in found.items()
        for name in _SUMMARIES[command][0]
        if name in intervals
    )


_FOLD_COUNT = 5
_FUSION_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_FUSION_CANDIDATES = tuple(Fusion(kind, weight) for kind in ("sum", "rrf") for weight in _FUSION_WEIGHTS)
_MAX_RECALL_LOSS = 0.005  # of a recall, compared with lexical search alone: a smaller loss is noise
_TOP_HITS = 50  # hits of each retriever, as in an answer
_LEXICAL_ONLY = Fusion("sum", 0.0)

Ranking = list[tuple[PassageRef, float]]


class RetrieverRankings(NamedTuple):
    """Rankings of both retrievers for one question, and its relevant documents."""

    lang: str
    relevant: frozenset[str]
    lexical: Ranking
    dense: Ranking
    names: dict[PassageRef, str]

    def recalls(self, fusion: Fusion) -> tuple[float, ...]:
        """Compute recall (1 or 0) at each depth, then the reciprocal rank within the first 10."""
        order = fusion(self.lexical, self.dense, _TOP_HITS)
        hits = [self.names[place] in self.relevant for place, _ in order]
        reciprocal = next((1 / n for n, hit in enumerate(hits[:10], 1) if hit), 0.0)
        return (*(float(any(hits[:depth])) for depth in (1, 5, 20)), reciprocal)


async def run_both_retrievers(data: IndexedDataset) -> list[RetrieverRankings]:
    """Run both retrievers for every answerable question."""
    only = SearchFilter(data.viewer.channels)
    rows = []
    answerable = [query for query in data.dataset.queries if query.relevant]
    for query in iterate_with_progress_bar(answerable, "legs"):
        lexical = await search_lexical(query.text, only, _TOP_HITS, data.rag)
        dense, _ = await search_dense(query.text, only, _TOP_HITS, data.rag.dense)
        names = {place: data.id_of(place.key) for place, _ in [*lexical, *dense]}
        rows.append(RetrieverRankings(query.lang, query.relevant, lexical, dense, names))
    return rows


def choose_safest_fusions(rows: Sequence[RetrieverRankings]) -> dict[str, Fusion]:
    """Choose for each language the fusion with the best mean reciprocal rank that loses recall at no depth.

    If none is safe, lexical search alone; of equal ones the one with the smaller dense weight.
    """
    fusions = {}
    for lang in sorted({row.lang for row in rows}):
        in_language = [row for row in rows if row.lang == lang]
        means = {
            fusion: np.mean([row.recalls(fusion) for row in in_language], axis=0)
            for fusion in (_LEXICAL_ONLY, *_FUSION_CANDIDATES)
        }
        base = means[_LEXICAL_ONLY]
        better = [
            fusion
            for fusion, mean in means.items()
            if mean[-1] > base[-1] and np.all(mean[:-1] >= base[:-1] - _MAX_RECALL_LOSS)
        ]
        fusions[lang] = max(better, key=lambda f: (round(float(means[f][-1]), 4), -f.dense), default=_LEXICAL_ONLY)
    return fusions


_MAX_REFUSED = 0.07  # share of the answerable questions
_MAX_SURE_ANSWERS_WRONG = 0.08  # share of the sure answers


class FittedCalibration(NamedTuple):
    """Fitted thresholds, and their effect on held-out questions (5-fold over groups; 95 % interval).

    `abstained` and `refused`: shares of the answerable and the unanswerable below `bar`; `wrong`: of those from `sure`.
    """

    calibration: Calibration
    abstained: tuple[float, float, float]
    refused: tuple[float, float, float]
    wrong: tuple[float, float, float]


def fit_calibration(rows: Sequence[JudgedAnswer], data: str) -> FittedCalibration:
    """Fit the thresholds of probable and of sure answers.

    `bar`: the greatest that refuses at most _MAX_REFUSED of the answerable questions of each language; `sure`: the
    lowest from which at most _MAX_SURE_ANSWERS_WRONG of the answers are wrong.
    Source of the quantile with its finite-sample correction: Vovk et al., "Algorithmic Learning in a Random World"
    (2005), split conformal prediction. The rows must have been measured with a threshold of 0.
    """
    # rows of one group share a fold
    folds = {group: n % _FOLD_COUNT for n, group in enumerate(sorted({row.group for row in rows}))}
    abstained, refused, wrong = [], [], []
    for n in range(_FOLD_COUNT):
        train = [row for row in rows if folds[row.group] != n]
        bar, sure = _compute_bar(train), _compute_sure_bar(train)
        test = [row for row in rows if folds[row.group] == n]
        abstained += [row.confidence < bar for row in test if row.answerable]
        refused += [row.confidence < bar for row in test if not row.answerable]
        wrong += [not row.shown_right for row in test if row.confidence >= max(bar, sure)]
    bar = round(_compute_bar(rows), 4)
    calibration = Calibration(bar, max(bar, _compute_sure_bar(rows)), data, f"{datetime.now(UTC):%Y-%m-%d}")
    return FittedCalibration(calibration, *map(_measure_share, (abstained, refused, wrong)))


def _compute_bar(rows: Sequence[JudgedAnswer]) -> float:
    bars = []
    for lang in {row.lang for row in rows if row.answerable}:
        scores = sorted(row.confidence for row in rows if row.answerable and row.lang == lang)
        bars.append(scores[max(0, int(_MAX_REFUSED * (len(scores) + 1)) - 1)])
    return min(bars, default=0.0)


def _compute_sure_bar(rows: Sequence[JudgedAnswer]) -> float:
    """Compute the lowest confidence from which few enough answers are wrong; 1 if there is none."""
    best, wrong = 1.0, 0
    for n, row in enumerate(sorted(rows, key=lambda row: -row.confidence), 1):
        wrong += not row.shown_right
        if wrong <= _MAX_SURE_ANSWERS_WRONG * n:
            best = round(row.confidence, 4)
    return best


def _measure_share(flags: Sequence[bool]) -> tuple[float, float, float]:
    share = float(np.mean(flags)) if flags else 0.0
    low, high = compute_wilson_interval(share, len(flags)) if flags else (0.0, 1.0)
    return round(share, 4), round(low, 4), round(high, 4)
