"""The life of the bot, from settings to a clean end, on one screen."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from aiogram import Bot, Dispatcher
from aiogram.client.default import DefaultBotProperties
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramNotFound,
    TelegramUnauthorizedError,
)
from aiogram.utils.token import TokenValidationError

from bot.beside.client import alone
from bot.beside.requests import Requests
from bot.beside.server import attended
from bot.desk import Desk
from bot.dispatcher import ALLOWED_UPDATES, Once, build_dispatcher, replay
from bot.importing.running import Imports
from bot.indexing import Indexing
from bot.members import Members
from bot.metrics.watched import watched
from bot.recheck import RecheckBeforeSending
from bot.reindex_told import tell as tell_of
from bot.reindexing import Reindexing
from bot.rights import Rights
from bot.scheduled import scheduled
from bot.session import Inbox, NoStrayLinks, Retries, session_for
from bot.settings import BotSettings, Settings, WebhookSettings
from bot.traces import tracing
from bot.turns import Turns
from bot.watch import Watch
from bot.webhook import kept_set, listening
from bot.welcome import publish_menu
from ingest.dense import DenseIndexer
from ingest.gaps import Pulse
from ingest.index import Indexer
from rag_core.errors import SettingsWrong
from rag_core.rag import Rag, open_rag

__all__ = ["run_bot"]

# Telegram holds a request for new updates open for so long: https://core.telegram.org/bots/api#getupdates
_POLL_S = 30
_RECONNECT_S = 10.0
_IDLE_S = 5.0

log = logging.getLogger(__name__)


async def run_bot(
    settings: Settings,
    *,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    watch: Watch | None = None,
) -> None:
    """Run until `stop` is set; without `stop`, until SIGINT or SIGTERM. `ready` is set when updates are read.
    `watch` is told of answers and indexing and changes nothing.

    Running questions get a few seconds to finish, what does not finish is queued again. Raises SettingsWrong
    for a token that Telegram does not take, ArchiveUnavailable where the data folder has another owner.
    """
    stop = stop or _on_signals()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(alone(settings.data.dir))
        rag = await stack.enter_async_context(open_rag(settings.rag()))
        await stack.enter_async_context(tracing(rag))
        seen = await stack.enter_async_context(watched(settings.watch, rag))
        indexing, reindexing = await stack.enter_async_context(_indexed(settings, rag, watch))
        pulse = Pulse(rag.archive)
        inbox = Inbox(rag.archive, pulse.heard)
        bot = await stack.enter_async_context(_opened(settings.bot, inbox))
        bot.session.middleware(seen.meter.wire)  # last: it sees every try
        if not await _unless(stop, _connected(bot, settings)):
            return
        rights = Rights(settings.bot.admins, Members(bot))
        await rights.read(rag.archive)
        turns, once = Turns(bot, rag, settings.bot, rights, indexing.ledger, watch), Once(rag.archive)
        turns.meter = seen.meter
        desk = seen.desk = Desk(settings, rag.archive, turns, indexing, rag, reindexing, rights)
        dispatcher = await stack.enter_async_context(_at_work(bot, desk, once))
        await stack.enter_async_context(scheduled(settings, bot, rag, indexing, pulse, rights))
        log.info("@%s answers", (await bot.me()).username)
        if ready:
            ready.set()
        if settings.webhook.url:
            seen.meter.wire.by_webhook = True
            await _brought(dispatcher, bot, inbox, settings.webhook, stop)
        else:
            await _polled(dispatcher, bot, stop)
        # Handlers that have begun may finish; what they queue is there at the next start.
        with suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_S):
                await once.idle()


@asynccontextmanager
async def _at_work(bot: Bot, desk: Desk, once: Once) -> AsyncIterator[Dispatcher]:
    """The dispatcher with all that works behind it: questions, imports, what an earlier life left undone."""
    dispatcher = build_dispatcher(desk, once)
    imports = dispatcher["imports"] = Imports(bot, desk.settings, desk.archive, desk.indexing.wake)
    chores = [publish_menu(bot, desk.admins), replay(dispatcher, bot, desk.archive)]
    chores += [tell_of(bot, desk.reindexing, desk.archive), imports.tell_left()]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_beside(*chores))
        stack.push_async_callback(desk.turns.stop)
        stack.push_async_callback(imports.stop)
        stack.push_async_callback(dispatcher["notices"].stop)
        await desk.turns.start()
        yield dispatcher


def _on_signals() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


@asynccontextmanager
async def _indexed(settings: Settings, rag: Rag, watch: Watch | None) -> AsyncIterator[tuple[Indexing, Reindexing]]:
    """Keep the indexes up to the archive and answer other commands, also while Telegram is out of reach."""
    dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder) if rag.dense else None
    indexer = Indexer(rag.archive, rag.lexical)
    indexing, reindexing = Indexing(rag.archive, indexer, dense, watch=watch), Reindexing(rag.archive, indexer, dense)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(indexing.save)
        await stack.enter_async_context(_beside(indexing.run()))
        stack.push_async_callback(reindexing.stop)
        await reindexing.resume()
        requests = Requests(rag, indexing, reindexing, settings.bot.zone)
        await stack.enter_async_context(attended(settings.data.dir, requests.all()))
        yield indexing, reindexing


@asynccontextmanager
async def _opened(settings: BotSettings, inbox: Inbox) -> AsyncIterator[Bot]:
    token = settings.token.get_secret_value()
    if not token:
        raise SettingsWrong(
            "BOT__TOKEN is empty: get a token from @BotFather and put it into .env, or try `citegram demo`."
        )
    session = session_for(settings)
    session.middleware(Retries())
    session.middleware(NoStrayLinks())
    session.middleware(RecheckBeforeSending())  # inside the retries: each of them is checked
    session.middleware(inbox)
    try:
        # A link preview makes Telegram fetch an address out of a post: never.
        bot = Bot(token, session, default=DefaultBotProperties(link_preview_is_disabled=True))
    except TokenValidationError:
        raise SettingsWrong("BOT__TOKEN is not a token: copy it from @BotFather as it is.") from None
    async with bot.context():
        yield bot


async def _connected(bot: Bot, settings: Settings) -> None:
    """Wait until Telegram answers. A bot that starts before its network is up is patient."""
    api = settings.bot.api
    while True:
        try:
            await bot.me()
            if not settings.webhook.url:
                # A webhook of an earlier life would keep updates from us; the waiting ones are kept.
                await bot.delete_webhook(drop_pending_updates=False)
        except (TelegramUnauthorizedError, TelegramNotFound):
            raise SettingsWrong(
                f"Telegram does not know this token: check BOT__TOKEN (and BOT__API, now {api})."
            ) from None
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.warning("%s cannot be reached (%s); trying again in %d s", api, exc, _RECONNECT_S)
            await asyncio.sleep(_RECONNECT_S)
        else:
            return


async def _polled(dispatcher: Dispatcher, bot: Bot, stop: asyncio.Event) -> None:
    """Read updates until told to stop. aiogram's polling outlives its caller, so it is stopped by its own word."""
    polling = asyncio.create_task(
        dispatcher.start_polling(
            bot,
            polling_timeout=_POLL_S,
            handle_as_tasks=True,
            allowed_updates=ALLOWED_UPDATES,
            handle_signals=False,
            close_bot_session=False,
        )
    )
    try:
        await _unless(stop, asyncio.shield(polling))
    finally:
        if not polling.done():
            await dispatcher.stop_polling()
        await polling


async def _brought(
    dispatcher: Dispatcher, bot: Bot, inbox: Inbox, settings: WebhookSettings, stop: asyncio.Event
) -> None:
    """Let Telegram bring updates until told to stop. The webhook stays set: what comes meanwhile waits there."""
    async with listening(dispatcher.feed_update, bot, inbox, settings):
        await _unless(stop, kept_set(bot, settings, ALLOWED_UPDATES, inbox.heard))


async def _unless(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Wait for the work; give it up when told to stop. True where it was done."""
    task, told = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # its exception, if it has one
        return task.done()
    finally:
        task.cancel()
        told.cancel()
        await asyncio.gather(task, told, return_exceptions=True)


@asynccontextmanager
async def _beside(*chores: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run chores in the background; cancel what still runs at the end."""
    tasks = [asyncio.create_task(_logged(chore)) for chore in chores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _logged(chore: Coroutine[Any, Any, None]) -> None:
    try:
        await chore
    except Exception:  # nobody awaits it, so it would fail unheard
        log.exception("a background task of the bot ended")
