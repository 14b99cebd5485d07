"""What a new message hangs on: the message it replies to, the quote, the topic, the buttons."""

from __future__ import annotations

from typing import Any

from aiogram.types import InlineKeyboardMarkup, ReplyParameters

from bot.sandbox.checks import QUOTE, quoted, units
from bot.sandbox.html_markup import read_html
from bot.sandbox.markdown_markup import read_markdown
from bot.sandbox.reach import SERVICE, origin_of, readable
from bot.sandbox.refused import Refused, bad
from bot.sandbox.rooms import Json, Room, alone
from bot.sandbox.world import World

__all__ = ["keyboard", "marks", "named", "reply_fields", "thread_fields"]

# What a quote must have where its message has it: https://core.telegram.org/bots/api#replyparameters
_STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler"}
_WHOLE = {"custom_emoji", "date_time"}


def named(value: object) -> str | None:
    """A parse mode, where one was given; aiogram's placeholder for "the default" is none."""
    return value if isinstance(value, str) and value else None


def marks(entities: list[Any] | None) -> list[Json]:
    """Entities of a call as plain objects."""
    return [entity.model_dump(exclude_none=True) for entity in entities or ()]


def thread_fields(room: Room, thread: int | None, parent: Json | None = None) -> Json:
    """The topic a message goes to: the one asked for, else the one of the message it replies to."""
    if thread is not None and thread not in room.topics:
        raise bad("message thread not found")
    inherited = (parent or {}).get("message_thread_id") if room.forum else None
    topic = thread if thread is not None else inherited
    return {"message_thread_id": topic, "is_topic_message": True} if topic is not None else {}


def reply_fields(world: World, room: Room, wanted: ReplyParameters | None, old_style: int | None) -> Json:
    """`reply_to_message` (or `external_reply`) and `quote`; 400 where there is no such message or quote."""
    if wanted is None:
        wanted = ReplyParameters(message_id=old_style) if old_style else None
    if wanted is None or not wanted.message_id:
        return {}
    elsewhere = wanted.chat_id is not None and world.room(wanted.chat_id).id != room.id
    source = readable(world, wanted.chat_id) if elsewhere else room
    parent = source.messages.get(wanted.message_id)
    if parent is None:
        if wanted.allow_sending_without_reply is True and not elsewhere:
            return {}
        raise bad("message to be replied not found")
    if elsewhere and (source.protected or parent.get("has_protected_content") or SERVICE & parent.keys()):
        return {}  # TDLib sends the message all the same, and says nothing
    quote = _quote(parent, wanted)
    if elsewhere:
        seen = {"origin": origin_of(parent), "chat": source.wire(), "message_id": parent["message_id"]}
        return {"external_reply": seen} | quote
    return {"reply_to_message": alone(parent)} | quote


def _quote(parent: Json, wanted: ReplyParameters) -> Json:
    """The quote must be in the message word for word, with its bold and the like; a blank one is none."""
    text, entities = wanted.quote or "", marks(wanted.quote_entities)
    mode = (named(wanted.quote_parse_mode) or "").lower()
    if mode and not entities:
        text, entities = read_html(text) if mode == "html" else read_markdown(text)
    text, entities, lead = quoted(text, entities)
    if not text:
        return {}
    whole = parent.get("text") or parent.get("caption") or ""
    spans = parent.get("entities") or parent.get("caption_entities") or []
    asked = (wanted.quote_position or 0) + lead
    places = sorted(_places(whole, text), key=lambda place: abs(place - asked))
    fitting = [p for p in places if _styles(spans, p, units(text)) == _styles(entities, 0, units(text))]
    if not fitting or len(text) > QUOTE:
        raise bad("QUOTE_TEXT_INVALID")
    kept = [entity for entity in entities if entity["type"] in _STYLES | _WHOLE]
    quote: Json = {"text": text, "position": fitting[0], "is_manual": True}
    return {"quote": quote | ({"entities": kept} if kept else {})}


def _places(whole: str, piece: str) -> list[int]:
    found, start = [], whole.find(piece)
    while start >= 0:
        found.append(units(whole[:start]))
        start = whole.find(piece, start + 1)
    return found


def _styles(entities: list[Json], start: int, length: int) -> set[tuple[object, ...]]:
    """The styles inside a span, counted from its start.

    Bold and the like as the units that they cover: two that touch are one. Emoji and times whole, with what they are.
    """
    inside: set[tuple[object, ...]] = set()
    for entity in entities:
        left = max(entity["offset"], start) - start
        right = min(entity["offset"] + entity["length"], start + length) - start
        if entity["type"] in _STYLES:
            inside |= {(entity["type"], place) for place in range(left, right)}
        elif entity["type"] in _WHOLE and right > left:
            known = sorted((name, value) for name, value in entity.items() if name not in ("offset", "length"))
            inside.add((left, right, *known))
    return inside


def keyboard(markup: object) -> Json | None:
    """The inline keyboard as the message keeps it; other keyboards are not part of a message."""
    if not isinstance(markup, InlineKeyboardMarkup):
        return None
    for button in (button for row in markup.inline_keyboard for button in row):
        if not button.text:
            raise bad("can't parse inline keyboard button: text must be non-empty")
        if button.callback_data is not None and not 1 <= len(button.callback_data.encode()) <= 64:
            raise bad("BUTTON_DATA_INVALID")
        if button.url is not None and not button.url.startswith(("http://", "https://", "tg://")):
            raise _bad_url(button.url)
        if not button.model_dump(exclude_none=True).keys() - {"text", "style", "icon_custom_emoji_id"}:
            raise bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
    rows = markup.model_dump(exclude_none=True)
    return rows if rows["inline_keyboard"] else None


def _bad_url(url: str) -> Refused:
    return bad(f"inline keyboard button URL '{url}' is invalid: Wrong HTTP URL")
