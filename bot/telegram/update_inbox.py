"""Update inbox: updates are saved raw before they are confirmed, and those that cannot be parsed go to quarantine.

aiogram confirms a batch of updates with its next getUpdates. So the raw batch is committed before aiogram sees it;
when that fails, nothing is returned, aiogram backs off with the same offset and nothing is confirmed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiogram import Bot
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.methods import GetUpdates, Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import Update
from aiogram.types.update import UpdateTypeLookupError
from pydantic import ValidationError

from rag_core.storage import Archive, raw_updates

_UNSTORED_UPDATES = {"inline_query", "guest_message"}

log = logging.getLogger(__name__)


class InboxMiddleware(BaseRequestMiddleware):
    """Inbox middleware: stores raw updates of getUpdates or the webhook, then returns those that aiogram can parse."""

    def __init__(self, archive: Archive, heard: Callable[[], None] = lambda: None) -> None:
        """Set the archive; `heard` is called when Telegram has answered and its updates are stored."""
        self.archive = archive
        self.heard = heard

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Validate and store the batch. Raises ArchiveUnavailable where it cannot be stored."""
        result: Any = await make_request(bot, method)
        if not isinstance(method, GetUpdates):
            return result  # type: ignore[no-any-return]
        return await self.keep(bot, result)  # type: ignore[return-value]

    async def keep(self, bot: Bot, raws: Sequence[Mapping[str, Any]]) -> list[Update]:
        """Store raw updates in one transaction; quarantined ones are returned as empty updates.

        Raises ArchiveUnavailable where they cannot be stored: then none of them is.
        """
        wrong: dict[int, str] = {}
        parsed = [_parse_update(bot, raw, wrong) for raw in raws]
        # What is typed in other chats is never stored; what is lost of it is typed again.
        if stored := [raw for raw in raws if not _UNSTORED_UPDATES & raw.keys()]:
            await raw_updates.save_updates(self.archive, bot.id, stored, wrong)
        self.heard()
        return parsed


def _parse_update(bot: Bot, raw: Mapping[str, Any], wrong: dict[int, str]) -> Update:
    """Parse an update; where that fails, return an empty one and record the error in `wrong`."""
    try:
        update = Update.model_validate(raw, context={"bot": bot})
        _ = update.event_type
    except (ValidationError, UpdateTypeLookupError) as exc:
        # Only place and kind of the error: the values are somebody's message.
        error = _format_validation_errors(exc) if isinstance(exc, ValidationError) else f"unknown kind {sorted(raw)}"
        log.warning("update %s goes to quarantine: %s", raw["update_id"], error)
        wrong[raw["update_id"]] = error
        return Update.model_validate({"update_id": raw["update_id"]}, context={"bot": bot})
    return update


def _format_validation_errors(exc: ValidationError) -> str:
    errors = exc.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['type']}" for error in errors[:5])
