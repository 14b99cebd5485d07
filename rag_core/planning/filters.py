"""Metadata filters of a search, parsed from a question: channels, authors, forward origins, media kinds, file names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rag_core.storage.channels import find_channel
from rag_core.text.numbers import compile_pattern
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Channel


@dataclass(frozen=True, slots=True)
class QueryFilters:
    """Metadata filters found in a question; `channels` is None where none is named.

    `words` are the pieces of the question that became filters, in lower case; `beside` those of them that name
    metadata of a post: its author, origin, media kind or file.
    """

    channels: frozenset[int] | None = None
    authors: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


_ACCORDING_TO = r"(?:по данным|согласно|как (?:пишет|сообщает)|according to)"
_PLACE_PREPOSITION = rf"(?:в|на|из|у|in|on|from|by|{_ACCORDING_TO})\s+(?:the\s+)?"
_CHANNEL_HANDLE = re.compile(
    rf"(?<![\w/.@])(?:{_PLACE_PREPOSITION})?(?:(?:канал\w*|channel)\s+)?(?:@|(?:https?://)?t(?:elegram)?\.me/(?:s/)?)"
    r"(?:c/(?P<bare>\d{5,15})|(?P<name>[a-z]\w{3,31}))(?:/\d+)?",
    re.I,
)
_IN_CHANNEL = re.compile(
    rf"(?<!\w)(?:(?:{_PLACE_PREPOSITION})?канал\w{{0,3}}\s+(?P<ru>[«\"“][^»\"”]{{1,100}}[»\"”]|[\w-]+)|{_PLACE_PREPOSITION}(?:"
    r"(?P<en>[«\"“][^»\"”]{1,100}[»\"”]|[\w-]+)\s+channel|channel\s+(?P<en2>[«\"“][^»\"”]{1,100}[»\"”]|[\w-]+)))",
    re.I,
)
# "latest post from owl hill", "новости из Заслонки": words of a title after the noun of what a channel publishes.
_PUBLISHED_BY = re.compile(
    r"\b(?:posts?|messages?|news|updates?|digest|summary|recap|happening|new|пост(?:ы|а|ов)?|новост[а-я]{1,2}|дайджест|пересказ|обзор|"
    r"сводка|нового|слышно|пишут|писали|постят|постили)\s+"
    r"(?P<words>(?:(?P<place>in|at|в|на)\s+|(?:from|of|by|with|из|от|с|у)\s+)?(?:the\s+)?(?P<name>(?!(?:про|обо?|по|about|on)\b)[\w-]+(?:\s+[\w-]+){0,3}))",
    re.I,
)
# Many channels have the name of their town: "in New York" is no channel, "in “New York”", "according to New York" are.
_BEFORE_TITLE = re.compile(rf"(?<!\w)(?:{_PLACE_PREPOSITION}(?P<quote>[«\"“„])|{_ACCORDING_TO}\s+(?:the\s+)?)$", re.I)
_MAX_PREPOSITION_LENGTH = 30  # characters of the words before a title
# A name is text in quotes, a @username or capitalized words; else one word.
_CAPITALIZED_WORDS = r"[A-ZА-Я][\w’'-]*(?:\s+[A-ZА-Я\d][\w’'-]*){0,3}"
_WRITTEN_NAME = rf"[«\"“„]([^»\"”“]{{1,60}})[»\"”]|(@[A-Za-z]\w{{2,31}})|({_CAPITALIZED_WORDS})"
_ANY_NAME = rf"(?:{_WRITTEN_NAME}|([^\W\d_][\w’'-]{{2,}}))"
_POST_WORDS = (
    r"(?:пост(?:ы|а|у|е|ов|ом|ам|ами|ах)?|(?:сообщени|публикаци)[а-я]{1,2}|запис(?:ь|и|ей|ью|ям|ях)|posts?|messages?)"
)
_NOT_A_DATE_WORD = r"(?!(?i:mon|tues|wednes|thurs|fri|satur|sun)day|January|February|March|April|May|June|July|August|September|October|November|December)"
# Of each kind of filter what every pattern of it needs, and the patterns: most questions need none of them compiled.
_AUTHORS = (
    re.compile(r"автор|подпис|author|\bby\b", re.I),
    rf"\b(?i:{_POST_WORDS}\s+(?:автора|от автора|за подписью|с подписью|подписанн\w+))\s*:?\s+{_ANY_NAME}",
    rf"\b(?i:{_POST_WORDS}\s+(?:signed by|(?:written |posted |sent )?by (?:the )?author))\s*:?\s+{_ANY_NAME}",
    rf"\b(?i:{_POST_WORDS}\s+(?:written |posted |sent )?by)\s+{_NOT_A_DATE_WORD}(?:{_WRITTEN_NAME})",
    rf"\b(?i:автор|author)\s*:\s*{_ANY_NAME}",
)
_FROM_RU, _FROM_EN = r"(?:из|от|с)\s+(?:канала\s+)?", r"from\s+(?:the\s+)?(?:channel\s+)?"
_ORIGINS = (
    re.compile(r"пересл|репост|форвард|forward|repost", re.I),
    rf"\b(?i:переслано\s+{_FROM_RU}){_ANY_NAME}",
    rf"\b(?i:(?:пересланн\w+\s+{_POST_WORDS}|{_POST_WORDS},?\s+пересланн\w+|(?:репост|форвард)(?:ы|а|ов|е|ах)?)\s+{_FROM_RU}){_ANY_NAME}",
    rf"\b(?i:(?:forwards|reposts|(?:forwarded|reposted)\s+{_POST_WORDS})\s+{_FROM_EN}){_ANY_NAME}",
    rf"\b(?i:(?:{_POST_WORDS}|^what)\s+(?:(?:that\s+)?(?:was|were|is|are|has been|have been)\s+)?(?:forwarded|reposted)\s+{_FROM_EN}){_ANY_NAME}",
)
_DOCUMENTS = "pdf|docx?|xlsx?|pptx?|odt|ods|rtf|csv|epub|fb2|djvu|zip|rar|7z|apk"
_FILE = r"[\w()+][\w().+-]*"
_FILES = (
    re.compile(r"\.\w"),
    r"\b(?i:(?:файл|документ|вложени)[а-я]{0,3}|files?|documents?|attachments?)(?i:\s+(?:под названием|с названием|named|called))?\s+"
    rf"(?:[«\"“„]([^»\"”“/\\]{{1,80}}\.[A-Za-z\d]{{2,5}})[»\"”]|({_FILE}\.(?=\w*[A-Za-z])[A-Za-z\d]{{2,5}})(?!\w))",
    rf"(?<![\w./@:-])({_FILE}\.(?i:{_DOCUMENTS}))(?!\w)",
)
_SHOW_PREFIX = r"^\W*(?:покажи|найди|show|find)(?:\s+(?:мне|все|me|all|the|a|any))*"
_WITH_WORDS = r"(?:,?\s+(?:с|со|где есть|with|containing)(?:\s+(?:an?|any|some))?)"
_MEDIA_WORDS = {
    "photo": r"(?:фото|фотографи\w{1,3}|картинк\w{1,3}|photos?|pictures?|images?)",
    "video": r"(?:видео|видеозапис\w{1,3}|видеоролик\w{0,3}|videos?)",
    "document": r"(?:документ[а-я]{0,3}|файл[а-я]{0,3}|вложени[а-я]{1,3}|pdf|documents?|files?|attachments?)",
    "poll": r"(?:опрос[а-я]{0,3}|голосовани[а-я]{1,3}|polls?)",
}
# By kind, a word of it, which most questions do without, and the phrases in which it is one.
_MEDIA = {
    kind: (
        rf"(?i){what}",
        rf"(?i)\b{_POST_WORDS}{_WITH_WORDS}\s+{what}\b|{_SHOW_PREFIX}\s+{what}\b|\b{what}\s+posts?\b|\b{what}\s+posted\b|"
        rf"\b{_POST_WORDS}\b[^.?!]{{1,60}}?(?P<end>{_WITH_WORDS}\s+{what})\W*$",
    )
    for kind, what in _MEDIA_WORDS.items()
}
_MIN_TITLE_LENGTH = 4  # characters: a shorter title is not searched for


def parse_filters(asked: str, readable: Mapping[int, Channel]) -> QueryFilters:
    """Parse the filters in a question without ё; a channel that is not among the readable ones is no filter.

    Capital letters mark the end of a name of several words; in a lower-case question a name is one word.
    """
    origins, of_origins = _match_names(*_ORIGINS, asked=asked)
    rest = _blank_out(asked, of_origins)  # "forwarded from @x" is not "from @x"
    files, of_files = _match_names(*_FILES, asked=rest)
    authors, of_authors = _match_names(*_AUTHORS, asked=rest)
    channels, of_channels = _find_channels(rest, readable)
    kinds = {
        kind: (match["end"] or match[0]).strip(" ,").lower()
        for kind, (word, phrases) in _MEDIA.items()
        if compile_pattern(word).search(rest) and (match := compile_pattern(phrases).search(rest))
    }
    beside = tuple(dict.fromkeys((*of_origins, *of_files, *of_authors, *kinds.values())))
    return QueryFilters(channels, authors, origins, tuple(kinds), files, (*of_channels, *beside), beside)


def _match_names(needed: re.Pattern[str], *patterns: str, asked: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # each once: a question of 4,000 characters may repeat a piece 300 times
    names, pieces = dict[str, None](), dict[str, None]()
    for pattern in patterns if needed.search(asked) else ():
        for match in compile_pattern(pattern).finditer(_blank_out(asked, tuple(pieces))):
            names |= {name.strip(" .'’"): None for name in match.groups() if name}
            pieces[match[0].lower()] = None
    return tuple(names), tuple(pieces)


def _blank_out(asked: str, pieces: tuple[str, ...]) -> str:
    for piece in pieces:
        asked = re.sub(re.escape(piece), lambda match: " " * len(match[0]), asked, flags=re.I)
    return asked


def _find_channels(asked: str, readable: Mapping[int, Channel]) -> tuple[frozenset[int] | None, tuple[str, ...]]:
    chosen: dict[str, set[int]] = {}
    for match in _CHANNEL_HANDLE.finditer(asked):
        name, bare = (match["name"] or "").lower(), match["bare"] and int(f"-100{match['bare']}")
        chosen[match[0].lower()] = {
            key for key, c in readable.items() if (c.chat_id == bare if bare else (c.username or "").lower() == name)
        }
    for match in _IN_CHANNEL.finditer(asked):
        name = (match["ru"] or match["en"] or match["en2"] or "").strip('«»"“”')
        chosen[match[0].lower()] = match_channel_name(name.lower(), readable)
    for match in _PUBLISHED_BY.finditer(asked):
        words, pieces = match["name"].lower().split(), match["words"].lower()
        for length in range(len(words), 0, -1):
            name = " ".join(words[:length])
            keys = match_channel_name(name, readable)
            # "новости в Москве" is news of the town, "posts in habr_com" and "что пишут в Заслонке" are posts of a channel
            of_place = match["place"] and not match[0].lower().startswith(
                ("пишут", "писали", "постят", "постили", "post")
            )
            if keys and not (of_place and all((readable[key].username or "").lower() != name for key in keys)):
                chosen[pieces[: pieces.rindex(name) + len(name)]] = keys
                break
    low, titled = asked.lower(), defaultdict[str, set[int]](set)
    for key, channel in readable.items():  # the whole title after words that introduce a channel
        title = channel.title.lower().replace("ё", "е")
        at = low.find(title) if len(title) >= _MIN_TITLE_LENGTH else -1
        before = _BEFORE_TITLE.search(low, max(0, at - _MAX_PREPOSITION_LENGTH), at) if at > 0 else None
        end = at + len(title)
        if before and not low[end : end + 1].isalnum():
            titled[low[before.start() : end + bool(before["quote"])]].add(key)
    chosen |= titled
    ids = frozenset(key for keys in chosen.values() for key in keys)
    return ids or None, tuple(words for words, keys in chosen.items() if keys)


def match_channel_name(name: str, readable: Mapping[int, Channel]) -> set[int]:
    """Channels whose username is the name, or whose title contains its words."""
    exact = {key for key, c in readable.items() if (c.username or "").lower() == name}
    if exact or len(name) < _MIN_TITLE_LENGTH:
        return exact
    wanted = set(tokenize(name))
    return {key for key, c in readable.items() if wanted and wanted <= set(tokenize(c.title))}


def find_named_channel(name: str, readable: Mapping[int, Channel]) -> Channel | None:
    """Find the channel that a command names: as `find_channel`, else the only one whose title has all the words."""
    if exact := find_channel(name, readable):
        return exact
    named = match_channel_name(fold_case(name).strip(), readable)
    return readable[named.pop()] if len(named) == 1 else None
