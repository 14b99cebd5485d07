"""What somebody looks for with /search: the words to be found, and the filters said among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_core.analysis import terms
from rag_core.plan.filters import said_filters
from rag_core.plan.kinds import topic_of
from rag_core.plan.queries import must_and_should, sanitised, variants
from rag_core.route import route
from rag_core.spots import small
from rag_core.types import Channel, Kind, Plan, Question
from rag_core.when import period

__all__ = ["Sought", "sought"]

_QUOTED = re.compile(r"[«\"“„][^»\"”“]{1,80}[»\"”]")
# "posts about the ferry" looks for the ferry
_FRAME = re.compile(
    r"^\W*(?:(?:покажи|найди|show|find)(?:\s+(?:мне|me))?\s+)?(?:(?:все|all|the)\s+)?"
    r"(?:посты?|сообщени[яе]|публикаци[ия]|записи|новости|что\s+(?:писали|пишут|говорили|сообщали|было|нового)|"
    r"posts?|messages?|news|what\s+(?:was|has been|is|did\s+\w+)\s+(?:posted|written|write|said|say|new))\s+"
    r"(?:про|об?|обо|about|on|of)\s+(?=\w)",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Sought:
    """`words` as they were written, "" where only filters were said: then all posts they let through are meant.

    `plan.must` has to stand in a post word for word. `filters` are the pieces of the text that became filters,
    `beside` those of them that say what a post is beside its text: its author, origin, kind or file.
    """

    plan: Plan
    words: str = ""
    filters: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def sought(question: Question, known: Mapping[int, Channel]) -> Sought:
    """What is looked for. `known`: channels by id, of which those that the asker may read can be named.

    A time is always one of posts here, whatever stands around it; a title in quotes is none.
    """
    text = sanitised(question.text)
    low = small(text)
    unquoted = _QUOTED.sub(lambda found: " " * len(found[0]), low)
    when = period(unquoted, question.asked_at)
    readable = {key: channel for key, channel in known.items() if key in question.viewer.channels}
    said = said_filters(text.replace("ё", "е").replace("Ё", "Е"), readable)
    cut = _places([*([(unquoted, when.words)] if when else []), *((low, words) for words in said.words)])
    filters = tuple(text[start:end] for start, end in cut)
    beside = tuple(piece for piece in filters if small(piece) in said.beside)
    rest = _without(text, cut)
    plan = Plan((), Kind.POSTED, channels=said.channels, authors=said.authors, origins=said.origins,
                media=said.media, files=said.files)  # fmt: skip
    if when:
        plan = replace(plan, since=when.since, until=when.until, slack=when.slack)
    words = _FRAME.sub("", rest).strip(" \t,;:.!?—–-")
    # "что писали вчера", "posts of @harbour_news" look for no words
    if not terms(words) or (filters and not terms(topic_of(small(rest)))):
        return Sought(plan, "", filters, beside)
    must, should = must_and_should(words)
    plan = replace(plan, queries=(words, *variants(words)), kind=Kind.FACT, topic=words, must=must, should=should)
    return Sought(replace(plan, legs=route(plan).legs), words, filters, beside)


def _places(pieces: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """Where pieces of a text stand, in its order; each comes with the small letters that it is looked for in."""
    found = (re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", low) for low, piece in pieces if piece)
    return sorted({match.span() for match in found if match})


def _without(text: str, cut: Sequence[tuple[int, int]]) -> str:
    rest = list(text)
    for start, end in cut:
        rest[start:end] = " " * (end - start)
    return " ".join("".join(rest).split())
