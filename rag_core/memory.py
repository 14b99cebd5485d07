"""What was asked before in a talk, so that follow-ups are understood. It is never a source of an answer.

Kept are questions as they stand alone and the names that answers brought, for an hour or so; in forums by topic.
"""

from __future__ import annotations

from datetime import timedelta

from rag_core.doors.archive import choices, talks
from rag_core.doors.archive.talks import Talk, Turn
from rag_core.followup_signs import named
from rag_core.rag import Rag
from rag_core.types import Answer, Question

__all__ = ["afresh", "kept", "moved", "names_of", "on", "recalled", "switched", "talk_of"]

_MOST_TURNS = 20
_MOST_NAMES, _LONGEST_NAME = 8, 60
_CHARACTERS_A_TOKEN = 3  # between English (4) and Russian (2.5); the window need not be exact
_LONGEST = 600  # characters of a question that is kept


def talk_of(question: Question) -> Talk:
    """Whose talk a question belongs to."""
    return Talk(question.chat, question.viewer.user_id, question.thread or 0)


async def on(chat: int, rag: Rag) -> bool:
    """Whether earlier questions are remembered in a chat; 0 is the terminal. Raises ArchiveUnavailable."""
    if not chat or not rag.settings.memory.enabled:
        return False
    return (await choices.remembered(rag.archive)).get(_switch(chat)) != "off"


async def switched(chat: int, rag: Rag, *, to: bool) -> None:
    """Remember earlier questions in a chat, or no longer; then what was remembered is wiped."""
    await choices.remember(rag.archive, _switch(chat), "on" if to else "off")
    if not to:
        await talks.forget(rag.archive, chat=chat)


async def moved(old: int, new: int, rag: Rag) -> None:
    """A group has another id: where nothing was to be remembered, nothing is."""
    if (await choices.remembered(rag.archive)).get(_switch(old)) == "off":
        await switched(new, rag, to=False)


async def recalled(question: Question, rag: Rag) -> tuple[Turn, ...]:
    """The turns before a question, oldest first: the newest that fit into the window. Raises ArchiveUnavailable."""
    if not await on(question.chat, rag):
        return ()
    since = question.asked_at - timedelta(minutes=rag.settings.memory.minutes)
    left, found = rag.settings.memory.tokens, list[Turn]()
    for turn in await talks.recent(rag.archive, talk_of(question), since):
        left -= sum(len(text) for text in (turn.question, *turn.entities)) // _CHARACTERS_A_TOKEN + 1
        if left < 0:
            break
        found.append(turn)
    return tuple(reversed(found))


async def kept(question: Question, answer: Answer, rag: Rag) -> None:
    """Remember an answered question, which stands alone, and wipe what is too old. Raises ArchiveUnavailable."""
    if not await on(question.chat, rag):
        return
    archive, at = rag.archive, question.asked_at
    turn = Turn(question.text[:_LONGEST], names_of(answer))
    await talks.expire(archive, at - timedelta(minutes=rag.settings.memory.minutes))
    await talks.add(archive, talk_of(question), turn, at, _MOST_TURNS)
    await talks.counted(archive, "kept", at)


def names_of(answer: Answer) -> tuple[str, ...]:
    """The names in an answer, each once, in their order."""
    found = [name.text[:_LONGEST_NAME] for sentence in answer.sentences for name in named(sentence.text)]
    return tuple(dict.fromkeys(found))[:_MOST_NAMES]


async def afresh(talk: Talk, rag: Rag) -> int:
    """Begin a talk anew: nothing of it is remembered. Returns how many turns are wiped."""
    return await talks.forget(rag.archive, user=talk.user, chat=talk.chat, thread=talk.thread)


def _switch(chat: int) -> str:
    return f"memory {chat}"
