"""Access control: which channels a reader may read, worked out anew for every question; and who is an admin.

In a private chat an admin reads every active channel, everybody else the public ones and those for members where
Telegram says now that they are a member. A group reads the channels bound to it, whoever asks. Access is denied
wherever anything is unclear, and the reader is told how many of the channels that they were known to be in could not be
looked at; of other channels only that Telegram does not answer, whether there are any or not.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import Chat, ChatMemberRestricted, ChatMemberUpdated, Message, ResultChatMemberUnion
from cachetools import LRUCache, TTLCache

from bot.background import cancel_tasks, spawn
from bot.i18n import Translator
from bot.settings import is_person
from bot.views.text import format_shortfalls
from rag_core.llm.turns import FairScheduler
from rag_core.storage import Archive, channels, readers
from rag_core.storage.channel_history import UPDATE_RETENTION
from rag_core.storage.questions import QuestionRow
from rag_core.types import Channel, Viewer, Visibility

# For finding posts. Before a message is sent Telegram is asked again (bot/telegram/recheck.py): a user
# who left without an update reaching the bot sees nothing more, except drafts of the next seconds.
_MEMBER_TTL_SECONDS = 240.0
_ADMIN_TTL_SECONDS = 60.0
_OUTSIDER_TTL_SECONDS = 30.0  # short: a user who just joined may come without an update
# Older answers are asked for anew, so many per question, and count meanwhile: the bot is an administrator of every
# channel that it asks about, and learns of changes by updates, which Telegram keeps as long.
_MAX_REFRESHED = 20
_MAX_AGE_SECONDS = UPDATE_RETENTION.total_seconds()
# https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
_CALLS_A_SECOND = 30
_TIMEOUT_SECONDS = 3.0  # of one call
_LOOK_UP_SECONDS = 15.0  # for some 300 channels; the rest is asked in the background
_MAX_CACHED = 50_000
_STORED_SECONDS = 3600  # a stored membership is not written again before

ADMIN_STATUSES = {"creator", "administrator"}

log = logging.getLogger(__name__)

_ChatUserPair = tuple[int, int]  # chat id, user id


@dataclass(frozen=True, slots=True)
class _MemberStatus:
    inside: bool
    leads: bool
    at: float


class Refusal(Exception):
    """Refusal of a command or a button: the error handler shows its sentence; without one nothing is said."""


class MembershipCache:
    """Membership cache: what Telegram said of users in chats, also in the archive, where there is one; `close` it."""

    def __init__(self, bot: Bot, clock: Callable[[], float] = time.monotonic, archive: Archive | None = None) -> None:
        self._bot, self._clock, self._archive = bot, clock, archive
        self._cached: LRUCache[_ChatUserPair, _MemberStatus] = LRUCache(_MAX_CACHED)
        # as long as an answer that dates from before the change may be under way
        self._changed_at: TTLCache[_ChatUserPair, float] = TTLCache(_MAX_CACHED, 2 * _TIMEOUT_SECONDS, timer=clock)
        self._latest_updates: LRUCache[_ChatUserPair, int] = LRUCache(_MAX_CACHED)
        # by user: chats, and when the user was seen there
        self._stored: LRUCache[int, dict[int, int]] = LRUCache(_MAX_CACHED)
        self._turns = FairScheduler(_CALLS_A_SECOND)
        self._asking: dict[_ChatUserPair, asyncio.Future[_MemberStatus | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def look_up(
        self, user_id: int, chats: Collection[int], max_age_s: float | None = None
    ) -> dict[int, bool | None]:
        """Look up whether this user is in each of the chats; None where Telegram does not say in time.

        All chats of which nothing is known are asked about, and of the others a few whose answers are old. With
        `max_age_s` every older answer is asked for anew; 0 asks about each chat. Raises ArchiveUnavailable.
        """
        if user_id <= 0:  # a channel or an anonymous admin: never a member
            return dict.fromkeys(chats, False)
        if self._archive is not None and user_id not in self._stored:
            seen = self._stored[user_id] = await readers.load_memberships(self._archive, user_id)
            wall, now = time.time(), self._clock()
            for chat, at in seen.items():
                status = _MemberStatus(inside=True, leads=False, at=now - max(0.0, wall - at))
                self._cached.setdefault((chat, user_id), status)
        found = {(chat, user_id): self._cached.get((chat, user_id)) for chat in chats}
        old = [pair for pair, status in found.items() if not self._is_fresh(status, max_age_s)]
        if max_age_s is None:
            now = self._clock()
            known = {pair: now - status.at for pair, status in found.items() if status}
            unknown = [pair for pair in old if known.get(pair, _MAX_AGE_SECONDS) >= _MAX_AGE_SECONDS]
            aged = sorted(set(old).difference(unknown), key=lambda pair: -known[pair])
            old = [*unknown, *aged[:_MAX_REFRESHED]]
        asked = await self._ask(old, user_id if max_age_s is None else None)
        found.update({pair: asked.get(pair) for pair in old})
        await self._store(user_id, {chat: status.inside for (chat, _), status in asked.items()})
        return {chat: status.inside if status else None for (chat, _), status in found.items()}

    async def leads(self, user_id: int, chat_id: int) -> bool:
        """Check whether this user owns or administers the chat now."""
        pair = (chat_id, user_id)
        if user_id <= 0:
            return False
        status = self._cached.get(pair)
        if not self._is_fresh(status, _ADMIN_TTL_SECONDS):
            status = (await self._ask([pair], None)).get(pair)
        return status is not None and status.leads

    def was_inside(self, user_id: int, chat_id: int) -> bool:
        """Whether this user was in the chat when Telegram last said so, however long ago."""
        status = self._cached.get((chat_id, user_id))
        return status is not None and status.inside

    async def record(self, event: ChatMemberUpdated, update_id: int) -> None:
        """Record a change, unless its update is outdated: they are handled concurrently. Raises ArchiveUnavailable."""
        member = event.new_chat_member
        chat_id, user_id = pair = event.chat.id, member.user.id
        if update_id < self._latest_updates.get(pair, 0):
            return
        self._latest_updates[pair] = update_id
        self.forget(chat_id, user_id)
        age = max(0.0, time.time() - event.date.timestamp())
        inside = _is_inside(member)
        self._cached[pair] = _MemberStatus(inside, member.status in ADMIN_STATUSES, self._clock() - age)
        if user_id in self._stored:  # a person who asks
            await self._store(user_id, {chat_id: inside})
        elif self._archive is not None and not inside:
            await readers.save_memberships(self._archive, user_id, datetime.now(UTC), (), [chat_id])

    def forget(self, chat_id: int, user_id: int) -> None:
        """Drop what is known of this user: cached entries and answers under way are out of date."""
        self._cached.pop((chat_id, user_id), None)
        self._changed_at[chat_id, user_id] = self._clock()

    def forget_user(self, user_id: int) -> None:
        """Drop everything about a user whose data is erased."""
        self._stored.pop(user_id, None)
        for pair in [pair for pair in self._cached if pair[1] == user_id]:
            del self._cached[pair]

    async def close(self) -> None:
        """Stop asking."""
        await cancel_tasks(self._tasks)

    def _is_fresh(self, status: _MemberStatus | None, max_age_s: float | None) -> bool:
        if status is None:
            return False
        lifetime = _MEMBER_TTL_SECONDS if max_age_s is None else max_age_s
        return self._clock() - status.at < (lifetime if status.inside else min(lifetime, _OUTSIDER_TTL_SECONDS))

    async def _store(self, user_id: int, said: dict[int, bool]) -> None:
        """Store where a user is in, unless that was stored in the last hour, and delete where they are not."""
        if self._archive is None:
            return
        known, now = self._stored.setdefault(user_id, {}), datetime.now(UTC)
        seen_at = int(now.timestamp())
        # the chat with the bot itself is no membership
        current = {chat for chat, at in known.items() if at >= seen_at - _STORED_SECONDS}
        entered = [chat for chat, inside in said.items() if inside and chat < 0 and chat not in current]
        left = [chat for chat, inside in said.items() if not inside and chat in known]
        if entered or left:
            await readers.save_memberships(self._archive, user_id, now, entered, left)
            known.update(dict.fromkeys(entered, seen_at))
            for chat in left:
                known.pop(chat, None)

    async def _ask(self, pairs: Collection[_ChatUserPair], reader: int | None) -> dict[_ChatUserPair, _MemberStatus]:
        """Ask Telegram about each pair, in fair turns of the readers; without a reader anew, and before all others.

        Those without an answer in time are left out, and are asked about in the background; where Telegram answers
        nothing at all, the rest is not asked about.
        """
        answers: dict[_ChatUserPair, asyncio.Future[_MemberStatus | None]] = {}
        for pair in pairs:
            shared = self._asking.get(pair) if reader is not None else None
            answers[pair] = shared or self._start_asking(pair, reader)
        found: dict[_ChatUserPair, _MemberStatus] = {}
        waiting, until = set(answers.values()), time.monotonic() + _LOOK_UP_SECONDS
        while waiting and (left := until - time.monotonic()) > 0:
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            ended = {pair: one.result() for pair, one in answers.items() if one.done() and not one.cancelled()}
            found = {pair: status for pair, status in ended.items() if status}
            if done and not found:
                break
        if reader is None or not found:
            for answer in waiting:
                answer.cancel()
        if len(found) < len(answers):
            log.warning("Telegram did not say in time who is a member: %d chats stay closed", len(answers) - len(found))
        return found

    def _start_asking(self, pair: _ChatUserPair, reader: int | None) -> asyncio.Future[_MemberStatus | None]:
        """Start to ask about a pair in a turn of its own; cancelling the future ends that."""
        answer: asyncio.Future[_MemberStatus | None] = asyncio.get_running_loop().create_future()

        async def ask_in_turn() -> None:
            try:
                async with self._turns.acquire(reader):
                    status = await self._ask_one(pair)
                    if not answer.done():
                        answer.set_result(status)
                    await asyncio.sleep(1)  # each turn begins one call a second at most
            finally:
                answer.cancel()

        task = spawn(self._tasks, ask_in_turn())

        def end(_: object) -> None:
            if self._asking.get(pair) is answer:
                del self._asking[pair]
            if answer.cancelled():
                task.cancel()

        if reader is not None:
            self._asking[pair] = answer
        answer.add_done_callback(end)
        return answer

    async def _ask_one(self, pair: _ChatUserPair) -> _MemberStatus | None:
        began = self._clock()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                member = await self._bot.get_chat_member(*pair)
        except (TelegramBadRequest, TelegramForbiddenError) as exc:  # no such user, or the bot is not in the chat
            log.info("it is not known who is in chat %d: %s", pair[0], exc)
            status = _MemberStatus(inside=False, leads=False, at=began)
        except (TelegramAPIError, ClientDecodeError, TimeoutError) as exc:
            log.warning("it is not known who is in chat %d: %s", pair[0], type(exc).__name__)
            return None
        else:
            status = _MemberStatus(_is_inside(member), member.status in ADMIN_STATUSES, began)
        if self._changed_at.get(pair, float("-inf")) >= began:  # it may date from before the change
            return None
        self._cached[pair] = status
        return status


def _is_inside(member: ResultChatMemberUnion) -> bool:
    """Check a member's status: restricted users may be in or out; left, banned and unknown kinds are out."""
    if isinstance(member, ChatMemberRestricted):
        return member.is_member
    return member.status in {*ADMIN_STATUSES, "member"}


class AdminRegistry(Collection[int]):
    """Admin ids (of the settings and, in `grants`, those of /grant), with the membership cache as `members`."""

    def __init__(self, owners: Collection[int], members: MembershipCache, archive: Archive) -> None:
        """Set the owners: admins of the settings. Call `read` next."""
        self.archive = archive
        self.owners = tuple(dict.fromkeys(filter(is_person, owners)))
        self.members = members
        self.grants: dict[int, readers.AdminGrant] = {}

    def __contains__(self, user_id: object) -> bool:
        return is_person(user_id) and (user_id in self.owners or user_id in self.grants)

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys((*self.owners, *self.grants)))

    def __len__(self) -> int:
        return len({*self.owners, *self.grants})

    async def read(self) -> None:
        """Load the granted admins from the archive. Raises ArchiveUnavailable."""
        granted = await readers.list_admin_grants(self.archive)
        self.grants = {one.user_id: one for one in granted if is_person(one.user_id)}

    async def grant(self, user_id: int, by: int) -> None:
        """Grant admin rights. Raises ValueError for no person's id, ArchiveUnavailable (then nothing has changed)."""
        if not is_person(user_id):
            raise ValueError(f"{user_id} is no id of a person")
        await readers.grant_admin(self.archive, user_id, by)
        await self.read()

    async def revoke(self, user_id: int) -> None:
        """Revoke granted admin rights at once; an admin of the settings stays one."""
        self.grants.pop(user_id, None)
        await readers.revoke_admin(self.archive, user_id)


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """Channels open to a reader; channels for members where Telegram does not report the membership now, and of these
    the ones that the reader was a member of; whether the reader may be a member of channels that nobody knows of.
    """

    open: dict[int, Channel]
    unknown: frozenset[int] = frozenset()
    unconfirmed: frozenset[int] = frozenset()
    incomplete: bool = False

    def build_viewer(self, user_id: int) -> Viewer:
        """Build the viewer of these channels."""
        return Viewer(user_id, frozenset(self.open), self.unconfirmed, self.incomplete)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reader of a message and the chat it is in; in a group access is the group's, not the user's.

    `alone`: in a group nobody else sees the message, so that closed channels which the user may read are open, too.
    """

    user_id: int
    chat_id: int
    private: bool
    alone: bool = False


def get_question_reader(asked: QuestionRow) -> Reader:
    """Reader who asked a question."""
    return Reader(asked.user_id, asked.chat_id, asked.private, asked.asker_only)


def get_reader(message: Message) -> Reader:
    """Reader who wrote a message."""
    alone = message.ephemeral_message_id is not None
    return Reader(get_reader_id(message), message.chat.id, message.chat.type == "private", alone)


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


# Whoever is in the chat sees what is shared there: nobody's membership counts, nor that an admin asks.
EVERYBODY = Reader(0, 0, private=True)


async def list_public_channels(rights: AdminRegistry) -> frozenset[int]:
    """List the channels that everybody may read here, and that are public in Telegram, too."""
    readable = await get_readable_channels(rights, EVERYBODY)
    return frozenset(chat for chat, one in readable.items() if one.username)


async def resolve_channel_access(
    rights: AdminRegistry, reader: Reader, *, among: Collection[int] | None = None, max_age_s: float | None = None
) -> ChannelAccess:
    """Resolve which channels a reader may read in a chat, of all or of `among`; `max_age_s` as in `look_up`."""
    known = await channels.load_channels(rights.archive)
    active = {key: c for key, c in known.items() if c.state == "active" and (among is None or key in among)}
    if not reader.private:
        bound = await readers.list_bound_channels(rights.archive, reader.chat_id)
        shared = {key: channel for key, channel in active.items() if key in bound}
        if not reader.alone:
            return ChannelAccess(shared)
        in_private = Reader(reader.user_id, reader.user_id, private=True)
        own = await resolve_channel_access(rights, in_private, among=among, max_age_s=max_age_s)
        closed = {key: c for key, c in own.open.items() if c.visibility is not Visibility.PUBLIC}
        unknown, unconfirmed = own.unknown - shared.keys(), own.unconfirmed - shared.keys()
        return replace(own, open=shared | closed, unknown=unknown, unconfirmed=unconfirmed)
    if reader.user_id in rights:
        return ChannelAccess(active)
    inside = [key for key, c in active.items() if c.visibility is Visibility.MEMBERS and c.inside]
    # The chat with the reader is asked about as well: whether Telegram answers is known then, and told in the same
    # words, where there is no channel for members.
    asked = inside if among is not None else [*inside, reader.chat_id]
    member = await rights.members.look_up(reader.user_id, asked, max_age_s)
    allowed = {key: c for key, c in active.items() if c.visibility is Visibility.PUBLIC or member.get(key)}
    unknown = frozenset(key for key, is_in in member.items() if is_in is None)
    unconfirmed = frozenset(key for key in unknown & active.keys() if rights.members.was_inside(reader.user_id, key))
    return ChannelAccess(allowed, unknown, unconfirmed, incomplete=unknown > unconfirmed)


async def build_viewer(rights: AdminRegistry, reader: Reader) -> Viewer:
    """Build the viewer of a question: the reader's id, the channels open to them, and what is not known of these."""
    return (await resolve_channel_access(rights, reader)).build_viewer(reader.user_id)


def describe_shortfalls(viewer: Viewer, words: Translator) -> str:
    """Sentence on the channels that could not be looked at for a viewer; "" where there are none."""
    return "\n".join(format_shortfalls(viewer.list_shortfalls(), words))


async def format_no_access(rights: AdminRegistry, words: Translator, reader: Reader, viewer: Viewer) -> str:
    """Sentence for a reader who may read no channel: the one thing to do about it."""
    if missed := describe_shortfalls(viewer, words):
        return missed
    if not reader.private:
        return words("none-visible-group")
    if reader.user_id not in rights:
        return words("none-visible-reader")
    waiting = any(channel.state == "pending" for channel in (await channels.load_channels(rights.archive)).values())
    return words("none-visible-pending") if waiting else words("none-visible-admin")
