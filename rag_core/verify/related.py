"""Whether words are about what a claim is about: different numbers of different things are no disagreement."""

from __future__ import annotations

import re

from rag_core.analysis import terms
from rag_core.asked import Weigh, is_asking, kinship
from rag_core.verify.verdict import Support

__all__ = ["other_thing", "related"]

_ASKING = 0.3  # what "costs" is worth: price lists do without it
# Posts write it as a sign, and it says nothing of what is measured.
_MEASURE = r"(?:₽|руб|р\.|\$|€|£|%|процент|percent|тыс|млн|thousand|million|euro|евро|доллар|dollar|minute|минут)"
_UNITS = re.compile(rf"\b{_MEASURE}\w*", re.I)
_NUMBERED = frozenset("number номер part часть".split())
_OPENING = 2  # words before a number that belongs to a name
_WORD = re.compile(r"[^\W_]+")


def related(claim: str, support: Support, words: str, header: str, weight: Weigh) -> float:
    """The share of what a claim is about that stands in the words, 0..1; rare terms weigh more.

    What differs ("twelve ≠ fifteen") and other numbers are not what it is about, nor is what stands above each post of
    a channel, its title. What a post replies to is what it is about.
    """
    title, _, more = header.partition(" · ")
    aside = frozenset(terms(f"{support.why.partition('≠')[0]} {title}"))
    worth: dict[str, float] = {}
    for word in _WORD.findall(_UNITS.sub(" ", claim)):
        for term in terms(word):
            if term not in aside and not any(map(str.isdigit, term)):
                worth[term] = weight(term) * (_ASKING if is_asking(word) else 1.0)
    there = frozenset(terms(f"{more}\n{words}"))
    whole = sum(worth.values())
    if not whole:
        return 1.0
    return sum(w * (1.0 if term in there else kinship(term, there)) for term, w in worth.items()) / whole


def other_thing(claim: str, support: Support) -> bool:
    """Whether the number that differs names what the claim is about: bus 41 is not bus 27, it is another bus."""
    said = support.why.partition("≠")[0].strip()
    if not any(map(str.isdigit, said)):
        return False
    place = re.search(rf"(?<![\w.,]){re.escape(said)}(?!\w)(?!\s*{_MEASURE})", claim)
    before = _WORD.findall(claim[: place.start()]) if place else []
    if not before:
        return False
    named = bool(terms(before[-1])) and not is_asking(before[-1])
    return before[-1].lower() in _NUMBERED or (named and len(before) <= _OPENING)
