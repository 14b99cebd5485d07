"""Question to plan by rules: what is asked for, about what, and from when.

The rules know questions about the posts themselves ("when was it first mentioned", "how many posts
about ..."), which the archive answers exactly. Everything else is searched as it was asked.
"""

from __future__ import annotations

import re

from rag_core.analysis import terms
from rag_core.types import Kind, Plan, Question
from rag_core.when import period

__all__ = ["plan_by_rules"]

# Talk about posts: what it is about comes after. The first that fits decides.
_POSTS = (
    r"(?:пост(?:ы|а|у|е|ов|ом|ам|ами|ах)?|(?:сообщени|публикаци)(?:е|я|й|ю|и|ем|ей|ям|ями|ях)|"
    r"(?:запис|новост)(?:ь|и|ей|ью|ям|ями|ях)|posts?|messages?|updates?|news)"
)
_MENTION = r"(?:упоминани\w+|mentions?)"
_SAID = (
    r"(?:упомина[елю]\w*|упомяну\w+|(?:на|о)?писал\w*|написано|сооб?ща[елю]\w*|сообщил\w*|(?:за)?говорил\w*|говорится|"
    r"рассказал\w*|рассказыва[елю]\w*|о?публиковал\w*|(?:за)?постил[аи]?|"
    r"mention(?:s|ed)?|posted|wrote|written|said|talked|reported|published|announced|"
    r"(?:post|write|say|talk|report)(?: (?:any|some)thing)? (?:about|of|on|that))"
)
_SHOWED = r"(?:появ(?:ил|лял)\w+|зашла речь|turn(?:s|ed)? up|appear(?:s|ed)?|c[ao]mes? up)"
_SEEN = rf"(?:{_SAID}|{_SHOWED})"
_FIRST = r"(?:впервые|(?:в )?первый раз)"
_LAST = r"(?:в )?последний раз"
_RU_WHEN = r"^(?=.*\b(?:когда|какого числа|в каком (?:посте|сообщении))\b)"
_EN_WHEN = r"^(?=.*\b(?:when|(?:what|which) (?:day|date|post|message))\b)"
_ABOUT = r"(?=.*\b(?:о|об|обо|про|с упоминанием|about|of|contain\w*|{})\b)".format(rf"{_SAID}|{_MENTION}")
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (Kind.HOW_MANY, rf"^(?:сколько раз|как часто|how (?:many times|often))\b.*?\b{_SAID}\b"),
    (Kind.HOW_MANY, rf"^в скольких {_POSTS}\b"),
    # "сколько постов ГАИ на трассе", "how many posts hold up the roof": not every post is one of ours
    (Kind.HOW_MANY, rf"^(?:сколько|how many) (?:(?:было|есть|вышло) )?{_POSTS}\b{_ABOUT}"),
    (Kind.FIRST, rf"{_RU_WHEN}.*?\b(?:{_FIRST}\b.*?\b{_SEEN}|{_SEEN}\b.*?\b{_FIRST})\b"),
    # beside the verb: "the first computer appeared" is about a computer
    (Kind.FIRST, rf"{_EN_WHEN}.*?\b(?:first(?: be| been)? {_SEEN}|first time\b.*?\b{_SEEN})\b"),
    (Kind.FIRST, rf"{_EN_WHEN}.*?\b{_SEEN}\b.*? for the first time\b"),
    (Kind.FIRST, rf"\b(?:перв(?:ое|ый|ая)|first|earliest) (?:{_MENTION}|{_POSTS}{_ABOUT})\b"),
    (Kind.LAST, rf"{_RU_WHEN}.*?\b(?:{_LAST}\b.*?\b{_SEEN}|{_SEEN}\b.*?\b{_LAST})\b"),
    (Kind.LAST, rf"{_EN_WHEN}.*?\b(?:(?:last|most recently)(?: be| been)? {_SEEN}|last time\b.*?\b{_SEEN})\b"),
    (Kind.LAST, rf"{_EN_WHEN}.*?\b{_SEEN}\b.*? (?:last|most recently)\W*$"),
    (Kind.LAST, rf"\b(?:последн(?:ее|ий|яя|ие)|latest|last|newest) (?:{_MENTION}|{_POSTS}{_ABOUT})\b"),
    (Kind.WHEN, rf"^(?:когда|какого числа)\b.*?\b{_SAID}\b"),
    (Kind.WHEN, rf"^when (?:did|do|does|was|were|has|have|had)\b.*?\b{_SAID}\b"),
)
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
# Words that ask about posts and say nothing of the topic.
_FRAME = re.compile(
    rf"\b(?:{_SAID}|{_SHOWED}|{_POSTS}|{_MENTION}|впервые|перв(?:ый|ое|ая)|последн(?:ий|ее|яя|ие)|раз|сколько|"
    r"скольких|часто|когда|какого числа|был[аои]?|канал\w*|слов[оа]?|first|last|latest|newest|earliest|"
    r"most recently|times?|how|many|often|did|when|was|were|is|it|the|post|write|say|talk|report|appear|channels?|"
    r"this|that|here|there|words?|contain(?:s|ing)?)\b"
)


def plan_by_rules(question: Question) -> Plan:
    """A plan that is always valid; an empty question gives no queries."""
    text = " ".join(question.text.split())
    asked = text.lower().replace("ё", "е")
    kind = next((kind for kind, pattern in _KINDS if pattern.search(asked)), Kind.FACT)
    queries = (text,) if terms(text) else ()
    if kind is Kind.FACT:
        return Plan(queries, topic=asked)
    found = period(text, question.asked_at)
    rest = asked.replace(found.words, " ") if found else asked
    topic = " ".join(_FRAME.sub(" ", rest).split())
    if not terms(topic):
        return Plan(queries, topic=asked)
    since, until = (found.since, found.until) if found else (None, None)
    return Plan(queries, kind, topic, since=since, until=until)
