"""Handlers of channels: posts wake the indexer, /channels approves and manages them, /sets names sets of them.

Handlers never commit posts: those were saved with their raw batch (bot/telegram/updates.py).

Removing a channel erases all its data after a confirmation; where the bot stays in it, the next post makes the
channel wait for approval again. The progress of reading a history is one message, which is edited while it runs; a
group's history is read only if an admin asks for it here, and the group is told before.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from functools import partial

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Code, Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.background import spawn
from bot.handlers.membership import refresh_channel
from bot.i18n import Translator, get_translator
from bot.jobs import HistoryService
from bot.middlewares import ADMINS_ONLY, IN_GROUP, PRIVATE, ChatCommand
from bot.telegram.recheck import ShownContent, View
from bot.telegram.session import respond
from bot.views import channel_card, keyboards
from bot.views.answer import format_channel_title, link_channel_title
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, make_row, on_press, redraw_message
from ingest.history import estimate_minutes, estimate_size
from ingest.inbox import process_pending_posts
from ingest.message_kinds import MAX_TITLE_LENGTH
from rag_core.errors import ArchiveUnavailable, HistoryUnavailable
from rag_core.planning.queries import find_named_channel
from rag_core.storage import channel_history, channels, posts, readers
from rag_core.storage.index_state import ProgressMessage
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Visibility

router = Router()

log = logging.getLogger(__name__)

_MAX_LABEL_LENGTH = 60  # phones cut longer ones
_CONFIRMATION_SECONDS = 600  # an older button was probably pressed by mistake
_CARD_ACTIONS = (
    "channel", "channel-public", "channel-members", "channel-admins", "channel-pause", "channel-resume",
    "channel-guarded-in", "channel-guarded-out", "channel-bindable", "channel-unbindable",
)  # fmt: skip


@router.callback_query(on_press(*_CARD_ACTIONS), flags=ADMINS_ONLY)
async def _press_card(
    pressed: CallbackQuery, callback_data: Press, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Show the card of a channel, after the change that a switch of it makes."""
    channel, archive, done = await channel_card.find_pressed_channel(callback_data, context, words), context.archive, ""
    title, chat_id = format_channel_title(channel, words, 60), channel.chat_id
    action = callback_data.to.removeprefix("channel-")
    on = action in ("guarded-in", "bindable", "resume")
    match action:
        case "channel":
            await refresh_channel(bot, context, channel)
        case "public" | "members" | "admins":
            visibility = Visibility[action.upper()]
            await channels.set_channel_visibility(archive, chat_id, visibility)
            if channel_card.awaits_approval(channel):
                await channels.set_channel_state(archive, chat_id, "active")
            who = words("channel-visibility", visibility=visibility.value)
            done = words("channel-set", title=title, visibility=who)
        case "guarded-in" | "guarded-out":
            await channels.allow_guarded_posts(archive, chat_id, on)
            context.indexing.wake()
            done = words("channel-set-guarded", title=title, shown="yes" if on else "no")
        case "bindable" | "unbindable":
            await readers.set_channel_bindable(archive, chat_id, on)
            done = words("channel-set-bindable", title=title, may="yes" if on else "no")
        case _ if channel_card.awaits_approval(channel):  # an outdated button: resuming would be an approval
            done = words("channel-not-approved", title=title)
        case _:
            await channels.set_channel_state(archive, chat_id, "active" if on else "paused")
            done = words("channel-resumed" if on else "channel-paused", title=title)
    # again, as it was changed, or removed by another admin meanwhile
    channel = await channel_card.find_pressed_channel(callback_data, context, words)
    (view,) = await channel_card.load_channel_views(context, [channel])
    await redraw_message(pressed, channel_card.render_channel_card(view, context, words), done)


@router.message(ChatCommand("channels", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_channels(message: Message, context: AppContext, words: Translator) -> None:
    await message.answer(**(await _render_channel_list(context, 0, words)).as_kwargs())


async def _render_channel_list(context: AppContext, number: int, words: Translator) -> View:
    """Render a page of all channels but those being removed; what these post afterwards has to be approved."""
    known = (await channels.load_channels(context.archive)).values()
    there = [c for c in known if c.state != "removed" or await posts.count_posts(context.archive, c.chat_id)]
    listed = sorted(there, key=lambda c: (not channel_card.awaits_approval(c), c.title.casefold(), c.chat_id))
    if not listed:
        return View(Text(words("channels-none")))
    shown, number, last = keyboards.cut_page(listed, number, keyboards.CHANNELS_PER_PAGE)
    views = await channel_card.load_channel_views(context, shown)
    lines = [channel_card.render_channel_line(view, context, words) for view in views]
    rows = []
    for one in shown:
        token = channel_card.make_channel_token(context.archive, one.chat_id)
        rows.append(make_row(format_channel_title(one, words, _MAX_LABEL_LENGTH), "channel", token))
    turns = keyboards.build_page_row(number, last, lambda n: Press(to="channels", number=n), words)
    text = as_list(Bold(words("channel-count", count=len(listed))), *lines, words("channels-choose"), sep="\n\n")
    return View(text, buttons=build_keyboard(*rows, turns))


@router.callback_query(on_press("channels"), flags=ADMINS_ONLY)
async def _press_list(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    await redraw_message(pressed, await _render_channel_list(context, callback_data.number, words))


@router.message(F.new_chat_title, IN_GROUP)
async def _on_group_title(message: Message, context: AppContext) -> None:
    """Update the title of an imported group. Channels send theirs with every post."""
    known = (await channels.load_channels(context.archive)).get(message.chat.id)
    if known and message.chat.title:
        named = Channel(known.chat_id, message.chat.title, message.chat.username, known.kind)
        await channels.save_channel(context.archive, named)


@router.message(F.forum_topic_created | F.forum_topic_edited, IN_GROUP)
async def _on_topic_title(message: Message, context: AppContext) -> None:
    renamed = message.forum_topic_created or message.forum_topic_edited
    topic, title = message.message_thread_id or message.message_id, (renamed.name if renamed else None) or ""
    if title and message.chat.id in await channels.load_channels(context.archive):
        async with context.archive.writing() as connection:
            named = {topic: (title[:MAX_TITLE_LENGTH], int(message.date.timestamp()))}
            await channels.save_topic_titles(connection, message.chat.id, named)
        context.indexing.wake()


@router.callback_query(on_press("channel-remove"), flags=ADMINS_ONLY)
async def _press_remove(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    """First press: say what will be deleted, and ask for confirmation."""
    channel = await channel_card.find_pressed_channel(callback_data, context, words)
    count, token = await posts.count_posts(context.archive, channel.chat_id), callback_data.token
    asked = words.rich("channel-remove-ask", title=link_channel_title(channel, words), count=count)
    yes = make_row(words("button-remove-yes"), "channel-remove-yes", token, int(time.time()))
    buttons = build_keyboard(yes, make_row(words("button-back"), "channel", token))
    await redraw_message(pressed, View(asked, buttons=buttons))


@router.callback_query(on_press("channel-remove-yes"), flags=ADMINS_ONLY)
async def _confirm_remove(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    channel = await channel_card.find_pressed_channel(callback_data, context, words)
    if not 0 <= time.time() - callback_data.number <= _CONFIRMATION_SECONDS:
        raise access.Refusal(words("channel-remove-late"))
    # Half a minute for a million posts: longer than Telegram waits for a callback's answer.
    toast = words("channel-removing", title=format_channel_title(channel, words, 60))
    await redraw_message(pressed, Text(toast), toast)
    count = await channels.remove_channel(context.archive, channel.chat_id)
    context.indexing.wake()
    log.info("admin %d removed channel %d with %d posts", pressed.from_user.id, channel.chat_id, count)
    text, rows = words.rich("channel-removed", title=link_channel_title(channel, words), count=count), []
    if channel.inside:
        text = as_list(text, words("channel-removed-inside"), sep="\n\n")
        rows.append(make_row(words("button-leave"), "channel-leave", callback_data.token, channel.chat_id))
    buttons = build_keyboard(*rows, make_row(words("button-back"), "channels"))
    await keyboards.edit_message(pressed, View(text, buttons=buttons))


@router.callback_query(on_press("channel-leave"), flags=ADMINS_ONLY)
async def _press_leave(
    pressed: CallbackQuery, callback_data: Press, bot: Bot, context: AppContext, words: Translator
) -> None:
    chat_id = callback_data.number  # the channel may be deleted by now; the token shows that the id is genuine
    if callback_data.token != channel_card.make_channel_token(context.archive, chat_id):
        raise access.Refusal(words("channel-gone"))
    try:
        await bot.leave_chat(chat_id)
    except (TelegramBadRequest, TelegramForbiddenError) as exc:  # removed from the channel, or it is deleted
        log.info("channel %d was left before: %s", chat_id, exc)
    await process_pending_posts(context.archive)  # one that came before the bot left would bring the channel back
    channel = (await channels.load_channels(context.archive)).get(chat_id)
    if channel and channel_card.awaits_approval(channel):
        await channels.remove_channel(context.archive, chat_id)
        context.indexing.wake()
    before = (pressed.message.text if isinstance(pressed.message, Message) else None) or ""
    left = words("channel-left-now")
    text = before if before.endswith(left) else f"{before}\n\n{left}".strip()
    back = build_keyboard(make_row(words("button-back"), "channels"))
    await redraw_message(pressed, View(Text(text), buttons=back), left)


@router.edited_channel_post()
@router.channel_post()
async def _on_channel_post(_: Message, context: AppContext) -> None:
    context.indexing.wake()


_UPDATE_SECONDS = 5.0
_SHOWN_PREFIX = "history "  # of the choices that hold the message of a backfill until it has ended
_STATE_BY_ACTION = {
    "history-pause": ("paused", ("running",)),
    "history-resume": ("running", ("paused", "failed")),
    "history-cancel": ("cancelled", ("running", "paused", "failed")),
}


@router.callback_query(on_press("channel-history"), flags=ADMINS_ONLY)
async def _press_history(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    channel, service = await _find_channel(callback_data, context, words)
    job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
    if job and job.state in ("running", "paused", "failed") and callback_data.number == 0:
        await redraw_message(pressed, await _render_progress(context, channel, words))
        return
    title = link_channel_title(channel, words)
    await redraw_message(pressed, words.rich("history-counting", title=title))
    try:
        count = await estimate_size(context.archive, service.source, channel.chat_id)
        text = words.rich("history-estimate", title=title, count=count, minutes=estimate_minutes(count))
        state = "" if count else "none"
    except HistoryUnavailable as exc:
        text, state = words.rich("history-failed", title=title, reason=words.error(exc)), ""
    await keyboards.edit_message(pressed, View(text, buttons=await _build_buttons(context, channel, words, state)))


@router.callback_query(on_press("history-begin", "history-undo", *_STATE_BY_ACTION), flags=ADMINS_ONLY)
async def _press_change(
    pressed: CallbackQuery, callback_data: Press, bot: Bot, context: AppContext, words: Translator
) -> None:
    channel, service = await _find_channel(callback_data, context, words)
    archive, action, done = context.archive, callback_data.to, ""
    if action == "history-begin":
        if channel.kind != "channel":  # a group is told before
            try:
                await bot.send_message(channel.chat_id, get_translator(context.settings.bot.language)("history-group"))
            except (TelegramAPIError, ClientDecodeError) as exc:
                raise access.Refusal(words("history-group-unreached")) from exc
        days = max(0, callback_data.number)  # 0: all posts
        since = datetime.now(UTC) - timedelta(days=min(days, 3650)) if days else None
        await channel_history.begin_backfill(archive, channel.chat_id, since)
    elif action == "history-undo":
        count = await channel_history.undo_deletions(archive, channel.chat_id, datetime.now(UTC))
        service.wake()
        done = words("history-restored", count=count)
    else:
        state, among = _STATE_BY_ACTION[action]
        await channel_history.set_backfill_state(archive, channel.chat_id, state, among=among)
    await redraw_message(pressed, await _render_progress(context, channel, words), done)
    if action in ("history-begin", "history-resume") and pressed.message:
        tell = ProgressMessage(pressed.message.chat.id, pressed.message.message_id, words.lang)
        await readers.save_choice(archive, f"{_SHOWN_PREFIX}{channel.chat_id}", json.dumps(astuple(tell)))
        spawn(service.tasks, _follow_progress(bot, tell, channel, context))


async def _find_channel(data: Press, context: AppContext, words: Translator) -> tuple[Channel, HistoryService]:
    channel = await channel_card.find_pressed_channel(data, context, words)
    if context.history is None or channel_card.awaits_approval(channel):  # an outdated button
        raise access.Refusal(words("button-stale"))
    return channel, context.history


async def follow_backfills(bot: Bot, context: AppContext, service: HistoryService) -> None:
    """Go on to show the progress of backfills in the messages that the last process has left."""
    known = await channels.load_channels(context.archive)
    for name, tell in (await readers.load_choices(context.archive)).items():
        if name.startswith(_SHOWN_PREFIX) and tell and (channel := known.get(int(name.removeprefix(_SHOWN_PREFIX)))):
            spawn(service.tasks, _follow_progress(bot, ProgressMessage(*json.loads(tell)), channel, context))


async def _follow_progress(bot: Bot, tell: ProgressMessage, channel: Channel, context: AppContext) -> None:
    before, state, words = "", "running", get_translator(tell.lang)
    while state == "running":
        await asyncio.sleep(_UPDATE_SECONDS)
        with suppress(TelegramAPIError, ClientDecodeError, ArchiveUnavailable):
            job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
            state = job.state if job else ""
            view = await _render_progress(context, channel, words)
            if (said := view.text.render()[0]) != before:
                before = said
                await bot.edit_message_text(chat_id=tell.chat_id, message_id=tell.message_id, **view.as_kwargs())
    with suppress(ArchiveUnavailable):  # the next start then shows the end again
        await readers.save_choice(context.archive, f"{_SHOWN_PREFIX}{channel.chat_id}", "")


async def _render_progress(context: AppContext, channel: Channel, words: Translator) -> View:
    job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
    title, state = link_channel_title(channel, words), job.state if job else ""
    if job is None:
        text = title
    elif state == "failed":
        text = words.rich("history-failed", title=title, reason=job.problem)
    else:
        percent = int(100 * job.share)
        text = words.rich("history-progress", title=title, state=state, percent=percent, count=job.saved)
    return View(text, buttons=await _build_buttons(context, channel, words, state))


async def _build_buttons(
    context: AppContext, channel: Channel, words: Translator, state: str
) -> InlineKeyboardMarkup | None:
    row = partial(make_row, token=channel_card.make_channel_token(context.archive, channel.chat_id))
    counts = (await channel_history.count_history(context.archive, datetime.now(UTC))).get(channel.chat_id)
    begun, rows = state in ("running", "paused", "failed"), []
    if state == "running":
        rows = [row(words("button-history-refresh"), "channel-history"), row(words("button-pause"), "history-pause")]
    elif begun:
        rows = [row(words("button-resume"), "history-resume")]
    elif state != "none":
        rows = [row(words("button-history-days", days=days), "history-begin", number=days) for days in (365, 30)]
        rows.insert(0, row(words("button-history-all"), "history-begin"))
    rows += [row(words("button-stop-work"), "history-cancel")] if begun else []
    if counts and counts.deleted:
        rows.append(row(words("button-history-undo", count=counts.deleted), "history-undo"))
    return build_keyboard(*rows, row(words("button-back"), "channel"))


_MAX_SETS = 20  # per chat
_REMOVED = re.compile(r"[-−–]\s*(.+)")


@router.message(ChatCommand("sets", addressed_only=True))
async def _on_sets(message: Message, given: str, context: AppContext, words: Translator) -> None:
    """List the sets, save one ("work = @first, Second channel"), or after a minus remove one."""
    reader = access.get_reader(message)
    given = " ".join(given.split())
    await access.check_may_change_settings(context.admins, message.chat, reader.user_id, words("group-admins-only"))
    readable = await access.get_readable_channels(context.admins, reader)
    how = words.rich("sets-how", example=Code(f"/sets {words('sets-example')}"), asked=Code(words("sets-asked")))
    change = partial(readers.change_channel_sets, context.archive, message.chat.id)
    if not given:
        lines = []
        for name, chosen in sorted((await readers.load_channel_sets(context.archive, message.chat.id)).items()):
            titles = ", ".join(format_channel_title(readable[one], words) for one in sorted(chosen) if one in readable)
            lines.append(Text("• ", neutralize_links(f"{name}: {titles or words('sets-closed')}")))
        text = as_list(words("sets-title", count=len(lines)), *lines, "", how)
    elif removed := _REMOVED.fullmatch(given):
        known = await change(lambda sets: sets.pop(removed[1].casefold(), None)) is not None
        text = words.rich("sets-removed" if known else "sets-unknown", name=neutralize_links(removed[1]))
    else:
        said = await change(lambda sets: _add_set(given, sets, readable, words))
        text = said or how
    content = ShownContent(counted=frozenset(readable))
    await View(text, content).send(partial(respond, message), reader, context.admins)


def _add_set(
    given: str, sets: dict[str, frozenset[int]], readable: Mapping[int, Channel], words: Translator
) -> Text | None:
    """Add a set ("work = @first, Second channel") and say so, or why not; None where it is written in another way."""
    name, _, listed = (part.strip() for part in given.partition("="))
    if not listed or not tokenize(name) or len(name) > readers.MAX_SET_NAME_LENGTH or ":" in name:
        return None
    if name.casefold() not in sets and len(sets) >= _MAX_SETS:
        return Text(words("sets-full", count=_MAX_SETS))
    chosen = set[int]()
    for one in filter(None, (part.strip() for part in listed.split(","))):
        alike = {c.chat_id for c in readable.values() if one.casefold() == c.title.casefold()}  # maybe several
        named = find_named_channel(one, readable)
        if not alike and named is None:
            return words.rich("sets-no-channel", name=neutralize_links(one))
        chosen |= alike or ({named.chat_id} if named else set())
    sets[name.casefold()] = frozenset(chosen)
    titles = ", ".join(format_channel_title(readable[one], words) for one in sorted(chosen))
    asked = Code(words("sets-asked-in", name=name))
    return words.rich("sets-saved", name=neutralize_links(name), titles=neutralize_links(titles), asked=asked)
