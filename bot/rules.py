"""What a group's admins chose, applied to an answer: how sure it must be, which language is spoken around it."""

from __future__ import annotations

from dataclasses import replace

from bot.words import Words, words_for
from rag_core.doors.archive import Archive
from rag_core.doors.archive.group_rules import rules_of
from rag_core.doors.archive.questions import Asked
from rag_core.types import Answer

__all__ = ["SURE", "kept_to", "words_in"]

SURE = 0.65  # of `Answer.confidence`; answers begin at 0.5, and those just above it are often wrong
_MOST_NEAREST = 3


async def words_in(asked: Asked, archive: Archive) -> Words:
    """The bot's own sentences around an answer: in the group's language where it has one, else the question's."""
    chosen = "" if asked.private else (await rules_of(archive, asked.chat_id)).lang
    return words_for(chosen or asked.lang)


async def kept_to(asked: Asked, answer: Answer, archive: Archive) -> Answer:
    """The answer, or a refusal where the group wants nothing that is not sure and cited."""
    if asked.private or answer.refused or not (await rules_of(archive, asked.chat_id)).cited_only:
        return answer
    if answer.confidence >= SURE and all(sentence.citations for sentence in answer.sentences):
        return answer
    nearest = tuple(source.passage for source in answer.found[:_MOST_NEAREST])
    return replace(answer, sentences=(), model=None, nearest=nearest)
