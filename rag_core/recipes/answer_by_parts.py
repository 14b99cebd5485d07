"""Answer by parts: each part of a question, and each thing of a comparison, is searched and answered by itself.

Parts that the posts do not answer are named. The values of a comparison are compared where the sentences found say
them plainly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import pairwise

from rag_core.context.evidence import MAX_SOURCES
from rag_core.engine import Engine
from rag_core.planning.comparison_questions import PREPOSITIONS, Comparison, Measure, parse_comparison
from rag_core.planning.question_parts import QuestionPart
from rag_core.recipe_steps import finish_draft, plan_or_answer_exactly, search_and_extract, write_or_extract
from rag_core.stage_runner import Run
from rag_core.text.numbers import CURRENCIES, Number, parse_numbers
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.text.tokens import tokenize
from rag_core.types import Certainty, Draft, Evidence, Plan, Question, Sentence
from rag_core.writing.phrases import format_comparison


async def answer_parts(
    question: Question, parts: Sequence[QuestionPart], rag: Engine, run: Run
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
    if comparison := parse_comparison(question.text):  # what was found for the other thing only is no answer for both
        drafts = [
            replace(draft, sentences=tuple(one for one in draft.sentences if is_about(comparison, n, one.text)))
            for n, draft in enumerate(drafts)
        ]
    else:  # what holds only the words carried over from the part before is no answer
        drafts = [
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
    if comparison and len(answered) == len(parts) and (compared := _compare(comparison, answered, question.lang)):
        sentences = compared, *sentences
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
    written = await write_or_extract(question, plans[0], draft, evidence, rag, run)
    return await finish_draft(question, plans[0], written, evidence, rag, run)


def _compare(comparison: Comparison, drafts: Sequence[Draft], lang: str) -> Sentence | None:
    """Compare the values of two things; None where the posts do not say them plainly."""
    found = [draft.sentences[0] for draft in drafts]
    if not (result := compare_values(comparison, [one.text for one in found], lang)):
        return None
    text = format_comparison(comparison.word, comparison.things, *result, lang)
    return Sentence(text, tuple(one.citations[0] for one in found))


def _is_covered(
    part: QuestionPart, sentences: Sequence[Sentence], question: Question, rag: Engine, least: float
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


def compare_values(comparison: Comparison, sentences: Sequence[str], lang: str) -> tuple[int, tuple[str, str]] | None:
    """Compare the values of both things in the sentences found for them.

    Returns the index of the thing that was asked for (-1 where both are equal) and both values as they are written;
    None where a sentence does not say plainly which of its numbers is meant, or the units differ.
    """
    if comparison.measure is Measure.TIME:
        return None
    things = [frozenset(tokenize(thing)) for thing in comparison.things]
    own = things[0] - things[1], things[1] - things[0]
    found = [_find_value(comparison.measure, *pair, lang) for pair in zip(own, sentences, strict=True)]
    if found[0] is None or found[1] is None or (found[0] == found[1] and sentences[0] == sentences[1]):
        return None
    (first, first_text), (second, second_text) = found[0], found[1]
    if first.unit != second.unit and comparison.measure is not Measure.PRICE:
        return None
    values = max(first.values), max(second.values)
    if values[0] == values[1]:
        return -1, (first_text, second_text)
    return int((values[1] > values[0]) is comparison.greater), (first_text, second_text)


def is_about(comparison: Comparison, thing: int, sentence: str) -> bool:
    """Whether a sentence holds a word of this thing that the other thing does not have."""
    own, other = (frozenset(tokenize(comparison.things[n])) for n in (thing, 1 - thing))
    return not (own - other) or not (own - other).isdisjoint(tokenize(sentence))


def _find_value(measure: Measure, own: Set[str], sentence: str, lang: str) -> tuple[Number, str] | None:
    """Find the number of a thing with these terms: the only one of its measure, or that in the thing's own clause."""
    low = sentence.lower().replace("ё", "е")
    numbers = [number for number in parse_numbers(low, lang) if not number.weak]
    priced = any(number.unit in CURRENCIES for number in numbers)
    fitting = [number for number in numbers if _fits(measure, number, low, priced=priced)]
    if own.isdisjoint(tokenize(low)):
        return None
    if len(fitting) > 1:
        cuts = (0, *(match.start() for match in _CLAUSE_END.finditer(low)), len(low))
        clauses = [[n for n in fitting if start <= n.start < end] for start, end in pairwise(cuts)]
        held = [len(own & set(tokenize(low[start:end]))) for start, end in pairwise(cuts)]
        most = max(many for many, inside in zip(held, clauses, strict=True) if inside)
        best = [inside for many, inside in zip(held, clauses, strict=True) if inside and many == most > 0]
        fitting = best[0] if best else []
    if len(fitting) != 1:
        return None
    (number,) = fitting
    unit = _UNIT_SHOWN.match(low, number.end)
    start = number.start - (low[number.start - 1 : number.start] in {"$", "€", "£"})
    return number, sentence[start : unit.end() if unit else number.end].strip()


_CLAUSE_END = re.compile(r"\n|[,;.!?](?=\s|$)")
_UNIT_SHOWN = re.compile(r"[\s\u00a0]?(?:[₽$€£%]|руб(?:л\w+|\.)?|м\b|метр\w*|km\b|км\b|met(?:er|re)s?\b)")


def _fits(measure: Measure, number: Number, low: str, *, priced: bool) -> bool:
    """Whether a number can be a value of this measure; `priced`: of a price list, where some lack a currency."""
    if ":" in low[max(0, number.start - 1) : number.end + 1] or "№" in low[max(0, number.start - 3) : number.start]:
        return False  # a time of day, the number of a house or a bus
    if measure is Measure.PRICE:
        counted = number.noun and number.noun.split()[0] not in PREPOSITIONS
        bare = not number.unit and (low[number.end : number.end + 1] in {"", "\n"} or not counted)
        return number.unit in CURRENCIES or (priced and bare)
    if measure is Measure.SIZE:
        return number.unit not in CURRENCIES | {"", "%", "ordinal", "day", "month"}
    return measure is Measure.NUMBER and not number.unit and not 1900 <= number.values[0] <= 2100
