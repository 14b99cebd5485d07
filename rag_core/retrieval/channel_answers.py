"""Answers about a channel itself, in the words of its own posts: what it is about, and who runs it.

Both stand in its first posts, and in later ones that name who took over: only what a single channel says of itself in
its first posts is called sure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.storage import Archive
from rag_core.storage.visible_posts import list_first_posts, list_posts_between
from rag_core.text.channel_questions import ChannelAspect, detect_channel_question
from rag_core.text.names import find_names
from rag_core.text.post_openings import find_opening
from rag_core.text.sentences import TextSpan, split_into_pieces
from rag_core.text.tokens import fold_case
from rag_core.types import TELEGRAM_START, Certainty, Draft, Plan, Post, Question, Viewer
from rag_core.writing.extract import quote_post_span

_MAX_CHANNELS, _MAX_LINES, _LINES_OF_ONE = 10, 3, 2
_MAX_OWNER_POSTS, _FIRST_POSTS = 500, 5  # posts that are read
_MAX_ABOUT_LENGTH = 300  # characters


class _Line(NamedTuple):
    """Line of a post that answers; `takes_over`: it names somebody new, and holds instead of earlier ones."""

    post: Post
    span: TextSpan
    takes_over: bool = False


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
_INTRODUCTION = re.compile(
    r"\b(?:канал\w*|чат\w*|сообществ\w+|привет\w*|здравствуй\w*|добро пожаловать|меня зовут|"
    r"channel|chat|this is|welcome|hello|hi|we|мы)\b|\bhere,",
    re.IGNORECASE,
)
_TAKES_OVER = re.compile(
    r"(?<!\w)(?:нов(?:ый|ая|ое)|теперь|избра\w+|выбра\w+|назнач\w+|new|now|elected|takes? over|took over|succeeds?|"
    r"appointed|hands? over)(?!\w)",
    re.IGNORECASE,
)


async def introduce_channels(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Say what the named channels, else all that the viewer may read, are about, or who runs them.

    A draft without sentences: no post says it. None: there are too many channels, the question is searched like any
    other.
    """
    asked = detect_channel_question(fold_case(question.text))
    readable = sorted((plan.channels or question.viewer.channels) & question.viewer.channels)
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
    for pattern in (_SELF_DESCRIPTION, _INTRODUCTION):
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
