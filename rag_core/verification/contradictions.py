"""Contradiction checks: opposite words, and other holders of a role. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from rag_core.verification.claim_comparison import (
    contains_name,
)
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.word_comparison import (
    Vocabulary,
    Word,
    are_opposites,
    index_words,
    is_same_name,
    list_indexed_words,
    mark_opposition,
)

_PRONOUNS = frozenset(
    "he she it they his her its their him them он она оно они его ее их ему ей им нее него них".split()
)


def has_pronoun(best: SentenceFacts) -> bool:
    """Check whether the sentence has a pronoun that may stand for a name."""
    return any(word.low in _PRONOUNS for word in best.all_words)


_MOST_COMPARED = 32  # distinct words compared with one word for opposites


def find_opposite_words(claim: SentenceFacts, best: SentenceFacts) -> Iterator[tuple[Word, Word]]:
    """Find words of the claim with their antonyms in the sentence."""
    spare = [word for word in best.words if not claim.words.has(word)]
    index = index_words(spare, lambda word: mark_opposition(word.low), _MOST_COMPARED)
    for word in claim.words:
        if not best.words.has(word):
            near = list_indexed_words(spare, index, mark_opposition(word.low))
            if other := next((other for other in near if are_opposites(word.low, other.low)), None):
                yield word, other


def find_opposite_statements(claim: SentenceFacts, best: SentenceFacts) -> Iterator[str]:
    """Find antonyms, unless one of them is denied: "не вырос" equals "снизился"."""
    for word, other in find_opposite_words(claim, best):
        if _CLOSE_OPEN_PAIR.search(f"{word.low} {other.low}") and _is_open_until(claim, best):
            continue
        denied = any(word.stem in s.wide for s in claim.denied) != any(other.stem in s.wide for s in best.denied)
        if not denied:
            yield f"{word.low} ≠ {other.low}"


_CLOSE_OPEN_PAIR = re.compile(r"(?:закрыва|close).* (?:откр|open)")
_UNTIL_WORDS = re.compile(r"(?:до|until|till|to|[-–—])\s*$")


def _is_open_until(claim: SentenceFacts, best: SentenceFacts) -> bool:
    """Check whether the sentence says "open until" the hour at which the claim says it closes."""
    hours = {moment.minute for moment in claim.moments if moment.minute is not None}
    ends = (moment for moment in best.moments if moment.minute in hours)
    return len(hours) == 1 and any(_UNTIL_WORDS.search(best.text[: moment.start].lower()) for moment in ends)


_PART_BREAK = re.compile(r"[,;()]")
_CONTRAST_WORDS = frozenset({"а", "while", "whereas"})
_BECOMING_VERBS = frozenset(
    "стал стала стали станет является являются назначен назначена назначили избран избрана избрали выбран выбрана "
    "became become becomes named appointed elected".split()
)
_AROUND = 10  # words searched for the nearest content words
_MAX_ROLE_GAP = 2  # function words allowed between a role and its holder: "led by the"


def find_role_differences(claim: SentenceFacts, best: SentenceFacts, post: Sequence[SentenceFacts]) -> Iterator[str]:
    """Find names of the claim that the post lacks or has in another part, where the role has exactly one other name."""
    if claim.denied or not claim.names:
        return
    parts = _split_parts(best)
    strong = {name.word.start for name in best.names if not name.weak}
    strange = {name.word.start for name in best.names if not name.weak and not contains_name(name.word, [claim])}
    others = [list(_find_other_names(part, strong, strange)) for part in parts]
    silent = has_pronoun(best)
    for name in claim.names:
        roles = [word for word in _find_role_words(name.word, claim.all_words) if not word.capital]
        absent = not name.weak and not silent and not contains_name(name.word, post)
        same = {
            (word.low, word.capital) for word in best.all_words.candidates(name.word) if is_same_name(name.word, word)
        }
        at = [next((n for n, w in enumerate(part) if (w.low, w.capital) in same), None) for part in parts]
        # start of the last part in which the name follows something the claim does not mention
        latest = max(
            (_find_foreign_part(part, place or 0, claim, best) for part, place in zip(parts, at, strict=True)),
            default=-1,
        )
        for n, part in enumerate(parts):
            if at[n] is not None:
                continue
            holders = {span for span, beside in others[n] if any(map(beside.has, roles))}
            if len(holders) == 1 and (absent or latest > part[-1].start):
                yield f"{claim.text[name.word.start : name.word.end]} ≠ {best.text[slice(*holders.pop())]}"
                return


def _split_parts(best: SentenceFacts) -> list[list[Word]]:
    """Split the words of the sentence where another statement may begin."""
    parts: list[list[Word]] = [[]]
    for n, word in enumerate(best.all_words):
        before = best.all_words[n - 1].end if n else 0
        if n and (_PART_BREAK.search(best.text[before : word.start]) or word.low in _CONTRAST_WORDS):
            parts.append([])
        parts[-1].append(word)
    return parts


def _find_role_words(word: Word, words: Sequence[Word]) -> list[Word]:
    """Nearest content words before and after a name; after a verb of becoming the role follows "becomes"."""
    words = [w for w in words if w.low not in _BECOMING_VERBS]
    at = next((n for n, other in enumerate(words) if other.start == word.start), None)
    if at is None:  # "Named" is not a name
        return []
    before = [w for w in words[max(0, at - _MAX_ROLE_GAP - 1) : at][::-1] if w.stem][:1]
    return before + [w for w in words[at + 1 : at + 2 + _MAX_ROLE_GAP] if w.stem][:1]


def _find_other_names(
    part: Sequence[Word], strong: set[int], strange: set[int]
) -> Iterator[tuple[tuple[int, int], Vocabulary]]:
    """Find names that the claim lacks (`strange` of the `strong` ones): start and end, and the words beside them."""
    # adjoining name words are one name
    for is_name, run in groupby(enumerate(part), key=lambda one: one[1].start in strong):
        words = list(run) if is_name else []
        for n, word in words:
            if word.start in strange:
                around = part[max(0, n - _AROUND) : n + _AROUND + 1]
                yield (words[0][1].start, words[-1][1].end), Vocabulary(_find_role_words(word, around))


def _find_foreign_part(part: Sequence[Word], at: int, claim: SentenceFacts, best: SentenceFacts) -> int:
    """Start of a part in which the name follows something the claim does not mention: "за кассу Морган"."""
    capitals = {one.word.start for one in best.names}
    before = (word for word in part[:at] if word.stem and word.start not in capitals)
    return -1 if all(map(claim.words.has, before)) else part[0].start
