"""Agent: each part of a question is searched and answered by itself; what stays open is searched once more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, zip_longest

from rag_core.conversation.followups import extract_content_words, extract_subject, is_followup
from rag_core.engine import Engine
from rag_core.evidence import MAX_SOURCES
from rag_core.planning.plan import plan_question, widen_plan
from rag_core.planning.queries import split_question
from rag_core.recipe_steps import (
    Round,
    add_hyde_query,
    answer_exactly,
    complete_answer,
    extract_from_hits,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.retrieval.search import add_neighbours, rerank_hits, search_passages
from rag_core.run import Run, Stage
from rag_core.text.query_terms import QueryTerms, contains_answer_type, detect_answer_type
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Certainty, Draft, Evidence, Hit, PassageRef, Plan, Question, Sentence, Source

# A second round finds posts less similar to the question: it needs a greater probability than a first round.
_SECOND_ROUND_LIKELY = 0.5
_READ_AROUND = 3  # first hits of a second round whose neighbours are read
# Shares of the weight of a part's words: of another part's answer that holds this part too, and of an own answer.
_MOST_WORDS, _LEAST_WORDS = 0.5, 0.2
_REFERRING = re.compile(
    r"\b(?:он[аио]?|его|ее|их|ему|ей|им|ими|нее|нем|них|него|ней|ними|там|туда|тут|нужно было|"
    r"it|its|he|him|his|she|her|they|them|their|there)\b",
    re.IGNORECASE,
)


async def run_agent(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Run the recipe `agent`: each part by itself; a second search where nothing in the first is read as an answer."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1 and (answered := await _answer_parts(question, parts, rag, run)):
        return answered
    # the posts may say it in one sentence whose words no part has alone
    if len(parts) == 1 and (exact := await answer_exactly(question, plan, rag, run)):
        return Round(plan, exact)
    first = await search_and_extract(question, plan, rag, run)
    best = first = await search_by_model_plan(question, first, rag, run)
    if plan.queries and not first.draft.sentences:
        wider = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)

        async def search_again() -> Round:
            """Twice as many hits, both retrievers, other words; the posts around the first hits are read too."""
            async with run.use_separate_budgets():  # its stages have their own budgets
                hits = await search_passages(wider, question, rag, run)
                hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
                around = add_neighbours(hits, _READ_AROUND, wider, question.viewer, rag)
                hits = await run.attempt(Stage.FURTHER, around, hits)
                return await extract_from_hits(question, wider, hits, rag, run)

        # the second round may fail: the result of the first is kept
        second = await run.attempt(Stage.AGAIN, search_again(), first)
        best = second if second.draft.likely >= _SECOND_ROUND_LIKELY else first
    return await complete_answer(question, best, rag, run)


async def search_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Search as the recipe does, without answering: the hits of the question and of its parts, best first."""
    found = [await search_passages(plan, question, rag, run)]
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    for _, text in parts if len(parts) > 1 else ():
        asked = replace(question, text=text)
        found.append(await search_passages(await plan_question(asked, rag, run), asked, rag, run))
    mixed = [hit for row in zip_longest(*found) for hit in row if hit]
    return tuple({hit.passage.ref: hit for hit in reversed(mixed)}.values())[::-1]


def complete_parts(text: str, now: datetime) -> list[tuple[str, str]]:
    """List the parts of a question: each as it was asked, and completed to a question that stands alone."""
    first, *others = split_question(text)
    if not others:
        return [(text, text)]
    parts = [(first, f"{first}?")]
    for part in others:
        refers = not tokenize(part) or _REFERRING.search(fold_case(part)) or is_followup(part, now)
        # in brackets, because in the sentence it may need another case
        aside = f" ({extract_subject(first, now)})" if refers else ""
        parts.append((part, f"{part}{aside}?"))
    return parts


async def _answer_parts(question: Question, parts: Sequence[tuple[str, str]], rag: Engine, run: Run) -> Round | None:
    """Answer each part by its own search, with its best sentence; the parts without an answer are named."""
    rounds = list[Round]()
    async with run.use_separate_budgets():
        for _, text in parts:
            asked = replace(question, text=text)
            plan = await plan_question(asked, rag, run)
            exact = await answer_exactly(asked, plan, rag, run)
            rounds.append(Round(plan, exact) if exact else await search_and_extract(asked, plan, rag, run))
    weigh = rag.lexical.statistics(question.viewer.channels).weight

    def is_covered(part: str, sentences: Sequence[Sentence], least: float) -> bool:
        """Whether sentences hold this share of the weight of a part's own words; one without words is covered."""
        asked, held = QueryTerms.of(part, weigh), frozenset(term for one in sentences for term in tokenize(one.text))
        return not asked.share or asked.matched_share(held) + asked.similar_share(held) >= least

    drafts = [  # what holds only the words carried over from the first part is no answer
        one.draft if is_covered(part, one.draft.sentences[:1], _LEAST_WORDS) else Draft()
        for (part, _), one in zip(parts, rounds, strict=True)
    ]
    answered = [draft for draft in drafts if draft.sentences]
    if not answered:
        return None
    read_as = dict.fromkeys(pair for one in rounds for pair in one.plan.read_as)
    aliases = dict.fromkeys(pair for one in rounds for pair in one.plan.aliases)
    plan = replace(rounds[0].plan, read_as=tuple(read_as), aliases=tuple(aliases))
    sentences = list[Sentence]()  # the best of each part; of those that quote the same words the longer one
    for sentence in (draft.sentences[0] for draft in answered):
        same = next((n for n, other in enumerate(sentences) if other.quotes(sentence.citations)), None)
        if same is not None:
            sentences[same] = max(sentences[same], sentence, key=lambda one: len(one.text))
        elif sum(len(other.text) for other in sentences) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            sentences.append(sentence)
    missing = list[str]()
    for (part, _), own in zip(parts, drafts, strict=True):
        # a part of asking words alone ("and how much is it") may have a value of its kind in the sentences
        want, bare = detect_answer_type(part)[0], not extract_content_words(part)
        told = bare and any(contains_answer_type(want, one.text, part) for one in sentences)
        if not (own.sentences or told or is_covered(part, sentences, _MOST_WORDS)):
            missing.append(part)
    sure, likely = all(one.certainty is Certainty.SURE for one in answered), min(one.likely for one in answered)
    certainty = Certainty.SURE if sure else Certainty.PROBABLE
    draft = Draft(tuple(sentences), likely, certainty=certainty, missing=tuple(missing))
    # the best sources of each part first, each passage once, numbered anew
    sources = dict[PassageRef, Source]()
    for source in filter(None, chain.from_iterable(zip_longest(*(one.evidence.sources for one in rounds)))):
        sources.setdefault(source.passage.ref, source)
    numbered = enumerate(list(sources.values())[:MAX_SOURCES], 1)
    boilerplate = {chat: lines for one in rounds for chat, lines in one.evidence.boilerplate.items()}
    evidence = Evidence(tuple(replace(one, number=n) for n, one in numbered), boilerplate)
    return await complete_answer(question, Round(plan, draft, evidence), rag, run)
