"""Definition questions: who or what a name stands for: "кто такая Зинаида", "what is Tawny", and how posts say it."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from rag_core.text.tokens import fold_case, stem

_NAME = r"(?P<{}>[\w'’&-]{{2,40}}(?: [\w'’&-]{{2,40}}){{0,2}}?)"
_OPENING = r"(?:(?:а|и|ну|слушай|подскажите?|скажите?|so|and|hey|hi|sorry|ok|remind me),? )*+"
_CLOSING = r"(?: (?:вообще|у вас|у нас|тут|здесь|там|такой|такая|такое|такие|это|собственно|please|pls|again|exactly|anyway|even|then|now|really|actually|to you|here))*"
_ASKED = re.compile(
    rf"{_OPENING}(?:(?:who|what)(?:['’]?s| is| are| was| were)(?: an?| this)? (?P<the>the )?{_NAME.format('en')}|(?:кто|что) (?:вообще )?(?:так(?:ой|ая|ие|ое)|эт[оа]|за) {_NAME.format('ru')}|"
    rf"{_NAME.format('before')}(?: [-—–])? (?:эт[оа]? )?(?:у вас |там )?(?:кто|что|who)(?: (?:эт[оа]|так(?:ой|ая|ие|ое)|are they|is (?:it|he|she|that)))?){_CLOSING}\W*",
    re.IGNORECASE,
)
_NO_NAME = frozenset(
    "he she it they this that there he's these those you your my our his her its the new next last up on going about он она оно они это этот эта эти тот та те там тут ты вы кто что "
    "happening wrong open closed available included best better more".split()
)
_MAX_LENGTH, _MIN_PREFIX = 100, 3  # characters
_ROLES = (
    r"(?:president|chair\w*|secretary|treasurer|director|manager|head|editor|owner|founder|captain|mate|warden|caretaker|porter|teacher|coach|member|cat|dog|starter|"
    r"председател\w+|президент\w*|секретар\w+|казначе\w+|директор\w*|заведующ\w+|редактор\w*|хозя[ий]\w+|основател\w+|сторож\w*|тренер\w*|учител\w+|художни\w+|пекар\w+|врач\w*|мастер\w*|кот\w*|кошк\w+|собак\w+|п[её]с\w*|закваск\w+)"
)


def find_defined_name(question: str) -> str | None:
    """Find the name in a question for who or what it is; None for another question."""
    asked = _ASKED.fullmatch(question.strip()[:_MAX_LENGTH])
    if asked is None:
        return None
    name = asked["en"] or asked["ru"] or asked["before"]
    common = asked["the"] and not name[0].isupper()  # "who is the treasurer"
    return None if common or _NO_NAME.intersection(fold_case(name).split()) else name


class DefinitionPattern(NamedTuple):
    """Patterns of what a post says of a name: `plain` says what it is in so many words, `any` also in passing."""

    plain: re.Pattern[str]
    any: re.Pattern[str]


@lru_cache(maxsize=64)
def compile_definition(name: str) -> DefinitionPattern:
    """Compile patterns of a definition: "X is a", "X — это", "X, our", "X (…)"; in passing "called X", "our cat X"."""
    forms = r"\W{1,3}".join(map(_match_forms, fold_case(name).split()))
    named = rf"(?<!\w)[«\"“„]?{forms}(?: (?-i:[A-ZА-ЯЁ])[\w-]+)?[»\"”]?"
    plain = (
        rf"{named}(?:\s+[—–-]\s|\s?\(|\s+(?:is|was|are|were)\s(?:an?|the|our|your|(?-i:[A-Z]))|['’]s\s(?:an?|the|our)\s|"
        r"\s+это(?!\w)|,\s(?:an?|the|our|my|who|whose|наш\w*|котор\w+|мо[йя]\s|для всех))|"
        rf"(?<!\w)(?:это|this is|here is|here['’]s|meet|знакомьтесь|встречайте|представляем)(?:[\s:,—–-]+[\w-]+){{0,2}}?"
        rf"[\s:,—–-]+{named}|\w\s+[—–]\s+{named}"
    )
    in_passing = (
        rf"{named}(?:\s+(?:is|was|are|were|isn['’]t|зовут|теперь)\s|,\s(?:which|not|[а-яё]+(?:ый|ая|ое|ий|ой)\s))|"
        r"(?<!\w)(?:зовут|называ\w+|назвали|назвать|прозва\w+|кличк\w|по имени|для всех|called?|calls|named?|known as|name is|"
        rf"chosen)\W+(?!не |not )(?:[\w-]+\W+){{0,2}}?{named}|"
        rf"(?<!\w){_ROLES}(?:\s+(?:is|was|it['’]s))?[\s:,—–-]+(?:[\w-]+\s)?{named}|"
        rf"{named}(?:['’]s)?,?\s(?:[\w-]+\s){{0,2}}?{_ROLES}(?!\w)"
    )
    compiled = re.compile(plain, re.IGNORECASE)
    return DefinitionPattern(compiled, re.compile(f"{plain}|{in_passing}", re.IGNORECASE))


def _match_forms(word: str) -> str:
    """Pattern of the forms of a word: what it shares with its stem, and an ending."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem(word), strict=False)))
    kept = word[:shared] if shared >= _MIN_PREFIX else word
    return rf"{re.escape(kept)}[\w'’]{{0,4}}"
