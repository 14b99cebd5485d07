"""Plain text for chat and terminal: cleaning, shortening, authors and days; answers, verdicts, plans and traces.

Imports no aiogram, which loads slowly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar

from rag_core.types import Certainty, Channel, Origin, Shortfall
from rag_core.verification import NON_SEARCH_STAGES, Label

if TYPE_CHECKING:
    from bot.control import AnswerJson, VerdictsJson
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
    if channel and (about := channel.topics.get(topic or 0, "")):
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
    later = shown.words.date(edited, shown.zone)
    told = shown.words("source-edited-same-day") if later == day else shown.words("source-edited", date=later)
    return f"{day} · {told}"


def format_media_place(kind: str, place: int, words: Translator) -> str:
    """Format where in the file of a post something stands: in the picture, in the recording at 1:24."""
    minutes, seconds = divmod(place, 60)
    return words("media-place", kind=kind, time=f"{minutes}:{seconds:02}", page=place)


def format_moment(moment: datetime, shown: RenderContext) -> str:
    """Format a day with its time, in the reader's time zone."""
    return f"{shown.words.date(moment, shown.zone)}, {moment.astimezone(shown.zone):%H:%M}"


def format_shortfalls(shortfalls: Iterable[Shortfall], words: Translator) -> list[str]:
    """Format what an answer had to do without, each sentence once."""
    return list(dict.fromkeys(words("shortfall", stage=one.stage, count=one.count) for one in shortfalls))


def format_missing_parts(missing: Iterable[str], words: Translator) -> str:
    """Format the line that names the parts of a question that nothing was found for, if their words name anything."""
    from rag_core.conversation.followups import extract_content_words

    parts = [join_lines(part) for part in missing if extract_content_words(part)]
    return words("answer-missing", parts="; ".join(parts)) if parts else words("answer-missing-rest")


_MAX_EXCERPT_LENGTH = 200
_LIKELY = 0.65  # probability: of what is shown from here on four of five are right, below it three of five


def format_caveat(confidence: float, words: Translator, aged: str = "") -> str:
    """Words over an answer that is not sure: how likely it is, and the date of its post where that is old."""
    return words("answer-caveat", likely="yes" if confidence >= _LIKELY else "no", date=aged or "none")


def format_answer_text(found: AnswerJson, words: Translator, zone: tzinfo) -> str:
    """Format the answer: sentences with source numbers, then the sources; for a refusal the nearest posts."""
    answer = found["answer"]
    if found["reply"]:
        return strip_control_characters(found["reply"])
    if answer["refused"]:
        lines = [describe_refusal(found, words)]
        sources = [_format_source_lines(source, words, zone) for source in found["nearest"]]
        lines[0] += f" {words('nearest')}" if sources else ""
    else:
        first, further = list[str](), list[str]()
        for place, (sentence, marks) in enumerate(zip(answer["sentences"], found["marks"], strict=True)):
            line = f"{strip_control_characters(sentence['text'])} {' '.join(f'[{n}]' for n in marks)}".rstrip()
            (further if place and sentence["further"] else first).append(line)
        lines = first + further
        if answer["certainty"] == Certainty.PROBABLE:
            heading = [words("answer-further")] if further else []
            lines = [format_caveat(answer["confidence"], words), *first, *heading, *further]
        lines += [format_missing_parts(answer["missing"], words)] if answer["missing"] else []
        sources = [f"[{n}] {_format_source_lines(source, words, zone)}" for n, source in enumerate(found["sources"], 1)]
    if found["understood"]:
        lines.insert(0, words("answer-understood", question=strip_control_characters(found["understood"])))
    notes = list(found["shortfalls"])
    if answer["model"]:
        notes.append(words("footer-model", model=strip_control_characters(answer["model"])))
    if notes:
        sources += ["", *notes]
    return "\n".join((*lines, "", *sources)).rstrip()


def describe_refusal(found: AnswerJson, words: Translator) -> str:
    """Sentence of a refusal; where a part of the search failed, "it is not there" would be an unfounded claim."""
    partly = set(found["answer"]["without"]) - WRITING_STAGES
    return words("refused-partly" if partly else "refused-unsure" if found["nearest"] else "refused")


def _format_source_lines(source: dict[str, str], words: Translator, zone: tzinfo) -> str:
    who = format_author(Channel(0, source["title"]), Origin(source["origin"]) if "origin" in source else None, words)
    edited = datetime.fromisoformat(source["edited"]) if "edited" in source else None
    date = format_day_and_edit(datetime.fromisoformat(source["date"]), edited, RenderContext(words, zone))
    text = " ".join(strip_control_characters(source["words"]).split())
    if len(text) > _MAX_EXCERPT_LENGTH:
        text = text[:_MAX_EXCERPT_LENGTH].rsplit(" ", 1)[0] + "…"
    more = [words("search-quoted", text=text)] if text else []
    more += map(strip_control_characters, source.get("addresses", "").split("\n"))
    place = f", {format_media_place(source['file'], int(source['place'] or 0), words)}" if "file" in source else ""
    return "\n    ".join((f"{source['link']}  {who}, {date}{place}".lstrip(), *filter(None, more)))


def format_verdicts_text(found: VerdictsJson, words: Translator, zone: tzinfo) -> str:
    """Format the verdicts as text."""
    if not found["verdicts"]:
        return words("verify-nothing")
    missing = bool(set(found["without"]) - NON_SEARCH_STAGES)
    blocks = []
    if same := found["same"]:
        day = words.date(datetime.fromisoformat(same["date"]), zone)
        title = strip_control_characters(same["title"]) or words("unnamed-channel")
        blocks = [f"{words('verify-same', day=day, channel=title, state=same['state'])}\n  {same['link']}"]
    own, context = same["link"] if same else None, RenderContext(words, zone)
    blocks += ["\n".join(_format_verdict_lines(verdict, own, missing, context)) for verdict in found["verdicts"]]
    notes = [words("verify-left", count=found["left"])] if found["left"] else []
    return "\n\n".join((*blocks, *notes, *found["shortfalls"]))


def _format_verdict_lines(
    verdict: dict[str, Any], own: str | None, missing: bool, context: RenderContext
) -> Iterator[str]:
    words, later = context.words, verdict["superseded"]
    for_it = [quote for quote in verdict["citations"] if quote["link"] != own]  # the claims stand there word for word
    yield words("verify-claim", claim=strip_control_characters(verdict["claim"]))
    contested = verdict["label"] == Label.CONTRADICTED.value and verdict["citations"]
    if later:
        yield words("verify-outdated", day=words.date(datetime.fromisoformat(later["date"]), context.zone))
        yield words("verify-superseded")
        yield from _format_quote_lines([later], context)
        if for_it:
            yield words("verify-before")
    elif missing and verdict["label"] == Label.NOT_FOUND.value:
        yield words("verify-partly")
    else:
        yield words("verify-label", label="contested" if contested else verdict["label"])
    yield from _format_quote_lines(for_it, context)
    first = verdict["earliest"]
    if first and [first["link"]] != [one["link"] for one in verdict["citations"]]:  # else the quote says it all
        when = words.date(datetime.fromisoformat(first["date"]), context.zone)
        yield words("verify-sources", count=verdict["sources"], first=first["link"], when=when)
    others = [quote for quote in verdict["against"] if not later or quote["link"] != later["link"]]
    if others and verdict["citations"]:
        yield words("verify-against", count=len(others))
    yield from _format_quote_lines(others, context)


def _format_quote_lines(quotes: list[dict[str, str]], context: RenderContext) -> Iterator[str]:
    for quote in quotes:
        date = format_day_and_edit(datetime.fromisoformat(quote["date"]), None, context)
        yield f"  {context.words('search-quoted', text=strip_control_characters(quote['quote']))}"
        yield f"  {quote['link']}  {strip_control_characters(quote['title'])}, {date}"


def format_channel_list(known: Iterable[Channel], words: Translator) -> str:
    """Format the sentence that names the channels which are read."""
    titles = sorted((format_author(channel, None, words) for channel in known), key=str.casefold)
    return words("smalltalk-about-channel", count=len(titles), titles=", ".join(titles), more=0)


def format_answer_trace(found: AnswerJson) -> list[str]:
    """Format the stages of the answer, one line each, and below them what each of them found."""
    lines = format_stages(found["trace"])
    for stage, result in found["results"]:
        lines += [f"--- {stage}", *(f"  {join_lines(line)}" for line in result)]
    return lines


def format_stages(spans: Iterable[Mapping[str, Any]]) -> list[str]:
    """Format the stages of a run, one line each."""
    lines = []
    for span in spans:
        counts = " ".join(f"{name}={value}" for name, value in span["counts"].items())
        error = f"  {span['error']}" if span["error"] else ""
        lines.append(f"{span['stage']:10} {span['took_ms']:8.1f} ms  {counts}{error}")
    return lines
