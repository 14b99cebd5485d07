"""Answer by parts: each part of a question is searched and answered by itself.

What a later part leaves out ("and for how much?") is carried over from the first one, as in a follow-up. Parts that
the posts do not answer are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.context.evidence import MAX_SOURCES
from rag_core.conversation.followups import extract_subject, is_followup
from rag_core.engine import Engine
from rag_core.planning.plan import split_question
from rag_core.recipe_steps import complete_answer, plan_or_answer_exactly, search_and_extract
from rag_core.stage_runner import Run
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.text.tokens import tokenize
from rag_core.types import Certainty, Draft, Evidence, Plan, Question, Sentence

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


async def answer_parts(
    question: Question, parts: Sequence[CompletePart], rag: Engine, run: Run
) -> tuple[Draft, Evidence] | None:
    """Answer each part by its own search, with its best sentence; the parts without an answer are named.

    None where no part has an answer.
    """
    plans, drafts, evidence_of_parts = list[Plan](), list[Draft](), list[Evidence]()
    async with run.use_separate_budgets():
        for part in parts:
            asked = replace(question, text=part.text)
            plan, exact = await plan_or_answer_exactly(asked, rag, run)
            draft, evidence = (exact, Evidence()) if exact else await search_and_extract(asked, plan, rag, run)
            plans.append(plan)
            drafts.append(draft)
            evidence_of_parts.append(evidence)
    drafts = [  # what holds only the words carried over from the first part is no answer
        draft if _is_covered(part, draft.sentences[:1], question, rag, _LEAST_WORDS) else Draft()
        for part, draft in zip(parts, drafts, strict=True)
    ]
    answered = [draft for draft in drafts if draft.sentences]
    if not answered:
        return None
    if run.plan:
        run.plan = replace(
            run.plan,
            read_as=tuple(dict.fromkeys(pair for plan in plans for pair in plan.read_as)),
            aliases=tuple(dict.fromkeys(pair for plan in plans for pair in plan.aliases)),
        )
    evidence, sentences = _join_evidence(evidence_of_parts), _join_first_sentences(answered)
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
    return await complete_answer(question, plans[0], draft, evidence, rag, run)


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
