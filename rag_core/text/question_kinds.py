"""Questions about a channel ("who runs it") and about a name ("кто такая Зинаида"), and how posts answer them."""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from rag_core.text.numbers import compile_pattern
from rag_core.text.tokens import fold_case, stem, tokenize


class ChannelAspect(StrEnum):
    """What is asked of a channel."""

    ABOUT = "about"
    OWNER = "owner"


class ChannelQuestion(NamedTuple):
    """Question for an aspect of a channel; `name`: the words that are left, "" for this channel or all."""

    aspect: ChannelAspect
    name: str


_CHANNEL = r"(?:тг[- ]?)?канал\w*|паблик\w*|чат\w*|групп\w*|страниц\w*|channels?|page|group|chat|feed|account"
_HERE = r"админ\w*|admins?|тут|здесь|у вас|у нас|вас|это все|всё это|все это|этим всем|этой|этот|это|вот это|here|this|these|all this|this stuff|you guys|you lot|your"
_ROLE_RU = r"админ\w*|владел\w+|хозя[ий]\w+|автор\w*|редактор\w*|главн\w+|начальник\w*|основател\w*|модер\w*|ответственн\w+|создател\w*|руководител\w*"
_RUNS_RU = r"вед[её]т|ведут|пишет|пишут|постит|постят|созда(?:л|ла|ли|вал)|держит|админит|администрирует|основал\w?|завел\w?|придумал\w?|(?:за (?:\w+ )?(?:всем|этим)(?: всем)? )?стоит|рулит|заправляет|управляет|отвечает"
_ROLE_EN = r"admins?|administrators?|owners?|authors?|editors?|founders?|boss|mods?|moderators?|person|people|guy|one|in charge|responsible"
_RUNS_EN = r"runs?|running|posting|owns?|writes?|writing|posts|admins?|behind|in charge|started|made|created|moderates?|edits?|manages?|managing|set up|operates?|maintains?"
_ASKED = {
    ChannelAspect.OWNER: re.compile(
        rf"(?<!\w)(?:(?:кто|хто)(?: [\w-]+){{0,4}}? (?:{_ROLE_RU}|{_RUNS_RU})|чей (?:это )?(?:{_CHANNEL})|чьи (?:это )?(?:посты|записи)|кому принадлежит|"
        rf"(?:как зовут|имя|фамилия|назови) (?:{_ROLE_RU})|(?:{_ROLE_RU}) (?:{_CHANNEL}|кто)|(?:{_CHANNEL})(?: [\w-]+){{0,3}} (?:{_RUNS_RU})|"
        rf"who(?:['’]?s| is| are)?(?: [\w-]+){{0,3}}? (?:{_RUNS_EN}|(?:the )?(?:{_ROLE_EN}))|whose (?:{_CHANNEL})|(?:name of )?(?:the )?(?:{_ROLE_EN}) (?:of|running|behind)|name of the (?:{_CHANNEL}) (?:{_ROLE_EN})|whoever(?:['’]?s| is)? (?:{_RUNS_EN})|"
        rf"(?:is|are) (?:\w+ ){{0,3}}?(?:run|written|managed) by)(?!\w)"
    ),
    ChannelAspect.ABOUT: re.compile(
        rf"(?<!\w)(?:(?:о|про) (?:чем|что|чо|че)|тематик\w|(?:какая|какие|на какую) (?:\w+ )?тем[аыу]|чем (?:\w+ ){{0,3}}?занимается|как(?:ого|ой) (?:типа |рода )?контент|контент|направленност\w|чему посвящ\w+|описание|что (?:тут|здесь|там) (?:\w+ )?(?:публику\w+|постят|пишут)|"
        rf"(?:что|че|чо|чё) (?:это )?за (?:{_CHANNEL})|(?:опиши|описание|расскажи\w{{0,2}} (?:про|о|об)) (?:{_CHANNEL})|"
        rf"(?:зачем|для чего) (?:нужен )?(?:{_CHANNEL})|стоит ли подпис\w+|"
        rf"what(?:['’]?s| is| are| was)?(?: [\w'’\"-]+){{1,7}}? about|what (?:do|does) (?:they|it|you|you guys|he|she) (?:\w+ )?(?:write|post|talk|cover)(?: about)?|(?:tell me about|describe) (?:\w+ ){{0,4}}?(?:{_CHANNEL})|describe|"
        rf"purpose of|what is this (?:channel|page|chat|group) for|what (?:topics|subjects)|topics|(?:theme|focus|subject) of|subject matter|intro(?:duction)? to|what(?:['’]?s| is) (?:it|this) for|(?:tell me )?what (?:[\w'’-]+ ){{1,4}}?covers|what (?:can|would|do|will) i (?:expect|be reading|find)|"
        rf"(?:what )?(?:kind|kinda|sort|type) of (?:stuff|things|posts|channel|content)|what kinda (?:{_CHANNEL})|what do (?:u|you|ya) (?:guys )?post|worth (?:following|joining|subscribing)|subject of)(?!\w)"
    ),
}
_OF_THIS = rf"(?<!\w)(?:{_HERE}|{_CHANNEL})(?!\w)"
# Words beside them that name no channel.
_FILLERS = (
    rf"(?<!\w)(?:{_CHANNEL}|{_HERE}|{_ROLE_RU}|{_RUNS_RU}|{_ROLE_EN}|{_RUNS_EN}|[a-z]|а|и|ну|же|то|ли|вот|ваш\w*|теб[яе]|твой|твоя|твои|have|has|got|writing|кем|или|в|во|на|у|о|об|про|за|с|для|из|кто|хто|что|че|чо|чё|чем|чего|чей|чьи|кого|кому|как|какой|какая|какие|зачем|стоит|подпис\w+|"
    r"нужен|принадлежит|имя|имени|зовут|фамилия|назови|вообще|сейчас|обычно|там|они|он|его|ее|их|него|нем|ней|мне|я|только|подскажи\w*|скажи\w*|пожалуйста|плиз|расскажи\w*|опиши|описание|публику\w+|посты|"
    r"тематик\w|тем[аыу]|двух|двумя|словах|словами|коротко|кратко|интересно|слушай\w*|привет|здравствуйте|добрый|день|вечер|человек|один|редакция|команда|люди|ребят\w*|самый|реально|есть|говорить|связаться|жаловаться|сообщество|"
    r"what|whats|which|who|whos|whose|how|is|are|was|were|do|does|did|the|a|an|of|in|on|at|for|to|by|with|it|its|it's|they|them|that|there|about|even|all|tell|me|describe|write|writes|post|posts|talk|cover|covers|"
    r"kind|kinda|sort|type|content|theme|focus|matter|intro|introduction|quick|give|expect|find|reading|be|will|generally|subjects?|deal|deals|each|u|ya|guys|bruh|lol|mean|stuff|things|topics?|subject|purpose|worth|following|joining|subscribing|usually|mostly|really|actually|exactly|please|pls|could|can|would|you|may|i|ask|know|want|one|sentence|words|short|so|hey|hi|hello|good|morning|"
    r"now|and|or|name|team|guy|run|written|managed|complain|any|anyone|someone|tho|then|this|just|joined|like)(?!\w)"
)
_MAX_LENGTH = 140  # characters


def detect_channel_question(asked: str) -> ChannelQuestion | None:
    """Detect a question for what a channel is about or who runs it; `asked` is in lower case, without ё.

    Whoever names no channel says "here" or "the channel"; "who writes" alone asks of something else.
    """
    if len(asked) > _MAX_LENGTH:
        return None
    aspect = next((aspect for aspect, pattern in _ASKED.items() if pattern.search(asked)), None)
    if aspect is None:
        return None
    name = " ".join(re.sub(r"[^\w\s-]", " ", compile_pattern(_FILLERS).sub(" ", asked)).split())
    if not name and not compile_pattern(_OF_THIS).search(asked):
        return None
    return ChannelQuestion(aspect, name)


def asks_of_this_channel(asked: str) -> bool:
    """Whether a question asks who runs this channel or what it is about, without a name."""
    found = detect_channel_question(asked)
    return found is not None and not tokenize(found.name)


_NAME = r"(?P<{}>[\w&-]{{2,40}}(?: [\w&-]{{2,40}}){{0,2}}?)"
_OPENING = r"(?:(?:а|и|ну|слушай|подскажите?|скажите?|so|and|hey|hi|sorry|ok|remind me),? )*+"
_CLOSING = (
    r"(?: (?:вообще|у вас|у нас|тут|здесь|там|такой|такая|такое|такие|это|собственно|please|pls|again|exactly|anyway|"
    r"even|then|now|really|actually|to you|here))*"
)
_DEFINITION = re.compile(
    rf"{_OPENING}(?:(?:who|what)(?:['’]?s| is| are| was| were)(?: an?| this)? (?P<the>the )?{_NAME.format('en')}|"
    rf"(?:кто|что) (?:вообще )?(?:так(?:ой|ая|ие|ое)|эт[оа]|за) {_NAME.format('ru')}|"
    rf"{_NAME.format('before')}(?: [-—–])? (?:эт[оа]? )?(?:у вас |там )?(?:кто|что|who)"
    rf"(?: (?:эт[оа]|так(?:ой|ая|ие|ое)|are they|is (?:it|he|she|that)))?){_CLOSING}\W*",
    re.IGNORECASE,
)
_NO_NAME = frozenset(
    "he she it they this that there these those you your my our his her its the new next last up on going about он она "
    "оно они это этот эта эти тот та те там тут ты вы кто что".split()
)
_MAX_DEFINITION_LENGTH, _MIN_PREFIX = 100, 3  # characters


def find_defined_name(question: str) -> str | None:
    """Find what may be the name in a question for who or what it is; None for another question."""
    asked = _DEFINITION.fullmatch(question.strip()[:_MAX_DEFINITION_LENGTH])
    if asked is None:
        return None
    name = asked["en"] or asked["ru"] or asked["before"]
    common = asked["the"] and not name[0].isupper()  # "who is the treasurer"
    return None if common or _NO_NAME.intersection(fold_case(name).split()) else name


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
