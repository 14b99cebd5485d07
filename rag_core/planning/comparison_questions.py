"""Comparison question: two things compared in one respect ("what is cheaper, A or B?"), parsed by rules.

Rules for Russian and English. Each thing is asked for by itself; of the sentences found, the values are compared
(rag_core/recipes/value_comparison.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from rag_core.text.tokens import tokenize


class Measure(StrEnum):
    """Respect in which two things are compared."""

    PRICE = "price"
    NUMBER = "number"
    SIZE = "size"
    TIME = "time"


# Measure, whether the greater value is asked for, and the words that ask so; of those at one place the first counts.
_COMPARATIVE_WORDS = (
    (Measure.PRICE, True, r"дороже|more expensive|dearer|costs? more|pricier"),
    (Measure.PRICE, False, r"дешевле|выгоднее|cheaper|less expensive|costs? less"),
    (Measure.SIZE, True, r"выше|длиннее|шире|глубже|тяжелее|taller|higher|longer|wider|deeper|heavier|farther|further|дальше|дольше"),
    (Measure.SIZE, False, r"ниже|короче|мельче|легче|lower|shorter|narrower|lighter|ближе|closer|nearer"),
    (Measure.TIME, True, r"позже|later|моложе|новее|younger|newer"),
    (Measure.TIME, False, r"раньше|earlier|first(?=[,:;]|$)|старше|older"),
    # "more meteors", not "more important"
    (Measure.NUMBER, True, r"больше|more(?= (?:\w+(?<!ou)s|people|of)(?!\w))"),
    (Measure.NUMBER, False, r"меньше|fewer"),
)  # fmt: skip
_COMPARATIVES = [
    (measure, greater, re.compile(rf"(?<!\w)(?:{words})(?!\w)")) for measure, greater, words in _COMPARATIVE_WORDS
]
_ASKED = {
    "ru": {Measure.PRICE: "сколько стоит", Measure.NUMBER: "сколько", Measure.SIZE: "какой размер", Measure.TIME: "когда"},
    "en": {Measure.PRICE: "how much is", Measure.NUMBER: "how many", Measure.SIZE: "what size is", Measure.TIME: "when"},
}  # fmt: skip
_OR = re.compile(r",?\s+(?:или|or)\s+")
_OR_NOT = re.compile(r"\s(?:или нет|or not)\W*$")
_THAN = re.compile(r"\s*,?\s+(?:чем|than)\s+")
_BREAK = re.compile(r"[:;—–]|,(?=\s)")
# Words of the frame of such a question; none of them belongs to a thing.
_FRAME = re.compile(
    r"^(?:а |и |so |and )*(?:(?:что|кто|где|когда|какой|какая|какое|какие|которая|который|сколько|стоит|стоят|было|был|была|были|"
    r"which|what|who|where|is|are|was|were|did|does|do|there|they|it|one|of|the two)(?!\w)\s*)+"
)
# "Is there anything cheaper …" asks for a third thing.
_ASKS_OTHERWISE = re.compile(
    r"(?<!\w)(?:ли|что-нибудь|что-то|скольк\w+|anything|something|any|can|could|should|how)(?!\w)"
)
_TAIL = re.compile(
    r"(?:\s+(?:или|or)\s+(?:нет|not|no))?\s*[?!.]*\s*$|\s+(?:is|was|costs?|стоит|был[аои]?|стоил[аои]?)\s*$"
)
PREPOSITIONS = frozenset("in at on for during from by with в во у на по за из с со для при".split())
MAX_LENGTH = 200  # characters: what is longer is no short comparison


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two things as they were asked for; `topic` is what both are about ("" where the things say it)."""

    measure: Measure
    greater: bool
    word: str
    topic: str
    things: tuple[str, str]

    def ask(self, thing: str) -> str:
        """Question for the value of one thing."""
        language = "ru" if re.search("[а-я]", f"{self.topic} {thing}".lower()) else "en"
        return " ".join(filter(None, (_ASKED[language][self.measure], self.topic, thing))) + "?"


def parse_comparison(text: str) -> Comparison | None:
    """Parse a comparison of two things; None where the question is none."""
    plain = " ".join(text.replace("ё", "е").split())
    if len(plain) > MAX_LENGTH:
        return None
    matches = [(found, m, greater) for m, greater, words in _COMPARATIVES if (found := words.search(plain.lower()))]
    if not matches:
        return None
    found, measure, greater = min(matches, key=lambda match: match[0].start())
    if _ASKS_OTHERWISE.search(plain[: found.start()].lower()):
        return None
    body = _TAIL.sub("", plain)
    before, after = body[: found.start()], body[found.end() :]
    if than := _THAN.match(after):  # "is A cheaper than B"
        topic, first, second = _share_topic(_strip_frame(_TAIL.sub("", before)), after[than.end() :])
    elif len(sides := _OR.split(after)) == 2:  # "which is cheaper, A or B", "where is X cheaper: at A or at B"
        head, _, first = sides[0].rpartition(next(iter(_BREAK.findall(sides[0])[-1:]), "\0"))
        topic, first, second = _share_topic(first, sides[1])
        topic = " ".join(filter(None, (_strip_frame(f"{before} {head}"), topic)))
    elif len(sides := _OR.split(before)) == 2:  # "A or B: which is cheaper"
        topic, first, second = "", _strip_frame(sides[0]), _BREAK.split(sides[1])[0]
    elif _OR_NOT.search(plain) and before.strip():  # "A дороже B или нет"
        topic, first, second = "", _strip_frame(before), after
    else:
        return None
    things = _clean(first), _clean(second)
    if not all(tokenize(thing) for thing in things) or things[0].lower() == things[1].lower():
        return None
    return Comparison(measure, greater, plain[found.start() : found.end()].lower(), _clean(topic), things)


def _share_topic(first: str, second: str) -> tuple[str, str, str]:
    """Split off what both things share: of "meteors in May" and "in June" it is "meteors"."""
    preposition = second.split(maxsplit=1)[0].lower() if second.strip() else ""
    if preposition in PREPOSITIONS and (at := f" {first.lower()} ".rfind(f" {preposition} ")) > 0:
        return first[:at].strip(), first[at:], second
    return "", first, second


def _strip_frame(text: str) -> str:
    text = _clean(text)
    return _FRAME.sub("", text[:1].lower() + text[1:])


def _clean(text: str) -> str:
    return text.strip(" ,:;—–?!.")
