"""Everything Telegram would remember: people, chats, messages, drafts, reactions, files. State, no network.

Messages are kept as Bot API objects. A changed message is a new object, so that an update
which is already queued shows the message as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from secrets import token_urlsafe

from bot.sandbox.bell import Bell
from bot.sandbox.history import shown_post
from bot.sandbox.refused import bad
from bot.sandbox.rooms import Json, Membership, Person, Room
from bot.sandbox.updates import Queue
from rag_core.types import Post

__all__ = ["Draft", "Query", "Upload", "World"]

_ACTION_LASTS = 5.0  # seconds, https://core.telegram.org/bots/api#sendchataction


@dataclass(frozen=True, slots=True)
class Draft:
    """A message that is still being written; `expires` on the world's clock."""

    draft_id: int
    text: str
    entities: list[Json]
    can_stop: bool
    keep_on_stop: bool
    expires: float


@dataclass(frozen=True, slots=True)
class Upload:
    """A file and what is known of it."""

    file_id: str
    name: str
    mime: str
    data: bytes

    def path(self) -> str:
        """Where the server offers it, below /file/bot<token>/; of its name only the ending is left."""
        ending = PurePath(self.name).suffix
        return f"documents/{self.file_id}{ending if ending[1:].isalnum() and ending.isascii() else ''}"

    def wire(self) -> Json:
        """As a Bot API `Document`."""
        known = {"file_id": self.file_id, "file_unique_id": f"u{self.file_id}", "file_size": len(self.data)}
        return known | {"file_name": self.name, "mime_type": self.mime}


@dataclass(slots=True)
class Query:
    """A pressed button; `answer` is what the bot said to it."""

    user_id: int
    chat_id: int
    answer: Json | None = None


@dataclass(slots=True)
class World:
    """The state of the sandbox. `reads_groups`: privacy mode is off (getMe.can_read_all_group_messages).

    `log` has (n, chat id, message id) of every change, `run` tells one run of the sandbox from another.
    `local` is the folder of a Bot API server that runs with --local: getFile puts files there, of any size.
    """

    bot: Person
    clock: Callable[[], float]
    queue: Queue
    reads_groups: bool = False
    people: dict[int, Person] = field(default_factory=dict)
    rooms: dict[int, Room] = field(default_factory=dict)
    commands: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    profile: dict[tuple[str, str], str] = field(default_factory=dict)
    drafts: dict[tuple[int, int], Draft] = field(default_factory=dict)
    actions: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    reactions: dict[tuple[int, int], dict[int, list[str]]] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)
    local: Path | None = None
    sent: dict[int, list[int]] = field(default_factory=dict)
    log: list[tuple[int, int, int]] = field(default_factory=list)
    run: str = field(default_factory=lambda: token_urlsafe(6))
    n: int = 0
    bell: Bell = field(default_factory=Bell)

    def add_person(self, user_id: int, first_name: str, *, username: str | None = None, lang: str = "en") -> Person:
        """A user, and the private chat that is theirs."""
        person = Person(user_id, first_name, username, lang)
        self.people[user_id] = person
        self._add_room(Room(user_id, "private", username=username, first_name=first_name))
        return person

    def add_channel(
        self,
        chat_id: int,
        title: str,
        username: str | None = None,
        *,
        members: Iterable[int] = (),
        bot: bool = True,
    ) -> Room:
        """A channel; the bot is its administrator unless told otherwise, the first member owns it."""
        room = Room(chat_id, "channel", title, username)
        return self._filled(room, members, "administrator" if bot else "left")

    def add_group(
        self,
        chat_id: int,
        title: str,
        *,
        members: Iterable[int] = (),
        forum: bool = False,
        bot: str = "member",
    ) -> Room:
        """A supergroup; the first member owns it, the bot is a member (`bot`: its status)."""
        return self._filled(Room(chat_id, "supergroup", title, forum=forum), members, bot)

    def add_history(self, chat_id: int, posts: Iterable[Post | Mapping[str, object]]) -> int:
        """Show posts that were there before the bot: no update tells of them. How many there were."""
        room, count = self.room(chat_id), 0
        for post in posts:
            message = shown_post(post, room)
            self._place(room, message)
            room.last_id = max(room.last_id, message["message_id"])
            count += 1
        room.messages = dict(sorted(room.messages.items()))
        self.changed()
        return count

    def room(self, chat: int | str | None) -> Room:
        """The chat with this id or @username; 400 where there is none."""
        if chat is None or chat == "":
            raise bad("chat_id is empty")
        text = str(chat)
        if text.startswith("@"):
            wanted = text[1:].lower()
            found = next((r for r in self.rooms.values() if (r.username or "").lower() == wanted), None)
        else:
            found = self.rooms.get(int(text)) if text.removeprefix("-").isdecimal() else None
        if found is None:
            raise bad("chat not found")
        return found

    def add(self, room: Room, message: Json) -> Json:
        """Keep a new message: it gets its id, date and chat."""
        room.last_id += 1
        head = {"message_id": room.last_id, "date": int(self.clock()), "chat": room.wire()}
        whole = head | {name: value for name, value in message.items() if value not in (None, [], "")}
        self._place(room, whole)
        self.changed()
        return whole

    def change(self, room: Room, message_id: int, **fields: object) -> Json:
        """Replace fields of a message; None takes a field away."""
        merged = room.messages[message_id] | fields
        self._place(room, {name: value for name, value in merged.items() if value not in (None, [])})
        self.changed()
        return room.messages[message_id]

    def remove(self, room: Room, message_id: int) -> None:
        """Delete a message for everybody."""
        del room.messages[message_id]
        self._note(room, message_id)
        self.changed()

    def touch(self, room: Room, message_id: int) -> None:
        """Note that something about a message changed (its reactions)."""
        self._place(room, room.messages[message_id])
        self.changed()

    def act(self, room: Room, thread: int | None, action: str) -> None:
        """Show "typing" and the like for five seconds."""
        self.actions[room.id, thread or 0] = (action, self.clock() + _ACTION_LASTS)
        self.changed()

    def settle(self, room: Room, thread: int | None) -> None:
        """A message of the bot has arrived: its draft and its "typing" are over."""
        self.drafts.pop((room.id, thread or 0), None)
        self.actions.pop((room.id, thread or 0), None)

    def changed(self) -> None:
        """Wake whoever watches."""
        self.n += 1
        self.bell.ring()

    def _filled(self, room: Room, members: Iterable[int], bot: str) -> Room:
        people = dict.fromkeys(members, Membership("member"))
        if people:
            people[next(iter(people))] = Membership("creator")
        room.members = people | {self.bot.id: Membership(bot)}
        self._add_room(room)
        return room

    def _add_room(self, room: Room) -> None:
        self.rooms.setdefault(room.id, room)
        self.changed()

    def _place(self, room: Room, message: Json) -> None:
        room.messages[message["message_id"]] = message
        self._note(room, message["message_id"])

    def _note(self, room: Room, message_id: int) -> None:
        self.n += 1
        self.log.append((self.n, room.id, message_id))
