"""`react`: a model chooses tools, step by step, until it has what it wants; then it writes as in every recipe.

At most four steps, each bound by a grammar. What it read on the way is short; what it thought is dropped.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, zip_longest

from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, LanguageModel, Prompt, Seat, finished
from rag_core.errors import GenerationFailed, RecipeFailed
from rag_core.prompts import script
from rag_core.quoting import quoted_question, spoken
from rag_core.rag import Rag
from rag_core.rounds import begun, concluded, say_what_is_missing, told, weighed
from rag_core.stage import Run
from rag_core.tools import Desk, Outcome, Tool, allowed, call
from rag_core.tools.steps import ANSWER, Move, move_in, step_grammar, step_schema
from rag_core.tools.worked_out import worked_out
from rag_core.types import Draft, Evidence, Hit, Plan, Question

__all__ = ["react"]

_STEPS = 4
_TOKENS, _SPARE = 200, 48  # of a step; beside the counted texts
_OBSERVED = 700  # characters of what a tool gave that the model sees
_NO_MODEL = "The recipe react needs a language model: set LLM__MODEL."
_NOTHING = "The model found no post with its tools."
_UNREADABLE = "The model's step could not be read."
_EXACT = frozenset({"first_mention", "count_mentions", "timeline"})


async def react(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on. Raises RecipeFailed without a model, and where its tools find nothing."""
    model = rag.writer or rag.planner
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await begun(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    desk = Desk(question, rag, run)
    if await _explored(desk, model) in _EXACT and desk.exact is not None:
        await say_what_is_missing(question.viewer, rag, run)
        return desk.exact, Evidence()
    if not desk.found:
        raise RecipeFailed(_NOTHING)
    return await _written(plan, desk)


async def _explored(desk: Desk, model: LanguageModel) -> str:
    """Step after step, until the model wants to answer, repeats itself or fails; the name of the last tool."""
    tools, seen = allowed(desk.rag.settings.tools.allowlist), list[tuple[Move, str]]()
    for desk.step in range(1, _STEPS + 1):
        move = await desk.run.attempt("step", _next(desk, model, tools, seen), None)
        if move is None or move.tool == ANSWER or any(move == before for before, _ in seen):
            break
        async with desk.run.apart():  # a tool has a time of its own
            seen.append((move, _observed(await call(move.call, tools, desk))))
    return seen[-1][0].tool if seen else ""


async def _next(desk: Desk, model: LanguageModel, tools: tuple[Tool, ...], seen: list[tuple[Move, str]]) -> Move | None:
    """What the model does next. To be called in a stage. Raises GenerationFailed."""
    costs = Costs()
    async with desk.run.seated(model, desk.question.viewer.user_id) as seat:
        prompt = await _prompt(desk, model, tools, seen, seat)
        costs.call()
        stream = seat.stream(prompt, Decoding(_TOKENS, 0.0), grammar=step_grammar(tools), schema=step_schema(tools))
        end = await finished(stream)
    costs.paid(end.figures)
    desk.run.note(step=desk.step, **costs.noted())
    move = move_in(end.text)
    if move is None:
        raise GenerationFailed(_UNREADABLE)
    return move


async def _prompt(
    desk: Desk, model: LanguageModel, tools: tuple[Tool, ...], seen: list[tuple[Move, str]], seat: Seat
) -> Prompt:
    """The question, the time it is now, and the last steps: as many as fit."""
    words = script("react", desk.question.lang)
    offered = "\n".join(f"{tool.name}: {words.parts[tool.name]}" for tool in tools if tool.name in words.parts)
    system = f"{words.system}\n{offered}\n{ANSWER}: {words.parts[ANSWER]}"
    now = desk.question.asked_at
    head = f"<now>{now:%Y-%m-%d %H:%M %A}</now>\n{quoted_question(desk.question.text)}"
    steps = [f"<step>\n{spoken(move.said)}\n{spoken(observed)}\n</step>" for move, observed in seen]
    examples = [text for shot in words.shots for text in shot]
    counts = await seat.count([system, head, *examples, *steps])
    left = model.context - _TOKENS - _SPARE - sum(counts[: 2 + len(examples)])
    shots = words.shots if left >= sum(counts[2 + len(examples) :]) else ()
    left += 0 if shots else sum(counts[2 : 2 + len(examples)])
    while steps and sum(counts[-len(steps) :]) > left:
        steps.pop(0)
    return Prompt(system, "\n".join([head, *steps]), shots)


def _observed(outcome: Outcome) -> str:
    """What a tool gave, in short."""
    said = json.dumps(outcome.data, ensure_ascii=False) if outcome.ok else f"error: {outcome.meta.error}"
    return said[:_OBSERVED]


async def _written(plan: Plan, desk: Desk) -> tuple[Draft, Evidence]:
    """From the posts that lie on the desk, as in every recipe."""
    question, rag, run = desk.question, desk.rag, desk.run
    hits = _in_turn(desk)
    draft, evidence = await weighed(question, plan, hits, rag, run)
    written = await told(question, plan, draft, evidence, rag, run)
    if written.sentences and (summed := worked_out(desk)) is not None:
        written = replace(written, sentences=(summed, *written.sentences))
    return await concluded(question, plan, written, evidence, rag, run)


def _in_turn(desk: Desk) -> tuple[Hit, ...]:
    """The best of each tool first, those of the last tool before those of the others: it knew most."""
    rows = zip_longest(*reversed(desk.batches))
    numbers = dict.fromkeys(n for n in chain.from_iterable(rows) if n is not None)
    return tuple(replace(desk.found[n - 1], score=1 / place) for place, n in enumerate(numbers, 1))
