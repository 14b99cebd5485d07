"""Whether a sentence that names somebody of the claim gives the claim's role to somebody else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_core.verify.facts import Name, Stated
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
_NEAR = 2  # words between a role and who has it that tell nothing: "led by the"


def role_differs(claim: Stated, best: Stated, post: Sequence[Stated]) -> Iterator[tuple[bool, str]]:
    """Names of the claim that are not there, or stand in another part, where the role has exactly one other name."""
    parts = [] if claim.denied else _parts(best)
    for name in claim.names:
        roles = [word for word in _beside(name.word, claim.all_words) if not word.capital]
        absent = not name.weak and not has_name(name.word, post) and not pronoun_in(best)
        for part in parts:
            if any(names_same(name.word, word) for word in part):
                continue
            others = _holders(roles, part, best, claim)
            if len(others) == 1 and (absent or _elsewhere(name, parts, part, claim, best)):
                yield True, f"{claim.text[name.word.start : name.word.end]} ≠ {best.text[slice(*others.pop())]}"
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
    at = next(n for n, other in enumerate(words) if other.start == word.start)
    before = [w for w in words[max(0, at - _NEAR - 1) : at][::-1] if w.stem][:1]
    return before + [w for w in words[at + 1 : at + 2 + _NEAR] if w.stem][:1]


def _holders(roles: Sequence[Word], part: Sequence[Word], best: Stated, claim: Stated) -> set[tuple[int, int]]:
    """Where the names stand that are beside one of the roles in this part and not of the claim; runs are one name."""
    found = set()
    strong = {name.word.start for name in best.names if not name.weak}
    for name in best.names:
        inside = name.word in part and not name.weak and not has_name(name.word, [claim])
        if inside and any(nearest(role, _beside(name.word, part))[0] >= _SAME for role in roles):
            at = part.index(name.word)
            first = last = at
            while first and part[first - 1].start in strong:
                first -= 1
            while last + 1 < len(part) and part[last + 1].start in strong:
                last += 1
            found.add((part[first].start, part[last].end))
    return found


def _elsewhere(name: Name, parts: Sequence[Sequence[Word]], role: Sequence[Word], claim: Stated, best: Stated) -> bool:
    """Whether the name stands in a part behind the role, after something the claim does not speak of: "за кассу Морган"."""
    capitals = {one.word.start for one in best.names}
    for part in parts:
        at = next((n for n, word in enumerate(part) if names_same(name.word, word)), 0)
        before = (word for word in part[:at] if word.stem and word.start not in capitals)
        if part[0].start > role[-1].start and any(nearest(word, claim.words)[0] < _SAME for word in before):
            return True
    return False
