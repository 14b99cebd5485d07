"""LLM judge: log-odds of yes and no for a passage, that it answers the question or supports the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_core.llm import LlmSession, Prompt
from rag_core.types import Passage, Question
from rag_core.verification.types import Claim
from rag_core.writing.prompts import PromptTemplate, load_prompt, quote_claim, quote_post, quote_question

_MAX_PASSAGE_TOKENS = 256  # per passage, as in the reranker
_MAX_QUESTION_TOKENS = 200


async def judge_relevance(question: Question, passages: Sequence[Passage], seat: LlmSession) -> list[float]:
    """Judge relevance with an LLM: log P(yes) - log P(no) for each passage, in their order.

    The prompt before the passage is the same for all, so that the model reads it once. Raises GenerationFailed.
    """
    return await ask_yes_no_odds(question.text, quote_question, load_prompt("judge", question.lang), passages, seat)


async def ask_yes_no_odds(
    text: str, quoted: Callable[[str], str], told: PromptTemplate, passages: Sequence[Passage], seat: LlmSession
) -> list[float]:
    """Log P(yes) - log P(no) for each passage beside a quoted text. Raises GenerationFailed."""
    if not passages:
        return []
    texts = [f"{passage.header}\n{passage.text}" for passage in passages]
    tokens = await seat.count([text, *texts])
    quoted_text = quoted(_truncate_text(text, tokens[0], _MAX_QUESTION_TOKENS))
    return [
        await seat.odds(
            _build_prompt(told, quoted_text, _truncate_text(text, count, _MAX_PASSAGE_TOKENS)),
            told.parts["yes"],
            told.parts["no"],
        )
        for text, count in zip(texts, tokens[1:], strict=True)
    ]


def _build_prompt(told: PromptTemplate, asked: str, text: str) -> Prompt:
    return Prompt(told.system, f"{asked}\n{quote_post(text)}", told.shots)


def _truncate_text(text: str, tokens: int, most: int) -> str:
    """Cut a text that has too many tokens."""
    return text if tokens <= most else text[: int(len(text) * most / tokens)]


async def judge_support(claim: Claim, passages: Sequence[Passage], seat: LlmSession) -> list[float]:
    """Judge support with an LLM: log P(yes) - log P(no) that each passage states the claim. Raises GenerationFailed."""
    return await ask_yes_no_odds(claim.text, quote_claim, load_prompt("support", claim.lang), passages, seat)
