"""Make questions out of posts: rows of queries.jsonl and corpus.jsonl for a dataset of one's own channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rag_core.text.question_generation import GeneratedQuestion, generate_questions
from rag_core.types import Channel, Post, PostKey

_HELD_BACK_SHARE = 0.2  # share of questions without an answer
# Kinds as in other question sets.
_KINDS = {"price": "price", "until": "when", "hour": "when", "when": "when", "count": "how"}

_Row = dict[str, object]
_Series = list[tuple[Post, GeneratedQuestion]]  # posts that answer the same question, newest first


def make_questions(
    posts: Sequence[Post], known: Mapping[int, Channel], most: int, seed: int
) -> tuple[list[_Row], list[_Row]]:
    """Make rows of queries.jsonl and of corpus.jsonl: at most `most` questions, drawn with `seed`.

    A fifth of the questions has no answer.
    """
    series: dict[tuple[object, ...], _Series] = {}
    for post in sorted(posts, key=lambda one: one.stamp, reverse=True):
        for question in generate_questions(post.text):
            series.setdefault((post.key.chat_id, *question.topic), []).append((post, question))
    clear = [one for one in series.values() if _has_one_newest_value(one)]
    drawn = [clear[n] for n in np.random.default_rng(seed).permutation(len(clear))]
    unanswerable = drawn[: int(min(most, len(drawn)) * _HELD_BACK_SHARE)]
    held_back = {post.key for one in unanswerable for post, _ in one}
    # a post that is held back answers no other question either
    kept = [one for one in drawn[len(unanswerable) :] if not any(post.key in held_back for post, _ in one)]
    queries = [_build_query_row(one, answerable=False) for one in unanswerable]
    queries += [_build_query_row(one, answerable=True) for one in kept[: most - len(unanswerable)]]
    corpus: list[_Row] = [
        {
            "id": _format_post_id(post.key),
            "text": post.text,
            "title": known[post.key.chat_id].title if post.key.chat_id in known else "",
            "date": post.date.isoformat(),
        }
        for post in posts
        if post.key not in held_back
    ]
    return queries, corpus


def _has_one_newest_value(series: _Series) -> bool:
    newest = series[0][0].key
    return len({question.answer for post, question in series if post.key == newest}) == 1


def _build_query_row(series: _Series, *, answerable: bool) -> _Row:
    post, question = series[0]
    row: _Row = {
        "id": f"q{_format_post_id(post.key)}-{question.kind}",
        "text": question.text,
        "lang": question.lang,
        "kind": _KINDS[question.kind],
        "answerable": answerable,
        "group": _format_post_id(post.key),
    }
    if not answerable:
        return {**row, "relevant": [], "answers": []}
    relevant = dict.fromkeys(_format_post_id(one.key) for one, other in series if other.answer == question.answer)
    stale = dict.fromkeys(other.answer for _, other in series if other.answer != question.answer)
    return {**row, "relevant": list(relevant), "answers": [question.answer], "stale": list(stale)}


def _format_post_id(key: PostKey) -> str:
    return f"{key.chat_id}-{key.message_id}"
