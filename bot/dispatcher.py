"""Dispatcher: routers in their order, the middlewares before them, and the kinds of updates that are asked for."""

from __future__ import annotations

import logging

from aiogram import Bot, Dispatcher
from aiogram.types import Update

from bot.channel_notice_limit import ChannelNotificationLimiter
from bot.context import AppContext
from bot.handlers import (
    admins,
    channels,
    conversation,
    deletions,
    errors,
    explain,
    feedback,
    group_settings,
    history,
    imports,
    mode,
    models,
    plan,
    privacy,
    questions,
    quotes,
    reindex,
    search,
    small_talk,
    start,
    stats,
    synonyms,
    time_zone,
    unanswered,
    verify,
)
from bot.middlewares import AdminsOnlyMiddleware, DeduplicationMiddleware, LanguageMiddleware, RateLimitMiddleware
from rag_core.storage import Archive, raw_updates

# Explicit, because Telegram keeps the last list it was given.
ALLOWED_UPDATES = [
    "message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "my_chat_member",
    "stopped_message_generation",
    "chat_member",
]

log = logging.getLogger(__name__)


def build_dispatcher(context: AppContext, once: DeduplicationMiddleware) -> Dispatcher:
    """Build a dispatcher with all handlers. Routers are new each time: aiogram attaches a router only once."""
    dispatcher = Dispatcher(context=context, settings=context.settings, admins=context.admins, disable_fsm=True)
    dispatcher.update.outer_middleware(once)
    dispatcher.update.outer_middleware(LanguageMiddleware(context.settings.bot.language, context.archive))
    notices = dispatcher["notices"] = ChannelNotificationLimiter()
    for observer in (dispatcher.message, dispatcher.callback_query):
        observer.outer_middleware(RateLimitMiddleware(context))
        observer.middleware(AdminsOnlyMiddleware())
    dispatcher.include_routers(
        errors.routes(),
        group_settings.blocked_question_routes(),  # before every handler that answers in groups
        feedback.routes(),  # before /start: a link that asks a question is a /start too
        privacy.routes(),
        start.routes(),
        channels.routes(notices),
        history.routes(),
        group_settings.routes(),
        admins.routes(),
        deletions.routes(),
        explain.routes(),
        search.routes(),
        quotes.routes(),
        reindex.routes(),
        models.routes(),
        mode.routes(),
        conversation.routes(),
        stats.routes(),
        plan.routes(),
        synonyms.routes(),
        time_zone.routes(),
        unanswered.routes(),
        imports.routes(),
        verify.routes(),
        small_talk.routes(),
        questions.routes(),  # late: it takes all remaining text
        errors.stale_button_routes(),  # last: it takes all remaining buttons
    )
    return dispatcher


async def replay_unhandled_updates(dispatcher: Dispatcher, bot: Bot, archive: Archive) -> None:
    """Handle updates that were stored and confirmed when the process ended before handling them."""
    for bot_id, update_id, raw in await raw_updates.list_unclaimed_updates(archive):
        if bot_id != bot.id:
            continue
        log.info("update %d was left unhandled: handled now", update_id)
        try:
            await dispatcher.feed_update(bot, Update.model_validate(raw, context={"bot": bot}))
        except Exception:  # one update must not keep the bot from starting
            log.exception("update %d cannot be handled", update_id)
