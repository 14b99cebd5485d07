"""Message parsing: raw messages, live or exported, become `Post` objects.

Both ways give the same text for the same post. File names are kept in the media, never in the text; polls,
checklists, places and contacts are flattened into the text. JSON values come from strangers: each is checked for type
and range, and a message that lacks what every message has raises `MalformedMessage`.

Offsets of entities are UTF-16 units: https://core.telegram.org/api/entities#entity-length
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import PurePosixPath
from typing import Any

from rag_core.types import Channel, Entity, Media, Origin, Post, PostKey

# Telegram promises that ids fit 52 bits: https://core.telegram.org/bots/api#chat
MAX_ID = 2**52
# Telegram's times are unsigned 32-bit seconds.
_MAX_UNIX_SECONDS = 2**32


class MalformedMessage(ValueError):
    """A message lacks a mandatory field or holds an invalid value."""


def _parse_integer(value: object, low: int = 1, high: int = MAX_ID) -> int:
    """Parse an integer within `low`..`high`. Raises MalformedMessage."""
    if type(value) is not int or not low <= value <= high:
        raise MalformedMessage(f"not a number from {low} to {high}")
    return value


def parse_text(value: object) -> str | None:
    """Parse a non-empty text, else None. Half a surrogate pair, which no file can hold, becomes U+FFFD."""
    if not isinstance(value, str) or not value:
        return None
    # Both are one UTF-16 unit long, so that the offsets of entities stay right.
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_object(value: object) -> Mapping[str, Any]:
    """Parse an object, else an empty one."""
    return value if isinstance(value, dict) else {}


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
        length = len(piece) if piece.isascii() else len(piece.encode("utf-16-le")) // 2
        kind = _parse_entity_type(part) if isinstance(part, dict) else ""
        if kind not in _PLAIN_TEXT_TYPES and length:
            entities.append(Entity(kind, offset, length, parse_text(part.get("href"))))
        pieces.append(piece)
        offset += length
    return "".join(pieces), tuple(entities)


def _parse_entity_type(part: Mapping[str, Any]) -> str:
    name = parse_text(part.get("type")) or ""
    if name == "blockquote" and part.get("collapsed") is True:
        return "expandable_blockquote"
    return _ENTITY_TYPE_BY_EXPORT_TYPE.get(name, name)


def _parse_entities(value: object) -> tuple[Entity, ...]:
    """Parse the entities of a live message; incomplete ones are left out."""
    found = []
    for item in value if isinstance(value, list) else ():
        kind, offset, length = (parse_object(item).get(key) for key in ("type", "offset", "length"))
        if isinstance(kind, str) and isinstance(offset, int) and isinstance(length, int):
            found.append(Entity(kind, offset, length, parse_text(item.get("url"))))
    return tuple(found)


def _extract_link_addresses(text: str, entities: Iterable[Entity]) -> tuple[str, ...]:
    """Link addresses of a text, shown or hidden, each once, in order."""
    units = b""
    found: dict[str, None] = {}
    for entity in entities:
        if entity.type == "text_link" and entity.url:
            found[entity.url] = None
        elif entity.type == "url":
            units = units or text.encode("utf-16-le")
            shown = units[2 * entity.offset : 2 * (entity.offset + entity.length)]
            found[shown.decode("utf-16-le", "replace")] = None
    return tuple(found)


# Fields of a block or text of a rich message, in reading order: https://core.telegram.org/bots/api#richblock
_BLOCK_TEXT_FIELDS = "summary text expression alternative_text cells items blocks caption credit".split()
_BLOCK_FILE_FIELDS = ("document", "audio", "video", "animation")


def _flatten_blocks(value: object) -> str:
    """Flatten the blocks of a rich message to text: one line each, the cells of a row side by side, no formatting."""
    if isinstance(value, list):
        return "".join(map(_flatten_blocks, value))
    if not isinstance(value, dict):
        return parse_text(value) or ""
    body = "\n".join(filter(None, (_flatten_field(key, value[key]) for key in _BLOCK_TEXT_FIELDS if key in value)))
    return " ".join(filter(None, (parse_text(value.get("label")), body)))


def _flatten_field(key: str, value: object) -> str:
    if key == "cells" and isinstance(value, list):
        rows = ((_flatten_blocks(cell) for cell in row) for row in value if isinstance(row, list))
        return "\n".join(filter(None, (" | ".join(filter(None, row)) for row in rows)))
    if key in ("items", "blocks") and isinstance(value, list):
        return "\n".join(filter(None, map(_flatten_blocks, value)))
    return _flatten_blocks(value)


def _iterate_objects(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _iterate_objects(inner)


def _format_attachment(message: Mapping[str, Any]) -> str:
    """Format the attachment of a live message as text; a poll's description is not part of it."""
    if poll := parse_object(message.get("poll")):
        return _join_lines(_format_list(poll), parse_text(poll.get("explanation")))
    if checklist := parse_object(message.get("checklist")):
        return _format_list(checklist)
    if venue := parse_object(message.get("venue")):
        return _join_lines(parse_text(venue.get("title")), parse_text(venue.get("address")))
    return _format_contact(parse_object(message.get("contact")))


def _format_exported_attachment(message: Mapping[str, Any]) -> str:
    """Format the attachment of an exported message as text.

    An exported poll has its description as the message text, and no explanation.
    """
    if listed := parse_object(message.get("poll") or message.get("todo_list")):
        return _format_list(listed)
    if place := parse_text(message.get("place_name")):
        return _join_lines(place, parse_text(message.get("address")))
    return _format_contact(parse_object(message.get("contact_information")))


def _join_lines(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))


def _format_list(value: Mapping[str, Any]) -> str:
    """Format a poll or checklist: its title, then one line "— option" for each."""
    head, _ = _flatten_text(value.get("question") or value.get("title"))
    lists = (value.get(key) for key in ("options", "answers", "tasks"))
    options = next((found for found in lists if isinstance(found, list)), ())
    lines = [f"— {_flatten_text(parse_object(option).get('text'))[0]}" for option in options]
    return "\n".join([head, *lines])


def _format_contact(value: Mapping[str, Any]) -> str:
    """Format a contact: name, then number as +digits.

    Telegram Desktop groups the digits, the Bot API may omit the +.
    """
    name = " ".join(filter(None, (parse_text(value.get(key)) for key in ("first_name", "last_name"))))
    number = "".join(filter(str.isdecimal, parse_text(value.get("phone_number")) or ""))
    return _join_lines(name, number and f"+{number}")


# Order matters: an animation also carries a `document`, a venue also a `location`.
_LIVE_MEDIA_KINDS = (
    "animation", "video", "audio", "document", "live_photo", "photo", "sticker", "voice", "video_note", "poll",
    "checklist", "venue", "location", "contact", "game", "dice", "invoice", "giveaway", "story", "paid_media",
)  # fmt: skip
# Telegram Desktop's key -> the Bot API's kind.
_MEDIA_KIND_BY_FIELD = {
    "photo": "photo",
    "poll": "poll",
    "todo_list": "checklist",
    "place_name": "venue",
    "location_information": "location",
    "contact_information": "contact",
    "game_title": "game",
    "invoice_information": "invoice",
    "giveaway_information": "giveaway",
    "file": "document",
}
_MEDIA_KIND_BY_TYPE = {
    "sticker": "sticker",
    "video_message": "video_note",
    "voice_message": "voice",
    "animation": "animation",
    "video_file": "video",
    "audio_file": "audio",
}
# Other kinds have no file name of a person; Telegram Desktop makes one up.
_KINDS_WITH_FILE_NAME = frozenset({"document", "audio", "video", "animation"})


def parse_live_post(message: Mapping[str, Any]) -> tuple[Channel, Post]:
    """Parse a Bot API message (`channel_post`, `edited_channel_post`). Raises `MalformedMessage`."""
    if message.get("is_automatic_forward") is True:
        raise MalformedMessage("the copy of a post in its channel's discussion group is no post of its own")
    chat = parse_object(message.get("chat"))
    chat_id = _parse_integer(chat.get("id"), -MAX_ID)
    # text, caption or poll description, then the attachment; quotes of other posts are left out
    poll = parse_object(message.get("poll"))
    places = (
        (message, "text", "entities"),
        (message, "caption", "caption_entities"),
        (poll, "description", "description_entities"),
    )
    text, spans = next(((t, place.get(s)) for place, key, s in places if (t := parse_text(place.get(key)))), ("", None))
    more = _format_attachment(message) or ("" if text else _flatten_blocks(message.get("rich_message")))
    text, entities = _join_lines(text, more), _parse_entities(spans)
    # hidden in the texts and buttons of a rich message
    more_links = (parse_text(part.get("url")) for part in _iterate_objects(message.get("rich_message")))
    edited = message.get("edit_date")
    forwarded = parse_object(message.get("forward_origin"))
    parent = parse_object(message.get("reply_to_message"))
    elsewhere = "external_reply" in message or parse_object(parent.get("chat")).get("id", chat_id) != chat_id
    post = Post(
        key=PostKey(chat_id, _parse_integer(message.get("message_id"))),
        date=_parse_time(message.get("date")),
        text=text,
        edited=_parse_time(edited) if edited else None,
        # the signature of a forward is not the author's
        author=parse_text((forwarded or message).get("author_signature")),
        entities=entities,
        links=(*_extract_link_addresses(text, entities), *dict.fromkeys(filter(None, more_links))),
        media=_extract_live_media(message),
        origin=_extract_live_origin(message.get("forward_origin")),
        reply_to=None if elsewhere or "message_id" not in parent else _parse_integer(parent["message_id"]),
        album=parse_text(message.get("media_group_id")),
        guarded=_get_copy_protection(message),
    )
    title = parse_text(chat.get("title")) or parse_text(chat.get("first_name")) or str(chat_id)
    kind = parse_text(chat.get("type")) or "channel"
    return Channel(chat_id, title, parse_text(chat.get("username")), kind), post


def parse_exported_post(
    message: Mapping[str, Any], chat_id: int, *, zone: tzinfo = UTC, broadcast: bool = True
) -> Post | None:
    """Parse an exported message; None for service entries and what the exporter did not support.

    `zone` is the time zone of old exports without Unix times. In a broadcast channel only a signature names an
    author, elsewhere everybody writes under their own name. Raises `MalformedMessage`.
    """
    message_id = _parse_integer(message.get("id"))
    if message.get("type") != "message":
        return None
    text, entities = _flatten_text(message.get("text_entities") or message.get("text"))
    date = _parse_exported_time(message, "date", zone)
    writer = None if broadcast else parse_text(message.get("from"))
    reply_to = message.get("reply_to_message_id")
    elsewhere = "reply_to_peer_id" in message or type(reply_to) is not int or reply_to < 1
    return Post(
        key=PostKey(chat_id, message_id),
        date=date,
        text=_join_lines(text, _format_exported_attachment(message)),
        edited=_parse_exported_edit_time(message, date, zone),
        author=None if "forwarded_from" in message else parse_text(message.get("author")) or writer,
        entities=entities,
        links=_extract_link_addresses(text, entities),
        media=_extract_exported_media(message),
        origin=_extract_exported_origin(message),
        reply_to=None if elsewhere else _parse_integer(reply_to),
    )


def _parse_time(value: object) -> datetime:
    """Parse Unix seconds, given as a number or as digits. Raises MalformedMessage."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return datetime.fromtimestamp(_parse_integer(value, 1, _MAX_UNIX_SECONDS), UTC)


def _parse_exported_time(message: Mapping[str, Any], key: str, zone: tzinfo) -> datetime:
    if (exact := message.get(f"{key}_unixtime")) is not None:
        return _parse_time(exact)
    try:
        local = datetime.fromisoformat(str(message.get(key)))
        moment = local if local.tzinfo else local.replace(tzinfo=zone)
        return _parse_time(int(moment.timestamp()))
    except (ValueError, OverflowError) as exc:
        raise MalformedMessage(f"{key} is not a date") from exc


def _parse_exported_edit_time(message: Mapping[str, Any], date: datetime, zone: tzinfo) -> datetime | None:
    if "edited" not in message:
        return None
    try:
        edited = _parse_exported_time(message, "edited", zone)
    except MalformedMessage:
        return None
    # Old exports write 1970 where a message was never edited.
    return edited if edited > date else None


def _get_copy_protection(message: Mapping[str, Any]) -> str | None:
    """Copy protection: "paid" for paid posts, "protected" if Telegram forbids copying."""
    if message.get("is_paid_post") is True or "paid_media" in message:
        return "paid"
    return "protected" if message.get("has_protected_content") is True else None


def _extract_live_media(message: Mapping[str, Any]) -> Media | None:
    kind = next((kind for kind in _LIVE_MEDIA_KINDS if kind in message), None)
    if kind is None:
        blocks = _iterate_objects(message.get("rich_message"))
        files = (parse_object(part.get(field)).get("file_name") for part in blocks for field in _BLOCK_FILE_FIELDS)
        names = dict.fromkeys(filter(None, map(parse_text, files)))
        return _build_media("document", ", ".join(names), None) if names else None
    file = parse_object(message[kind])
    return _build_media(kind, file.get("file_name"), file.get("mime_type"))


def _extract_exported_media(message: Mapping[str, Any]) -> Media | None:
    kind = _MEDIA_KIND_BY_TYPE.get(str(message.get("media_type")))
    kind = kind or next((kind for key, kind in _MEDIA_KIND_BY_FIELD.items() if key in message), None)
    if kind is None:
        return None
    name, file = parse_text(message.get("file_name")), parse_text(message.get("file"))
    # Older exports give the name only as the end of a path; a sentence in brackets says why there is none.
    if not name and file and kind in ("document", "audio") and not file.startswith("("):
        name = PurePosixPath(file).name
    return _build_media(kind, name, message.get("mime_type"))


def _build_media(kind: str, file_name: object, mime: object) -> Media:
    if kind not in _KINDS_WITH_FILE_NAME:
        return Media(kind, None, None)
    return Media(kind, parse_text(file_name), parse_text(mime))


def _extract_live_origin(value: object) -> Origin | None:
    if value is None:
        return None
    origin = parse_object(value)
    date = _parse_time(origin.get("date"))
    match origin.get("type"):
        case "channel":
            chat = parse_object(origin.get("chat"))
            chat_id, message_id = _parse_integer(chat.get("id"), -MAX_ID), _parse_integer(origin.get("message_id"))
            return Origin(_join_peer_name(chat), chat_id, message_id, date)
        case "chat" | "user" as kind:
            sender = parse_object(origin.get(f"sender_{kind}"))
            sender_id = _parse_integer(sender.get("id"), -MAX_ID if kind == "chat" else 1)
            return Origin(_join_peer_name(sender), sender_id, None, date)
        case "hidden_user":
            return Origin(parse_text(origin.get("sender_user_name")) or "", None, None, date)
    raise MalformedMessage("a forward of an unknown kind")


def _join_peer_name(peer: Mapping[str, Any]) -> str:
    names = (parse_text(peer.get(key)) for key in ("title", "first_name", "last_name"))
    return " ".join(filter(None, names))


# "channel123", "chat123", "user123" -> prefix of the digits in a Bot API id.
_ID_PREFIX_BY_PEER_TYPE = {"channel": "-100", "chat": "-", "user": ""}


def _extract_exported_origin(message: Mapping[str, Any]) -> Origin | None:
    if "forwarded_from" not in message:
        return None
    peer = parse_text(message.get("forwarded_from_id")) or ""
    digits = peer.lstrip("abcdefghijklmnopqrstuvwxyz")
    sign = _ID_PREFIX_BY_PEER_TYPE.get(peer.removesuffix(digits))
    known = sign is not None and digits.isascii() and digits.isdigit() and len(digits) < 16
    return Origin(parse_text(message["forwarded_from"]) or "", int(f"{sign}{digits}") if known else None)
