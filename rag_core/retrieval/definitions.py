"""What posts say that a name stands for: "our cat X", "X is a cat"."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache, lru_cache
from itertools import takewhile

from rag_core.text.tokens import fold_case, stem, tokenize

_MIN_PREFIX = 3  # characters


class Definition(IntEnum):
    """How a sentence says what a name stands for: not at all, in passing ("our cat X"), plainly ("X is a cat")."""

    NONE = 0
    IN_PASSING = 1
    PLAIN = 2


_ROLES = (
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
    rf"(?:['’]s)?,?\s(?:\w{{1,20}}\s){{0,2}}{_ROLES}(?!\w)",
    re.IGNORECASE,
)
_PASSING_BEFORE = re.compile(
    rf"(?<!\w)(?:(?:зовут|называ\w+|назвали|назвать|прозва\w+|кличк\w|по имени|для всех|called?|calls|named?|known as|"
    rf"name is){_GAP}(?:\w{{1,20}}{_GAP}){{0,2}}|это{_GAP}|{_ROLES}(?: (?:is|was|it['’]s))?{_GAP}(?:\w{{1,20}} )?)\Z|"
    r"\w\s[—–]\s\Z",
    re.IGNORECASE,
)
_DENIED = re.compile(r"(?<!\w)(?:не|not)\W{1,3}\Z", re.IGNORECASE)


@lru_cache(maxsize=64)
def compile_name(name: str) -> re.Pattern[str]:
    """Compile a pattern of a name in all its forms, a surname and quotes about it included."""
    words = fold_case(name).split()
    forms = r"\W{1,3}".join(re.escape(word) if word.isascii() else _match_russian_forms(word) for word in words)
    return re.compile(rf"(?<!\w)[«\"“„]?{forms}(?: (?-i:[A-ZА-ЯЁ])\w{{1,30}})?[»\"”]?(?!\w)", re.IGNORECASE)


def _match_russian_forms(word: str) -> str:
    """Pattern of the forms of a Russian word: what it shares with its stem, and an ending."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem(word), strict=False)))
    kept = word[:shared] if shared >= _MIN_PREFIX else word
    return rf"{re.escape(kept)}\w{{0,4}}"


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
    for found in compile_name(name).finditer(sentence):
        if found[0][0] in '«"“„' or (found[0][0].isupper() and sentence[: found.start()].rstrip()[-1:].isalnum()):
            return True
    return False


_TIME_WORDS = (
    "год день дня неделя месяц час утро вечер ночь весна лето осень зима январь февраль март апрель май июнь июль "
    "август сентябрь октябрь ноябрь декабрь понедельник вторник среда четверг пятница суббота воскресенье year day "
    "week month time monday tuesday wednesday thursday friday saturday sunday раз once name word слово имя"
)


@cache
def list_time_stems() -> frozenset[str]:
    """List the stems of words of time, which name nothing: not at import, as Russian ones need the dictionary."""
    return frozenset(tokenize(_TIME_WORDS))
