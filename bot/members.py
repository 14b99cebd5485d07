"""Who is in which chat, as Telegram says: asked when it matters, remembered for minutes, forgotten with an update.

Closed wherever anything is unclear: a status that is not known, an error, no answer in time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import ChatMemberRestricted, ResultChatMemberUnion

__all__ = ["Members"]

# For finding posts. Before anything is sent Telegram is asked again (bot/recheck.py): whoever left and of whom no
# update came is shown nothing more, except drafts of the next seconds.
_MEMBER_FOR_S = 240.0
_ADMIN_FOR_S = 60.0
_OUTSIDE_FOR_S = 30.0  # whoever just joined where no update tells of it should not wait long
_MOST_CALLS, _AT_ONCE = 20, 5  # for one question
_PATIENCE_S = 3.0
_MOST_KEPT = 50_000

_LEADS = {"creator", "administrator"}

log = logging.getLogger(__name__)

_Pair = tuple[int, int]  # chat id, user id


@dataclass(frozen=True, slots=True)
class _Standing:
    """What somebody was in a chat at a moment of the clock."""

    inside: bool
    leads: bool
    at: float


class Members:
    """Answers from Telegram and remembers them. `forget` at every update about somebody."""

    def __init__(self, bot: Bot, clock: Callable[[], float] = time.monotonic) -> None:
        self._bot = bot
        self._clock = clock
        self._kept: dict[_Pair, _Standing] = {}
        self._moved: dict[_Pair, float] = {}

    async def among(self, user_id: int, chats: Collection[int]) -> frozenset[int]:
        """Those of the chats that this user is in now. At most so many are asked about for one question."""
        return frozenset(chat for chat, inside in (await self.look_up(user_id, chats)).items() if inside)

    async def look_up(
        self, user_id: int, chats: Collection[int], max_age_s: float | None = None
    ) -> dict[int, bool | None]:
        """Whether this user is in each of the chats; None where Telegram does not say.

        With `max_age_s` nothing older than that counts, 0 asks about each chat anew, however many they are.
        """
        if user_id <= 0:  # a channel or an anonymous admin is nobody
            return dict.fromkeys(chats, False)
        longest = _MEMBER_FOR_S if max_age_s is None else max_age_s
        known = {chat: self._known((chat, user_id), longest) for chat in chats}
        unknown = [(chat, user_id) for chat, standing in known.items() if standing is None]
        # with very many channels the next question asks about the others
        unknown.sort(key=lambda pair: self._kept[pair].at if pair in self._kept else float("-inf"))
        asked = await self._ask(unknown[:_MOST_CALLS] if max_age_s is None else unknown)
        found = {chat: standing or asked.get((chat, user_id)) for chat, standing in known.items()}
        return {chat: standing.inside if standing else None for chat, standing in found.items()}

    async def leads(self, user_id: int, chat_id: int) -> bool:
        """Whether this user owns the chat or is its administrator now."""
        pair = (chat_id, user_id)
        if user_id <= 0:
            return False
        standing = self._known(pair, _ADMIN_FOR_S) or (await self._ask([pair])).get(pair)
        return standing is not None and standing.leads

    def forget(self, chat_id: int, user_id: int) -> None:
        """Something about this user changed: what was known or is being asked counts no more."""
        now = self._clock()
        self._kept.pop((chat_id, user_id), None)
        if len(self._moved) >= _MOST_KEPT:
            self._moved = {pair: at for pair, at in self._moved.items() if now - at <= 2 * _PATIENCE_S}
        self._moved[chat_id, user_id] = now

    def _known(self, pair: _Pair, longest: float) -> _Standing | None:
        standing = self._kept.get(pair)
        if standing is None:
            return None
        lasts = longest if standing.inside else min(longest, _OUTSIDE_FOR_S)
        return standing if self._clock() - standing.at < lasts else None

    async def _ask(self, pairs: Collection[_Pair]) -> dict[_Pair, _Standing]:
        """What Telegram says of each of them now; those of which it says nothing in time are left out."""
        found: dict[_Pair, _Standing] = {}
        if not pairs:
            return found
        lines = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as group:
                for pair in pairs:
                    group.create_task(self._one(pair, lines, found))
        except TimeoutError:
            log.warning("Telegram did not say in time who is a member: %d chats stay closed", len(pairs) - len(found))
        return found

    async def _one(self, pair: _Pair, lines: asyncio.Semaphore, found: dict[_Pair, _Standing]) -> None:
        async with lines:
            began = self._clock()
            try:
                member = await self._bot.get_chat_member(*pair)
            except (TelegramBadRequest, TelegramForbiddenError) as exc:  # no such user, or the bot is out
                log.info("it is not known who is in chat %d: %s", pair[0], exc)
                standing = _Standing(inside=False, leads=False, at=began)
            except (TelegramAPIError, ClientDecodeError) as exc:
                log.warning("it is not known who is in chat %d: %s", pair[0], type(exc).__name__)
                return
            else:
                standing = _Standing(_inside(member), member.status in _LEADS, began)
            if self._moved.get(pair, float("-inf")) < began:  # else it may be of before the change
                self._keep(pair, standing)
                found[pair] = standing

    def _keep(self, pair: _Pair, standing: _Standing) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept = {p: s for p, s in self._kept.items() if self._clock() - s.at < _MEMBER_FOR_S}
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[pair] = standing


def _inside(member: ResultChatMemberUnion) -> bool:
    """Who is restricted may be in or out; who left, was thrown out, or is something new is out."""
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in {*_LEADS, "member"}
