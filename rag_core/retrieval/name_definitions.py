"""Definitions of names: who or what a name stands for, by the posts that say it, else by the first that names it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage import visible_posts
from rag_core.text.definition_questions import (
    Definition,
    compile_name,
    find_defined_name,
    is_written_as_name,
    read_definition,
)
from rag_core.text.polls import find_poll
from rag_core.text.post_openings import build_text_key
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_into_pieces
from rag_core.text.tokens import tokenize
from rag_core.types import Certainty, Draft, Plan, Post, Question
from rag_core.writing.extract import quote_post_span

_MAX_READ_POSTS = 500  # the newest that have all words of the name, and the first
_MAX_LINES = 3
_SHORT = 45  # characters of a sentence that says little without the next: "Meet Zinaida."


# What was said of a name before may hold no longer.
_CHANGED = re.compile(
    r"(?<!\w)(?:no longer|any more|former|ex-|steps? down|stepped down|retire[sd]?|has left|hands over|"
    r"handed over|takes over|took over|больше не|уже не|бывш\w+|уш[её]л|ушла|уходит)(?!\w)",
    re.IGNORECASE,
)


class _Line(NamedTuple):
    """Sentence of a post about a name, and how it says what that is; `changed`: it speaks of a change."""

    post: Post
    span: TextSpan
    defines: Definition
    changed: bool


async def define_name(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """Say who or what a name stands for: by the posts that define it, else by the first that has it.

    None: no post writes it as a name, so that the question is searched like any other.
    """
    name = find_defined_name(question.text)
    terms = tuple(dict.fromkeys(tokenize(name or "")))
    if name is None or not terms or not question.viewer.channels:
        return None
    places = await asyncio.to_thread(rag.lexical.matching, terms, await resolve_filter(plan, question.viewer, rag))
    keys = list(dict.fromkeys(place.key for place in (*places[:1], *places[-_MAX_READ_POSTS:])))
    stored = await visible_posts.fetch_posts(rag.archive, keys)
    own = (post for post in stored.values() if post.origin is None and not find_poll(post))
    found = sorted(own, key=lambda post: post.date)
    lines, sure = await asyncio.to_thread(_choose_lines, name, found)
    quotes = tuple(quote_post_span(line.post, line.span) for line in lines)
    return Draft(quotes, 1.0, certainty=Certainty.SURE if sure else Certainty.PROBABLE) if quotes else None


def _choose_lines(name: str, found: Sequence[Post]) -> tuple[list[_Line], bool]:
    """Choose the lines that say it, and tell whether they are sure; `found`: oldest first.

    The first that says it plainly comes first, unless one speaks of a change: then the newest of those does.
    """
    as_name, lines, written = compile_name(name), dict[str, _Line](), False
    for post in found:
        pieces = split_into_pieces(post.text)
        for n, (start, end) in enumerate(pieces):
            sentence = post.text[start:end]
            if as_name.search(sentence):
                written = written or is_written_as_name(sentence, name)
                following = pieces[n + 1][1] if n + 1 < len(pieces) else end
                short = end - start < _SHORT and following - start <= MAX_SENTENCE_LENGTH
                span = (start, following if short else end)
                line = _Line(post, span, read_definition(sentence, name), bool(_CHANGED.search(sentence)))
                lines.setdefault(build_text_key(sentence), line)
    if not written:
        return [], False
    defining = [line for line in lines.values() if line.defines]
    plain = [line for line in defining if line.defines is Definition.PLAIN]
    changed = [line for line in lines.values() if line.changed]
    first = changed[-1:] or plain[:1] or defining[:1] or list(lines.values())[:1]
    chosen = dict.fromkeys([*first, *(plain[:1] if changed else ()), *reversed(defining[-2:])])
    return list(chosen)[:_MAX_LINES], bool(plain) and not changed
