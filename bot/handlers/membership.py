"""Membership and rights: the bot joins and leaves channels, users join and leave chats, /grant and /revoke make admins.

A channel waits until an admin says who may read it. Anybody may add a bot to any number of channels: admins are told of
so many changes an hour, /channels shows them all, and where too many channels wait, the bot leaves those that strangers
add. A button of /grant is valid for whoever asked and for ten minutes; all other admins are notified.
"""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, ChatMemberUpdated, Message, Update
from aiogram.utils.formatting import Code, Text, as_list
from cachetools import LRUCache

from bot.access import ADMIN_STATUSES, Refusal
from bot.admin_notifications import get_user_translator, send_notice, send_to_admins
from bot.app_context import AppContext
from bot.i18n import Translator, choose_interface_language, get_translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.settings import parse_person_id
from bot.telegram.session import publish_admin_menu
from bot.views.answer import format_one_line, link_channel_title
from bot.views.channel_card import awaits_approval, build_approval_keyboard
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, list_buttons, make_callback_token, on_press, redraw_message
from bot.worker.rate_limits import TokenBuckets
from ingest.inbox import MAX_WAITING_CHANNELS
from rag_core.storage import Archive, channel_history, channels, subscriptions
from rag_core.types import Channel

router = Router()

log = logging.getLogger(__name__)

_MAX_PER_ACTOR, _MAX_PER_HOUR = 5, 20  # notices an hour: of what one person did, and in all
_TIMEOUT_SECONDS = 3.0  # for asking Telegram about a channel or a person; without an answer what is known is shown
_MAX_REMEMBERED_UPDATES = 10_000  # channels whose last update is remembered; those of others were handled long ago


async def _mark_channel_joined(archive: Archive, chat_id: int) -> None:
    """Mark that the bot is now in a known channel; earlier posts may be missing."""
    await channels.record_bot_joined(archive, chat_id)
    await channel_history.note_gap_before_joining(archive, chat_id)


async def refresh_channel(bot: Bot, context: AppContext, channel: Channel) -> None:
    """Update the channel's name and the bot's membership from Telegram.

    No update reports a new username, nor what happened while the bot was off for more than a day.
    """
    if channel.kind != "channel":
        return
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            member = await bot.get_chat_member(channel.chat_id, bot.id)
            inside = member.status in ADMIN_STATUSES
            if inside:
                chat = await bot.get_chat(channel.chat_id)
                named = Channel(channel.chat_id, chat.title or channel.title, chat.username, channel.kind)
                await channels.save_channel(context.archive, named)
    except TelegramForbiddenError:
        inside = False
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return  # unknown now: the card shows the stored data
    if inside and not channel.inside:
        await _mark_channel_joined(context.archive, channel.chat_id)
    elif channel.inside and not inside:
        await channels.record_bot_left(context.archive, channel.chat_id)


@dataclass(slots=True)
class LatestChanges:
    """Latest update of each channel about the bot's membership, as updates are handled concurrently; notices sent."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    update_ids: LRUCache[int, int] = field(default_factory=partial(LRUCache, _MAX_REMEMBERED_UPDATES))
    notices: TokenBuckets = field(default_factory=TokenBuckets)

    def may_notify(self, actor: int) -> bool:
        """Count a notice of what somebody did; False where there were too many within the hour."""
        return not self.notices.take(((actor,), _MAX_PER_ACTOR), (None, _MAX_PER_HOUR))


@router.my_chat_member(F.chat.type == "channel")
async def _on_own_membership(
    event: ChatMemberUpdated, event_update: Update, bot: Bot, context: AppContext, latest_changes: LatestChanges
) -> None:
    chat, actor, chat_id, number = event.chat, event.from_user, event.chat.id, event_update.update_id
    found = Channel(chat_id, chat.title or "", chat.username)
    before, after = event.old_chat_member.status in ADMIN_STATUSES, event.new_chat_member.status in ADMIN_STATUSES
    if before == after:
        return
    async with latest_changes.lock:
        if number < latest_changes.update_ids.get(chat_id, 0):
            return  # outdated
        latest_changes.update_ids[chat_id] = number
        loaded = await channels.load_channels(context.archive)
        known = loaded.get(chat_id)
        # A channel that a stranger adds is refused while the maximum number waits for approval.
        stranger = after and known is None and actor.id not in context.admins
        waiting = sum(channel.state in channels.UNAPPROVED_STATES for channel in loaded.values())
        refused = stranger and waiting >= MAX_WAITING_CHANNELS
        if after and not refused:
            # For a known channel `save_channel` takes over only title and username.
            await channels.save_channel(context.archive, replace(found, state="pending"))
            if known and known.state == "removed":
                await channels.set_channel_state(context.archive, chat_id, "pending")
            await _mark_channel_joined(context.archive, chat_id)
        elif known:
            await channels.record_bot_left(context.archive, chat_id)
    if refused:
        log.warning("%d channels wait: channel %d of user %d is left", MAX_WAITING_CHANNELS, chat_id, actor.id)
        if not actor.is_bot and latest_changes.may_notify(actor.id):
            spoken = get_translator(choose_interface_language(actor.language_code, context.settings.bot.language))
            title = link_channel_title(found, spoken)
            await send_notice(bot, actor.id, spoken.rich("channel-adder-refused", title=title))
        with suppress(TelegramAPIError, ClientDecodeError):
            await bot.leave_chat(chat_id)
    # leaving on an admin's order, or an unapproved channel, needs no notification
    elif after or (known and actor.id != bot.id and not awaits_approval(known)):
        if latest_changes.may_notify(actor.id):
            await _notify_admins(event, known, after, bot, context)
        else:
            log.warning("user %d adds and removes the bot often: nobody is told of channel %d", actor.id, chat_id)


@router.my_chat_member()
async def _on_chat_left_or_entered(event: ChatMemberUpdated, context: AppContext) -> None:
    """Handle that a person or a group threw the bot out, or lets it write again: its watches pause, or go on."""
    blocked = event.new_chat_member.status in {"left", "kicked"}
    await subscriptions.mark_chat_blocked(context.archive, event.chat.id, blocked=blocked)


async def _notify_admins(
    event: ChatMemberUpdated, known: Channel | None, joined: bool, bot: Bot, context: AppContext
) -> None:
    """Notify the admins that somebody added or removed the bot, and who added it that the channel has to wait."""
    chat, actor = event.chat, event.from_user
    found = known if known and not joined else Channel(chat.id, chat.title or "", chat.username)
    pending = joined and (known is None or awaits_approval(known))
    if joined and not context.admins:
        log.warning("added to channel %d, and there is no admin to approve it: set BOT__ADMINS", chat.id)
    said, by = ("channel-added", "added-by") if joined else ("channel-thrown-out", "removed-by")
    state = known.state if known and not pending else "pending"

    def format_notice(words: Translator) -> Text:
        text = words.rich(said, state=state, title=link_channel_title(found, words))
        return as_list(text, words.rich(by, name=format_one_line(actor.full_name), id=str(actor.id)), sep="\n\n")

    buttons = partial(build_approval_keyboard, context.archive, chat.id) if pending else None
    await send_to_admins(bot, context, format_notice, buttons, actor)
    if pending and actor.id not in context.admins and not actor.is_bot:
        words = get_translator(choose_interface_language(actor.language_code, context.settings.bot.language))
        await send_notice(bot, actor.id, words.rich("channel-adder-told", title=link_channel_title(found, words)))


@router.chat_member()
async def _on_chat_member(event: ChatMemberUpdated, event_update: Update, context: AppContext) -> None:
    await context.admins.members.record(event, event_update.update_id)


_CONFIRMATION_SECONDS = 600  # an older button was probably pressed by mistake


def _make_grant_token(archive: Archive, to: str, who: int, at: str, asker: int) -> str:
    return make_callback_token(repr(("grant", to, who, at, asker)), archive.identity)


@router.message(ChatCommand("grant", "revoke", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_grant_or_revoke(
    message: Message, command: CommandObject, given: str, bot: Bot, context: AppContext, words: Translator
) -> None:
    grants, who = command.command.lower() == "grant", parse_person_id(given)
    if who is None:
        how = words.rich("grant-how", grant=Code("/grant 123456789"), revoke=Code("/revoke 123456789"))
        lines = [words.rich("grant-line-owner", who=Code(str(owner))) for owner in context.admins.owners]
        for one in context.admins.grants.values():
            date, who_granted = words.date(one.granted_at, context.settings.bot.zone), Code(str(one.granted_by))
            lines.append(words.rich("grant-line", who=Code(str(one.user_id)), by=who_granted, date=date))
        await message.answer(**as_list(how, words("grant-list"), *lines).as_kwargs())
        return
    if refusal := _check_request(who, grants, bot.id, context):
        await message.answer(words(refusal, id=str(who)))
        return
    person = Text(Code(str(who)))
    with suppress(TelegramAPIError, ClientDecodeError, TimeoutError):  # the name shows a wrong digit in time
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            chat = await bot.get_chat(who)
        person = Text(neutralize_links(format_one_line(chat.full_name)), " (", Code(str(who)), ")")
    question = words.rich("grant-ask" if grants else "revoke-ask", who=person)
    to, at = "grant" if grants else "revoke", str(int(time.time()))
    token = f"{at}.{_make_grant_token(context.archive, to, who, at, message.chat.id)}"
    yes, no = Press(to=to, token=token, number=who), Press(to="grant-cancel")
    label = words("button-grant" if grants else "button-revoke")
    buttons = build_keyboard([(label, yes, "danger"), (words("button-cancel"), no)])
    await message.answer(**question.as_kwargs(), reply_markup=buttons)


def _check_request(who: int, grants: bool, bot_id: int, context: AppContext) -> str:
    """Check a /grant or /revoke request; returns the id of the refusal's sentence, "" where it is allowed."""
    if who in context.admins.owners:
        return "grant-owner"
    if grants:
        return "grant-bot" if who == bot_id else "grant-already" if who in context.admins else ""
    return "" if who in context.admins else "revoke-none"


@router.callback_query(on_press("grant", "revoke", "grant-cancel"), flags=ADMINS_ONLY)
async def _press_confirm(
    pressed: CallbackQuery, callback_data: Press, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Grant or revoke after the confirmation, whose token holds the time and is made for the asker."""
    actor, who, grants = pressed.from_user.id, callback_data.number, callback_data.to == "grant"
    if callback_data.to == "grant-cancel":
        await redraw_message(pressed, Text(words("grant-cancelled")))
        return
    at, _, token = callback_data.token.partition(".")
    in_time = at.isdecimal() and 0 <= time.time() - int(at) <= _CONFIRMATION_SECONDS
    genuine = token == _make_grant_token(context.archive, callback_data.to, who, at, actor)
    # the button must still be on its message: callback data of a used one can be sent again
    markup = pressed.message.reply_markup if isinstance(pressed.message, Message) else None
    shown = [one.callback_data for one in list_buttons(markup)]
    if not (in_time and genuine and pressed.data in shown):
        raise Refusal(words("grant-late"))
    if refusal := _check_request(who, grants, bot.id, context):
        await redraw_message(pressed, Text(words(refusal, id=str(who))))
        return

    async def notify(user_id: int, said: str, **values: str) -> bool:
        spoken = await get_user_translator(context.archive, user_id, context.settings.bot.language)
        return await send_notice(bot, user_id, Text(spoken(said, **values)))

    if grants:
        await context.admins.grant(who, actor)
        done = "grant-done" if await notify(who, "granted-told") else "grant-done-untold"
    else:
        await context.admins.revoke(who)
        done = "revoke-done"
    log.info("admin %d %s the admin rights of %d", actor, "granted" if grants else "revoked", who)
    await redraw_message(pressed, words.rich(done, who=Code(str(who))))
    if not grants and actor != who:
        await notify(who, "revoked-told")
    await publish_admin_menu(bot, who, admin=grants)
    said = "granted-others" if grants else "revoked-others"
    others = [admin for admin in context.admins if admin not in (actor, who)]  # nobody gains access unnoticed
    await asyncio.gather(*(notify(one, said, who=str(who), by=str(actor)) for one in others))
