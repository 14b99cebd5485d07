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
_POSTS = r"(?:пост\w*|сообщени\w+|запис\w+|публикаци\w+|новост\w+|posts?|messages?|updates?|news)"
_SAID = (
    r"(?:упомина\w+|упомяну\w+|упоминани\w+|писал\w*|написал\w*|сообщал\w*|сообщил\w*|говорил\w*|рассказ\w+|публиковал\w*|"
    r"опубликовал\w*|постил\w*|mention\w*|post(?:ed)?|wr(?:ite|ote|itten)|sa(?:y|id)|talk(?:ed)?|report(?:ed)?|publish(?:ed)?|announced?)"
)
_SHOWED = r"(?:появил\w+|появлял\w+|заговорил\w*|зашла речь|turn(?:ed)? up|appear(?:ed)?|c[ao]me up)"
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (Kind.HOW_MANY, rf"^(?:сколько раз|как часто|how (?:many times|often))\b.*?{_SAID}"),
    (Kind.HOW_MANY, rf"^(?:в скольких|сколько|how many)\s+{_POSTS}\b"),
    (Kind.FIRST, rf"(?:впервые|в первый раз|first|earliest)\b.*?\b(?:{_SAID}|{_SHOWED})"),
    (Kind.FIRST, rf"\b(?:{_SAID}|{_SHOWED}).*?(?:впервые|в первый раз|for the first time)"),
    (Kind.FIRST, rf"^(?:перв\w+|first|earliest)\s+(?:{_POSTS}|упоминани\w+|mention)\b"),
    (Kind.LAST, rf"(?:в последний раз|last time|most recently|last)\b.*?\b{_SAID}"),
    (Kind.LAST, rf"{_SAID}.*?(?:в последний раз|for the last time|last)\b"),
    (Kind.LAST, rf"^(?:последн\w+|latest|last|newest)\s+(?:{_POSTS}|упоминани\w+|mention)\b"),
    (Kind.WHEN, rf"^(?:когда|какого числа|when)\b.*?\b{_SAID}"),
)
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
# Words that ask about posts and say nothing of the topic.
_FRAME = re.compile(
    rf"\b(?:{_SAID}|{_SHOWED}|{_POSTS}|впервые|первый|первое|первая|последний|последнее|последняя|раз|сколько|скольких|когда|часто|"
    r"был\w*|канал\w*|first|last|latest|newest|earliest|time|times|how|many|often|did|when|was|were|is|it|the|channels?|"
    r"this|that|here|there)\b"
)


def plan_by_rules(question: Question) -> Plan:
    """A plan that is always valid; an empty question gives no queries."""
    text = " ".join(question.text.split())
    asked = text.lower().replace("ё", "е")
    kind = next((kind for kind, pattern in _KINDS if pattern.search(asked)), Kind.FACT)
    found = period(text, question.asked_at)
    topic = asked
    if kind is not Kind.FACT:
        rest = asked if found is None else asked.replace(found.words.lower().replace("ё", "е"), " ")
        topic = " ".join(_FRAME.sub(" ", rest).split())
    bounded = found is not None and kind is not Kind.FACT
    return Plan(
        queries=(text,) if terms(text) else (),
        kind=kind if terms(topic) or kind is Kind.FACT else Kind.FACT,
        topic=topic,
        since=found.since if found and bounded else None,
        until=found.until if found and bounded else None,
    )
