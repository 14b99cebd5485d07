"""Posts that were in a channel before the bot came, as the Bot API shows messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bot.sandbox.detect import found_entities
from bot.sandbox.rooms import Json, Room, alone
from rag_core.types import Post

__all__ = ["picture", "shown_post"]

_TEXTLESS = {"photo", "video", "animation", "document", "audio", "voice"}


def shown_post(post: Post | Mapping[str, object], room: Room) -> Json:
    """A message for a post: the noun, or a mapping with `id`, `date`, `text` and what else is known.

    Also read from a mapping: entities, edited, author, forward (a name), media (a kind), file_name,
    mime_type, reply_to, album, views. Dates are datetimes or Unix seconds.
    """
    fields: dict[str, Any] = _of_noun(post) if isinstance(post, Post) else dict(post)
    message: Json = {"message_id": int(fields["id"]), "date": _seconds(fields["date"]), "chat": room.wire()}
    message |= {"sender_chat": room.wire()} | _body(fields)
    optional = {
        "edit_date": _seconds(fields["edited"]) if fields.get("edited") else None,
        "author_signature": fields.get("author"),
        "media_group_id": fields.get("album"),
        "views": fields.get("views"),
        "forward_origin": _origin(fields, message["date"]),
    }
    parent = room.messages.get(fields.get("reply_to") or 0)
    optional["reply_to_message"] = alone(parent) if parent else None
    return message | {name: value for name, value in optional.items() if value is not None}


def picture(name: str) -> list[Json]:
    """A photo with nothing in it but an identity."""
    return [{"file_id": f"photo-{name}", "file_unique_id": f"u-photo-{name}", "width": 800, "height": 600}]


def _of_noun(post: Post) -> dict[str, Any]:
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
        "views": post.views,
    }


def _body(fields: Mapping[str, Any]) -> Json:
    """Text and entities, or media with a caption."""
    text = str(fields.get("text") or "")
    entities = list(fields.get("entities") or ())
    entities = sorted(entities + found_entities(text, entities), key=lambda e: (e["offset"], -e["length"]))
    media = fields.get("media")
    if media not in _TEXTLESS:
        return {"text": text, "entities": entities} if entities else {"text": text}
    shown: Json = {"caption": text, "caption_entities": entities} if text else {}
    if media == "photo":
        return shown | {"photo": picture(str(fields["id"]))}
    name = str(fields.get("file_name") or media)
    known = {"file_id": f"{media}-{fields['id']}", "file_unique_id": f"u-{media}-{fields['id']}"}
    return shown | {"document": known | {"file_name": name, "mime_type": fields.get("mime_type")}}


def _origin(fields: Mapping[str, Any], date: int) -> Json | None:
    """Exports know a forward's source by name, sometimes by id."""
    source = fields.get("forward")
    if not source:
        return None
    if isinstance(source, Mapping):
        return dict(source)
    name, when = getattr(source, "name", source), getattr(source, "date", None)
    base: Json = {"date": _seconds(when) if when else date}
    chat_id, message_id = getattr(source, "chat_id", None), getattr(source, "message_id", None)
    if chat_id and message_id:
        chat = {"id": chat_id, "type": "channel", "title": name}
        return base | {"type": "channel", "chat": chat, "message_id": message_id}
    return base | {"type": "hidden_user", "sender_user_name": str(name)}


def _seconds(moment: object) -> int:
    if isinstance(moment, datetime):
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return int(str(moment))
