"""Query expansion: variants of a question's words, by a table of everyday synonyms.

A group of `synonyms.txt` lists words of one meaning in both languages, so that it bridges them as well. Words that ask
for a price, a time of day or a phone number are also expanded with the annotation of posts that hold one ("predictive
annotation", Prager et al. 2000).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from rag_core.text.morphology import list_dictionary_forms
from rag_core.text.tokens import STOP_WORDS, stem, stem_dictionary_form

_SYNONYMS = Path(__file__).with_name("synonyms.txt")
# Weights of variants, against 1 for the word itself. A translation is worth more than a synonym: a post in the other
# language has no other word of the question.
SYNONYM_WEIGHT, TRANSLATION_WEIGHT, _RELATED_WEIGHT, _ANNOTATION_WEIGHT = 0.5, 0.8, 0.3, 0.8
_PHRASE_FACTOR = 0.5  # for a word of a phrase
_MAX_WORDS = 40  # words of a question that are looked up
_MAX_PHRASE_WORDS = 3
_WORD = re.compile(r"[^\W_]+")
_ORDINAL_OR_DAY = re.compile(r"(?a:([1-9]|[12]\d|3[01])(st|nd|rd|th)?)")

_ANNOTATIONS = {
    "<money>": re.compile(
        r"[$€£₽]\s?\d|\d\s?(?:[$€£₽]|(?:руб|тыс|млн|eur|usd|dollar|pound|quid|rub|bucks|тенге|доллар|евро)|[рk]\b)",
        re.I,
    ),
    "<clock>": re.compile(
        r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?![\d:])|\b(?:1[0-2]|\d)\s?[ap]\.?m\b|\b\d{1,2}\s(?:час|утра|вечера)",
        re.I,
    ),
    "<phone>": re.compile(
        r"(?<![\d-])(?:\+\d[\d\s()-]{7,16}\d|\(?\d{3}\)?[\s-]\d{2,3}[\s-]\d{2}(?:[\s-]?\d{2})?|\d{1,3}-\d{2}-\d{2}|"
        r"1[01]\d)(?![\d-])"
    ),
}


def annotate_answer_kinds(text: str) -> list[str]:
    """List the kinds of answers that a text holds, as terms that no word can be."""
    return [kind for kind, pattern in _ANNOTATIONS.items() if pattern.search(text)]


@dataclass(frozen=True, slots=True)
class _Group:
    """Group of a table: terms of each language with their factors; `related` words weigh less than synonyms."""

    terms: Mapping[str, Mapping[str, float]]
    related: bool

    def list_variants(self, lang: str) -> Iterator[tuple[str, float]]:
        """List the variants of a word of this language, with weights."""
        for other, terms in self.terms.items():
            weight = _RELATED_WEIGHT if self.related else SYNONYM_WEIGHT if other == lang else TRANSLATION_WEIGHT
            yield from (
                (term, _ANNOTATION_WEIGHT if term.startswith("<") else weight * factor)
                for term, factor in terms.items()
            )


_STOP_MARK = "'"  # before a stop word in a phrase, as other words may have the stem of one: "имя" and "им"


def _normalize(entry: str) -> tuple[str, ...]:
    """Normalize a phrase of the table; stop words stay whole, and marked."""
    words = _WORD.findall(entry)
    return tuple(_STOP_MARK + word if word in STOP_WORDS else stem_dictionary_form(word) for word in words)


@cache
def _read_table() -> tuple[str, ...]:
    lines = _SYNONYMS.read_text(encoding="utf-8").lower().replace("ё", "е").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def _split_line(line: str) -> list[str]:
    """Split the line of a group into its words, phrases and annotations."""
    return [entry for entry in map(str.strip, line.lstrip("~").replace("|", ",").split(",")) if entry]


@lru_cache(maxsize=4096)
def _read_group(line: str) -> _Group:
    terms: dict[str, dict[str, float]] = {"ru": {}, "en": {}}
    for lang, side in zip(terms, line.lstrip("~").split("|"), strict=True):
        for entry in _split_line(side):
            phrase = (entry,) if entry in _ANNOTATIONS else _normalize(entry)
            factor = 1.0 if len(phrase) == 1 else _PHRASE_FACTOR
            terms[lang] |= {t: max(factor, terms[lang].get(t, 0.0)) for t in phrase if t[0] != _STOP_MARK}
    return _Group(terms, line.startswith("~"))


@cache
def _list_entries() -> Mapping[str, list[tuple[str, str]]]:
    """List the entries of the table, with their lines, by first letters, so that not all are stemmed for a question."""
    entries: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in _read_table():
        if not line.startswith("="):
            for entry in _split_line(line):
                entries[entry[0]].append((entry, line))
    return entries


@lru_cache(maxsize=128)
def _load_phrases(initial: str) -> Mapping[tuple[str, ...], list[str]]:
    """Load the phrases that begin with this letter, with the lines of the groups that hold each."""
    lines: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for entry, line in _list_entries()[initial]:
        if entry not in _ANNOTATIONS:
            lines[_normalize(entry)].append(line)
    return dict(lines)


_INITIALS = {"100": "1с"}  # of words with this stem ("сто"); any other stem begins as its word does


def _find_groups_of(phrase: tuple[str, ...]) -> Iterator[_Group]:
    first = phrase[0].removeprefix(_STOP_MARK)
    initials = [initial for initial in _INITIALS.get(first, first[0]) if initial in _list_entries()]
    lines = (line for initial in initials for line in _load_phrases(initial).get(phrase, ()))
    return map(_read_group, dict.fromkeys(lines))


@cache
def _list_single_stems() -> frozenset[str]:
    """List the stems of the words of no group, in the lines that begin with =."""
    lines = (line for line in _read_table() if line.startswith("="))
    return frozenset(stem_dictionary_form(word) for line in lines for word in line[1:].split())


def is_table_word(word: str) -> bool:
    """Whether the table holds a lower-case word, in either language."""
    term = stem(word)
    return bool(term) and (term in _list_single_stems() or any(_find_groups_of((term,))))


@cache
def list_table_stems() -> tuple[str, ...]:
    """List the stems of single words in the table, sorted: what a typo may be read as."""
    entries = (entry for line in _read_table() if not line.startswith("=") for entry in _split_line(line))
    phrases = {_normalize(entry) for entry in entries if entry not in _ANNOTATIONS}
    grouped = {phrase[0] for phrase in phrases if len(phrase) == 1 and phrase[0][0] != _STOP_MARK}
    return tuple(sorted(grouped | _list_single_stems()))


def expand_words(text: str) -> dict[str, dict[str, float]]:
    """Expand the words of a question: term -> its variants with weights, 0..1.

    A phrase ("how much", "bus stop") is expanded under the phrase itself, which is no term of any post.
    """
    return {term: dict(variants) for term, variants in _expand_words(text).items()}


@lru_cache(maxsize=256)  # search, reranking, extract and coverage of one question ask for the same words
def _expand_words(text: str) -> Mapping[str, Mapping[str, float]]:
    words = [word.lower().replace("ё", "е") for word in _WORD.findall(text)[:_MAX_WORDS]]
    variants: dict[str, dict[str, float]] = {}
    for word in words:
        if day := _ORDINAL_OR_DAY.fullmatch(word):  # "the 11th" and "11 July"
            variants[word] = {day[1]: 1.0} if day[2] else {f"{word}{_find_ordinal_ending(int(word))}": 1.0}
    for term, lang, group in _find_groups(words):
        mine = variants.setdefault(term, {})
        for variant, weight in group.list_variants(lang):
            if variant != term:
                mine[variant] = max(weight, mine.get(variant, 0.0))
    return variants


def _find_ordinal_ending(number: int) -> str:
    return "th" if number in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _find_groups(words: list[str]) -> Iterator[tuple[str, str, _Group]]:
    """Find the groups of words and phrases: (term or phrase, language, group)."""
    stems = [_STOP_MARK + word if word in STOP_WORDS else stem(word) or word for word in words]
    for first, word in enumerate(words):
        lang = "en" if word.isascii() else "ru"
        for length in range(1, min(_MAX_PHRASE_WORDS, len(words) - first) + 1):
            keys = [tuple(stems[first : first + length])]
            if length == 1 and word not in STOP_WORDS:
                keys += [(stem_dictionary_form(form.replace("ё", "е")),) for form in list_dictionary_forms(word)]
            for key in dict.fromkeys(keys):
                yield from ((" ".join(stems[first : first + length]), lang, group) for group in _find_groups_of(key))


def is_translation(term: str, variant: str) -> bool:
    """Whether a variant of a term is in the other language."""
    return variant.isascii() != term.isascii() and variant not in _ANNOTATIONS
