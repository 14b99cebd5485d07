"""A raw message, live or exported, as a `Post`. Both ways give the same text for the same post.

File names are in the media, never in the text; polls and checklists are flattened into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import PurePosixPath
from typing import Any

from ingest.attached import attached, attached_in_export
from ingest.fields import ID_LIMIT, Malformed, box, unix_seconds, whole, words
from ingest.rich import entities_of, files_in, flatten, flatten_blocks, links_in, links_of
from rag_core.types import Channel, Entity, Media, Origin, Post, PostKey

__all__ = ["Malformed", "from_export", "from_update"]

# In this order: an animation also carries a `document`, a venue also a `location`.
_LIVE_KINDS = (
    "animation", "video", "audio", "document", "live_photo", "photo", "sticker", "voice", "video_note", "poll",
    "checklist", "venue", "location", "contact", "game", "dice", "invoice", "giveaway", "story", "paid_media",
)  # fmt: skip
# Telegram Desktop's key -> the Bot API's kind.
_EXPORTED_KINDS = {
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
_MEDIA_TYPES = {
    "sticker": "sticker",
    "video_message": "video_note",
    "voice_message": "voice",
    "animation": "animation",
    "video_file": "video",
    "audio_file": "audio",
}
# Others have no name a person gave them; Telegram Desktop makes one up.
_NAMED = frozenset({"document", "audio", "video", "animation"})
_DESCRIBED = "description_entities"


def from_update(message: Mapping[str, Any]) -> tuple[Channel, Post]:
    """The channel and post of a Bot API message (`channel_post`, `edited_channel_post`). Raises `Malformed`."""
    if message.get("is_automatic_forward") is True:
        raise Malformed("the copy of a post in its channel's discussion group is no post of its own")
    chat = box(message.get("chat"))
    chat_id = whole(chat.get("id"), -ID_LIMIT)
    text, entities = _live_text(message)
    edited = message.get("edit_date")
    forwarded = box(message.get("forward_origin"))
    post = Post(
        key=PostKey(chat_id, whole(message.get("message_id"))),
        date=_moment(message.get("date")),
        text=text,
        edited=_moment(edited) if edited else None,
        # who signed a forward passed it on: the words are not theirs
        author=words((forwarded or message).get("author_signature")),
        entities=entities,
        links=(*links_in(text, entities), *links_of(message.get("rich_message"))),
        media=_live_media(message),
        origin=_live_origin(message.get("forward_origin")),
        reply_to=_live_reply(message, chat_id),
        album=words(message.get("media_group_id")),
        guarded=_guarded(message),
    )
    title = words(chat.get("title")) or words(chat.get("first_name")) or str(chat_id)
    kind = words(chat.get("type")) or "channel"
    return Channel(chat_id, title, words(chat.get("username")), kind), post


def from_export(message: Mapping[str, Any], chat_id: int, *, zone: tzinfo = UTC, broadcast: bool = True) -> Post | None:
    """The post of an exported message; None for service entries and what the exporter did not support.

    `zone` is where old exports without Unix times were made. In a broadcast channel only a signature
    names an author, elsewhere everybody writes under their own name. Raises `Malformed`.
    """
    message_id = whole(message.get("id"))
    if message.get("type") != "message":
        return None
    text, entities = flatten(message.get("text_entities") or message.get("text"))
    date = _exported_moment(message, "date", zone)
    reply_to = message.get("reply_to_message_id")
    elsewhere = "reply_to_peer_id" in message or type(reply_to) is not int or reply_to < 1
    return Post(
        key=PostKey(chat_id, message_id),
        date=date,
        text="\n".join(filter(None, (text, attached_in_export(message)))),
        edited=_exported_edit(message, date, zone),
        author=_exported_author(message, broadcast=broadcast),
        entities=entities,
        links=links_in(text, entities),
        media=_exported_media(message),
        origin=_exported_origin(message),
        reply_to=None if elsewhere else whole(reply_to),
    )


def _moment(value: object) -> datetime:
    return datetime.fromtimestamp(unix_seconds(value), UTC)


def _exported_moment(message: Mapping[str, Any], key: str, zone: tzinfo) -> datetime:
    if (exact := message.get(f"{key}_unixtime")) is not None:
        return _moment(exact)
    try:
        local = datetime.fromisoformat(str(message.get(key)))
        moment = local if local.tzinfo else local.replace(tzinfo=zone)
        return _moment(int(moment.timestamp()))
    except (ValueError, OverflowError) as exc:
        raise Malformed(f"{key} is not a date") from exc


def _exported_edit(message: Mapping[str, Any], date: datetime, zone: tzinfo) -> datetime | None:
    if "edited" not in message:
        return None
    try:
        edited = _exported_moment(message, "edited", zone)
    except Malformed:
        return None
    # Old exports write 1970 where a message was never edited.
    return edited if edited > date else None


def _live_text(message: Mapping[str, Any]) -> tuple[str, tuple[Entity, ...]]:
    """Text or caption, a poll's description; then what is attached. What a post quotes of others is not its text."""
    poll = box(message.get("poll"))
    places = (message, "text", "entities"), (message, "caption", "caption_entities"), (poll, "description", _DESCRIBED)
    text, spans = next(((t, place.get(s)) for place, key, s in places if (t := words(place.get(key)))), ("", None))
    more = attached(message) or ("" if text else flatten_blocks(message.get("rich_message")))
    return "\n".join(filter(None, (text, more))), entities_of(spans)


def _live_reply(message: Mapping[str, Any], chat_id: int) -> int | None:
    """The post of the same channel that is replied to; a reply to another chat (`external_reply`) is none here."""
    parent = box(message.get("reply_to_message"))
    elsewhere = "external_reply" in message or box(parent.get("chat")).get("id", chat_id) != chat_id
    return None if elsewhere or "message_id" not in parent else whole(parent["message_id"])


def _guarded(message: Mapping[str, Any]) -> str | None:
    """What keeps a post from being passed on: readers have paid for it, or Telegram forbids to copy it."""
    if message.get("is_paid_post") is True or "paid_media" in message:
        return "paid"
    return "protected" if message.get("has_protected_content") is True else None


def _live_media(message: Mapping[str, Any]) -> Media | None:
    kind = next((kind for kind in _LIVE_KINDS if kind in message), None)
    if kind is None:
        names = files_in(message.get("rich_message"))
        return _media("document", ", ".join(names), None) if names else None
    return _media(kind, box(message[kind]).get("file_name"), box(message[kind]).get("mime_type"))


def _exported_media(message: Mapping[str, Any]) -> Media | None:
    kind = _MEDIA_TYPES.get(str(message.get("media_type")))
    kind = kind or next((kind for key, kind in _EXPORTED_KINDS.items() if key in message), None)
    if kind is None:
        return None
    name, file = words(message.get("file_name")), words(message.get("file"))
    # Older exports give the name only as the end of a path; a sentence in brackets says why there is none.
    if not name and file and kind in ("document", "audio") and not file.startswith("("):
        name = PurePosixPath(file).name
    return _media(kind, name, message.get("mime_type"))


def _media(kind: str, file_name: object, mime: object) -> Media:
    return Media(kind, words(file_name) if kind in _NAMED else None, words(mime) if kind in _NAMED else None)


def _live_origin(value: object) -> Origin | None:
    if value is None:
        return None
    origin = box(value)
    date = _moment(origin.get("date"))
    match origin.get("type"):
        case "channel":
            chat = box(origin.get("chat"))
            return Origin(_name(chat), whole(chat.get("id"), -ID_LIMIT), whole(origin.get("message_id")), date)
        case "chat":
            chat = box(origin.get("sender_chat"))
            return Origin(_name(chat), whole(chat.get("id"), -ID_LIMIT), None, date)
        case "user":
            user = box(origin.get("sender_user"))
            return Origin(_name(user), whole(user.get("id")), None, date)
        case "hidden_user":
            return Origin(words(origin.get("sender_user_name")) or "", None, None, date)
    raise Malformed("a forward of an unknown kind")


def _name(peer: Mapping[str, Any]) -> str:
    names = (words(peer.get(key)) for key in ("title", "first_name", "last_name"))
    return " ".join(filter(None, names))


def _exported_author(message: Mapping[str, Any], *, broadcast: bool) -> str | None:
    if "forwarded_from" in message:
        return None
    return words(message.get("author")) or (None if broadcast else words(message.get("from")))


# "channel123", "chat123", "user123" -> what stands before the digits in a Bot API id.
_PEERS = {"channel": "-100", "chat": "-", "user": ""}


def _exported_origin(message: Mapping[str, Any]) -> Origin | None:
    if "forwarded_from" not in message:
        return None
    peer = words(message.get("forwarded_from_id")) or ""
    digits = peer.lstrip("abcdefghijklmnopqrstuvwxyz")
    sign = _PEERS.get(peer.removesuffix(digits))
    known = sign is not None and digits.isascii() and digits.isdigit() and len(digits) < 16
    return Origin(words(message["forwarded_from"]) or "", int(f"{sign}{digits}") if known else None)
