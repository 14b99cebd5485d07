"""Answers in the words of posts about a channel, its subject, profile and owners, and what a name stands for."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.planning import intents
from rag_core.planning.intents import Request
from rag_core.retrieval.search import resolve_filter
from rag_core.storage import Archive, visible_posts
from rag_core.storage.channels import load_channels
from rag_core.storage.visible_posts import list_first_posts, list_posts_between
from rag_core.text.names import NAME_PATTERN, strip_inflection
from rag_core.text.post_text import find_poll
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, build_text_key, find_opening, split_into_pieces
from rag_core.text.tokens import (
    fold_case,
    is_dictionary_word,
    list_dictionary_forms,
    put_in_nominative,
    read_word,
    stem,
    tokenize,
)
from rag_core.types import TELEGRAM_START, Certainty, Draft, Plan, Post, Question, Viewer
from rag_core.writing.extract import quote_span

MAX_READ_POSTS = 1000  # the latest
_MAX_LISTED = 6
_MIN_COUNT = 2  # posts: what stands in one is no subject of a channel
_COMMON_WORD = re.compile(r"(?<![\w-])[a-zа-яё]{4,}(?![\w-])")
_WITHIN_SENTENCE = re.compile(r"[\w,;)»”\"]\s+[«„“\"'(]*$")
_START_LENGTH = 8  # characters before a name that show whether it begins a sentence
_ADDRESS = re.compile(r"(?:https?://|t\.me/|www\.|@)\S+")
_MAX_SHARE, _MIN_SHARED_POSTS = 0.7, 10  # what stands in more of so many posts is a signature


@dataclass(frozen=True, slots=True)
class ChannelProfile:
    """Profile of a channel: `weekly` posts in the four weeks before its last one; counts are numbers of posts.

    `read` are the latest posts, from which names and subjects come.
    """

    posts: int
    first: datetime
    last: datetime
    weekly: float
    read: tuple[Post, ...]
    names: tuple[tuple[str, int], ...]
    subjects: tuple[tuple[str, int], ...]


async def profile_channel(archive: Archive, chat_id: int, weigh: Callable[[str], float]) -> ChannelProfile | None:
    """Profile a channel; None where it has no posts. Raises ArchiveUnavailable.

    `weigh`: the inverse document frequency of a term in the channels that the reader may read.
    """
    span = await visible_posts.fetch_post_span(archive, chat_id)
    if span is None:
        return None
    read = tuple(await visible_posts.list_latest_posts(archive, chat_id, MAX_READ_POSTS))
    texts = [post.text for post in read]
    names, subjects = await asyncio.to_thread(_extract_topics, texts, weigh)
    return ChannelProfile(span.posts, span.first, span.last, span.recent / 4, read, names, subjects)


_TIME_WORDS = (
    "год день дня неделя месяц час утро вечер ночь весна лето осень зима январь февраль март апрель май июнь июль "
    "август сентябрь октябрь ноябрь декабрь понедельник вторник среда четверг пятница суббота воскресенье вчера "
    "сегодня завтра year day week month hour morning evening night spring summer autumn winter january february march "
    "april may june july august september october november december monday tuesday wednesday thursday friday saturday "
    "sunday yesterday today tomorrow time раз once name word слово имя"
)


_Counts = tuple[tuple[str, int], ...]


def _extract_topics(texts: Sequence[str], weigh: Callable[[str], float]) -> tuple[_Counts, _Counts]:
    time_stems = frozenset(tokenize(_TIME_WORDS))  # they name nothing
    texts = [_ADDRESS.sub(" ", text) for text in texts]
    names = [
        (n, tuple(map(strip_inflection, fold_case(name).split())), name)
        for n, text in enumerate(texts)
        for line in text.splitlines()  # a name does not go on in the next line
        for name in _list_names(line)
        if not time_stems.issuperset(tokenize(name))
    ]
    common_words = ((n, word) for n, text in enumerate(texts) for word in _COMMON_WORD.findall(text))
    words = ((n, term, word) for n, word in common_words for term in tokenize(word))
    most = _MAX_SHARE * len(texts) if len(texts) >= _MIN_SHARED_POSTS else len(texts)
    rare = (one for one in _list_frequent(names) if one[2] <= most)
    named = [(" ".join(map(put_in_nominative, written.split())), count) for _, written, count in rare]
    common = [one for one in _list_frequent(words) if one[2] <= most and one[0] not in time_stems]
    subjects = sorted(common, key=lambda one: (-one[2] * weigh(str(one[0])), one[1]))
    nouns = [
        (next(iter(list_dictionary_forms(word)), word), count)
        for _, word, count in subjects[: 10 * _MAX_LISTED]
        if word.isascii() or (is_dictionary_word(word) and read_word(word)[0].part == "NOUN")
    ]
    return tuple(named[:_MAX_LISTED]), tuple(nouns[:_MAX_LISTED])


def _list_names(line: str) -> Iterator[str]:
    """List the names in a line; one capital letter at the beginning of a sentence makes no name."""
    for match in NAME_PATTERN.finditer(line):
        parts = match[0].split()
        within = _WITHIN_SENTENCE.search(line[max(0, match.start() - _START_LENGTH) : match.start()]) is not None
        if not tokenize(parts[0]):  # "In Riga": a name begins with no function word
            parts, within = parts[1:], True
        if len(parts) > 1 or (parts and len(parts[0]) > 1 and within):
            yield " ".join(parts)


def _list_frequent(found: Iterable[tuple[int, Hashable, str]]) -> list[tuple[Hashable, str, int]]:
    """List keys, such as stems, with their most frequent form and their number of posts, the most frequent first."""
    numbers: defaultdict[Hashable, set[int]] = defaultdict(set)
    forms: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
    for n, key, written in found:
        numbers[key].add(n)
        forms[key][written] += 1
    counts = ((key, forms[key], len(posts)) for key, posts in numbers.items() if len(posts) >= _MIN_COUNT)
    frequent = [(key, min(of, key=lambda form: (-of[form], form)), count) for key, of, count in counts]
    return sorted(frequent, key=lambda one: (-one[2], one[1]))


_MIN_PREFIX = 3  # characters


class Definition(IntEnum):
    """How a sentence says what a name stands for: not at all, in passing ("our cat X"), plainly ("X is a cat")."""

    NONE = 0
    IN_PASSING = 1
    PLAIN = 2


_HOLDER_ROLES = (
    r"(?:president|chair\w*|secretary|treasurer|director|manager|head|editor|owner|founder|captain|mate|warden|caretaker|"
    r"porter|teacher|coach|member|cat|dog|председател\w+|президент\w*|секретар\w+|казначе\w+|директор\w*|заведующ\w+|"
    r"редактор\w*|хозя[ий]\w+|основател\w+|сторож\w*|тренер\w*|учител\w+|художни\w+|пекар\w+|врач\w*|мастер\w*|кот\w*|"
    r"кошк\w+|собак\w+|п[её]с\w*)"
)
_GAP = r"[\s:,\"«“„(—–-]{1,3}"
_WINDOW = 40  # characters before and after a name that tell what it is
_PLAIN_AFTER = re.compile(r"\s+(?:is|was|are|were)\s(?:an?|the|our|your)\s|(?:\s[—–-])?\s+это\s", re.IGNORECASE)
_PLAIN_BEFORE = re.compile(rf"(?<!\w)(?:meet|this is|знакомьтесь|встречайте|представляем){_GAP}\Z", re.IGNORECASE)
_PASSING_AFTER = re.compile(
    r"\s?\(|\s+[—–-]\s|\s+(?:is|was|are|were)\s(?:(?-i:[A-ZА-ЯЁ])|no longer\s|not\s)|\s+(?:зовут|теперь|больше не)\s|"
    r",\s(?:an?|the|our|my|who|whose|which|наш\w*|котор\w+|для всех|[а-яё]{2,20}(?:ый|ая|ое|ий|ой)\s)|"
    rf"(?:['’]s)?,?\s(?:\w{{1,20}}\s){{0,2}}{_HOLDER_ROLES}(?!\w)",
    re.IGNORECASE,
)
_PASSING_BEFORE = re.compile(
    rf"(?<!\w)(?:(?:зовут|называ\w+|назвали|назвать|прозва\w+|кличк\w|по имени|для всех|called?|calls|named?|known as|"
    rf"name is){_GAP}(?:\w{{1,20}}{_GAP}){{0,2}}|это{_GAP}|"
    rf"{_HOLDER_ROLES}(?: (?:is|was|it['’]s))?{_GAP}(?:\w{{1,20}} )?)\Z|"
    r"\w\s[—–]\s\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?<!\w)(?:не|not)\W{1,3}\Z", re.IGNORECASE)


@lru_cache(maxsize=64)
def compile_name(name: str) -> re.Pattern[str]:
    """Compile a pattern of a name in all its forms, a surname and quotes about it included."""
    forms = []
    for word in fold_case(name).split():
        kept, ending = word, ""
        if not word.isascii():  # of a Russian word what it shares with its stem, and an ending
            pairs = takewhile(lambda pair: pair[0] == pair[1], zip(word, stem(word), strict=False))
            shared = sum(1 for _ in pairs)
            kept, ending = (word[:shared] if shared >= _MIN_PREFIX else word), r"\w{0,4}"
        forms.append(re.escape(kept) + ending)
    joined = r"\W{1,3}".join(forms)
    return re.compile(rf"(?<!\w)[«\"“„]?{joined}(?: (?-i:[A-ZА-ЯЁ])\w{{1,30}})?[»\"”]?(?!\w)", re.IGNORECASE)


def read_definition(sentence: str, name: str) -> Definition:
    """Read how a sentence says what a name stands for, from the few characters before and after it."""
    best = Definition.NONE
    for found in compile_name(name).finditer(sentence):
        before, after = sentence[max(0, found.start() - _WINDOW) : found.start()], sentence[found.end() :][:_WINDOW]
        if _DENIED.search(before):
            continue
        if _PLAIN_AFTER.match(after) or _PLAIN_BEFORE.search(before):
            return Definition.PLAIN
        if _PASSING_AFTER.match(after) or _PASSING_BEFORE.search(before):
            best = Definition.IN_PASSING
    return best


def is_written_as_name(sentence: str, name: str) -> bool:
    """Whether a sentence writes a name as one: in quotes, or with a capital letter that does not begin the sentence."""
    return any(
        found[0][0] in '«"“„' or (found[0][0].isupper() and sentence[: found.start()].rstrip()[-1:].isalnum())
        for found in compile_name(name).finditer(sentence)
    )


_MAX_NAMING_POSTS = 500  # the newest that have all words of the name, and the first
_MAX_DEFINITIONS = 3
_SHORT = 45  # characters of a sentence that says little without the next: "Meet Zinaida."


# What was said of a name before may hold no longer.
_CHANGED = re.compile(
    r"(?<!\w)(?:no longer|any more|former|ex-|steps? down|stepped down|retire[sd]?|has left|hands over|"
    r"handed over|takes over|took over|больше не|уже не|бывш\w+|уш[её]л|ушла|уходит)(?!\w)",
    re.IGNORECASE,
)


class _DefinitionLine(NamedTuple):
    """Sentence of a post about a name, and how it says what that is; `changed`: it speaks of a change."""

    post: Post
    span: TextSpan
    defines: Definition
    changed: bool


async def define_name(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Say who or what a name stands for: by the posts that define it, else by the first that has it.

    None: no post writes it as a name, so that the question is searched like any other.
    """
    name = intents.find_defined_name(question.text)
    terms = tuple(dict.fromkeys(tokenize(name or "")))
    if name is None or not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in (*places[:1], *places[-_MAX_NAMING_POSTS:])))
    stored = await visible_posts.fetch_posts(rag.archive, keys)
    own = (post for post in stored.values() if post.origin is None and not find_poll(post))
    lines, sure = await asyncio.to_thread(_choose_lines, name, sorted(own, key=lambda post: post.date))
    quotes = tuple(quote_span(line.post, line.span) for line in lines)
    return Draft(quotes, 1.0, certainty=Certainty.SURE if sure else Certainty.PROBABLE) if quotes else None


def _choose_lines(name: str, found: Sequence[Post]) -> tuple[list[_DefinitionLine], bool]:
    """Choose the lines that say it, and tell whether they are sure; `found`: oldest first."""
    as_name, lines, written = compile_name(name), dict[str, _DefinitionLine](), False
    for post in found:
        pieces = split_into_pieces(post.text)
        for n, (start, end) in enumerate(pieces):
            sentence = post.text[start:end]
            if as_name.search(sentence):
                written = written or is_written_as_name(sentence, name)
                following = pieces[n + 1][1] if n + 1 < len(pieces) else end
                short = end - start < _SHORT and following - start <= MAX_SENTENCE_LENGTH
                span = (start, following if short else end)
                line = _DefinitionLine(post, span, read_definition(sentence, name), bool(_CHANGED.search(sentence)))
                lines.setdefault(build_text_key(sentence), line)
    if not written:
        return [], False
    defining = [line for line in lines.values() if line.defines]
    plain = [line for line in defining if line.defines is Definition.PLAIN]
    changed = [line for line in lines.values() if line.changed]
    first = changed[-1:] or plain[:1] or defining[:1] or list(lines.values())[:1]
    chosen = dict.fromkeys([*first, *(plain[:1] if changed else ()), *reversed(defining[-2:])])
    return list(chosen)[:_MAX_DEFINITIONS], bool(plain) and not changed


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

    A draft without sentences: no post says it. None: there are too many channels, it is searched like any other.
    """
    likely = intents.estimate_requests(question.text)
    readable = sorted((plan.channels or question.viewer.channels) & question.viewer.channels)
    if not 0 < len(readable) <= _MAX_CHANNELS:
        return None
    lines, described_itself = list[_Line](), False
    for chat in readable:
        first = await list_first_posts(rag.archive, chat, _FIRST_POSTS)
        if likely[Request.ABOUT] > likely[Request.OWNER]:
            found, described_itself = _find_introduction(first)
        else:
            latest = await list_posts_between(rag.archive, {chat}, TELEGRAM_START, question.asked_at, _MAX_OWNER_POSTS)
            found = await asyncio.to_thread(_find_owners, first, latest)
        lines += found if len(readable) == 1 else found[:1]
    quotes = [quote_span(line.post, line.span) for line in lines[:_MAX_LINES]]
    if len(readable) > 1:  # "I am Marta, I bake" says not where
        known = await load_channels(rag.archive)
        quotes = [replace(one, text=f"{known[one.citations[0].post.chat_id].title}: {one.text}") for one in quotes]
    sure = len(readable) == 1 and described_itself
    return Draft(tuple(quotes), 1.0 if quotes else 0.0, certainty=Certainty.SURE if sure else Certainty.PROBABLE)


async def is_introduced(text: str, viewer: Viewer, archive: Archive) -> bool:
    """Whether a text asks what this channel is about and a first post of a channel that the viewer reads says it."""
    asks = len(text) <= intents.MAX_CHANNEL_QUESTION and intents.classify_request(text) is Request.ABOUT
    if not asks or not intents.means_this_channel(fold_case(text)) or len(viewer.channels) > _MAX_CHANNELS:
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
            # a name is more than the capital letter of the first word, but in "Bea here"
            named = any(name.start() or " " in name[0] for name in NAME_PATTERN.finditer(sentence))
            if (role or speaks) and (named or _NAME_HERE.match(sentence)):
                lines.append(_Line(post, span, takes_over=bool(role and _TAKES_OVER.search(sentence))))
    lines.sort(key=lambda line: line.post.date)
    new = [line for line in lines if line.takes_over][-1:]
    early = [line for line in lines if line.post.key in openings]
    return list(dict.fromkeys([*new, *early]))[:_LINES_OF_ONE] or lines[-1:]
