"""A follow-up as a question that stands alone: by the model when it is idle, by rules otherwise.

The model may only say again what was said: words for which neither the talk nor the follow-up has a reason are not
believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.analysis import terms
from rag_core.costs import Costs
from rag_core.doors.archive import talks
from rag_core.doors.archive.talks import Turn
from rag_core.doors.llm import Decoding, LanguageModel, Prompt, finished
from rag_core.errors import GenerationFailed
from rag_core.followup import follows, stand_alone
from rag_core.followup_signs import content, named
from rag_core.memory import recalled
from rag_core.prompts import script
from rag_core.prose import cleaned, paragraph_grammar
from rag_core.quoting import quoted_question, spoken
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.types import Question
from rag_core.wants import numbers_in

__all__ = ["followed", "resolved"]

_CHARACTERS, _TOKENS = 200, 96
_TURNS = 3  # earlier questions that are shown
_NOT_IT = "The model's question was not the one that was asked: the rules' is taken."


async def followed(question: Question, rag: Rag, run: Run) -> Question:
    """The question as it stands alone in its talk; itself where it is no follow-up, and where nothing is remembered."""
    turns = await run.attempt("memory", recalled(question, rag), ())
    return await resolved(question, turns, rag, run)


async def resolved(question: Question, turns: Sequence[Turn], rag: Rag, run: Run) -> Question:
    """The question as it stands alone after these turns, oldest first."""
    if not turns or not follows(question.text, question.asked_at):
        return question
    by_rules = stand_alone(question.text, turns, question.asked_at)
    model = rag.planner or rag.writer
    text = by_rules
    if model is not None and not model.waiting:
        text = await run.attempt("followup", _by_model(question, turns, model, run), by_rules)
    how = "rules" if text == by_rules else "model"
    await run.attempt("memory", talks.counted(rag.archive, how, question.asked_at), None)
    return replace(question, text=text)


async def _by_model(question: Question, turns: Sequence[Turn], model: LanguageModel, run: Run) -> str:
    """To be called in a stage. Raises GenerationFailed, also for a question that nobody asked."""
    told = script("followup", question.lang)
    prompt = Prompt(told.system, f"{_shown(turns)}\n{quoted_question(question.text)}", told.shots)
    costs = Costs()
    async with run.seated(model, question.viewer.user_id) as seat:
        costs.call()
        end = await finished(seat.stream(prompt, Decoding(_TOKENS, 0.0), grammar=paragraph_grammar(_CHARACTERS)))
    costs.paid(end.figures)
    run.note(**costs.noted())
    text = " ".join(cleaned(end.text).split())[:_CHARACTERS]
    if not _believed(text, question.text, turns):
        raise GenerationFailed(_NOT_IT)
    return text


def _shown(turns: Sequence[Turn]) -> str:
    """The last turns as data between markers."""
    told = [f"{spoken(turn.question)} ({spoken(', '.join(turn.entities))})" for turn in turns[-_TURNS:]]
    lines = [line.removesuffix(" ()") for line in told]
    return "<talk>\n{}\n</talk>".format("\n".join(lines))


def _believed(text: str, asked: str, turns: Sequence[Turn]) -> bool:
    """Whether it asks the follow-up, of what the talk was about, and says no name, number or word of its own."""
    said = " ".join(part for turn in turns for part in (turn.question, *turn.entities))
    own, before, all_of = set(terms(asked)), set(terms(said)), set(terms(text))
    names = {term for name in named(text) for term in terms(name.text)}
    kept = {term for word in content(asked) for term in terms(word)} | set(numbers_in(asked))
    return (
        bool(all_of & before)
        and kept <= all_of | set(numbers_in(text))
        and names <= own | before
        and numbers_in(text) <= numbers_in(f"{asked} {said}")
        and len(all_of - own - before) <= 1
    )
