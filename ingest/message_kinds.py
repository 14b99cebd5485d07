"""Message kinds: the one table of what messages hold beside their text, the texts made of it, and the files of it.

A row names the Bot API's field and the fields of Telegram Desktop's export that hold the same. An exported attachment
is brought to the Bot API's form first, so that both give the same text. MTProto's is brought to it by
`ingest.mtproto`. Values come from strangers: each is checked for type, range and length, by Telegram's limits in code
points (https://limits.tginfo.me).

Sources: https://core.telegram.org/bots/api#message, #photosize and the classes beside it, and SerializeMessage in
tdesktop's export_output_json.cpp.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from rag_core.types import DOCUMENT, PICTURE, VOICE, MediaFile

# Telegram promises that ids fit 52 bits: https://core.telegram.org/bots/api#chat
MAX_ID = 2**52
MAX_TITLE_LENGTH = 128  # of chats and topics
MAX_NAME_LENGTH = 129  # of a person: first and last name have 64 each
MAX_FILE_NAME_LENGTH = 255


class MalformedMessage(ValueError):
    """A message lacks a mandatory field or holds an invalid value."""


def parse_integer(value: object, low: int = 1, high: int = MAX_ID) -> int:
    """Parse an integer within `low`..`high`. Raises MalformedMessage."""
    if type(value) is not int or not low <= value <= high:
        raise MalformedMessage(f"not a number from {low} to {high}")
    return value


def parse_text(value: object, most: int | None = None) -> str | None:
    """Parse a non-empty text, cut at `most` characters, else None. Half a surrogate pair becomes U+FFFD."""
    if not isinstance(value, str) or not value:
        return None
    text = value[:most]
    # Both are one UTF-16 unit long, so that the offsets of entities stay right.
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_object(value: object) -> Mapping[str, Any]:
    """Parse an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def parse_peer_name(peer: Mapping[str, Any]) -> str:
    """Parse the name of a chat or a person; "" if it has none."""
    names = (parse_text(peer.get(key), MAX_TITLE_LENGTH) for key in ("title", "first_name", "last_name"))
    return " ".join(filter(None, names))


def count_utf16_units(text: str) -> int:
    """Length of a text in UTF-16 units, in which entities are measured."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


Fields = Mapping[str, Any]


def join_lines(*texts: str | None) -> str:
    """Join the texts that are there, a line each."""
    return "\n".join(filter(None, texts))


def flatten_parts(value: object) -> str:
    """Flatten an export's text (string, or list of strings and objects) to a plain text."""
    parts = value if isinstance(value, list) else [value]
    texts = (parse_text(part if isinstance(part, str) else parse_object(part).get("text")) for part in parts)
    return "".join(filter(None, texts))


def _format_list(value: Fields) -> str:
    """Format a poll or checklist: its title, then one line "— option" for each, then a quiz's explanation."""
    head = flatten_parts(value.get("question") or value.get("title"))
    lists = (value.get(key) for key in ("options", "tasks"))
    options = next((found for found in lists if isinstance(found, list)), ())
    lines = [f"— {flatten_parts(parse_object(option).get('text'))}" for option in options]
    return join_lines("\n".join([head, *lines]), parse_text(value.get("explanation")))


def _format_contact(value: Fields) -> str:
    """Format a contact: name, then number as +digits: exports group them, the Bot API may omit the +."""
    name = " ".join(filter(None, (parse_text(value.get(key)) for key in ("first_name", "last_name"))))
    number = "".join(filter(str.isdecimal, parse_text(value.get("phone_number")) or ""))
    return join_lines(name, number and f"+{number}")


def _format_audio(value: Fields) -> str:
    names = (parse_text(value.get(key), MAX_FILE_NAME_LENGTH) for key in ("performer", "title"))
    return " – ".join(filter(None, names))


def _format_texts(value: Fields) -> str:
    return join_lines(*(parse_text(value.get(key)) for key in ("title", "address", "description", "text")))


@dataclass(frozen=True, slots=True)
class MessageKind:
    """Kind of attachment: `name` is the Bot API's field.

    `marks` are the exported fields that show it (or values of `media_type`), `exported` the exported field of each of
    the Bot API's, in the field of the first mark where they are `inside` it. `format_text` makes the text, None where
    there is no word in it. Only files whose names people give are `named`: for others Telegram Desktop makes one up.
    """

    name: str
    marks: tuple[str, ...] = ()
    exported: Mapping[str, str] = field(default_factory=dict)
    format_text: Callable[[Fields], str] | None = None
    named: bool = False
    inside: bool = False


# Order matters: an animation also carries a `document`, a venue also a `location`.
MESSAGE_KINDS = (
    MessageKind("animation", ("animation",), named=True),
    MessageKind("video", ("video_file",), named=True),
    MessageKind("audio", ("audio_file",), {"performer": "performer", "title": "title"}, _format_audio, named=True),
    MessageKind("sticker", ("sticker",)),
    MessageKind("voice", ("voice_message",)),
    MessageKind("video_note", ("video_message",)),
    MessageKind("live_photo"),
    MessageKind("photo", ("photo",)),
    MessageKind("poll", ("poll",), {"question": "question", "options": "answers"}, _format_list, inside=True),
    MessageKind("checklist", ("todo_list",), {"title": "title", "tasks": "answers"}, _format_list, inside=True),
    MessageKind("venue", ("place_name",), {"title": "place_name", "address": "address"}, _format_texts),
    MessageKind("location", ("location_information",)),
    MessageKind(
        "contact",
        ("contact_information",),
        {key: key for key in ("first_name", "last_name", "phone_number")},
        _format_contact,
        inside=True,
    ),
    MessageKind("game", ("game_title", "game_description")),
    MessageKind("dice"),
    MessageKind("invoice", ("invoice_information",)),
    MessageKind("giveaway", ("giveaway_information",)),
    MessageKind("giveaway_winners", ("giveaway_results",)),
    MessageKind("story"),
    MessageKind("paid_media", ("paid_stars_amount",)),
    MessageKind("document", ("file",), named=True),
)


def find_exported_kind(message: Fields) -> MessageKind | None:
    """Find the kind of an exported message; None for one of text alone."""
    media_type = message.get("media_type")
    by_type = (kind for kind in MESSAGE_KINDS if isinstance(media_type, str) and media_type in kind.marks)
    return next(by_type, None) or next((k for k in MESSAGE_KINDS if any(mark in message for mark in k.marks)), None)


def convert_exported_attachment(message: Fields, kind: MessageKind) -> Fields:
    """Convert the attachment of an exported message to the Bot API's form."""
    holder = parse_object(message.get(kind.marks[0])) if kind.inside else message
    return {name: holder[key] for name, key in kind.exported.items() if holder.get(key) is not None}


# What else a live message holds: about the message itself, and what service messages tell. Whatever is in neither row
# and no kind above is not known, and a message without a text that holds it was not read.
ABOUT_LIVE_MESSAGES = frozenset(
    {
        "message_id", "message_thread_id", "direct_messages_topic", "from", "sender_chat", "sender_boost_count",
        "sender_business_bot", "sender_tag", "date", "guest_query_id", "business_connection_id", "chat",
        "forward_origin", "is_topic_message", "is_automatic_forward", "reply_to_message", "external_reply", "quote",
        "reply_to_story", "reply_to_checklist_task_id", "reply_to_poll_option_id", "via_bot", "guest_bot_caller_user",
        "guest_bot_caller_chat", "edit_date", "has_protected_content", "is_from_offline", "is_paid_post",
        "media_group_id", "author_signature", "paid_star_count", "text", "entities", "link_preview_options",
        "suggested_post_info", "effect_id", "caption", "caption_entities", "show_caption_above_media",
        "has_media_spoiler", "reply_markup", "rich_message", "receiver_user", "ephemeral_message_id", "forward_date",
        "forward_from", "forward_from_chat", "forward_from_message_id", "forward_sender_name", "forward_signature",
    }
)  # fmt: skip
SERVICE_FIELDS = frozenset(
    {
        "new_chat_members", "left_chat_member", "chat_owner_left", "chat_owner_changed", "new_chat_title",
        "new_chat_photo", "delete_chat_photo", "group_chat_created", "supergroup_chat_created",
        "channel_chat_created", "message_auto_delete_timer_changed", "migrate_to_chat_id", "migrate_from_chat_id",
        "pinned_message", "successful_payment", "refunded_payment", "users_shared", "chat_shared", "user_shared",
        "gift", "unique_gift", "gift_upgrade_sent", "connected_website", "write_access_allowed", "passport_data",
        "proximity_alert_triggered", "boost_added", "chat_background_set", "checklist_tasks_done",
        "checklist_tasks_added", "direct_message_price_changed", "forum_topic_created", "forum_topic_edited",
        "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden",
        "giveaway_created", "giveaway_completed", "managed_bot_created", "paid_message_price_changed",
        "poll_option_added", "poll_option_deleted", "suggested_post_approved", "suggested_post_approval_failed",
        "suggested_post_declined", "suggested_post_paid", "suggested_post_refunded", "video_chat_scheduled",
        "video_chat_started", "video_chat_ended", "video_chat_participants_invited", "web_app_data",
        "community_chat_added", "community_chat_removed", "community_chat_joined",
    }
)  # fmt: skip
# What an exported message holds beside the kinds above.
ABOUT_EXPORTED_MESSAGES = frozenset(
    {
        "id", "type", "date", "date_unixtime", "edited", "edited_unixtime", "from", "from_id", "author",
        "forwarded_from", "forwarded_from_id", "forwarded_date", "saved_from", "saved_from_id",
        "reply_to_message_id", "reply_to_peer_id", "via_bot", "text", "text_entities", "inline_bot_buttons",
        "reactions", "rich_message", "file_name", "file_size", "photo_file_size", "thumbnail",
        "thumbnail_file_size", "media_type", "sticker_emoji", "mime_type", "duration_seconds", "width", "height",
        "media_spoiler", "self_destruct_period_seconds", "contact_vcard", "contact_vcard_file_size",
        "live_location_period_seconds", "title", "performer", "address", "game_link", "paid_media",
    }
)  # fmt: skip
_LIVE_FIELDS = ABOUT_LIVE_MESSAGES | SERVICE_FIELDS | {kind.name for kind in MESSAGE_KINDS}
_EXPORTED_FIELDS = ABOUT_EXPORTED_MESSAGES.union(*(kind.marks for kind in MESSAGE_KINDS))


def find_unknown_fields(message: Fields, *, exported: bool = False) -> tuple[str, ...]:
    """Find the fields of a message that no row of the tables has, and the media type that none has."""
    unknown = [key for key in message if key not in (_EXPORTED_FIELDS if exported else _LIVE_FIELDS)]
    media_type = message.get("media_type") if exported else None
    if media_type is not None and not any(media_type in kind.marks for kind in MESSAGE_KINDS):
        unknown.append(f"media_type {media_type}")
    return tuple(unknown)


# The Bot API's kind -> what is read of it; of documents it depends on the file.
_READ_AS = {"photo": PICTURE, "voice": VOICE, "video_note": VOICE, "audio": VOICE, "video": VOICE}
_READ_AS_BY_SUFFIX = {
    **dict.fromkeys((".pdf", ".docx", ".xlsx", ".txt", ".md", ".csv"), DOCUMENT),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"), PICTURE),
    **dict.fromkeys((".ogg", ".oga", ".opus", ".mp3", ".m4a", ".wav", ".flac"), VOICE),
}
_MAX_VIDEO_SECONDS = 600  # of longer ones the sound is rarely a message
_MAX_NUMBER = 2**40


def find_live_file(message: Mapping[str, Any], kind: MessageKind) -> MediaFile | None:
    """Find the file of a live message, or of one that was converted from MTProto, which has no `file_id`.

    None for one that is hidden as a spoiler: its words would be shown in answers.
    """
    if message.get("has_media_spoiler") is True:
        return None
    held = message[kind.name]
    if isinstance(held, list):  # sizes of a picture, the largest last
        held = held[-1] if held else None
    found = parse_object(held)
    unique, file_id = parse_text(found.get("file_unique_id")), parse_text(found.get("file_id"))
    name, seconds = parse_text(found.get("file_name"), MAX_FILE_NAME_LENGTH) or "", _parse_number(found.get("duration"))
    read_as = _choose_kind(kind.name, name, seconds)
    if not unique or not read_as:
        return None
    scheme = "bot" if file_id else "mtproto"
    return MediaFile(read_as, f"{scheme}:{unique}", file_id or "", _parse_number(found.get("file_size")), seconds)


def find_exported_file(message: Mapping[str, Any], kind: MessageKind, folder: Path) -> MediaFile | None:
    """Find the file of an exported message in the folder of its export; None where it was not exported with it.

    A path that leads out of the folder is none: the export may be a stranger's.
    """
    if message.get("media_spoiler") is True:
        return None
    path = parse_text(message.get("photo" if kind.name == "photo" else "file"))
    seconds = _parse_number(message.get("duration_seconds"))
    if not path or path.startswith("(") or not (read_as := _choose_kind(kind.name, path, seconds)):
        return None
    try:
        file = (folder / path).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            return None
        locator, size = os.fsencode(file).decode(), file.stat().st_size
        return MediaFile(read_as, f"path:{size}:{path}", locator, size, seconds)  # also where the folder is moved
    except (OSError, ValueError):  # a name that no file can have, or a folder's that is no text to the archive
        return None


def _choose_kind(kind: str, name: str, seconds: int) -> str:
    """What is read of a file: PICTURE, VOICE, DOCUMENT; "" for nothing."""
    if kind == "document":
        return _READ_AS_BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    return "" if kind == "video" and seconds > _MAX_VIDEO_SECONDS else _READ_AS.get(kind, "")


def _parse_number(value: object) -> int:
    return value if type(value) is int and 0 < value < _MAX_NUMBER else 0
