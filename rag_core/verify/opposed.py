"""Whether a sentence denies, turns around, or leaves open what a claim says, and whether it names others. Pure.

Functions that yield (differs, why) say with `differs` that the sentence says otherwise, not only that it is silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rag_core.verify.facts import Name, Stated
from rag_core.verify.matching import COPIED, common_blocks, has_name, names_same, nearest, word_for_word
from rag_core.verify.opposites import opposed, opposition_keys
from rag_core.verify.scopes import Scope
from rag_core.verify.words import Word

__all__ = ["denial_differs", "names_differ", "opposite_said", "pronoun_in", "replaced", "unsure"]

_PRONOUNS = frozenset(
    "he she it they his her its their him them он она оно они его ее их ему ей им нее него них".split()
)

Found = Iterator[tuple[bool, str]]

_SAME_STORY = 0.5  # of the claim's words in the sentence: a name that differs there is another name
_SAME = 0.7  # of a word: it is the same word
_MOST_COMPARED = 32  # different words that may be the opposite of one
_MODAL_ABOUT = 0.6  # of the claim: less may be about another thing that may be


def names_differ(claim: Stated, best: Stated, post: Sequence[Stated], about: float) -> Found:
    """The names of the claim that the post does not have."""
    copied = word_for_word(claim, best) >= COPIED
    mine, theirs = _neighbours(claim), _neighbours(best)
    spare = [name for name in best.names if not has_name(name.word, [claim])]
    rivals = [other.word for other in spare if not other.weak or copied]
    beside = _by_neighbour(rivals, theirs)
    for name in claim.names:
        if has_name(name.word, [best]) or _part_met(name, claim, best):
            continue
        said = claim.text[name.word.start : name.word.end]
        rival = next(iter(rivals), None) if copied else _in_place_of(mine[name.word.start], rivals, beside)
        if has_name(name.word, post):
            if rival and copied and not name.weak and _same_place(mine[name.word.start], theirs[rival.start]):
                yield True, f"{said} ≠ {best.text[rival.start : rival.end]}"
        elif name.weak:
            if rival and copied:
                yield False, f"{said} is not there"
        elif rival and (copied or about >= _SAME_STORY):
            yield True, f"{said} ≠ {best.text[rival.start : rival.end]}"
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


# The words before and behind a word, by where it starts; empty at the ends of the sentence.
Neighbours = tuple[str, str]


def _neighbours(sentence: Stated) -> dict[int, Neighbours]:
    lows = ["", *(w.low for w in sentence.all_words), ""]
    return {word.start: (lows[n], lows[n + 2]) for n, word in enumerate(sentence.all_words)}


def _same_place(mine: Neighbours, theirs: Neighbours) -> bool:
    """Whether the word before or behind is the same for both."""
    return any(a == b and a for a, b in zip(mine, theirs, strict=True))


def _by_neighbour(words: Sequence[Word], neighbours: Mapping[int, Neighbours]) -> dict[tuple[int, str], int]:
    """Which of the words is the first with a neighbour: (0 before or 1 behind, the neighbour) -> its number."""
    found: dict[tuple[int, str], int] = {}
    for n, word in enumerate(words):
        for side, beside in enumerate(neighbours[word.start]):
            if beside:
                found.setdefault((side, beside), n)
    return found


def _in_place_of(mine: Neighbours, words: Sequence[Word], beside: Mapping[tuple[int, str], int]) -> Word | None:
    """The first of the words that stands in the same place."""
    first = min((beside[key] for key in enumerate(mine) if key in beside), default=None)
    return None if first is None else words[first]


def denial_differs(claim: Stated, best: Stated, about: float) -> Found:
    """What one of the two denies and the other says."""
    flips = sum(1 for _ in _opposites(claim, best)) % 2 == 1
    denied = {id(one): frozenset().union(*(scope.wide for scope in one.denied)) for one in (claim, best)}
    for scope, where, other in (*((s, best, claim) for s in best.denied), *((s, claim, best) for s in claim.denied)):
        if scope.first is None or flips:
            continue
        found, there = nearest(scope.first, other.words)
        if found >= _SAME and there and there.stem not in denied[id(other)]:
            yield True, f"{'not ' if where is claim else ''}{there.low} ≠ {'not ' if where is best else ''}{there.low}"
            return
    if not flips and word_for_word(claim, best) >= COPIED and _odd(claim, best):
        yield True, "one of the two is denied"


def _odd(claim: Stated, best: Stated) -> bool:
    """Whether the part of the sentence that the claim copies has another number of denials."""
    blocks = [block for block in common_blocks(claim, best) if block.size]
    start = best.all_words[blocks[0].b].start
    end = best.all_words[blocks[-1].b + blocks[-1].size - 1].end
    return sum(start <= scope.at < end for scope in best.denied) != len(claim.denied)


def _opposites(claim: Stated, best: Stated) -> Iterator[tuple[Word, Word]]:
    lone = [word for word in claim.words if nearest(word, best.words)[0] < _SAME]
    spare: dict[str, Word] = {}
    for word in best.words:
        if nearest(word, claim.words)[0] < _SAME:
            spare.setdefault(word.low, word)
    by_key: dict[tuple[str, object], list[Word]] = {}
    for word in spare.values():
        for key in opposition_keys(word.low):
            listed = by_key.setdefault(key, [])
            if len(listed) < _MOST_COMPARED:
                listed.append(word)
    for word in lone:
        near = {other.start: other for key in opposition_keys(word.low) for other in by_key.get(key, ())}
        if other := next((near[start] for start in sorted(near) if opposed(word.low, near[start].low)), None):
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
    mine, beside = _neighbours(claim), _by_neighbour(spare, _neighbours(best))
    for word in claim.words:
        if nearest(word, best.words)[0] < _SAME:
            other = _in_place_of(mine[word.start], spare, beside)
            if other:
                yield f"{word.low} for {other.low}"
