"""A question becomes a plan. The same noun is filled in by a model where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rag_core.analysis import terms
from rag_core.plan.filters import Said, said_filters
from rag_core.plan.kinds import about_lately, about_nothing, about_posts, kind_of, topic_of, without_asking
from rag_core.plan.queries import MOST_QUERIES, must_and_should, parts_of, rewrite, sanitised, variants
from rag_core.route import HYBRID, route
from rag_core.types import Channel, Kind, Plan, Question
from rag_core.when import Period, period

__all__ = ["EXACT", "TELEGRAM", "bare", "plan_by_rules", "wider"]

MOST_HITS = 100  # of a leg, in the second round
EXACT = frozenset({Kind.HOW_MANY, Kind.FIRST, Kind.LAST, Kind.TIMELINE, Kind.WHEN})
_OF_NOTHING = frozenset({Kind.FACT, Kind.HOW_MANY, Kind.SUMMARY, Kind.LIST})  # can be asked of all posts there are
_QUOTED = re.compile(r"[«\"“„][^»\"”“]{1,80}[»\"”]")
_LATELY_MOST = timedelta(days=70)
TELEGRAM = datetime(2013, 8, 14, tzinfo=UTC)  # no post is older than Telegram
_NOBODY: Mapping[int, Channel] = {}


def plan_by_rules(question: Question, known: Mapping[int, Channel] = _NOBODY) -> Plan:
    """A plan that is always valid; an empty question gives no queries.

    `known`: channels by id, of which those that the asker may read can be named in the question.
    """
    text = sanitised(question.text)
    if not terms(text):
        return Plan(())
    plain = text.replace("ё", "е").replace("Ё", "Е")
    asked = plain.lower()
    said = said_filters(plain, {key: c for key, c in known.items() if key in question.viewer.channels})
    found = period(_QUOTED.sub(" ", text), question.asked_at)  # a title in quotes is no time
    kind, topic = kind_of(asked), topic_of(_without(asked, (found.words if found else "", *said.words)))
    bounds = found if found and _of_posts(found, question, asked, kind, said) else None
    kind = _kind(kind, topic, bool(bounds or said.words))
    own = _cut(text, (*said.words, bounds.words if bounds else ""))
    plan = Plan((own, *variants(own)), kind, topic if terms(topic) else asked, *must_and_should(own), asked=without_asking(own),
                channels=said.channels, authors=said.authors, origins=said.origins, media=said.media,
                files=said.files)  # fmt: skip
    if bounds:
        plan = replace(plan, since=bounds.since, until=bounds.until, slack=bounds.slack)
    chosen = route(plan, parts_of(own))
    return replace(plan, legs=chosen.legs, reasons=chosen.reasons)


def bare(question: Question) -> Plan:
    """The question alone, where it could not be planned, and to be compared with."""
    text = sanitised(question.text)
    return Plan((text,), asked=text) if terms(text) else Plan(())


def wider(plan: Plan) -> Plan:
    """The plan of a second round: twice as many hits, both legs, and the question without its asking words.

    Whom and when it asks about stays: an answer from another time is no answer.
    """
    distinct: dict[frozenset[str], str] = {}
    for query in (rewrite(plan.queries[0]), *plan.queries):
        distinct.setdefault(frozenset(terms(query)), query)
    queries = tuple(distinct.values())[:MOST_QUERIES]
    return replace(plan, queries=queries, k=min(2 * plan.k, MOST_HITS), legs=HYBRID)


def _of_posts(found: Period, question: Question, asked: str, kind: Kind, said: Said) -> bool:
    """Whether the time is that of posts, and not that of what they tell.

    Longer times counted back are as often those of what is told: "the last years of his life".
    """
    if found.until is not None and found.until <= TELEGRAM:
        return False
    lately = found.since is not None and question.asked_at - found.since <= _LATELY_MOST
    return bool(said.beside) or kind in EXACT or about_posts(asked) or (lately and about_lately(asked))


def _kind(kind: Kind, topic: str, bounded: bool) -> Kind:
    """The kind that is left of a question that is about nothing but posts."""
    if bounded and kind in _OF_NOTHING and about_nothing(topic):
        return Kind.POSTED
    return Kind.FACT if kind in EXACT - {Kind.WHEN} and not terms(topic) else kind


def _without(asked: str, pieces: Iterable[str]) -> str:
    for words in dict.fromkeys(filter(None, pieces)):
        asked = asked.replace(words, " ")
    return asked


def _cut(text: str, pieces: Iterable[str]) -> str:
    """The question without the words that became filters: they stand in no text."""
    rest = text
    for words in dict.fromkeys(filter(None, pieces)):
        rest = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)".replace("е", "[её]"), " ", rest, flags=re.I)
    return " ".join(rest.split()).strip(" ,;:") if terms(rest) else text
