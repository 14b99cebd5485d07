"""Plain text for chat and terminal: cleaning, shortening, authors and days. Imports no aiogram, which loads slowly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, TypeVar

from rag_core.types import Channel, Origin

if TYPE_CHECKING:
    from bot.i18n import Translator

T = TypeVar("T")

# Embeddings, overrides and isolates of writing direction: they could reorder the words around them.
_DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Category Cc but for the line break, and the separators at which some terminals break a line.
_CONTROL_CHARACTERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_control_characters(text: str) -> str:
    """Strip control characters and direction marks from an untrusted text; line breaks are kept."""
    return replace_control_characters(text).strip()


def replace_control_characters(text: str) -> str:
    """Replace control characters by spaces and drop direction marks; white space at the ends stays."""
    return _CONTROL_CHARACTERS.sub(" ", _DIRECTION_MARKS.sub("", text))


def dump_json(value: object) -> str:
    """Serialize to JSON that a terminal can show: readable, but for escapes of what would control it."""
    dumped = json.dumps(value, ensure_ascii=False)
    return _ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", dumped)


def join_lines(text: str) -> str:
    """Put an untrusted text on one line, without control characters."""
    return " ".join(strip_control_characters(text).split())


def shorten(text: str, longest: int) -> str:
    """Cut a text that is longer, with an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def shorten_at_word(text: str, longest: int) -> str:
    """Cut a text that is longer between two words, with an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest].rsplit(' ', 1)[0].rstrip(' ,.;:·•–—-')}…"


def cut_lines(lines: Sequence[T], most: int, words: Translator) -> list[T | str]:
    """Cut a list that has more lines than `most`; a last line counts the rest."""
    more = len(lines) - most
    return [*lines[:most], *([words("titles-more", more=more)] if more > 0 else [])]


# Stages whose failure does not make the search incomplete.
WRITING_STAGES = frozenset(
    {"write", "support", "stopped", "verify", "recipe", "overlap", "judge", "predict", "parts", "map", "choose"}
)


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Render context: translator, time zone, and whether the message goes to a group."""

    words: Translator
    zone: tzinfo
    group: bool = False


def format_author(channel: Channel | None, origin: Origin | None, words: Translator, topic: int | None = None) -> str:
    """Author of a post's words: the channel with the topic of a forum, or the origin of a forwarded post."""
    title = (strip_control_characters(channel.title).replace("\n", " ") if channel else "") or words("unnamed-channel")
    if channel and (about := channel.get_topic_title(topic)):
        title = " › ".join([title, *strip_control_characters(about).splitlines()])
    if origin is None or (channel and origin.chat_id == channel.chat_id):
        return title
    name = strip_control_characters(origin.name).replace("\n", " ") or words("unnamed-origin")
    return words("source-forwarded", origin=name, channel=title)


def format_day_and_edit(date: datetime, edited: datetime | None, shown: RenderContext) -> str:
    """Format the day of a post, and the day of its last edit."""
    day = shown.words.date(date, shown.zone)
    if edited is None:
        return day
    return f"{day} · {shown.words('source-edited', date=shown.words.date(edited, shown.zone))}"


def format_media_place(kind: str, place: int, words: Translator) -> str:
    """Format where in the file of a post something stands: in the picture, in the recording at 1:24."""
    minutes, seconds = divmod(place, 60)
    return words("media-place", kind=kind, time=f"{minutes}:{seconds:02}", page=place)


def format_moment(moment: datetime, shown: RenderContext) -> str:
    """Format a day with its time, in the reader's time zone."""
    return f"{shown.words.date(moment, shown.zone)}, {moment.astimezone(shown.zone):%H:%M}"


def format_missing_parts(missing: Iterable[str], words: Translator) -> str:
    """Format the line that names the parts of a question that nothing was found for."""
    return words("answer-missing", parts="; ".join(map(join_lines, missing)))
