"""Names that posts give to a thing: "the bakery. It is called Ember"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rag_core.text.morphology import is_noun
from rag_core.text.tokens import tokenize

_LETTERS = re.compile(r"[^\W\d_]+")
_QUOTED = r"[«„“\"]{1,2}(?P<quoted>[^«»„“”\"\n]{2,40})[»“”\"]"
_NAME = rf"(?:{_QUOTED}|(?P<plain>[A-ZА-ЯЁ][\w’-]+(?: [A-ZА-ЯЁ][\w’-]+){{0,2}}))"
_OUR = r"(?:our|the|a|an|наш|наша|наше|наши|это)"
_APPOSITION = re.compile(rf"(?<![\w-])(?P<common>[\w-]{{3,30}}) {_QUOTED}")  # the boat "Otter"
# A bakery opens on Saturday. It is called Ember: the common noun stands before.
_CALLED = re.compile(rf"(?<!\w)(?:[Нн]азывается|[Нн]азвали|зовут|звать|called|named|nicknamed):? {_NAME}")
_OURS = re.compile(rf"(?<!\w){_NAME}(?:,| is| are| —) {_OUR} (?P<common>[\w -]{{3,40}})")  # Ember, our bakery
# What a text must hold for each of the three to match: most texts hold none of it, and looking takes a tenth of the time.
_OPENING_QUOTES, _NAMING_WORDS = '«„“"', ("азывается", "азвали", "зовут", "звать", "called", "named")
_OURS_AHEAD = re.compile(rf"(?:,| is| are| —) {_OUR} ")
_MAX_DISTANCE = 120  # characters between a common noun and the verb of naming after it
_MAX_NAME_TERMS = 3
_MAX_NAMING_TEXT = 1500  # characters of a post that are read
# Words after which no more of a noun phrase comes.
_PHRASE_END = re.compile(r"\b(?:that|which|who|you|we|with|of|in|on|at|for|from|and|to|is|was|has|since)\b")
_TIME_WORDS = (
    "год день дня неделя месяц час утро вечер ночь весна лето осень зима январь февраль март апрель май июнь июль "
    "август сентябрь октябрь ноябрь декабрь понедельник вторник среда четверг пятница суббота воскресенье year day "
    "week month time monday tuesday wednesday thursday friday saturday sunday раз once name word слово имя"
)


@cache
def list_time_stems() -> frozenset[str]:
    """List the stems of words of time, which name nothing: not at import, as Russian ones need the dictionary."""
    return frozenset(tokenize(_TIME_WORDS))


def list_written_namings(text: str) -> Iterator[tuple[str, str]]:
    """List the namings of a text as they are written: a common noun, and the name that it is given."""
    for match, common, name in _match_namings(text[:_MAX_NAMING_TEXT]):
        phrase = match.string[max(0, match.start() - _MAX_DISTANCE) : match.end()].lower()
        word = next((word for word in _LETTERS.findall(phrase) if common in tokenize(word)), "")
        if word and name:
            yield word, " ".join((match.groupdict()["quoted"] or match.groupdict().get("plain") or "").split())


def _match_namings(text: str) -> Iterator[tuple[re.Match[str], str, frozenset[str]]]:
    """Match the namings of a text: the match, the term of a common noun, and the terms of a name."""
    likely = (
        (_APPOSITION, any(mark in text for mark in _OPENING_QUOTES)),
        (_CALLED, any(word in text for word in _NAMING_WORDS)),
        (_OURS, bool(_OURS_AHEAD.search(text))),
    )
    for pattern in (pattern for pattern, may_match in likely if may_match):
        for match in pattern.finditer(text):
            groups = match.groupdict()
            name = frozenset(tokenize(groups["quoted"] or groups.get("plain") or ""))
            before = text[max(0, match.start() - _MAX_DISTANCE) : match.start()]
            common = _find_head_noun(groups.get("common") or before, last=pattern is not _OURS)
            if common and 0 < len(name) <= _MAX_NAME_TERMS and common not in name:
                yield match, common, name


def _find_head_noun(phrase: str, *, last: bool) -> str:
    """Term of the head of a noun phrase; empty where it has none. An English phrase ends with its head."""
    words = [
        word.lower().replace("ё", "е") for word in _LETTERS.findall(phrase if last else _PHRASE_END.split(phrase)[0])
    ]
    nouns = [word for word in words if word.isascii() or is_noun(word)]
    terms = [term for word in nouns for term in tokenize(word) if term not in list_time_stems()]
    return "" if not terms else terms[-1] if last or nouns[0].isascii() else terms[0]
