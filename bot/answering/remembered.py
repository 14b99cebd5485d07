"""Answers of a moment ago: who asks the same and may read the same gets the same, with the same sources.

An answer is looked at again before it is shown: a post that was edited or deleted, or a channel that was closed,
takes it out at once.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Hashable
from dataclasses import replace

from ingest.duplicates import RECIPE
from rag_core.caches import Memory, Version
from rag_core.choice import switched
from rag_core.cite import cite
from rag_core.doors.archive import channels, copies
from rag_core.doors.archive.modes import mode_of
from rag_core.followup import follows
from rag_core.memory import kept, recalled
from rag_core.rag import Rag
from rag_core.types import Answer, Draft, Question

__all__ = ["Remembered", "same_words"]

# An answer with the 40 passages that were found takes about 80 kB.
_MOST, _AGE_S = 200, 600.0


def same_words(text: str) -> str:
    """The text without what makes no other question of it: case, white space, marks at its end."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" ?!.…")


class Remembered:
    """Answers by question, channels, language, day and model, of one state of the indexes."""

    def __init__(self, rag: Rag, clock: Callable[[], float] = time.monotonic) -> None:
        self._rag = rag
        self._answers: Memory[Answer] = Memory(_MOST, _AGE_S, clock)

    async def key(self, question: Question, mode: str | None) -> Hashable | None:
        """All that an answer depends on, but for the posts; None for one that is not to be remembered.

        That is one that depends on what was asked before, and one that is begun while it is not known which posts
        are copies of which: "also in" may be missing. Raises ArchiveUnavailable.
        """
        if await copies.waiting(self._rag.archive, RECIPE):
            return None
        if follows(question.text, question.asked_at) and await recalled(question, self._rag):
            return None
        models = self._rag.writer, self._rag.planner
        chosen = await mode_of(self._rag.archive, question.chat)
        switches = tuple((await switched(self._rag)).items())
        asked = question.asked_at
        return (
            same_words(question.text), question.lang, question.viewer.channels, asked.date(), asked.tzinfo,
            *(model and model.name for model in models), mode, chosen, switches,
        )  # fmt: skip

    async def get(self, question: Question, key: Hashable | None) -> Answer | None:
        """The answer, if it can still be given as it was; a talk remembers it too. Raises ArchiveUnavailable."""
        known = None if key is None else self._answers.get(key, self._rag.version)
        if known is None:
            return None
        standing = await cite(Draft(known.sentences), question.viewer, self._rag)
        if standing != known.sentences:
            return None
        await kept(question, known, self._rag)
        now = await channels.known(self._rag.archive)
        return replace(known, channels={chat: now[chat] for chat in question.viewer.channels if chat in now})

    def forget(self) -> None:
        """Drop all answers: a reader wants nothing of theirs to be known."""
        self._answers.forget()

    def put(self, key: Hashable | None, version: Version, answer: Answer) -> None:
        """Keep an answer that lacks nothing, begun with this version. Refusals show other posts, and are not kept."""
        if key is not None and not answer.refused and not answer.shortfalls:
            self._answers.put(key, version, answer)
