"""Query terms: their weights, and what share of a question the terms of a text cover.

Words that only name the kind of answer ("name", "number", "cost") weigh less: posts seldom repeat them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_core.text.tokens import (
    STOP_WORDS,
    WORD,
    list_dictionary_forms,
    measure_stem_similarity,
    stem,
    stem_dictionary_form,
    tokenize,
)

if TYPE_CHECKING:
    from rag_core.text.answer_type import AnswerType  # an import needs none

_SYNONYMS = Path(__file__).with_name("synonyms.txt")
# Weights of variants, against 1 for the word itself. A translation is worth more than a synonym: a post in the other
# language has no other word of the question.
SYNONYM_WEIGHT, TRANSLATION_WEIGHT, _RELATED_WEIGHT, _ANNOTATION_WEIGHT = 0.5, 0.8, 0.3, 0.8
_PHRASE_FACTOR = 0.5  # for a word of a phrase
_MAX_WORDS = 40  # words of a question that are looked up
_MAX_PHRASE_WORDS = 3
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


class _Group(NamedTuple):
    """Group of a table: terms of each language with their factors; `related` words weigh less than synonyms."""

    terms: dict[str, dict[str, float]]
    related: bool


_STOP_MARK = "'"  # before a stop word in a phrase, as other words may have the stem of one: "имя" and "им"


@cache
def _read_table() -> tuple[Mapping[tuple[str, ...], list[_Group]], frozenset[str]]:
    """Read the table: the groups that hold each phrase, in which stop words stay whole, and the stems of no group."""
    groups, singles = defaultdict[tuple[str, ...], list[_Group]](list), set[str]()
    for line in _SYNONYMS.read_text(encoding="utf-8").lower().replace("ё", "е").splitlines():
        if line.startswith("="):
            singles.update(map(stem_dictionary_form, line[1:].split()))
        if not line or line[0] in "#=":
            continue
        group = _Group({"ru": {}, "en": {}}, line.startswith("~"))
        for terms, side in zip(group.terms.values(), line.lstrip("~").split("|"), strict=True):
            for entry in filter(None, map(str.strip, side.split(","))):
                if entry in _ANNOTATIONS:
                    terms[entry] = 1.0
                    continue
                words = WORD.findall(entry)
                phrase = tuple(_STOP_MARK + w if w in STOP_WORDS else stem_dictionary_form(w) for w in words)
                factor = 1.0 if len(phrase) == 1 else _PHRASE_FACTOR
                terms |= {t: max(factor, terms.get(t, 0.0)) for t in phrase if t[0] != _STOP_MARK}
                if group not in groups[phrase]:
                    groups[phrase].append(group)
    return dict(groups), frozenset(singles)


def is_table_word(word: str) -> bool:
    """Whether the table holds a lower-case word, in either language."""
    term, (groups, singles) = stem(word), _read_table()
    return bool(term) and (term in singles or (term,) in groups)


@cache
def list_table_stems() -> tuple[str, ...]:
    """List the stems of single words in the table, sorted: what a typo may be read as."""
    groups, singles = _read_table()
    return tuple(sorted({phrase[0] for phrase in groups if len(phrase) == 1 and phrase[0][0] != _STOP_MARK} | singles))


@lru_cache(maxsize=256)  # search, reranking, extract and coverage of one question ask for the same words
def expand_words(text: str) -> Mapping[str, Mapping[str, float]]:
    """Expand the words of a question: term -> its variants with weights, 0..1.

    A phrase ("how much", "bus stop") is expanded under the phrase itself, which is no term of any post.
    """
    words = [word.lower().replace("ё", "е") for word in WORD.findall(text)[:_MAX_WORDS]]
    variants, (groups, _) = dict[str, dict[str, float]](), _read_table()
    for word in words:
        if day := _ORDINAL_OR_DAY.fullmatch(word):  # "the 11th" and "11 July"
            ending = "th" if word in {"11", "12", "13"} else {"1": "st", "2": "nd", "3": "rd"}.get(word[-1], "th")
            variants[word] = {day[1]: 1.0} if day[2] else {f"{word}{ending}": 1.0}
    stems = [_STOP_MARK + word if word in STOP_WORDS else stem(word) or word for word in words]
    for first, word in enumerate(words):
        lang = "en" if word.isascii() else "ru"
        for length in range(1, min(_MAX_PHRASE_WORDS, len(words) - first) + 1):
            phrase = tuple(stems[first : first + length])
            keys, term = [phrase], " ".join(phrase)
            if length == 1 and word not in STOP_WORDS:
                keys += [(stem_dictionary_form(form.replace("ё", "е")),) for form in list_dictionary_forms(word)]
            for group in (group for key in dict.fromkeys(keys) for group in groups.get(key, ())):
                found = variants.setdefault(term, {})  # the greatest weight of each
                for other, terms in group.terms.items():
                    base = SYNONYM_WEIGHT if other == lang else TRANSLATION_WEIGHT
                    base = _RELATED_WEIGHT if group.related else base
                    for variant, factor in terms.items():
                        if variant != term:
                            weight = _ANNOTATION_WEIGHT if variant in _ANNOTATIONS else base * factor
                            found[variant] = max(weight, found.get(variant, 0.0))
    return variants


TermWeight = Callable[[str], float]  # term to weight, above 0


# Words that only name the kind of answer and say nothing of the topic: posts seldom repeat them.
_ASKING_WORDS = (
    "назвать называется называется называют называлась называли название имя зовут звали тип вид род часть число "
    "количество  процент способ образ причина цель роль место человек люди лицо событие случилось случиться "
    "произошло происходит  происходить стало стал стать стали привело привести означает означать считается "
    "считать известен известный известна известно  известны используется использовать используют применяется "
    "составляет составлять занимает находится находиться находился  расположен расположена относится относиться "
    "говорится сказать говорить начать начали начало сделать сделал делать  является служит имеет иметь имел дать "
    "дал результат пример термин слово фамилия город страна год день время  name call called type kind sort part "
    "number amount percentage way reason cause purpose role place person people  event happen happened occur "
    "become became led lead result mean means consider considered known use used make made  locate located refer "
    "referred say said begin began start give gave example term word title year day time city country  group "
    "thing many several main"
    " today tomorrow yesterday yet still now current currently nowadays сегодня завтра вчера"
    " нынче нынешний текущий актуальный тот та те каким какими будут буду будем get gets got one"
    " cost costs price prices стоит стоить стоят стоила стоило цена цены обойдется"
).split()


@cache
def _list_asking_stems() -> frozenset[str]:  # not at import: they need the dictionary
    return frozenset(map(stem, _ASKING_WORDS))


_ASKING_WEIGHT = 0.3
# Terms of a question up to which variants have their full weight, and from which they have none: on XQuAD, with seven
# terms on average, variants at full weight lost 2 points at rank 1.
_FULL_WEIGHT_TERMS, _NO_VARIANT_TERMS = 3, 6
_LEAST_TRANSLATION_FACTOR = 0.5  # of a translation, however many terms there are
_ALIAS_WEIGHT = 0.8  # of another name, as of a translation
_UNKNOWN_TERM = "\0"  # no term of any index


def is_asking_word(word: str) -> bool:
    """Whether a word only names the kind of answer that is asked for."""
    terms = tokenize(word)
    return bool(terms) and _list_asking_stems().issuperset(terms)


# Beginnings of Russian compounds, whose second part may stand alone in a post: "главврач", "авиабилет", "микрочип".
_COMBINING_FORM = re.compile(
    r"(?:авиа|авто|агро|аква|био|вело|ветеринар|вет|видео|газо|глав|гос|дет|евро|зам|зоо|инфо|кино|мед|микро|мини|мото|мульти|"
    r"онлайн|пол|проф|радио|само|санит|спец|спорт|стом|супер|теле|тур|физ|фото|хоз|экспресс|электро)(?=[а-я]{3})"
)


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Query terms with weights: each term's share of the total weight; the shares add up to 1.

    `variants`: synonyms and translations of each term, with weights 0..1, and of phrases, which are no terms.
    """

    text: str
    order: tuple[str, ...]
    share: dict[str, float]
    want: AnswerType
    variants: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, text: str, weigh: TermWeight, aliases: Iterable[tuple[str, str]] = ()) -> QueryTerms:
        """Build from the text of the question, the term weights of the index, and (term, other name)."""
        from rag_core.text.answer_type import detect_answer_type

        order, variants = tuple(tokenize(text)), {term: {**found} for term, found in expand_words(text).items()}
        want, asking = detect_answer_type(text)
        asking |= _list_asking_stems()
        for term, name in aliases:
            variants.setdefault(term, {})[name] = _ALIAS_WEIGHT
        unknown = weigh(_UNKNOWN_TERM)
        weights = {}
        for term in dict.fromkeys(order):
            weight = weigh(term)
            if weight >= unknown:  # no post has it: it matters as much as its rarest variant that one has
                first = _COMBINING_FORM.match(term)
                if first and weigh(head := term[first.end() :]) < unknown:
                    variants.setdefault(term, {}).setdefault(head, SYNONYM_WEIGHT)
                known = (other for variant in variants.get(term, ()) if (other := weigh(variant)) < unknown)
                weight = max(known, default=weight)
            weights[term] = weight * (_ASKING_WEIGHT if term in asking else 1.0)
        total = sum(weights.values()) or 1.0
        shares = {term: weight / total for term, weight in weights.items()}
        return cls(text, order, shares, want, variants)

    def matched_share(self, found: frozenset[str]) -> float:
        """Weight share of the question's terms that are among the found terms; variants count by their weights."""
        covered = 0.0
        for term, share in self.share.items():
            if term in found:
                covered += share
            elif (near := self.variants.get(term)) and not found.isdisjoint(near):
                covered += share * max(weight for variant, weight in near.items() if variant in found)
        return covered

    def similar_share(self, found: frozenset[str]) -> float:
        """Weight share that similar stems cover beyond what `matched_share` counts, in proportion to their similarity."""
        covered = 0.0
        for term, share in self.share.items():
            if term not in found:
                variants = self.variants.get(term, {}).items()
                credit = max((weight for variant, weight in variants if variant in found), default=0.0)
                covered += share * max(0.0, measure_stem_similarity(term, found) - credit)
        return covered

    def weigh_variants(self) -> dict[str, dict[str, float]]:
        """Variants for the lexical search. A long question has words enough of its own: its variants weigh less.

        A post in the other language has no other word of it: half the weight of translations stays.
        """
        spare = (_NO_VARIANT_TERMS - len(self.share)) / (_NO_VARIANT_TERMS - _FULL_WEIGHT_TERMS)
        synonym_factor = min(1.0, max(0.0, spare))
        translation_factor = max(synonym_factor, _LEAST_TRANSLATION_FACTOR)
        weighed: dict[str, dict[str, float]] = {}
        for term, found in self.variants.items():
            weighed[term] = {}
            for variant, weight in found.items():
                is_translation = variant.isascii() != term.isascii() and variant not in _ANNOTATIONS
                if factor := translation_factor if is_translation else synonym_factor:
                    weighed[term][variant] = weight * factor
        return weighed
