"""What a "not", a "may" or a "must" applies to: the words behind it, as far as its clause goes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rag_core.verify.words import Word

__all__ = ["Scope", "denials", "modals"]

_NOT = frozenset(
    "не нет без нельзя not no never neither nor none nobody nothing without cannot unable incapable rarely hardly barely seldom "
    "scarcely невозможно вряд отсутствует отсутствуют отсутствие отсутствием lack lacks lacked lacking".split()
)
_NI = frozenset(
    "ни никогда никто никого никому никем ничего ничто ничем ничему никакой никакая никакие никаких никакого никуда нигде".split()
)
_TO = frozenset(
    "fail fails failed refuse refuses refused decline declines declined forget forgot отказался отказалась отказались".split()
)
_NOT_MEANT = re.compile(
    r"^(?:не (?:только|менее|меньше|более|больше|раз\b|столько|просто|лишь|исключено|так|очень|слишком)|not (?:only|just|merely|necessarily|so|very|as)|no (?:less|fewer|more) than|"
    r"no (?:doubt|wonder|matter)|нет (?:сомнени\w+))"
)
_TURNED = re.compile(
    r"^(?:anything but|(?:something )?other than|(?:has|have|had|is|are|was|were) yet to|far from|вряд ли|едва ли|не вправе)"
)
_MAY = frozenset(
    "может могут мог могла могло могли возможно вероятно якобы предположительно будто бы may might could possibly perhaps probably allegedly "
    "reportedly likely supposedly".split()
)
_PLANS = frozenset(
    "планирует планируют планировал планировали намерен намерена намерены собирается собираются хочет хотят хотел обещает обещают обещал ожидается "
    "ожидают предлагает предлагают предложил предложили рассматривает рассматривают plans planned plan intends intend expected expects proposes "
    "proposed wants want hopes considering considers promises promised would".split()
)
_MUST = frozenset(
    "должен должна должно должны обязан обязана обязаны обязано необходимо нужно надо следует must should shall obliged required ought".split()
)
_ENDS, _LIST_ENDS = re.compile(r"[.,;:!?…()—–\n]"), re.compile(r"[.;:!?…()—–\n]")
_AUXILIARIES = frozenset(
    "буду будут будем будете смог смогла смогли смогут сможет стал стала стали станет станут удалось able".split()
)
_REACH, _BACK = 6, 3  # content words
_MOST_WALKED = 40  # words of any sort on the way to them


@dataclass(frozen=True, slots=True)
class Scope:
    """`first` is the word that is meant (None where none follows), `wide` are the words that may be meant; `at` where."""

    kind: str
    at: int
    first: Word | None
    wide: frozenset[str]


def denials(low: str, words: Sequence[Word]) -> list[Scope]:
    """What is denied; "никогда не" is one denial, "не только" none."""
    found = [n for n, word in enumerate(words) if _denies(low, words, n)]
    plain = [n for n in found if words[n].low not in _NI]
    found = plain if plain and len(plain) < len(found) and any(words[n].low == "не" for n in plain) else found
    return [_scope("not", low, words, n) for n in found]


def _denies(low: str, words: Sequence[Word], n: int) -> bool:
    said, rest = words[n].low, low[words[n].start : words[n].start + 30]
    if said in _TO:
        return bool(re.match(r"\w+\s+(?:to\b|\w+ть(?:ся)?\b)", rest))
    if _TURNED.match(rest):
        return True
    return (said in _NOT or said in _NI or bool(re.search(r"n['’]t$", said))) and not _NOT_MEANT.match(rest)


def modals(low: str, words: Sequence[Word]) -> list[Scope]:
    """What may be, is planned, or must be."""
    kinds: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("may", _MAY.__contains__), ("plans", _PLANS.__contains__), ("must", _MUST.__contains__)
    )  # fmt: skip
    return [_scope(kind, low, words, n) for n, word in enumerate(words) for kind, has in kinds if _is_modal(word, has)]


def _is_modal(word: Word, has: Callable[[str], bool]) -> bool:
    return has(word.low) and not (word.low == "may" and word.capital and not word.opens)


def _scope(kind: str, low: str, words: Sequence[Word], n: int) -> Scope:
    ends = _LIST_ENDS if words[n].low in {"без", "without"} else _ENDS
    behind = _content(low, words[n : n + _MOST_WALKED], ends, _REACH)
    before = _content(low, words[max(0, n - _MOST_WALKED) : n + 1][::-1], _ENDS, _BACK)
    first = next((word for word in behind if word.low not in _AUXILIARIES), None)
    return Scope(kind, words[n].start, first, frozenset(word.stem for word in (*behind, *before)))


def _content(low: str, row: Sequence[Word], ends: re.Pattern[str], most: int) -> list[Word]:
    """The first `most` content words behind the first of a row, up to a mark that ends the clause."""
    found: list[Word] = []
    for one, word in pairwise(row):
        between = low[one.end : word.start] if one.start < word.start else low[word.end : one.start]
        if ends.search(between) or len(found) == most:
            break
        if word.stem:
            found.append(word)
    return found
