"""Recipe choice: by the chat's mode, the admins' switches, the share of chats, and the router's rules.

The chat's own mode goes first, then the switches, which hold for everyone, then the rules of the router. A recipe that
is switched off, or that failed too often lately, is not used. When too many questions wait, all are answered by
`direct`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import blake2b

from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.recipes import RECIPES
from rag_core.storage import channels
from rag_core.storage.questions import fetch_queue_stats
from rag_core.storage.readers import load_answer_mode, load_choices, save_choice
from rag_core.types import AGENT_RECIPE, AUTO_RECIPE, DIRECT_RECIPE, Question

_SWITCH_PREFIX, _SHARE_PREFIX = "recipe.", "share."  # before a recipe's name, in the stored choices of admins
_ON, _OFF = "on", "off"
_MAX_WAITING_QUESTIONS = 4  # with more, all are answered by `direct`


@dataclass(frozen=True, slots=True)
class RecipeChoice:
    """Chosen recipe and the reason, for the trace; `careful`: the draft is reviewed once more."""

    recipe: str
    why: str
    careful: bool = False


async def choose_recipe(question: Question, rag: Engine) -> RecipeChoice:
    """Choose the recipe of a question. Raises ArchiveUnavailable."""
    if rag.recipe != AUTO_RECIPE:
        return RecipeChoice(rag.recipe, "asked for")
    mode, chosen = await load_answer_mode(rag.archive, question.chat), await load_choices(rag.archive)
    if (await fetch_queue_stats(rag.archive)).waiting > _MAX_WAITING_QUESTIONS:
        return RecipeChoice(DIRECT_RECIPE, "many wait")
    wanted, why = (
        (mode.recipe, "the chat's mode")
        if mode.recipe != AUTO_RECIPE
        else await _choose_by_route(question, chosen, rag)
    )
    if wanted not in RECIPES or chosen.get(_SWITCH_PREFIX + wanted) == _OFF:
        return RecipeChoice(DIRECT_RECIPE, f"{wanted} is off", mode.careful)
    if rag.health.resting(wanted):
        return RecipeChoice(DIRECT_RECIPE, f"{wanted} failed too often", mode.careful)
    return RecipeChoice(wanted, why, mode.careful)


async def _choose_by_route(question: Question, chosen: dict[str, str], rag: Engine) -> tuple[str, str]:
    """Choose a recipe by the router's rules, if `auto` may use the agent in this chat; the recipe and the reason."""
    switch = chosen.get(_SWITCH_PREFIX + AGENT_RECIPE) or (_ON if rag.settings.agent.enabled else _OFF)
    share = float(chosen.get(_SHARE_PREFIX + AGENT_RECIPE, 1.0))
    if switch != _ON or not is_chat_in_share(rag.archive.identity, question.chat, share):
        return DIRECT_RECIPE, "not for this chat"
    known = await channels.load_channels(rag.archive)
    try:
        plan = await asyncio.to_thread(rag.plan, question, known)
    except RagError:  # the recipe has the same failure, and says so
        return DIRECT_RECIPE, "no plan"
    name, _, why = (plan.reasons[-1] if plan.reasons else DIRECT_RECIPE).partition(": ")
    return name, why


def is_chat_in_share(identity: str, chat: int, share: float) -> bool:
    """Whether a chat is in this share (0-1) of all chats, by a hash; a greater share includes every smaller one."""
    digest = blake2b(f"{identity} {chat}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) < share * 2**64


async def load_recipe_switches(rag: Engine) -> dict[str, tuple[bool, float]]:
    """Load the switches of all recipes but `direct`: whether one may be used, and its share of chats for `auto`."""
    chosen, switches = await load_choices(rag.archive), {}
    for name in RECIPES:
        if name != DIRECT_RECIPE:
            on = chosen.get(_SWITCH_PREFIX + name)
            default = 1.0 if on or rag.settings.agent.enabled else 0.0
            share = float(chosen.get(_SHARE_PREFIX + name, default)) if name == AGENT_RECIPE else 0.0
            switches[name] = (on != _OFF, share)
    return switches


async def set_recipe_enabled(rag: Engine, recipe: str, *, on: bool) -> None:
    """Switch a recipe on or off, from the next question on. Raises ArchiveUnavailable."""
    await save_choice(rag.archive, _SWITCH_PREFIX + recipe, _ON if on else _OFF)


async def set_recipe_share(rag: Engine, recipe: str, share: float) -> None:
    """Set the share (0-1) of chats in which `auto` may choose a recipe, from the next question on."""
    await save_choice(rag.archive, _SHARE_PREFIX + recipe, f"{share:g}")
