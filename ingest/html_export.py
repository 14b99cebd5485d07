"""HTML exports: messages.html of one chat, and the pages after it (messages2.html, messages3.html ...).

A page says neither which chat it is from nor when a message was edited, and an old one not even in which time zone it
was written. Messages become entries like those of result.json.

The page is read as a stream and nothing in it is trusted: a message begins at its start tag, however deep, and one
whose tags do not fit together becomes an entry that cannot be read. Inside a block of text a line break is `<br>`; a
real one stands only after the start tag and, with indentation, before the end tag of a block (tdesktop's
export_output_html.cpp, HtmlContext).
"""

from __future__ import annotations

import html
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from itertools import count, takewhile
from pathlib import Path
from typing import Any, BinaryIO

from ingest.json_export import CUT_FILE, ExportedChat, ImportNote, ImportOptions, resolve_chat_id
from ingest.message_kinds import MESSAGE_KINDS
from rag_core.errors import ImportRefused
from rag_core.storage.posts import StoredPost
from rag_core.types import Channel, Post, PostKey, format_post_link

_FORMAT_BY_TAG = {
    "strong": "bold", "b": "bold", "em": "italic", "i": "italic", "u": "underline", "s": "strikethrough",
    "strike": "strikethrough", "del": "strikethrough", "code": "code", "pre": "pre", "blockquote": "blockquote",
    "a": "a",
}  # fmt: skip
_VOID_TAGS = frozenset({"br", "img", "hr", "wbr", "input", "meta", "link"})
# Classes of text that the page adds: dates and votes, media cards, list markers, buttons, fallbacks.
_SILENT_CLASSES = frozenset(
    {"details", "media_wrap", "rich_task_marker", "rich_order_marker", "rich_diff_previous", "rich_fallback"}
)
_TYPE_BY_SCRIPT = {
    "ShowHashtag": "hashtag", "ShowBotCommand": "bot_command", "ShowCashtag": "cashtag",
    "ShowMentionName": "mention_name", "ShowNot": "custom_emoji",
}  # fmt: skip
_SCHEME_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HTTP_PATTERN = re.compile(r"https?://", re.IGNORECASE)
# Telegram's longest text has 4096 letters; rich messages have more. Anything deeper or longer is no message.
_MAX_TEXT_CHARACTERS = 2**18
_MAX_TAG_DEPTH = 64
# Characters added to the size per change of formatting, which limits their number too.
_PIECE_OVERHEAD = 16

TagAttributes = Mapping[str, str]


@dataclass(slots=True, eq=False, frozen=True)
class _OpenTag:
    tag: str
    kind: str = ""
    fields: TagAttributes | None = None
    silent: bool = False


_NO_TAG = _OpenTag("")


class TextBlock:
    """Text block under construction. `rich` blocks contain further blocks; `date` is the title of a date inside."""

    def __init__(self, *, rich: bool = False) -> None:
        self.rich = rich
        self._open: list[_OpenTag] = []
        self._pieces: list[tuple[_OpenTag, list[str]]] = []
        self._size = 0
        self.date = ""

    @property
    def too_long(self) -> bool:
        """Check whether the block is longer than any message; its text is then incomplete."""
        return self._size > _MAX_TEXT_CHARACTERS

    def start(self, tag: str, fields: TagAttributes, classes: Sequence[str]) -> None:
        """Handle a start tag inside the block."""
        if tag == "br":
            self._add("\n")
        elif tag not in _VOID_TAGS and len(self._open) < _MAX_TAG_DEPTH:
            around = self._open[-1] if self._open else _NO_TAG
            kind = "spoiler" if "spoiler" in classes else _FORMAT_BY_TAG.get(tag, "")
            silent = around.silent or tag == "button" or not _SILENT_CLASSES.isdisjoint(classes)
            if "date" in classes:
                self.date = fields.get("title", "")
            inside = (kind, fields) if kind else (around.kind, around.fields)
            self._open.append(_OpenTag(tag, *inside, silent))
            if self.rich and tag == "pre":
                self._add("\0")

    def end(self, tag: str) -> bool:
        """Handle an end tag; False if the tag was not opened inside the block."""
        for n in reversed(range(len(self._open))):
            if self._open[n].tag == tag:
                if self.rich and tag == "pre":
                    self._add("\0")
                del self._open[n:]
                return True
        return False

    def data(self, text: str) -> None:
        """Add text of the page to the block."""
        self._add(re.sub(r"\n *", "\0", text) if self.rich else text)

    def _add(self, text: str) -> None:
        self._size += len(text) + _PIECE_OVERHEAD
        span = self._open[-1] if self._open else _NO_TAG
        if span.silent or self.too_long:
            return
        if self._pieces and self._pieces[-1][0] is span:
            self._pieces[-1][1].append(text)
        else:
            self._pieces.append((span, [text]))

    def plain(self) -> str:
        """Plain text."""
        return "".join(text for _, text in self._join_pieces())

    def parts(self) -> list[dict[str, str]]:
        """Text in the form of an export's `text_entities`."""
        if self.rich:
            lines = [line for line in self.plain().split("\0") if line.strip()]
            return [{"type": "plain", "text": "\n".join(lines)}] if lines else []
        return [_build_part(span, text) for span, text in self._join_pieces()]

    def links(self) -> list[str]:
        """Targets of the links."""
        return [(span.fields or {}).get("href", "") for span, _ in self._pieces if span.kind == "a"]

    def _join_pieces(self) -> list[tuple[_OpenTag, str]]:
        pieces = [(span, "".join(texts)) for span, texts in self._pieces]
        if pieces and pieces[0][0] is _NO_TAG:
            pieces[0] = (_NO_TAG, pieces[0][1].removeprefix("\n"))
        if pieces and pieces[-1][0] is _NO_TAG:
            pieces[-1] = (_NO_TAG, re.sub(r"\n *\Z", "", pieces[-1][1]))
        return [(span, text) for span, text in pieces if text]


def _build_part(span: _OpenTag, text: str) -> dict[str, str]:
    """Build a part of `text_entities`; a link is told from its text, as the page does not say its kind."""
    if span.kind != "a":
        return {"type": span.kind or "plain", "text": text}
    fields: Mapping[str, Any] = span.fields or {}
    href, script = fields.get("href", ""), fields.get("onclick", "")
    shown, target = (_HTTP_PATTERN.sub("", one, count=1).rstrip("/").lower() for one in (text, href))
    if script:
        kind = next((kind for mark, kind in _TYPE_BY_SCRIPT.items() if mark in script), "plain")
    elif shown == target:
        kind = "link"
    elif href == f"mailto:{text}":
        kind = "email"
    elif href == f"tel:{text}":
        kind = "phone"
    elif text.startswith("@") and href.endswith(f"/{text[1:]}"):
        kind = "mention"
    elif _SCHEME_PATTERN.match(href):
        return {"type": "text_link", "text": text, "href": href}
    else:
        kind = "custom_emoji"  # relative links lead to files of the export: pictures of custom emoji
    return {"type": kind, "text": text}


ExportEntry = dict[str, Any]

_REPLY_PATTERN = re.compile(r"#go_to_message([0-9]{1,16})\Z")
_DATE_PATTERN = re.compile(r"(\d\d)\.(\d\d)\.(\d{4}) (\d\d:\d\d:\d\d)( UTC([+-]\d\d:?\d\d)?)?", re.ASCII)
_TOPIC_PATTERN = re.compile(r" created topic «(.+)»\Z", re.DOTALL)
_VIA_BOT_PATTERN = re.compile(r" via @\w+\Z")
_DELETED_ACCOUNT_NAME = "Deleted Account"
_NO_FILE_TEXT = "(File not included.)"

# class -> `media_type` of result.json
_MEDIA_TYPE_BY_CLASS = {
    "sticker_wrap": "sticker", "animated_wrap": "animation", "video_file_wrap": "video_file",
    "media_video": "video_file", "media_voice_message": "voice_message", "media_audio_file": "audio_file",
}  # fmt: skip
# class -> the equivalent key of result.json
_MEDIA_FIELD_BY_CLASS = {
    "photo_wrap": "photo", "media_photo": "photo", "media_file": "file", "media_contact": "contact_information",
    "media_location": "location_information", "media_live_location": "location_information",
    "media_venue": "place_name", "media_game": "game_title", "media_invoice": "invoice_information",
    "media_giveaway": "giveaway_information", "media_poll": "poll", "media_call": "call",
}  # fmt: skip
_MEDIA_CLASSES = frozenset({*_MEDIA_TYPE_BY_CLASS, *_MEDIA_FIELD_BY_CLASS})
# Media types that share a class with photos and videos, by title.
_MEDIA_TYPE_BY_TITLE = {"Sticker": "sticker", "Animation": "animation", "Video message": "video_message"}
_NAMELESS_TITLES = frozenset({"", "File", "Audio file"})
# Separator of performer and title of a piece of music.
_PERFORMER_SEPARATOR = " – "


@dataclass(slots=True)
class MessageDraft:
    """Message under construction. `blocks`: class -> texts; `broken`: its tags are not well-formed."""

    id: int
    service: bool
    date: str = ""
    forwarded: bool = False
    media: str = ""
    href: str = ""
    blocks: dict[str, list[TextBlock]] = field(default_factory=dict)
    broken: bool = False

    def one(self, name: str) -> str:
        """First text of this class, trimmed."""
        texts = self.blocks.get(name)
        return texts[0].plain().strip() if texts else ""


def parse_title_date(title: str) -> datetime | None:
    """Parse the date of a title attribute; naive if it names no zone, as in exports before 2022."""
    found = _DATE_PATTERN.fullmatch(title)
    if not found:
        return None
    day, month, year, time, zoned, offset = found.groups()
    try:
        return datetime.fromisoformat(f"{year}-{month}-{day}T{time}{offset or ('Z' if zoned else '')}")
    except ValueError:
        return None


def build_export_entry(draft: MessageDraft, sender: str | None, origin: str | None) -> ExportEntry:
    """Build an entry in the form of result.json; an unreadable one for a broken message.

    `rich_message` marks dropped formatting. `sender` and `origin` are the author and the forward's source, which
    joined messages take from an earlier message.
    """
    if draft.service or draft.media == "media_call":
        topic = _TOPIC_PATTERN.search(draft.one("details"))
        return {"id": draft.id, "type": "service"} | ({"action": "topic_created", "title": topic[1]} if topic else {})
    entry: ExportEntry = {"id": draft.id, "type": "message"}
    if draft.broken:
        return entry
    text = next(iter(draft.blocks.get("text", ())), None)
    parts = text.parts() if text else []
    # lines of a card with sections, such as that of a giveaway
    if lines := [block.plain().strip() for block in draft.blocks.get("section", ())]:
        parts = [*parts, {"type": "plain", "text": "\n" * bool(text) + "\n".join(lines)}]
    entry |= {"from": sender, "author": draft.one("signature"), "text_entities": parts}
    buttons = [(one.plain().strip(), link) for one in draft.blocks.get("bot_button", ()) for link in one.links()]
    if opening := [{"type": "url", "text": label, "data": link} for label, link in buttons if link]:
        entry["inline_bot_buttons"] = [opening]
    if text and text.rich:
        entry["rich_message"] = True
    if draft.forwarded:
        entry["forwarded_from"] = origin
        entry["forwarded_date"] = next((name.date for name in draft.blocks.get("origin", ())), "")
    if date := parse_title_date(draft.date):
        entry |= {"date_unixtime": str(int(date.timestamp()))} if date.tzinfo else {"date": date.isoformat()}
    links = [link for text in draft.blocks.get("reply_to", ()) for link in text.links()]
    if reply := next(filter(None, map(_REPLY_PATTERN.search, links)), None):
        entry["reply_to_message_id"] = int(reply[1])
    return entry | _build_media_fields(draft)


def _build_media_fields(draft: MessageDraft) -> ExportEntry:
    if not draft.media:
        return {}
    title, file = draft.one("title"), draft.href or _NO_FILE_TEXT
    kind = _MEDIA_TYPE_BY_TITLE.get(title) if draft.media in ("media_photo", "media_video") else None
    kind = kind or _MEDIA_TYPE_BY_CLASS.get(draft.media)
    if kind or draft.media == "media_file":
        entry = {"file": file} | ({"media_type": kind} if kind else {})
        if kind == "audio_file" and _PERFORMER_SEPARATOR in title:
            performer, _, song = title.partition(_PERFORMER_SEPARATOR)
            return entry | {"performer": performer, "title": song}
        named = title not in _NAMELESS_TITLES and draft.media in ("media_file", "media_audio_file")
        return entry | ({"file_name": title} if named else {})
    match draft.media:
        case "media_poll":
            answers = [{"text": text.plain().removeprefix("- ").rstrip()} for text in draft.blocks.get("answer", ())]
            question = next((text.plain() for text in draft.blocks.get("question", ())), "")
            if draft.one("details") == "To-do List":
                return {"todo_list": {"title": question, "answers": answers}}
            return {"poll": {"question": question, "answers": answers}}
        case "media_contact":  # the number, with " - vCard" after it if there is one
            return {"contact_information": {"first_name": title, "phone_number": draft.one("details")}}
        case "media_venue":
            return {"place_name": title, "address": draft.one("description")}
        case "media_invoice" if not title:
            return {"paid_stars_amount": draft.one("details")}
        case "media_invoice":
            return {"invoice_information": {"title": title, "description": draft.one("description")}}
        case "media_game":
            return {"game_title": title, "game_description": draft.one("description"), "game_link": draft.href}
    return {_MEDIA_FIELD_BY_CLASS[draft.media]: title or file}


_MESSAGE_ID_PATTERN = re.compile(r"message(-?[0-9]{1,16})")
# Control characters are written as references that are invalid in HTML, so Python's parser drops them.
_CONTROL_REFERENCE_PATTERN = re.compile(r"&#x([01][0-9A-F]);")
# Markup longer than this is skipped: the longest real link has 25,000 characters.
_MAX_UNENDED_CHARACTERS = 2**18
# Tags that no message holds.
_FOREIGN_TAGS = frozenset({"script", "style", "iframe", "textarea", "title", "xmp", "noscript", "plaintext"})
# Classes of blocks whose text is read; those of the second row only beside media.
_TEXT_BLOCK_CLASSES = ("from_name", "reply_to", "text", "signature", "bot_button")
_MEDIA_BLOCK_CLASSES = ("title", "description", "question", "answer", "details", "section_title", "section_body")


class MessagePageParser(HTMLParser):
    """Incremental parser of a page: `read` it piece by piece, `take_entries` returns the complete entries."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._entries: list[ExportEntry] = []
        self._draft: MessageDraft | None = None
        self._text: TextBlock | None = None
        self._name = ""
        self._people: dict[str, str | None] = {"from_name": None, "origin": None}  # of the last message that says it

    def read(self, piece: str) -> None:
        """Parse the next piece of the page; pieces end at line ends, unless a line is very long."""
        if "&#x" in piece:
            piece = _CONTROL_REFERENCE_PATTERN.sub(lambda found: chr(int(found[1], 16)), piece)
        self.feed(piece)
        if len(self.rawdata) > _MAX_UNENDED_CHARACTERS:
            self.reset()
            self._mark_broken()

    def take_entries(self) -> list[ExportEntry]:
        """Return the entries completed since the last call."""
        entries, self._entries = self._entries, []
        return entries

    def finish(self) -> list[ExportEntry]:
        """Return the remaining entries at the end of the page."""
        if self.rawdata:
            self._mark_broken()
        self._end_message()
        return self.take_entries()

    def updatepos(self, i: int, j: int) -> int:
        """Skip counting lines and columns: nothing needs them, and counting takes a tenth of the time."""
        return j

    def parse_html_declaration(self, i: int) -> int:
        """Skip CDATA and similar up to the next ">": some Python versions raise an error for some of them."""
        return self.parse_bogus_comment(i)

    def handle_comment(self, data: str) -> None:
        """Mark the message as broken: no message holds a comment."""
        self._mark_broken()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle a start tag."""
        if (self.get_starttag_text() or "").rfind("<") > 0 or tag in _FOREIGN_TAGS:
            # "<" inside a tag is written as &lt;, so this tag has swallowed others
            self._mark_broken()
        fields = {name: value or "" for name, value in attrs}
        classes = fields["class"].split() if "class" in fields else []
        if tag == "div" and "message" in classes and (number := _MESSAGE_ID_PATTERN.fullmatch(fields.get("id", ""))):
            self._end_message()
            self._draft = MessageDraft(int(number[1]), "service" in classes)
        elif self._text is not None:
            self._text.start(tag, fields, classes)
        elif self._draft is not None and self._draft.service:
            if tag == "div" and "details" in classes:
                self._name, self._text = "details", TextBlock()
        elif self._draft is not None and classes:
            self._begin(self._draft, tag, fields, classes)

    def handle_endtag(self, tag: str) -> None:
        """Handle an end tag."""
        if self._text is not None and not self._text.end(tag) and tag == "div":
            text, self._text = self._text, None
            if self._draft is not None:
                self._draft.broken |= text.too_long
                self._draft.blocks.setdefault(self._name, []).append(text)

    def handle_data(self, data: str) -> None:
        """Handle text between tags."""
        if self._text is not None:
            self._text.data(data)

    def _begin(self, draft: MessageDraft, tag: str, fields: TagAttributes, classes: Sequence[str]) -> None:
        if "date" in classes:
            draft.date = draft.date or fields.get("title", "")
        elif "forwarded" in classes and "body" in classes:
            draft.forwarded = True
        elif media := next((name for name in classes if name in _MEDIA_CLASSES), ""):
            draft.media = draft.media or media
            draft.href = draft.href or fields.get("href", "")
        elif tag == "div":
            wanted = _TEXT_BLOCK_CLASSES + _MEDIA_BLOCK_CLASSES if draft.media else _TEXT_BLOCK_CLASSES
            if name := next((name for name in wanted if name in classes), ""):
                self._name = (
                    "origin" if name == "from_name" and draft.forwarded else name.partition("section_")[0] or "section"
                )
                self._text = TextBlock(rich="rich_message" in classes)

    def _mark_broken(self) -> None:
        self._text = None
        if self._draft is not None:
            self._draft.broken = True

    def _end_message(self) -> None:
        if self._text is not None:
            self._mark_broken()
        draft, self._draft = self._draft, None
        # the rows between days have negative ids
        if draft is None or (draft.service and draft.id < 0):
            return
        for name in draft.blocks.keys() & self._people.keys():
            person = _VIA_BOT_PATTERN.sub("", draft.one(name)).rstrip()
            self._people[name] = None if person in ("", _DELETED_ACCOUNT_NAME) else person
        self._entries.append(build_export_entry(draft, self._people["from_name"], self._people["origin"]))


_READ_BYTES = 2**16
# Head of a page with its title, and end of a page with the link to the next one.
_HEAD_BYTES, _TAIL_BYTES = 2**16, 2**13
_TITLE_PATTERN = re.compile(rb'<div class="text bold">\s*(.{0,4096}?)\s*</div>', re.DOTALL)
_NEXT_PAGE_PATTERN = re.compile(rb'class="pagination block_link" href="(messages[0-9]+\.html)"')
# Start of a message, and its date: the first one after the start.
_MESSAGE_OR_DATE_PATTERN = re.compile(
    rb'class="message (default|service)[^"<>]{0,64}" id="message(-?[0-9]{1,16})"'
    rb'|class="[^"<>]{0,64}date details" title="([0-9]{2})\.([0-9]{2})\.([0-9]{4}) '
)
_FLATTENED_KINDS = frozenset(kind.name for kind in MESSAGE_KINDS if kind.format_text and not kind.named)
# Messages whose days are compared with the archive.
_MAX_COMPARED_DAYS = 200


# Post with its update id, which orders versions of the same second.
PostArrival = tuple[Post, int]


def merge_with_stored_post(post: Post, stored: StoredPost, *, same: bool) -> PostArrival:
    """Merge an imported post with the stored one; `same` says that their texts are equal.

    A different text counts as newer if the stored post has no known edit: then the stored text is the first version.
    Otherwise the order is unknown and the known edit stays: the imported text gets the date of the post, as an
    earlier version.
    """
    known = stored.post
    learnt = replace(
        post,
        date=known.date,
        author=known.author or post.author,
        media=known.media or post.media,
        origin=known.origin or post.origin,
        reply_to=known.reply_to or post.reply_to,
    )
    if known.origin and post.origin:
        learnt = replace(learnt, origin=replace(known.origin, date=known.origin.date or post.origin.date))
    if same:
        # with the stamp of the stored version no new version is made, but missing fields are filled
        learnt = replace(learnt, text=known.text, entities=known.entities, links=known.links, edited=stored.stamp)
        return learnt, stored.update_id
    if known.media and post.media and known.media.kind != post.media.kind:
        learnt = replace(learnt, media=post.media)
    return learnt, stored.update_id if stored.stamp <= known.date else 0


class HtmlExport:
    """Export in HTML: a page of a chat and those that follow it in its folder. Its methods block.

    Opening it raises `ImportRefused` if a page is invalid or nobody says which chat it is of. It names neither the chat
    nor the edit times of its posts: it is compared with the archive before its posts are kept.
    """

    def __init__(self, file: Path, options: ImportOptions, known: Mapping[int, Channel]) -> None:
        self.path, self._files, self._zone = file, [file], options.zone
        if number := re.fullmatch(r"messages([0-9]*)\.html", file.name):
            following = (file.with_name(f"messages{n}.html") for n in count(int(number[1] or 1) + 1))
            self._files += takewhile(Path.is_file, following)
        self.size = self.bytes_read = 0
        with _refuse_unreadable():
            head = self._check_page(file)
            for page in self._files[1:]:
                self._check_page(page)
        where = "its id, which Telegram Desktop shows in profiles (Settings, Advanced, Experimental settings)."
        if not options.chat:
            said = "{file} does not say which channel it is from: give --chat with its @username if the bot knows it, "
            raise ImportRefused(f"{said}else {where}", code="import-whose", file=self.path)
        chat_id = resolve_chat_id(options.chat, known)
        if chat_id is None:
            said = "No channel {chat} is known yet. Give --chat " + where
            raise ImportRefused(said, code="import-whose", chat=options.chat)
        self._chat_id = chat_id
        # metadata of the chat in the form of result.json
        channel = known.get(chat_id)
        title = _TITLE_PATTERN.search(head)
        name = channel.title if channel else html.unescape(title[1].decode(errors="replace")) if title else str(chat_id)
        public = "public" if options.username or (channel and channel.username) else "private"
        kind = "supergroup" if channel and channel.kind == "supergroup" else "channel"
        self._chat = ExportedChat("", name=name, type="private_group", id=-chat_id, listed=True)
        if str(chat_id).startswith("-100"):
            self._chat.type, self._chat.id = f"{public}_{kind}", int(str(chat_id).removeprefix("-100"))
        # a full export links to a list of chats; of groups it may hold the user's own messages only
        self._chat.whole = b"lists/chats.html" not in head
        self._new = channel is None
        self._ids = array("q")
        self._days = array("l")
        # message id -> whether its text was flattened, and the date of its origin
        self._more: dict[int, tuple[bool, datetime | None]] = {}
        self._doubtful = 0

    def _check_page(self, file: Path) -> bytes:
        """Check the head and the end of a page, and note its size and the page after it; returns the head."""
        size = file.stat().st_size
        with file.open("rb") as page:
            head = page.read(_HEAD_BYTES)
            page.seek(max(0, size - _TAIL_BYTES))
            tail = page.read()
        if b'class="history"' not in head:
            said = "{file} is HTML, but no chat that Telegram Desktop exported. Give the messages.html of a chat."
            raise ImportRefused(said, code="import-no-page", file=file)
        if not tail.rstrip().lower().endswith(b"</html>"):
            raise ImportRefused(CUT_FILE, code="import-cut", file=file)
        found = _NEXT_PAGE_PATTERN.search(tail)
        self._next = found[1].decode() if found else None
        self.size += size
        return head

    def survey(self) -> list[ExportedChat]:
        """Count the messages and collect their days, without parsing the pages."""
        with self.reading():
            for file in self._files:
                with file.open("rb") as page:
                    self._count(page)
        return [self._chat]

    def _count(self, page: BinaryIO) -> None:
        undated = False
        while piece := page.read(_READ_BYTES) + page.readline(_READ_BYTES):
            self.bytes_read += len(piece)
            for found in _MESSAGE_OR_DATE_PATTERN.finditer(piece):
                if found[2]:
                    undated = found[1] == b"default"
                    self._chat.messages += undated or not found[2].startswith(b"-")
                    number = int(found[2])
                elif undated:
                    undated = False
                    day, month, year = map(int, found.groups()[2:])
                    with suppress(ValueError):  # no day of the calendar
                        self._days.append(date(year, month, day).toordinal())
                        self._ids.append(number)

    def messages(self, chat: ExportedChat, opened: ExitStack) -> Iterator[object]:
        """Stream the messages of all pages."""
        for file in self._files:
            parser = MessagePageParser()
            with file.open(encoding="utf-8-sig", errors="replace") as page:
                while piece := page.read(_READ_BYTES) + page.readline(_READ_BYTES):
                    parser.read(piece)
                    yield from map(self._note_details, parser.take_entries())
            yield from map(self._note_details, parser.finish())

    def _note_details(self, entry: ExportEntry) -> ExportEntry:
        flattened, written = "rich_message" in entry, parse_title_date(entry.get("forwarded_date", ""))
        if flattened or written:
            local = written if written is None or written.tzinfo else written.replace(tzinfo=self._zone)
            self._more[entry["id"]] = flattened, local
        return entry

    def reading(self) -> AbstractContextManager[None]:
        """Context for reading: a page may be deleted meanwhile. Raises `ImportRefused`."""
        return _refuse_unreadable()

    def days(self, ids: Collection[int]) -> Mapping[int, date]:
        """Days of up to 200 of these messages, spread over the export."""
        both = [n for n, message_id in enumerate(self._ids) if message_id in ids]
        chosen = both[:: len(both) // _MAX_COMPARED_DAYS + 1]
        return {self._ids[n]: date.fromordinal(self._days[n]) for n in chosen}

    def merge_with_archive(self, found: Sequence[Post], known: Mapping[PostKey, StoredPost]) -> list[PostArrival]:
        """Posts merged with what the archive knows of them."""
        arrivals = []
        for post in found:
            flattened, origin_date = self._more.pop(post.key.message_id, (False, None))
            if post.origin and origin_date:
                post = replace(post, origin=replace(post.origin, date=origin_date.astimezone(UTC)))
            stored = known.get(post.key)
            if stored is None:
                arrivals.append((post, 0))
                continue
            # a stored text is never worse than a flattened one: bots get more detail
            flattened |= post.media is not None and post.media.kind in _FLATTENED_KINDS
            flattened |= post.text.startswith(f"{stored.post.text}\n")  # without the formatting of its first lines
            # pages turn some line separators into line breaks
            same = post.text.split() == stored.post.text.split() or (flattened and bool(stored.post.text))
            self._doubtful += not same and stored.stamp > stored.post.date
            arrivals.append(merge_with_stored_post(post, stored, same=same))
        return arrivals

    def notes(self) -> Iterator[ImportNote]:
        """Notes for the user."""
        link = format_post_link(PostKey(self._chat_id, self._ids[-1]), None) if self._new and self._ids else ""
        if link:
            said = "{title} was not known before: see that {link} opens a post of it, else --chat is wrong."
            yield ImportNote(said, title=self._chat.name, link=link)
        if self._next:
            said = "{file} goes on in {page}, which is not beside it: import that page too."
            yield ImportNote(said, code="import-note-next", file=self.path, page=self._next)
        if self._doubtful:
            said = (
                "{count} posts read otherwise than after their last known edit. Pages do not say when a "
                "post was edited, so these texts were kept as earlier ones. Import result.json to be sure."
            )
            yield ImportNote(said, code="import-note-doubtful", count=self._doubtful)


@contextmanager
def _refuse_unreadable() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = f"{exc.filename} cannot be read ({exc.strerror}). Check it, then start the import again."
        raise ImportRefused(reason) from exc
