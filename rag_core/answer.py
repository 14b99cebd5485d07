"""Question answering, the map: understand, plan, choose a recipe, run it with a fallback, cite, verify.

A recipe searches with the plan, extracts and perhaps writes (`recipe_steps.py`, `recipes/`). All end in the same two
stages, cite and verify; nothing is shown that has not passed both.

Choice: the chat's own mode goes first, then the admins' switches, which hold for everyone, then the rules of the
router. A recipe that is switched off is not used. When too many questions wait, all are answered by `direct`.

Fallback: a recipe has the question's time less a reserve (15 s, at most a third). Where it fails or passes its time,
`direct` answers within the reserve, and the failure is a shortfall of the answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

from rag_core.conversation.followups import remember_answer, resolve_followup
from rag_core.conversation.small_talk import strip_courtesies
from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.errors import ModelTooSlow, RagError, StageTimeout
from rag_core.evidence import check_citations, is_boilerplate, keep_current_citations, keep_current_passages
from rag_core.llm.protocol import QueuePositionCallback
from rag_core.llm.rates import reserve_for_fallback
from rag_core.planning.plan import plan_question
from rag_core.recipe_steps import Round, run_direct
from rag_core.run import MIN_STAGE_S, Run, Span, Stage
from rag_core.storage.channels import load_channels
from rag_core.storage.readers import AnswerMode, load_choices, load_recipe_choices, save_choice
from rag_core.storage.visible_posts import load_posts_and_channels
from rag_core.text.tokens import fold_characters
from rag_core.types import (
    AGENT_RECIPE,
    AUTO_RECIPE,
    DIRECT_RECIPE,
    Answer,
    Certainty,
    Draft,
    Evidence,
    Passage,
    Plan,
    Question,
    Sentence,
    Shortfall,
)
from rag_core.verification.support import measure_support
from rag_core.writing.extract import find_addresses
from rag_core.writing.write import reflect_on_draft

RECIPES = ("direct", "agent", "mapreduce", "council", "react")
_SWITCH_PREFIX = "recipe."  # before a recipe's name, in the stored choices of admins
_ON, _OFF = "on", "off"
_MAX_WAITING_QUESTIONS = 4  # with more, all are answered by `direct`


async def answer_question(
    question: Question,
    rag: Engine,
    *,
    on_sentence: Callable[[Sentence], None] | None = None,
    on_place: QueuePositionCallback | None = None,
    on_extract: Callable[[Answer], None] | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> Answer:
    """Answer from the channels this viewer may read, or refuse. Raises RagError when neither is possible.

    Callbacks: `on_sentence` gets each sentence of a model as soon as it is written (the final answer may differ);
    `on_place` the number of questions before this one in the model's queue; `on_extract` a preview that quotes the
    posts, before the model is waited for, perhaps more than once; `on_stage` the name of each stage that begins.
    """

    async def report_draft(draft: Draft) -> None:
        """Report the extract as a preview, if its citations are still valid."""
        if on_extract and (current := await check_citations(draft, question.viewer, rag)):
            readable = question.viewer.select_readable(await load_channels(rag.archive))
            on_extract(Answer(current, draft.likely, DIRECT_RECIPE, channels=readable, certainty=draft.certainty))

    run = Run(
        rag.budgets,
        DIRECT_RECIPE,
        shortfalls=[*rag.without, *question.viewer.list_shortfalls()],
        on_sentence=on_sentence,
        on_place=on_place,
        on_extract=report_draft if on_extract else None,
        on_stage=on_stage,
        results=[] if rag.show_results else None,
    )
    try:
        asked = replace(question, text=strip_courtesies(fold_characters(question.text)))
        question, spoken = await resolve_followup(asked, rag, run) if asked.chat else (asked, True)
        plan = await plan_question(question, rag, run)
        choosing = choose_recipe(question, plan, rag, run)
        choice = await run.attempt(Stage.CHOOSE, choosing, AnswerMode(DIRECT_RECIPE))
        # search, extract or write
        found = await run_recipe(choice.recipe, question, plan, rag, run, careful=choice.careful)
        answer = await _cite_and_compose(found, question, rag, run)
        if question.text != asked.text:
            answer = replace(answer, understood=question.text, restated=question.text if spoken else "")
        # memory is read by follow-ups only, never as a source; words put together for a search are no subject of a talk
        if question.chat and spoken:
            await run.attempt(Stage.MEMORY, remember_answer(question, answer, rag), None)
        return answer
    finally:
        if run.dropped:
            rag.caches.dropped[run.trace_id] = tuple(run.dropped)
        rag.traced(run)


async def choose_recipe(question: Question, plan: Plan, rag: Engine, run: Run) -> AnswerMode:
    """Choose the recipe of a question, and note it in the trace with the reason. Raises ArchiveUnavailable."""
    wanted, why, careful = rag.recipe, "asked for", False
    if rag.recipe == AUTO_RECIPE:
        mode, chosen, waiting = await load_recipe_choices(rag.archive, question.chat)
        wanted, why, careful = mode.recipe, "the chat's mode", mode.careful
        if waiting > _MAX_WAITING_QUESTIONS:
            wanted, why, careful = DIRECT_RECIPE, "many wait", False
        elif wanted == AUTO_RECIPE:
            wanted, why = DIRECT_RECIPE, f"{AGENT_RECIPE} is off"
            switch = chosen.get(_SWITCH_PREFIX + AGENT_RECIPE) or (_ON if rag.settings.agent.enabled else _OFF)
            if switch == _ON and plan.reasons:  # by the router's rules, the last reason of the plan
                wanted, _, why = plan.reasons[-1].partition(": ")
        if wanted not in RECIPES or chosen.get(_SWITCH_PREFIX + wanted) == _OFF:
            wanted, why = DIRECT_RECIPE, f"{wanted} is off"
    run.note(recipe=wanted, why=why, length=len(question.text))
    return AnswerMode(wanted, careful)


def load_recipe(name: str) -> Callable[[Question, Plan, Engine, Run], Awaitable[Round]]:
    """Import a recipe, with its first question: their tables and grammars take 0.1 s."""
    match name:
        case "agent":
            from rag_core.recipes.agent import run_agent as recipe
        case "mapreduce":
            from rag_core.recipes.mapreduce import run_mapreduce as recipe
        case "council":
            from rag_core.recipes.council import run_council as recipe
        case _:
            from rag_core.recipes.react import run_react as recipe
    return recipe


async def run_recipe(
    name: str, question: Question, plan: Plan, rag: Engine, run: Run, *, careful: bool = False
) -> Round:
    """Run a recipe, and `direct` where it fails; `careful`: with a review of the draft. Raises RagError."""
    # `direct` searches in two seconds, and quotes the posts where there is no time left to write
    reserve = 0.0 if name == DIRECT_RECIPE else reserve_for_fallback(rag.budgets.question)
    started, before, failed = time.perf_counter(), list(run.shortfalls), None
    run.recipe = name
    try:
        async with run.within(rag.budgets.question - reserve):
            recipe = run_direct if name == DIRECT_RECIPE else load_recipe(name)
            found = await recipe(question, plan, rag, run)
            # it found nothing because its stages had no time: `direct` may
            if reserve and not found.draft.sentences and run.left <= run.after_models + MIN_STAGE_S:
                raise StageTimeout("There was no time to answer the question as was wanted: raise ANSWER__SECONDS.")
            if not careful:
                return found
            return replace(found, draft=await reflect_on_draft(question, found.draft, found.evidence, rag, run))
    except BaseException as exc:
        failed = exc
        if not reserve or not isinstance(exc, RagError):
            raise
        told = () if isinstance(exc, ModelTooSlow) else (Shortfall("recipe", f"{name}: {exc.reason}"),)
        run.recipe, run.shortfalls[:] = DIRECT_RECIPE, [*before, *told]
    finally:
        if reserve:
            took = round((time.perf_counter() - started) * 1000, 3)
            run.spans.append(Span(name, took, {}, type(failed).__name__ if failed else None))
    async with run.within(reserve):
        return await run_direct(question, plan, rag, run)


_AGED = timedelta(days=183)  # what an older post says of prices and hours has often changed


async def _cite_and_compose(found: Round, question: Question, rag: Engine, run: Run) -> Answer:
    """Compose the answer of what its posts still say, or the refusal with the nearest posts."""
    draft, viewer = found.draft, question.viewer
    async with run.stage(Stage.CITE):  # posts may have been edited, deleted or closed while the answer was made
        keys = {citation.post for one in draft.sentences for citation in one.citations}
        keys |= {source.passage.key for source in found.evidence.sources}
        stored, known = await load_posts_and_channels(rag.archive, keys)
        cited, sources = keep_current_citations(draft.sentences, stored, viewer), found.evidence.sources
        here = keep_current_passages([one.passage for one in sources], stored, viewer)
        sources = tuple(one for one in sources if one.passage in here)
    run.show("cite", (f"{one.support:.2f} {one.text}" for one in cited))
    by_model = any(one.support < 1.0 for one in cited)  # the others are verbatim, or computed from the posts
    sentences = await _drop_unsupported(cited, found.evidence, rag, run) if by_model else cited
    nearest: tuple[Passage, ...] = ()
    if not sentences:  # a refusal is of no model, and lacks no part
        nearest = tuple(source.passage for source in sources if source.passage in draft.near)
        draft = Draft((), draft.likely, certainty=Certainty.NONE, judged=draft.judged)
    certainty, shown_quotes = draft.certainty, [c for one in sentences for c in one.citations]
    quoted = [(c.post, c.start, c.end) for c in shown_quotes]
    quoted += [(passage.key, passage.start, passage.end) for passage in nearest]
    shown = " ".join(one.text for one in sentences)
    addresses = find_addresses(question.text, quoted, shown, stored, found.evidence.boilerplate)
    if certainty is Certainty.SURE and any(c.read and c.read.is_doubtful(c.quote) for c in shown_quotes):
        certainty = Certainty.PROBABLE  # heard, or a number that could hardly be read
    first = next((c.date for c in shown_quotes), question.asked_at)
    # a quote of an earlier post below it tells that it is the newest
    alone = all(one.further for one in sentences[1:]) and not parse_period(question.text, question.asked_at)
    return Answer(
        sentences=sentences,
        aged=certainty is Certainty.PROBABLE and alone and question.asked_at - first > _AGED,
        confidence=draft.likely,
        certainty=certainty,
        recipe=run.recipe,
        model=draft.model,
        shortfalls=tuple(dict.fromkeys(run.shortfalls)),  # a second round may have the same shortfalls
        trace_id=run.trace_id,
        nearest=tuple(_cut_signature(one, found.evidence) for one in nearest),
        channels=viewer.select_readable(known),
        copies={s.passage.key: s.passage.copies for s in found.evidence.sources if s.passage.copies},
        found=sources,
        read_as=found.plan.read_as,
        aliases=found.plan.aliases,
        actions=run.list_actions(),
        missing=draft.missing,
        addresses=addresses,
        judged=draft.judged,
    )


def _cut_signature(passage: Passage, evidence: Evidence) -> Passage:
    """Cut the last lines of a passage that most posts of its channel repeat."""
    repeated, lines = evidence.boilerplate.get(passage.key.chat_id, frozenset()), passage.text.split("\n")
    while len(lines) > 1 and is_boilerplate(lines[-1], repeated):
        lines.pop()
    text = "\n".join(lines)
    return replace(passage, text=text, end=passage.start + len(text))


async def _drop_unsupported(
    cited: tuple[Sentence, ...], evidence: Evidence, rag: Engine, run: Run
) -> tuple[Sentence, ...]:
    """Drop the sentences that their posts do not support; where that fails, all that are not verbatim."""

    def is_supported(sentence: Sentence) -> bool:
        posts = {citation.post for citation in sentence.citations}
        passages = [source.passage for source in evidence.sources if source.passage.key in posts]
        return sentence.support == 1.0 or measure_support(sentence.text, passages) >= rag.settings.verify.threshold

    async def keep_and_note() -> tuple[Sentence, ...]:
        kept = await asyncio.to_thread(lambda: tuple(filter(is_supported, cited)))
        run.note(claims=len(cited), verified=len(kept))  # not in the thread, which goes on after a timeout
        return kept

    verbatim = tuple(one for one in cited if one.support == 1.0)
    kept = await run.attempt(Stage.VERIFY, keep_and_note(), verbatim)
    run.show("verify", (f"{'kept' if one in kept else 'dropped'}: {one.text}" for one in cited))
    if len(kept) < len(cited):
        run.shortfalls.append(Shortfall("support", "Sentences were left out: the posts they name do not say them."))
    return kept


async def load_recipe_switches(rag: Engine) -> dict[str, bool]:
    """Load whether each recipe but `direct` may be used."""
    chosen = await load_choices(rag.archive)
    return {name: chosen.get(_SWITCH_PREFIX + name) != _OFF for name in RECIPES if name != DIRECT_RECIPE}


async def set_recipe_enabled(rag: Engine, recipe: str, *, on: bool) -> None:
    """Switch a recipe on or off, from the next question on. Raises ArchiveUnavailable."""
    await save_choice(rag.archive, _SWITCH_PREFIX + recipe, _ON if on else _OFF)
