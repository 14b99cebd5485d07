"""Channel card: a channel as an admin sees it, as one line of the list or as a card with its buttons.

A button names a channel by a token that only this archive can make. Anybody who sees a button can press it, also
with made-up data, so that the presser is checked every time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from aiogram.types import InlineKeyboardMarkup
from aiogram.utils.formatting import Text, as_list

from bot.access import Refusal
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.telegram.recheck import View
from bot.views.answer import format_channel_title, link_channel_title, make_link
from bot.views.keyboards import LabelledPress, Press, build_keyboard, find_by_token, make_callback_token, make_row
from bot.views.text import cut_lines
from rag_core.storage import Archive, channel_history, channels
from rag_core.storage.channels import ChannelStatus, fetch_channel_status
from rag_core.types import Channel, Visibility

_MAX_LISTED_TITLES = 10  # more are too much to read


def list_channel_titles(readable: Iterable[Channel], words: Translator) -> Text:
    """List channel titles, one per line, public ones as links; a long list ends in "and N more"."""
    lines = [
        Text("• ", make_link(format_channel_title(one, words), f"https://t.me/{one.username}" if one.username else ""))
        for one in sorted(readable, key=lambda channel: channel.title.casefold())
    ]
    return as_list(*cut_lines(lines, _MAX_LISTED_TITLES, words))


def make_channel_token(archive: Archive, chat_id: int) -> str:
    """Token of a channel in this archive: eight characters, the same after a restart, and it cannot be forged."""
    return make_callback_token(str(chat_id), archive.identity)


def find_channel_by_token(archive: Archive, token: str, known: Mapping[int, Channel]) -> Channel | None:
    """Find the known channel that a token stands for."""
    return find_by_token(token, {str(chat_id): channel for chat_id, channel in known.items()}, archive.identity)


async def find_pressed_channel(data: Press, context: AppContext, words: Translator) -> Channel:
    """Channel of a button. Raises Refusal where it is gone."""
    channel = find_channel_by_token(context.archive, data.token, await channels.load_channels(context.archive))
    if channel is None:
        raise Refusal(words("channel-gone"))
    return channel


_MAX_GAPS = 5  # shown one by one; further ones add nothing


def awaits_approval(channel: Channel) -> bool:
    """Check that an admin has to approve the channel; also true for one that was removed and goes on posting."""
    return channel.state in ("pending", "removed")


@dataclass(frozen=True, slots=True)
class ChannelView:
    """Channel with the data that its card shows."""

    channel: Channel
    stands: ChannelStatus
    gaps: Sequence[channel_history.Gap]


async def load_channel_views(context: AppContext, channels: Iterable[Channel]) -> list[ChannelView]:
    """Load the views of channels, with what both legs have indexed."""
    archive, gaps = context.archive, await channel_history.list_open_gaps(context.archive)
    watermark, store = context.rag.lexical.watermark, context.rag.dense.store if context.rag.dense else None
    return [
        ChannelView(one, await fetch_channel_status(archive, one.chat_id, watermark, store), gaps.get(one.chat_id, ()))
        for one in channels
    ]


def render_channel_line(view: ChannelView, context: AppContext, words: Translator) -> Text:
    """Render a channel's line in the list."""
    channel, stands, approved = view.channel, view.stands, not awaits_approval(view.channel)
    guarded = "channel-guarded-in" if channel.guarded_too else "channel-guarded-out"
    facts: list[object] = [
        words("channel-posts", count=stands.posts),
        words("channel-state", state=channel.state if approved else "pending"),
        approved and words("channel-visibility", visibility=channel.visibility.value),
        channel.bindable and words("channel-bindable"),
        stands.last and words("channel-last", date=words.date(stands.last, context.settings.bot.zone)),
        not channel.inside and words("channel-left" if stands.left else "channel-outside"),
        view.gaps and words("channel-gaps", count=len(view.gaps)),
        stands.guarded and words(guarded, count=stands.guarded),
        stands.lexical and words("channel-unread", count=stands.lexical),
        stands.dense and words("channel-unembedded", count=stands.dense),
    ]
    return Text(link_channel_title(channel, words), "\n", " · ".join(str(fact) for fact in facts if fact))


def render_channel_card(view: ChannelView, context: AppContext, words: Translator) -> View:
    """Render a channel's card, with its buttons, and where posts may be missing the ways to add them."""
    channel, approved = view.channel, not awaits_approval(view.channel)
    blocks = [render_channel_line(view, context, words)]
    if view.gaps:
        times = [format_gap(gap, words, context.settings.bot.zone) for gap in view.gaps]
        blocks.append(Text(words("channel-missing", times="; ".join(cut_lines(times, _MAX_GAPS, words)))))
        if not context.history:
            blocks.append(Text(words("history-ways"), "\n", words.rich("gaps-fill")))
    blocks.append(Text(words("channel-ask-visibility"), "\n", words("channel-members-note")))
    hidden = approved and channel.visibility is not Visibility.PUBLIC  # a public one may be bound anyway
    switches = {
        "button-unbindable": channel.bindable,
        "button-bindable": not channel.bindable and hidden,
        "button-guarded-out": channel.guarded_too,
        "button-guarded-in": not channel.guarded_too and view.stands.guarded,
        "button-resume": channel.state == "paused",
        "button-pause": channel.state != "paused" and approved,
        "button-history": context.history and approved,
        "button-remove": True,
    }
    token = make_channel_token(context.archive, channel.chat_id)
    rows = [_make_channel_row(name, token, words) for name, shown in switches.items() if shown]
    buttons = build_keyboard(_build_visibility_row(token, words), *rows, make_row(words("button-back"), "channels"))
    return View(as_list(*blocks, sep="\n\n"), buttons=buttons)


def build_approval_keyboard(archive: Archive, chat_id: int, words: Translator) -> InlineKeyboardMarkup | None:
    """Buttons of a channel that waits for approval: choose its readers, or refuse it."""
    token = make_channel_token(archive, chat_id)
    return build_keyboard(_build_visibility_row(token, words), _make_channel_row("button-remove", token, words))


def _build_visibility_row(token: str, words: Translator) -> list[LabelledPress]:
    names = ("button-public", "button-members", "button-admins")
    return [press for name in names for press in _make_channel_row(name, token, words)]


def _make_channel_row(name: str, token: str, words: Translator) -> list[LabelledPress]:
    return make_row(words(name), name.replace("button", "channel"), token)


def format_gap(gap: channel_history.Gap, words: Translator, zone: tzinfo) -> str:
    """Format the period in which posts may be missing."""
    until = words.date(gap.until, zone)
    if gap.since is None:
        return words("gap-before", until=until)
    return words("date-between", since=words.date(gap.since, zone), until=until)
