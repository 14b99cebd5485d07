"""Value comparison: two things are compared by their numbers, where the sentences found for them say these plainly.

What is compared, and in which respect, is parsed from the question in planning/comparison_questions.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise

from rag_core.planning.comparison_questions import PREPOSITIONS, Comparison, Measure
from rag_core.text.numbers import CURRENCIES, Number, parse_numbers
from rag_core.text.tokens import tokenize
from rag_core.types import Draft, Sentence
from rag_core.writing.phrases import format_comparison


def build_comparison_sentence(comparison: Comparison, drafts: Sequence[Draft], lang: str) -> Sentence | None:
    """Compare the values of two things; None where the posts do not say them plainly."""
    found = [draft.sentences[0] for draft in drafts]
    if not (result := compare_values(comparison, [one.text for one in found], lang)):
        return None
    text = format_comparison(comparison.word, comparison.things, *result, lang)
    return Sentence(text, tuple(one.citations[0] for one in found))


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
