"""Access control: which channels a reader may read, worked out anew for every question; and who is an admin.

In a private chat an admin reads every active channel. Everybody else reads the public channels, and those channels
for members where Telegram says now that they are a member. Where the bot is not in a channel,
as after an import, membership is unknown: such a channel is for admins until it is public or bound to a group. A
group reads the channels bound to it, whoever asks. Nobody reads a channel that waits for approval. Access is denied
wherever anything is unclear.

Admins are those of the settings, whom nobody can revoke, and those that they appointed with /grant.

"In work: what is new?" asks only the channels of the chat's set "work", as far as the asker may read them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import Chat, ChatMemberRestricted, Message, ResultChatMemberUnion

from bot.i18n import Translator
from bot.settings import is_person
from rag_core.storage import Archive, channels, group_rules_and_bindings
from rag_core.storage.chat_and_admin_settings import (
    AdminGrant,
    grant_admin,
    list_admin_grants,
    load_channel_sets,
    revoke_admin,
)
from rag_core.storage.questions import QuestionRow
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Viewer, Visibility

# For finding posts. Before a message is sent Telegram is asked again (bot/telegram/recheck_before_sending.py): a user
# who left without an update reaching the bot sees nothing more, except drafts of the next seconds.
_MEMBER_TTL_SECONDS = 240.0
_ADMIN_TTL_SECONDS = 60.0
_OUTSIDER_TTL_SECONDS = 30.0  # short: a user who just joined may come without an update
_MAX_CALLS, _MAX_CONCURRENT_CALLS = 20, 5  # per question
_TIMEOUT_SECONDS = 3.0
_MAX_CACHED = 50_000

_ADMIN_STATUSES = {"creator", "administrator"}

log = logging.getLogger(__name__)

_ChatUserPair = tuple[int, int]  # chat id, user id


@dataclass(frozen=True, slots=True)
class _MemberStatus:
    """Membership of a user in a chat at a moment of the clock."""

    inside: bool
    leads: bool
    at: float


class Refusal(Exception):
    """Refusal of a command or a button: the error handler shows its sentence; without one nothing is said."""


class MembershipCache:
    """Membership cache. Call `forget` at every update about a user."""

    def __init__(self, bot: Bot, clock: Callable[[], float] = time.monotonic) -> None:
        self._bot = bot
        self._clock = clock
        self._cached: dict[_ChatUserPair, _MemberStatus] = {}
        self._changed_at: dict[_ChatUserPair, float] = {}

    async def look_up(
        self, user_id: int, chats: Collection[int], max_age_s: float | None = None
    ) -> dict[int, bool | None]:
        """Look up whether this user is in each of the chats; None where Telegram does not say.

        The number of requests per question is limited. With `max_age_s` older entries are ignored; 0 asks about each
        chat anew, however many there are.
        """
        if user_id <= 0:  # a channel or an anonymous admin: never a member
            return dict.fromkeys(chats, False)
        max_age = _MEMBER_TTL_SECONDS if max_age_s is None else max_age_s
        known = {chat: self._get_cached((chat, user_id), max_age) for chat in chats}
        unknown = [(chat, user_id) for chat, status in known.items() if status is None]
        # with very many channels the next question asks about the others
        unknown.sort(key=lambda pair: self._cached[pair].at if pair in self._cached else float("-inf"))
        asked = await self._ask(unknown[:_MAX_CALLS] if max_age_s is None else unknown)
        found = {chat: status or asked.get((chat, user_id)) for chat, status in known.items()}
        return {chat: status.inside if status else None for chat, status in found.items()}

    async def leads(self, user_id: int, chat_id: int) -> bool:
        """Check whether this user owns or administers the chat now."""
        pair = (chat_id, user_id)
        if user_id <= 0:
            return False
        status = self._get_cached(pair, _ADMIN_TTL_SECONDS) or (await self._ask([pair])).get(pair)
        return status is not None and status.leads

    def forget(self, chat_id: int, user_id: int) -> None:
        """Drop what is known of this user: cached entries and answers under way are out of date."""
        now = self._clock()
        self._cached.pop((chat_id, user_id), None)
        if len(self._changed_at) >= _MAX_CACHED:
            self._changed_at = {pair: at for pair, at in self._changed_at.items() if now - at <= 2 * _TIMEOUT_SECONDS}
        self._changed_at[chat_id, user_id] = now

    def _get_cached(self, pair: _ChatUserPair, max_age: float) -> _MemberStatus | None:
        status = self._cached.get(pair)
        if status is None:
            return None
        lifetime = max_age if status.inside else min(max_age, _OUTSIDER_TTL_SECONDS)
        return status if self._clock() - status.at < lifetime else None

    async def _ask(self, pairs: Collection[_ChatUserPair]) -> dict[_ChatUserPair, _MemberStatus]:
        """Ask Telegram about each pair; those without an answer in time are left out."""
        found: dict[_ChatUserPair, _MemberStatus] = {}
        if not pairs:
            return found
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS), asyncio.TaskGroup() as group:
                for pair in pairs:
                    group.create_task(self._ask_one(pair, semaphore, found))
        except TimeoutError:
            log.warning("Telegram did not say in time who is a member: %d chats stay closed", len(pairs) - len(found))
        return found

    async def _ask_one(
        self, pair: _ChatUserPair, semaphore: asyncio.Semaphore, found: dict[_ChatUserPair, _MemberStatus]
    ) -> None:
        async with semaphore:
            began = self._clock()
            try:
                member = await self._bot.get_chat_member(*pair)
            except (TelegramBadRequest, TelegramForbiddenError) as exc:  # no such user, or the bot is not in the chat
                log.info("it is not known who is in chat %d: %s", pair[0], exc)
                status = _MemberStatus(inside=False, leads=False, at=began)
            except (TelegramAPIError, ClientDecodeError) as exc:
                log.warning("it is not known who is in chat %d: %s", pair[0], type(exc).__name__)
                return
            else:
                status = _MemberStatus(_is_inside(member), member.status in _ADMIN_STATUSES, began)
            if self._changed_at.get(pair, float("-inf")) < began:  # else it may date from before the change
                if len(self._cached) >= _MAX_CACHED:
                    fresh = {p: s for p, s in self._cached.items() if began - s.at < _MEMBER_TTL_SECONDS}
                    self._cached = fresh if len(fresh) < _MAX_CACHED else {}
                self._cached[pair] = found[pair] = status


def _is_inside(member: ResultChatMemberUnion) -> bool:
    """Check a member's status: restricted users may be in or out; left, banned and unknown kinds are out."""
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in {*_ADMIN_STATUSES, "member"}


class AdminRegistry(Collection[int]):
    """Admin ids (of the settings and, in `grants`, those of /grant), with the membership cache as `members`."""

    def __init__(self, owners: Collection[int], members: MembershipCache, archive: Archive) -> None:
        """Set the owners: admins of the settings, whom nobody can revoke. Call `read` next."""
        self.archive = archive
        self.owners = tuple(dict.fromkeys(filter(is_person, owners)))
        self.members = members
        self.grants: dict[int, AdminGrant] = {}

    def __contains__(self, user_id: object) -> bool:
        return is_person(user_id) and (user_id in self.owners or user_id in self.grants)

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys((*self.owners, *self.grants)))

    def __len__(self) -> int:
        return len({*self.owners, *self.grants})

    async def read(self) -> None:
        """Load the granted admins from the archive. Raises ArchiveUnavailable."""
        granted = await list_admin_grants(self.archive)
        self.grants = {one.user_id: one for one in granted if is_person(one.user_id)}

    async def grant(self, user_id: int, by: int) -> None:
        """Grant admin rights to a user.

        Raises ArchiveUnavailable (then nothing has changed) and ValueError where the id is not a person's.
        """
        if not is_person(user_id):
            raise ValueError(f"{user_id} is no id of a person")
        await grant_admin(self.archive, user_id, by)
        await self.read()

    async def revoke(self, user_id: int) -> None:
        """Revoke granted admin rights at once; an admin of the settings stays one."""
        self.grants.pop(user_id, None)
        await revoke_admin(self.archive, user_id)


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """Channels open to a reader, and the ids of channels for members where Telegram does not report the membership."""

    open: dict[int, Channel]
    unknown: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of a message and the chat it is in; in a group access is the group's, not the user's."""

    user_id: int
    chat_id: int
    private: bool


def get_question_reader(asked: QuestionRow) -> Reader:
    """Reader who asked a question."""
    return Reader(asked.user_id, asked.chat_id, asked.private)


def get_reader(message: Message) -> Reader:
    """Reader who wrote a message."""
    return Reader(get_reader_id(message), message.chat.id, message.chat.type == "private")


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


async def check_may_change_settings(rights: AdminRegistry, chat: Chat, user_id: int, refusal: str) -> None:
    """Check that a user may change a chat's settings: in a group its admins, under their own name. Raises Refusal."""
    if chat.type != "private" and not await is_group_admin(rights, user_id, chat.id):
        raise Refusal(refusal)


async def is_chat_member(rights: AdminRegistry, *, user_id: int, chat_id: int) -> bool:
    """Check that a user is in a chat now: buttons in a public group can be pressed from outside."""
    return bool((await rights.members.look_up(user_id, [chat_id]))[chat_id])


async def get_readable_channels(rights: AdminRegistry, reader: Reader) -> dict[int, Channel]:
    """Channels that a reader may read in a chat, by chat id."""
    return (await resolve_channel_access(rights, reader)).open


async def resolve_channel_access(
    rights: AdminRegistry,
    reader: Reader,
    *,
    among: Collection[int] | None = None,
    max_age_s: float | None = None,
) -> ChannelAccess:
    """Resolve which channels a reader may read in a chat, of all or of `among`.

    `max_age_s` as in `MembershipCache.look_up`.
    """
    known = await channels.load_channels(rights.archive)
    active = {key: c for key, c in known.items() if c.state == "active" and (among is None or key in among)}
    if not reader.private:
        bound = await group_rules_and_bindings.list_bound_channels(rights.archive, reader.chat_id)
        return ChannelAccess({key: channel for key, channel in active.items() if key in bound})
    if reader.user_id in rights:
        return ChannelAccess(active)
    inside = [key for key, c in active.items() if c.visibility is Visibility.MEMBERS and c.inside]
    member = await rights.members.look_up(reader.user_id, inside, max_age_s)
    allowed = {key: c for key, c in active.items() if c.visibility is Visibility.PUBLIC or member.get(key)}
    return ChannelAccess(allowed, frozenset(key for key, is_in in member.items() if is_in is None))


async def build_viewer(rights: AdminRegistry, reader: Reader) -> Viewer:
    """Build the viewer of a question: the reader's id and the channels open to them."""
    return Viewer(reader.user_id, frozenset(await get_readable_channels(rights, reader)))


async def format_no_access(archive: Archive, words: Translator, *, admin: bool, private: bool) -> str:
    """Sentence for a reader who may read no channel: the one thing to do about it."""
    if not private:
        return words("none-visible-group")
    if not admin:
        return words("none-visible-reader")
    waiting = any(channel.state == "pending" for channel in (await channels.load_channels(archive)).values())
    return words("none-visible-pending") if waiting else words("none-visible-admin")


MAX_SET_NAME_LENGTH = 30
# With a preposition, which is no term.
_SET_PREFIX_PATTERN = re.compile(rf"([^\n:]{{1,{MAX_SET_NAME_LENGTH + 10}}}):\s*(?=\S)")


async def narrow_to_channel_set(archive: Archive, chat_id: int, text: str, viewer: Viewer) -> tuple[str, Viewer]:
    """Narrow a question that begins with the name of a set of this chat; any other question stays as it is.

    Returns the question without this name, and its viewer with the channels of the set that they may read.
    """
    found = _SET_PREFIX_PATTERN.match(text)
    if found and (asked := tokenize(found[1])):
        for name, chosen in (await load_channel_sets(archive, chat_id)).items():
            if tokenize(name) == asked:  # "в работе" names the set "работа"
                return text[found.end() :], replace(viewer, channels=viewer.channels & chosen)
    return text, viewer
