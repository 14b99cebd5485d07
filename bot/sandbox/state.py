"""Sandbox state: users, chats, messages, drafts, reactions and files; without any network.

Messages are kept as Bot API objects. A changed message is a new object, so that an update that is already queued
shows the message as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from secrets import token_urlsafe

from bot.sandbox.api_errors import bad_request
from bot.sandbox.chats import ChangeNotifier, Json, Membership, SandboxChat, SandboxUser
from bot.sandbox.messages_of_posts import build_post_message
from bot.sandbox.update_queue import UpdateQueue
from rag_core.types import Post


@dataclass(frozen=True, slots=True)
class SandboxDraft:
    """A draft of a message; `expires` on the state's clock."""

    draft_id: int
    text: str
    entities: list[Json]
    can_stop: bool
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
            self._store_message(room, build_post_message(post, room))
            room.last_id = max(room.last_id, post.key.message_id)
        room.messages = dict(sorted(room.messages.items()))
        self.changed()

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
