"""Messages of the Bot API as the server makes them: texts with their entities, posts as messages, and errors.

Texts are cleaned and limited, entities checked and detected; there is no markup. Detected entities follow the patterns
of TDLib (find_urls, find_mentions, find_hashtags, find_cashtags, find_bot_commands, find_bank_card_numbers in
td/telegram/MessageEntity.cpp). Phone numbers are found by the server alone; here those with a plus or with ten digits
and more are, as https://core.telegram.org/bots/api#messageentity shows them. Entities count UTF-16 units, the length
limits count code points (https://core.telegram.org/api/entities#entity-length; TDLib's `utf8_length`).

Errors follow the wording of the real server (https://github.com/tdlib/telegram-bot-api) as far as it is known; it was
not compared with live Telegram. Errors about an entity, a draft or a parameter have a wording of their own.
"""

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

from aiogram.enums import MessageEntityType
from aiogram.types import InputRichMessage

from ingest.message_kinds import count_utf16_units
from rag_core.types import Post

Json = dict[str, Any]


def drop_empty(**fields: Any) -> Json:
    """Build an object of the fields that are neither None nor False."""
    return {name: value for name, value in fields.items() if value not in (None, False)}


class BotApiError(Exception):
    """Failed call, answered with `{"ok": false}`: HTTP status, what is wrong, and `parameters` if any."""

    def __init__(self, code: int, what: str = "", **parameters: int) -> None:
        self.code, self.parameters = code, parameters
        self.description = HTTPStatus(code).phrase + (f": {what}" if what else "")
        super().__init__(self.description)

    def body(self) -> dict[str, Any]:
        """Build the JSON object of the response."""
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return answer | ({"parameters": self.parameters} if self.parameters else {})


def bad_request(what: str) -> BotApiError:
    """Build a 400 error: the request itself is wrong."""
    return BotApiError(HTTPStatus.BAD_REQUEST, what)


_DOMAIN_EXPRESSION = r"(?:[\w-]+\.)+"
# TDLib has the list of all top-level domains; this is a part of it. Domains in other alphabets all match.
_TOP_LEVEL_DOMAIN_EXPRESSION = (
    r"(?:com|org|net|ru|me|io|dev|info|app|xyz|top|online|site|shop|club|museum|zip|md|example|test"
    r"|xn--[a-z0-9-]+|(?![a-z0-9_])[^\W\d_]{2,})"
)
_URL_EXPRESSION = (
    r"(?:https?://|tg://|ton://|ftp://)[^\s<>\"'`]+"
    rf"|(?<![\w@.-]){_DOMAIN_EXPRESSION}{_TOP_LEVEL_DOMAIN_EXPRESSION}(?![\w-])(?::\d+)?(?:[/?#][^\s<>\"'`]*)?(?![\w.-]*@)"
    r"|(?<![\w@.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?:/[^\s<>\"'`]*)?(?![\w.])"
)
_USERNAME_EXPRESSION = r"[A-Za-z][A-Za-z0-9_]{2,31}"
_ENTITY_PATTERNS = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("url", re.compile(_URL_EXPRESSION, re.IGNORECASE)),
    ("bot_command", re.compile(rf"(?<![\w/<>@])/[A-Za-z0-9_]{{1,64}}(?:@{_USERNAME_EXPRESSION})?(?![\w/])")),
    # A hashtag can name a channel: https://core.telegram.org/api/entities
    ("hashtag", re.compile(rf"(?<![\w#/&])#\w*[^\W\d]\w*(?:@{_USERNAME_EXPRESSION})?(?!\w*#)")),
    ("cashtag", re.compile(rf"(?<![\w$])\$(?:1INCH|[A-Z]{{1,8}})(?:@{_USERNAME_EXPRESSION})?(?![\w$])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)")),
    ("bank_card", re.compile(r"(?<![\w+.,-])\d(?:[ -]?\d){12,18}(?![\w-])")),
    ("phone_number", re.compile(r"\+\d(?:[ ()-]{0,2}\d){6,14}(?!\d)|(?<![\w.,+-])\d{10,15}(?![\w-])")),
)
_TRAILING_PUNCTUATION = ".,:;!?)]}»…'\""
_CLOSED_ENTITY_TYPES = {"pre", "code", "text_link", "text_mention", *dict(_ENTITY_PATTERNS)}


def _add_detected_entities(text: str, known: list[Json]) -> list[Json]:
    """Detect entities that do not overlap closed ones in `known`, such as links and code; all in their order."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in known if e["type"] in _CLOSED_ENTITY_TYPES]
    detected: list[Json] = []
    for kind, pattern in _ENTITY_PATTERNS:
        for match in pattern.finditer(text):
            piece = match[0].rstrip(_TRAILING_PUNCTUATION) if kind == "url" else match[0]
            start = count_utf16_units(text[: match.start()])
            end = start + count_utf16_units(piece)
            if all(end <= left or start >= right for left, right in taken):
                taken.append((start, end))
                detected.append({"type": kind, "offset": start, "length": end - start})
    return sorted(known + detected, key=lambda one: (one["offset"], -one["length"]))


MAX_TEXT_CHARACTERS = 4096
MAX_CAPTION_CHARACTERS = 1024
MAX_QUOTE_CHARACTERS = 1024
_MAX_ENTITIES = 100  # the server silently drops further ones
# Characters that TDLib removes from every text and quote of a bot, and direction marks, of which it replaces all but
# the last of a run: https://github.com/tdlib/td/blob/master/td/telegram/misc.cpp (clean_input_string)
_DROPPED_CHARACTERS_PATTERN = re.compile("[\r\u2028-\u202e\u030a\u0333\u033f]")
_DIRECTION_MARKS_PATTERN = re.compile("[\u200e\u200f]+(?=[\u200e\u200f])")
LINK_SCHEMES = {"http", "https", "tg"}
_ENTITY_TYPES = frozenset(kind.value for kind in MessageEntityType)


def extract_entity_text(text: str, offset: int, length: int) -> str:
    """Extract the text that an entity covers."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def prepare_text(
    text: str | None, entities: list[Json] | None = None, limit: int = MAX_TEXT_CHARACTERS, *, empty: bool = False
) -> tuple[str, list[Json]]:
    """Check and clean a text and its entities as a message stores them; 400 as Telegram. `empty`: it may be none."""
    clean, kept, _ = clean_text(text or "", [dict(entity) for entity in entities or ()])
    if not clean and not empty:
        raise bad_request("message text is empty")
    if len(clean) > limit:
        raise bad_request("message is too long" if limit == MAX_TEXT_CHARACTERS else "message caption is too long")
    return clean, _add_detected_entities(clean, kept)[:_MAX_ENTITIES]


def _check_entities(text: str, entities: list[Json]) -> None:
    """Check entities more strictly than Telegram, which silently drops some: a test should notice them."""
    ends = {0, *accumulate(2 if character > "\uffff" else 1 for character in text)}
    total = max(ends)
    for number, entity in enumerate(entities):
        kind, start, end = entity["type"], entity["offset"], entity["offset"] + entity["length"]
        if kind not in _ENTITY_TYPES:
            raise bad_request(f"can't parse entities: unsupported type {kind!r} of entity {number}")
        if start < 0 or entity["length"] <= 0 or end > total:
            raise bad_request(f"can't parse entities: entity {number} ({start} to {end}) is not within 0 to {total}")
        if start not in ends or end not in ends:
            raise bad_request(f"can't parse entities: entity {number} cuts a surrogate pair")
        if kind == "text_link":
            try:
                parts = urlsplit(entity.get("url") or "")
            except ValueError:
                parts = urlsplit("")
            if parts.scheme.lower() not in LINK_SCHEMES or not (parts.netloc or parts.path):
                raise bad_request(f"can't parse entities: URL of entity {number} is not an http, https or tg link")
            plain = parts.scheme != "tg" and not parts.path
            entity["url"] = parts._replace(path="/").geturl() if plain else parts.geturl()
        if kind == "text_mention" and not entity.get("user"):
            raise bad_request(f"can't parse entities: text_mention {number} has no user")


def clean_text(text: str, entities: list[Json]) -> tuple[str, list[Json], int]:
    """Check the entities of a text or quote, clean it, and move them; also, how many units its start lost.

    400 for a wrong entity. Carriage returns and the like are removed, other control characters become spaces, and the
    ends are stripped.
    """
    _check_entities(text, entities)
    plain = "".join(" " if char < " " and char not in "\n\r" else char for char in text)
    plain = _DIRECTION_MARKS_PATTERN.sub(lambda run: "\u200c" * len(run[0]), plain)
    if _DROPPED_CHARACTERS_PATTERN.search(plain):
        widths = (0 if _DROPPED_CHARACTERS_PATTERN.match(c) else 1 for c in plain for _ in range(count_utf16_units(c)))
        places = [0, *accumulate(widths)]
        entities = _move_entities(entities, lambda place: places[place])
        plain = _DROPPED_CHARACTERS_PATTERN.sub("", plain)
    shorter = plain.rstrip()
    first = min((entity["offset"] for entity in entities), default=len(plain))
    lead, end = min(len(shorter) - len(shorter.lstrip()), first), count_utf16_units(shorter)
    return shorter[lead:], _move_entities(entities, lambda place: min(place, end) - lead), lead


def _move_entities(entities: list[Json], place: Callable[[int], int]) -> list[Json]:
    moved = []
    for entity in entities:
        start, end = place(entity["offset"]), place(entity["offset"] + entity["length"])
        if end > start:
            moved.append(entity | {"offset": start, "length": end - start})
    return moved


def remove_nested_reply(message: Json) -> Json:
    """Copy a message for embedding in another one: without the message that it replies to."""
    return {name: value for name, value in message.items() if name != "reply_to_message"}


_CAPTION_MEDIA_KINDS = {"photo", "video", "animation", "document", "audio", "voice"}


def build_post_message(post: Post, chat: Json, parent: Json | None) -> Json:
    """Build the message that a post of this chat was; `parent` is the message it replies to."""
    date, media, name, origin = int(post.date.timestamp()), post.media, str(post.key.message_id), post.origin
    message: Json = {"message_id": post.key.message_id, "date": date, "chat": chat, "sender_chat": chat}
    given: list[Json] = [
        {"type": e.type, "offset": e.offset, "length": e.length} | ({"url": e.url} if e.url else {})
        for e in post.entities
    ]
    entities = _add_detected_entities(post.text, given)
    if media is None or media.kind not in _CAPTION_MEDIA_KINDS:
        message |= {"text": post.text} | ({"entities": entities} if entities else {})
    else:
        message |= {"caption": post.text, "caption_entities": entities} if post.text else {}
        file = {"file_id": f"{media.kind}-{name}", "file_unique_id": f"u-{media.kind}-{name}"}
        if media.kind == "photo":
            message["photo"] = [file | {"width": 800, "height": 600}]
        else:
            message["document"] = file | {"file_name": media.file_name or media.kind, "mime_type": media.mime}
    if origin:  # exports know it by name, sometimes by id
        forward: Json = {"date": int(origin.date.timestamp()) if origin.date else date}
        if origin.chat_id and origin.message_id:
            home = {"id": origin.chat_id, "type": "channel", "title": origin.name}
            forward |= {"type": "channel", "chat": home, "message_id": origin.message_id}
        else:
            forward |= {"type": "hidden_user", "sender_user_name": origin.name}
        message["forward_origin"] = forward
    return message | drop_empty(
        edit_date=int(post.edited.timestamp()) if post.edited else None,
        author_signature=post.author,
        media_group_id=post.album,
        reply_to_message=remove_nested_reply(parent) if parent else None,
    )


# https://core.telegram.org/bots/api#rich-message-limits; the wording of the errors is the sandbox's own.
_MAX_RICH_CHARACTERS, _MAX_BLOCKS, _MAX_DEPTH, _MAX_COLUMNS = 32_768, 500, 16, 20


def prepare_rich_message(given: InputRichMessage, *, draft: bool = False) -> Json:
    """Check a rich message and convert it to the form that messages store; 400 for what Telegram refuses."""
    forms = [name for name in ("html", "markdown", "blocks") if getattr(given, name) is not None]
    if len(forms) != 1:
        raise bad_request("exactly one of html, markdown and blocks must be used in a rich message")
    if forms != ["blocks"]:
        raise bad_request("can't parse rich message: the sandbox reads no markup, send blocks")
    dumped: Json = given.model_dump(mode="json", exclude_none=True, include={"blocks", "is_rtl"})
    blocks = dumped["blocks"]
    if not blocks:
        raise bad_request("rich message is empty")
    parts = list(_walk(blocks, 0))
    objects = [part for part, _ in parts if isinstance(part, dict)]
    kinds = [part.get("type") for part in objects]
    if "thinking" in kinds and not draft:
        raise bad_request("a thinking block can be sent in a draft only")
    if sum(len(part) for part, _ in parts if isinstance(part, str)) > _MAX_RICH_CHARACTERS:
        raise bad_request("rich message is too long")
    rows = [row for part in objects for row in part.get("cells", ())]
    if any(len(row) > _MAX_COLUMNS for row in rows):
        raise bad_request("a table of the rich message has too many columns")
    nested = [block for part in objects for block in (*part.get("blocks", ()), *part.get("items", ()))]
    if len(blocks) + len(nested) + len(rows) > _MAX_BLOCKS:
        raise bad_request("rich message has too many blocks")
    if max(depth for _, depth in parts) > _MAX_DEPTH:
        raise bad_request("rich message is nested too deeply")
    names = {part["name"] for part in objects if part.get("type") == "reference"}
    if unknown := {part["reference_name"] for part in objects if part.get("type") == "reference_link"} - names:
        raise bad_request(f"rich message has no reference {unknown.pop()!r}")
    for part in objects:
        if part.get("type") == "url" and part["url"].partition("://")[0].lower() not in LINK_SCHEMES:
            raise bad_request(f"URL {part['url']!r} in the rich message is invalid")
    return dumped


def _walk(value: Any, depth: int) -> Iterator[tuple[Any, int]]:
    """All blocks, cells and pieces of text, with the number of objects around each."""
    if isinstance(value, list):
        for one in value:
            yield from _walk(one, depth)
        return
    yield value, depth
    if isinstance(value, dict):
        for name in ("text", "credit", "caption", "summary", "blocks", "items", "cells"):
            yield from _walk(value.get(name, []), depth + 1)
