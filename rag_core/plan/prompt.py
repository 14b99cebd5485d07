"""What a model is told to plan a search: what never changes first, then the day and the channels, the question last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rag_core.doors.llm import Prompt, Seat
from rag_core.errors import GenerationFailed
from rag_core.plan.around import LANGUAGES, Around, Spoken
from rag_core.plan.queries import sanitised
from rag_core.prompts import script
from rag_core.quoting import spoken
from rag_core.types import Channel, Question

__all__ = ["fitting", "plan_prompt", "rewrite_prompt"]

_READ, _LEAST = 1000, 50  # characters in which a question says what it wants
_MOST_CHANNELS = 8
_PER_TEXT = 16  # tokens of a chat template around each text, at most
_TITLE = 32  # characters: as much as a plan may repeat
_SMALL = "The context of the model is too small to plan a search in: raise LLM__CONTEXT."


def plan_prompt(question: Question, around: Around, most: int = _READ) -> Prompt:
    """The request for a plan; `most` characters of the question are shown."""
    return _prompt(_asked(question, around, most))


def rewrite_prompt(question: Question, around: Around, queries: Sequence[str], other: str, most: int = _READ) -> Prompt:
    """The request for more queries, the first in the language `other`. It begins as the one for the plan did."""
    told = f"More queries, not these: {' | '.join(map(spoken, queries))}."
    return _prompt(f"{_asked(question, around, most)}\n{told}{f' The first in {LANGUAGES[other]}.' if other else ''}")


async def fitting(prompt: Callable[[int], Prompt], tokens: int, seat: Seat) -> Prompt:
    """The prompt with as much of the question as fits into so many tokens. Raises GenerationFailed."""
    most = _READ
    while True:
        made = await asyncio.to_thread(prompt, most)  # a long question takes 10 ms
        texts = [made.system, *(text for shot in made.shots for text in shot), made.ask]
        room = tokens - _PER_TEXT * (len(texts) + 1)
        if sum(len(text.encode()) for text in texts) <= room:  # a token is a byte at least: no need to count
            return made
        over = sum(await seat.count(texts)) - room
        if over <= 0:
            return made
        if most == _LEAST:
            raise GenerationFailed(_SMALL)
        most = max(_LEAST, min(most, len(made.ask)) - max(over // 2, _LEAST))


def _prompt(ask: str) -> Prompt:
    told = script("plan", "all")
    return Prompt(told.system, ask, told.shots)


def _asked(question: Question, around: Around, most: int) -> str:
    text = spoken(sanitised(question.text))[:most]
    languages = ", ".join(sorted(around.languages)) or question.lang
    titles = "; ".join(map(_named, around.spoken_of(Spoken(text))[:_MOST_CHANNELS])) or "none"
    return f"Today: {question.asked_at:%Y-%m-%d}. Languages: {languages}. Channels: {titles}.\nQuestion: {text}"


def _named(channel: Channel) -> str:
    title = spoken(sanitised(channel.title)).replace(";", ",")[:_TITLE].strip()
    return f"@{channel.username} {title}" if channel.username else title
