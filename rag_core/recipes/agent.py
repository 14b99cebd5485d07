"""Agent: each part of a question is searched and answered by itself; what stays open is searched once more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.context.evidence import MAX_SOURCES, compose_evidence
from rag_core.conversation.followups import extract_subject, is_followup
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, translate_errors
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.planning.plan import split_question, widen_plan
from rag_core.planning.queries import sanitize_query
from rag_core.recipe_steps import (
    Round,
    add_hyde_query,
    complete_answer,
    extract_from_hits,
    plan_or_answer_exactly,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import add_neighbours, search_passages
from rag_core.run import Run, Stage
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.text.tokens import tokenize
from rag_core.types import Certainty, Draft, Evidence, Hit, Plan, Question, Sentence
from rag_core.writing.prompts import LETTERS, load_prompt, parse_json_object, quote_post, quote_question
from rag_core.writing.write import write_draft

# A second round finds posts less similar to the question: it needs a greater probability than a first round.
_SECOND_ROUND_LIKELY = 0.5
_READ_AROUND = 3  # first hits of a second round whose neighbours are read


async def run_agent(question: Question, rag: Engine, run: Run) -> Round:
    """Run the recipe `agent`: each part by itself; a second search where nothing in the first is read as an answer."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1 and (answered := await _answer_parts(question, parts, rag, run)):
        return answered
    # the posts may say it in one sentence whose words no part has alone
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None and len(parts) == 1:
        return Round(plan, exact)
    first = await search_and_extract(question, plan, rag, run)
    best = first = await search_by_model_plan(question, first, rag, run)
    if plan.queries and not first.draft.sentences:
        wider = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)
        # the second round may fail: the result of the first is kept
        second = await run.attempt(Stage.AGAIN, _run_second_round(question, wider, rag, run), first)
        best = second if second.draft.covered >= _SECOND_ROUND_LIKELY else first
    return await complete_answer(question, best, rag, run)


async def search_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Search as the recipe does, without answering: the hits of all rounds and parts, best first."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1:
        found = [await search_passages(plan, question, rag, run)]
        for part in parts:
            asked = replace(question, text=part.text)
            own, _ = await plan_or_answer_exactly(asked, rag, run)
            found.append(await search_passages(own, asked, rag, run))
        depth = max(map(len, found))
        mixed = [hits[n] for n in range(depth) for hits in found if n < len(hits)]
        return tuple({hit.passage.ref: hit for hit in reversed(mixed)}.values())[::-1]
    return await search_passages(plan, question, rag, run)


async def _run_second_round(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Search with twice as many hits, both retrievers and other words; the posts around the first hits are read too."""
    async with run.use_separate_budgets():  # its stages have their own budgets
        hits = await search_passages(plan, question, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
        hits = await run.attempt(Stage.FOLLOW, add_neighbours(hits, _READ_AROUND, plan, question.viewer, rag), hits)
        return await extract_from_hits(question, plan, hits, rag, run)


_REFERRING = re.compile(
    r"\b(?:он[аио]?|его|ее|их|ему|ей|им|ими|нее|нем|них|него|ней|ними|там|туда|тут|нужно было|"
    r"it|its|he|him|his|she|her|they|them|their|there)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CompletePart:
    """Part of a question: as it was asked, and as a question that stands alone."""

    asked: str
    text: str


def complete_parts(text: str, now: datetime) -> tuple[CompletePart, ...]:
    """Complete the parts of a question into questions that stand alone; the question itself where it has only one."""
    first, *others = split_question(text)
    if not others:
        return (CompletePart(text, text),)
    parts = [CompletePart(first, f"{first}?")]
    for part in others:
        refers = not tokenize(part) or _REFERRING.search(part) or is_followup(part, now)
        # in brackets, because in the sentence it may need another case
        aside = f" ({extract_subject(first, now)})" if refers else ""
        parts.append(CompletePart(part, f"{part}{aside}?"))
    return tuple(parts)


async def _answer_parts(question: Question, parts: Sequence[CompletePart], rag: Engine, run: Run) -> Round | None:
    """Answer each part by its own search, with its best sentence; the parts without an answer are named.

    None where no part has an answer.
    """
    rounds = list[Round]()
    async with run.use_separate_budgets():
        for part in parts:
            asked = replace(question, text=part.text)
            plan, exact = await plan_or_answer_exactly(asked, rag, run)
            rounds.append(Round(plan, exact) if exact else await search_and_extract(asked, plan, rag, run))
    drafts = [  # what holds only the words carried over from the first part is no answer
        one.draft if _is_covered(part, one.draft.sentences[:1], question, rag, _LEAST_WORDS) else Draft()
        for part, one in zip(parts, rounds, strict=True)
    ]
    answered = [draft for draft in drafts if draft.sentences]
    if not answered:
        return None
    if run.plan:
        run.plan = replace(
            run.plan,
            read_as=tuple(dict.fromkeys(pair for one in rounds for pair in one.plan.read_as)),
            aliases=tuple(dict.fromkeys(pair for one in rounds for pair in one.plan.aliases)),
        )
    evidence, sentences = _join_evidence([one.evidence for one in rounds]), _join_first_sentences(answered)
    sure = all(draft.certainty is Certainty.SURE for draft in answered)
    draft = Draft(
        sentences,
        min(draft.covered for draft in answered),
        certainty=Certainty.SURE if sure else Certainty.PROBABLE,
        missing=tuple(
            part.asked
            for part, own in zip(parts, drafts, strict=True)
            if not own.sentences and not _is_covered(part, sentences, question, rag, _MOST_WORDS)
        ),
    )
    return await complete_answer(question, Round(rounds[0].plan, draft, evidence), rag, run)


def _is_covered(
    part: CompletePart, sentences: Sequence[Sentence], question: Question, rag: Engine, least: float
) -> bool:
    """Whether sentences hold this share of the weight of a part's own words; a part without words is covered."""
    asked = QueryTerms.of(part.asked, rag.lexical.statistics(question.viewer.channels).weight)
    held = frozenset(term for sentence in sentences for term in tokenize(sentence.text))
    return not asked.share or asked.matched_share(held) + asked.similar_share(held) >= least


# Shares of the weight of a part's words: of another part's answer that holds this part too, and of an own answer.
_MOST_WORDS, _LEAST_WORDS = 0.5, 0.2


def _join_first_sentences(drafts: Sequence[Draft]) -> tuple[Sentence, ...]:
    """Join the best sentence of each part; of sentences that quote the same words the longer one stays."""
    kept: list[Sentence] = []
    for sentence in (draft.sentences[0] for draft in drafts):
        same = next((n for n, other in enumerate(kept) if _quote_same_words(sentence, other)), None)
        if same is not None:
            kept[same] = max(kept[same], sentence, key=lambda one: len(one.text))
        elif sum(len(other.text) for other in kept) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.append(sentence)
    return tuple(kept)


def _quote_same_words(one: Sentence, other: Sentence) -> bool:
    return any(a.post == b.post and a.start < b.end and b.start < a.end for a in one.citations for b in other.citations)


def _join_evidence(given: Sequence[Evidence]) -> Evidence:
    """Join the evidence of the parts, the best sources of each first; each post once, numbered anew."""
    depth = max((len(one.sources) for one in given), default=0)
    mixed = [one.sources[n] for n in range(depth) for one in given if n < len(one.sources)]
    by_place = {source.passage.ref: source for source in reversed(mixed)}
    ordered = list(dict.fromkeys(source.passage.ref for source in mixed))[:MAX_SOURCES]
    boilerplate = {chat: lines for one in given for chat, lines in one.boilerplate.items()}
    return Evidence(tuple(replace(by_place[place], number=n) for n, place in enumerate(ordered, 1)), boilerplate)


UNJUDGED_POSTS = 5  # kept without the judge where it fails, and of a second search
_MAX_PARTS, _MAX_ASK_LENGTH = 3, 120  # parts, characters of a question for a missing part
_MAX_CLAIMS = 9  # of an answer: one digit in the grammar
_REPLY_TOKENS = 200
_MAX_QUESTION_LENGTH = 400  # characters
PARTS_GRAMMAR = "\n".join(
    (
        rf'root ::= "{{\"parts\": [" part (", " part){{0,{_MAX_PARTS - 1}}} "]}}"',
        r'part ::= "{\"state\": \"" state "\", \"claims\": [" claims "], \"ask\": \"" ask "\"}"',
        rf"ask ::= [{LETTERS}]{{0,{_MAX_ASK_LENGTH}}}",
        r'claims ::= ([1-9] (", " [1-9]){0,4})?',
        'state ::= "FULLY" | "PARTIALLY" | "NOT"',
    )
)


class QuestionPart(BaseModel):
    """Part of a question; `ask` is a query for the missing information, empty where none is missing.

    `claims` are the numbers of the claims that answer it; None where the model named none.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: Literal["FULLY", "PARTIALLY", "NOT"]
    ask: str = ""
    claims: tuple[int, ...] | None = None


class _PartsReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    parts: list[QuestionPart] = Field(min_length=1)


async def judge_question_parts(
    question: Question, said: Sequence[Sentence], model: LanguageModel, run: Run
) -> tuple[QuestionPart, ...]:
    """Judge an answer part by part, by its claims; call it in a stage.

    A part that no claim answers is not covered, whatever the model says. Raises GenerationFailed, also for an invalid
    reply.
    """
    template = load_prompt("parts", question.lang)
    answer = " ".join(sentence.text for sentence in said)
    from rag_core.verification.verify import extract_claims  # late: it is for a few questions

    claims = [claim.text for claim in extract_claims(answer)] or [sentence.text for sentence in said]
    numbered = "\n".join(f"{n}. {claim}" for n, claim in enumerate(claims[:_MAX_CLAIMS], 1))
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    prompt = Prompt(template.system, f"{asked}\n{quote_post(numbered)}", template.shots)
    decoding, schema = DecodingParams(_REPLY_TOKENS, temperature=0.0), _PartsReply.model_json_schema()
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=PARTS_GRAMMAR, schema=schema)
    parts = parse_parts_reply(reply)
    mapped = {n for part in parts for n in part.claims or () if n <= len(claims)}
    missing = sum(bool(part.ask) for part in parts)
    run.note(parts=len(parts), missing=missing, claims=len(claims), mapped=len(mapped))
    return parts


def parse_parts_reply(text: str) -> tuple[QuestionPart, ...]:
    """Parse the judge's reply. Raises GenerationFailed."""
    with translate_errors(GenerationFailed, ValidationError, say="The model's check has no form."):
        reply = _PartsReply.model_validate(parse_json_object(text))
    parts = []
    for one in reply.parts[:_MAX_PARTS]:
        state = "NOT" if one.claims == () else one.state
        ask = "" if state == "FULLY" else sanitize_query(one.ask)[:_MAX_ASK_LENGTH]
        parts.append(one.model_copy(update={"state": state, "ask": ask}))
    return tuple(parts)


async def answer_open_parts(open_parts: Sequence[Question], written: Round, rag: Engine, run: Run) -> Round:
    """Search and answer the open parts; sentences that their new posts support are added to the draft."""
    plan, draft, evidence = written.plan, written.draft, written.evidence
    for question in open_parts:
        more = await run.attempt(Stage.FOLLOW, _search_for_part(question, plan, evidence, rag, run), Evidence)
        if not more.sources:
            continue
        added = await run.attempt(Stage.WRITE, write_draft(question, more, rag, run), Draft)
        if added.sentences:
            sentences = limit_answer_length((*draft.sentences, *added.sentences))
            draft = replace(draft, sentences=sentences, doubted=(*draft.doubted, *added.doubted))
            evidence = Evidence((*evidence.sources, *more.sources))
    return Round(plan, draft, evidence)


async def _search_for_part(question: Question, plan: Plan, evidence: Evidence, rag: Engine, run: Run) -> Evidence:
    """Search for a part within the filters of `plan`; new posts only, numbered after the known ones."""
    async with run.use_separate_budgets():
        part = await asyncio.to_thread(rag.plan, question, {})  # a long question takes the rules 20 ms
        search = replace(
            part,
            since=plan.since or part.since,
            until=plan.until or part.until,
            slack=plan.slack,
            channels=part.channels if plan.channels is None else plan.channels,
            authors=plan.authors or part.authors,
            origins=plan.origins or part.origins,
            media=plan.media or part.media,
            files=plan.files or part.files,
        )
        hits = await search_passages(search, question, rag, run)
    known = {source.passage.key for source in evidence.sources}
    new = compose_evidence([hit for hit in hits if hit.passage.key not in known][:UNJUDGED_POSTS])
    return Evidence(evidence.extend(new.sources).sources[len(evidence.sources) :])


def limit_answer_length(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Drop repeated sentences, and those beyond the length limit of an answer."""
    kept: dict[str, Sentence] = {}
    for sentence in sentences:
        if sum(map(len, kept)) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.setdefault(sentence.text, sentence)
    return tuple(kept.values())
