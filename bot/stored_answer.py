"""Stored form of an answer in the archive: its sentences, cited posts and found posts, as JSON; and the traces of runs.

It holds the positions of the citations in the posts and no words of them: a text that is deleted or closed must not
live on in old answers, so that only the words around the quotes are stored.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from bot.background import run_in_background
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable
from rag_core.run import Run
from rag_core.storage import Archive, visible_posts
from rag_core.storage.posts import list_post_versions
from rag_core.storage.questions import save_trace
from rag_core.types import Answer, Certainty, Post, PostKey, Viewer
from rag_core.verification import Label, Verification

JsonObject = dict[str, Any]


class CitedPost(NamedTuple):
    """Cited post: its date, and `mark`, the hash of its text at that time; "" where the text had just gone."""

    chat_id: int
    message_id: int
    date: datetime
    mark: str

    @property
    def key(self) -> PostKey:
        """Key of the post."""
        return PostKey(self.chat_id, self.message_id)


class CitedSpan(NamedTuple):
    """Cited span: code points in the text that the post had when it was cited."""

    chat_id: int
    message_id: int
    start: int
    end: int

    @property
    def key(self) -> PostKey:
        """Key of the post."""
        return PostKey(self.chat_id, self.message_id)


@dataclass(frozen=True)
class StoredSentence:
    """Stored sentence: the words around the quote, and the cited spans.

    `quote` is the index of the span whose words end the sentence verbatim; None where the sentence is no quote.
    """

    around: str = ""
    quote: int | None = None
    citations: tuple[CitedSpan, ...] = ()

    def compose(self, texts: Mapping[PostKey, str]) -> str:
        """Compose the sentence again; `texts` are those that its posts had when they were cited."""
        if self.quote is None:
            return self.around
        place = self.citations[self.quote]
        return f"{self.around} {texts[place.key][place.start : place.end]}".strip()


@dataclass(frozen=True)
class StoredAnswer:
    """Stored answer: `cited` in the order of their numbers, and all posts that were `found`, best first.

    `judged`: a model's log odds that its first sentence answers, None where none was asked. `noted` are the changes of
    its posts that its message tells: chat, message, and whether the post was deleted. `rich`: it is a rich message.
    `passed`: posts of the answers before it to the same question, which the reader did not mean.
    """

    cited: tuple[CitedPost, ...] = ()
    found: tuple[PostKey, ...] = ()
    shortfalls: tuple[str, ...] = ()
    trace_id: str = ""
    sentences: tuple[StoredSentence, ...] = ()
    messages: tuple[int, ...] = ()
    certainty: Certainty = Certainty.SURE
    confidence: float = 1.0
    noted: frozenset[tuple[int, int, bool]] = frozenset()
    judged: float | None = None
    rich: bool = False
    passed: tuple[PostKey, ...] = ()

    @property
    def others(self) -> tuple[PostKey, ...]:
        """Posts that were found and are not cited."""
        numbered = {one.key for one in self.cited}
        return tuple(key for key in dict.fromkeys(self.found) if key not in numbered)

    @property
    def quotes(self) -> tuple[CitedSpan, ...]:
        """Cited spans, each once, in order."""
        return tuple(dict.fromkeys(place for sentence in self.sentences for place in sentence.citations))


_STORED_ANSWERS = TypeAdapter(StoredAnswer)


def hash_text_version(text: str) -> str:
    """Hash a post's text to tell versions apart, ignoring white space at its ends. It does not reveal the text."""
    return blake2b(text.strip().encode(), digest_size=8).hexdigest()


def is_text_version(post: Post, mark: str) -> bool:
    """Whether a post has the text of this hash, or had it until the text of its file was read."""
    return mark in (hash_text_version(post.text), hash_text_version(post.own_text))


async def load_cited_text(post: Post, mark: str, archive: Archive) -> str | None:
    """Load the text that a post had when it was cited, by its hash; None where it is not stored."""
    if is_text_version(post, mark):
        return post.text
    older = await list_post_versions(archive, post.key)
    return next((version.text for version in older if hash_text_version(version.text) == mark), None)


class StandingAnswer(NamedTuple):
    """Answer beside its posts as they are now: `stored` those that this viewer may read, `texts` as they were cited."""

    stored: Mapping[PostKey, Post]
    texts: Mapping[PostKey, str]

    def holds(self, place: CitedSpan) -> bool:
        """Whether the cited words still stand in their post."""
        text = self.texts.get(place.key)
        return text is not None and text[place.start : place.end] in self.stored[place.key].text


async def compare_with_posts(answer: StoredAnswer, viewer: Viewer, archive: Archive) -> StandingAnswer:
    """Compare an answer with its posts as they are now. Raises ArchiveUnavailable."""
    cited = [one for one in answer.cited if one.key.chat_id in viewer.channels]
    stored = await visible_posts.fetch_posts(archive, [one.key for one in cited])
    found = {one.key: await load_cited_text(stored[one.key], one.mark, archive) for one in cited if one.key in stored}
    return StandingAnswer(stored, {key: text for key, text in found.items() if text is not None})


def serialize_answer(answer: Answer, posts: Mapping[PostKey, Post]) -> JsonObject:
    """Serialize an answer for the archive; `posts` are those it cites, as they are now."""
    cited = [c for s in answer.sentences for c in s.citations]
    dates = {c.post: int(c.date.timestamp()) for c in cited}
    sentences = []
    for sentence in answer.sentences:
        ending = (place for place, c in enumerate(sentence.citations) if c.quote and sentence.text.endswith(c.quote))
        around, quote = sentence.text, next(ending, None)
        if quote is not None:  # else a count, or a model's words
            around = around.removesuffix(sentence.citations[quote].quote)
        places = [[*c.post, c.start, c.end] for c in sentence.citations]
        sentences.append({"around": around.rstrip(), "quote": quote, "citations": places})
    marks = []  # of each post the hash of its text; "" where it was deleted or edited while the answer was written
    for key in answer.posts():
        text = posts[key].text if key in posts else ""
        stands = key in posts and all(text[c.start : c.end] == c.quote for c in cited if c.post == key)
        marks.append([*key, dates[key], hash_text_version(text) if stands else ""])
    return {
        "sentences": sentences,
        "cited": marks,
        "found": [list(source.passage.key) for source in answer.found],
        "confidence": answer.confidence,
        "certainty": answer.certainty.value,
        "judged": answer.judged,
        "recipe": answer.recipe,
        "model": answer.model,
        "shortfalls": [shortfall.stage for shortfall in answer.shortfalls],
        "trace_id": answer.trace_id,
    }


def serialize_verdicts(found: Verification, posts: Mapping[PostKey, Post]) -> JsonObject:
    """Serialize verdicts for the archive, for /why: the posts they cite, as in `serialize_answer`."""
    cited = [c for v in found.verdicts for c in (*v.citations, *v.against)]
    dates = {c.post: int(c.date.timestamp()) for c in cited}
    marks = {key: hash_text_version(posts[key].text) if key in posts else "" for key in dates}
    return {
        "refused": all(verdict.label is Label.NOT_FOUND for verdict in found.verdicts),
        "sentences": [
            {"citations": [[*c.post, c.start, c.end] for c in (*v.citations, *v.against)]} for v in found.verdicts
        ],
        "cited": [[*key, date, marks[key]] for key, date in dates.items()],
        "shortfalls": [shortfall.stage for shortfall in found.shortfalls],
        "trace_id": found.trace_id,
    }


def dump_with_messages(kept: JsonObject, messages: Sequence[int]) -> str:
    """Dump a serialized answer as JSON; `messages` are the ids of the messages it was sent in.

    Their content ("basis", bot/telegram/recheck.py) and a rich message are stored until they have arrived.
    """
    arrived = {name: value for name, value in kept.items() if name not in {"basis", "rich_message"}}
    return json.dumps(arrived | {"messages": list(messages), "rich": "rich_message" in kept}, ensure_ascii=False)


def parse_stored_answer(stored: str | JsonObject) -> StoredAnswer:
    """Parse a stored answer, or what `serialize_answer` made; one that only said that no channel is open is empty."""
    return _STORED_ANSWERS.validate_json(stored) if isinstance(stored, str) else _STORED_ANSWERS.validate_python(stored)


_MAX_WAITING_TRACES = 200  # limits memory while the archive is busy

log = logging.getLogger(__name__)


@asynccontextmanager
async def record_traces(rag: Engine) -> AsyncIterator[None]:
    """Save the traces of all runs in the background while the block lasts; those waiting at its end are still saved."""
    waiting: asyncio.Queue[Run] = asyncio.Queue(_MAX_WAITING_TRACES)
    before: Callable[[Run], None] = rag.traced

    def keep_trace(run: Run) -> None:
        before(run)
        if not waiting.full():
            waiting.put_nowait(run)

    async def work() -> None:
        while True:
            run = await waiting.get()
            try:
                spans = [{one.name: getattr(span, one.name) for one in fields(span)} for span in run.spans]
                without = [short.stage for short in run.shortfalls]
                await save_trace(rag.archive, run.trace_id, run.recipe, spans, without)
            except ArchiveUnavailable as exc:
                log.warning("the trace %s was not kept: %s", run.trace_id, exc.reason)
            except Exception:  # otherwise the loop would end, and `join` would wait for ever
                log.exception("the trace %s was not kept", run.trace_id)
            waiting.task_done()

    rag.traced = keep_trace
    async with run_in_background(work()):
        try:
            yield
        finally:
            rag.traced = before
            await waiting.join()
