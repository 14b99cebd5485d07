"""Sandbox state: users, chats, rights in them, messages, drafts, reactions, files, and the queue of updates.

Messages are kept as Bot API objects. A changed message is a new object, so that an update that is already queued
shows the message as it was. The queue is that behind getUpdates (https://core.telegram.org/bots/api#getupdates); to a
webhook nothing is sent from here: the demo's bot asks for its updates.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path, PurePath
from secrets import token_urlsafe
from typing import NamedTuple

from aiogram.enums import UpdateType
from aiogram.types import AcceptedGiftTypes, ChatMember, ChatMemberAdministrator, ChatMemberRestricted, Update

from bot.sandbox.messages import BotApiError, Json, bad_request, build_post_message, drop_empty, extract_entity_text
from rag_core.types import Post

SAMPLE_CHANNELS_FOLDER = Path(__file__).parent / "channels"


class ChangeNotifier:
    """Condition for tasks of one event loop: one ring wakes all that wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait up to `seconds` for `true()`, checked again after each ring; returns its last value."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not true():
                    await self._event.wait()
        return true()


def _list_rights(member: type[ChatMember]) -> list[str]:
    return [name for name, field in member.model_fields.items() if name.startswith("can_") and field.is_required()]


@dataclass(slots=True)
class SandboxUser:
    """A user or the bot. `started`: has opened the private chat; `blocked`: has blocked the bot."""

    id: int
    first_name: str
    username: str | None = None
    lang: str | None = "en"
    is_bot: bool = False
    started: bool = False
    blocked: bool = False

    def wire(self) -> Json:
        """Convert to a Bot API `User`."""
        about = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        return about | drop_empty(username=self.username, language_code=self.lang)


class Membership(NamedTuple):
    """Membership in a chat; `status` is the Bot API's, `is_member` matters for `restricted` only."""

    status: str
    is_member: bool = True

    @property
    def inside(self) -> bool:
        """Whether the member can read the chat's messages."""
        return self.is_member if self.status == "restricted" else self.leads or self.status == "member"

    @property
    def leads(self) -> bool:
        """Whether the member is the owner or an administrator."""
        return self.status in {"creator", "administrator"}

    def wire(self, person: SandboxUser, kind: str) -> Json:
        """Convert to a Bot API `ChatMember` in a chat of this kind."""
        fields: Json = {"status": self.status, "user": person.wire()}
        if self.status == "creator":
            return fields | {"is_anonymous": False}
        if self.status == "administrator":
            more_rights = ("can_post_messages", "can_edit_messages") if kind == "channel" else ("can_pin_messages",)
            rights = dict.fromkeys((*_list_rights(ChatMemberAdministrator), *more_rights), True)
            return fields | {"is_anonymous": False} | rights | {"can_be_edited": False}
        if self.status == "restricted":
            rights = dict.fromkeys(_list_rights(ChatMemberRestricted), False)
            return fields | {"is_member": self.is_member, "until_date": 0} | rights
        return fields | ({"until_date": 0} if self.status == "kicked" else {})


@dataclass(slots=True)
class SandboxChat:
    """A chat with its members and messages, newest last. A private chat has its user's id.

    Ephemeral messages have the negative keys of `get_message_key`, and their `places` between the others.
    """

    id: int
    kind: str
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    forum: bool = False
    linked: int | None = None
    protected: bool = False
    bot_spoke: bool = False
    last_id: int = 0
    members: dict[int, Membership] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)
    places: dict[int, float] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)

    def wire(self) -> Json:
        """Convert to a Bot API `Chat`."""
        names = drop_empty(title=self.title, username=self.username, first_name=self.first_name)
        return {"id": self.id, "type": self.kind} | names | drop_empty(is_forum=self.forum)

    def full(self) -> Json:
        """Convert to a Bot API `ChatFullInfo`."""
        more = drop_empty(linked_chat_id=self.linked, has_protected_content=self.protected)
        gifts = dict.fromkeys(AcceptedGiftTypes.model_fields, False)
        fixed = {"accent_color_id": abs(self.id) % 7, "max_reaction_count": 11, "accepted_gift_types": gifts}
        return self.wire() | more | fixed | ({"active_usernames": [self.username]} if self.username else {})

    def member(self, user_id: int) -> Membership:
        """Get a user's membership; `left` for strangers."""
        return self.members.get(user_id, Membership("left"))

    def require_message(self, key: int, to: str) -> Json:
        """Get a message `to` do something with it; 400 if there is none."""
        if key not in self.messages:
            raise bad_request(f"message to {to} not found")
        return self.messages[key]


_KEEP_SECONDS = 24 * 3600.0  # an undelivered update expires, as at Telegram
_NOT_DEFAULT_KINDS = {"chat_member", "message_reaction", "message_reaction_count"}
_ALL_KINDS = frozenset(kind.value for kind in UpdateType)
OTHER_POLLER_TEXT = "terminated by other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_ACTIVE_TEXT = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(slots=True)
class UpdateQueue:
    """Queue of updates, with at most one waiting poller."""

    clock: Callable[[], float]
    next_id: int
    webhook: str = ""
    secret: str = ""
    connections: int = 40
    failed: tuple[float, str] | None = None  # time and reason of the last failed delivery
    closed: bool = False
    allowed: frozenset[str] = _ALL_KINDS - _NOT_DEFAULT_KINDS
    kept: dict[int, tuple[float, Json]] = field(default_factory=dict)
    bell: ChangeNotifier = field(default_factory=ChangeNotifier)
    _poll_number: int = 0
    _end_reason: str = ""

    def push(self, kind: str, payload: Json) -> None:
        """Queue an update made by the sandbox, if the bot asked for its kind."""
        if kind in self.allowed:
            Update.model_validate({"update_id": self.next_id, kind: payload})
            self.push_raw({kind: payload})

    def push_raw(self, update: Json) -> None:
        """Queue an update unchecked; it gets an id if it has none."""
        number = update.get("update_id", self.next_id)
        self.next_id = max(self.next_id, number) + 1
        self.kept[number] = (self.clock() + _KEEP_SECONDS, {"update_id": number} | update)
        self.bell.ring()

    def allow(self, kinds: list[str] | None) -> None:
        """Set the wanted kinds; None keeps them, an empty list is Telegram's default."""
        if kinds is not None:
            self.allowed = frozenset(kinds) & _ALL_KINDS or _ALL_KINDS - _NOT_DEFAULT_KINDS

    def hook(self, url: str, secret: str = "", connections: int = 40) -> None:
        """Set the webhook, or remove it with an empty URL; a waiting poller is ended."""
        self.webhook, self.secret, self.connections, self.failed = url, secret, connections, None
        if url:
            self._poll_number += 1
            self._end_reason = "terminated by setWebhook request"
        self.bell.ring()

    async def poll(self, offset: int, limit: int, seconds: float) -> list[Json]:
        """Answer getUpdates; waits up to `seconds` for the first update. 409 as Telegram."""
        if self.webhook:
            raise BotApiError(409, _WEBHOOK_ACTIVE_TEXT)
        self._poll_number, self._end_reason = self._poll_number + 1, OTHER_POLLER_TEXT
        number = self._poll_number
        self.bell.ring()
        if offset < 0:
            offset = sorted(self.kept)[offset:][0] if self.kept else 0
        waiting, now = sorted(self.kept.items()), self.clock()
        self.kept = {number: kept for number, kept in waiting if number >= offset and kept[0] > now}
        await self.bell.until(lambda: bool(self.kept) or self._poll_number != number or self.closed, seconds)
        if self._poll_number != number:
            raise BotApiError(409, self._end_reason)
        await asyncio.sleep(0)  # updates queued in the same step of the event loop come in one batch
        return [update for _, update in list(self.kept.values())[:limit]]


class SandboxDraft(NamedTuple):
    """A draft of a message; `expires` on the state's clock."""

    draft_id: int
    text: str
    entities: list[Json]
    can_stop: bool
    expires: float
    rich: Json | None = None


class UploadedFile(NamedTuple):
    """An uploaded file with its metadata."""

    file_id: str
    name: str
    mime: str
    data: bytes

    def path(self) -> str:
        """Path of the file below /file/bot<token>/; only the suffix of its name is kept."""
        ending = PurePath(self.name).suffix
        return f"documents/{self.file_id}{ending if ending[1:].isalnum() and ending.isascii() else ''}"

    def wire(self) -> Json:
        """Convert to a Bot API `Document`."""
        known = {"file_id": self.file_id, "file_unique_id": f"u{self.file_id}", "file_size": len(self.data)}
        return known | {"file_name": self.name, "mime_type": self.mime}


class SuggestedQuestion(NamedTuple):
    """Question that the page offers to people of a language who see all the chats that answer it."""

    text: str
    lang: str
    chats: frozenset[int]


@dataclass(slots=True)
class PressedButton:
    """A pressed button at the message `key`, or an inline query, at the moment `at`; `answer` is the bot's answer."""

    user_id: int
    chat_id: int
    at: float = 0.0
    answer: Json | None = None
    key: int = 0


_MAX_EPHEMERAL = 10**6  # ephemeral messages of one member and chat


def get_message_key(message: Json) -> int:
    """Key of a message in its chat: its id, or, of an ephemeral message, minus a number of its member and its id."""
    if "ephemeral_message_id" not in message:
        return int(message["message_id"])
    member = message.get("receiver_user") or message["from"]
    return -int(member["id"] * _MAX_EPHEMERAL + message["ephemeral_message_id"])


def is_message_visible(key: int, user_id: int) -> bool:
    """Whether a member of the chat sees this message: an ephemeral one is for one member."""
    return key > 0 or -key // _MAX_EPHEMERAL == user_id


@dataclass(slots=True)
class SandboxState:
    """State of the sandbox. `reads_groups`: privacy mode is off (getMe.can_read_all_group_messages); `inline`: its
    inline mode is on.

    `ephemeral`: the server knows ephemeral messages; of a bot that is no administrator it accepts their edits for
    `edit_seconds`. `zone`: the time zone of channels on the page, by name; None is that of the browser. `log` has (n,
    chat id, message key) of every change; `run` identifies this run of the sandbox. `local` is the folder of a Bot API
    server that runs with --local: getFile puts files there, of any size.
    """

    bot: SandboxUser
    clock: Callable[[], float]
    queue: UpdateQueue
    reads_groups: bool = False
    inline: bool = True
    ephemeral: bool = True
    edit_seconds: float = inf
    zone: str | None = None
    people: dict[int, SandboxUser] = field(default_factory=dict)
    rooms: dict[int, SandboxChat] = field(default_factory=dict)
    commands: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    drafts: dict[tuple[int, int], SandboxDraft] = field(default_factory=dict)
    actions: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    reactions: dict[tuple[int, int], dict[int, list[str]]] = field(default_factory=dict)
    queries: dict[str, PressedButton] = field(default_factory=dict)
    files: dict[str, UploadedFile] = field(default_factory=dict)
    local: Path | None = None
    suggestions: list[SuggestedQuestion] = field(default_factory=list)
    sent: dict[int, list[int]] = field(default_factory=dict)
    log: list[tuple[int, int, int]] = field(default_factory=list)
    run: str = field(default_factory=lambda: token_urlsafe(6))
    n: int = 0
    bell: ChangeNotifier = field(default_factory=ChangeNotifier)

    def add_person(self, user_id: int, first_name: str, *, lang: str = "en") -> SandboxUser:
        """Add a user and their private chat."""
        person = self.people[user_id] = SandboxUser(user_id, first_name, lang=lang)
        self.rooms.setdefault(user_id, SandboxChat(user_id, "private", first_name=first_name))
        self.changed()
        return person

    def add_channel(
        self, chat_id: int, title: str, username: str | None = None, *, members: Iterable[int] = (), bot: bool = True
    ) -> SandboxChat:
        """Add a channel; the first member owns it, the bot is an administrator unless `bot` is False."""
        room = SandboxChat(chat_id, "channel", title, username)
        return self._add_with_members(room, members, "administrator" if bot else "left")

    def add_group(
        self, chat_id: int, title: str, *, members: Iterable[int] = (), forum: bool = False, bot: str = "member"
    ) -> SandboxChat:
        """Add a supergroup; the first member owns it, and `bot` is the bot's status."""
        return self._add_with_members(SandboxChat(chat_id, "supergroup", title, forum=forum), members, bot)

    def add_history(self, chat_id: int, posts: Iterable[Post]) -> None:
        """Add posts from before the bot joined, without updates."""
        room = self.room(chat_id)
        for post in posts:
            message_id, parent = post.key.message_id, room.messages.get(post.reply_to or 0)
            room.messages[message_id] = build_post_message(post, room.wire(), parent)
            room.last_id = max(room.last_id, message_id)
            self.changed(room, message_id)
        room.messages = dict(sorted(room.messages.items()))

    def room(self, chat: int | str | None) -> SandboxChat:
        """Get the chat with this id or @username; 400 if there is none."""
        text = str(chat)
        if text.startswith("@"):
            wanted = text[1:].lower()
            room = next((r for r in self.rooms.values() if (r.username or "").lower() == wanted), None)
        else:
            room = self.rooms.get(int(text)) if text.removeprefix("-").isdecimal() else None
        if room is None:
            raise bad_request("chat not found")
        return room

    def add(self, room: SandboxChat, message: Json) -> Json:
        """Add a new message; sets its id, date and chat."""
        room.last_id += 1
        return self._store(room, room.last_id, {"message_id": room.last_id} | message)

    def _store(self, room: SandboxChat, key: int, message: Json) -> Json:
        whole = {"date": int(self.clock()), "chat": room.wire()} | message
        room.messages[key] = {name: value for name, value in whole.items() if value not in (None, [], "")}
        self.changed(room, key)
        return room.messages[key]

    def add_ephemeral(self, room: SandboxChat, member: SandboxUser, message: Json) -> Json:
        """Add a message that only this member and the bot see. Ids count for each member, and are used again."""
        keys = [key for key in room.messages if key < 0 and is_message_visible(key, member.id)]
        number = 1 + max((-key % _MAX_EPHEMERAL for key in keys), default=0)
        whole = {"message_id": 0, "ephemeral_message_id": number} | message
        key = get_message_key(whole)
        room.places[key] = room.last_id + (len(room.places) + 1) / _MAX_EPHEMERAL
        return self._store(room, key, whole)

    def change(self, room: SandboxChat, message_id: int, **fields: object) -> Json:
        """Replace fields of a message; None removes a field."""
        return self._store(room, message_id, room.messages[message_id] | fields)

    def remove(self, room: SandboxChat, message_id: int) -> None:
        """Delete a message for everybody."""
        del room.messages[message_id]
        self.changed(room, message_id)

    def changed(self, room: SandboxChat | None = None, message_id: int = 0) -> None:
        """Log a change of a message, if it is one, and wake all waiting tasks."""
        self.n += 1
        if room:
            self.log.append((self.n, room.id, message_id))
        self.bell.ring()

    def _add_with_members(self, room: SandboxChat, members: Iterable[int], bot: str) -> SandboxChat:
        people = dict.fromkeys(members, Membership("member"))
        if people:
            people[next(iter(people))] = Membership("creator")
        room.members = people | {self.bot.id: Membership(bot)}
        self.rooms.setdefault(room.id, room)
        self.changed()
        return room


# Fields of service messages, which have no content of their own.
SERVICE_FIELDS = {"new_chat_members", "left_chat_member", "pinned_message", "forum_topic_created", "new_chat_title"}


def build_message_origin(message: Json) -> Json:
    """Build the Bot API `MessageOrigin` of a forward or quote of this message."""
    if origin := message.get("forward_origin"):
        return dict(origin)
    date, chat = message["date"], message["chat"]
    if chat["type"] == "channel":
        signed = {"author_signature": message["author_signature"]} if "author_signature" in message else {}
        return {"type": "channel", "date": date, "chat": chat, "message_id": message["message_id"]} | signed
    if "from" not in message:
        return {"type": "chat", "date": date, "sender_chat": message.get("sender_chat", chat)}
    return {"type": "user", "date": date, "sender_user": message["from"]}


def require_readable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot is in, or a public one; 400 or 403 otherwise."""
    room = world.room(chat)
    if room.kind == "private":
        return room
    membership = room.member(world.bot.id)
    if membership.status == "kicked":
        raise BotApiError(403, f"bot was kicked from the {room.kind} chat")
    if not membership.inside and room.username is None:
        raise BotApiError(403, f"bot is not a member of the {room.kind} chat")
    return room


def require_writable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot may write to now; 400 or 403 otherwise."""
    room = require_readable_chat(world, chat)
    if room.kind == "private":
        person = world.people[room.id]
        if person.blocked:
            raise BotApiError(403, "bot was blocked by the user")
        if not person.started:
            raise BotApiError(403, "bot can't initiate conversation with a user")
        return room
    membership = room.member(world.bot.id)
    if not membership.inside:
        raise BotApiError(403, f"bot is not a member of the {room.kind} chat")
    if room.kind == "channel" and not membership.leads:
        raise bad_request("need administrator rights in the channel chat")
    if membership.status == "restricted":
        raise bad_request("not enough rights to send text messages to the chat")
    return room


def list_commands(world: SandboxState, room: SandboxChat, user_id: int) -> list[Json]:
    """List the bot's commands for a person in a chat: those of the narrowest scope that has any, as clients do."""
    person = world.people.get(user_id)
    lang = ((person.lang if person else None) or "").split("-")[0]
    if room.kind == "private":
        scopes: list[Json] = [{"chat_id": room.id, "type": "chat"}, {"type": "all_private_chats"}]
    else:
        here = {"chat_id": room.id}
        leads = room.member(user_id).leads
        scopes = [here | {"type": "chat_member", "user_id": user_id}]
        scopes += [here | {"type": "chat_administrators"}] * leads + [here | {"type": "chat"}]
        scopes += [{"type": "all_chat_administrators"}] * leads + [{"type": "all_group_chats"}]
    keys = [(json.dumps(one, sort_keys=True), code) for one in [*scopes, {"type": "default"}] for code in (lang, "")]
    return next((world.commands[key] for key in keys if world.commands.get(key)), [])


def can_bot_see(world: SandboxState, room: SandboxChat, message: Json) -> bool:
    """Whether the bot gets an update about this message.

    In groups privacy mode lets through service messages, commands, replies to the bot, mentions of it, and what is
    sent via the bot.
    """
    membership = room.member(world.bot.id)
    if room.kind == "private":
        return not world.people[room.id].blocked
    if room.kind == "channel" or not membership.inside:
        return membership.leads
    parent = message.get("reply_to_message") or {}
    addressed = SERVICE_FIELDS & message.keys() or "via_bot" in message
    if membership.leads or world.reads_groups or addressed or (parent.get("from") or {}).get("id") == world.bot.id:
        return True
    text = message.get("text") or message.get("caption") or ""
    mention = f"@{world.bot.username}".lower()
    for entity in message.get("entities") or message.get("caption_entities") or ():
        piece = extract_entity_text(text, entity["offset"], entity["length"]).lower()
        bare = "@" not in piece and room.bot_spoke  # a bare command goes to the bot that wrote last
        if (
            (entity["type"] == "mention" and piece == mention)
            or (entity["type"] == "bot_command" and (bare or piece.endswith(mention)))
            or (entity["type"] == "text_mention" and entity["user"]["id"] == world.bot.id)
        ):
            return True
    return False


def set_chat_member(
    world: SandboxState, chat_id: int, user_id: int, status: str, *, by: int | None = None, is_member: bool = True
) -> None:
    """Set the status of a user or the bot in a chat; `by` is the actor, by default the user.

    The bot always gets updates about itself, and about others only as an administrator.
    """
    room, new = world.room(chat_id), Membership(status, is_member)
    old, bot = room.member(user_id), world.bot
    room.members[user_id] = new
    person = bot if user_id == bot.id else world.people[user_id]
    change: Json = {
        "chat": room.wire(),
        "from": world.people.get(by or 0, person).wire(),
        "date": int(world.clock()),
        "old_chat_member": old.wire(person, room.kind),
        "new_chat_member": new.wire(person, room.kind),
    }
    if user_id == bot.id:
        world.queue.push("my_chat_member", change)
    elif room.member(bot.id).leads or new.leads:
        world.queue.push("chat_member", change)
    if room.kind != "channel" and old.inside != new.inside:  # a service message of the group
        fields: Json = {"new_chat_members": [person.wire()]} if new.inside else {"left_chat_member": person.wire()}
        message = world.add(room, {"from": change["from"]} | fields)
        if room.member(bot.id).inside:
            world.queue.push("message", message)
    world.changed()
