"""Answers about a channel itself, in the words of its own posts: how to reach it, what it is about, and who runs it.

Contacts are said in a line under most posts ("Bakery · Kirpichnaya 14 · @bakery"), which answers no other question, or
in a post now and then: only the line of a single channel is called sure. What a channel is about and who runs it stands
in its first posts, and in later ones that name who took over: only what a single channel says of itself in its first
posts is called sure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.retrieval.described_channel import INTRODUCTION_PATTERN, find_described_channel
from rag_core.storage import Archive
from rag_core.storage.channels import load_channels
from rag_core.storage.visible_posts import list_first_posts, list_posts_between
from rag_core.text.channel_questions import ChannelAspect, ContactKind, detect_channel_question, detect_contact_kind
from rag_core.text.names import find_names
from rag_core.text.post_openings import find_opening
from rag_core.text.sentences import TextSpan, split_into_pieces
from rag_core.text.tokens import fold_case
from rag_core.types import TELEGRAM_START, Certainty, Draft, Plan, Post, Question, Viewer
from rag_core.writing.extract import quote_post_span

_MAX_CHANNELS, _MAX_LINES, _LINES_OF_ONE = 10, 3, 2
_MAX_CONTACT_POSTS, _MAX_OWNER_POSTS, _FIRST_POSTS = 200, 500, 5  # posts that are read
_REPEATED = 5  # posts with a line that is a signature
_MAX_ABOUT_LENGTH = 300  # characters


class _Line(NamedTuple):
    """Line of a post that answers, of a contact with the number of posts that have it.

    `takes_over`: it names somebody new, and holds instead of earlier ones.
    """

    post: Post
    span: TextSpan
    repeated: int = 1
    takes_over: bool = False


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
        posts = await list_posts_between(rag.archive, {chat}, TELEGRAM_START, until, _MAX_CONTACT_POSTS)
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


# Who speaks of themselves: "Пишем вдвоём, Рита и Паша", "Bea here, secretary".
_SELF = re.compile(
    r"(?<!\w)(?:(?i:меня зовут|пишем|пишу|вед[её]м|веду|делаем|рассказываем|ведут|my name is|"
    r"(?:run|written|edited|kept) by)(?!\w)|"
    r"[Яя](?: [-—–])? [А-Я]|(?:I['’]m|I am|[Ww]e are|[Ww]e['’]re) [A-Z]|[A-Z]\w+ here(?!\w))"
)
_NAME_HERE = re.compile(r"[A-Z]\w+ here(?!\w)")
_ROLES = (
    r"(?:админ\w*|редактор\w*|владел\w+|хозя[ий]\w+|основател\w+|председател\w+|президент\w*|директор\w*|заведующ\w+|"
    r"руководител\w+|admins?|editors?|owners?|founders?|president|chair(?:man|woman|person)?|secretary|director|manager)"
)
_ROLE = re.compile(rf"(?<!\w){_ROLES}(?!\w)", re.IGNORECASE)
# "Our new editor", "редактор канала", and no manager of our supermarket.
_OWN_ROLE = re.compile(
    rf"(?<!\w)(?:our|your|наш\w*|ваш\w*)\s(?:\w{{1,20}}\s){{0,2}}{_ROLES}(?!\w)(?!\s(?:of|at)\s)|"
    rf"(?<!\w){_ROLES}\s(?:of\s)?(?:the\s|this\s|our\s|этого\s|нашего\s)?(?:channel|club|канала|клуба|чата|группы)(?!\w)",
    re.IGNORECASE,
)
# A post that says what its channel is: "Это канал про наш район", "X is a small astronomy club".
_SELF_DESCRIPTION = re.compile(
    r"(?<!\w)(?:(?:это|здесь|тут|наш) (?:\w{1,20} ){0,2}?(?:канал|чат|паблик|группа)|канал (?:про|о|об|для)|"
    r"(?:this|the|our|official) (?:\w{1,20} ){0,3}?(?:channel|chat|group|page|feed)|channel (?:of|for|about)|"
    r"(?:is|are) (?:an?|the) (?:\w{1,20} ){0,4}?(?:club|group|community|society|channel|school|shop|bakery|team)|"
    r"(?:is|are) (?:dedicated|devoted) to)(?!\w)",
    re.IGNORECASE,
)
_TAKES_OVER = re.compile(
    r"(?<!\w)(?:нов(?:ый|ая|ое)|теперь|избра\w+|выбра\w+|назнач\w+|new|now|elected|takes? over|took over|succeeds?|"
    r"appointed|hands? over)(?!\w)",
    re.IGNORECASE,
)


async def introduce_channels(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Say what the named channels, else all that the viewer may read, are about, or who runs them.

    A draft without sentences: no post says it. None: there are too many channels, or none is named so: the question is
    searched like any other.
    """
    asked = detect_channel_question(fold_case(question.text))
    chats = plan.channels
    if asked and chats is None and plan.topic:
        described = await find_described_channel(plan.topic, question.viewer, rag)
        chats = frozenset() if described is None else frozenset({described})
    readable = sorted((question.viewer.channels if chats is None else chats) & question.viewer.channels)
    if asked is None or not 0 < len(readable) <= _MAX_CHANNELS:
        return None
    lines, described_itself = list[_Line](), False
    for chat in readable:
        first = await list_first_posts(rag.archive, chat, _FIRST_POSTS)
        if asked.aspect is ChannelAspect.ABOUT:
            found, described_itself = _find_introduction(first)
        else:
            latest = await list_posts_between(rag.archive, {chat}, TELEGRAM_START, question.asked_at, _MAX_OWNER_POSTS)
            found = await asyncio.to_thread(_find_owners, first, latest)
        lines += found if len(readable) == 1 else found[:1]
    quotes = tuple(quote_post_span(line.post, line.span) for line in lines[:_MAX_LINES])
    sure = len(readable) == 1 and described_itself
    return Draft(quotes, 1.0 if quotes else 0.0, certainty=Certainty.SURE if sure else Certainty.PROBABLE)


async def is_introduced(text: str, viewer: Viewer, archive: Archive) -> bool:
    """Whether a text asks what this channel is about and a first post of a channel that the viewer reads says it."""
    asked = detect_channel_question(fold_case(text))
    if asked is None or asked.aspect is not ChannelAspect.ABOUT or asked.name or len(viewer.channels) > _MAX_CHANNELS:
        return False
    first = [await list_first_posts(archive, chat, _FIRST_POSTS) for chat in viewer.channels]
    return any(_find_introduction(posts)[1] for posts in first)


def _find_introduction(first: Sequence[Post]) -> tuple[list[_Line], bool]:
    """Find the opening of the first post that introduces its channel, and whether it says what the channel is."""
    own = [post for post in first if post.origin is None]
    for pattern in (_SELF_DESCRIPTION, INTRODUCTION_PATTERN):
        for post in own:
            span = find_opening(post.text, longest=_MAX_ABOUT_LENGTH)
            if span and pattern.search(post.text[slice(*span)]):
                return [_Line(post, span)], pattern is _SELF_DESCRIPTION
    return [], False


def _find_owners(first: Sequence[Post], latest: Sequence[Post]) -> list[_Line]:
    """Find who runs a channel: the latest who took over, and those who speak of themselves in the first posts."""
    by_key = {post.key: post for post in (*first, *latest) if post.origin is None}
    openings = {post.key for post in first}
    lines = []
    for post in by_key.values():
        for span in split_into_pieces(post.text):
            sentence = post.text[slice(*span)]
            role = _OWN_ROLE.search(sentence) or (post.key in openings and _ROLE.search(sentence))
            speaks = post.key in openings and _SELF.search(sentence)
            if (role or speaks) and _names_somebody(sentence):
                lines.append(_Line(post, span, takes_over=bool(role and _TAKES_OVER.search(sentence))))
    lines.sort(key=lambda line: line.post.date)
    new = [line for line in lines if line.takes_over][-1:]
    early = [line for line in lines if line.post.key in openings]
    return list(dict.fromkeys([*new, *early]))[:_LINES_OF_ONE] or lines[-1:]


def _names_somebody(sentence: str) -> bool:
    """Whether a sentence has a name, which is more than the capital letter of its first word, but in "Bea here"."""
    return any(name.start() or " " in name[0] for name in find_names(sentence)) or bool(_NAME_HERE.match(sentence))
