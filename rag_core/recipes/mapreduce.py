"""`mapreduce`, for small models: one post at a time is turned into facts, and the answer is written from these alone.

At most two calls beside one for each post. A fact keeps the number of its post, and is held against it at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_core.analysis import terms
from rag_core.asked import Asked
from rag_core.costs import Costs
from rag_core.doors.llm import LanguageModel
from rag_core.errors import GenerationFailed, RagError, RecipeFailed
from rag_core.extract import best_pieces, quoted
from rag_core.facts import Mapped, mapped
from rag_core.rag import Rag
from rag_core.rounds import begun, concluded, looked
from rag_core.stage import Run
from rag_core.support import attributed
from rag_core.types import Draft, Evidence, Question, Sentence, Shortfall, Source
from rag_core.write import write

__all__ = ["mapreduce", "overlap"]

_MOST = 5  # posts that are read
_ENOUGH = 0.7  # of the time for reading, after which no further post is begun
_SENTENCES = 3  # facts shown where they could not be put together
_SLIGHT = 0.2  # overlap of question and answer below which the answer may be about something else
_NO_MODEL = "The recipe mapreduce needs a language model: set LLM__MODEL."
_NOTHING_READ = "The model read none of the posts: try another one with LLM__MODEL."
_ELSEWHERE = "The answer has few of the question's words: it may be about something else."


async def mapreduce(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft from facts and the evidence it stands on. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await begun(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    extract, evidence = await looked(question, plan, rag, run)
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    facts = await run.require("map", _facts(question, evidence.sources[:_MOST], model, rag, run))
    kept = Evidence(tuple(source for source in evidence.sources if facts.get(source.number)))
    draft = await _reduced(question, kept, facts, rag, run) if kept.sources else Draft()
    if not draft.sentences:
        return await concluded(question, plan, Draft((), extract.covered), evidence, rag, run)
    alike = overlap(question, draft, rag)
    if alike < _SLIGHT:
        run.shortfalls.append(Shortfall("overlap", _ELSEWHERE))
    return await concluded(question, plan, replace(draft, covered=alike), evidence, rag, run)


async def _facts(
    question: Question, sources: Sequence[Source], model: LanguageModel, rag: Rag, run: Run
) -> Mapping[int, tuple[Sentence, ...]]:
    """Number of a source -> its facts, each a sentence that it bears out. Raises GenerationFailed."""
    found: dict[int, tuple[Sentence, ...]] = {}
    costs, failed, relevant = Costs(), 0, 0
    try:
        async with run.seated(model, question.viewer.user_id) as seat:
            costs.begin()
            until = time.monotonic() + _ENOUGH * min(rag.settings.budgets.map, run.left)
            for source in sources:
                if time.monotonic() > until:
                    break
                try:
                    one = await mapped(question, source.passage, seat, costs)
                except RagError:
                    failed += 1
                    continue
                relevant += one.relevant
                # rules over words take milliseconds for each post: not on the event loop
                found[source.number] = await asyncio.to_thread(_standing, question, one, source, rag)
    finally:
        run.note(**costs.noted(), failed=failed, relevant=relevant, facts=sum(map(len, found.values())))
    if failed and not found:
        raise GenerationFailed(_NOTHING_READ)
    return found


def _standing(question: Question, one: Mapped, source: Source, rag: Rag) -> tuple[Sentence, ...]:
    """The facts that the post says; its own words where the model only found it relevant."""
    if not one.relevant:
        return ()
    if one.facts is None:
        asked = Asked.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
        pieces = best_pieces(asked, Evidence((source,)), 1, 0.0)
        return tuple(quoted(piece) for piece in pieces)
    return tuple(fact for text in one.facts if (fact := attributed(text, [source])))


async def _reduced(
    question: Question, evidence: Evidence, facts: Mapping[int, tuple[Sentence, ...]], rag: Rag, run: Run
) -> Draft:
    """The answer from facts; the facts themselves where the model does not put them together."""
    shown = Evidence(tuple(_only(source, facts[source.number]) for source in evidence.sources))
    model = rag.writer.name if rag.writer else None
    firsts = [fact for several in facts.values() for fact in several[:1]]
    own = Draft(tuple(firsts[:_SENTENCES]), model=model)
    return await run.attempt("write", write(question, evidence, rag, run, shown), own)


def _only(source: Source, facts: Sequence[Sentence]) -> Source:
    """The source as the model is shown it: its facts, and nothing else of it."""
    return replace(source, passage=replace(source.passage, text="\n".join(fact.text for fact in facts)))


def overlap(question: Question, draft: Draft, rag: Rag) -> float:
    """The share of the question's weight whose terms stand in the answer or in the words it cites, 0..1."""
    asked = Asked.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
    said = [sentence.text for sentence in draft.sentences]
    said += [citation.quote for sentence in draft.sentences for citation in sentence.citations]
    there = frozenset(term for text in said for term in terms(text))
    return min(1.0, asked.met(there) + asked.kin(there))
