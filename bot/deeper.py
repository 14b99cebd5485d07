"""The same question for more: longer, and with a second, wider search where the first finds no answer."""

from __future__ import annotations

from dataclasses import replace

from aiogram.utils.formatting import Italic, Text, as_list

from bot import kept
from bot.kept import Json
from bot.keyboard import DEEP
from bot.words import Words
from rag_core.doors.archive import Archive
from rag_core.doors.archive.given import before_it
from rag_core.doors.archive.questions import Asked
from rag_core.rag import Rag

__all__ = ["SENTENCES", "noted", "searching"]

SENTENCES = 5  # the most that an answer may have
_ROUNDS = 2
_KEEP = 80  # passages kept of both legs: twice as many as usual


def searching(asked: Asked, rag: Rag) -> Rag:
    """What a question is answered with: the tray as it is, or one that searches wider and says more."""
    if asked.mode != DEEP:
        return rag
    usual = rag.settings
    answer = usual.answer.model_copy(update={"sentences": SENTENCES})
    retrieval = usual.retrieval.model_copy(update={"rounds": _ROUNDS, "keep": max(_KEEP, usual.retrieval.keep)})
    return replace(rag, settings=usual.model_copy(update={"answer": answer, "retrieval": retrieval}))


async def noted(said: Text, asked: Asked, found: Json, archive: Archive, words: Words) -> Text:
    """The answer with a line that says whether asking deeper brought up anything new."""
    if asked.mode != DEEP:
        return said
    earlier = await before_it(archive, asked.bot_id, asked.chat_id, asked.message_id, asked.id)
    known = {one.key for one in kept.read(earlier.answer).cited} if earlier else set()
    more = sum((chat, message) not in known for chat, message, *_ in found["cited"])
    return as_list(said, Italic(words("deeper-note", count=more)), sep="\n\n")
