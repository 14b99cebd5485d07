"""Entailment: how likely a passage supports a claim, by its words first, then by an LLM judge.

Where the words object, the judge makes no claim supported: it is asked only for what is still undecided.

The LLM judge gives log-odds of yes and no for a passage, that it answers the question or supports the claim.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from rag_core.engine import Engine
from rag_core.llm.protocol import LanguageModel, LlmSession, Prompt
from rag_core.llm.turns import TimedSession
from rag_core.models.onnx_models import PassageSimilarity
from rag_core.run import Run, Stage
from rag_core.text.query_terms import TermWeight
from rag_core.types import Passage, Question, Shortfall, Viewer
from rag_core.verification.answer_judge import ask_yes_no_odds, build_judge_prompt
from rag_core.verification.facts import extract_facts, extract_facts_by_sentence
from rag_core.verification.stance import TOO_LITTLE, assess_stance
from rag_core.verification.verdict_types import Claim, Label, Support
from rag_core.writing.prompts import load_prompt, quote_claim, quote_post

_SUPPORT_THRESHOLD, _MAX_LIKELIHOOD = 0.5, 0.99
_MAX_PASSAGE_TOKENS = 256  # per passage, as in the reranker
_MAX_PASSAGE_LENGTH = 700  # characters: about as many
_MAX_CLAIM_TOKENS = 200


async def judge_relevance(question: Question, passages: Sequence[Passage], seat: LlmSession) -> list[float]:
    """Judge relevance with an LLM: log P(yes) - log P(no) for each passage, in their order.

    Raises GenerationFailed, and ModelTooSlow where not all would be judged within the stage: a part is of no use.
    """
    prompts = [build_judge_prompt(question.text, p.text, p.date, _MAX_PASSAGE_LENGTH) for p in passages]
    if isinstance(seat, TimedSession):
        await seat.require_time(prompts)
    return [await ask_yes_no_odds(prompt, seat) for prompt in prompts]


def _truncate_text(text: str, tokens: int, most: int) -> str:
    return text if tokens <= most else text[: int(len(text) * most / tokens)]


async def judge_support(claim: Claim, passages: Sequence[Passage], run: Run, model: LanguageModel) -> list[float]:
    """Judge support with an LLM: log P(yes) - log P(no) that each passage states the claim; call it in a stage.

    The prompt before the passage is the same for all, so that the model reads it once. Raises GenerationFailed, and
    ModelTooSlow where not all would be judged within the stage's budget.
    """
    template, texts = load_prompt("support", claim.lang), [f"{passage.header}\n{passage.text}" for passage in passages]
    async with run.open_session(model, 0) as seat:
        first, *counts = await seat.count([claim.text, *texts])
        quoted = quote_claim(_truncate_text(claim.text, first, _MAX_CLAIM_TOKENS))
        posts = [_truncate_text(post, count, _MAX_PASSAGE_TOKENS) for post, count in zip(texts, counts, strict=True)]
        prompts = [Prompt(template.system, f"{quoted}\n{quote_post(post)}", template.shots) for post in posts]
        await seat.require_time(prompts)
        return [await seat.odds(prompt, template.parts["yes"], template.parts["no"]) for prompt in prompts]


VALUE_DIFFERS = "≠"  # in the reason of a check: another number, date or name
_UNDECIDED = 0.2  # likelihood from which the LLM judge is asked of what no other cue decides
_JUDGE_WEIGHT = 0.5  # weight of its log odds: small models are overconfident
_BARE_VERDICTS = "The model only says yes or no, not how sure it is: use a server that tells log-probabilities."


async def assess_passages(
    claim: Claim, passages: Sequence[Passage], viewer: Viewer, rag: Engine, run: Run
) -> list[Support]:
    """Assess a claim against each passage, in their order; a model that fails or is too slow leaves the words' verdict.

    Words are weighted by their rarity in the channels the viewer may read.
    """
    weight = rag.lexical.statistics(viewer.channels).weight
    weighing = asyncio.to_thread(assess_by_words, claim, passages, weight)
    supports = await run.attempt(Stage.VERIFY, weighing, list[Support])
    if not supports:  # it took too long: there is no verdict without it
        supports = await asyncio.to_thread(assess_by_words, claim, passages, weight)
    supports = await _compare_rivals(claim, passages, supports, weight, rag, run)
    open_ones = [n for n, support in enumerate(supports) if support.why == TOO_LITTLE and support.likely > _UNDECIDED]
    if rag.writer is None or not open_ones:
        return supports
    judging = judge_support(claim, [passages[n] for n in open_ones], run, rag.writer)
    odds = await run.attempt(Stage.JUDGE, judging, list[float])
    if not odds:
        return supports
    if rag.writer.bare_verdicts:
        run.shortfalls.append(Shortfall("judge", _BARE_VERDICTS))
    for n, more in zip(open_ones, odds, strict=True):
        z = math.log(supports[n].likely / (1 - supports[n].likely)) + _JUDGE_WEIGHT * more
        likely = min(_MAX_LIKELIHOOD, 1 / (1 + math.exp(-max(-30.0, min(30.0, z)))))
        label = Label.SUPPORTED if likely >= _SUPPORT_THRESHOLD else Label.NOT_FOUND
        supports[n] = replace(supports[n], label=label, likely=round(likely, 4), layer="judge")
    return supports


async def _compare_rivals(
    claim: Claim, passages: Sequence[Passage], supports: list[Support], weight: TermWeight, rag: Engine, run: Run
) -> list[Support]:
    """Assess again the posts with another value of what may be the same, where the embedding model compares tokens."""
    rivals = [n for n, one in enumerate(supports) if one.label is Label.NOT_FOUND and VALUE_DIFFERS in one.why]
    if not (rivals and rag.dense and rag.dense.model.centres):
        return supports
    compared = [passages[n] for n in rivals]
    comparing = rag.dense.embedder.compare(claim.text.strip(), [passage.text for passage in compared])
    if alike := await run.attempt(Stage.COMPARE, comparing, []):
        again = await asyncio.to_thread(assess_by_words, claim, compared, weight, alike)
        for n, support in zip(rivals, again, strict=True):
            supports[n] = support
    return supports


def assess_by_words(
    claim: Claim,
    passages: Sequence[Passage],
    weight: TermWeight = lambda _: 1.0,
    alike: Sequence[PassageSimilarity] = (),
) -> list[Support]:
    """Assess a claim against each passage by its words; `weight` gives the rarity of a term, `alike` compares tokens."""
    facts = extract_facts(claim.text.strip(), claim.lang)
    return [
        assess_stance(facts, extract_facts_by_sentence(one.text, claim.lang), one.header, one.date, weight, similarity)
        for one, similarity in zip_longest(passages, alike)
    ]
