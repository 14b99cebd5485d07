"""Conversation memory: earlier questions of a reader, for about an hour; in forums by topic.

It is never a source of an answer. Memory holds rewritten questions and the names in their answers; a follow-up is
rewritten with them (followups.py).
"""

from __future__ import annotations

from datetime import timedelta

from rag_core.conversation.followups import find_question_names, is_followup, rewrite_followup
from rag_core.engine import Engine
from rag_core.run import Run, Stage
from rag_core.storage.readers import (
    ConversationKey,
    ConversationTurn,
    expire_turns,
    forget_turns,
    list_recent_turns,
    load_choices,
    remember_turn,
    save_choice,
)
from rag_core.types import Answer, Question

_MAX_TURNS, _MAX_TOKENS = 20, 400
_MAX_NAMES, _MAX_NAME_LENGTH = 8, 60
_CHARACTERS_PER_TOKEN = 3  # between English (4) and Russian (2.5); the window need not be exact
_MAX_STORED_LENGTH = 600  # characters of a stored question


def identify_conversation(question: Question) -> ConversationKey:
    """Key of the conversation of a question: chat, reader and forum topic."""
    return ConversationKey(question.chat, question.viewer.user_id, question.thread or 0)


async def is_memory_enabled(chat: int, rag: Engine) -> bool:
    """Whether earlier questions are remembered in a chat; 0 is the terminal. Raises ArchiveUnavailable."""
    if not chat or not rag.settings.memory.enabled:
        return False
    return (await load_choices(rag.archive)).get(_build_setting_key(chat)) != "off"


async def set_memory_enabled(chat: int, rag: Engine, *, to: bool) -> None:
    """Switch the memory of a chat on or off; switching off deletes its turns."""
    await save_choice(rag.archive, _build_setting_key(chat), "on" if to else "off")
    if not to:
        await forget_turns(rag.archive, chat=chat)


async def load_turns(question: Question, rag: Engine) -> tuple[ConversationTurn, ...]:
    """Load the newest turns that fit into the token window, oldest first. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return ()
    since = question.asked_at - timedelta(minutes=rag.settings.memory.minutes)
    left, turns = _MAX_TOKENS, list[ConversationTurn]()
    for turn in await list_recent_turns(rag.archive, identify_conversation(question), since):
        left -= sum(len(text) for text in (turn.question, *turn.entities)) // _CHARACTERS_PER_TOKEN + 1
        if left < 0:
            break
        turns.append(turn)
    return tuple(reversed(turns))


async def resolve_followup(question: Question, rag: Engine, run: Run) -> tuple[Question, bool]:
    """Rewrite a follow-up with the stored turns of its conversation; other questions stay unchanged.

    Returns also whether it is a sentence that readers may be shown.
    """
    turns = await run.attempt(Stage.MEMORY, load_turns(question, rag), ())
    return await rewrite_followup(question, turns, rag, run) if turns else (question, True)


async def follows_earlier_question(question: Question, rag: Engine) -> bool:
    """Whether a question is a follow-up in a conversation that is remembered. Raises ArchiveUnavailable."""
    return is_followup(question.text, question.asked_at) and bool(await load_turns(question, rag))


async def remember_answer(question: Question, answer: Answer, rag: Engine) -> None:
    """Store an answered standalone question as a turn, and delete expired turns. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return
    archive, at = rag.archive, question.asked_at
    names = (name.text[:_MAX_NAME_LENGTH] for s in answer.sentences for name in find_question_names(s.text))
    turn = ConversationTurn(question.text[:_MAX_STORED_LENGTH], tuple(dict.fromkeys(names))[:_MAX_NAMES])
    await expire_turns(archive, at - timedelta(minutes=rag.settings.memory.minutes))
    await remember_turn(archive, identify_conversation(question), turn, at, _MAX_TURNS)


async def start_new_conversation(talk: ConversationKey, rag: Engine) -> int:
    """Delete the turns of a conversation; the number of deleted turns."""
    return await forget_turns(rag.archive, user=talk.user, chat=talk.chat, thread=talk.thread)


def _build_setting_key(chat: int) -> str:
    return f"memory {chat}"
