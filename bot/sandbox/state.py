"""Sandbox state: users, chats, messages, drafts, reactions and files, the rights in chats; without any network.

Messages are kept as Bot API objects. A changed message is a new object, so that an update that is already queued
shows the message as it was. Posts from before the bot joined a channel are converted to messages, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from secrets import token_urlsafe
from typing import Any

from bot.sandbox.api_errors import bad_request, forbidden
from bot.sandbox.chats import ChangeNotifier, Json, Membership, SandboxChat, SandboxUser, remove_nested_reply
from bot.sandbox.message_text import detect_entities, extract_entity_text
from bot.sandbox.update_delivery import UpdateQueue
from rag_core.types import Post

_CAPTION_MEDIA_KINDS = {"photo", "video", "animation", "document", "audio", "voice"}


def _build_post_message(post: Post | Mapping[str, object], room: SandboxChat) -> Json:
    """Build a message from a `Post`, or from a mapping with `id`, `date`, `text` and optional fields.

    Optional: entities, edited, author, forward (a name), media (a kind), file_name, mime_type, reply_to, album.
    Dates are datetimes or Unix seconds.
    """
    fields: dict[str, Any] = _dump_post(post) if isinstance(post, Post) else dict(post)
    message: Json = {"message_id": int(fields["id"]), "date": _to_unix_seconds(fields["date"]), "chat": room.wire()}
    message |= {"sender_chat": room.wire()} | _build_content(fields)
    optional = {
        "edit_date": _to_unix_seconds(fields["edited"]) if fields.get("edited") else None,
        "author_signature": fields.get("author"),
        "media_group_id": fields.get("album"),
        "forward_origin": _build_origin(fields, message["date"]),
    }
    parent = room.messages.get(fields.get("reply_to") or 0)
    optional["reply_to_message"] = remove_nested_reply(parent) if parent else None
    return message | {name: value for name, value in optional.items() if value is not None}


def build_photo(name: str) -> list[Json]:
    """Build a photo that has only ids and a size."""
    return [{"file_id": f"photo-{name}", "file_unique_id": f"u-photo-{name}", "width": 800, "height": 600}]


def _dump_post(post: Post) -> dict[str, Any]:
    marks = [
        {"type": e.type, "offset": e.offset, "length": e.length} | ({"url": e.url} if e.url else {})
        for e in post.entities
    ]
    return {
        "id": post.key.message_id,
        "date": post.date,
        "text": post.text,
        "entities": marks,
        "edited": post.edited,
        "author": post.author,
        "forward": post.origin,
        "media": post.media.kind if post.media else None,
        "file_name": post.media.file_name if post.media else None,
        "mime_type": post.media.mime if post.media else None,
        "reply_to": post.reply_to,
        "album": post.album,
    }


def _build_content(fields: Mapping[str, Any]) -> Json:
    text = str(fields.get("text") or "")
    entities = list(fields.get("entities") or ())
    entities = sorted(entities + detect_entities(text, entities), key=lambda e: (e["offset"], -e["length"]))
    media = fields.get("media")
    if media not in _CAPTION_MEDIA_KINDS:
        return {"text": text, "entities": entities} if entities else {"text": text}
    caption_fields: Json = {"caption": text, "caption_entities": entities} if text else {}
    if media == "photo":
        return caption_fields | {"photo": build_photo(str(fields["id"]))}
    name = str(fields.get("file_name") or media)
    file_fields = {"file_id": f"{media}-{fields['id']}", "file_unique_id": f"u-{media}-{fields['id']}"}
    return caption_fields | {"document": file_fields | {"file_name": name, "mime_type": fields.get("mime_type")}}


def _build_origin(fields: Mapping[str, Any], date: int) -> Json | None:
    """Build the origin of a forward; exports know it by name, sometimes by id."""
    source = fields.get("forward")
    if not source:
        return None
    if isinstance(source, Mapping):
        return dict(source)
    name, when = getattr(source, "name", source), getattr(source, "date", None)
    base: Json = {"date": _to_unix_seconds(when) if when else date}
    chat_id, message_id = getattr(source, "chat_id", None), getattr(source, "message_id", None)
    if chat_id and message_id:
        chat = {"id": chat_id, "type": "channel", "title": name}
        return base | {"type": "channel", "chat": chat, "message_id": message_id}
    return base | {"type": "hidden_user", "sender_user_name": str(name)}


def _to_unix_seconds(moment: object) -> int:
    if isinstance(moment, datetime):
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return int(str(moment))


_ACTION_SECONDS = 5.0  # https://core.telegram.org/bots/api#sendchataction


@dataclass(frozen=True, slots=True)
class SandboxDraft:
    """A draft of a message; `expires` on the state's clock."""

    draft_id: int
    text: str
    entities: list[Json]
    can_stop: bool
    keep_on_stop: bool
    expires: float


@dataclass(frozen=True, slots=True)
class UploadedFile:
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


@dataclass(frozen=True, slots=True)
class SuggestedQuestion:
    """Question that the page offers to people of a language who see all the chats that answer it."""

    text: str
    lang: str
    chats: frozenset[int]


@dataclass(slots=True)
class PressedButton:
    """A pressed button, or an inline query typed at the moment `at`; `answer` is the bot's answer to it."""

    user_id: int
    chat_id: int
    at: float = 0.0
    answer: Json | None = None


@dataclass(slots=True)
class SandboxState:
    """State of the sandbox. `reads_groups`: privacy mode is off (getMe.can_read_all_group_messages); `inline`: its
    inline mode is on.

    `log` has (n, chat id, message id) of every change; `run` identifies this run of the sandbox. `local` is the folder
    of a Bot API server that runs with --local: getFile puts files there, of any size.
    """

    bot: SandboxUser
    clock: Callable[[], float]
    queue: UpdateQueue
    reads_groups: bool = False
    inline: bool = True
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

    def add_person(
        self, user_id: int, first_name: str, *, username: str | None = None, lang: str = "en"
    ) -> SandboxUser:
        """Add a user and their private chat."""
        person = SandboxUser(user_id, first_name, username, lang)
        self.people[user_id] = person
        self._add_room(SandboxChat(user_id, "private", username=username, first_name=first_name))
        return person

    def add_channel(
        self,
        chat_id: int,
        title: str,
        username: str | None = None,
        *,
        members: Iterable[int] = (),
        bot: bool = True,
    ) -> SandboxChat:
        """Add a channel; the first member owns it, the bot is an administrator unless `bot` is False."""
        room = SandboxChat(chat_id, "channel", title, username)
        return self._add_with_members(room, members, "administrator" if bot else "left")

    def add_group(
        self,
        chat_id: int,
        title: str,
        *,
        members: Iterable[int] = (),
        forum: bool = False,
        bot: str = "member",
    ) -> SandboxChat:
        """Add a supergroup; the first member owns it, and `bot` is the bot's status."""
        return self._add_with_members(SandboxChat(chat_id, "supergroup", title, forum=forum), members, bot)

    def add_history(self, chat_id: int, posts: Iterable[Post | Mapping[str, object]]) -> int:
        """Add posts from before the bot joined, without updates; returns their number."""
        room, count = self.room(chat_id), 0
        for post in posts:
            message = _build_post_message(post, room)
            self._store_message(room, message)
            room.last_id = max(room.last_id, message["message_id"])
            count += 1
        room.messages = dict(sorted(room.messages.items()))
        self.changed()
        return count

    def room(self, chat: int | str | None) -> SandboxChat:
        """Get the chat with this id or @username; 400 if there is none."""
        if chat is None or chat == "":
            raise bad_request("chat_id is empty")
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
        head = {"message_id": room.last_id, "date": int(self.clock()), "chat": room.wire()}
        whole = head | {name: value for name, value in message.items() if value not in (None, [], "")}
        self._store_message(room, whole)
        self.changed()
        return whole

    def change(self, room: SandboxChat, message_id: int, **fields: object) -> Json:
        """Replace fields of a message; None removes a field."""
        merged = room.messages[message_id] | fields
        self._store_message(room, {name: value for name, value in merged.items() if value not in (None, [])})
        self.changed()
        return room.messages[message_id]

    def remove(self, room: SandboxChat, message_id: int) -> None:
        """Delete a message for everybody."""
        del room.messages[message_id]
        self._log_change(room, message_id)
        self.changed()

    def touch(self, room: SandboxChat, message_id: int) -> None:
        """Record a change of a message outside its fields, such as its reactions."""
        self._store_message(room, room.messages[message_id])
        self.changed()

    def act(self, room: SandboxChat, thread: int | None, action: str) -> None:
        """Show a chat action such as "typing" for five seconds."""
        self.actions[room.id, thread or 0] = (action, self.clock() + _ACTION_SECONDS)
        self.changed()

    def settle(self, room: SandboxChat, thread: int | None) -> None:
        """Remove the draft and the chat action when a message of the bot arrives."""
        self.drafts.pop((room.id, thread or 0), None)
        self.actions.pop((room.id, thread or 0), None)

    def changed(self) -> None:
        """Wake all waiting tasks."""
        self.n += 1
        self.bell.ring()

    def _add_with_members(self, room: SandboxChat, members: Iterable[int], bot: str) -> SandboxChat:
        people = dict.fromkeys(members, Membership("member"))
        if people:
            people[next(iter(people))] = Membership("creator")
        room.members = people | {self.bot.id: Membership(bot)}
        self._add_room(room)
        return room

    def _add_room(self, room: SandboxChat) -> None:
        self.rooms.setdefault(room.id, room)
        self.changed()

    def _store_message(self, room: SandboxChat, message: Json) -> None:
        room.messages[message["message_id"]] = message
        self._log_change(room, message["message_id"])

    def _log_change(self, room: SandboxChat, message_id: int) -> None:
        self.n += 1
        self.log.append((self.n, room.id, message_id))


# Fields of service messages, which have no content of their own.
SERVICE_FIELDS = {"new_chat_members", "left_chat_member", "pinned_message", "forum_topic_created", "new_chat_title"}


def require_readable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot is in, or a public one; 400 or 403 otherwise."""
    room = world.room(chat)
    if room.kind == "private":
        return room
    membership = room.member(world.bot.id)
    if membership.status == "kicked":
        raise forbidden(f"bot was kicked from the {room.kind} chat")
    if not membership.inside and room.username is None:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    return room


def require_writable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot may write to now; 400 or 403 otherwise."""
    room = require_readable_chat(world, chat)
    if room.kind != "private" and not room.member(world.bot.id).inside:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    if room.kind == "private":
        person = world.people[room.id]
        if person.blocked:
            raise forbidden("bot was blocked by the user")
        if not person.started:
            raise forbidden("bot can't initiate conversation with a user")
    elif room.kind == "channel" and not room.member(world.bot.id).leads:
        raise bad_request("need administrator rights in the channel chat")
    elif room.member(world.bot.id).status == "restricted":
        raise bad_request("not enough rights to send text messages to the chat")
    return room


def can_bot_see(world: SandboxState, room: SandboxChat, message: Json) -> bool:
    """Whether the bot gets an update about this message."""
    membership = room.member(world.bot.id)
    if room.kind == "private":
        return not world.people[room.id].blocked
    if room.kind == "channel":
        return membership.leads
    if not membership.inside:
        return False
    return membership.leads or world.reads_groups or _is_addressed_to_bot(world, room, message)


def _is_addressed_to_bot(world: SandboxState, room: SandboxChat, message: Json) -> bool:
    """Whether privacy mode lets a message through: service messages, commands, replies to the bot, mentions of it,
    and what is sent via the bot.
    """
    parent = message.get("reply_to_message") or {}
    if SERVICE_FIELDS & message.keys() or (parent.get("from") or {}).get("id") == world.bot.id:
        return True
    if "via_bot" in message:
        return True
    text = message.get("text") or message.get("caption") or ""
    mention = f"@{world.bot.username}".lower()
    for entity in message.get("entities") or message.get("caption_entities") or ():
        piece = extract_entity_text(text, entity["offset"], entity["length"]).lower()
        if entity["type"] == "mention" and piece == mention:
            return True
        bare = "@" not in piece and room.bot_spoke  # a bare command goes to the bot that wrote last
        if entity["type"] == "bot_command" and (bare or piece.endswith(mention)):
            return True
        if entity["type"] == "text_mention" and entity["user"]["id"] == world.bot.id:
            return True
    return False


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


def set_chat_member(
    world: SandboxState, chat_id: int, user_id: int, status: str, *, by: int | None = None, is_member: bool = True
) -> None:
    """Set the status of a user or the bot in a chat; `by` is the actor, by default the user.

    The bot always gets updates about itself, and about others only as an administrator.
    """
    room, new = world.room(chat_id), Membership(status, is_member)
    old, bot = room.member(user_id), world.bot
    is_reported = room.member(bot.id).leads or new.leads
    room.members[user_id] = new
    person = bot if user_id == bot.id else world.people[user_id]
    actor = world.people.get(by) if by else None
    change: Json = {
        "chat": room.wire(),
        "from": (actor or person).wire(),
        "date": int(world.clock()),
        "old_chat_member": old.wire(person, room.kind),
        "new_chat_member": new.wire(person, room.kind),
    }
    if user_id == bot.id:
        world.queue.push("my_chat_member", change)
    elif is_reported:
        world.queue.push("chat_member", change)
    if room.kind != "channel" and old.inside != new.inside:
        _announce_membership(world, chat_id, (actor or person).wire(), person.wire(), joined=new.inside)
    world.changed()


def _announce_membership(world: SandboxState, chat_id: int, actor: Json, person: Json, *, joined: bool) -> None:
    """Add the service message of a group, and queue its update."""
    room = world.room(chat_id)
    service_fields: Json = {"new_chat_members": [person]} if joined else {"left_chat_member": person}
    message = world.add(room, {"from": actor} | service_fields)
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)
