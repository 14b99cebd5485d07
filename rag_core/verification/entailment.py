"""Entailment: how likely a passage supports a claim, by rules, words, embeddings and an LLM judge in that order.

Where the rules object, no later layer makes a claim supported. Embeddings are used where a model is open and fitted,
the judge only for what is still undecided. Weights of the word layer were fitted on terra_ru_nli (860 pairs, RU) and
fever_symmetric (455 pairs, EN).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from rag_core.engine import Engine
from rag_core.tracing import Run
from rag_core.types import Passage, Shortfall, Viewer
from rag_core.verification.compare import TermWeight, contains_name, is_same_value, measure_copied_share
from rag_core.verification.facts import extract_facts, extract_facts_by_sentence
from rag_core.verification.judge import judge_support
from rag_core.verification.rules import RuleCheck, check_by_rules, uniform_weight
from rag_core.verification.stance import TOO_LITTLE, assess_stance
from rag_core.verification.types import Claim, Label, Support

# Fitted on terra_ru_nli (860 pairs, RU) and fever_symmetric (455 pairs, EN), on 2026-11-20.
SUPPORT_THRESHOLD = 0.5  # likelihood from which a claim without objections is supported
# Minimum likelihood if there is no objection, a number, date or name agrees, and half of the words are in one
# sentence: of such pairs 0.52 to 0.72 are supported.
AGREEMENT_FLOOR = 0.55


@dataclass(frozen=True, slots=True)
class EntailmentWeights:
    """Logistic regression over the features `NAMES`: shift and weights, fitted with ridge 5 on standardised values."""

    shift: float
    values: tuple[float, ...]

    NAMES: ClassVar[tuple[str, ...]] = (
        "near", "met", "met_cubed", "all_met", "pairs", "in_order", "last_met", "denies", "denials_differ", "denial",
        "opposite", "name", "moment", "number", "only", "length",
    )  # fmt: skip


# `citegram eval verify` measures them on data they were not fitted on.
ENTAILMENT_WEIGHTS: Mapping[str, EntailmentWeights] = {
    "ru": EntailmentWeights(-0.900, (
        -0.554, 1.874, 0.029, -0.205, 0.023, -0.241, 0.310, -0.242,
        -0.197, -1.513, -1.914, -0.385, 0.000, -2.319, -1.236, 0.015,
    )),
    "en": EntailmentWeights(0.325, (
        -0.192, -0.192, 1.367, 0.939, 0.736, -0.166, 0.645, 1.464,
        -0.944, -2.251, -3.319, 0.158, -3.199, 0.423, 0.043, -0.409,
    )),
}  # fmt: skip
_MAX_SENTENCE_WORDS = 30  # words: sentence lengths are capped here
_SUFFICIENT_COVERAGE = 0.5  # share of the claim's words in the passage; below it the likelihood is scaled down
_ONLY_WORDS = frozenset("only solely exclusively merely только лишь исключительно".split())


def compute_features(checked: RuleCheck) -> tuple[float, ...]:
    """Compute the features of a claim and passage, in the order of `EntailmentWeights.NAMES`."""
    claim, best = checked.claim, checked.nearest
    if best is None:
        return (0.0,) * len(EntailmentWeights.NAMES)
    stems = [word.stem for word in best.words]
    pairs = list(pairwise(claim.words))
    there = set(pairwise(stems))
    everywhere = {word.stem for one in checked.post for word in one.words}
    sorts = {objection.sort for objection in checked.objections}
    return (
        checked.near,
        checked.met,
        checked.met**3,
        float(checked.met >= 1.0),
        sum((a.stem, b.stem) in there for a, b in pairs) / max(1, len(pairs)),
        measure_copied_share(claim, best),
        float(bool(claim.words) and claim.words[-1].stem in everywhere),
        float(bool(claim.denied)),
        float(len(claim.denied) != len(best.denied)),
        float("denial" in sorts),
        float("opposite" in sorts),
        float("name" in sorts),
        float("moment" in sorts),
        float("number" in sorts),
        float(any(word.low in _ONLY_WORDS for word in claim.all_words)),
        math.log1p(min(_MAX_SENTENCE_WORDS, len(best.words))),
    )


def count_agreeing_facts(checked: RuleCheck) -> int:
    """Count the claim's numbers, dates and names that are in the most similar sentence."""
    claim, best = checked.claim, checked.nearest
    if best is None:
        return 0
    numbers = sum(any(is_same_value(mine, one) for one in best.numbers) for mine in claim.numbers)
    moments = sum(any(mine.fields().items() & one.fields().items() for one in best.moments) for mine in claim.moments)
    return numbers + moments + sum(not name.weak and contains_name(name.word, [best]) for name in claim.names)


def score_by_words(checked: RuleCheck, lang: str, fitted: EntailmentWeights | None = None) -> float:
    """Likelihood that the passage supports the claim, 0..1, from words, numbers, names and denials."""
    weights = fitted or ENTAILMENT_WEIGHTS[lang]
    z = weights.shift + sum(w * f for w, f in zip(weights.values, compute_features(checked), strict=True))
    return min(1.0, checked.met / _SUFFICIENT_COVERAGE) / (1 + math.exp(-max(-30.0, min(30.0, z))))


_MIN_OPEN_LIKELIHOOD = 0.4  # likelihood below which agreeing facts do not help
_MIN_VERBATIM_LENGTH = 12  # characters: shorter runs occur in any text
_HALF_OF_WORDS = 0.5  # share of a claim's words
_VERBATIM_LIKELIHOOD, _MAX_LIKELIHOOD = 1.0, 0.99
_UNDECIDED = 0.2  # likelihood from which the LLM judge is asked of what no other cue decides
_JUDGE_WEIGHT = 0.5  # weight of its log odds: small models are overconfident
_BARE_VERDICTS = "The model only says yes or no, not how sure it is: use a server that tells log-probabilities."


def assess_text(claim_text: str, evidence_text: str, lang: str) -> Support:
    """Assess a claim against a text, by rules and words only."""
    return assess_rule_check(check_by_rules(claim_text, evidence_text, lang), lang)


async def assess_passages(
    claim: Claim, passages: Sequence[Passage], viewer: Viewer, rag: Engine, run: Run
) -> list[Support]:
    """Assess a claim against each passage, in their order.

    Words are weighted by their rarity in the channels the viewer may read. Raises ModelUnavailable, GenerationFailed.
    """
    weight = rag.lexical.statistics(viewer.channels).weight
    supports = await asyncio.to_thread(assess_by_words, claim, passages, weight)
    return await _apply_judge_layer(claim, passages, supports, rag, run)


def assess_by_words(claim: Claim, passages: Sequence[Passage], weight: TermWeight = uniform_weight) -> list[Support]:
    """Assess a claim against each passage by its words alone; `weight` gives the rarity of a term."""
    facts = extract_facts(claim.text.strip(), claim.lang)
    return [
        assess_stance(facts, extract_facts_by_sentence(one.text, claim.lang), one.header, one.date, weight)
        for one in passages
    ]


def assess_rule_check(checked: RuleCheck, lang: str, fitted: EntailmentWeights | None = None) -> Support:
    """Apply the first two layers, rules and words; `fitted` replaces the built-in weights."""
    best = checked.nearest
    if best is None:
        return Support(Label.NOT_FOUND, 0.0, "rules", checked.why)
    start, end = best.start, best.start + len(best.text)
    likely = score_by_words(checked, lang, fitted)
    if checked.label is Label.CONTRADICTED:
        return Support(Label.CONTRADICTED, round(likely * (1 - checked.near), 4), "rules", checked.why, start, end)
    if checked.label is Label.NOT_FOUND:
        return Support(
            Label.NOT_FOUND, round(min(likely, SUPPORT_THRESHOLD - 0.01), 4), "rules", checked.why, start, end
        )
    if place := _find_verbatim(checked):
        return Support(Label.SUPPORTED, _VERBATIM_LIKELIHOOD, "rules", "", *place)
    if likely >= _MIN_OPEN_LIKELIHOOD and checked.near >= _HALF_OF_WORDS and count_agreeing_facts(checked):
        likely = max(likely, AGREEMENT_FLOOR)
    likely = min(_MAX_LIKELIHOOD, likely)
    label = Label.SUPPORTED if likely >= SUPPORT_THRESHOLD else Label.NOT_FOUND
    return Support(label, round(likely, 4), "words", "", start, end)


def _find_verbatim(checked: RuleCheck) -> tuple[int, int] | None:
    """Find the claim word for word in the passage; None if it is too short to mean anything."""
    claim_words = [word.low for word in checked.claim.all_words]
    if sum(map(len, claim_words)) < _MIN_VERBATIM_LENGTH:
        return None
    for sentence in checked.post:
        lows = [word.low for word in sentence.all_words]
        for at in range(len(lows) - len(claim_words) + 1):
            if lows[at : at + len(claim_words)] == claim_words:
                words = sentence.all_words
                return sentence.start + words[at].start, sentence.start + words[at + len(claim_words) - 1].end
    return None


async def _apply_judge_layer(
    claim: Claim, passages: Sequence[Passage], found: list[Support], rag: Engine, run: Run
) -> list[Support]:
    open_ones = [n for n, support in enumerate(found) if support.why == TOO_LITTLE and support.likely > _UNDECIDED]
    if rag.writer is None or not open_ones:
        return found
    async with run.open_session(rag.writer, 0) as seat:
        odds = await judge_support(claim, [passages[n] for n in open_ones], seat)
    if rag.writer.bare_verdicts:
        run.shortfalls.append(Shortfall("judge", _BARE_VERDICTS))
    for n, more in zip(open_ones, odds, strict=True):
        z = math.log(found[n].likely / (1 - found[n].likely)) + _JUDGE_WEIGHT * more
        likely = min(_MAX_LIKELIHOOD, 1 / (1 + math.exp(-max(-30.0, min(30.0, z)))))
        label = Label.SUPPORTED if likely >= SUPPORT_THRESHOLD else Label.NOT_FOUND
        found[n] = replace(found[n], label=label, likely=round(likely, 4), layer="judge")
    return found
