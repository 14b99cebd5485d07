"""Verdict evaluation: on pairs of claim and evidence, and on claims looked up in a corpus, beside two baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from bot.cli.folder import iterate_with_progress_bar
from bot.evaluation.data import ClaimRow, EvaluationQuery, IndexedDataset
from bot.evaluation.metrics import Metrics, compute_mean
from rag_core.errors import StageTimeout
from rag_core.run import Run
from rag_core.types import Passage, PostKey, Question
from rag_core.verification import Claim, Label, Verdict
from rag_core.verification.comparison import measure_covered_share
from rag_core.verification.facts import Vocabulary, extract_facts, split_words
from rag_core.verification.stance import assess_by_words
from rag_core.verification.verify import plan_claim_search, retrieve_claim_passages, verify_claim

VERIFICATION_LAYERS = ("majority", "coverage", "all")
_COVERAGE_BAR = 0.5  # of the baseline: share of a claim's words that its evidence has
BOOTSTRAP_DRAWS = 500
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
    golds = sorted({gold for gold, _ in pairs})
    f1 = [
        2 * sum(gold == label == name for gold, label in pairs) / sum((a == name) + (b == name) for a, b in pairs)
        for name in golds
    ]
    balanced, low, high = _compute_balanced_accuracy(rows, layer) if rows else (None, None, None)
    metrics = {
        "accuracy": compute_mean(gold == label for gold, label in pairs),
        "opposite": compute_mean(row.is_opposite(layer) for row in rows),
        "balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "balanced_accuracy_high": high,
        "macro_f1": compute_mean(f1),
        "evidence_recall@5": compute_mean(row.found for row in rows if row.found is not None),
    }
    for trap in sorted({row.trap for row in rows} - {""}):
        trapped = [row for row in rows if row.trap == trap]
        metrics[f"accuracy_{trap}"] = compute_mean(row.gold == row.said[layer] for row in trapped)
        metrics[f"opposite_{trap}"] = compute_mean(row.is_opposite(layer) for row in trapped)
    return metrics


def _compute_balanced_accuracy(rows: Sequence[JudgedClaim], layer: str) -> tuple[float, float, float]:
    """Mean recall, with its bootstrap interval over groups (Efron 1979): rows of one group are not independent."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append((row.gold, row.said[layer]))
    lists, draw = list(groups.values()), np.random.default_rng(0)
    drawn = [range(len(lists)), *draw.integers(len(lists), size=(BOOTSTRAP_DRAWS, len(lists)))]
    recalls = []
    for numbers in drawn:
        flags: dict[str, list[bool]] = {}
        for gold, label in (pair for n in numbers for pair in lists[n]):
            flags.setdefault(gold, []).append(label == gold)
        recalls.append(float(np.mean([np.mean(found) for found in flags.values()])))
    whole, (low, high) = recalls[0], np.percentile(recalls[1:], (2.5, 97.5))
    return round(whole, 4), round(float(low), 4), round(float(high), 4)


def judge_claim_pairs(rows: Sequence[ClaimRow]) -> list[JudgedClaim]:
    """Judge claims with given evidence. Where a language has but one label beside "supported", all others are that."""
    judged = []
    for lang in sorted({row.lang for row in rows}):
        in_language = [row for row in rows if row.lang == lang]
        golds = Counter(row.gold for row in in_language)
        others = golds.keys() - {"supported"}
        other = next(iter(others)) if "supported" in golds and len(others) == 1 else None
        for row in in_language:
            now = datetime.now(UTC)
            evidence = [Passage(PostKey(0, 0), 0, "", text, 0, len(text), now) for text in row.evidence]
            supports = assess_by_words(Claim(row.claim, row.lang), evidence)
            labels = {
                "coverage": _label_by_coverage(row, row.evidence),
                "all": _join_labels([support.label for support in supports]),
            }
            if other is not None:
                labels = {layer: label if label == "supported" else other for layer, label in labels.items()}
            majority = golds.most_common(1)[0][0]
            judged.append(JudgedClaim(row.lang, row.gold, {"majority": majority, **labels}, row.group))
    return judged


def _label_by_coverage(row: ClaimRow, texts: Sequence[str]) -> str:
    words = extract_facts(row.claim, row.lang).words
    shares = [measure_covered_share(words, Vocabulary(split_words(text))) for text in texts]
    return _join_labels([Label.SUPPORTED if share >= _COVERAGE_BAR else Label.NOT_FOUND for share in shares])


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
    judged = []
    for row in iterate_with_progress_bar(rows, "verify"):
        rag, relevant = data.rag, queries_by_id[row.id].relevant
        run = Run(rag.budgets, "verify")
        question = Question(row.claim, row.lang, row.asked_at or datetime.now(UTC), data.viewer)
        plan = replace(plan_claim_search(question), until=row.asked_at)
        claim = Claim(row.claim, row.lang, 0, len(row.claim))
        try:
            passages = await retrieve_claim_passages(question, plan, rag, run)
            verdict = await verify_claim(claim, question, plan, {}, rag, run)
        except StageTimeout:
            passages, verdict = (), Verdict(claim, Label.NOT_FOUND, 0.0)
        names = list(dict.fromkeys(data.id_of(p.key) for p in passages))[:5]
        recall = sum(name in relevant for name in names) / len(relevant) if relevant else None
        said = "disputed" if verdict.contested else str(verdict.label)
        labels = {
            "majority": most,
            "coverage": _label_by_coverage(row, [p.text for p in passages]),
            "all": row.gold if row.disputed and said == "disputed" else said,
        }
        judged.append(JudgedClaim(row.lang, row.gold, labels, row.group, recall, row.trap))
    return judged
