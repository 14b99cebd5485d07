"""Update inbox: updates are saved raw before they are confirmed and parsed; what cannot be parsed goes to quarantine.

aiogram confirms a batch of updates with its next getUpdates. So the raw batch is committed before aiogram sees it;
when that fails, nothing is returned, aiogram backs off with the same offset and nothing is confirmed.

Anybody may send what is expensive to parse. So updates are parsed in a thread of their own, each within bounds and a
limit of processor time, and without the fields that no handler reads.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from aiogram import Bot
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.methods import GetUpdates, Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import Update
from aiogram.types.update import UpdateTypeLookupError
from pydantic import ValidationError

from rag_core.storage import Archive, raw_updates
from rag_core.storage.raw_update_json import CONTAINERS, RawUpdate, UpdateOutOfBounds, check_bounds, decode_update

# Not given to aiogram's models: their unions of rich texts take exponential time. Posts are made from the raw updates.
UNREAD_FIELDS = frozenset({"rich_message"})
_UNSTORED_UPDATES = {"inline_query", "guest_message"}
_PARSE_SECONDS = 0.25  # of processor time for one update; most take less than a thousandth
_STEP_SECONDS = 0.05  # of processor time, after which a stop of the bot is noticed
_MAX_ERROR_LENGTH = 300

log = logging.getLogger(__name__)


class InboxMiddleware(BaseRequestMiddleware):
    """Inbox middleware: stores raw updates of getUpdates or the webhook, then returns those that aiogram can parse."""

    def __init__(self, archive: Archive, heard: Callable[[], None] = lambda: None) -> None:
        """Set the archive; `heard` is called when Telegram has answered and its updates are stored."""
        self.archive = archive
        self.heard = heard
        self._thread = ThreadPoolExecutor(1, "updates")

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Store and parse the batch. Raises ArchiveUnavailable where it cannot be stored."""
        result: Any = await make_request(bot, method)
        if not isinstance(method, GetUpdates):
            return result  # type: ignore[no-any-return]
        return await self.keep(bot, result)  # type: ignore[return-value]

    async def keep(self, bot: Bot, raws: Sequence[RawUpdate]) -> list[Update]:
        """Store raw updates in one transaction, then parse them; quarantined ones are returned as empty updates.

        Raises ArchiveUnavailable where they cannot be stored: then none of them is.
        """
        # What is typed in other chats is never stored; what is lost of it is typed again.
        if stored := [raw for raw in raws if raw.kind not in _UNSTORED_UPDATES]:
            await raw_updates.save_updates(self.archive, bot.id, stored)
        self.heard()
        return await self.parse(bot, raws)

    async def parse(self, bot: Bot, raws: Sequence[RawUpdate]) -> list[Update]:
        """Parse stored updates; those that fail are quarantined and returned as empty updates."""
        loop, parsed, wrong = asyncio.get_running_loop(), list[Update](), dict[int, str]()
        while waiting := raws[len(parsed) :]:
            parsed += await loop.run_in_executor(self._thread, _parse_some, bot, waiting, wrong)
        if wrong:
            await raw_updates.quarantine_updates(self.archive, bot.id, wrong)
        return parsed


def _parse_some(bot: Bot, raws: Sequence[RawUpdate], wrong: dict[int, str]) -> list[Update]:
    """Parse the first updates, as many as one step has time for."""
    parsed, until = list[Update](), time.thread_time() + _STEP_SECONDS
    for raw in raws:
        try:
            decoded = decode_update(raw.text)
        except Exception as exc:
            parsed.append(_set_aside(bot, raw.update_id, raw.kind, exc, wrong))
        else:
            parsed.append(_parse_update(bot, decoded, wrong))
        if time.thread_time() > until:
            break
    return parsed


def _parse_update(bot: Bot, raw: Mapping[str, Any], wrong: dict[int, str]) -> Update:
    """Parse an update; where that fails, return an empty one and record the error in `wrong`."""
    try:
        check_bounds(raw)
        Update.model_rebuild()  # once: it takes longer than an update may
        with _limit_processor_time(_PARSE_SECONDS):
            update = Update.model_validate(_copy_read_fields(raw), context={"bot": bot})
        _ = update.event_type
    except Exception as exc:  # whatever it is: the other updates go on
        return _set_aside(bot, raw["update_id"], ", ".join(raw), exc, wrong)
    return update


def _set_aside(bot: Bot, update_id: int, kind: str, exc: Exception, wrong: dict[int, str]) -> Update:
    # Only place and kind of the error: the values are somebody's message.
    if isinstance(exc, ValidationError):
        errors = exc.errors(include_input=False, include_url=False, include_context=False)
        error = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['type']}" for error in errors[:5])
    elif isinstance(exc, UpdateTypeLookupError):
        error = f"unknown kind: {kind}"
    else:
        error = str(exc) if isinstance(exc, UpdateOutOfBounds) else f"{type(exc).__name__} when parsed"
    wrong[update_id] = error[:_MAX_ERROR_LENGTH]
    log.error("update %s goes to quarantine: %s", update_id, wrong[update_id])
    return Update.model_validate({"update_id": update_id}, context={"bot": bot})


def _copy_read_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy an update without the fields that no handler reads, wherever they are; without recursion."""
    root = dict(raw)
    copies: list[Any] = [root]
    for copy in copies:  # grows meanwhile
        if isinstance(copy, dict):
            for name in UNREAD_FIELDS & copy.keys():
                del copy[name]
        for key, value in list(copy.items()) if isinstance(copy, dict) else enumerate(copy):
            if isinstance(value, CONTAINERS):
                copy[key] = value.copy()
                copies.append(copy[key])
    return root


@contextmanager
def _limit_processor_time(seconds: float) -> Iterator[None]:
    """Limit the processor time of this thread in the block: each call of a Python function checks it.

    aiogram's models call one for each object, also for those that a union tries. Raises UpdateOutOfBounds.
    """
    until, earliest, trace = time.thread_time() + seconds, time.perf_counter() + seconds, sys.gettrace()

    def check_time(*_: object) -> None:
        # The second clock is a call of the system's, and cannot be past its time before the first.
        if time.perf_counter() > earliest and time.thread_time() > until:
            raise UpdateOutOfBounds("takes too long to parse")

    sys.settrace(check_time)
    try:
        yield
    finally:
        sys.settrace(trace)
