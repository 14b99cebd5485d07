"""Posting dates: the day of the post that begins with the words asked for ("when did you post “…”")."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection

from rag_core.context.evidence import build_text_key
from rag_core.engine import Engine
from rag_core.retrieval.filters import resolve_filter
from rag_core.storage import posts
from rag_core.text.sentences import TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Draft, Plan, Question, Sentence
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_post_date

_MAX_READ_POSTS = 500  # the newest that have all the words
_MAX_DATED_POSTS = 3
_AT_START, _IN_TITLE, _ELSEWHERE = range(3)
_QUOTED = re.compile(r"[«\"“„]([^»\"”“]+)[»\"”]")


async def date_posts(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Date the posts that begin with the words asked for or have them in their title, newest first.

    Words in quotes may also stand elsewhere in a post.
    None: no post has them so, the question is searched like any other.
    """
    quoted = _QUOTED.search(question.text)
    phrase = build_text_key(quoted[1] if quoted else plan.topic)
    terms = tuple(dict.fromkeys(tokenize(phrase)))
    if not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in reversed(places)))[:_MAX_READ_POSTS]
    stored = await posts.fetch_posts(rag.archive, keys)
    ranked = await asyncio.to_thread(
        lambda: {k: _rank_text(stored[k].text, phrase, terms) for k in keys if k in stored}
    )
    spans = {key: one for key, one in ranked.items() if one and (one[0] < _ELSEWHERE or quoted)}
    best = min((rank for rank, _ in spans.values()), default=_ELSEWHERE)
    found = [key for key, (rank, _) in spans.items() if rank == best]
    originals = {build_text_key(stored[key].text): key for key in found}  # of copies the oldest
    sentences = []
    for key in sorted(originals.values(), key=lambda one: stored[one].date, reverse=True)[:_MAX_DATED_POSTS]:
        start, end = spans[key][1]
        quote, date = stored[key].text[start:end], stored[key].date
        citation = Citation(key, quote, start, end, date)
        sentences.append(Sentence(f"{format_post_date(date, question.lang)} {quote}", (citation,)))
    return Draft(tuple(sentences), 1.0) if sentences else None


def _rank_text(text: str, phrase: str, terms: Collection[str]) -> tuple[int, TextSpan] | None:
    """Rank a text by where it has a phrase, with the sentence to quote; None where it does not.

    Best is a text that begins with the phrase, then one whose first sentence has all its terms, as a title has.
    """
    words, whole = f" {phrase} ", f" {build_text_key(text)} "
    spans = [window for one in split_sentences(text) for window in split_long_span(text, one, MAX_FRAMED_QUOTE_LENGTH)]
    if not spans:
        return None
    if whole.startswith(words):
        return _AT_START, spans[0]
    if set(terms) <= set(tokenize(text[slice(*spans[0])])):
        return _IN_TITLE, spans[0]
    if words not in whole:
        return None
    return _ELSEWHERE, next((one for one in spans if words in f" {build_text_key(text[slice(*one)])} "), spans[0])
