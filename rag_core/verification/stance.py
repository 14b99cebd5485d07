"""Stance detection: whether a post supports a claim, contradicts it, or says nothing of it, read in its context.

The claim is compared with each sentence; those around it count too: a heading that names the thing, a question and its
answer, a rumour and the "not true" after it, a plan, an item of a price list. A sentence supports only what it asserts,
and a number decides only where it stands at the claim's own words. Of two sentences that are alike one may have another
word in the place of one of the other, beside the same noun or verb: then they speak of two things ("школьный автобус",
"дачный автобус"), and neither says anything of the other's. Pure functions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby, pairwise, takewhile
from typing import NamedTuple

from rag_core.dates.moments import Moment
from rag_core.text.answer_type import extract_asking_stems
from rag_core.text.names import matches_initials
from rag_core.text.numbers import CURRENCIES, Number, join_digit_groups
from rag_core.text.query_terms import TermWeight, expand_words, is_asking_word
from rag_core.text.spelling_correction import is_misspelt
from rag_core.text.tokens import WordReading, is_dictionary_word, measure_stem_similarity, read_word, stem
from rag_core.types import Passage
from rag_core.verification import Claim, Label, Support
from rag_core.verification.facts import (
    LONGEST_STATED,
    MOST_FIGURES,
    SAME_WORD,
    SentenceFacts,
    Vocabulary,
    Word,
    are_opposites,
    extract_facts,
    extract_facts_by_sentence,
    fold_text,
    index_words,
    is_same_name,
    is_verb,
    join_facts,
    list_indexed_words,
    mark_opposition,
)


def measure_covered_share(words: Sequence[Word], there: Vocabulary) -> float:
    """Share of the words that is covered by the other words, 0..1; 1 for no words."""
    met = sum(1.0 if word.stem in there.stems else there.nearest(word)[0] for word in words)
    return met / len(words) if words else 1.0


def contains_name(word: Word, there: Sequence[SentenceFacts]) -> bool:
    """Check whether a name is in the sentences: inflected, in another script, as initials, or as an alias."""
    for sentence in there:
        if any(is_same_name(word, other) for other in sentence.all_words.candidates(word)):
            return True
        if 2 <= len(word.low) <= 6 and matches_initials(word.low, sentence.initials):
            return True
    return False


_EXACT_TOLERANCE, _ROUGH_TOLERANCE = 1e-6, 0.1
_HOUR_MINUTES, _HALF_DAY_MINUTES = 60, 720  # minutes
_WEEK_DAYS = 7  # days
_BESIDE = 80  # characters of context around a weekday
_MAX_RATIO = 3.0  # "more than 100" is not said of 5 000


_CLOSED_WORDS = re.compile(r"(?:(?<!\w)|^)(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)(?! дн)|closed|shut)(?!\w)")
_CLOSED_ON_WORDS = re.compile(
    r"(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)|closed|shut)(?:\s+(?:по|в|во|on|at|every))?[\s:—–-]*$"
)

Differences = Iterator[tuple[bool, str]]


def is_same_value(claimed: Number, said: Number) -> bool:
    """Check whether two numbers agree, as exactly as the claim's wording ("about", "over") demands."""
    if claimed.unit and said.unit and claimed.unit != said.unit:
        return False
    return any(_values_agree(a, b, claimed, said) for a in claimed.values for b in said.values)


def contains_value(claimed: Number, here: SentenceFacts) -> bool:
    """Check whether a number of the sentence agrees with that of the claim."""
    return any(is_same_value(claimed, other) for other in here.numbers)


def _values_agree(a: float, b: float, claimed: Number, said: Number) -> bool:
    if abs(a - b) <= _EXACT_TOLERANCE * max(1.0, abs(b)):
        return True
    if claimed.hedge == said.hedge == "":
        return False
    if claimed.hedge == "about":
        return abs(a - b) <= _ROUGH_TOLERANCE * abs(b)
    if claimed.hedge == "over":
        return a < b <= _MAX_RATIO * a and said.hedge != "under"
    return claimed.hedge == "under" and b < a <= _MAX_RATIO * b and said.hedge != "over"


def _list_bare_numbers(moment: Moment) -> Iterator[int]:
    """Numbers of a moment that a claim may give without marking them as a year, a day or an hour."""
    yield from (value for value in (moment.year, moment.day) if value is not None)
    if moment.minute is not None and moment.minute % _HOUR_MINUTES == 0:
        yield moment.minute // _HOUR_MINUTES


def _get_counted_noun(number: Number) -> str:
    return number.noun.split()[0] if number.noun else ""


def _counts_nothing(number: Number) -> bool:
    return not number.weak and not stem(_get_counted_noun(number))


def find_moment_differences(
    claim: SentenceFacts, best: SentenceFacts, post: Sequence[SentenceFacts], date: datetime | None
) -> Differences:
    """Find dates and times of the claim that the post lacks."""
    here = _drop_duplicate_moments(best.moments)
    everywhere = _drop_duplicate_moments(moment for one in post for moment in one.moments)
    low, own = fold_text(best.text), list[Moment]()
    if date:
        own = list(_build_post_moments(date, low))
        here += [Moment(*m.span(), date.year + n) for n, words in _YEARS_FROM_POST for m in words.finditer(low)]
    mine = _drop_duplicate_moments(claim.moments)
    unnamed = [
        other
        for other in here
        if not any(all(_fields_agree(name, one, other) for name in other.fields()) for one in mine)
    ]
    bare = {v for one in post for n in one.numbers if not n.unit and _counts_nothing(n) for v in n.values}
    for moment in claim.moments:
        if _is_closed_then(moment, claim, best):
            yield True, f"{claim.text[moment.start : moment.end]} ≠ closed"
            continue
        rival = _find_rival_moment(moment, unnamed)
        elsewhere = () if rival else everywhere
        if any(_moments_agree(moment, other, date) for other in (*here, *own, *elsewhere)):
            continue
        part_of_date = moment.day is not None or moment.month is not None or moment.either
        if not part_of_date and not bare.isdisjoint(map(float, _list_bare_numbers(moment))):
            continue
        quoted = claim.text[moment.start : moment.end]
        if (
            moment.weekday is not None and sum(one.start == moment.start for one in claim.moments) == _WEEK_DAYS
        ):  # "daily" has synonyms, but a list of some days contradicts it
            rival = rival or next((one for one in here if one.weekday is not None), None)
            if rival is None:
                continue
        if rival:  # closed on Mondays says nothing of Sundays
            yield not _is_closed_then(rival, claim, best), f"{quoted} ≠ {best.text[rival.start : rival.end]}"
        else:
            yield False, f"{quoted} is not there"


def _is_closed_then(moment: Moment, claim: SentenceFacts, best: SentenceFacts) -> bool:
    """Check whether the sentence names this weekday only as closed while the claim does not."""
    if moment.weekday is None or _CLOSED_WORDS.search(fold_text(claim.text)):
        return False
    same, low = [one for one in best.moments if one.weekday == moment.weekday], fold_text(best.text)
    return bool(same) and all(
        _CLOSED_WORDS.match(low[one.end : one.end + _BESIDE].lstrip(" -–—:"))
        or _CLOSED_ON_WORDS.search(low, max(0, one.start - _BESIDE), one.start)
        for one in same
    )


# Years and days that a sentence names from the date of its post, as differences.
_YEARS_FROM_POST = (
    (-1, re.compile(r"(?<!\w)(?:в прошлом году|last year)(?!\w)")),
    (0, re.compile(r"(?<!\w)(?:в этом году|this year)(?!\w)")),
    (1, re.compile(r"(?<!\w)(?:в следующем году|next year)(?!\w)")),
)
_DAYS_FROM_POST = (
    (-1, re.compile(r"(?<!\w)(?:вчера\w*|yesterday|last night)(?!\w)")),
    (1, re.compile(r"(?<!\w)(?:завтра\w*|tomorrow)(?!\w)")),
)


def _build_post_moments(date: datetime, low: str) -> Iterator[Moment]:
    """Day of the post as a moment, and the day before or after where the sentence says "yesterday" or "tomorrow"."""
    for days in (0, *(days for days, words in _DAYS_FROM_POST if words.search(low))):
        day = date + timedelta(days=days)
        yield Moment(0, 0, day.year, day.month, day.day, day.weekday() if days else None)


def _fields_agree(name: str, one: Moment, other: Moment) -> bool:
    """Check whether a field is equal in both; an hour in words may be in the morning or in the evening."""
    mine, theirs = one.fields().get(name), other.fields().get(name)
    if mine is None or theirs is None:
        return False
    return mine == theirs or (
        name == "minute" and (one.either or other.either) and (mine - theirs) % _HALF_DAY_MINUTES == 0
    )


def _moments_agree(claimed: Moment, said: Moment, date: datetime | None) -> bool:
    mine, theirs = claimed.fields(), said.fields()
    if date is not None and "year" not in theirs and "month" in theirs:
        theirs["year"] = mine.get("year", date.year) if abs(mine.get("year", date.year) - date.year) <= 1 else date.year
    shared = mine.keys() & theirs.keys()
    if any(name in mine and name not in theirs for name in ("day", "year")) and not (
        "month" in theirs and ("day" in theirs or "day" not in mine)
    ):
        return False
    return bool(shared) and all(mine[name] == theirs[name] or _fields_agree(name, claimed, said) for name in shared)


def _drop_duplicate_moments(moments: Iterable[Moment]) -> list[Moment]:
    return list({(*one.fields().items(), one.either): one for one in reversed(list(moments))}.values())[::-1]


def _find_rival_moment(claimed: Moment, unnamed: Sequence[Moment]) -> Moment | None:
    """Find a moment of the same kind in the sentence that the claim does not name."""
    mine = claimed.fields()
    for other in unnamed:
        shared = mine.keys() & other.fields().keys()
        if shared and any(not _fields_agree(name, claimed, other) for name in shared):
            return other
    return None


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


_WORDS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_CORRECTION = re.compile(
    r"(?:(?<!\w)а не|,\s*not|(?<!\w)instead of|(?<!\w)rather than|(?<!\w)вместо)\s+(?:(?:с|со|в|по|on|at|the)\s+)?(.{1,20})"
)
_FALSE_REPLY = re.compile(
    r"\W*(?:но |but )?(?:это |все это |that is |that's |this is |it is |it's )?(?:неправда|не правда|не так|неверно|ложь|фейк|выдумка|not (?:true|so)|untrue|false|nonsense)(?=\s*(?:[.,;:!?…—–-]|$))"
)
_NEGATIVE_REPLY = re.compile(
    r"\W*(?:нет|неа|no|nope|nah|not at all|вовсе нет|ничего подобного)(?=\s*(?:[,.:;!—–-]|and no|$))"
)
_POSITIVE_REPLY = re.compile(r"\W*(?:да|yes|yep|именно|верно|правда)(?!\w)")
_FALSE_WORDS = re.compile(
    r"(?<!\w)(?:неправда|не правда|неверно, что|недостоверн\w+|не явля\w+ достоверн\w+|не соответству(?:ет|ют) действительности|вопреки слухам|фейк\w*|выдумк[аи]|вранье|"
    r"опроверг\w*|опроверга\w+|(?:это|[-–—]) (?:ложь|миф|утка)|not true|untrue|no truth|contrary to|"
    r"(?:is|are|was|were|it's|that's|all|both|[-–—:]) (?:simply |quite |just )?(?:false|a (?:lie|myth|hoax)|nonsense)|"
    r"unfounded|groundless|refuted|debunked|den(?:ied|ies|y) (?:that|it|this|(?:the |any )?(?:reports?|rumou?rs?|claims?|allegations?)))(?!\w)"
)
_RUMOUR_WORDS = re.compile(
    r"(?<!\w)(?:слух\w{0,3}|поговаривают|сплетни|якобы|будто|будто бы|говорят,? (?:что|будто|его|ее|их)|(?<!не )говорят,|ходят разговоры|"
    r"(?<!по )(?<!official )источник\w* \W{0,2}(?:\[?(?:сообща|сообщил|говор|поделил|утвержда|рассказ)\w*)|неизвестн\w+ источник\w*|(?:un(?:named|known|confirmed)|anonymous) (?:sources?|reports?)|sources (?:say|said|told|claim)|"
    r"несмотря на то, что|спраши\w+|(?:ask\w*|wonder\w*) (?:us |me )?(?:whether|if)|rumou?rs?|rumou?red|gossip|hearsay|word has it|allegedly|reportedly|supposedly|people say|they say)(?!\w)"
)
_CONDITION_WORDS = re.compile(r"(?<!\w)(?:если|при условии|if|unless|provided that)(?!\w)(?! (?:не ошиб|only|any))")
_CEASED_WORDS = re.compile(
    r"(?<!\w)(?:больше не|уже не(?! в первый)|перест\w+|прекра[тщ]\w+|переезжа\w+|переех\w+|сложил\w* полномочия|уволи\w+|съехал\w*|no longer|not any ?more|"
    r"step(?:s|ped)? down|resign\w*|hand(?:s|ed) over|lost|cancel\w+|called off)(?!\w)"
)
_FAILED_PLAN = re.compile(
    r"(?<!\w)(?:не (?:успе(?:л\w*|ют|ет|ем)|состо\w+|получ\w+|откро\w+|выйдет|буд\w+(?=\s*(?:[.,;!?]|$)))|перен[её]с(?:ли|ен\w*|ут)?|перенос(?:ят|ится|ится)|отлож\w+|will not|won['’]t|"
    r"did(?: not|n['’]t) (?:make|happen|take place|work)|postponed|delayed)(?!\w)"
)
_NEW_HOLDER = re.compile(r"(?:нов\w+|new|избра\w+|назнач\w+|elected|appointed)$")
_COPULA = re.compile(r"\W*(?:(?:is|was|are|became|becomes|является|стал|стала|был|была|the|our|a|new)\W+){0,4}")
_LONGEST_COPULA = 30  # characters


def is_called_false(claim: SentenceFacts, here: SentenceFacts, following: SentenceFacts | None) -> bool | None:
    """Check whether the claim is what a sentence calls false; None if it calls nothing so, False if it is the opposite.

    "It is not true that the ferry is not sold" agrees with "the ferry is sold".
    """
    low, reply = fold_text(here.text), fold_text(following.text) if following else ""
    called = [found.span() for found in _FALSE_WORDS.finditer(low)]
    if not (called or _FALSE_REPLY.match(reply)) or _FALSE_WORDS.search(fold_text(claim.text)):
        return None
    outside = sum(not any(start <= scope.at < end for start, end in called) for scope in here.denied)
    return len(claim.denied) % 2 == outside % 2


def find_explicit_denial(
    claim: SentenceFacts, here: SentenceFacts, following: SentenceFacts | None, denied_word: str
) -> str:
    """Find that the sentence, or the one after it, calls the claim false, answers no, or says that a plan failed."""
    low, reply = fold_text(here.text), fold_text(following.text) if following else ""
    if claim.denied or _FALSE_WORDS.search(fold_text(claim.text)):
        return ""
    if is_called_false(claim, here, following):
        return "called false"
    if _is_question(here) and _NEGATIVE_REPLY.match(reply):
        return "asked and denied"
    if _NEGATIVE_REPLY.match(low):
        denied = (w for scope in here.denied for w in here.words if scope.at < w.start and w.stem in scope.wide)
        if any(map(claim.words.has, denied)):
            return "answered no"
    days = {(m.month, m.day) for m in claim.moments if m.day}
    other_day = bool(days) and any(m.day and (m.month, m.day) not in days for m in here.moments)
    if _FAILED_PLAN.search(low) and not other_day and not _FAILED_PLAN.search(fold_text(claim.text)):
        return "did not come to be"
    if denied_word and _RUMOUR_WORDS.search(low):
        return "a rumour denied"
    return ""


def _is_question(here: SentenceFacts) -> bool:
    return here.text.rstrip(' "»”)').endswith("?")


def find_correction(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find "X, not Y" or "X instead of Y" where Y is a number or a day of the claim."""
    low = fold_text(claim.text)
    if _CORRECTION.search(low):
        return ""
    values = [low[number.start : number.end] for number in claim.numbers]
    values += [low[moment.start : moment.end] for moment in claim.moments]
    digits = {digit for value in values for digit in _DIGITS.findall(join_digit_groups(value))}
    weekdays = {stem(word) for value in values for word in value.split()} - {""}
    for found in _CORRECTION.finditer(fold_text(here.text)):
        after = join_digit_groups(found[1])
        if digits & set(_DIGITS.findall(after)[:1]) or weekdays & {stem(word) for word in _WORDS.findall(after)[:1]}:
            return f"corrected: not {found[1].strip()}"
    return ""


def find_denied_word(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find that the sentence denies a word of the claim, or the claim one of the sentence."""
    for one, other in ((here, claim), (claim, here)):
        for scope in () if other.denied else one.denied:
            if scope.first and other.words.has(scope.first):
                return f"not {scope.first.low}"
    return ""


def find_unasserted(claim: SentenceFacts, here: SentenceFacts, following: SentenceFacts | None) -> str:
    """Find that the sentence asks, or tells a rumour, a plan or a possibility, where the claim states a fact."""
    if _is_question(here) and not (following and _POSITIVE_REPLY.match(fold_text(following.text))):
        return "only asked"
    if _CONDITION_WORDS.search(fold_text(here.text)) and not _CONDITION_WORDS.search(fold_text(claim.text)):
        return "on a condition"
    if _RUMOUR_WORDS.search(fold_text(here.text)) and not _RUMOUR_WORDS.search(fold_text(claim.text)):
        return "rumour"
    for scope in () if claim.modal else here.modal:
        if scope.kind != "must" and not claim.all_words.stems.isdisjoint(scope.wide):
            return f"{scope.kind} {scope.first.low if scope.first else ''}"
    return ""


def find_end(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find that something ended which the claim says still holds, or that somebody else has the role now."""
    low = fold_text(here.text)
    if (found := _CEASED_WORDS.search(low)) and not _CEASED_WORDS.search(fold_text(claim.text)):
        return f"ended: {found[0]}"
    words = here.all_words
    for n, word in enumerate(words[1:], 1):
        if _NEW_HOLDER.match(words[n - 1].low) and (name := _find_holder(claim, word)):
            others = [w for w in words[n + 1 :] if w.capital and w.stem]
            if others and not any(is_same_name(name, w) for w in others):
                return f"new {word.low}"
    return ""


def _find_holder(claim: SentenceFacts, role: Word) -> Word | None:
    """Find the name that the claim gives to a role: "Priya Raman is the president", "Галина — председатель"."""
    low = fold_text(claim.text)
    for name in claim.names:
        for word in claim.words:
            between = low[name.word.end : word.start]
            if word.stem == role.stem and 0 < len(between) <= _LONGEST_COPULA and _COPULA.fullmatch(between):
                return name.word
    return None


def _read_first(word: Word) -> tuple[WordReading, ...]:
    """Likeliest reading of a dictionary word; none for others, whose guessing costs too much time."""
    return read_word(word.low)[:1] if is_dictionary_word(word.low) else ()


def is_predicate_verb(word: Word) -> bool:
    """Check whether a word is a verb, a short participle or a predicative, by the dictionary or its ending."""
    if word.capital and not word.opens:
        return False
    if word.low.isascii():
        return is_verb(word)
    return any(reading.part in {"VERB", "PRTS", "INFN", "PRED", "ADJS"} for reading in _read_first(word))


def find_main_verb(claim: SentenceFacts) -> Word | None:
    """Find the verb that follows the subject; an English word in "s" is one only where nothing else is.

    A part of a compound such as "paid-up" is none.
    """
    verbs = [w for w in claim.all_words[1:] if is_predicate_verb(w) and claim.text[w.end : w.end + 1] != "-"]
    plural = [word for word in verbs if word.low.isascii() and word.low.endswith("s") and word.stem]
    return next((word for word in verbs if word not in plural), plural[0] if plural else None)


_LIGHT_STEMS = frozenset(
    map(
        stem,
        "обходится обойдется удалось можно может теперь уже идет ходит ездит проходит проводится работает дают отдают "
        "просят берут сейчас пока опять снова really actually currently still again "
        "get gets can may held carries around now already go goes going do does run runs work works last lasts".split(),
    )
)
_PHRASE_END = re.compile(r"[,.;:!?…()|\n]|\s[—–-]\s")
_ASKED_WITH_VERB = re.compile(r"(?:\w+\s+){0,3}?(?:do|does|did|will|can|would|should)\s[^?]*\?", re.IGNORECASE)
_BEFORE_VERB = frozenset(
    "to will can could would should may might must do does did i you he she it we they who really".split()
)
_CONJUNCTIONS = frozenset("и или а но and or but".split())
_SKIPPED = frozenset("the a an our your its this that not не".split())  # between a word and the one beside it
_NUMBER_SIGN = re.compile(r"(?:№|(?<!\w)(?:no\.?|number|номер))\s*$")
_LONGEST_SIGN = 10  # characters of "number" and the like before a number
_SIGNS = frozenset("$€£¥₽")
_OPENING_WORDS = 2  # words before a number that is part of a name
_ADJECTIVE_ENDING = re.compile("(?:ск|н|ов|ев)[а-я]{2,3}")
_FAR = 3  # words
_MIN_ROOT = 4  # letters


def is_light(word: Word) -> bool:
    """Check for a word like "costs", "fee" or "can" that posts leave out."""
    return is_asking_word(word.low) or word.stem in _LIGHT_STEMS or _asks_for_value(word.low)


@lru_cache(maxsize=20_000)
def _asks_for_value(low: str) -> bool:
    """Whether a word asks for a price, hours or a phone number: our table has it beside their annotation."""
    return any(term.startswith("<") for variants in expand_words(low).values() for term in variants)


def list_unit_words(facts: SentenceFacts) -> frozenset[int]:
    """Offsets of the words that are units: "roubles" in "40 roubles", but not "tea" in "£4 tea"."""
    numbers = (
        n for n in facts.numbers if n.unit not in {"", "ordinal"} and facts.text[n.start - 1 : n.start] not in _SIGNS
    )
    ends = {number.end for number in numbers}
    return frozenset(
        word.start
        for word in facts.words
        if any(word.start - n in ends and not facts.text[word.start - n : word.start].strip("- ") for n in range(3))
    )


class _Place(NamedTuple):
    """Place of a word: the content word beside it, before (-1) or after it (1), and the function words between."""

    word: Word
    side: int
    anchor: Word
    between: tuple[str, ...]
    adjoins: bool  # nothing is between, no article either
    copula: bool  # among the words between
    preposition: str  # before the word

    @property
    def is_attribute(self) -> bool:
        """Whether the word describes the one beside it: "школьный автобус", "урок гитары", "вход для гостей"."""
        return self.side == -1 or (self.adjoins and _agrees(self.word, self.anchor))

    @property
    def is_distinction(self) -> bool:
        """Whether it says which one: "платный вход", "вход для детей", not "вход платный"."""
        return self.adjoins if self.side == 1 else bool(self.between) and not self.copula


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
    theirs = [place for word in spare for place in _list_places(word, here)]
    for word in missing:
        known = any(_is_said(word, one) for one in around)
        for mine in _list_places(word, claim):
            for other in theirs:
                if _is_replaced(mine, other, claim, strictly=known):
                    return f"{word.low} ≠ {other.word.low}"
    if spare and len(missing) == len(things):  # an item of a list, and the claim's is another
        items = [one for one in around if _have_value_of_same_kind(claim, one)]
        if other_item := next((word for word in missing if any(_is_said(word, one) for one in items)), None):
            return f"{other_item.low} ≠ {spare[0].low}"
    return ""


def speaks_of_other_thing(question: str, text: str, lang: str) -> bool:
    """Check whether a text speaks of another thing than a question asks about, and nowhere of that itself."""
    asked = extract_facts(question, lang)
    things = _list_things(asked)
    about = [one for one in extract_facts_by_sentence(text, lang) if any(_is_said(word, one) for word in things)]
    return bool(about) and all(find_other_thing(asked, one) for one in about)


def names_thing(question: str, text: str, lang: str) -> bool:
    """Check whether a text has every word of the thing that a question asks about."""
    asked, there = extract_facts(question, lang), extract_facts(text, lang)
    asking = extract_asking_stems(question)
    things = [word for word in _list_things(asked) if word.stem not in asking]
    return bool(things) and all(_is_said(word, there) for word in things) and not _find_other_number(asked, there, ())


def _have_value_of_same_kind(one: SentenceFacts, other: SentenceFacts) -> bool:
    units = {number.unit for number in one.numbers if number.unit} & {number.unit for number in other.numbers}
    return bool(units) or any(m.fields().keys() & n.fields().keys() for m in one.moments for n in other.moments)


def _list_things(facts: SentenceFacts) -> list[Word]:
    """List the nouns, adjectives and names of a sentence, without words such as "price" that say nothing of a thing."""
    verb, units = _find_question_verb(facts) or find_main_verb(facts), list_unit_words(facts)
    infinitives = {word.start for before, word in pairwise(facts.all_words) if before.low in _BEFORE_VERB}
    return [
        word
        for word in facts.words
        if not (word is verb or word.start in units or word.start in infinitives)
        and not (_is_verb_form(word) or _is_ending(word, facts.text))
        and (not is_light(word) or _is_attribute(word, facts))
    ]


def _find_question_verb(facts: SentenceFacts) -> Word | None:
    """Find the verb of an English question, the last word: "When does the pharmacy close?"."""
    asked = _ASKED_WITH_VERB.match(facts.text)
    return next((word for word in reversed(facts.words) if not word.capital), None) if asked else None


def _is_attribute(word: Word, facts: SentenceFacts) -> bool:
    """Whether a word such as "day" describes the noun after it: "day ticket"."""
    adjective = word.low.isascii() or _read(word).part == "ADJF"
    beside = (place for place in _list_places(word, facts) if place.side == 1 and place.adjoins)
    return adjective and any(not is_light(place.anchor) for place in beside)


def _is_ending(word: Word, text: str) -> bool:
    """Whether the letters belong to a number: "2026-го"."""
    return text[word.start - 1 : word.start] == "-" and text[: word.start - 1][-1:].isdigit()


def _is_verb_form(word: Word) -> bool:
    if word.low.isascii():
        return is_verb(word) and not word.low.endswith("s")
    if is_predicate_verb(word):
        return True
    return not any(reading.part in {"NOUN", "ADJF", "PRTF", ""} for reading in read_word(word.low))


def _read(word: Word) -> WordReading:
    return read_word(word.low)[0]


def _is_said(word: Word, there: SentenceFacts) -> bool:
    """Check whether a word is in a sentence, in any form, derived, or misspelt."""
    if there.all_words.has(word):
        return True
    return any(_is_derived(word, other) or is_misspelt(word.low, other.low) for other in there.words)


def _is_derived(one: Word, other: Word) -> bool:
    """Check whether one of two words is derived from the other: "мостик" and "мост", "детский" and "дети"."""
    short, long = sorted((one.stem, other.stem), key=len)
    if len(short) >= _MIN_ROOT and long.startswith(short):
        return True
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one.low, other.low, strict=False))
    root = sum(1 for _ in pairs)
    rests = one.low[root:], other.low[root:]
    return root >= _MIN_ROOT - 1 and any(
        _ADJECTIVE_ENDING.fullmatch(rest) and len(ending) <= 2 for rest, ending in (rests, rests[::-1])
    )


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
    """Check whether two different words stand in the same place, beside the same word."""
    if _is_value(mine, claim) or _is_name(mine.word) != _is_name(other.word):  # "бассейн" may be «Щука»
        return False
    if mine.anchor.stem != other.anchor.stem:  # "по самбо тренируются" and "тренировки по дзюдо"
        alike = measure_stem_similarity(mine.anchor.stem, (other.anchor.stem,)) > 0
        return alike and not strictly and mine.preposition == other.preposition != ""
    if are_opposites(mine.word.low, other.word.low):  # "вход платный" and "the pool is closed" say it of the thing
        return mine.is_distinction and other.is_distinction
    same_place = mine.side == other.side and mine.between == other.between
    if is_predicate_verb(mine.anchor):
        return _share_case(mine.word, other.word) if not mine.word.low.isascii() else same_place
    if not strictly and mine.is_attribute and other.is_attribute:
        return True
    agrees = mine.side == -1 or not other.adjoins or _agrees(other.word, other.anchor)
    return same_place and agrees and _have_same_part(mine.word, other.word)


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


def _is_name(word: Word) -> bool:
    return word.capital and not word.opens


def _share_case(one: Word, other: Word) -> bool:
    mine, theirs = ({r.case for r in read_word(w.low) if r.part == "NOUN"} for w in (one, other))
    return not mine.isdisjoint(theirs)


def _agrees(word: Word, noun: Word) -> bool:
    """Check that a Russian adjective before a noun has its number and case; any other word may describe it."""
    readings = [reading for reading in read_word(word.low) if reading.part == "ADJF"]
    forms = {(reading.number, reading.case) for reading in read_word(noun.low)}
    return word.low.isascii() or not readings or any((one.number, one.case) in forms for one in readings)


def _have_same_part(one: Word, other: Word) -> bool:
    if any(word.low.isascii() or (word.capital and not word.opens) for word in (one, other)):
        return True
    return _read(one).part == _read(other).part


def list_identifiers(facts: SentenceFacts) -> list[Number]:
    """List the numbers that name a thing: "bus 27", "27-й автобус", "Tawny 1.0", "No. 4", "house 9"."""
    low = fold_text(facts.text)
    return [number for number in facts.numbers[:MOST_FIGURES] if _is_identifier(number, facts, low)]


def _is_identifier(number: Number, facts: SentenceFacts, low: str) -> bool:
    if _NUMBER_SIGN.search(low, max(0, number.start - _LONGEST_SIGN), number.start):
        return True
    if number.unit == "ordinal":
        return low[number.start].isdigit() and sum(word.end <= number.start for word in facts.all_words) <= 1
    if number.unit or number.hedge or number.weak:
        return False
    last = next((word for word in reversed(facts.all_words) if word.end <= number.start), None)
    verb, gap = find_main_verb(facts), low[last.end : number.start] if last else ""
    if (
        last is None
        or len(gap) > 3
        or ("," in gap and verb and verb.start < last.start)
        or not last.stem
        or is_light(last)
        or _is_verb_form(last)
    ):
        return False
    before = sum(word.end <= number.start for word in facts.all_words)
    if last.capital or before <= _OPENING_WORDS:
        return True
    counted = any(word.start - number.end == 1 and not _is_verb_form(word) for word in facts.words)
    others = len(facts.numbers) + len(facts.moments) - 1
    return not counted and bool((verb and verb.start > number.start) or others)


def _find_other_number(claim: SentenceFacts, here: SentenceFacts, around: Sequence[SentenceFacts]) -> str:
    """Find that the number by which the claim names its thing is not there."""
    mine = list_identifiers(claim)
    theirs = list_identifiers(here) if mine else []
    for number in mine:
        if not any(_has_identifier(number, one) for one in (here, *around)):
            return f"{claim.text[number.start : number.end]} is not there"
        others = [other for other in theirs if not set(other.values) & set(number.values)]
        if others and not _has_identifier(number, here):
            return f"{claim.text[number.start : number.end]} ≠ {here.text[others[0].start : others[0].end]}"
    return ""


def _has_identifier(number: Number, there: SentenceFacts) -> bool:
    return any(n.unit in {"", "ordinal"} and set(n.values) & set(number.values) for n in there.numbers)


_MOST_ITEM_WORDS = 40  # words of an item that are compared
_JOINT = re.compile(r"\s(?:[–—-]|и|а|and|but|while)\s")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|)]\s|[\n(]")


class NumberedItems:
    """Items of a sentence, such as a price list: the words that each of its numbers, times and names belongs to."""

    def __init__(self, claim: SentenceFacts, values: Sequence[Number], here: SentenceFacts) -> None:
        self._claim, self._values, self._here = claim, values, here
        names = [name.word.start for name in here.names if not name.weak]
        valued = [*(number.start for number in here.numbers), *(moment.start for moment in here.moments), *names]
        starts = [0, *(found.end() for found in _PIECE_BREAK.finditer(here.text))]
        for found in _JOINT.finditer(here.text):  # between two values, not between a thing and its price
            edges = max(start for start in starts if start <= found.start()), found.start()
            if any(edges[0] <= at < edges[1] for at in valued) and any(at >= found.end() for at in valued):
                starts = sorted({*starts, found.end()})
        units = list_unit_words(here)
        pieces: list[list[Word]] = [[] for _ in starts]
        for word in here.words:
            plural = word.low.isascii() and word.low.endswith("s")  # or an English verb in "s"
            verb = is_verb(word) and not plural and not word.capital and not claim.words.has(word)
            if not (is_asking_word(word.low) or word.start in units or verb):
                pieces[bisect_right(starts, word.start) - 1].append(word)
        # a value that stands alone belongs to the piece before
        self._places = {start: bisect_right(starts, start) - 1 for start in valued}
        self._words = {at: (pieces[n] or pieces[max(0, n - 1)])[:_MOST_ITEM_WORDS] for at, n in self._places.items()}
        self._words |= {at: [word for word in self._words[at] if word.start not in names] for at in names}
        self._claimed = {
            at: frozenset(
                near.stem for word in words if claim.words.has(word) and (near := claim.words.nearest(word)[1])
            )
            for at, words in self._words.items()
        }
        self._foreign = {at: not all(map(claim.words.has, words)) for at, words in self._words.items()}
        for number in list_identifiers(claim):  # "bus 27" and "bus 41" have the same words
            for at, n in self._places.items():
                named = [o for o in here.numbers if o.unit in {"", "ordinal"} and self._places[o.start] == n]
                if any(is_same_value(number, other) for other in named):
                    self._claimed[at] |= {f"{number.values[0]:g}"}
                elif named:
                    self._foreign[at] = True

    def _list_same(self, number: Number) -> list[Number]:
        return [n for n in self._here.numbers if is_same_value(number, n)]

    def _is_claimed_whole(self, number: Number) -> bool:
        return not self._foreign[number.start]

    def find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        others = self._list_rivals(number)
        if own := max((n for n in others if self._claimed[n.start]), key=self._is_claimed_whole, default=None):
            return own
        return others[0] if len(others) == 1 and not contains_value(number, self._here) else None

    def is_bound_elsewhere(self, number: Number) -> bool:
        """Check whether the number stands only at other things, while the claim's thing has another number."""
        same = [n.start for n in self._list_same(number)]
        return any(self._is_nearer(n.start, same) for n in self._list_rivals(number))

    def _list_rivals(self, number: Number) -> list[Number]:
        mine = [*self._values, number]
        numbers = (n for n in self._here.numbers if not any(is_same_value(m, n) for m in mine))
        return [n for n in numbers if _have_same_unit(number, n)]

    def _is_nearer(self, other: int, same: Sequence[int]) -> bool:
        """Check whether another value stands at more of the claim's words than all of these: offsets of values.

        In "билет — 450 ₽, льготный — 200 ₽" the second is nearer to "льготный билет", but not to "билет".
        """
        there = self._claimed[other]

        def is_nearer(one: int) -> bool:
            here, foreign = self._claimed[one], self._foreign[one]
            own = bool(there - here) and not self._foreign[other]
            return (own and (other > one or foreign)) or (foreign and len(there) > len(here))

        return bool(same) and all(map(is_nearer, same))

    def find_moment_elsewhere(self) -> str:
        """Find a date or time of the claim that stands only at another thing, while the claim's thing has another."""
        for moment in self._claim.moments:
            mine = moment.fields()
            shared = [(one, mine.keys() & one.fields().keys()) for one in self._here.moments]
            same = [one.start for one, names in shared if names and all(one.fields()[n] == mine[n] for n in names)]
            for other, names in shared:
                differs = names and all(other.fields()[n] != mine[n] for n in names)
                if differs and other.start not in same and self._is_nearer(other.start, same):
                    quoted = self._claim.text[moment.start : moment.end]
                    return f"{quoted} ≠ {self._here.text[other.start : other.end]}"
        return ""

    def find_name_elsewhere(self) -> str:
        """Find a name of the claim that stands only at another thing, while the claim's thing has another name."""
        theirs = [name.word for name in self._here.names if name.word.start in self._places]
        for name in self._claim.names:
            same = [word.start for word in theirs if is_same_name(name.word, word)]
            pieces = {self._places[start] for start in same}
            others = (w for w in theirs if self._places[w.start] not in pieces and not self._claim.words.has(w))
            if other := next((w for w in others if self._is_nearer(w.start, same)), None):
                return f"{name.word.low} ≠ {other.low}"
        return ""

    def find_difference(self, numbers: Sequence[Number]) -> str:
        """Find one of these numbers of the claim in whose place the sentence has another."""
        for number in numbers:
            apart = not contains_value(number, self._here) or self.is_bound_elsewhere(number)
            if apart and (rival := self.find_rival(number)):
                quoted = self._claim.text[number.start : number.end]
                return f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"
        return ""

    def is_same_attribute(self) -> bool:
        """Check that what differs may be the same attribute later: the price of the same item, or no number at all."""
        rivals = [rival for number in self._values if (rival := self.find_rival(number))]
        return all(rival.unit and self._is_claimed_whole(rival) for rival in rivals)


def _have_same_unit(one: Number, other: Number) -> bool:
    if one.unit or other.unit:
        bare_price = not (one.unit and other.unit) and not other.noun and bool({one.unit, other.unit} & CURRENCIES)
        return one.unit == other.unit or bare_price
    mine, theirs = (stem(number.noun.split()[0]) if number.noun else "" for number in (one, other))
    return mine == theirs or measure_stem_similarity(mine, (theirs,)) >= SAME_WORD


# Shares of the claim's terms in a sentence and around it. It speaks of the claim's subject; for another value to
# contradict the claim; for a "not Y" to correct it; for a later post to change what an earlier one of the channel said.
_MIN_EXPLICIT, _MIN_ABOUT, _MIN_ABOUT_VALUE, _MIN_CORRECTED, _MIN_LEANING = 0.45, 0.55, 0.5, 0.3, 0.3
_MIN_OWN_SUPPORTING = 0.3  # share in the sentence itself, for support
_MIN_OWN = 0.4  # share of the claim's terms in the sentence itself, for another value
_MIN_SUPPORTING, _VALUE_BONUS = 0.78, 0.2  # share for support, less with each number or moment that agrees
_LONG_VALUE = 100  # from which a number with its unit seldom agrees by chance
_FACT_BONUS = 0.1  # of a score
_ASKING_WEIGHT = 0.3  # weight of a word like "costs": price lists do without it
_DAMPING = 0.5  # exponent of a term's weight: a rare word of the claim may be a synonym of the post's
_MIN_SUBJECT = 0.6  # share of the subject's terms in the sentence and around it
# Share of the predicate's terms in the sentence itself; of subject or predicate where a value agrees; of the subject
# in the sentence itself where a value stands for the predicate.
_MIN_PREDICATE, _MIN_VALUED, _MIN_OWN_SUBJECT = 0.5, 0.3, 0.8
_SLIGHT = 0.2  # share of a claim's terms that may be missing from its subject
TOO_LITTLE, _NO_VALUE, _NO_NAME = "too little is said", "a value is not there", "a name is not there"
_GAPS = frozenset({TOO_LITTLE, _NO_VALUE, _NO_NAME})  # what another sentence may supply
_JOINED_SENTENCES = (2, 3)  # sentences of a post read together
_IDENTIFIER_WEIGHT = 2.0  # of "27" in "bus 27", as a multiple of the claim's heaviest term
_CONTEXT_WEIGHT = 0.8  # of a term that stands beside the sentence, not in it
_SUPPORTED, _OPEN, _CONTRADICTED = 0.7, 0.45, 0.05  # likelihoods of support that a stance stands for


def assess_stance(
    facts: SentenceFacts,
    post: Sequence[SentenceFacts],
    header: str,
    date: datetime,
    weight: TermWeight,
) -> Support:
    """Assess what a post says of a claim: the sentence that says most of it decides; `header` may name the subject.

    Only a sentence that has the claim's predicate, names and values supports it, and only one about the same subject
    contradicts it. Everything else is not found.
    """
    claim = ClaimTerms(facts, header, weight)
    if not post or not facts.all_words or len(facts.numbers) + len({m.start for m in facts.moments}) > MOST_FIGURES:
        return Support(Label.NOT_FOUND, 0.0, "words")
    by_place = [_read_sentence(claim, post, n, header, date) for n in range(len(post))]
    readings = [one for one in by_place if one]
    if all(one.label is Label.NOT_FOUND for one in readings):
        readings += _read_together(claim, post, by_place, header, date)
    best = max(readings, key=lambda one: one.priority, default=None)
    if best is None:
        return Support(Label.NOT_FOUND, 0.0, "words")
    likely = {Label.SUPPORTED: _SUPPORTED, Label.CONTRADICTED: _CONTRADICTED}.get(best.label, _OPEN * best.about)
    leaning = best.leaning if best.label is Label.NOT_FOUND else best.label
    start, end = best.sentence.start, best.sentence.start + len(best.sentence.text)
    return Support(best.label, round(likely, 4), "words", best.why, start, end, best.about, leaning)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one sentence stands to the claim; `leaning` is its label if another post has named the subject."""

    label: Label
    sentence: SentenceFacts
    about: float
    score: float
    why: str
    leaning: Label = Label.NOT_FOUND

    @property
    def priority(self) -> tuple[bool, bool, bool, float]:
        """Order of the readings of a post: what decides, what may decide, what is said for certain."""
        decides, may = self.label is not Label.NOT_FOUND, self.leaning is not Label.NOT_FOUND
        return decides, may, self.why != TOO_LITTLE, self.score


class ClaimTerms:
    """Terms of a claim with their weights; numbers that name a thing ("bus 27") are terms, the others are values."""

    def __init__(self, facts: SentenceFacts, header: str, weight: TermWeight) -> None:
        self.facts = facts
        self.low = fold_text(facts.text)
        self.title = extract_facts(header.partition(" · ")[0], "ru")
        self.names = [name.word for name in facts.names if not name.weak]
        units = list_unit_words(facts)
        self.scheduled = any(moment.weekday is not None or moment.minute is not None for moment in facts.moments)
        self.dated = any(moment.day or moment.month or moment.year for moment in facts.moments)
        self.terms = [
            (word, weight(word.stem) ** _DAMPING * (_ASKING_WEIGHT if is_light(word) else 1.0))
            for word in facts.words
            if word.start not in units
        ]
        # names in the channel's title need not stand in a post
        self.optional = {word.start for word, _ in self.terms if word.capital and self.title.all_words.has(word)}
        self.identifiers = list_identifiers(facts)
        self.values = [number for number in facts.numbers if number not in self.identifiers and not number.weak]
        self.values = self.values[:MOST_FIGURES]
        self.heaviest = max((each for _, each in self.terms), default=1.0)
        self.total = (
            sum(each for word, each in self.terms if word.start not in self.optional)
            + len(self.identifiers) * self.heaviest * _IDENTIFIER_WEIGHT
        )
        # what the claim speaks of, before its verb or a dash, and what it says of that, from there on; each stands for
        # the other where there is nothing
        self.verb = find_main_verb(facts)
        dash = re.search(r"\s[—–-]\s", facts.text)
        joint = self.verb.start if self.verb else dash.start() if dash else 0
        before = [pair for pair in self.terms if pair[0].start < joint]
        after = [pair for pair in self.terms if pair[0].start >= joint]
        self.subject, self.predicate = before or after, after or before

    def measure_share(self, terms: Sequence[tuple[Word, float]], sentences: Sequence[SentenceFacts]) -> float:
        """Weight share of these terms in the sentences, light words aside; 1 for no terms."""
        terms = [pair for pair in terms if not is_light(pair[0])]
        total = sum(each for _, each in terms)
        met = sum(each for word, each in terms if any(one.words.has(word) for one in sentences))
        return met / total if total else 1.0

    def is_subject_there(self, sentences: Sequence[SentenceFacts], least: float) -> bool:
        """Check that enough of the subject is there, or that what is missing hardly counts in this claim."""
        share = self.measure_share(self.subject, sentences)
        missing = (1 - share) * sum(each for word, each in self.subject if not is_light(word))
        return share >= least or missing <= _SLIGHT * self.total

    def measure_about(
        self, here: SentenceFacts, around: Sequence[SentenceFacts], opposed: AbstractSet[int]
    ) -> tuple[float, float]:
        """Share of the claim's terms in a sentence, and in it and around it; `opposed` words are there as antonyms."""
        total = self.total
        own = near = 0.0
        for word, each in self.terms:
            if here.words.has(word) or word.start in opposed:
                own, near = own + each, near + each
                total += each if word.start in self.optional else 0.0
            elif word.start in self.optional:
                continue
            elif any(one.words.has(word) for one in around):
                near += each * _CONTEXT_WEIGHT
        each = self.heaviest * _IDENTIFIER_WEIGHT
        for number in self.identifiers:
            for n in (n for one in (here, *around) for n in one.numbers):
                if n.unit in {"", "ordinal"} and set(n.values) & set(number.values):
                    near += each
                    own += each if n in here.numbers else 0.0
                    break
        return (own / total, near / total) if self.total else (0.0, 0.0)


_TAG = re.compile(r"#(\w+)")  # names what the post is about
_TAGGED_SENTENCES = 3  # last ones of a post, with its hashtags


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A claim beside one sentence and those around it.

    `own` and `about` are the shares of the claim's terms in the sentence, and in it and around it; `moments` are the
    dates and times of the claim that are not there; `value` and `denial` name a disagreement.
    """

    here: SentenceFacts
    around: Sequence[SentenceFacts]
    own: float
    about: float
    matched: int
    lacking: int
    moments: Sequence[tuple[bool, str]]
    value: str
    denial: str
    subject: bool
    known: bool
    other_name: str

    @property
    def score(self) -> float:
        """How much the sentence says of the claim."""
        return self.own + self.about / 2 + _FACT_BONUS * self.matched


def _compare(
    claim: ClaimTerms, post: Sequence[SentenceFacts], n: int, header: str, date: datetime
) -> _Comparison | None:
    """Compare the claim with a sentence in its context; None if the sentence has nothing of the claim."""
    here, facts = post[n], claim.facts
    parent = extract_facts(header.partition(" · ")[2], "ru")
    tags = extract_facts(" ".join(_TAG.findall(" ".join(one.text for one in post[-_TAGGED_SENTENCES:]))), "ru")
    around = [*post[max(0, n - 3) : n], *post[n + 1 : n + 2], *post[: min(2, n)], parent, tags]
    opposites = {word.start for word, _ in find_opposite_words(facts, here)}
    own, about = claim.measure_about(here, around, opposites)
    moments = list(find_moment_differences(facts, here, post, date))
    absent = [mine for mine in claim.values if not contains_value(mine, here)]
    lacking, elsewhere = len(absent), sum(1 for _ in find_moment_differences(facts, here, [here], date))
    matched = len(claim.values) - lacking + len(facts.moments) - max(elsewhere, len(moments))
    if own == 0.0 and not matched:
        return None
    items = NumberedItems(facts, claim.values, here)
    found = [why for differs, why in moments if differs]
    if not (found and claim.values):  # a number of another time contradicts nothing
        told = any(contains_value(mine, one) for mine in absent for one in post)  # beside the other number
        found = [*([] if told else [items.find_difference(claim.values)]), *found]
    elif claim.dated:
        found = []
    found.append(items.find_moment_elsewhere())
    verbatim = _is_verbatim(facts, here)
    if verbatim:  # its values stand where the claim has them
        found = []
    if opposites and (matched or not claim.dated):
        found += find_opposite_statements(facts, here)
    enough = own >= _MIN_OWN or matched > 1 or (about >= _MIN_SUPPORTING and own >= _MIN_OWN / 2)
    opposed = sum(each for word, each in claim.terms if word.start in opposites) / claim.total if claim.total else 0.0
    subject = (
        enough
        and about >= _MIN_ABOUT_VALUE
        and (not opposites or (own + about) / 2 - opposed >= _MIN_LEANING)
        and claim.is_subject_there([here, *around, claim.title], _MIN_SUBJECT)
    )
    same = lacking <= 1 and not opposites and not claim.dated and items.is_same_attribute()
    return _Comparison(
        here, around, own, about, matched, lacking, moments, next(filter(None, found), ""), find_denied_word(facts, here),
        subject, same and about >= _MIN_LEANING, "" if verbatim else items.find_name_elsewhere(),
    )  # fmt: skip


def _is_verbatim(claim: SentenceFacts, here: SentenceFacts) -> bool:
    """Check whether the words of the claim stand in the sentence in one run."""
    said, words = [word.low for word in here.all_words], [word.low for word in claim.all_words]
    return any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1))


def _read_sentence(
    claim: ClaimTerms, post: Sequence[SentenceFacts], n: int, header: str, date: datetime
) -> _Reading | None:
    if (seen := _compare(claim, post, n, header, date)) is None:
        return None
    other = find_other_thing(claim.facts, seen.here, [*seen.around, claim.title])
    if other:
        return _reject(seen, other)
    following = post[n + 1] if n + 1 < len(post) else None
    return (
        _read_denial(claim, seen, following)
        or _read_doubt(claim, seen, following)
        or _read_gap(claim, seen, post)
        or _read_support(claim, seen)
    )


def _read_together(
    claim: ClaimTerms,
    post: Sequence[SentenceFacts],
    by_place: Sequence[_Reading | None],
    header: str,
    date: datetime,
) -> Iterator[_Reading]:
    """Read neighbouring sentences as one where each only lacks something of the claim; together they may support it."""
    for size in _JOINED_SENTENCES:
        for n in range(len(post) - size + 1):
            parts, (first, *_, last) = [one for one in by_place[n : n + size] if one], post[n : n + size]
            too_long = last.start + len(last.text) - first.start > LONGEST_STATED
            if too_long or len(parts) < 2 or any(one.why not in _GAPS for one in parts):
                continue
            joined = join_facts(post[n : n + size])
            found = _read_sentence(claim, [*post[:n], joined, *post[n + size :]], n, header, date)
            if found and found.label is Label.SUPPORTED:
                yield found


def _read_denial(claim: ClaimTerms, seen: _Comparison, following: SentenceFacts | None) -> _Reading | None:
    score = seen.own + seen.about / 2 + 1
    close = seen.about >= _MIN_EXPLICIT and (
        seen.matched or (seen.own >= _MIN_OWN_SUPPORTING and not claim.facts.moments)
    )
    if close and (why := find_explicit_denial(claim.facts, seen.here, following, seen.denial)):
        return _Reading(Label.CONTRADICTED, seen.here, seen.about, score, why)
    if why := find_correction(claim.facts, seen.here):
        label = Label.CONTRADICTED if seen.about >= _MIN_CORRECTED else Label.NOT_FOUND
        return _Reading(label, seen.here, seen.about, score, why, Label.CONTRADICTED)
    return None


def _reject(seen: _Comparison, why: str, *, contradicts: bool = False, leaning: Label = Label.NOT_FOUND) -> _Reading:
    label = Label.CONTRADICTED if contradicts else Label.NOT_FOUND
    return _Reading(label, seen.here, seen.about, seen.score, why, leaning)


def _read_doubt(claim: ClaimTerms, seen: _Comparison, following: SentenceFacts | None) -> _Reading | None:
    """Read what keeps a sentence from supporting the claim: no assertion, another value, a denial, an end."""
    changed = Label.CONTRADICTED if seen.known else Label.NOT_FOUND
    facts, here = claim.facts, seen.here
    if why := find_unasserted(facts, here, following):
        return _reject(seen, why)
    # another day for what is said not to be on this one any more
    if seen.value and facts.denied:
        return _reject(seen, seen.value, leaning=Label.SUPPORTED if seen.subject else Label.NOT_FOUND)
    if why := seen.value or seen.denial:
        contradicts = (bool(seen.value) and seen.subject) or (bool(seen.denial) and seen.about >= _MIN_ABOUT)
        return _reject(seen, why, contradicts=contradicts, leaning=changed if seen.value else Label.NOT_FOUND)
    complete = seen.matched and not seen.lacking and not seen.moments
    if not (complete and all(mine.unit for mine in claim.values)) and (why := find_end(facts, here)):
        # what ended must be the claim's subject; who has its role now names himself
        return _reject(seen, why, leaning=changed if seen.subject or why.startswith("new") else Label.NOT_FOUND)
    return None


def _read_gap(claim: ClaimTerms, seen: _Comparison, post: Sequence[SentenceFacts]) -> _Reading | None:
    """Read what the sentence lacks of the claim: a value, the thing or the name that a value belongs to."""
    if seen.lacking or seen.moments or (not seen.matched and (claim.values or claim.facts.moments)):
        return _reject(seen, _NO_VALUE)
    if why := next((why for why in find_role_differences(claim.facts, seen.here, post)), ""):
        names = {name.word.start for name in claim.facts.names}
        role = claim.measure_share([pair for pair in claim.terms if pair[0].start not in names], [seen.here])
        return _reject(seen, why, contradicts=max(seen.about, role) >= _MIN_ABOUT)
    return _reject(seen, seen.other_name) if seen.other_name else None


def _read_support(claim: ClaimTerms, seen: _Comparison) -> _Reading:
    """Read support: the predicate, the names and as many denials are in the sentence, the subject in or around it."""
    long = any(mine.unit and max(mine.values) >= _LONG_VALUE for mine in claim.values)
    least = _MIN_SUPPORTING - _VALUE_BONUS * min(2, seen.matched + long)
    stems = claim.facts.all_words.stems
    odd = sum(not stems.isdisjoint(scope.wide) for scope in seen.here.denied) % 2 != len(claim.facts.denied) % 2
    everywhere = [seen.here, *seen.around, claim.title]
    named = all(contains_name(name, everywhere) for name in claim.names)
    own = _MIN_OWN_SUPPORTING if seen.matched else _MIN_ABOUT
    if seen.matched > 1 and claim.scheduled and not any(is_predicate_verb(word) for word in seen.here.all_words):
        own = 0.0  # a timetable without a verb is of what the sentences around it speak of
    own_subject = claim.measure_share(claim.subject, [seen.here])
    said = claim.measure_share(claim.predicate, [seen.here]) >= (_MIN_VALUED if seen.matched else _MIN_PREDICATE)
    said = said or (bool(seen.matched) and not claim.values and own_subject >= _MIN_OWN_SUBJECT) or seen.matched > 1
    subject = claim.is_subject_there(everywhere, _MIN_VALUED if seen.matched else _MIN_SUBJECT)
    if seen.about >= least and seen.own >= own and named and said and subject and not odd:
        return _Reading(Label.SUPPORTED, seen.here, seen.about, seen.score, "", Label.SUPPORTED)
    leans = seen.known and named and not odd and any(mine.unit for mine in claim.values)
    why, leaning = TOO_LITTLE if named else _NO_NAME, Label.SUPPORTED if leans else Label.NOT_FOUND
    return _Reading(Label.NOT_FOUND, seen.here, seen.about, seen.score, why, leaning)


def assess_by_words(claim: Claim, passages: Sequence[Passage], weight: TermWeight = lambda _: 1.0) -> list[Support]:
    """Assess a claim against each passage by its words alone; `weight` gives the rarity of a term."""
    facts = extract_facts(claim.text.strip(), claim.lang)
    return [
        assess_stance(facts, extract_facts_by_sentence(one.text, claim.lang), one.header, one.date, weight)
        for one in passages
    ]
