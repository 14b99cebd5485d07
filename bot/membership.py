"""Membership cache: whether a user is in a chat, asked from Telegram when needed and kept for minutes.

A member is cached for 240 s, an admin status for 60 s, a non-member for 30 s; an update about a user drops the
entry. One question asks about at most 20 chats, 5 at a time, for at most 3 s. A chat stays closed to a user whose
status is new to the bot or cannot be learned in time.
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

__all__ = ["MembershipCache"]

# For finding posts. Before a message is sent Telegram is asked again (bot/recheck.py): a user who left without an
# update reaching the bot sees nothing more, except drafts of the next seconds.
_MEMBER_TTL_SECONDS = 240.0
_ADMIN_TTL_SECONDS = 60.0
_OUTSIDER_TTL_SECONDS = 30.0  # short: a user who just joined may come without an update
_MAX_CALLS, _MAX_CONCURRENT_CALLS = 20, 5  # per question
_TIMEOUT_SECONDS = 3.0
_MAX_CACHED = 50_000

_ADMIN_STATUSES = {"creator", "administrator"}

log = logging.getLogger(__name__)

_ChatUserPair = tuple[int, int]  # chat id, user id


@dataclass(frozen=True, slots=True)
class _MemberStatus:
    """Membership of a user in a chat at a moment of the clock."""

    inside: bool
    leads: bool
    at: float


class MembershipCache:
    """Membership cache. Call `forget` at every update about a user."""

    def __init__(self, bot: Bot, clock: Callable[[], float] = time.monotonic) -> None:
        self._bot = bot
        self._clock = clock
        self._cached: dict[_ChatUserPair, _MemberStatus] = {}
        self._changed_at: dict[_ChatUserPair, float] = {}

    async def among(self, user_id: int, chats: Collection[int]) -> frozenset[int]:
        """Filter the chats to those that this user is in now. The number of requests per question is limited."""
        return frozenset(chat for chat, inside in (await self.look_up(user_id, chats)).items() if inside)

    async def look_up(
        self, user_id: int, chats: Collection[int], max_age_s: float | None = None
    ) -> dict[int, bool | None]:
        """Look up whether this user is in each of the chats; None where Telegram does not say.

        With `max_age_s` older entries are ignored; 0 asks about each chat anew, however many there are.
        """
        if user_id <= 0:  # a channel or an anonymous admin: never a member
            return dict.fromkeys(chats, False)
        max_age = _MEMBER_TTL_SECONDS if max_age_s is None else max_age_s
        known = {chat: self._get_cached((chat, user_id), max_age) for chat in chats}
        unknown = [(chat, user_id) for chat, status in known.items() if status is None]
        # with very many channels the next question asks about the others
        unknown.sort(key=lambda pair: self._cached[pair].at if pair in self._cached else float("-inf"))
        asked = await self._ask(unknown[:_MAX_CALLS] if max_age_s is None else unknown)
        found = {chat: status or asked.get((chat, user_id)) for chat, status in known.items()}
        return {chat: status.inside if status else None for chat, status in found.items()}

    async def leads(self, user_id: int, chat_id: int) -> bool:
        """Check whether this user owns or administers the chat now."""
        pair = (chat_id, user_id)
        if user_id <= 0:
            return False
        status = self._get_cached(pair, _ADMIN_TTL_SECONDS) or (await self._ask([pair])).get(pair)
        return status is not None and status.leads

    def forget(self, chat_id: int, user_id: int) -> None:
        """Drop what is known of this user: cached entries and answers under way are out of date."""
        now = self._clock()
        self._cached.pop((chat_id, user_id), None)
        if len(self._changed_at) >= _MAX_CACHED:
            self._changed_at = {pair: at for pair, at in self._changed_at.items() if now - at <= 2 * _TIMEOUT_SECONDS}
        self._changed_at[chat_id, user_id] = now

    def _get_cached(self, pair: _ChatUserPair, max_age: float) -> _MemberStatus | None:
        status = self._cached.get(pair)
        if status is None:
            return None
        lifetime = max_age if status.inside else min(max_age, _OUTSIDER_TTL_SECONDS)
        return status if self._clock() - status.at < lifetime else None

    async def _ask(self, pairs: Collection[_ChatUserPair]) -> dict[_ChatUserPair, _MemberStatus]:
        """Ask Telegram about each pair; those without an answer in time are left out."""
        found: dict[_ChatUserPair, _MemberStatus] = {}
        if not pairs:
            return found
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
                for pair in pairs:
                    group.create_task(self._ask_one(pair, semaphore, found))
        except TimeoutError:
            log.warning("Telegram did not say in time who is a member: %d chats stay closed", len(pairs) - len(found))
        return found

    async def _ask_one(
        self, pair: _ChatUserPair, semaphore: asyncio.Semaphore, found: dict[_ChatUserPair, _MemberStatus]
    ) -> None:
        async with semaphore:
            began = self._clock()
            try:
                member = await self._bot.get_chat_member(*pair)
            except (TelegramBadRequest, TelegramForbiddenError) as exc:  # no such user, or the bot is not in the chat
                log.info("it is not known who is in chat %d: %s", pair[0], exc)
                status = _MemberStatus(inside=False, leads=False, at=began)
            except (TelegramAPIError, ClientDecodeError) as exc:
                log.warning("it is not known who is in chat %d: %s", pair[0], type(exc).__name__)
                return
            else:
                status = _MemberStatus(_is_inside(member), member.status in _ADMIN_STATUSES, began)
            if self._changed_at.get(pair, float("-inf")) < began:  # else it may date from before the change
                self._keep(pair, status)
                found[pair] = status

    def _keep(self, pair: _ChatUserPair, status: _MemberStatus) -> None:
        if len(self._cached) >= _MAX_CACHED:
            self._cached = {p: s for p, s in self._cached.items() if self._clock() - s.at < _MEMBER_TTL_SECONDS}
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[pair] = status


def _is_inside(member: ResultChatMemberUnion) -> bool:
    """Check a member's status: restricted users may be in or out; left, banned and unknown kinds are out."""
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in {*_ADMIN_STATUSES, "member"}
