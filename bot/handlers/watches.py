"""Handlers of /watch, /watches and their buttons, and of /digest; bot/notifications.py sends the notices.

In a group its admins decide what is watched, and when its digest comes.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.access import Refusal, check_may_change_settings, get_reader
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ChatCommand
from bot.notifications import compute_next_due, send_digest
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts
from bot.views.answer import link_number
from bot.views.format import neutralize_links
from bot.views.keyboards import LabelledPress, Press, build_keyboard, on_press
from bot.views.text import RenderContext, format_moment
from rag_core.retrieval.digests import parse_digest_command
from rag_core.retrieval.post_search import parse_quiet_hours, parse_watch, split_channels
from rag_core.storage import channels, subscriptions, visible_posts
from rag_core.types import Post

router = Router()

_MAX_LENGTH = 200
_MUTED_SECONDS = 86_400
_LAST_HITS = 3
_BUTTON_LENGTH = 24


@router.message(ChatCommand("watch", addressed_only=True))
async def _on_watch(message: Message, given: str, context: AppContext, words: Translator) -> None:
    given, reader = " ".join(given.split()), get_reader(message)
    await check_may_change_settings(context.admins, message.chat, reader.user_id, words("group-admins-only"))
    example = Code(f"/watch {words('watch-example')}")
    query, named = split_channels(given, await access.get_readable_channels(context.admins, reader))
    new = subscriptions.NewWatch(reader.user_id, reader.chat_id, reader.private, given, query, named)
    if (quiet := parse_quiet_hours(given)) is not None:
        text = Text(words("watch-quiet", hours=quiet) if quiet else words("watch-quiet-off"))
        if not await subscriptions.set_quiet_hours(context.archive, message.chat.id, quiet):
            text = words.rich("watch-quiet-none", example=example)
    elif len(given) > _MAX_LENGTH or not parse_watch(query).terms:
        text = words.rich("watch-how", example=example, quiet=Code(f"/watch {words('watch-quiet-example')}"))
    elif await subscriptions.add_watch(context.archive, new, message.date):
        text = words.rich("watch-added", text=neutralize_links(given))
    else:
        text = words.rich("watch-full", count=subscriptions.MAX_WATCHES)
    await message.answer(**text.as_kwargs())


@router.message(ChatCommand("watches", addressed_only=True))
async def _on_watches(message: Message, context: AppContext, words: Translator) -> None:
    reader = get_reader(message)
    await subscriptions.mark_chat_blocked(context.archive, message.chat.id, blocked=False)
    viewer = await access.build_viewer(context.admins, reader)
    kept = await subscriptions.list_watches(context.archive, message.chat.id)
    if not kept:
        example = Code(f"/watch {words('watch-example')}")
        await View(words.rich("watches-none", example=example)).send(message.answer, reader, context.admins)
        return
    known = await channels.load_channels(context.archive)
    lines, linked, rows, now = [], list[Post](), list[list[LabelledPress]](), time.time()
    for number, watch in enumerate(kept, 1):
        told = await subscriptions.list_hits(context.archive, watch.id, ("told", "over", "listed"))
        readable = [hit.key for hit in told if hit.key.chat_id in viewer.channels][-_LAST_HITS:]
        stored = await visible_posts.fetch_posts(context.archive, readable)
        linked += stored.values()
        last = [key for key in readable if key in stored]
        links = [part for n, key in enumerate(last, 1) for part in (" ", link_number(n, key, known))]
        muted = watch.muted_until > now
        state = words("watch-is-paused") if watch.paused else words("watch-is-muted") if muted else ""
        lines.append(Text(f"{number}. ", neutralize_links(watch.text), state, *links))
        stop = f"{words('watch-stop')}: {watch.text[:_BUTTON_LENGTH]}"
        action = "watch-resume" if watch.paused or muted else "watch-pause"
        labels = (("watch-stop", stop), (action, f"{words(action)} {number}"))
        rows.append([(label, Press(to=to, number=watch.id)) for to, label in labels])
    head = words("watches-title", count=len(kept))
    quiet = [words("watch-quiet", hours=kept[0].quiet)] if kept[0].quiet else []
    view = View(as_list(head, *lines, *quiet), collect_content_of_posts(linked), build_keyboard(*rows))
    await view.send(message.answer, reader, context.admins)


_DONE = {"watch-stop": "watch-stopped", "watch-mute": "watch-muted", "watch-pause": "watch-paused",
         "watch-resume": "watch-resumed"}  # fmt: skip


@router.callback_query(on_press(*_DONE))
async def _press_watch(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    message, archive, chosen = pressed.message, context.archive, callback_data.number
    if message is None:
        raise Refusal(words("group-admins-only"))
    await check_may_change_settings(context.admins, message.chat, pressed.from_user.id, words("group-admins-only"))
    if chosen not in {watch.id for watch in await subscriptions.list_watches(archive, message.chat.id)}:
        raise Refusal(words("watch-gone"))
    match callback_data.to:
        case "watch-stop":
            await subscriptions.delete_watch(archive, chosen)
        case "watch-mute":
            await subscriptions.mute_watch(archive, chosen, int(time.time()) + _MUTED_SECONDS)
        case _:
            await subscriptions.pause_watch(archive, chosen, paused=callback_data.to == "watch-pause")
    await pressed.answer(words(_DONE[callback_data.to]))


_NOW_DAYS, _NOW_HOUR = 7, 9  # of "now" in a chat without a plan


@router.message(ChatCommand("digest", addressed_only=True))
async def _on_digest(message: Message, given: str, bot: Bot, context: AppContext, words: Translator) -> None:
    given, reader = " ".join(given.split()), get_reader(message)
    archive, chat = context.archive, message.chat.id
    await check_may_change_settings(context.admins, message.chat, reader.user_id, words("group-admins-only"))
    zone, now = await context.load_zone(chat), datetime.now(UTC)
    plan, wanted = await subscriptions.fetch_digest_plan(archive, chat), parse_digest_command(given)
    if wanted == "off":
        deleted = await subscriptions.delete_digest_plan(archive, chat)
        await message.answer(words("digest-off" if deleted else "digest-none"))
        return
    readable = await access.get_readable_channels(context.admins, reader)
    rest, named = split_channels(wanted.rest, readable) if wanted else (given, None)
    make_plan = partial(subscriptions.DigestPlan, chat, reader.user_id, reader.private, lang=words.lang)
    if wanted and wanted.hour is None and not rest.strip():
        asked = plan or make_plan(_NOW_DAYS, _NOW_HOUR, None, since=now, due=now)
        asked = replace(asked, channels=named) if named else asked
        until = now + timedelta(seconds=1)  # posts have whole seconds: those of this one are new as well
        if not await send_digest(bot, context, asked, now - timedelta(days=asked.days), until):
            viewer = await access.build_viewer(context.admins, reader)
            asked_of = viewer if asked.channels is None else viewer.narrow(asked.channels)
            spans = [await visible_posts.fetch_post_span(archive, one) for one in asked_of.channels]
            last = max((span.last for span in spans if span), default=None)
            nothing = words("digest-nothing", day=words.date(last, zone) if last else "none")
            text = Text(access.describe_shortfalls(asked_of, words) or nothing)
            await View(text, ShownContent(counted=asked_of.channels)).send(message.answer, reader, context.admins)
        return
    if wanted and wanted.hour is not None and not rest.strip():
        due = compute_next_due(now.astimezone(zone), wanted.hour, 1)
        plan = make_plan(wanted.days, wanted.hour, named, since=due - timedelta(days=wanted.days), due=due)
        await subscriptions.save_digest_plan(archive, plan)
        await message.answer(_describe_digest(plan, words, zone))
        return
    # how the command is used, and when the next digest is due
    state = _describe_digest(plan, words, zone) if plan else words("digest-none")
    daily, at_once, channel, off = (
        Code(words("digest-example", what=what)) for what in ("daily", "now", "channel", "off")
    )
    how = words.rich("digest-how", state=state, daily=daily, now=at_once, channel=channel, off=off)
    await message.answer(**how.as_kwargs())


def _describe_digest(plan: subscriptions.DigestPlan, words: Translator, zone: tzinfo) -> str:
    return words("digest-on", days=plan.days, due=format_moment(plan.due, RenderContext(words, zone)))
