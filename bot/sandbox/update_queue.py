"""Queue of updates behind getUpdates, as https://core.telegram.org/bots/api#getupdates says.

To a webhook nothing is sent from here: the demo's bot asks for its updates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiogram.enums import UpdateType
from aiogram.types import Update

from bot.sandbox.api_errors import conflict
from bot.sandbox.chats import ChangeNotifier, Json

_KEEP_SECONDS = 24 * 3600.0  # an undelivered update expires, as at Telegram
_NOT_DEFAULT_KINDS = {"chat_member", "message_reaction", "message_reaction_count"}
_ALL_KINDS = frozenset(kind.value for kind in UpdateType)
OTHER_POLLER_TEXT = "terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_ACTIVE_TEXT = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)
_ENDED_BY_WEBHOOK_TEXT = "terminated by setWebhook request"


@dataclass(slots=True)
class UpdateQueue:
    """Queue of updates, with at most one waiting poller."""

    clock: Callable[[], float]
    next_id: int
    webhook: str = ""
    secret: str = ""
    connections: int = 40
    failed: tuple[float, str] | None = None  # time and reason of the last failed delivery
    closed: bool = False
    allowed: frozenset[str] = _ALL_KINDS - _NOT_DEFAULT_KINDS
    kept: dict[int, tuple[float, Json]] = field(default_factory=dict)
    bell: ChangeNotifier = field(default_factory=ChangeNotifier)
    _poll_number: int = 0
    _end_reason: str = ""

    def push(self, kind: str, payload: Json) -> None:
        """Queue an update made by the sandbox, if the bot asked for its kind."""
        if kind in self.allowed:
            Update.model_validate({"update_id": self.next_id, kind: payload})
            self.push_raw({kind: payload})

    def push_raw(self, update: Json) -> None:
        """Queue an update unchecked; it gets an id if it has none."""
        number = update.get("update_id", self.next_id)
        self.next_id = max(self.next_id, number) + 1
        self.kept[number] = (self.clock() + _KEEP_SECONDS, {"update_id": number} | update)
        self.bell.ring()

    def allow(self, kinds: list[str] | None) -> None:
        """Set the wanted kinds; None keeps them, an empty list is Telegram's default."""
        if kinds is not None:
            self.allowed = frozenset(kinds) & _ALL_KINDS or _ALL_KINDS - _NOT_DEFAULT_KINDS

    def hook(self, url: str, secret: str = "", connections: int = 40) -> None:
        """Set the webhook, or remove it with an empty URL; a waiting poller is ended."""
        self.webhook, self.secret, self.connections, self.failed = url, secret, connections, None
        if url:
            self._poll_number += 1
            self._end_reason = _ENDED_BY_WEBHOOK_TEXT
        self.bell.ring()

    async def poll(self, offset: int, limit: int, seconds: float) -> list[Json]:
        """Answer getUpdates; waits up to `seconds` for the first update. 409 as Telegram."""
        if self.webhook:
            raise conflict(_WEBHOOK_ACTIVE_TEXT)
        self._poll_number, self._end_reason = self._poll_number + 1, OTHER_POLLER_TEXT
        number = self._poll_number
        self.bell.ring()
        self._acknowledge(offset)
        await self.bell.until(lambda: bool(self.kept) or self._poll_number != number or self.closed, seconds)
        if self._poll_number != number:
            raise conflict(self._end_reason)
        await asyncio.sleep(0)  # updates queued in the same step of the event loop come in one batch
        return [update for _, update in list(self.kept.values())[:limit]]

    def _acknowledge(self, offset: int) -> None:
        now = self.clock()
        if offset < 0:
            offset = sorted(self.kept)[offset:][0] if self.kept else 0
        waiting = sorted(self.kept.items())
        self.kept = {number: kept for number, kept in waiting if number >= offset and kept[0] > now}
