"""Answer cache: the same question by a reader of the same channels gets the same answer, for ten minutes.

A cached answer is checked again before it is shown: a post that was edited or deleted, or a channel that was
closed, drops it at once. Follow-up questions, refusals and answers with a shortfall are not cached.

A pinned post, which an admin chose as the answer to a question, goes before both, for readers of its channel alone. A
pin holds the post and a keyed hash of the question's terms, none of its words, and goes with the post. Readers who ask
alike get the beginning of the post as it stands now.

This module also saves traces of questions, in the background: a reader never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import unicodedata
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from hashlib import blake2b

from ingest.dedup import describe_fingerprint
from rag_core.caches import IndexVersion, VersionedCache
from rag_core.conversation.memory import follows_earlier_question, remember_answer
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable
from rag_core.recipe_choice import load_recipe_switches
from rag_core.storage import Archive, channels, near_duplicates, visible_posts
from rag_core.storage.questions import save_trace
from rag_core.storage.user_data import load_answer_mode
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.tracing import Run, get_or_make_request_id
from rag_core.types import Answer, Draft, Post, Question, Sentence
from rag_core.verification.support import check_citations
from rag_core.writing.extract import quote_post_span

# An answer with the 40 passages that were found takes about 80 kB.
_MAX_ANSWERS, _MAX_AGE_SECONDS = 200, 600.0


def _normalize_question(text: str) -> str:
    """Normalize a question for the cache key: case, white space and final punctuation are ignored."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" ?!.…")


class AnswerCache:
    """Answer cache by question, channels, language, day and model, valid for one index version."""

    def __init__(self, rag: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self._rag = rag
        self._answers: VersionedCache[Answer] = VersionedCache(_MAX_ANSWERS, _MAX_AGE_SECONDS, clock)

    async def key(self, question: Question, mode: str | None) -> Hashable | None:
        """Cache key: all that an answer depends on, except the posts; None for a question that is not cached.

        Not cached: follow-up questions, and questions asked while changed posts wait for copy detection, because "also
        in" may be missing. Raises ArchiveUnavailable.
        """
        if await near_duplicates.count_uncompared_changes(self._rag.archive, describe_fingerprint()):
            return None
        if await follows_earlier_question(question, self._rag):
            return None
        models = self._rag.writer, self._rag.planner
        chosen = await load_answer_mode(self._rag.archive, question.chat)
        switches = tuple((await load_recipe_switches(self._rag)).items())
        asked = question.asked_at
        return (
            _normalize_question(question.text), question.lang, question.viewer.channels, asked.date(), asked.tzinfo,
            *(model and model.name for model in models), mode, chosen, switches,
        )  # fmt: skip

    async def get(self, question: Question, key: Hashable | None) -> Answer | None:
        """Cached answer, if its citations still hold; also added to the conversation. Raises ArchiveUnavailable."""
        known = None if key is None else self._answers.get(key, self._rag.version)
        if known is None:
            return None
        sentences = await check_citations(Draft(known.sentences), question.viewer, self._rag)
        if sentences != known.sentences:
            return None
        await remember_answer(question, known, self._rag)
        now = await channels.load_channels(self._rag.archive)
        return replace(known, channels={chat: now[chat] for chat in question.viewer.channels if chat in now})

    def forget(self) -> None:
        """Drop all answers, for a reader who has their data erased."""
        self._answers.forget()

    def store(self, key: Hashable | None, version: IndexVersion, answer: Answer) -> None:
        """Cache an answer without shortfalls, made with this index version.

        Refusals show other posts and are not cached.
        """
        if key is not None and not answer.refused and not answer.shortfalls:
            self._answers.store(key, version, answer)


PINNED_RECIPE = "pinned"
_MAX_PIN_LENGTH = 600  # characters shown of the post


def extract_question_terms(text: str) -> frozenset[str]:
    """Extract the terms by which questions are alike: all but the words of asking, or all where there are no others."""
    terms = frozenset(tokenize(text))
    return frozenset(term for term in terms if not is_asking_word(term)) or terms


def hash_question(text: str, archive: Archive) -> str:
    """Hash the terms of a question with the archive's key: the same for questions that are alike."""
    terms = " ".join(sorted(extract_question_terms(text)))
    return urlsafe_b64encode(blake2b(terms.encode(), key=archive.identity.encode(), digest_size=9).digest()).decode()


async def answer_from_pin(question: Question, rag: Engine) -> Answer | None:
    """Answer from the pinned post; None where no post is pinned that this asker may read, or for a follow-up."""
    pinned = await channels.find_pinned_post(
        rag.archive, hash_question(question.text, rag.archive), question.viewer.channels
    )
    post = (await visible_posts.fetch_posts(rag.archive, [pinned])).get(pinned) if pinned else None
    sentences = _quote_beginning(post) if post else ()
    if not sentences or await follows_earlier_question(question, rag):
        return None
    known = await channels.load_channels(rag.archive)
    titles = {chat: known[chat] for chat in question.viewer.channels if chat in known}
    answer = Answer(sentences, 1.0, PINNED_RECIPE, trace_id=get_or_make_request_id(), channels=titles)
    await remember_answer(question, answer, rag)
    return answer


def _quote_beginning(post: Post) -> tuple[Sentence, ...]:
    quoted: list[Sentence] = []
    length = 0
    for span in split_sentences(post.text):
        for start, end in split_long_span(post.text, span)[:1]:
            length += end - start
            if length > _MAX_PIN_LENGTH:
                return tuple(quoted)
            quoted.append(quote_post_span(post, (start, end)))
    return tuple(quoted)


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
                spans = [asdict(span) for span in run.spans]
                await save_trace(
                    rag.archive, run.trace_id, run.recipe, spans, [short.stage for short in run.shortfalls]
                )
            except ArchiveUnavailable as exc:
                log.warning("the trace %s was not kept: %s", run.trace_id, exc.reason)
            except Exception:  # otherwise the loop would end, and `join` would wait for ever
                log.exception("the trace %s was not kept", run.trace_id)
            waiting.task_done()

    rag.traced = keep_trace
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        rag.traced = before
        await waiting.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
