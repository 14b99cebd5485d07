"""Messages of posts: posts from before the bot joined a channel, converted to Bot API messages."""

from __future__ import annotations

from bot.sandbox.chats import Json, SandboxChat, remove_nested_reply
from bot.sandbox.message_text_and_entities import detect_entities
from rag_core.types import Origin, Post

_CAPTION_MEDIA_KINDS = {"photo", "video", "animation", "document", "audio", "voice"}


def build_post_message(post: Post, room: SandboxChat) -> Json:
    """Build the message that a post was."""
    date, parent = int(post.date.timestamp()), room.messages.get(post.reply_to or 0)
    head = {"message_id": post.key.message_id, "date": date, "chat": room.wire(), "sender_chat": room.wire()}
    optional = {
        "edit_date": int(post.edited.timestamp()) if post.edited else None,
        "author_signature": post.author,
        "media_group_id": post.album,
        "forward_origin": _build_forward_origin(post.origin, date) if post.origin else None,
        "reply_to_message": remove_nested_reply(parent) if parent else None,
    }
    return head | _build_content(post) | {name: value for name, value in optional.items() if value is not None}


def build_photo(name: str) -> list[Json]:
    """Build a photo that has only ids and a size."""
    return [{"file_id": f"photo-{name}", "file_unique_id": f"u-photo-{name}", "width": 800, "height": 600}]


def _build_content(post: Post) -> Json:
    text, media, name = post.text, post.media, str(post.key.message_id)
    given: list[Json] = [
        {"type": e.type, "offset": e.offset, "length": e.length} | ({"url": e.url} if e.url else {})
        for e in post.entities
    ]
    entities = sorted(given + detect_entities(text, given), key=lambda e: (e["offset"], -e["length"]))
    if media is None or media.kind not in _CAPTION_MEDIA_KINDS:
        return {"text": text, "entities": entities} if entities else {"text": text}
    caption_fields: Json = {"caption": text, "caption_entities": entities} if text else {}
    if media.kind == "photo":
        return caption_fields | {"photo": build_photo(name)}
    file_fields: Json = {"file_id": f"{media.kind}-{name}", "file_unique_id": f"u-{media.kind}-{name}"}
    file_fields |= {"file_name": media.file_name or media.kind, "mime_type": media.mime}
    return caption_fields | {"document": file_fields}


def _build_forward_origin(source: Origin, date: int) -> Json:
    """Build the origin of a forward; exports know it by name, sometimes by id."""
    base: Json = {"date": int(source.date.timestamp()) if source.date else date}
    if source.chat_id and source.message_id:
        chat = {"id": source.chat_id, "type": "channel", "title": source.name}
        return base | {"type": "channel", "chat": chat, "message_id": source.message_id}
    return base | {"type": "hidden_user", "sender_user_name": source.name}
