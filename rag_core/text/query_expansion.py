"""Synonyms and translations: query expansion by a table of everyday words in Russian and English.

A group of the table lists words of one meaning in both languages, so that it bridges them as well. Words that ask for
a price, a time of day or a phone number are also expanded with the annotation of posts that hold one ("predictive
annotation", Prager et al. 2000).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rag_core.text.tokens import STOP_WORDS, list_dictionary_forms, stem, stem_dictionary_form

_TABLE = Path(__file__).with_name("synonyms.txt")
# Weights of variants, against 1 for the word itself. A translation is worth more than a synonym: a post in the other
# language has no other word of the question.
_SYNONYM_WEIGHT, TRANSLATION_WEIGHT, _RELATED_WEIGHT, _ANNOTATION_WEIGHT = 0.5, 0.8, 0.3, 0.8
_PHRASE_FACTOR = 0.5  # for a word of a phrase
_MAX_WORDS = 40  # words of a question that are looked up
_MAX_PHRASE_WORDS = 3
_WORD = re.compile(r"[^\W_]+")

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
    """Group of the table: terms of each language with their factors; `related` words weigh less than synonyms."""

    terms: Mapping[str, Mapping[str, float]]
    related: bool

    def list_variants(self, lang: str) -> Iterator[tuple[str, float]]:
        """List the variants of a word of this language, with weights."""
        for other, terms in self.terms.items():
            weight = _RELATED_WEIGHT if self.related else _SYNONYM_WEIGHT if other == lang else TRANSLATION_WEIGHT
            yield from (
                (term, _ANNOTATION_WEIGHT if term.startswith("<") else weight * factor)
                for term, factor in terms.items()
            )


_STOP_MARK = "'"  # before a stop word in a phrase, as other words may have the stem of one: "имя" and "им"


def _normalize(words: list[str]) -> tuple[str, ...]:
    """Normalize a phrase of the table; stop words stay whole, and marked."""
    return tuple(_STOP_MARK + word if word in STOP_WORDS else stem_dictionary_form(word) for word in words)


@lru_cache(maxsize=1)
def _load_table() -> tuple[Mapping[tuple[str, ...], list[_Group]], frozenset[str]]:
    """Load the table: the groups of each phrase, and the stems of all single words."""
    by_phrase: dict[tuple[str, ...], list[_Group]] = defaultdict(list)
    known: set[str] = set()
    for line in _TABLE.read_text(encoding="utf-8").lower().replace("ё", "е").splitlines():
        if line.startswith("="):
            known.update(map(stem_dictionary_form, line[1:].split()))
        elif line and not line.startswith("#"):
            terms: dict[str, dict[str, float]] = {"ru": {}, "en": {}}
            group = _Group(terms, line.startswith("~"))
            for lang, entries in zip(terms, line.lstrip("~").split("|"), strict=True):
                for entry in filter(None, map(str.strip, entries.split(","))):
                    if entry in _ANNOTATIONS:
                        terms[lang][entry] = 1.0
                        continue
                    phrase = _normalize(_WORD.findall(entry))
                    if group not in by_phrase[phrase]:
                        by_phrase[phrase].append(group)
                    factor = 1.0 if len(phrase) == 1 else _PHRASE_FACTOR
                    terms[lang] |= {t: max(factor, terms[lang].get(t, 0.0)) for t in phrase if t[0] != _STOP_MARK}
    return dict(by_phrase), frozenset(
        known | {phrase[0] for phrase in by_phrase if len(phrase) == 1 and phrase[0][0] != _STOP_MARK}
    )


def is_table_word(word: str) -> bool:
    """Whether the table holds a lower-case word, in either language."""
    return stem(word) in _load_table()[1]


@lru_cache(maxsize=1)
def list_table_stems() -> tuple[str, ...]:
    """List the stems of single words in the table, sorted."""
    return tuple(sorted(_load_table()[1]))


def expand_words(text: str) -> dict[str, dict[str, float]]:
    """Expand the words of a question: term -> its variants with weights, 0..1.

    A phrase ("how much", "bus stop") is expanded under the phrase itself, which is no term of any post.
    """
    words = [word.lower().replace("ё", "е") for word in _WORD.findall(text)[:_MAX_WORDS]]
    variants: dict[str, dict[str, float]] = {}
    for term, lang, group in _find_groups(words):
        mine = variants.setdefault(term, {})
        for variant, weight in group.list_variants(lang):
            if variant != term:
                mine[variant] = max(weight, mine.get(variant, 0.0))
    return variants


def _find_groups(words: list[str]) -> Iterator[tuple[str, str, _Group]]:
    """Find the groups of words and phrases: (term or phrase, language, group)."""
    by_phrase = _load_table()[0]
    stems = [_STOP_MARK + word if word in STOP_WORDS else stem(word) or word for word in words]
    for first, word in enumerate(words):
        lang = "en" if word.isascii() else "ru"
        for length in range(1, min(_MAX_PHRASE_WORDS, len(words) - first) + 1):
            keys = [tuple(stems[first : first + length])]
            if length == 1 and word not in STOP_WORDS:
                keys += [(stem_dictionary_form(form.replace("ё", "е")),) for form in list_dictionary_forms(word)]
            for key in dict.fromkeys(keys):
                yield from ((" ".join(stems[first : first + length]), lang, group) for group in by_phrase.get(key, ()))
