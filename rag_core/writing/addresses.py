"""Addresses beside an answer: links of the cited posts, for a question where, how or by which link to do something.

Readers see the words of a quote alone: an address on another line, under words or in a button is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import accumulate

from rag_core.engine import Engine
from rag_core.storage.visible_posts import fetch_posts
from rag_core.text.answer_type import AnswerType, detect_answer_type
from rag_core.text.post_openings import build_text_key
from rag_core.text.sentences import TextSpan
from rag_core.text.tokens import fold_case
from rag_core.types import Evidence, Post, PostKey

_MAX_ADDRESSES = 3  # of a post: more are a list, which the reader opens
_ADDRESS_TYPES = frozenset({AnswerType.PLACE, AnswerType.STEPS})
# What is done by a link, and the link itself, in questions that do not begin with "where" or "how".
_LINK_ASKED = re.compile(
    r"(?<!\w)(?:ссылк\w*|сайт\w*|онлайн|форм[аеуы]|анкет\w*|запис(?:а|ы)\w+|(?:за)?регистр\w+|заказ\w*|брони?р\w+|"
    r"подпис\w+|скачать|links?|urls?|websites?|sites?|online|forms?|sign(?:ing)?[ -]?up|regist(?:er|ration)\w*|"
    r"enrol\w*|apply|book|order|subscribe|download|join|rsvp)(?!\w)"
)


def asks_for_address(question: str) -> bool:
    """Whether a question asks where, how or by which link."""
    return detect_answer_type(question) in _ADDRESS_TYPES or bool(_LINK_ASKED.search(fold_case(question)))


async def find_addresses(
    quoted: Iterable[tuple[PostKey, int, int]], shown: str, evidence: Evidence, rag: Engine
) -> dict[PostKey, tuple[str, ...]]:
    """Find the addresses that stand in quoted posts and not in `shown`, each once. Raises ArchiveUnavailable.

    `quoted`: posts with the span of the quote, whose nearest addresses come first. Links of lines that most posts of a
    channel repeat are left out, as they answer nothing.
    """
    spans = {key: (start, end) for key, start, end in quoted}
    stored, found = await fetch_posts(rag.archive, spans), dict[PostKey, tuple[str, ...]]()
    for key, span in spans.items():
        if post := stored.get(key):
            nearest = _list_addresses(post, span, evidence.boilerplate.get(key.chat_id, frozenset()))
            found[key] = tuple(one for one in nearest if one not in shown)
            shown = " ".join((shown, *found[key]))
    return found


def _list_addresses(post: Post, span: TextSpan, repeated: Collection[str]) -> list[str]:
    """List the addresses of a post, the nearest to a span first; those of buttons stand below its text."""
    points = {unit: n for n, unit in enumerate(accumulate((1 + (c > "\uffff") for c in post.text), initial=0))}
    places = dict.fromkeys(post.links, len(post.text))
    for entity in post.entities:
        start = points.get(entity.offset, 0)
        words = post.text[start : points.get(entity.offset + entity.length, start)]
        address = entity.url if entity.type == "text_link" else words if entity.type == "url" else None
        if address in places:
            begin, end = post.text.rfind("\n", 0, start) + 1, post.text.find("\n", start)
            if build_text_key(post.text[begin : end if end >= 0 else None]) in repeated:
                del places[address]
            else:
                places[address] = start
    return sorted(places, key=lambda one: max(span[0] - places[one], places[one] - span[1], 0))[:_MAX_ADDRESSES]
