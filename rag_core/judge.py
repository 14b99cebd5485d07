"""Judging by a model: how much more likely it finds "yes, this post answers the question" than "no"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rag_core.doors.llm import Prompt, Seat
from rag_core.prompts import Script, script
from rag_core.quoting import quoted_post, quoted_question
from rag_core.types import Passage, Question

__all__ = ["judge", "odds_of"]

_MOST_TOKENS = 256  # of a passage, as of the reranker's
_QUESTION_TOKENS = 200


async def judge(question: Question, passages: Sequence[Passage], seat: Seat) -> list[float]:
    """Log P(yes) - log P(no) for each passage, in their order.

    Everything before the passage is the same for all, so that the model reads it once. Raises GenerationFailed.
    """
    return await odds_of(question.text, quoted_question, script("judge", question.lang), passages, seat)


async def odds_of(
    text: str, quoted: Callable[[str], str], told: Script, passages: Sequence[Passage], seat: Seat
) -> list[float]:
    """Log P(yes) - log P(no) for each passage beside a text between its markers. Raises GenerationFailed."""
    if not passages:
        return []
    texts = [f"{passage.header}\n{passage.text}" for passage in passages]
    tokens = await seat.count([text, *texts])
    asked = quoted(_cut(text, tokens[0], _QUESTION_TOKENS))
    return [
        await seat.odds(_prompt(told, asked, _cut(text, count, _MOST_TOKENS)), told.parts["yes"], told.parts["no"])
        for text, count in zip(texts, tokens[1:], strict=True)
    ]


def _prompt(told: Script, asked: str, text: str) -> Prompt:
    return Prompt(told.system, f"{asked}\n{quoted_post(text)}", told.shots)


def _cut(text: str, tokens: int, most: int) -> str:
    """The beginning of a text that has too many tokens."""
    return text if tokens <= most else text[: int(len(text) * most / tokens)]
