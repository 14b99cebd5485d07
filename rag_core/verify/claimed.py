"""Whether a sentence claims something, and whether a part of it is a claim by itself. Pure."""

from __future__ import annotations

import re

from rag_core.verify.words import Word, words_of

__all__ = ["asked_of", "claims_something", "stands_alone"]

_LINKS = re.compile(r"(?:https?://|t\.me/|[@#])\S+|\b[\w-]+\.(?:ru|com|org|net|me|рф)(?:/\S*)?\b", re.I)
_ASKS = re.compile(
    r"^(?:кто|где|когда|почему|зачем|сколько|какой|какая|какие|правда ли|верно ли|who|what|where|why|how|is it true|does|do|did)\b.*\?"
    r"|\?[\s\"»”)!]*$",
    re.I | re.S,
)
_CHECKED = re.compile(r"^(?:правда(?: ли)?|верно ли|это правда|is it true),?\s*(?:что|that)?\s", re.I)
_GREETS = re.compile(
    r"^\W*(?:привет\w*|здравствуй\w*|добр\w+ (?:утро|день|вечер|дня|ночи)|доброго|друзья|коллеги|спасибо|благодар\w+|пожалуйста|пока|до свидания|ура|"
    r"hi|hello|hey|dear|good (?:morning|evening|afternoon|day)|thanks?(?: you)?|please|bye|goodbye|welcome|congratulations|поздравля\w+|подписывай\w+|"
    r"читайте|смотрите|жмите|переходите|subscribe|share|read more|click|join us|see also|подробнее|источник|фото|видео|photo|video|source)\b[^.]{0,60}[.!]?$",
    re.I,
)
_FINITE = re.compile(
    r"(?:[аяеиыоу]л(?:а|о|и|ся|ась|ось|ись)?|[аеиуюя]т(?:ся)?|[ёеи]шь|[еи]те|[её]м|им|ен[аоы]?|[ая]н[аоы]|ыт[аоы]?|ят[аоы]?)$"
)
_COPULA = frozenset(
    "есть нет был была было были будет будут стал стала стали стоит нельзя можно нужно надо должен должна должны может могут "
    "is are was were am be been has have had will would can could may might must shall should does do did cost costs".split()
)
_ENGLISH_VERB = re.compile(r"(?:ed|[a-z]{2}[^s\W]s)$")
_IRREGULAR = frozenset(
    "became began bought broke brought built came chose cut drew drove fell flew found fought gave got grew held hit kept knew led left lost made met "
    "paid put ran rose said sang saw sent set shot shut sold spent spoke stood swam taught thought told took went won wore wrote".split()
)
_LEAST = 3  # words of a part that stands alone


def claims_something(sentence: str) -> bool:
    """Whether this is said to be so: no question but "is it true that", no greeting, call, heading of links or hashtags."""
    plain = _LINKS.sub(" ", sentence).strip()
    if _ASKS.search(plain) and not _CHECKED.match(plain):
        return False
    words = words_of(plain)
    if _GREETS.match(plain) and not any(word.low.isdigit() for word in words):
        return False
    return len(words) >= 2 and any(word.stem and not word.stem.isdigit() for word in words)


def asked_of(sentence: str) -> int:
    """Where what is asked about begins in "is it true that ..."; 0 where nothing is asked so."""
    found = _CHECKED.match(sentence)
    return found.end() if found else 0


def stands_alone(part: str) -> bool:
    """Whether a part has a subject and a verb of its own."""
    words = words_of(part)
    if len(words) < _LEAST:
        return False
    verbs = [n for n, word in enumerate(words) if _is_verb(word)]
    return bool(verbs) and verbs[0] > 0 and any(_is_subject(word) for word in words[: verbs[0]])


def _is_verb(word: Word) -> bool:
    if word.low in _COPULA or word.low in _IRREGULAR:
        return True
    if word.capital and not word.opens:
        return False
    if word.low.isascii():
        return bool(_ENGLISH_VERB.search(word.low)) and len(word.low) > 3
    return bool(_FINITE.search(word.low)) and len(word.low) > 4


def _is_subject(word: Word) -> bool:
    pronouns = "он она оно они мы вы я это he she it they we i you this these those".split()
    return bool(word.stem) or word.low in pronouns
