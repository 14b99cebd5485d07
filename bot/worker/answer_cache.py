"""Answer cache: the same question by a reader of the same channels gets the same answer, for ten minutes.

A cached answer is checked again before it is shown: a post that was edited or deleted, or a channel that was
closed, drops it at once. Follow-up questions, refusals and answers with a shortfall are not cached.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Hashable
from dataclasses import replace

from ingest.dedup import describe_fingerprint
from rag_core.caches import IndexVersion, VersionedCache
from rag_core.conversation.memory import follows_earlier_question, remember_answer
from rag_core.engine import Engine
from rag_core.recipe_choice import load_recipe_switches
from rag_core.storage import channels, near_duplicates
from rag_core.storage.chat_and_admin_settings import load_answer_mode
from rag_core.types import Answer, Draft, Question
from rag_core.verification.support import check_citations

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

        Not cached: follow-up questions, those of a reader some of whose channels could not be looked at, and questions
        asked while changed posts wait for copy detection, because "also in" may be missing. Raises ArchiveUnavailable.
        """
        if question.viewer.list_shortfalls():
            return None
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
