r"""JSON exports of Telegram Desktop: result.json of one chat, or of all chats, scanned and read as a stream.

The scan is cheap (a second for 100 MB): a truncated file is refused before its first post is in the archive. Which
chats may be imported is decided here, too.

What known writers get wrong is put right while the file is read, in bounded memory:
- Telegram Desktop writes control characters as `\x0b` (SerializeString in tdesktop's export_output_json.cpp).
- Half a surrogate pair, `\udc1d`, is no character; it is read as U+FFFD.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from itertools import islice
from json import JSONDecodeError
from pathlib import Path
from typing import BinaryIO, Self

import ijson

from ingest.message_kinds import MAX_ID, MAX_TITLE_LENGTH, parse_text
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Visibility


class ImportNote(str):
    """Note on an import: a sentence in English, with the code and the parameters for its translations."""

    code: str
    parameters: dict[str, str | int]

    def __new__(cls, template: str, *, code: str, **parameters: object) -> Self:
        """Format the template (`str.format`) with the parameters."""
        note = super().__new__(cls, template.format(**parameters))
        note.code = code
        note.parameters = {key: one if isinstance(one, int) else str(one) for key, one in parameters.items()}
        return note


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of an import.

    `zone` is the time zone of an old export without Unix times; `visibility` and `title` override. Where `chat_id` is
    given, an export without this chat is refused.
    """

    username: str | None = None
    allow_private: bool = False
    visibility: Visibility | None = None
    zone: tzinfo = UTC
    title: str | None = None
    chat_id: int | None = None


@dataclass(slots=True)
class ExportedChat:
    """Metadata of one chat in an export. Mutable: filled while the file is read.

    `place` is the ijson prefix of its messages, `old` the format of 2019-21. `whole`: the file is of this chat alone
    and holds all messages between its first and last. `one_topic`: it begins with the opening of a topic; of that one
    Telegram Desktop writes the title as the chat's, and calls any forum public.
    """

    place: str
    whole: bool = False
    one_topic: bool = False
    name: object = None
    type: object = ""  # null for a deleted account, "" where the file has no such field
    id: object = None
    messages: int = 0
    listed: bool = False
    old: bool = False

    @property
    def public(self) -> bool:
        """Whether Telegram calls the chat public."""
        return str(self.type).startswith("public_") and not self.one_topic


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# An even run of backslashes is made of escaped backslashes; only after an odd one does a letter follow an escape.
_WRONG_ESCAPE_PATTERN = re.compile(rb"(?<!\\)((?:\\\\)*)\\x([0-9A-Fa-f]{2})")
_SURROGATE_PATTERN = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u[dD](?:(?P<pair>[89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2})|[89a-fA-F][0-9A-Fa-f]{2})"
)
_OPEN_ESCAPE_PATTERN = re.compile(
    rb"\\(?:x[0-9A-Fa-f]?|u[0-9A-Fa-f]{0,3}|u[dD][89abAB][0-9A-Fa-f]{2}(?:\\(?:u[0-9A-Fa-f]{0,3})?)?)?\Z"
)
_ESCAPE_LENGTH = 12  # of a whole surrogate pair


class RepairedJsonReader:
    """Binary reader that repairs what is no JSON; `bytes_read` counts the bytes read from the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._held, self.bytes_read = file, b"", 0

    def read(self, size: int = -1) -> bytes:
        """Read about `size` bytes; empty only at the end."""
        while True:
            fresh = self._file.read(size)
            if not self.bytes_read:
                fresh = fresh.removeprefix(_BYTE_ORDER_MARK)
            self.bytes_read += len(fresh)
            data = self._held + fresh
            # The part held back begins with the backslash of an escape, so that runs are counted right.
            cut = _find_open_escape(data) if fresh else len(data)
            self._held, whole = data[cut:], data[:cut]
            if rb"\x" in whole:
                whole = _WRONG_ESCAPE_PATTERN.sub(rb"\1\\u00\2", whole)
            if rb"\ud" in whole or rb"\uD" in whole:
                whole = _SURROGATE_PATTERN.sub(lambda one: one[0] if one["pair"] else one[1] + rb"\ufffd", whole)
            if whole or not fresh:
                return whole


def _find_open_escape(data: bytes) -> int:
    r"""Find where an unfinished escape begins, such as `\`, `\x0` or the first half of a pair; else the end."""
    for start in range(max(0, len(data) - _ESCAPE_LENGTH), len(data)):
        if data[start : start + 1] == b"\\" and _OPEN_ESCAPE_PATTERN.match(data, start):
            before = data[:start]
            if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                return start
    return len(data)


# Bytes read at once: ijson writes the place of every value of a block before any is looked at, in time and memory that
# grow with the square of the depth (65,536 brackets: 15 s; 8,192: 168 MB; 2,048: 10 MB).
_READ_SIZE = 2048
_MAX_DEPTH = 64  # a message in a full export is six levels deep and has a few levels inside
# Places as ijson writes them: one chat is the whole file, in a full export the chats are in two lists.
_CHAT_LISTS = ("chats.list", "left_chats.list")
_CHAT_FIELDS = ("name", "type", "id", "messages", "messages.item", "messages.item.from_id", "messages.item.action")
_FIELD_BY_PLACE = dict.fromkeys(("", *(f"{chats}.item" for chats in _CHAT_LISTS)), "")
_FIELD_BY_PLACE |= {f"{chat}.{field}".strip("."): field for chat in _FIELD_BY_PLACE for field in _CHAT_FIELDS}


class JsonExport:
    """Export in JSON (result.json): one chat, or a full export with many. Its methods block."""

    def __init__(self, path: Path) -> None:
        """Look at a file, or at the result.json in a folder. Raises `ImportRefused`."""
        file = path
        try:
            if path.is_dir():
                file = path / "result.json"
                file = next(path.glob("messages*.html"), file) if not file.exists() else file
            if not file.is_file():
                said = "There is no file {file}. Give the result.json of an export, or its folder."
                raise ImportRefused(said, file=file)
            with file.open("rb") as opened:
                head = opened.read(256)
            self.size = file.stat().st_size  # in bytes
        except OSError as exc:
            raise ImportRefused(f"{file} cannot be read ({exc.strerror}). Check its permissions.") from exc
        if not head:
            said = "{file} is empty. Export the chat again, or copy the whole file."
            raise ImportRefused(said, code="import-empty", file=file)
        if head.startswith(b"PK"):
            said = "{file} is a zip archive. Unpack it and give the result.json inside."
            raise ImportRefused(said, code="import-zip", file=file)
        if head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"<"):
            said = (
                "{file} is HTML. Export the chat again with Telegram Desktop, format “Machine-readable JSON”, and give "
                "its result.json."
            )
            raise ImportRefused(said, code="import-html", file=file)
        self.path = file
        self._scanned: RepairedJsonReader | None = None
        self._streams: dict[str, Iterator[object]] = {}

    @property
    def bytes_read(self) -> int:
        """Bytes scanned so far."""
        return self._scanned.bytes_read if self._scanned else 0

    def survey(self) -> list[ExportedChat]:
        """Scan the file as a stream for its chats. Raises `ImportRefused`."""
        chats: list[ExportedChat] = []
        lists = depth = 0
        with self.path.open("rb") as file, self.reading():
            self._scanned = RepairedJsonReader(file)
            for place, event, value in ijson.parse(self._scanned, buf_size=_READ_SIZE, use_float=True):
                if event in ("map_key", "end_map", "end_array"):
                    depth -= event != "map_key"
                    continue
                if event in ("start_map", "start_array"):
                    depth += 1
                    if depth > _MAX_DEPTH:
                        said = "{file} is nested too deeply to be an export of Telegram Desktop."
                        raise ImportRefused(said, code="import-deep", file=self.path)
                    lists += event == "start_array" and place in _CHAT_LISTS
                if place in _FIELD_BY_PLACE:
                    _note_value(chats, place, event, value)
        # files of other tools do not say what their chat is
        found = [chat for chat in chats if not chat.whole or (chat.listed and chat.type != "")]
        if not found and not lists:
            said = "{file} is JSON, but no export of Telegram Desktop. Give the result.json of an exported chat."
            raise ImportRefused(said, code="import-no-export", file=self.path)
        return found

    def messages(self, chat: ExportedChat, opened: ExitStack) -> Iterator[object]:
        """Stream the messages of a chat, in the order of the chats; the file is never in memory as a whole."""
        if chat.place not in self._streams:
            file = RepairedJsonReader(opened.enter_context(self.path.open("rb")))
            self._streams[chat.place] = ijson.items(file, chat.place, use_float=True)
        return islice(self._streams[chat.place], chat.messages)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Context for reading: broken JSON becomes one sentence. Raises `ImportRefused`."""
        try:
            yield
        # The pure Python backend of ijson does not wrap the latter two.
        except (ijson.JSONError, JSONDecodeError, UnicodeDecodeError) as exc:
            said, code = "{file} ends in the middle. Export the chat again, or copy the whole file.", "import-cut"
            if "premature EOF" not in str(exc) and "Incomplete" not in str(exc):
                code = "import-not-json"
                said = "{file} is not JSON. Give the result.json of Telegram Desktop: format “Machine-readable JSON”."
            raise ImportRefused(said, code=code, file=self.path) from exc


def _note_value(chats: list[ExportedChat], place: str, event: str, value: object) -> None:
    """Record a value of a chat's metadata: of the whole file, or of the last chat in a list."""
    field = _FIELD_BY_PLACE[place]
    if not field:
        if place or event == "start_map":
            chats.append(ExportedChat(f"{place}.messages.item".strip("."), whole=not place))
        return
    chat = chats[0 if field == place else -1]
    match field:
        case "messages":
            chat.listed |= event == "start_array"
        case "messages.item":
            chat.messages += 1
        case "messages.item.action":
            chat.one_topic |= chat.whole and chat.messages == 1 and value == "topic_created"
        case "messages.item.from_id":
            chat.old |= event == "number"  # later versions write "user123", "channel123"
        case _:
            setattr(chat, field, value)


# Telegram Desktop's type -> the Bot API's kind and the prefix of the bare id. Other types are private.
_KIND_BY_EXPORT_TYPE = {
    "public_channel": ("channel", "-100"),
    "private_channel": ("channel", "-100"),
    "public_supergroup": ("supergroup", "-100"),
    "private_supergroup": ("supergroup", "-100"),
    "private_group": ("group", "-"),
}
_PRIVATE_KIND = ("private", "")
_USERNAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_]{3,31}")
_MAX_BARE_ID = 2**32 - 1  # exports of 2019-21 write ids with the peer type above 32 bits


@dataclass(frozen=True, slots=True)
class AdmittedChat:
    """Chat that may be imported. `decided`: its visibility is set even if the channel is already known."""

    chat: ExportedChat
    channel: Channel
    decided: bool


def admit_chats(
    file: Path, chats: Sequence[ExportedChat], known: Mapping[int, Channel], options: ImportOptions
) -> tuple[list[AdmittedChat | None], list[ImportNote]]:
    """Decide which chats may be imported, else None and a note. Raises `ImportRefused` if none may."""
    ids: list[int | None] = []
    for chat in chats:
        bare = chat.id if type(chat.id) is int and 0 < chat.id < MAX_ID // 10 else None
        if bare and chat.old and bare > _MAX_BARE_ID:
            bare &= _MAX_BARE_ID
        _, sign = _KIND_BY_EXPORT_TYPE.get(str(chat.type), _PRIVATE_KIND)
        ids.append(int(f"{sign}{bare}") if bare else None)
    if options.chat_id is not None and options.chat_id not in ids:
        said = "{file} is of another chat than {chat_id}."
        raise ImportRefused(said, code="import-other-chat", file=file, chat_id=options.chat_id)
    username = options.username and options.username.strip().removeprefix("https://t.me/").removeprefix("@")
    if username is not None and not _USERNAME_PATTERN.fullmatch(username):
        raise ImportRefused(f"“{options.username}” is no Telegram username. Give it as in https://t.me/username.")
    admitted, private, nameless = list[AdmittedChat | None](), 0, 0
    for n, (chat, chat_id) in enumerate(zip(chats, ids, strict=True)):
        entry = None
        if chat.type not in _KIND_BY_EXPORT_TYPE and not options.allow_private:
            private += 1
        elif chat_id is None or chat_id in ids[:n]:  # Telegram Desktop never writes the same chat twice into one file
            nameless += 1
        else:
            entry = _admit_chat(chat_id, chat, known.get(chat_id), username, options)
        admitted.append(entry)
    found = [entry for entry in admitted if entry]
    if not found and private:
        said = (
            "{file} holds private conversations only. "
            "Give --allow-private if they may be searched, by admins, like a channel."
        )
        raise ImportRefused(said, code="import-private", file=file)
    if not found:
        said = "{file} does not say which chat it is from. Export the chat again with Telegram Desktop."
        raise ImportRefused(said, code="import-nameless", file=file)
    if (username or options.title) and len(found) > 1:
        option = "--username" if username else "--title"
        raise ImportRefused(f"{file} holds {len(found)} chats, so {option} cannot say which one it means.")
    notes = []
    if private:
        said = "Left out {count} private conversations: --allow-private lets them in."
        notes.append(ImportNote(said, code="import-note-private", count=private))
    if nameless:
        said = "Left out {count} chats without an id of their own."
        notes.append(ImportNote(said, code="import-note-nameless", count=nameless))
    said = (
        "{title}: Telegram calls it public, but its username is not in the export. With --username "
        "its links open for everybody."
    )
    unnamed = [entry.channel.title for entry in found if entry.chat.public and not entry.channel.username]
    return admitted, notes + [ImportNote(said, code="import-note-public", title=title) for title in unnamed]


def _admit_chat(
    chat_id: int, chat: ExportedChat, known: Channel | None, username: str | None, options: ImportOptions
) -> AdmittedChat:
    kind, _ = _KIND_BY_EXPORT_TYPE.get(str(chat.type), _PRIVATE_KIND)
    channel = known or Channel(chat_id, str(chat.type or chat_id))
    named = username or channel.username
    # An admin's decision stays; a channel that was closed only for want of a username opens.
    undecided = known is None or (known.username is None and known.visibility is Visibility.ADMINS)
    if options.visibility:
        visibility = options.visibility
    elif known is None or known.state == "removed":  # of a channel that an admin removed it must be decided again
        visibility = Visibility.PUBLIC if known is None and named and chat.public else Visibility.ADMINS
    else:
        visibility = Visibility.PUBLIC if undecided and named and chat.public else known.visibility
    name = known.title if known and chat.one_topic else chat.name
    title = parse_text(options.title or name, MAX_TITLE_LENGTH) or channel.title
    # importing a channel by hand approves it
    state = known.state if known and known.state not in {"pending", "removed"} else "active"
    channel = replace(channel, title=title, username=named, kind=kind, visibility=visibility, state=state)
    return AdmittedChat(chat, channel, decided=known is None or visibility != known.visibility)
