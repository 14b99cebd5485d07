"""Conversation memory: earlier questions of a reader, for about an hour; in forums by topic.

It is never a source of an answer. Memory holds rewritten questions and the names in their answers. A follow-up is
rewritten with them by a model when it is idle, by rules otherwise. A model may only repeat the conversation: a rewrite
with a new name or number, or with more than one new word, is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from rag_core.conversation.followups import (
    extract_content_words,
    find_question_names,
    is_followup,
    rewrite_by_rules,
)
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.storage import user_data
from rag_core.storage.user_data import ConversationKey, ConversationTurn
from rag_core.text.answer_type import extract_numbers
from rag_core.text.tokens import tokenize
from rag_core.tracing import Run, Stage
from rag_core.types import Answer, Question
from rag_core.writing.grammar import build_paragraph_grammar, clean_reply
from rag_core.writing.prompt_loading import escape_prompt_text, load_prompt, quote_question

_MAX_TURNS = 20
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
    return (await user_data.load_choices(rag.archive)).get(_build_setting_key(chat)) != "off"


async def set_memory_enabled(chat: int, rag: Engine, *, to: bool) -> None:
    """Switch the memory of a chat on or off; switching off deletes its turns."""
    await user_data.save_choice(rag.archive, _build_setting_key(chat), "on" if to else "off")
    if not to:
        await user_data.forget_turns(rag.archive, chat=chat)


async def migrate_memory_setting(old: int, new: int, rag: Engine) -> None:
    """Carry "memory is off" over to the new id of a group."""
    if (await user_data.load_choices(rag.archive)).get(_build_setting_key(old)) == "off":
        await set_memory_enabled(new, rag, to=False)


async def load_turns(question: Question, rag: Engine) -> tuple[ConversationTurn, ...]:
    """Load the newest turns that fit into the token window, oldest first. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return ()
    since = question.asked_at - timedelta(minutes=rag.settings.memory.minutes)
    left, turns = rag.settings.memory.tokens, list[ConversationTurn]()
    for turn in await user_data.list_recent_turns(rag.archive, identify_conversation(question), since):
        left -= sum(len(text) for text in (turn.question, *turn.entities)) // _CHARACTERS_PER_TOKEN + 1
        if left < 0:
            break
        turns.append(turn)
    return tuple(reversed(turns))


async def follows_earlier_question(question: Question, rag: Engine) -> bool:
    """Whether a question is a follow-up in a conversation that is remembered. Raises ArchiveUnavailable."""
    return is_followup(question.text, question.asked_at) and bool(await load_turns(question, rag))


async def remember_answer(question: Question, answer: Answer, rag: Engine) -> None:
    """Store an answered standalone question as a turn, and delete expired turns. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return
    archive, at = rag.archive, question.asked_at
    turn = ConversationTurn(question.text[:_MAX_STORED_LENGTH], extract_answer_names(answer))
    await user_data.expire_turns(archive, at - timedelta(minutes=rag.settings.memory.minutes))
    await user_data.remember_turn(archive, identify_conversation(question), turn, at, _MAX_TURNS)


def extract_answer_names(answer: Answer) -> tuple[str, ...]:
    """Extract the names in an answer, each once, in order."""
    names = [
        name.text[:_MAX_NAME_LENGTH] for sentence in answer.sentences for name in find_question_names(sentence.text)
    ]
    return tuple(dict.fromkeys(names))[:_MAX_NAMES]


async def start_new_conversation(talk: ConversationKey, rag: Engine) -> int:
    """Delete the turns of a conversation; the number of deleted turns."""
    return await user_data.forget_turns(rag.archive, user=talk.user, chat=talk.chat, thread=talk.thread)


def _build_setting_key(chat: int) -> str:
    return f"memory {chat}"


_MAX_REWRITE_LENGTH, _MAX_REWRITE_TOKENS = 200, 96
_SHOWN_TURNS = 3  # earlier questions in the prompt
_REWRITE_REJECTED = "The model's question was not the one that was asked: the rules' is taken."


async def resolve_followup(question: Question, rag: Engine, run: Run) -> Question:
    """Rewrite a follow-up with the stored turns of its conversation; other questions stay unchanged."""
    turns = await run.attempt(Stage.MEMORY, load_turns(question, rag), ())
    return await rewrite_followup(question, turns, rag, run)


async def rewrite_followup(question: Question, turns: Sequence[ConversationTurn], rag: Engine, run: Run) -> Question:
    """Rewrite a follow-up as a standalone question, by a model where one is idle, else by rules; turns oldest first."""
    if not turns or not is_followup(question.text, question.asked_at):
        return question
    by_rules = rewrite_by_rules(question.text, turns, question.asked_at)
    model = rag.planner or rag.writer
    text = by_rules
    if model is not None and not model.waiting:
        text = await run.attempt(Stage.FOLLOWUP, _rewrite_by_model(question, turns, model, run), by_rules)
    return replace(question, text=text)


async def _rewrite_by_model(
    question: Question, turns: Sequence[ConversationTurn], model: LanguageModel, run: Run
) -> str:
    """Rewrite by the model; call it in a stage. Raises GenerationFailed, also for an unfaithful rewrite."""
    template = load_prompt("followup", question.lang)
    prompt = Prompt(template.system, f"{_format_turns(turns)}\n{quote_question(question.text)}", template.shots)
    grammar = build_paragraph_grammar(_MAX_REWRITE_LENGTH)
    decoding = DecodingParams(_MAX_REWRITE_TOKENS, 0.0)
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=grammar)
    text = " ".join(clean_reply(reply).split())[:_MAX_REWRITE_LENGTH]
    if not _is_faithful_rewrite(text, question.text, turns):
        raise GenerationFailed(_REWRITE_REJECTED)
    return text


def _format_turns(turns: Sequence[ConversationTurn]) -> str:
    lines = (
        f"{escape_prompt_text(turn.question)} ({escape_prompt_text(', '.join(turn.entities))})".removesuffix(" ()")
        for turn in turns[-_SHOWN_TURNS:]
    )
    return "<talk>\n{}\n</talk>".format("\n".join(lines))


def _is_faithful_rewrite(text: str, asked: str, turns: Sequence[ConversationTurn]) -> bool:
    """Whether a rewrite keeps the follow-up and the topic, and adds no name, no number and at most one word."""
    history = " ".join(part for turn in turns for part in (turn.question, *turn.entities))
    own, before, rewritten = set(tokenize(asked)), set(tokenize(history)), set(tokenize(text))
    names = {term for name in find_question_names(text) for term in tokenize(name.text)}
    kept = {term for word in extract_content_words(asked) for term in tokenize(word)} | set(extract_numbers(asked))
    return (
        bool(rewritten & before)
        and kept <= rewritten | set(extract_numbers(text))
        and names <= own | before
        and extract_numbers(text) <= extract_numbers(f"{asked} {history}")
        and len(rewritten - own - before) <= 1
    )
