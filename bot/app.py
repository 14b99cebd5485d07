"""Application: start the bot from its settings with all handlers, run it, and shut it down cleanly.

On shutdown running questions get a few seconds to finish; a question that does not finish is queued again. A start
while Telegram cannot be reached waits and tries again; indexing and the other commands work meanwhile.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial

from aiogram import Bot, Dispatcher
from aiogram.client.default import DefaultBotProperties
from aiogram.dispatcher.event.handler import FilterObject
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramNotFound, TelegramUnauthorizedError
from aiogram.methods import Response
from aiogram.types import Message, Update
from aiogram.utils.token import TokenValidationError, validate_token

from bot import middlewares
from bot.access import AdminRegistry, MembershipCache
from bot.admin_notifications import notify_admins, notify_of_errors
from bot.app_context import AppContext
from bot.background import cancel_tasks, run_in_background
from bot.control import hold_folder
from bot.control.server import RequestHandlers, serve_control_socket
from bot.handlers import (
    admin,
    answers,
    channels,
    citations,
    errors,
    groups,
    imports,
    inline,
    membership,
    posts,
    privacy,
    questions,
    search,
    start,
    unanswered,
    watches,
)
from bot.handlers.imports import ImportRunner
from bot.indexing import BotObserver, IndexingWorker, RebuildRunner
from bot.jobs import HistoryService, build_maintenance_jobs, open_history_client, repeat_job, run_jobs
from bot.logs import throttle_polling_errors
from bot.media import open_media_reader
from bot.monitoring import monitor_bot
from bot.notifications import AnswerUpdater, WatchNotifier, run_digests
from bot.settings import BotSettings, Settings
from bot.stored_answer import record_traces
from bot.telegram.ephemeral import EphemeralMiddleware
from bot.telegram.files import BotFiles, HistoryFiles
from bot.telegram.recheck import recheck_call
from bot.telegram.session import RetryMiddleware, create_session, neutralize_call, publish_menu
from bot.telegram.updates import InboxMiddleware, keep_webhook_set, serve_webhook
from bot.worker.question_worker import QuestionWorker
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.media.reader import ExportFiles, FileSource, remove_left_folders
from ingest.outages import Heartbeat
from ingest.rebuild import EmbedderChange
from rag_core.conversation.small_talk import detect_answer_remark
from rag_core.engine import Engine, open_engine
from rag_core.errors import SettingsWrong
from rag_core.processes import format_install_command
from rag_core.storage import raw_updates
from rag_core.storage.channels import load_channels
from rag_core.storage.visible_posts import list_posts_between
from rag_core.text.tokens import load_dictionary

# Explicit, because Telegram keeps the last list it was given.
ALLOWED_UPDATES = (
    "message channel_post edited_channel_post callback_query my_chat_member stopped_message_generation chat_member "
    "inline_query"
).split()


# In the order in which they are tried. An article sent from an inline query asks nothing, and where only admins may ask
# no other handler answers. The last three take what is left: remarks, all text in private chats, and all buttons.
_HANDLERS = (
    inline, groups, membership, channels, posts, search, citations, start, privacy, watches, imports, unanswered,
    admin, answers, questions, errors,
)  # fmt: skip


def build_dispatcher(context: AppContext, once: middlewares.DeduplicationMiddleware) -> Dispatcher:
    """Build a dispatcher with all handlers, in the order in which they are tried, and what they share."""
    dispatcher = Dispatcher(
        context=context,
        settings=context.settings,
        admins=context.admins,
        latest_changes=membership.LatestChanges(),
        running_presses=set(),
        recent_quotes={},
        searches=search.SearchQueue(),
        inline=inline.InlineQueue(),
        disable_fsm=True,
    )
    dispatcher.update.outer_middleware(once)
    dispatcher.update.outer_middleware(middlewares.add_translator)
    for observer in (dispatcher.message, dispatcher.callback_query):
        observer.outer_middleware(middlewares.limit_rate)
        observer.middleware(middlewares.keep_to_asker)
        observer.middleware(middlewares.admit_admins)
    for module in _HANDLERS:  # copied: a router belongs to one dispatcher, and a process may run several bots
        for name, observer in module.router.observers.items():
            dispatcher.observers[name].handlers += observer.handlers
            for handler in observer.handlers:
                for one in handler.filters or ():
                    _call_without_thread(one)
    return dispatcher


def _call_without_thread(one: FilterObject) -> None:
    """Call a filter where it is awaited: aiogram would start a thread to look at one field, 17 times for a question."""
    if not one.awaitable:
        compute = one.callback

        async def call(*args: object, **kwargs: object) -> object:
            return compute(*args, **kwargs)

        one.callback, one.awaitable = call, True


async def _replay_unhandled_updates(dispatcher: Dispatcher, bot: Bot, inbox: InboxMiddleware) -> None:
    """Handle updates that were stored and confirmed when the process ended before handling them."""
    last = -1
    while raws := await raw_updates.list_unclaimed_updates(inbox.archive, bot.id, last):
        last = raws[-1].update_id
        for update in await inbox.parse(bot, raws):
            log.info("update %d was left unhandled: handled now", update.update_id)
            try:
                await dispatcher.feed_update(bot, update)
            except Exception:  # one update must not keep the bot from starting
                log.exception("update %d cannot be handled", update.update_id)


# Timeout of long polling: https://core.telegram.org/bots/api#getupdates
_POLL_TIMEOUT_SECONDS = 30
_RECONNECT_SECONDS = 10.0
_SHUTDOWN_GRACE_SECONDS = 5.0

log = logging.getLogger(__name__)


async def run_bot(
    settings: Settings,
    *,
    stop: asyncio.Event | None = None,
    ready: asyncio.Event | None = None,
    watch: BotObserver | None = None,
) -> None:
    """Run the bot until `stop` is set or, without `stop`, until SIGINT or SIGTERM.

    `ready` is set once updates are received. `watch` is told of answers and indexing and changes nothing. Running
    questions get a few seconds to finish; those that do not are queued again. Raises SettingsWrong for a token that
    Telegram rejects, ArchiveUnavailable where another process holds the data folder.
    """
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    _require_token(settings.bot)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(hold_folder(settings.data.dir))
        rag = await stack.enter_async_context(open_engine(settings.rag()))
        # what first questions would wait for: the dictionary, the patterns of remarks, the types that most replies hold
        await asyncio.to_thread(load_dictionary)
        await asyncio.to_thread(detect_answer_remark, "ok")
        Update.model_rebuild()
        Response[Message].model_rebuild()
        await stack.enter_async_context(record_traces(rag))
        monitoring = await stack.enter_async_context(monitor_bot(settings.monitoring, rag))
        indexing, reindexing = await stack.enter_async_context(_run_indexing(settings, rag, watch))
        pulse = Heartbeat(rag.archive)
        inbox = InboxMiddleware(rag.archive, pulse.heard)
        bot = await stack.enter_async_context(_open_bot(settings.bot, inbox))
        bot.session.middleware(monitoring.meter.wire)  # last, so that it measures every try
        if not await _run_until_stopped(stop, _wait_for_telegram(bot, settings)):
            return
        members = MembershipCache(bot, archive=rag.archive)
        stack.push_async_callback(members.close)
        rights = AdminRegistry(settings.bot.admins, members, rag.archive)
        await rights.read()
        worker = QuestionWorker(bot, rag, settings.bot, rights, indexing.job_log, monitoring.meter, watch)
        client = await stack.enter_async_context(open_history_client(settings))
        history = HistoryService(rag.archive, client, indexing.wake) if client else None
        worker.confirm_posts = history.confirm_posts if history else None
        context = monitoring.context = AppContext(
            settings, rag.archive, worker, indexing, rag, reindexing, rights, history
        )
        deduplication = middlewares.DeduplicationMiddleware(rag.archive)
        dispatcher = await stack.enter_async_context(_run_workers(bot, context, deduplication, inbox))
        notify = partial(notify_admins, bot=bot, context=context)
        jobs = build_maintenance_jobs(rag, indexing.indexer, pulse, indexing.wake, notify, settings.data)
        jobs += [history.build_sweep_job(notify)] if history else []
        stack.enter_context(throttle_polling_errors())
        await stack.enter_async_context(notify_of_errors(notify))
        await stack.enter_async_context(run_jobs(jobs, indexing.job_log, notify, zone=settings.bot.zone))
        if settings.mcp.listen:
            try:
                from bot.api.http_server import serve_programs
            except ModuleNotFoundError as exc:
                command = format_install_command("citegram[mcp]")
                raise SettingsWrong(f"MCP__LISTEN needs more packages: {command}") from exc
            await stack.enter_async_context(serve_programs(context))
        log.info("@%s answers", (await bot.me()).username)
        gc.freeze()  # what a start made stays, so that no collection looks through it again while readers wait
        if ready:
            ready.set()
        allowed_updates = [*ALLOWED_UPDATES, "guest_message"] if settings.bot.guest else ALLOWED_UPDATES
        if settings.webhook.url:  # it stays set: Telegram keeps later updates
            monitoring.meter.wire.by_webhook = True
            async with serve_webhook(dispatcher.feed_update, bot, inbox, settings.webhook):
                keep_set = keep_webhook_set(bot, settings.webhook, allowed_updates, inbox.heard)
                await _run_until_stopped(stop, keep_set)
        else:
            await _poll_updates(dispatcher, bot, allowed_updates, stop)
        # Running handlers may finish; what they queue is processed at the next start.
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_GRACE_SECONDS):
                await deduplication.idle()


_MEDIA_SECONDS, _MAX_MEDIA_PAUSE_SECONDS = 3.0, 60.0


async def _read_media(bot: Bot, context: AppContext) -> None:
    settings = context.settings
    sources: dict[str, FileSource] = {"bot": BotFiles(bot), "path": ExportFiles()}
    if context.history:
        sources["mtproto"] = HistoryFiles(context.history.client)
    await asyncio.to_thread(remove_left_folders, settings.data.dir)
    reader = open_media_reader(context.archive, settings, sources, context.indexing.wake)
    try:
        jobs, pause, woken = context.indexing.job_log, _MAX_MEDIA_PAUSE_SECONDS, context.indexing.files_wakeup
        await repeat_job(jobs, "media", reader.catch_up, _MEDIA_SECONDS, longest=pause, wakeup=woken)
    finally:
        await reader.close()


_POSTS_READ_AHEAD = 500


async def _read_tokens_ahead(rag: Engine) -> None:
    """Read the tokens of the newest posts, so that the first questions after a start are not slower than the next."""
    if rag.dense and rag.dense.model.centres:
        first, now = datetime.fromtimestamp(0, UTC), datetime.now(UTC)
        newest = await list_posts_between(rag.archive, await load_channels(rag.archive), first, now, _POSTS_READ_AHEAD)
        await rag.dense.embedder.read_ahead(post.text for post in newest)


@asynccontextmanager
async def _run_workers(
    bot: Bot, context: AppContext, deduplication: middlewares.DeduplicationMiddleware, inbox: InboxMiddleware
) -> AsyncIterator[Dispatcher]:
    """Build the dispatcher and start its workers: questions, imports, updates that the last process left unhandled."""
    dispatcher = build_dispatcher(context, deduplication)

    imports = dispatcher["imports"] = ImportRunner(bot, context.settings, context.archive, context.indexing.wake)
    tasks = [
        publish_menu(bot, context.admins),
        _replay_unhandled_updates(dispatcher, bot, inbox),
        imports.report_interrupted(),
        admin.report_rebuilds(bot, context.reindexing, context.archive),
        context.worker.suggestions.run(),
        _read_tokens_ahead(context.rag),
        WatchNotifier(bot, context).run(),
        run_digests(bot, context),
        *([AnswerUpdater(bot, context).run()] if context.settings.bot.update_answers else []),
        *([context.history.run(), channels.follow_backfills(bot, context, context.history)] if context.history else []),
        *([_read_media(bot, context)] if context.settings.media.files != "off" else []),
    ]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(run_in_background(*tasks))
        stack.push_async_callback(context.worker.stop)
        stack.push_async_callback(imports.stop)

        await context.worker.start()
        yield dispatcher


@asynccontextmanager
async def _run_indexing(
    settings: Settings, rag: Engine, watch: BotObserver | None
) -> AsyncIterator[tuple[IndexingWorker, RebuildRunner]]:
    """Keep the indexes up to date and serve the other commands, also while Telegram cannot be reached."""
    dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder) if rag.dense else None
    indexer = LexicalIndexer(rag.archive, rag.lexical)
    change = EmbedderChange(rag, dense, grace=2 * rag.budgets.search) if dense else None
    indexing = IndexingWorker(rag.archive, indexer, dense, watch=watch, change=change)
    reindexing = RebuildRunner(rag.archive, indexer, dense)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(indexing.save)
        if change:
            stack.push_async_callback(change.close)
        await stack.enter_async_context(run_in_background(indexing.run()))
        stack.push_async_callback(reindexing.stop)
        await reindexing.resume()
        requests = RequestHandlers(rag, indexing, reindexing, settings.bot.zone, settings.bot.admins)
        await stack.enter_async_context(serve_control_socket(settings.data.dir, requests.all()))
        yield indexing, reindexing


def _require_token(settings: BotSettings) -> None:
    token = settings.token.get_secret_value()
    if not token:
        raise SettingsWrong("BOT__TOKEN is empty: run `citegram init`, which asks for it, or try `citegram demo`.")
    try:
        validate_token(token)
    except TokenValidationError:
        raise SettingsWrong("BOT__TOKEN is not a token: copy it from @BotFather as it is.") from None


@asynccontextmanager
async def _open_bot(settings: BotSettings, inbox: InboxMiddleware) -> AsyncIterator[Bot]:
    session = create_session(settings)
    # the check is inside the retries: each try is checked
    for middleware in (RetryMiddleware(), neutralize_call, EphemeralMiddleware(), recheck_call, inbox):
        session.middleware(middleware)
    # A link preview would make Telegram fetch an address from a post; what a reply is to may be deleted by then.
    default = DefaultBotProperties(link_preview_is_disabled=True, allow_sending_without_reply=True)
    async with Bot(settings.token.get_secret_value(), session, default=default).context() as bot:
        yield bot


async def _wait_for_telegram(bot: Bot, settings: Settings) -> None:
    """Wait until Telegram answers: the bot may start before its network is up."""
    api = settings.bot.api
    while True:
        try:
            await bot.me()
            if not settings.webhook.url:
                # A webhook left from an earlier run would keep updates away; pending updates are kept.
                await bot.delete_webhook(drop_pending_updates=False)
        except (TelegramUnauthorizedError, TelegramNotFound):
            raise SettingsWrong(
                f"Telegram does not know this token: check BOT__TOKEN (and BOT__API, now {api})."
            ) from None
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.warning("%s cannot be reached (%s); trying again in %d s", api, exc, _RECONNECT_SECONDS)
            await asyncio.sleep(_RECONNECT_SECONDS)
        else:
            return


async def _poll_updates(dispatcher: Dispatcher, bot: Bot, allowed_updates: list[str], stop: asyncio.Event) -> None:
    """Poll updates until `stop` is set. aiogram's polling survives cancellation, so `stop_polling` ends it."""
    polling = asyncio.create_task(
        dispatcher.start_polling(
            bot,
            polling_timeout=_POLL_TIMEOUT_SECONDS,
            handle_as_tasks=True,
            allowed_updates=allowed_updates,
            handle_signals=False,
            close_bot_session=False,
        )
    )
    try:
        await _run_until_stopped(stop, asyncio.shield(polling))
    finally:
        if not polling.done():
            await dispatcher.stop_polling()
        await polling


async def _run_until_stopped(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Wait for the work, or cancel it when `stop` is set. True where it finished."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # raises the task's exception, if any
        return task.done()
    finally:
        await cancel_tasks((task, stopped))
