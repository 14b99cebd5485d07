"""Access control: which channels a reader may read, worked out anew for every question; and who is an admin.

In a private chat an admin reads every active channel. Everybody else reads the public channels, and those channels
for members where Telegram says now that they are a member (bot/membership.py). Where the bot is not in a channel,
as after an import, membership is unknown: such a channel is for admins until it is public or bound to a group. A
group reads the channels bound to it, whoever asks. Nobody reads a channel that waits for approval. Access is denied
wherever anything is unclear.

Admins are those of the settings, whom nobody can revoke, and those that they appointed with /grant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from aiogram.types import Chat, Message

from bot.i18n import Translator
from bot.membership import MembershipCache
from bot.settings import is_person
from rag_core.storage import Archive, channels, users
from rag_core.storage.users import AdminGrant
from rag_core.types import Channel, Viewer, Visibility

__all__ = [
    "AdminRegistry",
    "ChannelAccess",
    "build_viewer",
    "format_no_access",
    "get_readable_channels",
    "get_reader_id",
    "is_admin",
    "is_chat_member",
    "is_group_admin",
    "may_change_chat_settings",
    "resolve_channel_access",
]


class AdminRegistry(Collection[int]):
    """Admin ids (from the settings and granted with /grant), with the membership cache as `members`."""

    def __init__(self, owners: Collection[int], members: MembershipCache) -> None:
        """Set the owners: admins of the settings, whom nobody can revoke. Call `read` next."""
        self.owners = tuple(dict.fromkeys(filter(is_person, owners)))
        self.members = members
        self._granted: dict[int, AdminGrant] = {}

    def __contains__(self, user_id: object) -> bool:
        return is_person(user_id) and (user_id in self.owners or user_id in self._granted)

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys((*self.owners, *self._granted)))

    def __len__(self) -> int:
        return len(dict.fromkeys((*self.owners, *self._granted)))

    @property
    def granted(self) -> Mapping[int, AdminGrant]:
        """Granted admins by user id."""
        return self._granted

    async def read(self, archive: Archive) -> None:
        """Load the granted admins from the archive. Raises ArchiveUnavailable."""
        self._granted = {one.user_id: one for one in await users.list_admin_grants(archive) if is_person(one.user_id)}

    async def grant(self, archive: Archive, user_id: int, by: int) -> None:
        """Grant admin rights to a user.

        Raises ArchiveUnavailable (then nothing has changed) and ValueError where the id is not a person's.
        """
        if not is_person(user_id):
            raise ValueError(f"{user_id} is no id of a person")
        await users.grant_admin(archive, user_id, by)
        await self.read(archive)

    async def revoke(self, archive: Archive, user_id: int) -> None:
        """Revoke granted admin rights at once; an admin of the settings stays one."""
        self._granted.pop(user_id, None)
        await users.revoke_admin(archive, user_id)


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """Channels open to a reader, and the ids of channels for members where Telegram does not report the membership."""

    open: dict[int, Channel]
    unknown: frozenset[int] = frozenset()


def get_reader_id(message: Message) -> int:
    """Reader id of a message. Channels and anonymous admins write as a chat: its negative id is never an admin's."""
    if message.sender_chat:
        return message.sender_chat.id
    return message.from_user.id if message.from_user else message.chat.id


def is_admin(message: Message, admins: Collection[int]) -> bool:
    """Check that an admin wrote the message under their own name; false for anonymous admins and channels."""
    user = message.from_user
    return message.sender_chat is None and user is not None and not user.is_bot and user.id in admins


async def is_group_admin(rights: AdminRegistry, user_id: int, group_id: int) -> bool:
    """Check whether a user may change the group's settings: its owner, an administrator, or an admin of the bot."""
    return user_id in rights or await rights.members.leads(user_id, group_id)


async def may_change_chat_settings(rights: AdminRegistry, chat: Chat, user_id: int) -> bool:
    """Check who may change a chat's settings: its user or, in a group, an admin under their own name."""
    return chat.type == "private" or await is_group_admin(rights, user_id, chat.id)


async def is_chat_member(rights: AdminRegistry, *, user_id: int, chat_id: int) -> bool:
    """Check that a user is in a chat now: buttons in a public group can be pressed from outside."""
    return bool(await rights.members.among(user_id, [chat_id]))


async def get_readable_channels(
    archive: Archive, rights: AdminRegistry, *, user_id: int, chat_id: int, private: bool
) -> dict[int, Channel]:
    """Channels that a reader may read in a chat, by chat id."""
    return (await resolve_channel_access(archive, rights, user_id=user_id, chat_id=chat_id, private=private)).open


async def resolve_channel_access(  # noqa: PLR0913 - one parameter for each fact that access depends on
    archive: Archive,
    rights: AdminRegistry,
    *,
    user_id: int,
    chat_id: int,
    private: bool,
    among: Collection[int] | None = None,
    max_age_s: float | None = None,
) -> ChannelAccess:
    """Resolve which channels a reader may read in a chat, of all or of `among`.

    `max_age_s` as in `MembershipCache.look_up`.
    """
    known = await channels.load_channels(archive)
    active = {key: c for key, c in known.items() if c.state == "active" and (among is None or key in among)}
    if not private:
        bound = await channels.list_bound_channels(archive, chat_id)
        return ChannelAccess({key: channel for key, channel in active.items() if key in bound})
    if user_id in rights:
        return ChannelAccess(active)
    inside = [key for key, c in active.items() if c.visibility is Visibility.MEMBERS and c.inside]
    member = await rights.members.look_up(user_id, inside, max_age_s)
    allowed = {key: c for key, c in active.items() if c.visibility is Visibility.PUBLIC or member.get(key)}
    return ChannelAccess(allowed, frozenset(key for key, is_in in member.items() if is_in is None))


async def build_viewer(archive: Archive, rights: AdminRegistry, *, user_id: int, chat_id: int, private: bool) -> Viewer:
    """Build the viewer of a question: the reader's id and the channels open to them."""
    allowed = await get_readable_channels(archive, rights, user_id=user_id, chat_id=chat_id, private=private)
    return Viewer(user_id, frozenset(allowed))


async def format_no_access(archive: Archive, words: Translator, *, admin: bool, private: bool) -> str:
    """Sentence for a reader who may read no channel: the one thing to do about it."""
    if not private:
        return words("none-visible-group", bind="/bind", settings="/settings")
    if not admin:
        return words("none-visible-reader")
    waiting = any(channel.state == "pending" for channel in (await channels.load_channels(archive)).values())
    return words("none-visible-pending", channels="/channels") if waiting else words("none-visible-admin")
