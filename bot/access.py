"""Who may read what: worked out anew for every question, and closed where anything is unclear.

In private an admin reads every active channel, everybody else the public ones and those channels for members
that they are in now, as Telegram says (members.py). Where the bot is not inside, as after an import, nobody can
say who is a member: such a channel is for admins until it is public or bound to a group. A group reads the
channels bound to it, whoever asks there. A channel that waits for approval is read by nobody.
"""

from __future__ import annotations

from collections.abc import Collection

from aiogram.types import Message

from bot.rights import Rights
from bot.words import Words
from rag_core.doors.archive import Archive, channels
from rag_core.types import Channel, Viewer, Visibility

__all__ = ["closed", "inside", "is_admin", "readable", "reader_of", "viewer_for"]


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
    active = {key: c for key, c in (await channels.known(archive)).items() if c.state == "active"}
    if not private:
        bound = await channels.bound(archive, chat_id)
        return {key: channel for key, channel in active.items() if key in bound}
    if user_id in rights:
        return active
    inside = [key for key, c in active.items() if c.visibility is Visibility.MEMBERS and c.inside]
    member = await rights.members.among(user_id, inside)
    return {key: c for key, c in active.items() if c.visibility is Visibility.PUBLIC or key in member}


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
