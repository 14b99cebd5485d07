"""Things that are spoken of: whether a sentence is about another one of the kind ("house 5", "the 27", "Anna's kiln")."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

from rag_core.text.query_terms import detect_answer_type
from rag_core.text.tokens import find_similar_stems, is_misspelt, read_word
from rag_core.verification import comparison
from rag_core.verification.comparison import has_identifier, is_light, is_predicate_verb, list_identifiers
from rag_core.verification.facts import (
    SentenceFacts,
    Word,
    are_opposites,
    extract_facts,
    extract_facts_by_sentence,
    is_verb,
)

_PHRASE_END = re.compile(r"[,.;:!?…()|\n]|\s[—–-]\s")
_ASKED_WITH_VERB = re.compile(r"(?:\w+\s+){0,3}?(?:do|does|did|will|can|would|should)\s[^?]*\?", re.IGNORECASE)
_BEFORE_VERB = frozenset(
    "to will can could would should may might must do does did i you he she it we they who really".split()
)
_CONJUNCTIONS = frozenset("и или а но and or but".split())
_SKIPPED = frozenset("the a an our your its this that not не".split())  # between a word and the one beside it
_ADJECTIVE_ENDING = re.compile("(?:ск|н|ов|ев)[а-я]{2,3}")
_FAR = 3  # words
_MIN_ROOT = 4  # letters


class _Place(NamedTuple):
    """Place of a word: the content word beside it, before (-1) or after it (1), and the function words between."""

    word: Word
    side: int
    anchor: Word
    between: tuple[str, ...]
    adjoins: bool  # nothing is between, no article either
    copula: bool  # among the words between
    preposition: str  # before the word


def find_other_thing(claim: SentenceFacts, here: SentenceFacts, around: Sequence[SentenceFacts] = ()) -> str:
    """Find that a sentence speaks of another thing than a claim or a question: "школьный ≠ дачный"; "" if not.

    `around`: what the sentence may leave to its context, as a heading; a word from there must be replaced in its very
    place, by one of the same part of speech.
    """
    if why := _find_other_number(claim, here, around):
        return why
    things = _list_things(claim)
    missing = [word for word in things if not _is_said(word, here)]
    spare = [word for word in _list_things(here) if not _is_said(word, claim)] if missing else []
    theirs = defaultdict[str, list[_Place]](list)
    for word in spare:
        for place in _list_places(word, here):
            theirs[place.anchor.stem].append(place)
    ours = {word: list(_list_places(word, claim)) for word in missing}
    similar = find_similar_stems({place.anchor.stem for places in ours.values() for place in places}, theirs)
    for word, places in ours.items():
        known = any(_is_said(word, one) for one in around)
        for mine in places:
            stems = (mine.anchor.stem, *(stem for _, stem in similar[mine.anchor.stem]))
            for other in (place for stem in stems for place in theirs.get(stem, ())):
                if _is_replaced(mine, other, claim, strictly=known):
                    return f"{word.low} ≠ {other.word.low}"
    if spare and len(missing) == len(things):
        # an item of a list with a value of the same kind, and the claim's is another
        units = {number.unit for number in claim.numbers} - {""}
        fields = {name for moment in claim.moments for name in moment.fields()}
        for one in around:
            same = any(number.unit in units for number in one.numbers)
            same = same or any(fields & moment.fields().keys() for moment in one.moments)
            if same and (item := next((word for word in missing if _is_said(word, one)), None)):
                return f"{item.low} ≠ {spare[0].low}"
    return ""


def tells_apart(question: str, one: str, other: str, lang: str) -> bool:
    """Check whether a text has every word of the thing that a question asks about, and another speaks of a look-alike.

    The latter speaks of another thing of the kind, and nowhere of that itself.
    """
    asked, here = extract_facts(question, lang), extract_facts(one, lang)
    things, (_, asking) = _list_things(asked), detect_answer_type(question)
    own = [word for word in things if word.stem not in asking]
    if not own or not all(_is_said(word, here) for word in own) or _find_other_number(asked, here, ()):
        return False
    there = extract_facts_by_sentence(other, lang)
    about = [sentence for sentence in there if any(_is_said(word, sentence) for word in things)]
    return bool(about) and all(find_other_thing(asked, sentence) for sentence in about)


def _list_things(facts: SentenceFacts) -> list[Word]:
    """List the nouns, adjectives and names of a sentence, without words such as "price" that say nothing of a thing."""
    verb, text = comparison.find_main_verb(facts), facts.text
    if _ASKED_WITH_VERB.match(text):  # the last word: "When does the pharmacy close?"
        verb = next((word for word in reversed(facts.words) if not word.capital), verb)
    infinitives = {word.start for before, word in pairwise(facts.all_words) if before.low in _BEFORE_VERB}
    skipped, things = infinitives | comparison.list_unit_words(facts), list[Word]()
    for word in facts.words:
        of_number = text[word.start - 1 : word.start] == "-" and text[: word.start - 1][-1:].isdigit()  # "2026-го"
        if of_number or word is verb or word.start in skipped or comparison.is_verb_form(word):
            continue
        if is_light(word):  # a thing only where it describes one: "day ticket"
            adjective = word.low.isascii() or read_word(word.low)[0].part == "ADJF"
            places = _list_places(word, facts) if adjective else ()
            if not any(place.side == 1 and place.adjoins and not is_light(place.anchor) for place in places):
                continue
        things.append(word)
    return things


def _is_said(word: Word, there: SentenceFacts) -> bool:
    """Check whether a word is in a sentence: in any form, misspelt, or derived ("мостик" and "мост", "детский" and "дети")."""
    if there.all_words.has(word):
        return True
    for other in there.words:
        alike = word.stem.startswith(other.stem) or other.stem.startswith(word.stem)
        if alike and min(len(word.stem), len(other.stem)) >= _MIN_ROOT:
            return True
        if word.low[0] != other.low[0] or word.low.isascii():
            continue  # only Russian words are misspelt or derived, each with its first letter
        if is_misspelt(word.low, other.low):
            return True
        root = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word.low, other.low, strict=False)))
        rest, ending = sorted((word.low[root:], other.low[root:]), key=len, reverse=True)
        if root >= _MIN_ROOT - 1 and len(ending) <= 2 and _ADJECTIVE_ENDING.fullmatch(rest):
            return True
    return False


def _list_places(word: Word, facts: SentenceFacts) -> Iterator[_Place]:
    """List the places of a word: beside the content words before and after it in its phrase."""
    words, content = facts.all_words, {one.start for one in facts.words}
    at = next(n for n, other in enumerate(words) if other.start == word.start)
    before = next((one for one in reversed(words[:at]) if one.low not in _SKIPPED), word)
    preposition = "" if before.stem or is_verb(before) else before.low
    for side in (-1, 1):
        between, last, n = list[Word](), word, at + side
        while 0 <= n < len(words):
            low, high = sorted((last, words[n]), key=lambda one: one.start)
            if _PHRASE_END.search(facts.text, low.end, high.start):
                break
            if words[n].low in _CONJUNCTIONS or (words[n].stem and words[n].start not in content):
                break  # the latter are numbers and dates
            if words[n].stem:
                lows, copula = tuple(one.low for one in between), any(map(is_verb, between))
                yield _Place(word, side, words[n], lows, abs(n - at) == 1, copula, preposition)
                if side == 1 or not between or n < at - _FAR or is_predicate_verb(words[n]):
                    break  # "for children" may describe "pass" in "a pass to the pool for children"
            elif words[n].low not in _SKIPPED:
                between.append(words[n])
            last, n = words[n], n + side


def _is_replaced(mine: _Place, other: _Place, claim: SentenceFacts, *, strictly: bool) -> bool:
    """Check whether two different words stand in the same place, beside the same word or one of a similar stem."""
    named, other_named = (place.word.capital and not place.word.opens for place in (mine, other))
    if _is_value(mine, claim) or named != other_named:  # "бассейн" may be «Щука»
        return False
    if mine.anchor.stem != other.anchor.stem:  # "по самбо тренируются" and "тренировки по дзюдо"
        return not strictly and mine.preposition == other.preposition != ""
    if are_opposites(mine.word.low, other.word.low):
        # "вход платный" and "the pool is closed" say it of the thing, "платный вход" and "вход для детей" which one it is
        return all(one.adjoins if one.side == 1 else bool(one.between) and not one.copula for one in (mine, other))
    same_place = mine.side == other.side and mine.between == other.between
    if is_predicate_verb(mine.anchor):
        cases, others = ({r.case for r in read_word(w.low) if r.part == "NOUN"} for w in (mine.word, other.word))
        return same_place if mine.word.low.isascii() else not cases.isdisjoint(others)
    # both describe the word beside them: "школьный автобус", "урок гитары", "вход для гостей"
    describing = (one.side == -1 or (one.adjoins and _agrees(one.word, one.anchor)) for one in (mine, other))
    if not strictly and all(describing):
        return True
    if not same_place or (mine.side == 1 and other.adjoins and not _agrees(other.word, other.anchor)):
        return False
    plain = not (named or other_named or mine.word.low.isascii() or other.word.low.isascii())
    return not plain or read_word(mine.word.low)[0].part == read_word(other.word.low)[0].part


def _is_value(mine: _Place, claim: SentenceFacts) -> bool:
    """Check for a name that the claim says of its thing, as who leads it; it is compared as a name."""
    strong = {name.word.start for name in claim.names if not name.weak}
    if mine.word.start not in strong:
        return False
    if is_predicate_verb(mine.anchor):
        return True
    beside = (one for one in claim.names if one.word is not mine.word)
    full = any(-1 <= one.word.start - mine.word.end <= 1 or -1 <= mine.word.start - one.word.end <= 1 for one in beside)
    return full and mine.anchor.start in strong


def _agrees(word: Word, noun: Word) -> bool:
    """Check that a Russian adjective before a noun has its number and case; any other word may describe it."""
    readings = [reading for reading in read_word(word.low) if reading.part == "ADJF"]
    forms = {(reading.number, reading.case) for reading in read_word(noun.low)}
    return word.low.isascii() or not readings or any((one.number, one.case) in forms for one in readings)


def _find_other_number(claim: SentenceFacts, here: SentenceFacts, around: Sequence[SentenceFacts]) -> str:
    mine = list_identifiers(claim)
    theirs = list_identifiers(here) if mine else []
    for number in mine:
        if not any(has_identifier(number, one) for one in (here, *around)):
            return f"{claim.text[number.start : number.end]} is not there"
        others = [other for other in theirs if not set(other.values) & set(number.values)]
        if others and not has_identifier(number, here):
            return f"{claim.text[number.start : number.end]} ≠ {here.text[others[0].start : others[0].end]}"
    return ""
