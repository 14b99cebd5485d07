"""Which recipe answers a question: what was asked for by hand, else by the question's shape and by the load.

The chat's own mode goes first, then the switches of the admins, then the rules of `route`. A recipe that is switched
off, or that failed too often lately, is not used; when too many questions wait, all are answered by `direct`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import blake2b

from rag_core.doors.archive import channels, choices, questions
from rag_core.doors.archive.modes import AUTO, mode_of
from rag_core.made import DIRECT
from rag_core.rag import Rag
from rag_core.recipes import RECIPES
from rag_core.types import Question

__all__ = ["AGENT", "Choice", "choose", "in_share", "set_share", "switch", "switched"]

AGENT = "agent"
_SWITCH, _SHARE = "recipe.", "share."  # before a recipe's name, in what admins chose
_ON, _OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Choice:
    """A recipe and why it was chosen, for the trace; `careful`: the draft is to be looked over once more."""

    recipe: str
    why: str
    careful: bool = False


async def choose(question: Question, rag: Rag) -> Choice:
    """The recipe of a question. Raises ArchiveUnavailable."""
    if rag.recipe != AUTO:
        return Choice(rag.recipe, "asked for")
    mode, chosen = await mode_of(rag.archive, question.chat), await choices.remembered(rag.archive)
    if await questions.waiting(rag.archive) > rag.settings.agent.queue:
        return Choice(DIRECT, "many wait")
    wanted, why = (mode.recipe, "the chat's mode") if mode.recipe != AUTO else await _by_route(question, chosen, rag)
    if wanted not in RECIPES or chosen.get(_SWITCH + wanted) == _OFF:
        return Choice(DIRECT, f"{wanted} is off", mode.careful)
    if rag.health.resting(wanted):
        return Choice(DIRECT, f"{wanted} failed too often", mode.careful)
    return Choice(wanted, why, mode.careful)


async def _by_route(question: Question, chosen: dict[str, str], rag: Rag) -> tuple[str, str]:
    """What the question's shape asks for, and why, where that recipe may be used in this chat without being named."""
    settings = rag.settings.agent
    switch_now = chosen.get(_SWITCH + AGENT) or (_ON if settings.enabled else _OFF)
    share = float(chosen.get(_SHARE + AGENT, settings.share))
    if switch_now != _ON or not in_share(rag.archive.identity, question.chat, share):
        return DIRECT, "not for this chat"
    known = await channels.known(rag.archive)
    plan = await asyncio.to_thread(rag.plan, question, known)
    name, _, why = (plan.reasons[-1] if plan.reasons else DIRECT).partition(": ")
    return name, why


def in_share(identity: str, chat: int, share: float) -> bool:
    """Whether a chat is among this share (0-1) of all chats; with a greater share it still is."""
    digest = blake2b(f"{identity} {chat}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


async def switched(rag: Rag) -> dict[str, tuple[bool, float]]:
    """Each recipe but `direct`: whether it may be used, and for `auto` in which share of the chats."""
    chosen, settings = await choices.remembered(rag.archive), rag.settings.agent
    start = settings.share if settings.enabled else 0.0
    found = {}
    for name in RECIPES:
        if name != DIRECT:
            on = chosen.get(_SWITCH + name)
            share = float(chosen.get(_SHARE + name, settings.share if on else start)) if name == AGENT else 0.0
            found[name] = (on != _OFF, share)
    return found


async def switch(rag: Rag, recipe: str, *, on: bool) -> None:
    """Let a recipe be used, or not, from the next question on. Raises ArchiveUnavailable."""
    await choices.remember(rag.archive, _SWITCH + recipe, _ON if on else _OFF)


async def set_share(rag: Rag, recipe: str, share: float) -> None:
    """In which share (0-1) of the chats `auto` may choose a recipe, from the next question on."""
    await choices.remember(rag.archive, _SHARE + recipe, f"{share:g}")
