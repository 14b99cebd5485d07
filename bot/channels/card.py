"""A channel as an admin sees it: one line in the list, or a card with everything that can be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aiogram.types import InlineKeyboardMarkup
from aiogram.utils.formatting import Text, as_list

from bot.channels.buttons import Act, Press, keyboard, mark_of
from bot.desk import Desk
from bot.telling import gap_between
from bot.titles import titled
from bot.words import Words
from rag_core.doors.archive import Archive, gaps
from rag_core.doors.archive.gaps import Gap
from rag_core.doors.archive.standing import Standing, standing
from rag_core.types import Channel, Visibility

__all__ = ["View", "approval", "card", "line", "view_of", "waits"]

_MOST_GAPS = 5  # told one by one; more of them say no more

_Row = list[tuple[str, Press]]


def waits(channel: Channel) -> bool:
    """True for a channel that an admin has to approve: also one that was removed and went on posting."""
    return channel.state in ("pending", "removed")


@dataclass(frozen=True, slots=True)
class View:
    """A channel with what is shown of it."""

    channel: Channel
    stands: Standing
    gaps: Sequence[Gap]


async def view_of(desk: Desk, channels: Iterable[Channel]) -> list[View]:
    """The channels as both legs have them now."""
    found = await gaps.open_gaps(desk.archive)
    mark, store = desk.rag.lexical.watermark, desk.rag.dense.store if desk.rag.dense else None
    return [View(c, await standing(desk.archive, c.chat_id, mark, store), found.get(c.chat_id, ())) for c in channels]


def line(view: View, desk: Desk, words: Words) -> Text:
    """The channel in the list."""
    return Text(titled(view.channel, words), "\n", " · ".join(_facts(view, desk, words)))


def card(view: View, desk: Desk, words: Words) -> tuple[Text, InlineKeyboardMarkup]:
    """The channel alone, with its buttons."""
    blocks = [line(view, desk, words), *_holes(view, desk, words)]
    blocks.append(Text(words("channel-ask-visibility"), "\n", words("channel-members-note")))
    mark = mark_of(desk.archive, view.channel.chat_id)
    rows = [*_who(mark, words), *_switches(mark, view, words)]
    back: _Row = [(words("button-back"), Press(act=Act.LIST))]
    remove: _Row = [(words("button-remove"), Press(act=Act.ASK_REMOVE, mark=mark))]
    return as_list(*blocks, sep="\n\n"), keyboard(*rows, remove, back)


def _holes(view: View, desk: Desk, words: Words) -> Iterator[Text]:
    """Where posts may be missing, and how to fill it: a bot cannot read back."""
    if not view.gaps:
        return
    times = [gap_between(gap, words, desk.settings.bot) for gap in view.gaps[:_MOST_GAPS]]
    if more := len(view.gaps) - len(times):
        times.append(words("titles-more", more=more))
    yield Text(words("channel-missing", times="; ".join(times)), "\n", words.rich("gaps-fill"))


def approval(archive: Archive, chat_id: int, words: Words) -> InlineKeyboardMarkup:
    """The buttons of a channel that waits: who may read it, or away with it."""
    mark = mark_of(archive, chat_id)
    return keyboard(*_who(mark, words), [(words("button-remove"), Press(act=Act.ASK_REMOVE, mark=mark))])


def _who(mark: str, words: Words) -> list[_Row]:
    return [
        [
            (words("button-public"), Press(act=Act.PUBLIC, mark=mark)),
            (words("button-members"), Press(act=Act.MEMBERS, mark=mark)),
            (words("button-admins"), Press(act=Act.ADMINS, mark=mark)),
        ]
    ]


def _switches(mark: str, view: View, words: Words) -> Iterator[_Row]:
    channel = view.channel
    if channel.bindable:
        yield [(words("button-unbindable"), Press(act=Act.UNBINDABLE, mark=mark))]
    elif not waits(channel) and channel.visibility is not Visibility.PUBLIC:  # what is public may be bound anyway
        yield [(words("button-bindable"), Press(act=Act.BINDABLE, mark=mark))]
    if channel.guarded_too:
        yield [(words("button-guarded-out"), Press(act=Act.GUARDED_OUT, mark=mark))]
    elif view.stands.guarded:
        yield [(words("button-guarded-in"), Press(act=Act.GUARDED_IN, mark=mark))]
    if channel.state == "paused":
        yield [(words("button-resume"), Press(act=Act.RESUME, mark=mark))]
    elif not waits(channel):
        yield [(words("button-pause"), Press(act=Act.PAUSE, mark=mark))]


def _facts(view: View, desk: Desk, words: Words) -> Iterator[str]:
    channel, stands = view.channel, view.stands
    yield words("channel-posts", count=stands.posts)
    yield words("channel-state", state="pending" if waits(channel) else channel.state)
    if not waits(channel):
        yield words("channel-visibility", visibility=channel.visibility.value)
    if channel.bindable:
        yield words("channel-bindable")
    if stands.last:
        yield words("channel-last", date=words.date(stands.last, desk.settings.bot.zone))
    if not channel.inside:
        yield words("channel-left" if stands.left else "channel-outside")
    if view.gaps:
        yield words("channel-gaps", count=len(view.gaps))
    if stands.guarded:
        shown = "channel-guarded-in" if channel.guarded_too else "channel-guarded-out"
        yield words(shown, count=stands.guarded)
    if stands.lexical:
        yield words("channel-unread", count=stands.lexical)
    if stands.dense:
        yield words("channel-unembedded", count=stands.dense)
