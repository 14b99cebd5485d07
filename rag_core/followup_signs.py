"""By what a follow-up is known, in Russian and English: how it begins, its pronouns, what its subject may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from rag_core.analysis import STOP_WORDS, terms
from rag_core.asked import is_asking
from rag_core.names import names
from rag_core.when import period

__all__ = [
    "ASKS",
    "LEAD",
    "OCCURRENCE",
    "PREPOSITION",
    "Named",
    "Pronoun",
    "content",
    "folded",
    "named",
    "pronoun_in",
    "subject_of",
    "without_lead",
]

LEAD = re.compile(
    r"^\W*(?:(?:ну\s+)?(?:а|и|но)(?:\s+как\s+насчет|\s+что\s+насчет|\s+если)?|как\s+насчет|что\s+насчет|"
    r"(?:and|but|or|so)(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about)\s+(?=\w|[«\"“@])"
)
ASKS = re.compile(
    r"^(?:(?:с|в|во|по|за|до|на|от|из|у|для|о|об|in|at|by|for|with|from|on|to|until)\s+)?"
    r"(?:кто|кого|кому|кем|ком|что|чего|чему|чем|где|куда|откуда|когда|почему|зачем|отчего|сколько|скольк\w+|как|"
    r"как\w{2,4}|чей|чья|чье|чьи|правда ли|верно ли|есть ли|можно ли|who|whom|whose|what|which|when|where|why|how|"
    r"is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!\s+about\b)"
)
PREPOSITION = r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|without|of|from|to|with|by|near)"
_FIRST, _LAST = r"(?:впервые|в первый раз)", r"(?:в )?последний раз"
OCCURRENCE = (
    (re.compile(_FIRST), "впервые"),
    (re.compile(_LAST), "в последний раз"),
    (re.compile(r"(?:(?:for )?the )?\bfirst(?: time)?\b"), "first"),
    (re.compile(r"(?:(?:for )?the )?\blast(?: time)?\b(?! (?:week|month|year|night))"), "last"),
)

_PERSON = r"он|она|его|ее|ему|него|нее|ней|нему|нем|he|she|him|her|his"
_MANY = r"они|их|им|ими|них|ним|ними|they|them|their"
_THING = r"оно|это|этого|этому|этим|этом|it|its"
_PLACE = r"там|туда|оттуда|there"
_PRONOUN = re.compile(
    rf"\b(?:(?P<person>{_PERSON})|(?P<many>{_MANY})|(?P<thing>{_THING})|(?P<place>{_PLACE})|"
    r"(?P<that>(?:that|this)(?=\W*$)))\b"
)
# "it" and "there" that stand for nothing: "is it true that", "how long does it take", "is there a ferry"
_EMPTY = re.compile(
    r"\b(?:(?:is|was|will|does|did|would|can)\s+it\s+(?:be\s+)?(?:true|possible|necessary|right|correct|legal|worth|safe|take|"
    r"took|cost\s+to|rain|snow)|it\s+(?:is|was)\s+(?:true|possible|necessary)|(?:is|are|was|were|be|been|will|has|have)\s+there|"
    r"there\s+(?:is|are|was|were|be|been|will|has|have)|they\s+(?:\w+\s+)?(?:write|wrote|say|said|post|posted|report|reported|publish|"
    r"published|mention|mentioned|talk|talked)|"
    r"они\s+(?:\w+\s+)?(?:писали|пишут|написали|сообщали|сообщают|сообщили|говорили|говорят|публиковали|упоминали)|это\s+правда|правда\s+ли\s+это(?=\s+что)|что\s+это\s+за|как\s+там)\b"
)
# "which country has a flag on its ...": the word is named in the question
_OF_KIND = re.compile(r"\b(?:как\w{2,3}|which|what)\s+(\w+)")
_WEAK_MOST = 3  # words of its own, from which a question with "it" or "they" is taken to stand alone
_FRAME = re.compile(
    r"^(?:правда|верно|действительно|известно|известен|известна|расскажи\w*|скажи\w*|tell|known|пис\w+|пишут|написали|пост\w*|"
    r"posts?|writ\w+|wrote|said|says?|сказал\w*|говор\w+|упомина\w+|упомян\w+|mention\w*|раз|times?|впервые|first|last|последний|"
    r"как\w{2,3}|please|пожалуйста|проходит|находится|нового|new|happened)$"
)
_WAS = re.compile(r"(?<!\s)(?:\s++(?:было|была|были|был|there|were|was|is|are))+$", re.I)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Named:
    """A name and where it stands."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A word that stands for something said before. `whole`: for all of it ("who said that")."""

    start: int
    end: int
    person: bool = False
    many: bool = False
    place: bool = False
    whole: bool = False


def folded(text: str) -> str:
    """Small letters without ё, character for character."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("ё", "е")


def without_lead(text: str) -> str:
    """A question without the "and" or "what about" it begins with."""
    found = LEAD.match(folded(text))
    return text[found.end() :] if found else text


def content(text: str) -> list[str]:
    """The words that say what it is about; neither function words nor those that only ask."""
    return [word for word in _WORD.findall(folded(text)) if _says(word)]


def _says(word: str) -> bool:
    return bool(terms(word)) and not is_asking(word) and not _FRAME.match(word)


def named(text: str) -> list[Named]:
    """Names, without a word that has its capital letter only because it begins the question."""
    found = []
    for name in names(text):
        start, said = name.start(), name[0]
        first, _, more = said.partition(" ")
        begins = not text[:start].strip(' «"“') and not (re.search(r"[A-Z]", first) and _says(folded(first)))
        if begins or folded(first) in STOP_WORDS:
            start, said = start + len(first) + bool(more), more
        if said and folded(said) not in STOP_WORDS:
            found.append(Named(said, start, start + len(said)))
    return found


def pronoun_in(text: str) -> Pronoun | None:
    """The first word that stands for something the question itself does not name before it; None: there is none."""
    low = folded(text)
    for found in _PRONOUN.finditer(low):
        empty = any(e.start() <= found.start() < e.end() for e in _EMPTY.finditer(low)) or any(
            terms(kind[1]) for kind in _OF_KIND.finditer(low[: found.start()])
        )
        # "how much is the entrance there": what stands before it is no place
        before = not found["place"] and content(low[: found.start()])
        if empty or before or named(text[: found.start()]):
            continue
        weak = not found["person"]
        if weak and (named(text) or len(content(text)) >= _WEAK_MOST):
            continue
        whole = bool(found["that"]) or found[0] in {"это", "этого", "этом"}
        return Pronoun(
            found.start(), found.end(), bool(found["person"]), bool(found["many"]), bool(found["place"]), whole
        )
    return None


def subject_of(question: str, now: datetime | None) -> str:
    """What a question is about: without its asking words at the beginning and, seen from `now`, its time."""
    text = question.strip(" ?!.…")
    when = period(text, now) if now else None
    if when is not None and (at := folded(text).find(when.words)) >= 0:
        text = f"{text[:at].rstrip()} {text[at + len(when.words) :].lstrip()}".strip()
    for word in _WORD.finditer(text):
        if _says(folded(word[0])):
            before = text[: word.start()]
            told = text[word.start() - (before[-1:] in '«"“„@' and bool(before)) :]
            return _WAS.sub("", told).strip(" ,")
    return text
