"""What is kept of an answer: which places of which posts it stands on, and no words that stand there.

A text that is deleted or closed must not live on in old answers, so only what was said around the quotes is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rag_core.types import Answer, Post, PostKey, Sentence

__all__ = ["Cited", "Json", "Kept", "mark", "read", "with_messages", "written"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cited:
    """A post that was cited: its date, and the `mark` of the text it had then; "" where it had just gone."""

    key: PostKey
    date: datetime
    mark: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer as it was given: `cited` in the order of their numbers, `others` found and not cited, best first."""

    cited: tuple[Cited, ...]
    others: tuple[PostKey, ...]
    shortfalls: tuple[str, ...]


def mark(text: str) -> str:
    """What tells one version of a post from another, white space at the ends aside; no text can be made of it."""
    return blake2b(text.strip().encode(), digest_size=8).hexdigest()


def written(answer: Answer, posts: Mapping[PostKey, Post]) -> Json:
    """What is kept of an answer; `posts` are those it cites, as they are now."""
    dates = {c.post: int(c.date.timestamp()) for s in answer.sentences for c in s.citations}
    return {
        "sentences": [
            {
                "around": _around(sentence),
                "support": sentence.support,
                "citations": [[*c.post, c.start, c.end] for c in sentence.citations],
            }
            for sentence in answer.sentences
        ],
        "cited": [[*key, dates[key], mark(posts[key].text) if key in posts else ""] for key in answer.posts()],
        "found": [list(source.passage.key) for source in answer.found],
        "confidence": answer.confidence,
        "recipe": answer.recipe,
        "model": answer.model,
        "shortfalls": [shortfall.stage for shortfall in answer.shortfalls],
        "trace_id": answer.trace_id,
    }


def with_messages(kept: Json, messages: Sequence[int]) -> str:
    """The JSON text for the archive; `messages` are the ids of those it was sent in."""
    return json.dumps(kept | {"messages": list(messages)}, ensure_ascii=False)


def read(text: str) -> Kept:
    """What was kept; nothing of an answer that only said that no channel is open."""
    raw: Json = json.loads(text)
    cited = tuple(
        Cited(PostKey(chat_id, message_id), datetime.fromtimestamp(date, UTC), then)
        for chat_id, message_id, date, then in raw.get("cited", ())
    )
    numbered = {one.key for one in cited}
    found = dict.fromkeys(PostKey(*key) for key in raw.get("found", ()))
    others = tuple(key for key in found if key not in numbered)
    return Kept(cited, others, tuple(raw.get("shortfalls", ())))


def _around(sentence: Sentence) -> str:
    """What was said before the quote; the whole sentence where it is no quote (a count, a model's words)."""
    quotes = (c.quote for c in sentence.citations if sentence.text.endswith(c.quote))
    return sentence.text.removesuffix(next(quotes, "")).rstrip()
