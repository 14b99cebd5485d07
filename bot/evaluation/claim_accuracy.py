"""Verdict evaluation: on pairs of claim and evidence, and on claims looked up in a corpus, beside two baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from tqdm import tqdm

from bot.evaluation.answer_metrics import Metrics
from bot.evaluation.datasets import ClaimRow, EvaluationQuery
from bot.evaluation.fitting import FOLD_COUNT, LogisticFit, assign_folds, fit_logistic
from bot.evaluation.indexed_dataset import IndexedDataset
from rag_core.tracing import Run
from rag_core.types import Question
from rag_core.verification.rules import RuleCheck, assess_rule_check, check_by_rules
from rag_core.verification.verdict_types import Claim, Label
from rag_core.verification.verify import plan_claim_search, retrieve_claim_passages, verify_claim

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
    recalls = [row.found for row in rows if row.found is not None]
    by_trap: Metrics = {}
    for trap in sorted({row.trap for row in rows} - {""}):
        trapped = [row for row in rows if row.trap == trap]
        by_trap[f"accuracy_{trap}"] = _round_figure(np.mean([row.gold == row.said[layer] for row in trapped]))
        by_trap[f"opposite_{trap}"] = _round_figure(np.mean([row.is_opposite(layer) for row in trapped]))
    return {
        "accuracy": _round_figure(np.mean([gold == label for gold, label in pairs])) if pairs else None,
        "opposite": _round_figure(np.mean([row.is_opposite(layer) for row in rows])) if rows else None,
        "balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "balanced_accuracy_high": high,
        "macro_f1": _round_figure(_compute_macro_f1(pairs)) if pairs else None,
        "evidence_recall@5": _round_figure(np.mean(recalls)) if recalls else None,
        **by_trap,
    }


def _round_figure(value: float | np.floating[Any]) -> float:
    return round(float(value), 4)


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
    return _round_figure(whole), _round_figure(np.percentile(drawn, 2.5)), _round_figure(np.percentile(drawn, 97.5))


def _compute_macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    scores = []
    for name in {gold for gold, _ in pairs}:
        right = sum(gold == label == name for gold, label in pairs)
        occurrences = sum(gold == name for gold, _ in pairs) + sum(label == name for _, label in pairs)
        scores.append(2 * right / occurrences)
    return float(np.mean(scores))


def judge_claim_pairs(rows: Sequence[ClaimRow]) -> list[JudgedClaim]:
    """Judge claims with given evidence. The bar of the baseline "coverage" is fitted on the other folds."""
    checked = [[check_by_rules(row.claim, text, row.lang) for text in row.evidence] for row in rows]
    judged: list[JudgedClaim] = []
    for lang in sorted({row.lang for row in rows}):
        row_numbers = [n for n, row in enumerate(rows) if row.lang == lang]
        judged += _judge_language_pairs([rows[n] for n in row_numbers], [checked[n] for n in row_numbers])
    return judged


def _judge_language_pairs(rows: Sequence[ClaimRow], checked: Sequence[Sequence[RuleCheck]]) -> list[JudgedClaim]:
    golds = {row.gold for row in rows}
    other = next(iter(golds - {"supported"})) if len(golds) == 2 and "supported" in golds else None
    fold = assign_folds([row.group for row in rows])
    single = other is not None and len(rows) >= _MIN_ROWS_TO_FIT and all(len(each) == 1 for each in checked)
    table = np.array([[each[0].met] for each in checked]) if single else np.zeros((0, 0))
    yes = np.array([row.gold == "supported" for row in rows])
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    judged: list[JudgedClaim] = [JudgedClaim(row.lang, row.gold, {}, row.group) for row in rows]
    for n in range(FOLD_COUNT):
        train, test = fold != n, np.flatnonzero(fold == n)
        covered = _find_threshold(fit_logistic(table[train], yes[train])) if single else None
        for i in map(int, test):
            labels = {
                name: (label if other is None or label == "supported" else other)
                for name, label in _label_by_layers(checked[i], rows[i].lang, covered)
            }
            judged[i] = JudgedClaim(rows[i].lang, rows[i].gold, {"majority": most, **labels}, rows[i].group)
    return judged


def _find_threshold(fit: LogisticFit) -> float:
    """Find the value at which a fit on one feature turns to yes; 0.5 if the feature has no effect."""
    slope = float(fit.values[0])
    return -fit.shift / slope if abs(slope) > _MIN_SLOPE else 0.5


def _label_by_layers(checked: Sequence[RuleCheck], lang: str, covered: float | None) -> list[tuple[str, str]]:
    bar = 0.5 if covered is None else covered
    coverage = [Label.SUPPORTED if check.met >= bar else Label.NOT_FOUND for check in checked]
    every = [assess_rule_check(check, lang).label for check in checked]
    return [("coverage", _join_labels(coverage)), ("all", _join_labels(every))]


def _join_labels(labels: Sequence[Label]) -> str:
    for_it, against = Label.SUPPORTED in labels, Label.CONTRADICTED in labels
    return "disputed" if for_it and against else str(next(filter(None, (
        for_it and Label.SUPPORTED, against and Label.CONTRADICTED)), Label.NOT_FOUND))  # fmt: skip


async def verify_in_corpus(
    rows: Sequence[ClaimRow], queries: Sequence[EvaluationQuery], data: IndexedDataset
) -> list[JudgedClaim]:
    """Verify claims against an indexed corpus as `/verify` does, in the order of the rows."""
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    queries_by_id = {query.id: query for query in queries}
    return [
        await _verify_claim(row, queries_by_id[row.id], data, most)
        for row in tqdm(rows, desc="verify", delay=1, leave=False, disable=None)
    ]


async def _verify_claim(row: ClaimRow, query: EvaluationQuery, data: IndexedDataset, most: str) -> JudgedClaim:
    rag = data.rag
    run = Run(rag.settings.budgets, "verify")
    question = Question(row.claim, row.lang, row.asked_at or datetime.now(UTC), data.viewer)
    plan = replace(plan_claim_search(question), until=row.asked_at)
    passages = await retrieve_claim_passages(question, plan, rag, run)
    checked = [check_by_rules(row.claim, p.text, row.lang) for p in passages]
    names = list(dict.fromkeys(data.id_of(p.key) for p in passages))[:5]
    recall = sum(name in query.relevant for name in names) / len(query.relevant) if query.relevant else None
    verdict = await verify_claim(Claim(row.claim, row.lang, 0, len(row.claim)), question, plan, {}, rag, run)
    said = "disputed" if verdict.contested else str(verdict.label)
    labels = {
        "majority": most,
        "coverage": _join_labels([Label.SUPPORTED if c.met >= 0.5 else Label.NOT_FOUND for c in checked]),
        "all": row.gold if row.disputed and said == "disputed" else said,
    }
    return JudgedClaim(row.lang, row.gold, labels, row.group, recall, row.trap)
