"""Posting dates: the day of the post that begins with the words asked for ("when did you post “…”")."""

from __future__ import annotations

import asyncio
import re

from rag_core.context.evidence import build_text_key
from rag_core.engine import Engine
from rag_core.retrieval.filters import resolve_filter
from rag_core.storage import posts
from rag_core.text.sentences import TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Draft, Plan, Question, Sentence
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_post_date

__all__ = ["date_posts"]

_MAX_READ_POSTS = 500  # the newest that have all the words
_MAX_DATED_POSTS = 3
_QUOTED = re.compile(r"[«\"“„]([^»\"”“]+)[»\"”]")


async def date_posts(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Date the posts that begin with the words asked for, else those that hold them in quotes, newest first.

    None: no post does, the question is searched like any other.
    """
    quoted = _QUOTED.search(question.text)
    phrase = build_text_key(quoted[1] if quoted else plan.topic)
    terms = tuple(dict.fromkeys(tokenize(phrase)))
    if not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in reversed(places)))[:_MAX_READ_POSTS]
    stored = await posts.fetch_posts(rag.archive, keys)
    spans = await asyncio.to_thread(lambda: {k: _find_phrase(stored[k].text, phrase) for k in keys if k in stored})
    found = [key for key, (at_start, _) in spans.items() if at_start]
    if quoted and not found:
        found = [key for key, (_, span) in spans.items() if span]
    originals = {build_text_key(stored[key].text): key for key in found}  # of copies the oldest
    sentences = []
    for key in sorted(originals.values(), key=lambda one: stored[one].date, reverse=True)[:_MAX_DATED_POSTS]:
        start, end = spans[key][1] or (0, 0)
        quote, date = stored[key].text[start:end], stored[key].date
        citation = Citation(key, quote, start, end, date)
        sentences.append(Sentence(f"{format_post_date(date, question.lang)} {quote}", (citation,)))
    return Draft(tuple(sentences), 1.0) if sentences else None


def _find_phrase(text: str, phrase: str) -> tuple[bool, TextSpan | None]:
    """Find a phrase: whether the text begins with it, and the sentence that holds it, short enough to be quoted."""
    words, whole = f" {phrase} ", f" {build_text_key(text)} "
    if words not in whole:
        return False, None
    spans = [window for one in split_sentences(text) for window in split_long_span(text, one, MAX_FRAMED_QUOTE_LENGTH)]
    if whole.startswith(words):
        return True, spans[0]
    return False, next((one for one in spans if words in f" {build_text_key(text[slice(*one)])} "), spans[0])
