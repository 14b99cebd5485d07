"""Definitions of names: who or what a name stands for, by the posts that say it, else by the first that names it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_core.context.evidence import build_text_key
from rag_core.engine import Engine
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage import posts
from rag_core.text.definition_questions import compile_definition, find_defined_name
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Certainty, Draft, Plan, Post, Question
from rag_core.writing.extract import quote_post_span

_MAX_READ_POSTS = 500  # the newest that have all words of the name, and the first
_MAX_LINES = 3
_SHORT = 45  # characters of a sentence that says little without the next: "Meet Zinaida."


class _Line(NamedTuple):
    """Sentence of a post about a name; `defines`: it says who or what that is, `plain`: in so many words."""

    post: Post
    span: TextSpan
    defines: bool
    plain: bool


async def define_name(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Say who or what a name stands for: the first post that defines it, the latest two that do, or the first mention.

    None: no post names it, or only as a common word: the question is searched like any other.
    """
    name = find_defined_name(question.text)
    terms = tuple(dict.fromkeys(tokenize(name or "")))
    if name is None or not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in (*places[:1], *places[-_MAX_READ_POSTS:])))
    stored = await posts.fetch_posts(rag.archive, keys)
    found = sorted((post for post in stored.values() if post.origin is None), key=lambda post: post.date)
    lines = await asyncio.to_thread(_choose_lines, name, terms, found)
    quotes = tuple(quote_post_span(line.post, line.span) for line in lines)
    sure = bool(lines) and lines[0].plain
    return Draft(quotes, 1.0, certainty=Certainty.SURE if sure else Certainty.PROBABLE) if quotes else None


def _choose_lines(name: str, terms: Sequence[str], found: Sequence[Post]) -> list[_Line]:
    """Choose the lines that say it; `found`: oldest first."""
    definition, as_name = compile_definition(name), _compile_name(name)
    lines: dict[str, _Line] = {}
    for post in found:
        for span in split_sentences(post.text):
            sentence = post.text[slice(*span)]
            if as_name.search(sentence) and set(terms) <= set(tokenize(sentence)):
                defines, plain = bool(definition.any.search(sentence)), bool(definition.plain.search(sentence))
                line = _Line(post, _extend_short(post.text, span), defines, plain)
                lines.setdefault(build_text_key(sentence), line)
    defining = [line for line in lines.values() if line.defines]
    first = next((line for line in defining if line.plain), next(iter((*defining, *lines.values())), None))
    chosen = [*([first] if first else []), *reversed(defining[-2:])]
    return list(dict.fromkeys(chosen))[:_MAX_LINES]


def _compile_name(name: str) -> re.Pattern[str]:
    """Pattern of a name as names are written, with a capital letter or in quotes: "«чинильня»", and no common word."""
    first = fold_case(name).split()[0][:3]
    return re.compile(rf"(?:[«\"“„])(?i:{re.escape(first)})|(?<!\w){re.escape(first.capitalize())}")


def _extend_short(text: str, span: TextSpan) -> TextSpan:
    """Extend a sentence that is short by the next one."""
    start, end = span
    if end - start < _SHORT:
        following = next((one for one in split_sentences(text) if one[0] >= end), None)
        end = following[1] if following and following[1] - start <= MAX_SENTENCE_LENGTH else end
    return split_long_span(text, (start, end), MAX_SENTENCE_LENGTH)[0]
