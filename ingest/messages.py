"""Message parsing: raw messages, live or exported, become `Post` objects.

Both ways give the same text for the same post. File names are kept in the media, never in the text; what else a
message holds (`ingest.message_kinds`) and the addresses of its buttons are lines of the text. A message that lacks
what every message has raises `MalformedMessage`, one without a word that holds something unknown `UnreadMessage`.

Offsets of entities are UTF-16 units: https://core.telegram.org/api/entities#entity-length

Rich messages are read in three forms: the Bot API's (https://core.telegram.org/bots/api#richmessage), MTProto's page
blocks, and whatever an export holds in their place. Every leaf that is a text is read, so that a new kind of block is
not lost. Nothing there is recursive: depth and size are those that a stranger chose.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path, PurePosixPath
from typing import Any

from ingest.message_kinds import (
    MAX_FILE_NAME_LENGTH,
    MAX_ID,
    MAX_NAME_LENGTH,
    MAX_TITLE_LENGTH,
    MESSAGE_KINDS,
    MalformedMessage,
    convert_exported_attachment,
    count_utf16_units,
    find_exported_file,
    find_exported_kind,
    find_live_file,
    find_unknown_fields,
    join_lines,
    parse_integer,
    parse_object,
    parse_peer_name,
    parse_text,
)
from rag_core.types import PAGE, Channel, Entity, Media, MediaFile, MediaText, Origin, Post, PostKey

# Fields with formatted text, whose parts are joined without a separator; then fields with blocks, a line each.
_INLINE_FIELDS = (
    "label", "performer", "title", "summary", "text", "texts", "expression", "source", "alternative_text", "alt",
    "question",
)  # fmt: skip
_BLOCK_FIELDS = ("cells", "rows", "items", "blocks", "buttons", "caption", "credit")
_ORDERED_FIELDS = (*_INLINE_FIELDS, "button", *_BLOCK_FIELDS)
_RANK_BY_SEPARATOR = {"": 0, " ": 1, " | ": 2, "\n": 3}


@dataclass(slots=True)
class RichText:
    """Text of a rich message; `files` are the names of the files in it. Mutable: filled while blocks are read."""

    pieces: list[str] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    links: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    units: int = 0
    separator: str = ""  # before the next piece

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)

    def add(self, piece: str) -> None:
        """Add a piece of text."""
        if self.separator and piece:
            self.pieces.append(self.separator)
            self.units += len(self.separator)
            self.separator = ""
        self.pieces.append(piece)
        self.units += count_utf16_units(piece)


def read_rich_message(value: object) -> RichText:
    """Read a rich message: one line for each block, the cells of a row side by side."""
    read = RichText()
    # steps still to take, the next one last: a separator, an address, an entity that ends, or (value, inline)
    steps: list[Any] = [(value, False)]
    while steps:
        step = steps.pop()
        if isinstance(step, str):
            if read.pieces and _RANK_BY_SEPARATOR[step] > _RANK_BY_SEPARATOR[read.separator]:
                read.separator = step
        elif isinstance(step, Entity):
            if read.units > step.offset:
                read.entities.append(replace(step, length=read.units - step.offset))
        elif isinstance(step, _Address):
            read.entities.append(Entity("url", read.units + 2, count_utf16_units(step.url)))
            read.add(f": {step.url}")
        else:
            inside, inline = step
            if isinstance(inside, dict):
                steps += reversed(list(_list_object_steps(inside, inline, read)))
            elif isinstance(inside, list):
                steps += reversed(list(_join_steps(inside, "" if inline else "\n", inline)))
            elif text := parse_text(inside):
                read.add(text)
    return read


@dataclass(frozen=True, slots=True)
class _Address:
    url: str


def _join_steps(values: list[object], separator: str, inline: bool) -> Iterator[Any]:
    for place, value in enumerate(values):
        yield separator if place else ""
        yield value, inline


def _list_object_steps(value: Mapping[str, Any], inline: bool, read: RichText) -> Iterator[Any]:
    """List the steps through an object: its fields in reading order, then the entity or the address that it makes."""
    kind = parse_text(value.get("type") or value.get("_")) or ""
    url = parse_text(value.get("url") or value.get("href"))
    if url:
        read.links[url] = None
    if name := parse_text(value.get("file_name")):
        read.files[name] = None
    # what stands beside formatted text describes it (a person, a date); beside blocks it may be a block
    more = () if inline else (k for k, v in value.items() if k not in _ORDERED_FIELDS and isinstance(v, dict | list))
    separator = ""
    span = {"spoiler": "spoiler", "TextSpoiler": "spoiler", "TextAutoUrl": "url"}.get(kind)
    if url and kind:
        span = "text_link"
    start = read.units + len(read.separator)
    for name in (*(key for key in _ORDERED_FIELDS if key in value), *more):
        yield separator
        held = value[name]
        if name in ("cells", "rows") and isinstance(held, list):
            for place, row in enumerate(held):
                between = "\n" if isinstance(row, list) or name == "rows" else " | "
                yield between if place else ""
                yield from _join_steps(row, " | ", True) if isinstance(row, list) else [(row, name == "cells")]
        else:
            yield held, name in _INLINE_FIELDS or name == "button"
        separator = " " if name == "label" else "\n"
    if span:
        yield Entity(span, start, 0, url if span == "text_link" else None)
    elif url and "text" in value:
        yield _Address(url)


# Telegram's times are unsigned 32-bit seconds.
_MAX_UNIX_SECONDS = 2**32
_MAX_REASON_LENGTH = 200
_ADDRESS_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://\S+\Z", re.IGNORECASE)
# Exported buttons whose data is an address, or a text to copy; that of others is for their bot.
_EXPORTED_ADDRESS_BUTTONS = frozenset({"url", "auth", "web_view", "simple_web_view", "copy_text"})
_NOTHING = "empty"  # reported as the kind of a message without a single word or attachment


class UnreadMessage(MalformedMessage):
    """A message of which no word was understood: `fields` are those that nothing reads."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(parse_text(name, MAX_TITLE_LENGTH) or "" for name in fields)
        super().__init__(f"what it holds is not known: {', '.join(self.fields)}"[:_MAX_REASON_LENGTH])


# Telegram Desktop's names -> the Bot API's; names not listed are the same in both.
_ENTITY_TYPE_BY_EXPORT_TYPE = {
    "link": "url",
    "phone": "phone_number",
    "mention_name": "text_mention",
    "bank_card": "bank_card_number",
}
_PLAIN_TEXT_TYPES = frozenset({"plain", "unknown", ""})


def _flatten_text(value: object) -> tuple[str, tuple[Entity, ...]]:
    """Flatten an export's `text_entities` or `text` (string, or list of strings and objects) to text and entities."""
    if isinstance(value, str):
        return parse_text(value) or "", ()
    pieces: list[str] = []
    entities: list[Entity] = []
    offset = 0
    for part in value if isinstance(value, list) else ():
        piece = parse_text(part if isinstance(part, str) else parse_object(part).get("text")) or ""
        length = count_utf16_units(piece)
        kind = parse_text(parse_object(part).get("type")) or ""
        kind = _ENTITY_TYPE_BY_EXPORT_TYPE.get(kind, kind)
        if kind == "blockquote" and part.get("collapsed") is True:
            kind = "expandable_blockquote"
        if kind not in _PLAIN_TEXT_TYPES and length:
            entities.append(Entity(kind, offset, length, parse_text(part.get("href"))))
        pieces.append(piece)
        offset += length
    return "".join(pieces), tuple(entities)


def _parse_entities(value: object) -> tuple[Entity, ...]:
    found = []
    for item in value if isinstance(value, list) else ():
        kind, offset, length = (parse_object(item).get(key) for key in ("type", "offset", "length"))
        if isinstance(kind, str) and isinstance(offset, int) and isinstance(length, int):
            found.append(Entity(kind, offset, length, parse_text(item.get("url"))))
    return tuple(found)


def _list_buttons(rows: object) -> list[tuple[str, str]]:
    """List the buttons that open an address or copy a text, as (label, address or text): live or exported."""
    found = []
    for button in (b for row in (rows if isinstance(rows, list) else ()) if isinstance(row, list) for b in row):
        value = parse_object(button)
        opened = (parse_object(value.get(key)).get("url") for key in ("web_app", "login_url"))
        copied = parse_object(value.get("copy_text")).get("text")
        data = value.get("data") if value.get("type") in _EXPORTED_ADDRESS_BUTTONS else None
        if given := next(filter(None, map(parse_text, (value.get("url"), *opened, copied, data))), None):
            found.append((parse_text(value.get("text")) or "", given))
    return found


def _compose_text(
    text: str, entities: tuple[Entity, ...], rich: RichText, line: str | None, buttons: list[tuple[str, str]]
) -> tuple[str, tuple[Entity, ...], tuple[str, ...]]:
    """Compose text, entities and links: the longer of text and rich message, the attachment, each button."""
    if len(rich.text) > len(text):
        text, entities = rich.text, tuple(rich.entities)
    text, behind = join_lines(text, line), list(rich.links)
    for label, given in buttons:
        address = bool(_ADDRESS_PATTERN.match(given))
        if address:
            behind.append(given)
        if any(map(str.isalpha, label)):
            text = join_lines(text, f"{label}: {given}")
            if address:
                length = count_utf16_units(given)
                entities += (Entity("url", count_utf16_units(text) - length, length),)
    units, links = b"", list[str]()
    for entity in entities:
        if entity.type == "text_link" and entity.url:
            links.append(entity.url)
        elif entity.type == "url":
            units = units or text.encode("utf-16-le")
            links.append(units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace"))
    return text, entities, tuple(dict.fromkeys([*links, *behind]))


def parse_live_post(message: Mapping[str, Any]) -> tuple[Channel, Post]:
    """Parse a Bot API message (`channel_post`, `edited_channel_post`). Raises `MalformedMessage`."""
    if message.get("is_automatic_forward") is True:
        raise MalformedMessage("the copy of a post in its channel's discussion group is no post of its own")
    chat = parse_object(message.get("chat"))
    chat_id = parse_integer(chat.get("id"), -MAX_ID)
    # text, caption or poll description, then the attachment; quotes of other posts are left out
    poll = parse_object(message.get("poll"))
    places = (
        (message, "text", "entities"),
        (message, "caption", "caption_entities"),
        (poll, "description", "description_entities"),
    )
    text, spans = next(((t, place.get(s)) for place, key, s in places if (t := parse_text(place.get(key)))), ("", None))
    kind = next((one for one in MESSAGE_KINDS if one.name in message), None)
    rich = read_rich_message(message.get("rich_message"))
    line = kind.format_text(parse_object(message[kind.name])) if kind and kind.format_text else None
    buttons = _list_buttons(parse_object(message.get("reply_markup")).get("inline_keyboard"))
    text, entities, links = _compose_text(text, _parse_entities(spans), rich, line, buttons)
    if not (text or kind) and (unknown := find_unknown_fields(message)):
        raise UnreadMessage(unknown)
    edited = message.get("edit_date")
    forwarded = parse_object(message.get("forward_origin"))
    parent = parse_object(message.get("reply_to_message"))
    if "forum_topic_created" in parent:  # what is written in a topic "replies" to its opening
        parent = {}
    elsewhere = "external_reply" in message or parse_object(parent.get("chat")).get("id", chat_id) != chat_id
    paid = message.get("is_paid_post") is True or "paid_media" in message
    media = _build_media("document", ", ".join(rich.files), None) if rich.files else None
    if kind:
        file = parse_object(message[kind.name]) if kind.named else {}
        media = _build_media(kind.name, file.get("file_name"), file.get("mime_type"), find_live_file(message, kind))
    in_topic = message.get("is_topic_message") is True and "message_thread_id" in message
    post = Post(
        key=PostKey(chat_id, parse_integer(message.get("message_id"))),
        date=_parse_time(message.get("date")),
        text=text,
        edited=_parse_time(edited) if edited else None,
        # the signature of a forward is not the author's
        author=parse_text((forwarded or message).get("author_signature"), MAX_NAME_LENGTH),
        entities=entities,
        links=links,
        media=media,
        origin=_extract_live_origin(message.get("forward_origin")),
        reply_to=None if elsewhere or "message_id" not in parent else parse_integer(parent["message_id"]),
        album=parse_text(message.get("media_group_id")),
        guarded="paid" if paid else "protected" if message.get("has_protected_content") is True else None,
        topic=parse_integer(message["message_thread_id"]) if in_topic else None,
        media_text=_parse_page(parse_object(message.get("page"))),
    )
    chat_kind = parse_text(chat.get("type"), MAX_TITLE_LENGTH) or "channel"
    username = parse_text(chat.get("username"), MAX_TITLE_LENGTH)
    return Channel(chat_id, parse_peer_name(chat) or str(chat_id), username, chat_kind), post


_MAX_PAGE_LENGTH = 1000  # characters; Telegram's previews have a few hundred


def _parse_page(page: Mapping[str, Any]) -> tuple[MediaText, ...]:
    """Parse the preview of a linked page, which only MTProto shows: its site and title, then its description."""
    names = filter(None, (parse_text(page.get(key), MAX_TITLE_LENGTH * 2) for key in ("site_name", "title")))
    lines = join_lines(": ".join(names), parse_text(page.get("description"), _MAX_PAGE_LENGTH))
    text = "\n".join(filter(None, map(str.strip, lines.splitlines())))
    return (MediaText(PAGE, text),) if text else ()


def parse_topic_title(message: Mapping[str, Any]) -> tuple[int, str, int] | None:
    """Parse the title that a live message gives its topic or tells of it: topic, title, Unix seconds; else None."""
    parent = parse_object(message.get("reply_to_message"))
    for source, key in (message, "edited"), (message, "created"), (parent, "created"):
        if title := parse_text(parse_object(source.get(f"forum_topic_{key}")).get("name"), MAX_TITLE_LENGTH):
            topic = message.get("message_thread_id", source.get("message_id"))
            return parse_integer(topic), title, int(_parse_time(source.get("date")).timestamp())
    return None


def parse_exported_post(
    message: Mapping[str, Any], chat_id: int, *, zone: tzinfo = UTC, broadcast: bool = True, folder: Path | None = None
) -> Post | None:
    """Parse an exported message; None for service entries and what the exporter did not support.

    `folder` is that of the export's files. `zone` is the time zone of old exports without Unix times. In a broadcast
    channel only a signature names an author, elsewhere everybody writes under their own name. Raises
    `MalformedMessage`.
    """
    message_id = parse_integer(message.get("id"))
    if message.get("type") != "message":
        return None
    date = parse_exported_time(message, "date", zone)
    kind, unknown = find_exported_kind(message), find_unknown_fields(message, exported=True)
    text, entities = _flatten_text(message.get("text_entities") or message.get("text"))
    rich = read_rich_message(message.get("rich_message"))
    if not (text or rich.text):  # a form of rich message that is not known yet
        rich = read_rich_message([held for key in unknown if isinstance(held := message.get(key), dict | list)])
    attachment = convert_exported_attachment(message, kind) if kind else {}
    if url := parse_text(attachment.get("url")):
        rich.links[url] = None
    line = kind.format_text(attachment) if kind and kind.format_text else None
    buttons = _list_buttons(message.get("inline_bot_buttons"))
    text, entities, links = _compose_text(text, entities, rich, line, buttons)
    if not (text or kind):
        raise UnreadMessage(unknown or (_NOTHING,))
    writer = None if broadcast else parse_text(message.get("from"), MAX_NAME_LENGTH)
    edited = None
    with suppress(MalformedMessage):  # old exports write 1970 where a message was never edited
        edited = parse_exported_time(message, "edited", zone) if "edited" in message else None
    exported = find_exported_file(message, kind, folder) if kind and folder else None
    media = Media(kind.name, file=exported) if kind else None
    if kind and kind.named:
        name, file = parse_text(message.get("file_name")), parse_text(message.get("file"))
        # Older exports give the name only as the end of a path; a sentence in brackets says why there is none.
        if not name and file and kind.name in ("document", "audio") and not file.startswith("("):
            name = PurePosixPath(file).name
        media = _build_media(kind.name, name, message.get("mime_type"), exported)
    reply_to = message.get("reply_to_message_id")
    elsewhere = "reply_to_peer_id" in message or type(reply_to) is not int or reply_to < 1
    return Post(
        key=PostKey(chat_id, message_id),
        date=date,
        text=text,
        edited=edited if edited and edited > date else None,
        author=None if "forwarded_from" in message else parse_text(message.get("author"), MAX_NAME_LENGTH) or writer,
        entities=entities,
        links=links,
        media=media,
        origin=_extract_exported_origin(message),
        reply_to=None if elsewhere else parse_integer(reply_to),
    )


def _parse_time(value: object) -> datetime:
    """Parse Unix seconds, given as a number or as digits. Raises MalformedMessage."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return datetime.fromtimestamp(parse_integer(value, 1, _MAX_UNIX_SECONDS), UTC)


def parse_exported_time(message: Mapping[str, Any], key: str, zone: tzinfo) -> datetime:
    """Parse a time of an exported message; `zone` is that of old exports. Raises MalformedMessage."""
    if (exact := message.get(f"{key}_unixtime")) is not None:
        return _parse_time(exact)
    try:
        local = datetime.fromisoformat(str(message.get(key)))
        moment = local if local.tzinfo else local.replace(tzinfo=zone)
        return _parse_time(int(moment.timestamp()))
    except (ValueError, OverflowError) as exc:
        raise MalformedMessage(f"{key} is not a date") from exc


def _build_media(kind: str, file_name: object, mime: object, file: MediaFile | None = None) -> Media:
    return Media(kind, parse_text(file_name, MAX_FILE_NAME_LENGTH), parse_text(mime, MAX_FILE_NAME_LENGTH), file)


def _extract_live_origin(value: object) -> Origin | None:
    if value is None:
        return None
    origin = parse_object(value)
    date = _parse_time(origin.get("date"))
    match origin.get("type"):
        case "channel":
            chat = parse_object(origin.get("chat"))
            chat_id, message_id = parse_integer(chat.get("id"), -MAX_ID), parse_integer(origin.get("message_id"))
            return Origin(parse_peer_name(chat), chat_id, message_id, date)
        case "chat" | "user" as kind:
            sender = parse_object(origin.get(f"sender_{kind}"))
            sender_id = parse_integer(sender.get("id"), -MAX_ID if kind == "chat" else 1)
            return Origin(parse_peer_name(sender), sender_id, None, date)
        case "hidden_user":
            return Origin(parse_text(origin.get("sender_user_name"), MAX_NAME_LENGTH) or "", None, None, date)
    raise MalformedMessage("a forward of an unknown kind")


# "channel123", "chat123", "user123" -> prefix of the digits in a Bot API id.
_ID_PREFIX_BY_PEER_TYPE = {"channel": "-100", "chat": "-", "user": ""}


def _extract_exported_origin(message: Mapping[str, Any]) -> Origin | None:
    if "forwarded_from" not in message:
        return None
    peer = parse_text(message.get("forwarded_from_id")) or ""
    digits = peer.lstrip("abcdefghijklmnopqrstuvwxyz")
    sign = _ID_PREFIX_BY_PEER_TYPE.get(peer.removesuffix(digits))
    known = sign is not None and digits.isascii() and digits.isdigit() and len(digits) < 16
    name = parse_text(message["forwarded_from"], MAX_NAME_LENGTH) or ""
    return Origin(name, int(f"{sign}{digits}") if known else None)
