"""Whether a sentence that names somebody of the claim gives the claim's role to somebody else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rag_core.verify.facts import Stated
from rag_core.verify.matching import has_name, names_same, nearest
from rag_core.verify.opposed import pronoun_in
from rag_core.verify.words import Word

__all__ = ["role_differs"]

_PARTS = re.compile(r"[,;()]")
_WHILE = frozenset({"а", "while", "whereas"})
_BECOMING = frozenset(
    "стал стала стали станет является являются назначен назначена назначили избран избрана избрали выбран выбрана "
    "became become becomes named appointed elected".split()
)
_SAME = 0.7  # of a word: it is the same word
_AROUND = 10  # words in which the nearest ones are looked for
_NEAR = 2  # words between a role and who has it that tell nothing: "led by the"


def role_differs(claim: Stated, best: Stated, post: Sequence[Stated]) -> Iterator[tuple[bool, str]]:
    """Names of the claim that are not there, or stand in another part, where the role has exactly one other name."""
    if claim.denied or not claim.names:
        return
    parts = _parts(best)
    others = _others(parts, best, claim)
    silent = pronoun_in(best)
    for name in claim.names:
        roles = [word for word in _beside(name.word, claim.all_words) if not word.capital]
        absent = not name.weak and not silent and not has_name(name.word, post)
        same = {
            (word.low, word.capital) for word in best.all_words.candidates(name.word) if names_same(name.word, word)
        }
        at = [next((n for n, w in enumerate(part) if (w.low, w.capital) in same), None) for part in parts]
        # where the last part begins that has the name behind something the claim does not speak of
        latest = max(
            (_strange(part, place or 0, claim, best) for part, place in zip(parts, at, strict=True)), default=-1
        )
        for n, part in enumerate(parts):
            if at[n] is not None:
                continue
            holders = {other.span for other in others[n] if any(_same_role(role, other) for role in roles)}
            if len(holders) == 1 and (absent or latest > part[-1].start):
                yield True, f"{claim.text[name.word.start : name.word.end]} ≠ {best.text[slice(*holders.pop())]}"
                return


def _parts(best: Stated) -> list[list[Word]]:
    """The words of the sentence, parted where something else may begin."""
    parts: list[list[Word]] = [[]]
    for n, word in enumerate(best.all_words):
        before = best.all_words[n - 1].end if n else 0
        if n and (_PARTS.search(best.text[before : word.start]) or word.low in _WHILE):
            parts.append([])
        parts[-1].append(word)
    return parts


def _beside(word: Word, words: Sequence[Word]) -> list[Word]:
    """The nearest words of meaning before and behind; who becomes something has its role behind "becomes"."""
    words = [w for w in words if w.low not in _BECOMING]
    at = next((n for n, other in enumerate(words) if other.start == word.start), None)
    if at is None:  # "Named" is no name
        return []
    before = [w for w in words[max(0, at - _NEAR - 1) : at][::-1] if w.stem][:1]
    return before + [w for w in words[at + 1 : at + 2 + _NEAR] if w.stem][:1]


@dataclass(frozen=True, slots=True)
class _Other:
    """A name of a sentence that is not of the claim: where the run of names stands, and the words beside it."""

    span: tuple[int, int]
    beside: tuple[Word, ...]


def _others(parts: Sequence[Sequence[Word]], best: Stated, claim: Stated) -> list[list[_Other]]:
    """The names of each part that the claim does not have."""
    strong = {name.word.start for name in best.names if not name.weak}
    strange = {name.word.start for name in best.names if not name.weak and not has_name(name.word, [claim])}
    return [_others_in(part, strong, strange) for part in parts]


def _others_in(part: Sequence[Word], strong: set[int], strange: set[int]) -> list[_Other]:
    found: list[_Other] = []
    # a run of names is one name
    for is_name, run in groupby(enumerate(part), key=lambda one: one[1].start in strong):
        words = list(run) if is_name else []
        for n, word in words:
            if word.start in strange:
                span = words[0][1].start, words[-1][1].end
                around = part[max(0, n - _AROUND) : n + _AROUND + 1]
                found.append(_Other(span, tuple(_beside(word, around))))
    return found


def _same_role(role: Word, other: _Other) -> bool:
    return nearest(role, other.beside)[0] >= _SAME


def _strange(part: Sequence[Word], at: int, claim: Stated, best: Stated) -> int:
    """Where a part begins in which the name stands behind something the claim does not speak of: "за кассу Морган"."""
    capitals = {one.word.start for one in best.names}
    before = (word for word in part[:at] if word.stem and word.start not in capitals)
    return part[0].start if any(nearest(word, claim.words)[0] < _SAME for word in before) else -1
