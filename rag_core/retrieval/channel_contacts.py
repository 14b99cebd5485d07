"""Channel contacts: how to reach those who run a channel, and where they are.

Channels say so in a line under most posts ("Bakery · Kirpichnaya 14 · @bakery"), which answers no other question, or in
a post now and then. Only the line of a single channel is called sure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.planning.rule_planner import TELEGRAM_START
from rag_core.storage.channels import load_channels
from rag_core.storage.posts import list_posts_between
from rag_core.text.contact_questions import ContactKind, detect_contact_kind
from rag_core.text.sentences import TextSpan, split_into_pieces
from rag_core.text.tokens import fold_case
from rag_core.types import Certainty, Draft, Plan, Post, Question
from rag_core.writing.extract import quote_post_span

_MAX_CHANNELS, _MAX_READ_POSTS, _MAX_LINES = 10, 200, 3
_REPEATED = 5  # posts with a line that is a signature

_STREET = (
    r"(?<!\w)(?:ул\.|улиц\w{1,3}|пр-т|просп\w{0,6}|пер\.|переул\w{1,4}|наб\.|набережн\w{1,3}|пл\.|площад\w{1,3}|шоссе|бульвар\w{0,2}|б-р)\s*[A-ZА-ЯЁ«]|"
    r"(?<![\w-])[A-ZА-ЯЁ][\w-]{1,30}\s(?:Street|St\.|Road|Rd|Lane|Avenue|Ave|Square|Quay|ул\.|улица|пер\.|наб\.|пр-т)(?!\w)"
)
_NUMBERED = r"(?<![\w-])[A-ZА-ЯЁ][а-яёa-z-]{3,30},?\s(?:д\.\s?)?\d{1,3}[а-яa-z]?(?![\w:.])"
_HOLDS = {
    ContactKind.WRITE: re.compile(
        r"(?<![\w/.])@\w{4,}|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.\w{2}|(?<!\w)t\.me/\w{4,}"
    ),
    ContactKind.PHONE: re.compile(
        r"(?<![\d./=-])\+?(?!\d{4}-\d\d-\d\d)\d(?:[\s()-]{0,2}\d){6,14}(?![\d.]|\s?(?:₽|руб|\$|€|%))|(?<![\d-])\d{1,2}-\d\d-\d\d(?![\d-]|\sкласс)"
    ),
    ContactKind.PLACE: re.compile(_STREET),
}
_SIGNED_PLACE = re.compile(f"{_STREET}|{_NUMBERED}")
# What a line that is no signature says of those who run the channel.
_OWN_WORDS = re.compile(
    r"(?<!\w)(?:пиш\w+|писать|присл\w+|присыл\w+|связ\w+|контакт\w*|заказ\w*|реклам\w+|сотруднич\w+|предлож\w+|звон\w+|запис\w+|вопрос\w*|"
    r"write|contact|e-?mail|message|order|reach|questions?|send|call|text|booking|book)(?!\w)"
)
_OWN_PLACE_WORDS = re.compile(
    r"(?<!\w)(?:мы|нас|нам|наш\w*|адрес\w*|собираемся|встречаемся|жд[её]м|ищите|приходите|заходите|открываемся|переехали|переезжаем|"
    r"we|us|our|ours|address|find us|meet|come)(?!\w)"
)
_OF_OTHERS = re.compile(
    r"^\W*(?:photo|video|author|source|via|credit|фото|видео|автор|источник|снял\w*)\b|(?<!\w)(?:потеря\w+|пропа\w+|наш[её]л\w*|найден\w*|lost|found|missing)(?!\w)"
)


class _Line(NamedTuple):
    """Line of a post that answers; `repeated`: the number of posts that have it."""

    post: Post
    span: TextSpan
    repeated: int


async def find_channel_contacts(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Find the contacts of the channels that are named, else of all that the viewer may read; at most one line of each.

    None: no post says it, or there are too many channels: the question is searched like any other.
    """
    kind = detect_contact_kind(fold_case(plan.queries[0]))
    chats = sorted((plan.channels or question.viewer.channels) & question.viewer.channels)
    if kind is None or len(chats) > _MAX_CHANNELS:
        return None
    known, found = await load_channels(rag.archive), []
    for chat in chats:
        until = question.asked_at
        posts = await list_posts_between(rag.archive, {chat}, TELEGRAM_START, until, _MAX_READ_POSTS)
        own = (known[chat].username or "") if chat in known else ""
        if line := await asyncio.to_thread(_choose_line, kind, posts, own):
            found.append(line)
    found.sort(key=lambda line: (-(line.repeated >= _REPEATED), -line.post.date.timestamp()))
    quotes = [quote_post_span(line.post, line.span) for line in found[:_MAX_LINES]]
    sure = len(chats) == 1 and all(line.repeated >= _REPEATED for line in found)
    certainty = Certainty.SURE if sure else Certainty.PROBABLE
    return Draft(tuple(quotes), 1.0, certainty=certainty) if quotes else None


def _choose_line(kind: ContactKind, posts: Sequence[Post], own: str) -> _Line | None:
    """Choose the line that answers: the latest of those that posts of the channel repeat, else the latest that says so.

    `posts`: oldest first; `own`: the username of the channel, which is nobody to write to.
    """
    itself = re.compile(rf"(?:@|t\.me/){re.escape(own)}(?!\w)", re.IGNORECASE) if own else None
    holds = _SIGNED_PLACE if kind is ContactKind.PLACE else _HOLDS[kind]
    latest: dict[str, _Line] = {}
    for post in posts:
        if post.origin is not None:
            continue
        said: dict[str, TextSpan] = {}
        for start, end in split_into_pieces(post.text):
            line = post.text[start:end]
            if holds.search(itself.sub("", line) if itself else line) and not _OF_OTHERS.search(fold_case(line)):
                said[" ".join(fold_case(line).split())] = (start, end)
        for key, span in said.items():
            latest[key] = _Line(post, span, latest[key].repeated + 1 if key in latest else 1)
    lines = sorted(latest.values(), key=lambda line: line.post.date, reverse=True)
    signature = next((line for line in lines if line.repeated >= _REPEATED), None)
    return signature or next((line for line in lines if _says_so(kind, line.post.text[slice(*line.span)])), None)


def _says_so(kind: ContactKind, line: str) -> bool:
    """Whether a line that is no signature says that it is how to reach the channel."""
    if kind is ContactKind.PLACE:
        return bool(_HOLDS[kind].search(line) and _OWN_PLACE_WORDS.search(fold_case(line)))
    return bool(_OWN_WORDS.search(fold_case(line)))
