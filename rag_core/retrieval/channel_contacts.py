"""Channel contacts: how to reach those who run a channel, and where they are.

Channels say so in a line under most posts ("Bakery · Kirpichnaya 14 · @bakery"), which answers no other question, or in
a post now and then. A reader asks it of "you" or of the channel that the question describes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_core.context.evidence import build_text_key
from rag_core.engine import Engine
from rag_core.retrieval.channel_profile import find_described_channel
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage.channels import load_channels
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.contact_questions import ContactKind, parse_contact_question
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Certainty, Draft, Passage, Plan, Question
from rag_core.writing.extract import quote_span

_MAX_CHANNELS, _MAX_READ_POSTS, _MAX_LINES = 10, 200, 3
_REPEATED = 5  # posts with a line that is a signature


_ADDRESS = re.compile(
    r"(?<!\w)(?:ул\.|улиц\w+|пр-т|просп\w*|пер\.|переул\w+|наб\.|набережн\w+|пл\.|площад\w+|шоссе|бульвар\w*|б-р)\s*[A-ZА-ЯЁ«]|"
    r"[A-ZА-ЯЁ][\w-]+(?:\s(?:street|st\.|road|rd|lane|avenue|ave|square|quay|ул\.|улица|пер\.|наб\.|пр-т))|"
    r"[A-ZА-ЯЁ][а-яёa-z-]{3,},?\s(?:д\.\s?)?\d{1,3}[а-яa-z]?(?![\w:.]|\s?(?:₽|руб|%|янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек))"
)
_HOLDS = {
    ContactKind.WRITE: re.compile(r"(?<![\w/.])@\w{4,}|[\w.+-]+@[\w-]+\.\w{2}|\]\((?:https?://)?t\.me/\w+\)"),
    ContactKind.PHONE: re.compile(r"(?<![\d./=])\+?\d(?:[\s()-]{0,2}\d){6,14}(?![\d.])|(?<!\d)\d{1,2}-\d\d-\d\d(?!\d)"),
    ContactKind.PLACE: _ADDRESS,
}
# What a line that is no signature says of those who run the channel.
_OWN_WORDS = re.compile(
    r"(?<!\w)(?:пиш\w+|писать|присл\w+|присыл\w+|связ\w+|контакт\w*|заказ\w*|реклам\w+|сотруднич\w+|предлож\w+|звон\w+|запис\w+|вопрос\w*|"
    r"write|contact|e-?mail|message|order|reach|questions?|send|call|text|booking|book)(?!\w)"
)
_OWN_PLACE_WORDS = re.compile(
    r"(?<!\w)(?:мы|нас|нам|наш\w*|адрес\w*|собираемся|встречаемся|жд[её]м|ищите|приходите|заходите|открываемся|переехали|переезжаем|"
    r"we|us|our|ours|address|find us|meet|come)(?!\w)"
)


class _Line(NamedTuple):
    """Line of a post that answers; `repeated`: the number of posts that have it."""

    passage: Passage
    span: TextSpan
    repeated: int


async def find_channel_contacts(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Find the contacts of the described channel, else of all that the viewer may read; at most one line of each.

    None: the words describe no channel, or no post says it: the question is searched like any other.
    """
    parsed = parse_contact_question(fold_case(plan.queries[0]))
    if parsed is None:
        return None
    kind, topic = parsed
    described = await find_described_channel(topic, question.viewer, rag) if tokenize(topic) else None
    chats = [described] if described is not None else sorted(plan.channels or question.viewer.channels)
    if (tokenize(topic) and described is None) or len(chats) > _MAX_CHANNELS:
        return None
    known, found = await load_channels(rag.archive), []
    for chat in chats:
        latest = replace(plan, channels=frozenset({chat}), until=question.asked_at, slack=0)
        only = await resolve_filter(latest, question.viewer, rag)
        places = (await asyncio.to_thread(rag.lexical.all_of, only))[: -_MAX_READ_POSTS - 1 : -1]
        passages = list((await fetch_passages(rag.archive, places)).values())
        own = (known[chat].username or "").lower() if chat in known else ""
        if line := await asyncio.to_thread(_choose_line, kind, passages, own):
            found.append(line)
    found.sort(key=lambda line: (-(line.repeated >= _REPEATED), -line.passage.date.timestamp()))
    quotes = [quote_span(line.passage, line.span) for line in found[:_MAX_LINES]]
    certainty = Certainty.SURE if len(chats) == 1 else Certainty.PROBABLE
    return Draft(tuple(quotes), 1.0, certainty=certainty) if quotes else None


def _choose_line(kind: ContactKind, passages: Sequence[Passage], own: str) -> _Line | None:
    """Choose the line that answers: the one that most posts of the channel repeat, else the newest that says so.

    `own`: the username of the channel, which is nobody to write to.
    """
    itself = re.compile(rf"(?:@|t\.me/){re.escape(own)}(?!\w)", re.IGNORECASE) if own else None
    found: list[tuple[Passage, TextSpan, str]] = []
    for passage in passages:
        for sentence in split_sentences(passage.text):
            for start, end in split_long_span(passage.text, sentence, MAX_SENTENCE_LENGTH):
                said = itself.sub("", passage.text[start:end]) if itself else passage.text[start:end]
                if _HOLDS[kind].search(said):
                    found.append((passage, (start, end), build_text_key(passage.text[start:end])))
    counts = Counter(key for _, _, key in found)
    lines = [_Line(passage, span, counts[key]) for passage, span, key in found]
    signature = max(lines, key=lambda line: line.repeated, default=None)
    if signature and signature.repeated >= _REPEATED:
        return signature
    own_words = _OWN_PLACE_WORDS if kind is ContactKind.PLACE else _OWN_WORDS
    return next((one for one in lines if own_words.search(fold_case(one.passage.text[slice(*one.span)]))), None)
