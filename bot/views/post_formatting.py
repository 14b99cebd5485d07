"""Plain-text formatting of posts, for chat and terminal. Imports no aiogram, which takes seconds to load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from bot.i18n import Translator
from bot.views.clean_and_shorten_text import join_lines, strip_control_characters
from rag_core.types import Channel, Origin

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


def format_moment(moment: datetime, shown: RenderContext) -> str:
    """Format a day with its time, in the reader's time zone."""
    return f"{shown.words.date(moment, shown.zone)}, {moment.astimezone(shown.zone):%H:%M}"


def format_missing_parts(missing: Iterable[str], words: Translator) -> str:
    """Format the line that names the parts of a question that nothing was found for."""
    return words("answer-missing", parts="; ".join(map(join_lines, missing)))
