"""Who may read what: worked out anew for every question, and closed where anything is unclear.

In private an admin reads every active channel, everybody else the public ones and those channels for members
that they are in now, as Telegram says (members.py). Where the bot is not inside, as after an import, nobody can
say who is a member: such a channel is for admins until it is public or bound to a group. A group reads the
channels bound to it, whoever asks there. A channel that waits for approval is read by nobody.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aiogram.types import Message

from bot.rights import Rights
from bot.words import Words
from rag_core.doors.archive import Archive, channels
from rag_core.types import Channel, Viewer, Visibility

__all__ = ["Access", "closed", "inside", "is_admin", "look_up", "readable", "reader_of", "viewer_for"]


@dataclass(frozen=True, slots=True)
class Access:
    """The channels that are open to an asker, and the ids of those of which Telegram does not say whether they are."""

    open: dict[int, Channel]
    unknown: frozenset[int] = frozenset()


def reader_of(message: Message) -> int:
    """The id of who asks. Channels and anonymous admins write as a chat: its negative id is never an admin's."""
    if message.sender_chat:
        return message.sender_chat.id
    return message.from_user.id if message.from_user else message.chat.id


def is_admin(message: Message, admins: Collection[int]) -> bool:
    """True for a message that an admin wrote under their own name, never for an anonymous admin or a channel."""
    user = message.from_user
    return message.sender_chat is None and user is not None and not user.is_bot and user.id in admins


async def inside(rights: Rights, *, user_id: int, chat_id: int) -> bool:
    """Whether a user is in a chat now: buttons of a public group can be pressed from outside."""
    return bool(await rights.members.among(user_id, [chat_id]))


async def readable(
    archive: Archive, rights: Rights, *, user_id: int, chat_id: int, private: bool
) -> dict[int, Channel]:
    """The channels that this asker may read in this chat, by chat id."""
    return (await look_up(archive, rights, user_id=user_id, chat_id=chat_id, private=private)).open


async def look_up(  # noqa: PLR0913 - an asker has as many parts as it has
    archive: Archive,
    rights: Rights,
    *,
    user_id: int,
    chat_id: int,
    private: bool,
    among: Collection[int] | None = None,
    max_age_s: float | None = None,
) -> Access:
    """Which channels this asker may read in this chat, of all or `among` some; `max_age_s` as in `Members.look_up`."""
    known = await channels.known(archive)
    active = {key: c for key, c in known.items() if c.state == "active" and (among is None or key in among)}
    if not private:
        bound = await channels.bound(archive, chat_id)
        return Access({key: channel for key, channel in active.items() if key in bound})
    if user_id in rights:
        return Access(active)
    inside = [key for key, c in active.items() if c.visibility is Visibility.MEMBERS and c.inside]
    member = await rights.members.look_up(user_id, inside, max_age_s)
    allowed = {key: c for key, c in active.items() if c.visibility is Visibility.PUBLIC or member.get(key)}
    return Access(allowed, frozenset(key for key, is_in in member.items() if is_in is None))


async def viewer_for(archive: Archive, rights: Rights, *, user_id: int, chat_id: int, private: bool) -> Viewer:
    """The viewer of a question: who asks, and the channels spelt out."""
    allowed = await readable(archive, rights, user_id=user_id, chat_id=chat_id, private=private)
    return Viewer(user_id, frozenset(allowed))


async def closed(archive: Archive, words: Words, *, admin: bool, private: bool) -> str:
    """What to tell an asker who may read nothing: the one thing to do about it."""
    if not private:
        return words("none-visible-group", bind="/bind", settings="/settings")
    if not admin:
        return words("none-visible-reader")
    waiting = any(channel.state == "pending" for channel in (await channels.known(archive)).values())
    return words("none-visible-pending", channels="/channels") if waiting else words("none-visible-admin")
