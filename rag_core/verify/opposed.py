"""Whether a sentence denies, turns around, or leaves open what a claim says, and whether it names others. Pure.

Functions that yield (differs, why) say with `differs` that the sentence says otherwise, not only that it is silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from rag_core.verify.facts import Name, Stated
from rag_core.verify.matching import COPIED, has_name, names_same, nearest, word_for_word
from rag_core.verify.opposites import opposed
from rag_core.verify.scopes import Scope
from rag_core.verify.words import Word

__all__ = ["denial_differs", "names_differ", "opposite_said", "pronoun_in", "replaced", "unsure"]

_PRONOUNS = frozenset(
    "he she it they his her its their him them он она оно они его ее их ему ей им нее него них".split()
)

Found = Iterator[tuple[bool, str]]

_SAME_STORY = 0.5  # of the claim's words in the sentence: a name that differs there is another name
_SAME = 0.7  # of a word: it is the same word
_MODAL_ABOUT = 0.6  # of the claim: less may be about another thing that may be


def names_differ(claim: Stated, best: Stated, post: Sequence[Stated], about: float) -> Found:
    """The names of the claim that the post does not have."""
    spare = [name for name in best.names if not has_name(name.word, [claim])]
    copied = word_for_word(claim, best) >= COPIED
    for name in claim.names:
        if has_name(name.word, [best]) or _part_met(name, claim, best):
            continue
        said = claim.text[name.word.start : name.word.end]
        rivals = [other for other in spare if not other.weak or copied]
        rival = next((other for other in rivals if copied or _same_place(name.word, claim, other.word, best)), None)
        if has_name(name.word, post):
            if rival and copied and not name.weak and _same_place(name.word, claim, rival.word, best):
                yield True, f"{said} ≠ {best.text[rival.word.start : rival.word.end]}"
        elif name.weak:
            if rival and copied:
                yield False, f"{said} is not there"
        elif rival and (copied or about >= _SAME_STORY):
            yield True, f"{said} ≠ {best.text[rival.word.start : rival.word.end]}"
        else:
            yield False, f"{said} is not there"


def pronoun_in(best: Stated) -> bool:
    """Whether the sentence speaks of somebody or something that it does not name."""
    return any(word.low in _PRONOUNS for word in best.all_words)


def _part_met(name: Name, claim: Stated, best: Stated) -> bool:
    """Whether this is a first name left out, as in "Lopez" for "Jennifer Lopez", with no other in its place."""
    after = next((n for n in claim.names if 0 < n.word.start - name.word.end <= 1), None)
    if after is None or not has_name(after.word, [best]):
        return False
    there = next((w for w in best.all_words if names_same(after.word, w)), best.all_words[0])
    before = next((w for w in best.all_words if 0 < there.start - w.end <= 1), None)
    return before is None or not before.capital or not before.stem or before.opens


def _same_place(one: Word, claim: Stated, other: Word, best: Stated) -> bool:
    """Whether the word before or behind is the same for both."""
    mine, theirs = _beside(one, claim), _beside(other, best)
    return any(a == b and a for a, b in zip(mine, theirs, strict=True))


def _beside(word: Word, sentence: Stated) -> tuple[str, str]:
    at = next(n for n, other in enumerate(sentence.all_words) if other.start == word.start)
    lows = ["", *(w.low for w in sentence.all_words), ""]
    return lows[at], lows[at + 2]


def denial_differs(claim: Stated, best: Stated, about: float) -> Found:
    """What one of the two denies and the other says."""
    flips = sum(1 for _ in _opposites(claim, best)) % 2 == 1
    for scope, where, other in (*((s, best, claim) for s in best.denied), *((s, claim, best) for s in claim.denied)):
        if scope.first is None or flips:
            continue
        found, there = nearest(scope.first, other.words)
        if found >= _SAME and there and not any(there.stem in s.wide for s in other.denied):
            yield True, f"{'not ' if where is claim else ''}{there.low} ≠ {'not ' if where is best else ''}{there.low}"
            return
    if not flips and word_for_word(claim, best) >= COPIED and _odd(claim, best):
        yield True, "one of the two is denied"


def _odd(claim: Stated, best: Stated) -> bool:
    """Whether the part of the sentence that the claim copies has another number of denials."""
    mine, theirs = [w.low for w in claim.all_words], [w.low for w in best.all_words]
    blocks = [b for b in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks() if b.size]
    start = best.all_words[blocks[0].b].start
    end = best.all_words[blocks[-1].b + blocks[-1].size - 1].end
    return sum(start <= scope.at < end for scope in best.denied) != len(claim.denied)


def _opposites(claim: Stated, best: Stated) -> Iterator[tuple[Word, Word]]:
    lone = [word for word in claim.words if nearest(word, best.words)[0] < _SAME]
    spare = [word for word in best.words if nearest(word, claim.words)[0] < _SAME]
    for word in lone:
        if other := next((one for one in spare if opposed(word.low, one.low)), None):
            yield word, other


def opposite_said(claim: Stated, best: Stated, about: float) -> Found:
    """Opposite words, unless one of them is denied: "не вырос" is "снизился"."""
    for word, other in _opposites(claim, best):
        if _UNTIL.search(f"{word.low} {other.low}") and _closes_then(claim, best):
            continue
        denied = _denied(word, claim.denied) != _denied(other, best.denied)
        if not denied and about >= _ABOUT:
            yield True, f"{word.low} ≠ {other.low}"


_ABOUT = 0.4
_UNTIL = re.compile(r"(?:закрыва|close).* (?:откр|open)")
_UP_TO = re.compile(r"(?:до|until|till|to|[-–—])\s*$")


def _closes_then(claim: Stated, best: Stated) -> bool:
    """Whether the sentence says "open until" the hour at which the claim says that it closes."""
    hours = {moment.minute for moment in claim.moments if moment.minute is not None}
    ends = (moment for moment in best.moments if moment.minute in hours)
    return len(hours) == 1 and any(_UP_TO.search(best.text[: moment.start].lower()) for moment in ends)


def _denied(word: Word, scopes: Sequence[Scope]) -> bool:
    return any(word.stem in scope.wide for scope in scopes)


def unsure(claim: Stated, best: Stated, about: float) -> Iterator[str]:
    """What the sentence says may be, is planned or must be, and the claim says is so."""
    stems = claim.stems
    for scope in best.modal:
        if (
            scope.first
            and scope.kind != "must"
            and not claim.modal
            and about >= _MODAL_ABOUT
            and scope.first.stem in stems
        ):
            yield f"{scope.kind} {scope.first.low}"
            return


def replaced(claim: Stated, best: Stated) -> Iterator[str]:
    """A word of an all but copied sentence that stands where the post has another: whether it means the same is open."""
    if word_for_word(claim, best) < COPIED:
        return
    spare = [word for word in best.words if nearest(word, claim.words)[0] < _SAME]
    for word in claim.words:
        if nearest(word, best.words)[0] < _SAME:
            other = next((one for one in spare if _same_place(word, claim, one, best)), None)
            if other:
                yield f"{word.low} for {other.low}"
