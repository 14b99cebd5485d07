"""Verdict evaluation: on pairs of claim and evidence, and on claims looked up in a corpus, beside two baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from bot.cli.progress_bar import iterate_with_progress_bar
from bot.evaluation.data import ClaimRow, EvaluationQuery, IndexedDataset
from bot.evaluation.logistic_regression import FOLD_COUNT, LogisticFit, assign_folds, fit_logistic
from bot.evaluation.metrics import Metrics, compute_mean
from rag_core.errors import StageTimeout
from rag_core.run import Run
from rag_core.types import Passage, PostKey, Question
from rag_core.verification.claim_comparison import measure_covered_share
from rag_core.verification.entailment import assess_by_words
from rag_core.verification.facts import extract_facts
from rag_core.verification.verdict_types import Claim, Label, Verdict
from rag_core.verification.verify import plan_claim_search, retrieve_claim_passages, verify_claim
from rag_core.verification.word_comparison import Vocabulary, split_words

VERIFICATION_LAYERS = ("majority", "coverage", "all")
_MIN_ROWS_TO_FIT = 100  # with fewer rows the bar is a half
_BOOTSTRAP_DRAWS = 500
_MIN_SLOPE = 1e-9
# With these traps a post says something close to a claim on which there is not enough: to support it is the opposite.
_TEMPTING_TRAPS = frozenset({"plan", "rumour", "other_thing"})


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """One claim: its gold label, the label by each layer, and the share of its evidence in the first five hits."""

    lang: str
    gold: str
    said: dict[str, str]
    group: str
    found: float | None = None
    trap: str = ""

    def is_opposite(self, layer: str) -> bool:
        """Check whether the label says the opposite of the truth: a wrong answer that a reader would print."""
        pair = self.gold, self.said[layer]
        return pair in {("contradicted", "supported"), ("supported", "contradicted")} or (
            pair == ("not_found", "supported") and self.trap in _TEMPTING_TRAPS
        )


def compute_label_metrics(rows: Sequence[JudgedClaim], layer: str) -> Metrics:
    """Compute accuracy, mean recall over the occurring classes (with its 95 % interval, by group), and mean F1.

    `opposite` is the share of labels that say the opposite; with traps, accuracy and opposite by trap stand after them.
    """
    pairs = [(row.gold, row.said[layer]) for row in rows]
    balanced, low, high = _compute_balanced_accuracy(rows, layer)
    by_trap: Metrics = {}
    for trap in sorted({row.trap for row in rows} - {""}):
        trapped = [row for row in rows if row.trap == trap]
        by_trap[f"accuracy_{trap}"] = compute_mean([row.gold == row.said[layer] for row in trapped])
        by_trap[f"opposite_{trap}"] = compute_mean([row.is_opposite(layer) for row in trapped])
    return {
        "accuracy": compute_mean([gold == label for gold, label in pairs]),
        "opposite": compute_mean([row.is_opposite(layer) for row in rows]),
        "balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "balanced_accuracy_high": high,
        "macro_f1": compute_mean([_compute_f1(pairs, name) for name in sorted({gold for gold, _ in pairs})]),
        "evidence_recall@5": compute_mean([row.found for row in rows if row.found is not None]),
        **by_trap,
    }


def _compute_mean_recall(pairs: Sequence[tuple[str, str]]) -> float:
    golds = sorted({gold for gold, _ in pairs})
    return float(np.mean([np.mean([label == gold for row_gold, label in pairs if row_gold == gold]) for gold in golds]))


def _compute_balanced_accuracy(
    rows: Sequence[JudgedClaim], layer: str
) -> tuple[float | None, float | None, float | None]:
    """Bootstrap over groups (Efron 1979): rows of one group are not independent."""
    if not rows:
        return None, None, None
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append((row.gold, row.said[layer]))
    lists, draw = list(groups.values()), np.random.default_rng(0)
    drawn = [
        _compute_mean_recall([p for n in draw.integers(len(lists), size=len(lists)) for p in lists[n]])
        for _ in range(_BOOTSTRAP_DRAWS)
    ]
    whole = _compute_mean_recall([pair for pairs in lists for pair in pairs])
    low, high = np.percentile(drawn, (2.5, 97.5))
    return round(whole, 4), round(float(low), 4), round(float(high), 4)


def _compute_f1(pairs: Sequence[tuple[str, str]], name: str) -> float:
    right = sum(gold == label == name for gold, label in pairs)
    return 2 * right / sum((gold == name) + (label == name) for gold, label in pairs)


def judge_claim_pairs(rows: Sequence[ClaimRow]) -> list[JudgedClaim]:
    """Judge claims with given evidence. The bar of the baseline "coverage" is fitted on the other folds."""
    by_language = [[row for row in rows if row.lang == lang] for lang in sorted({row.lang for row in rows})]
    return [judged for language_rows in by_language for judged in _judge_language_pairs(language_rows)]


def _judge_language_pairs(rows: Sequence[ClaimRow]) -> list[JudgedClaim]:
    shares = [[_measure_coverage(row, text) for text in row.evidence] for row in rows]
    golds = {row.gold for row in rows}
    other = next(iter(golds - {"supported"})) if len(golds) == 2 and "supported" in golds else None
    fold = assign_folds([row.group for row in rows])
    single = other is not None and len(rows) >= _MIN_ROWS_TO_FIT and all(len(each) == 1 for each in shares)
    table = np.array(shares) if single else np.zeros((0, 0))
    yes = np.array([row.gold == "supported" for row in rows])
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    bars = [
        _find_threshold(fit_logistic(table[fold != n], yes[fold != n])) if single and (fold == n).any() else 0.5
        for n in range(FOLD_COUNT)
    ]
    judged = []
    for row, covered, row_fold in zip(rows, shares, fold, strict=True):
        claim, passages = Claim(row.claim, row.lang), [_build_passage(text) for text in row.evidence]
        every = _join_labels([support.label for support in assess_by_words(claim, passages)])
        labels = {"coverage": _label_by_coverage(covered, bars[row_fold]), "all": every}
        if other is not None:
            labels = {layer: label if label == "supported" else other for layer, label in labels.items()}
        judged.append(JudgedClaim(row.lang, row.gold, {"majority": most, **labels}, row.group))
    return judged


def _find_threshold(fit: LogisticFit) -> float:
    """Find the value at which a fit on one feature turns to yes; 0.5 if the feature has no effect."""
    slope = float(fit.values[0])
    return -fit.shift / slope if abs(slope) > _MIN_SLOPE else 0.5


def _build_passage(text: str) -> Passage:
    """Passage of evidence that no channel posted."""
    return Passage(PostKey(0, 0), 0, "", text, 0, len(text), datetime.now(UTC))


def _measure_coverage(row: ClaimRow, text: str) -> float:
    """Share of the claim's words that a text has."""
    return measure_covered_share(extract_facts(row.claim, row.lang).words, Vocabulary(split_words(text)))


def _label_by_coverage(shares: Sequence[float], bar: float) -> str:
    return _join_labels([Label.SUPPORTED if share >= bar else Label.NOT_FOUND for share in shares])


def _join_labels(labels: Sequence[Label]) -> str:
    if Label.SUPPORTED in labels:
        return "disputed" if Label.CONTRADICTED in labels else str(Label.SUPPORTED)
    return str(Label.CONTRADICTED if Label.CONTRADICTED in labels else Label.NOT_FOUND)


async def verify_in_corpus(
    rows: Sequence[ClaimRow], queries: Sequence[EvaluationQuery], data: IndexedDataset
) -> list[JudgedClaim]:
    """Verify claims against an indexed corpus as `/verify` does, in the order of the rows."""
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    queries_by_id = {query.id: query for query in queries}
    return [
        await _verify_claim(row, queries_by_id[row.id], data, most) for row in iterate_with_progress_bar(rows, "verify")
    ]


async def _verify_claim(row: ClaimRow, query: EvaluationQuery, data: IndexedDataset, most: str) -> JudgedClaim:
    rag = data.rag
    run = Run(rag.settings.budgets, "verify")
    question = Question(row.claim, row.lang, row.asked_at or datetime.now(UTC), data.viewer)
    plan = replace(plan_claim_search(question), until=row.asked_at)
    claim = Claim(row.claim, row.lang, 0, len(row.claim))
    try:
        passages = await retrieve_claim_passages(question, plan, rag, run)
        verdict = await verify_claim(claim, question, plan, {}, rag, run)
    except StageTimeout:
        passages, verdict = (), Verdict(claim, Label.NOT_FOUND, 0.0)
    covered = [_measure_coverage(row, p.text) for p in passages]
    names = list(dict.fromkeys(data.id_of(p.key) for p in passages))[:5]
    recall = sum(name in query.relevant for name in names) / len(query.relevant) if query.relevant else None
    said = "disputed" if verdict.contested else str(verdict.label)
    labels = {
        "majority": most,
        "coverage": _label_by_coverage(covered, 0.5),
        "all": row.gold if row.disputed and said == "disputed" else said,
    }
    return JudgedClaim(row.lang, row.gold, labels, row.group, recall, row.trap)
