"""Query terms: their weights, and what share of a question the terms of a text cover.

Words that only name the kind of answer ("name", "number", "cost") weigh less: posts seldom repeat them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from rag_core.text.answer_type import AnswerType, detect_answer_type, extract_asking_stems
from rag_core.text.query_expansion import SYNONYM_WEIGHT, expand_words, is_translation
from rag_core.text.stem_similarity import measure_stem_similarity
from rag_core.text.tokens import stem, tokenize

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
def _stem_asking_words(*, latin: bool) -> frozenset[str]:
    """Stem the asking words of one script: those in Cyrillic need the dictionary, which takes 0.1 s to load."""
    return frozenset(stem(word) for word in _ASKING_WORDS if word.isascii() is latin)


def is_asking_stem(term: str) -> bool:
    """Whether a term of a question only names the kind of answer that is asked for."""
    return term in _stem_asking_words(latin=term.isascii())


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
    return bool(terms) and all(map(is_asking_stem, terms))


# Beginnings of Russian compounds, whose second part may stand alone in a post: "главврач", "авиабилет", "микрочип".
_COMBINING_FORM = re.compile(
    r"(?:авиа|авто|агро|аква|био|вело|ветеринар|вет|видео|газо|глав|гос|дет|евро|зам|зоо|инфо|кино|мед|микро|мини|мото|мульти|"
    r"онлайн|пол|проф|радио|само|санит|спец|спорт|стом|супер|теле|тур|физ|фото|хоз|экспресс|электро)(?=[а-я]{3})"
)


def strip_combining_form(term: str) -> str:
    """Strip the first part of a Russian compound: "врач" of "главврач"; empty for another stem."""
    found = _COMBINING_FORM.match(term)
    rest = term[found.end() :] if found else term
    return rest if rest != term else ""


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
        order, variants = tuple(tokenize(text)), expand_words(text)
        asking = extract_asking_stems(text)
        for term, name in aliases:
            variants.setdefault(term, {})[name] = _ALIAS_WEIGHT
        unknown = weigh(_UNKNOWN_TERM)
        weights = {}
        for term in dict.fromkeys(order):
            weight = weigh(term)
            if weight >= unknown:  # no post has it: it matters as much as its rarest variant that one has
                if (head := strip_combining_form(term)) and weigh(head) < unknown:
                    variants.setdefault(term, {}).setdefault(head, SYNONYM_WEIGHT)
                known = (other for variant in variants.get(term, ()) if (other := weigh(variant)) < unknown)
                weight = max(known, default=weight)
            weights[term] = weight * (_ASKING_WEIGHT if term in asking or is_asking_stem(term) else 1.0)
        total = sum(weights.values()) or 1.0
        shares = {term: weight / total for term, weight in weights.items()}
        return cls(text, order, shares, detect_answer_type(text), variants)

    def match(self, term: str, found: frozenset[str]) -> float:
        """Credit of a term, 0..1: 1 where it was found, else the weight of its best variant that was found."""
        if term in found:
            return 1.0
        return max((weight for variant, weight in self.variants.get(term, {}).items() if variant in found), default=0.0)

    def matched_share(self, found: frozenset[str]) -> float:
        """Weight share of the question's terms that are among the found terms; variants count by their weights."""
        covered = 0.0
        for term, share in self.share.items():  # without `match`: a question calls this for hundreds of sentences
            if term in found:
                covered += share
            elif near := self.variants.get(term):
                covered += share * max((weight for variant, weight in near.items() if variant in found), default=0.0)
        return covered

    def similar_share(self, found: frozenset[str]) -> float:
        """Weight share that similar stems cover beyond what `matched_share` counts, in proportion to their similarity."""
        return sum(
            share * max(0.0, measure_stem_similarity(term, found) - self.match(term, found))
            for term, share in self.share.items()
            if term not in found
        )

    def weigh_variants(self) -> dict[str, dict[str, float]]:
        """Variants for the lexical search. A long question has words enough of its own: its variants weigh less.

        A post in the other language has no other word of it: half the weight of translations stays.
        """
        spare = (_NO_VARIANT_TERMS - len(self.share)) / (_NO_VARIANT_TERMS - _FULL_WEIGHT_TERMS)
        synonym_factor = min(1.0, max(0.0, spare))
        translation_factor = max(synonym_factor, _LEAST_TRANSLATION_FACTOR)
        return {
            term: {
                variant: weight * factor
                for variant, weight in found.items()
                if (factor := translation_factor if is_translation(term, variant) else synonym_factor)
            }
            for term, found in self.variants.items()
        }
