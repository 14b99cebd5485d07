"""What is kept of an answer: which places of which posts it stands on, and no words that stand there.

A text that is deleted or closed must not live on in old answers, so only what was said around the quotes is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from rag_core.types import Answer, Post, PostKey, Sentence

__all__ = ["Cited", "Json", "Kept", "Quoted", "Said", "given", "mark", "read", "with_messages", "written"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cited:
    """A post that was cited: its date, and the `mark` of the text it had then; "" where that had just gone."""

    key: PostKey
    date: datetime
    mark: str


class Quoted(NamedTuple):
    """A citation: where its words began and ended, in code points of the text that the post had then."""

    key: PostKey
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of an answer: what was said around the quote, and the places in the posts it cites.

    `quote`: which of the places ends the sentence word for word; None where the sentence is no quote.
    """

    around: str
    quote: int | None
    places: tuple[Quoted, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer as it was given: `cited` in the order of their numbers, `others` found and not cited, best first.

    `trace_id` tells this answer from every other.
    """

    cited: tuple[Cited, ...]
    others: tuple[PostKey, ...]
    shortfalls: tuple[str, ...]
    trace_id: str = ""
    sentences: tuple[Said, ...] = ()
    messages: tuple[int, ...] = ()

    @property
    def posts(self) -> tuple[PostKey, ...]:
        """All posts that it names or found."""
        return (*(one.key for one in self.cited), *self.others)

    @property
    def quotes(self) -> tuple[Quoted, ...]:
        """Its citations, each once, in their order."""
        return tuple(dict.fromkeys(place for sentence in self.sentences for place in sentence.places))


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
                "quote": _quoted(sentence),
                "support": sentence.support,
                "citations": [[*c.post, c.start, c.end] for c in sentence.citations],
            }
            for sentence in answer.sentences
        ],
        "cited": [[*key, dates[key], _marked(key, answer, posts)] for key in answer.posts()],
        "found": [list(source.passage.key) for source in answer.found],
        "confidence": answer.confidence,
        "recipe": answer.recipe,
        "model": answer.model,
        "shortfalls": [shortfall.stage for shortfall in answer.shortfalls],
        "trace_id": answer.trace_id,
    }


def with_messages(kept: Json, messages: Sequence[int]) -> str:
    """The JSON text for the archive; `messages` are the ids of those it was sent in.

    What the messages stood on ("basis", bot/recheck.py) is kept until they have arrived, and no longer.
    """
    arrived = {name: value for name, value in kept.items() if name != "basis"}
    return json.dumps(arrived | {"messages": list(messages)}, ensure_ascii=False)


def read(text: str) -> Kept:
    """What was kept; nothing of an answer that only said that no channel is open."""
    return given(json.loads(text))


def given(raw: Json) -> Kept:
    """The same of what was `written` and is not yet in the archive."""
    cited = tuple(
        Cited(PostKey(chat_id, message_id), datetime.fromtimestamp(date, UTC), then)
        for chat_id, message_id, date, then in raw.get("cited", ())
    )
    numbered = {one.key for one in cited}
    found = dict.fromkeys(PostKey(*key) for key in raw.get("found", ()))
    others = tuple(key for key in found if key not in numbered)
    sentences = tuple(
        Said(
            one.get("around", ""),
            one.get("quote"),
            tuple(Quoted(PostKey(chat, message), a, b) for chat, message, a, b in one.get("citations", ())),
        )
        for one in raw.get("sentences", ())
    )
    return Kept(
        cited,
        others,
        tuple(raw.get("shortfalls", ())),
        trace_id=raw.get("trace_id", ""),
        sentences=sentences,
        messages=tuple(raw.get("messages", ())),
    )


def _marked(key: PostKey, answer: Answer, posts: Mapping[PostKey, Post]) -> str:
    """The mark of the text that an answer cites; "" where the post went, or was edited, while it was written."""
    quotes = (c for s in answer.sentences for c in s.citations if c.post == key)
    text = posts[key].text if key in posts else ""
    return mark(text) if key in posts and all(text[c.start : c.end] == c.quote for c in quotes) else ""


def _quoted(sentence: Sentence) -> int | None:
    """Which citation's quote ends the sentence."""
    ends = (place for place, c in enumerate(sentence.citations) if c.quote and sentence.text.endswith(c.quote))
    return next(ends, None)


def _around(sentence: Sentence) -> str:
    """What was said before the quote; the whole sentence where it is no quote (a count, a model's words)."""
    place = _quoted(sentence)
    return sentence.text.removesuffix("" if place is None else sentence.citations[place].quote).rstrip()
