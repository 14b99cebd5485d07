"""The recipe `direct`, and the steps that all recipes share: plan, search, extract, then let a model judge and write.

The plan is made by `planning/plan.py`. The extract (`writing/extract.py`) is finished before a model is
asked: it is the answer where there is no model, and where the model fails, refuses or runs out of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from rag_core.engine import Engine
from rag_core.errors import RecipeFailed, StageTimeout
from rag_core.evidence import add_conflicting_post, compose_evidence, gather_evidence
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.llm.rates import judges_only, writes_in_time
from rag_core.planning.plan import make_plan, widen_plan
from rag_core.retrieval.aggregate import answer_by_aggregation
from rag_core.retrieval.search import note_unindexed_posts, rerank_hits, search_passages
from rag_core.run import Run, Stage
from rag_core.storage.posts import fetch_passages
from rag_core.text.tokens import tokenize
from rag_core.types import (
    Certainty,
    Draft,
    Evidence,
    Hit,
    Kind,
    Passage,
    Plan,
    PostKey,
    Question,
    SearchFilter,
    Shortfall,
    Source,
)
from rag_core.verification.judge import judge_draft
from rag_core.writing.extract import RankedPieces, extract_draft, rank_evidence
from rag_core.writing.extract_candidates import ExtractCandidate, find_successor
from rag_core.writing.prompts import build_paragraph_grammar, clean_reply, load_prompt, quote_question
from rag_core.writing.write import write_draft


@dataclass(frozen=True, slots=True)
class Round:
    """One search for a question: its plan, the posts found, and the draft made of them; without sentences a refusal."""

    plan: Plan
    draft: Draft
    evidence: Evidence = field(default_factory=Evidence)


async def run_direct(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Run the recipe `direct`: one search, and a wider one where nothing in the first is read as an answer."""
    if exact := await answer_exactly(question, plan, rag, run):
        return Round(plan, exact)
    best = await search_and_extract(question, plan, rag, run)
    if rag.planner:
        best = await search_by_model_plan(question, best, rag, run)
    if not best.draft.sentences and best.plan.queries:
        wider = widen_plan(best.plan) if rag.rounds > 1 else best.plan
        wider = await add_hyde_query(question, wider, best.draft, rag, run)
        if wider is not best.plan:
            second = await search_and_extract(question, wider, rag, run)
            best = max(best, second, key=lambda one: one.draft.likely)
    return await complete_answer(question, best, rag, run)


def require_model(recipe: str, model: LanguageModel | None) -> LanguageModel:
    """The model of a recipe that cannot do without one. Raises RecipeFailed."""
    if model is None:
        raise RecipeFailed(f"The recipe {recipe} needs a language model: set LLM__MODEL.")
    return model


_SEARCHED_KINDS = frozenset({Kind.FACT, Kind.LIST, Kind.COMPARE, Kind.SUMMARY, Kind.CLAIM})


async def answer_exactly(question: Question, plan: Plan, rag: Engine, run: Run) -> Draft | None:
    """Answer where the answer is an aggregate over all matching posts, or a claim's verdict."""
    exact = None
    if plan.kind not in _SEARCHED_KINDS:
        # counting over very many posts may take too long: then the question is searched like any other
        exact = await run.attempt(Stage.CHRONICLE, answer_by_aggregation(question, plan, rag), None)
    if plan.kind is Kind.CLAIM:
        from rag_core.verification.verify import answer_claim  # late: its tables take 0.1 s

        exact = await run.attempt(Stage.CLAIM, answer_claim(question, plan, rag, run), None)
    if exact is not None:
        await note_unindexed_posts(question.viewer, rag, run, vectors=False)
    return exact


async def search_and_extract(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Search once, rerank and extract. Search has no fallback: an index that is down is an error."""
    hits = await search_passages(plan, question, rag, run)
    if rag.reranker:  # it may take seconds
        await report_extract(question, plan, hits, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    return await extract_from_hits(question, plan, hits, rag, run)


async def compare_sources(question: Question, plan: Plan, evidence: Evidence, rag: Engine, run: Run) -> Evidence:
    """Compare the question with the tokens of every source, where the embedding model can; each text once in a run."""
    late = any(one.stage == Stage.COMPARE for one in run.shortfalls)
    if late or not rag.dense or not rag.dense.model.centres:  # without centres the vectors of tokens tell nothing
        return evidence
    asked = plan.asked or question.text
    keys = {source.number: (asked, source.passage.text) for source in evidence.sources}
    new = [key for key in dict.fromkeys(keys.values()) if key not in run.similarities]
    if new:
        comparing = rag.dense.embedder.compare(asked, [text for _, text in new])
        run.similarities.update(zip(new, await run.attempt(Stage.COMPARE, comparing, []), strict=False))
    known = {number: run.similarities[key] for number, key in keys.items() if key in run.similarities}
    return replace(evidence, similarities=known)


async def extract_from_hits(question: Question, plan: Plan, hits: Sequence[Hit], rag: Engine, run: Run) -> Round:
    """Compose the evidence from hits, and extract from it."""
    # with the copies of the posts, without them where the archive fails
    gathering = gather_evidence(hits, question.viewer, rag)
    evidence = await run.attempt(Stage.COPIES, gathering, lambda: compose_evidence(hits))
    if rag.passed:
        new = (one for one in evidence.sources if rag.passed.isdisjoint((one.passage.key, *one.passage.copies)))
        evidence = replace(evidence, sources=tuple(new))
    evidence = await compare_sources(question, plan, evidence, rag, run)
    async with run.stage(Stage.RANK):
        # long posts have many pieces to score: in a thread, not on the event loop
        ranked = await asyncio.to_thread(rank_evidence, question, plan, evidence, rag)
    down = any(one.stage.startswith(Stage.LEXICAL) for one in run.shortfalls)  # it would fail once more
    if ranked.may_be_superseded and not plan.has_filters and not down:
        ranked, evidence = await order_in_time(question, plan, ranked, evidence, rag, run)
    async with run.stage(Stage.EXTRACT):
        draft = await asyncio.to_thread(extract_draft, question, plan, ranked, rag)
        run.note(sources=len(evidence.sources), likely=round(draft.likely, 3), sentences=len(draft.sentences),
                 queries=len(plan.queries), legs=plan.legs, route=", ".join(plan.reasons))  # fmt: skip
    return Round(plan, draft, evidence)


_LATER_POSTS = 4  # of the search for the words of a piece
_MAX_CHANGES = 3  # each is searched for and compared: what changed more often is left at the third
_Successor = tuple[ExtractCandidate | None, Evidence]  # and the evidence with the later posts it was sought among


async def _find_later_posts(piece: ExtractCandidate, question: Question, rag: Engine) -> dict[PostKey, Passage]:
    """Find later posts of a piece's channel by its words, best first. Raises IndexUnavailable, ArchiveUnavailable."""
    old = piece.source.passage
    if old.key.chat_id not in question.viewer.channels:
        return {}
    only = SearchFilter(frozenset({old.key.chat_id}), old.date + timedelta(seconds=1), question.asked_at)
    terms = tuple(dict.fromkeys(tokenize(piece.text)))
    found = await asyncio.to_thread(rag.lexical.search, terms, only, _LATER_POSTS)
    passages = await fetch_passages(rag.archive, [place for place, _ in found])
    return {one.key: one for place, _ in found if (one := passages.get(place)) and one.key != old.key}


async def order_in_time(
    question: Question, plan: Plan, ranked: RankedPieces, evidence: Evidence, rag: Engine, run: Run
) -> tuple[RankedPieces, Evidence]:
    """Put the piece first that supersedes the best one; else call that piece earlier which the best one supersedes.

    What changed once may have changed again, so changes are followed to the last. Returns the evidence with the source
    of the first piece, which may be found only here.
    """
    weight = rag.lexical.statistics(question.viewer.channels).weight

    async def find_next(piece: ExtractCandidate, known: Evidence, *, further: bool) -> _Successor:
        later = await run.attempt(Stage.SUCCESSOR, _find_later_posts(piece, question, rag), {})
        keys = {source.passage.key for source in known.sources} | rag.passed
        new = [Source(0, passage, 0.0) for key, passage in later.items() if further and key not in keys]
        wider = await compare_sources(question, plan, known.extend(new), rag, run) if new else known
        return await asyncio.to_thread(find_successor, piece, ranked.asked, wider, tuple(later), weight), wider

    first = ranked.pieces[0]
    changes, wider = [first], evidence
    while len(changes) <= _MAX_CHANGES:
        newest, wider = await find_next(changes[-1], wider, further=True)
        if newest is None:
            break
        changes.append(newest)
    *earlier, newest = changes
    if earlier:
        if newest.source not in evidence.sources:
            evidence = replace(wider, sources=(*evidence.sources, newest.source))
        return ranked.put_first(newest, earlier), evidence
    if older := ranked.next_older:
        newest, _ = await find_next(older, evidence, further=False)
        if newest and newest.source == first.source:
            ranked = ranked.put_first(first, [older])
    return ranked, evidence


_MIN_IMPROVEMENT = 0.1  # by which an answer by the model's plan must be likelier than by the rules


async def search_by_model_plan(question: Question, rules: Round, rag: Engine, run: Run) -> Round:
    """Search with the model's plan where that of the rules found nothing sure; the better of both rounds."""
    plan, draft = rules.plan, rules.draft
    if rag.planner is None or draft.certainty is Certainty.SURE or not plan.queries or judges_only(rag.planner.name):
        return rules
    if run.on_extract and draft.sentences:
        await run.on_extract(draft)
    planned = await run.attempt(Stage.PLAN, make_plan(question, rag, run), plan)
    if planned == plan:
        return rules

    async def search_apart() -> Round:
        async with run.use_separate_budgets():  # its stages have their own budgets
            return await search_and_extract(question, planned, rag, run)

    second = await run.attempt(Stage.AGAIN, search_apart(), rules)
    found = second.draft
    surer = found.certainty is Certainty.SURE or not draft.sentences
    better = surer or found.likely > draft.likely + _MIN_IMPROVEMENT
    if not found.sentences or found.certainty is Certainty.NONE or not better:
        return rules
    return second


async def add_hyde_query(question: Question, plan: Plan, draft: Draft, rag: Engine, run: Run) -> Plan:
    """Add a hypothetical post (HyDE) to the plan, where the posts do not answer and a model writes."""
    model = rag.writer
    if model is None or rag.dense is None or draft.sentences or is_model_late(run):
        return plan
    if not writes_in_time(model, rag.budgets):
        return plan
    like = await run.attempt(Stage.HYDE, write_hypothetical_post(question, model, run), "")
    return replace(plan, like=like) if like else plan


_MODEL_STAGES = frozenset({Stage.PLAN, Stage.REWRITE, Stage.HYDE, Stage.JUDGE, Stage.WRITE})


def is_model_late(run: Run) -> bool:
    """Whether a model was late in this run: it is not asked again, so that one budget is lost at most."""
    return any(span.stage in _MODEL_STAGES and span.error == StageTimeout.__name__ for span in run.spans)


async def complete_answer(question: Question, extracted: Round, rag: Engine, run: Run) -> Round:
    """Finish the extract, which stands from then on; then let a model judge it, and write.

    Where the model fails, is late or refuses, the extract is the answer; so it is to questions about a date.
    """
    finished = await finish_draft(question, extracted, rag, run)
    draft, evidence, extract = finished.draft, finished.evidence, extracted.draft
    if rag.writer is None or not draft.sentences or finished.plan.kind is Kind.WHEN or is_model_late(run):
        return finished
    if run.on_extract:
        await run.on_extract(draft)
    # a conflict stays below its sentence
    candidates = extract.candidates[: None if draft.sentences == extract.sentences else 1]
    draft = await judge_draft(question, replace(draft, candidates=candidates), rag.writer, rag, run)
    quoted = replace(finished, draft=draft)
    if not draft.sentences or is_model_late(run) or not writes_in_time(rag.writer, rag.budgets):
        return quoted
    written = await run.attempt(Stage.WRITE, write_draft(question, evidence, rag, run), draft)
    if written is draft:
        return quoted
    if not written.sentences:
        return replace(quoted, draft=keep_extract(draft, rag.writer.name, run))
    graded = replace(written, likely=draft.likely, judged=draft.judged).graded_by(draft)
    before = len(run.shortfalls)
    finished = await finish_draft(question, replace(quoted, draft=graded), rag, run)
    late = any(one.stage == Stage.CONFLICTS for one in run.shortfalls[before:])
    return quoted if late else finished  # the extract was compared with the other posts


def keep_extract(extract: Draft, model: str, run: Run) -> Draft:
    """Keep the extract where the model found no answer in the posts: less sure by one step, and that is said."""
    if not extract.sentences:
        return extract
    run.shortfalls.append(Shortfall("write", f"{model} found no answer: these are the posts' own words."))
    return replace(extract, certainty=Certainty.PROBABLE)


async def finish_draft(question: Question, found: Round, rag: Engine, run: Run) -> Round:
    """Finish a recipe: say what was left out of a model's answer, add a conflicting post to a sure answer.

    A refusal gets the number of unindexed and of unembedded posts as shortfalls.
    """
    if found.draft.sentences and (left_out := len(found.draft.doubted)):
        one = "1 sentence was left out: the posts do not say it."
        several = f"{left_out} sentences were left out: the posts do not say them."
        run.shortfalls.append(Shortfall("support", one if left_out == 1 else several))
    draft = found.draft
    if not draft.sentences:
        await note_unindexed_posts(question.viewer, rag, run, vectors=True)
    if draft.certainty is not Certainty.SURE or not draft.sentences or found.plan.kind is Kind.WHEN:
        return found
    adding = asyncio.to_thread(add_conflicting_post, question, found.plan, draft, found.evidence, rag)
    return replace(found, draft=await run.attempt(Stage.CONFLICTS, adding, draft))


async def report_extract(question: Question, plan: Plan, hits: Sequence[Hit], rag: Engine, run: Run) -> None:
    """Report the extract from these hits as a preview, before slower stages."""
    if run.on_extract is None:
        return
    evidence = await compare_sources(question, plan, compose_evidence(hits), rag, run)
    ranked = await asyncio.to_thread(rank_evidence, question, plan, evidence, rag)
    draft = await asyncio.to_thread(extract_draft, question, plan, ranked, rag)
    if draft.sentences:
        await run.on_extract(draft)


_MAX_LENGTH, _MAX_TOKENS = 280, 120
_MAX_QUESTION_LENGTH = 400  # characters: enough for a hypothetical post
_TEMPERATURE, _SEED = 0.4, 42


async def write_hypothetical_post(question: Question, model: LanguageModel, run: Run) -> str:
    """Write a hypothetical post, at most 280 characters; empty for an empty reply. Raises GenerationFailed."""
    template = load_prompt("hyde", question.lang)
    prompt = Prompt(template.system, quote_question(question.text[:_MAX_QUESTION_LENGTH]), template.shots)
    decoding = DecodingParams(_MAX_TOKENS, temperature=_TEMPERATURE, seed=_SEED)
    grammar = build_paragraph_grammar(_MAX_LENGTH)
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=grammar)
    return " ".join(clean_reply(reply).split())[:_MAX_LENGTH]
