"""The queue of updates: what getUpdates returns, acknowledges and forgets.

Source: https://core.telegram.org/bots/api#getupdates
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiogram.enums import UpdateType
from aiogram.types import Update

from bot.sandbox.bell import Bell
from bot.sandbox.refused import conflict
from bot.sandbox.rooms import Json

__all__ = ["OTHER_POLLER", "Queue"]

_KEPT = 24 * 3600.0  # seconds an update waits for the bot
_NEVER_BY_DEFAULT = {"chat_member", "message_reaction", "message_reaction_count"}
_EVERYTHING = frozenset(kind.value for kind in UpdateType)
OTHER_POLLER = "terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
_BY_WEBHOOK = "terminated by setWebhook request"


@dataclass(slots=True)
class Queue:
    """Updates in order, with the one poller that may wait for them."""

    clock: Callable[[], float]
    next_id: int
    webhook: str = ""
    secret: str = ""
    connections: int = 40
    failed: tuple[float, str] | None = None  # when a delivery failed last, and why
    closed: bool = False
    allowed: frozenset[str] = _EVERYTHING - _NEVER_BY_DEFAULT
    kept: dict[int, tuple[float, Json]] = field(default_factory=dict)
    bell: Bell = field(default_factory=Bell)
    _poll: int = 0
    _ended_by: str = ""

    def push(self, kind: str, payload: Json) -> None:
        """Queue an update of our own making, if the bot asked for its kind."""
        if kind in self.allowed:
            Update.model_validate({"update_id": self.next_id, kind: payload})
            self.push_raw({kind: payload})

    def push_raw(self, update: Json) -> None:
        """Queue an update as it is, whatever it is; it gets an id if it has none."""
        number = update.get("update_id", self.next_id)
        self.next_id = max(self.next_id, number) + 1
        self.kept[number] = (self.clock() + _KEPT, {"update_id": number} | update)
        self.bell.ring()

    def allow(self, kinds: list[str] | None) -> None:
        """Remember which kinds are wanted; None leaves it, an empty list is Telegram's default."""
        if kinds is not None:
            self.allowed = frozenset(kinds) & _EVERYTHING or _EVERYTHING - _NEVER_BY_DEFAULT

    def hook(self, url: str, secret: str = "", connections: int = 40) -> None:
        """Set or (with an empty URL) remove the webhook; a waiting poller is sent away."""
        self.webhook, self.secret, self.connections, self.failed = url, secret, connections, None
        if url:
            self._poll += 1
            self._ended_by = _BY_WEBHOOK
        self.bell.ring()

    async def poll(self, offset: int, limit: int, seconds: float) -> list[Json]:
        """What getUpdates returns; waits up to so many seconds for the first update. 409 as Telegram."""
        if self.webhook:
            raise conflict(_WEBHOOK)
        self._poll, self._ended_by = self._poll + 1, OTHER_POLLER
        mine = self._poll
        self.bell.ring()
        self._acknowledge(offset)
        await self.bell.until(lambda: bool(self.kept) or self._poll != mine or self.closed, seconds)
        if self._poll != mine:
            raise conflict(self._ended_by)
        await asyncio.sleep(0)  # whatever was posted in the same breath comes in one batch
        return [update for _, update in list(self.kept.values())[:limit]]

    def _acknowledge(self, offset: int) -> None:
        now = self.clock()
        if offset < 0:
            offset = sorted(self.kept)[offset:][0] if self.kept else 0
        waiting = sorted(self.kept.items())
        self.kept = {number: kept for number, kept in waiting if number >= offset and kept[0] > now}
