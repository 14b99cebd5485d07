"""How good the verdicts are, layer by layer: on pairs of claim and evidence, and on claims looked up in a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from tqdm import tqdm

from bot.evaluation.claims import Row
from bot.evaluation.datasets import Query
from bot.evaluation.fitting import FOLDS, Fit, fit, folds
from bot.evaluation.index import Indexed
from bot.evaluation.scoring import Metrics
from rag_core.stage import Run
from rag_core.types import Passage, Question
from rag_core.verify.looking import looked_for, statement
from rag_core.verify.rules import Checked, by_rules
from rag_core.verify.ruling import ruled
from rag_core.verify.similar import by_words, features
from rag_core.verify.telling import Weighed
from rag_core.verify.verdict import Claim, Label, Support
from rag_core.verify.weigh import checked_support, weigh
from rag_core.verify.weights import BAR, Weights

__all__ = ["LAYERS", "Told", "label_metrics", "looked_up", "on_pairs"]

LAYERS = ("majority", "coverage", "rules", "words", "all")
_LEAST_TO_FIT = 100  # rows: fewer are judged with the project's own weights
_DRAWS = 500
_FLAT = 1e-9


@dataclass(frozen=True, slots=True)
class Told:
    """One claim: what is right, what each layer says, and the share of its evidence among the first five found."""

    lang: str
    gold: str
    said: dict[str, str]
    group: str
    found: float | None = None


def label_metrics(rows: Sequence[Told], layer: str) -> Metrics:
    """Accuracy, mean recall over the classes that occur (with its 95 % interval, by group), mean F1."""
    pairs = [(row.gold, row.said[layer]) for row in rows]
    balanced, low, high = _balanced(rows, layer)
    found = [row.found for row in rows if row.found is not None]
    return {
        "accuracy": _rounded(np.mean([gold == said for gold, said in pairs])) if pairs else None,
        "balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "balanced_accuracy_high": high,
        "macro_f1": _rounded(_macro_f1(pairs)) if pairs else None,
        "evidence_recall@5": _rounded(np.mean(found)) if found else None,
    }


def _rounded(value: float | np.floating[Any]) -> float:
    return round(float(value), 4)


def _recall(pairs: Sequence[tuple[str, str]]) -> float:
    golds = sorted({gold for gold, _ in pairs})
    return float(np.mean([np.mean([said == gold for was, said in pairs if was == gold]) for gold in golds]))


def _balanced(rows: Sequence[Told], layer: str) -> tuple[float | None, float | None, float | None]:
    """By drawing groups with replacement (Efron 1979): rows of one group are no independent witnesses."""
    if not rows:
        return None, None, None
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append((row.gold, row.said[layer]))
    lists, draw = list(groups.values()), np.random.default_rng(0)
    drawn = [_recall([p for n in draw.integers(len(lists), size=len(lists)) for p in lists[n]]) for _ in range(_DRAWS)]
    whole = _recall([pair for pairs in lists for pair in pairs])
    return _rounded(whole), _rounded(np.percentile(drawn, 2.5)), _rounded(np.percentile(drawn, 97.5))


def _macro_f1(pairs: Sequence[tuple[str, str]]) -> float:
    scores = []
    for name in {gold for gold, _ in pairs}:
        right = sum(gold == said == name for gold, said in pairs)
        given = sum(gold == name for gold, _ in pairs) + sum(said == name for _, said in pairs)
        scores.append(2 * right / given)
    return float(np.mean(scores))


def on_pairs(rows: Sequence[Row]) -> list[Told]:
    """Claims beside their evidence. What is fitted is fitted on the other folds, by language."""
    checked = [[by_rules(row.claim, text, row.lang) for text in row.evidence] for row in rows]
    told: list[Told] = []
    for lang in sorted({row.lang for row in rows}):
        mine = [n for n, row in enumerate(rows) if row.lang == lang]
        told += _told([rows[n] for n in mine], [checked[n] for n in mine])
    return told


def _told(rows: Sequence[Row], checked: Sequence[Sequence[Checked]]) -> list[Told]:
    golds = {row.gold for row in rows}
    other = next(iter(golds - {"supported"})) if len(golds) == 2 and "supported" in golds else None
    fold = folds([row.group for row in rows])
    single = other is not None and len(rows) >= _LEAST_TO_FIT and all(len(each) == 1 for each in checked)
    table = np.array([features(each[0]) for each in checked]) if single else np.zeros((0, 0))
    yes = np.array([row.gold == "supported" for row in rows])
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    told: list[Told] = [Told(row.lang, row.gold, {}, row.group) for row in rows]
    for n in range(FOLDS):
        train, test = fold != n, np.flatnonzero(fold == n)
        own = covered = None
        if single:
            found, one = fit(table[train], yes[train]), fit(table[train][:, [1]], yes[train])
            own, covered = Weights(found.shift, tuple(found.values)), _crossed(one)
        for i in map(int, test):
            said = {name: _mapped(label, other) for name, label in _layers(checked[i], rows[i].lang, own, covered)}
            told[i] = Told(rows[i].lang, rows[i].gold, {"majority": most, **said}, rows[i].group)
    return told


def _crossed(one: Fit) -> float:
    """Where a fit on one feature turns to yes; 0.5 where the feature tells nothing."""
    slope = float(one.values[0])
    return -one.shift / slope if abs(slope) > _FLAT else 0.5


def _layers(checked: Sequence[Checked], lang: str, own: Weights | None, covered: float | None) -> list[tuple[str, str]]:
    bar = 0.5 if covered is None else covered
    coverage = [Label.SUPPORTED if one.met >= bar else Label.NOT_FOUND for one in checked]
    rules = [one.label or Label.SUPPORTED for one in checked]
    weighed = [checked_support(one, lang, own) for one in checked]
    words = [Label.SUPPORTED if by_words(one, lang, own) >= BAR else Label.NOT_FOUND for one in checked]
    every = [support.label for support in weighed]
    return [(name, _joined(labels)) for name, labels in
            (("coverage", coverage), ("rules", rules), ("words", words), ("all", every))]  # fmt: skip


def _joined(labels: Sequence[Label]) -> str:
    """What several pieces of evidence say together."""
    for_it, against = Label.SUPPORTED in labels, Label.CONTRADICTED in labels
    return "disputed" if for_it and against else str(next(filter(None, (
        for_it and Label.SUPPORTED, against and Label.CONTRADICTED)), Label.NOT_FOUND))  # fmt: skip


def _mapped(label: str, other: str | None) -> str:
    return label if other is None or label == "supported" else other


async def looked_up(rows: Sequence[Row], queries: Sequence[Query], data: Indexed) -> list[Told]:
    """Claims looked up in an indexed corpus as `/verify` does, in the order of the rows."""
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    asked = {query.id: query for query in queries}
    return [await _looked_up(row, asked[row.id], data, most) for row in tqdm(rows, desc="verify", delay=1, leave=False)]


async def _looked_up(row: Row, query: Query, data: Indexed, most: str) -> Told:
    rag = data.rag
    run = Run(rag.settings.budgets, "verify")
    question = Question(row.claim, row.lang, datetime.now(UTC), data.viewer)
    passages = await looked_for(question, statement(question), rag, run)
    claim = Claim(row.claim, row.lang, 0, len(row.claim))
    supports = await run.require("verify", weigh(claim, passages, data.viewer, rag, run))
    checked = [by_rules(row.claim, p.text, row.lang, header=p.header, date=p.date) for p in passages]
    names = list(dict.fromkeys(data.id_of(p.key) for p in passages))[:5]
    found = sum(name in query.relevant for name in names) / len(query.relevant) if query.relevant else None
    said = {
        "majority": most,
        "coverage": _joined([Label.SUPPORTED if c.met >= 0.5 else Label.NOT_FOUND for c in checked]),
    }
    said["rules"] = _ruled(claim, passages, [_by_rules(one) for one in checked], data)
    said["words"] = _ruled(claim, passages, [checked_support(one, row.lang) for one in checked], data)
    said["all"] = _ruled(claim, passages, supports, data)
    return Told(row.lang, row.gold, said, row.group, found)


def _by_rules(checked: Checked) -> Support:
    likely = checked.met if checked.label is None else 0.0
    return Support(checked.label or Label.SUPPORTED, likely, "rules")


def _ruled(claim: Claim, passages: Sequence[Passage], supports: Sequence[Support], data: Indexed) -> str:
    weighed = [Weighed(p, support) for p, support in zip(passages, supports, strict=True)]
    verdict, _ = ruled(claim, weighed, data.rag.lexical.statistics(data.viewer.channels).weight)
    return "disputed" if verdict.citations and verdict.against else str(verdict.label)
