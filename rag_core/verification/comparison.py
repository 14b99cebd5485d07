"""Comparison of a claim with a sentence: values, moments, names, opposites, denials, numbered items."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby, pairwise

from rag_core.dates.moments import Moment
from rag_core.text.numbers import CURRENCIES, Number, join_digit_groups
from rag_core.text.query_terms import expand_words, is_asking_word
from rag_core.text.tokens import LETTERS, is_dictionary_word, measure_stem_similarity, read_word, stem
from rag_core.verification.facts import (
    MOST_FIGURES,
    SAME_WORD,
    SentenceFacts,
    Vocabulary,
    Word,
    are_opposites,
    fold_text,
    index_words,
    is_same_name,
    is_verb,
    mark_opposition,
)


def measure_covered_share(words: Sequence[Word], there: Vocabulary) -> float:
    """Share of the words that is covered by the other words, 0..1; 1 for no words."""
    met = sum(1.0 if word.stem in there.stems else there.nearest(word)[0] for word in words)
    return met / len(words) if words else 1.0


def contains_name(word: Word, there: Sequence[SentenceFacts]) -> bool:
    """Check whether a name is in the sentences: inflected, shortened, or in another script."""
    return any(is_same_name(word, other) for one in there for other in one.all_words.candidates(word))


_EXACT_TOLERANCE, _ROUGH_TOLERANCE = 1e-6, 0.1
_MAX_RATIO = 3.0  # "more than 100" is not said of 5 000


def is_same_value(claimed: Number, said: Number) -> bool:
    """Check whether two numbers agree, as exactly as the claim's wording ("about", "over") demands."""
    if claimed.unit and said.unit and claimed.unit != said.unit:
        return False

    def agree(a: float, b: float) -> bool:
        if abs(a - b) <= _EXACT_TOLERANCE * max(1.0, abs(b)):
            return True
        if claimed.hedge == "about":
            return abs(a - b) <= _ROUGH_TOLERANCE * abs(b)
        if claimed.hedge == "over":
            return a < b <= _MAX_RATIO * a and said.hedge != "under"
        return claimed.hedge == "under" and b < a <= _MAX_RATIO * b and said.hedge != "over"

    return any(agree(a, b) for a in claimed.values for b in said.values)


def contains_value(claimed: Number, here: SentenceFacts) -> bool:
    """Check whether a number of the sentence agrees with that of the claim."""
    return any(is_same_value(claimed, other) for other in here.numbers)


_HALF_DAY_MINUTES = 720
_WEEK_DAYS = 7
_BESIDE = 80  # characters of context around a weekday
_CLOSED_WORDS = re.compile(r"(?:(?<!\w)|^)(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)(?! дн)|closed|shut)(?!\w)")
_CLOSED_ON_WORDS = re.compile(
    r"(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)|closed|shut)(?:\s+(?:по|в|во|on|at|every))?[\s:—–-]*$"
)


def find_moment_differences(
    claim: SentenceFacts, best: SentenceFacts, post: Sequence[SentenceFacts], date: datetime
) -> Iterator[tuple[bool, str]]:
    """Find dates and times of the claim that the post lacks; with each, whether the sentence has another instead."""
    here = _drop_duplicate_moments(best.moments)
    everywhere = _drop_duplicate_moments(moment for one in post for moment in one.moments)
    own, mine = Moment(0, 0, date.year, date.month, date.day), _drop_duplicate_moments(claim.moments)
    unnamed = [
        other
        for other in here
        if not any(all(_fields_agree(name, one, other) for name in other.fields()) for one in mine)
    ]
    for moment in claim.moments:
        quoted, fields = claim.text[moment.start : moment.end], moment.fields()
        if _is_closed_then(moment, claim, best):
            yield True, f"{quoted} ≠ closed"
            continue
        shared = ((one, name) for one in unnamed for name in fields.keys() & one.fields().keys())
        rival = next((one for one, name in shared if not _fields_agree(name, moment, one)), None)
        if any(_moments_agree(moment, other, date) for other in (*here, own, *(() if rival else everywhere))):
            continue
        if "weekday" in fields and sum(one.start == moment.start for one in claim.moments) == _WEEK_DAYS:
            # "daily" has synonyms, but a list of some days contradicts it
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


def _fields_agree(name: str, one: Moment, other: Moment) -> bool:
    """Check whether a field is equal in both; an hour in words may be in the morning or in the evening."""
    mine, theirs = one.fields().get(name), other.fields().get(name)
    if mine is None or theirs is None:
        return False
    half_day_apart = name == "minute" and (one.either or other.either) and (mine - theirs) % _HALF_DAY_MINUTES == 0
    return mine == theirs or half_day_apart


def _moments_agree(claimed: Moment, said: Moment, date: datetime) -> bool:
    mine, theirs = claimed.fields(), said.fields()
    if "year" not in theirs and "month" in theirs:  # it is the nearest one to the post
        year = mine.get("year", date.year)
        theirs["year"] = year if abs(year - date.year) <= 1 else date.year
    shared = mine.keys() & theirs.keys()
    full = "month" in theirs and ("day" in theirs or "day" not in mine)
    if any(name in mine and name not in theirs for name in ("day", "year")) and not full:
        return False
    return bool(shared) and all(mine[name] == theirs[name] or _fields_agree(name, claimed, said) for name in shared)


def _drop_duplicate_moments(moments: Iterable[Moment]) -> list[Moment]:
    return list({(*one.fields().items(), one.either): one for one in reversed(list(moments))}.values())[::-1]


_MOST_COMPARED = 32  # distinct words compared with one word for opposites
_CLOSE_OPEN_PAIR = re.compile(r"(?:закрыва|close).* (?:откр|open)")
_UNTIL_WORDS = re.compile(r"(?:до|until|till|to|[-–—])\s*$")


def find_opposite_words(claim: SentenceFacts, best: SentenceFacts) -> Iterator[tuple[Word, Word]]:
    """Find words of the claim with their antonyms in the sentence."""
    look_up = index_words(best.words, lambda word: mark_opposition(word.low), _MOST_COMPARED)
    for word in claim.words:
        opposites = [other for other in look_up(mark_opposition(word.low)) if are_opposites(word.low, other.low)]
        if not opposites or best.words.has(word):
            continue
        if other := next((other for other in opposites if not claim.words.has(other)), None):
            yield word, other


def find_opposite_statements(claim: SentenceFacts, best: SentenceFacts) -> Iterator[str]:
    """Find antonyms, unless one of them is denied: "не вырос" equals "снизился"."""
    # "open until" the hour at which the claim says it closes
    hours = {moment.minute for moment in claim.moments if moment.minute is not None}
    ends = (best.text[: moment.start].lower() for moment in best.moments if moment.minute in hours)
    until = len(hours) == 1 and any(map(_UNTIL_WORDS.search, ends))
    for word, other in find_opposite_words(claim, best):
        denied = any(word.stem in s.wide for s in claim.denied) != any(other.stem in s.wide for s in best.denied)
        if not denied and not (until and _CLOSE_OPEN_PAIR.search(f"{word.low} {other.low}")):
            yield f"{word.low} ≠ {other.low}"


_PART_BREAK = re.compile(r"[,;()]")
_CONTRAST_WORDS = frozenset({"а", "while", "whereas"})
_MAX_ROLE_GAP = 2  # function words allowed between a role and its holder: "led by the"


def find_role_difference(claim: SentenceFacts, best: SentenceFacts, post: Sequence[SentenceFacts]) -> str:
    """Find a name of the claim that the post lacks or has in another part, where its role has exactly one other name."""
    if claim.denied:
        return ""
    parts = [[*best.all_words[:1]]]  # where another statement may begin
    for before, word in pairwise(best.all_words):
        if _PART_BREAK.search(best.text[before.end : word.start]) or word.low in _CONTRAST_WORDS:
            parts.append([])
        parts[-1].append(word)
    capitals = {name.word.start for name in best.names}
    strong = {name.word.start for name in best.names if not name.weak}
    strange = {name.word.start for name in best.names if not name.weak and not contains_name(name.word, [claim])}
    # of each part the other names, adjoining words as one: start and end, and the words beside them
    others: list[list[tuple[tuple[int, int], Vocabulary]]] = []
    for part in parts:
        others.append([])
        for is_name, run in groupby(enumerate(part), key=lambda one: one[1].start in strong):
            words = list(run) if is_name else []
            for n, word in words:
                if word.start in strange:
                    span = words[0][1].start, words[-1][1].end
                    others[-1].append((span, Vocabulary(_find_role_words(part, n))))
    places = {word.start: n for n, word in enumerate(claim.all_words)}
    for name in claim.names:
        roles = [w for w in _find_role_words(claim.all_words, places[name.word.start]) if not w.capital]
        absent = not name.weak and not contains_name(name.word, post)
        same = {(w.low, w.capital) for w in best.all_words.candidates(name.word) if is_same_name(name.word, w)}
        at = [next((n for n, w in enumerate(part) if (w.low, w.capital) in same), None) for part in parts]
        # start of the last part in which the name follows what the claim does not mention: "за кассу Морган"
        latest = -1
        for part, place in zip(parts, at, strict=True):
            before_name = (word for word in part[: place or 0] if word.stem and word.start not in capitals)
            latest = latest if all(map(claim.words.has, before_name)) else part[0].start
        for n, part in enumerate(parts):
            holders = {span for span, beside in others[n] if any(map(beside.has, roles))}
            if at[n] is None and len(holders) == 1 and (absent or latest > part[-1].start):
                return f"{claim.text[name.word.start : name.word.end]} ≠ {best.text[slice(*holders.pop())]}"
    return ""


def _find_role_words(words: Sequence[Word], at: int) -> list[Word]:
    """Nearest content words before and after the name at a place."""
    before = [w for w in words[max(0, at - _MAX_ROLE_GAP - 1) : at][::-1] if w.stem][:1]
    return before + [w for w in words[at + 1 : at + 2 + _MAX_ROLE_GAP] if w.stem][:1]


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


def find_explicit_denial(
    claim: SentenceFacts, here: SentenceFacts, following: SentenceFacts | None, denied_word: str
) -> str:
    """Find that the sentence, or the one after it, calls the claim false or answers no."""
    low, reply = fold_text(here.text), fold_text(following.text) if following else ""
    if claim.denied or _FALSE_WORDS.search(fold_text(claim.text)):
        return ""
    called = [found.span() for found in _FALSE_WORDS.finditer(low)]
    # "it is not true that the ferry is not sold" agrees with "the ferry is sold"
    outside = sum(not any(start <= scope.at < end for start, end in called) for scope in here.denied)
    if (called or _FALSE_REPLY.match(reply)) and outside % 2 == 0:
        return "called false"
    if _is_question(here) and _NEGATIVE_REPLY.match(reply):
        return "asked and denied"
    if _NEGATIVE_REPLY.match(low):
        denied = (w for scope in here.denied for w in here.words if scope.at < w.start and w.stem in scope.wide)
        if any(map(claim.words.has, denied)):
            return "answered no"
    return "a rumour denied" if denied_word and _RUMOUR_WORDS.search(low) else ""


def find_failed_plan(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find that the sentence says that something did not come to be, on no other day than the claim's."""
    said = fold_text(claim.text)
    if claim.denied or _FALSE_WORDS.search(said) or _FAILED_PLAN.search(said):
        return ""
    days = {(m.month, m.day) for m in claim.moments if m.day}
    other_day = bool(days) and any(m.day and (m.month, m.day) not in days for m in here.moments)
    return "did not come to be" if _FAILED_PLAN.search(fold_text(here.text)) and not other_day else ""


def _is_question(here: SentenceFacts) -> bool:
    return here.text.rstrip(' "»”)').endswith("?")


def needs_reply(here: SentenceFacts, following: SentenceFacts) -> bool:
    """Whether a sentence says what it says only together with the one after it: a question, or what that calls false."""
    return _is_question(here) or bool(_FALSE_REPLY.match(fold_text(following.text)))


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
        if digits & set(_DIGITS.findall(after)[:1]) or weekdays & {stem(word) for word in LETTERS.findall(after)[:1]}:
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
    if _RUMOUR_WORDS.search(fold_text(here.text)) and not _RUMOUR_WORDS.search(fold_text(claim.text)):
        return "rumour"
    for scope in () if claim.modal else here.modal:
        if not claim.all_words.stems.isdisjoint(scope.wide):
            return f"{scope.kind} {scope.first.low if scope.first else ''}"
    return ""


def find_end(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find that something ended which the claim says still holds, or that somebody else has the role now."""
    low, claimed = fold_text(here.text), fold_text(claim.text)
    if (found := _CEASED_WORDS.search(low)) and not _CEASED_WORDS.search(claimed):
        return f"ended: {found[0]}"
    for before, role in pairwise(here.all_words):
        if not _NEW_HOLDER.match(before.low):
            continue
        for name in claim.names:  # "Priya Raman is the president", "Галина — председатель"
            gaps = ((name.word.end, word.start) for word in claim.words if word.stem == role.stem)
            if any(0 < to - at <= _LONGEST_COPULA and _COPULA.fullmatch(claimed, at, to) for at, to in gaps):
                others = [word for word in here.all_words if word.start > role.start and word.capital and word.stem]
                if others and not any(is_same_name(name.word, word) for word in others):
                    return f"new {role.low}"
                break
    return ""


def is_predicate_verb(word: Word) -> bool:
    """Check whether a word is a verb, a short participle or a predicative, by the dictionary or its ending."""
    if word.capital and not word.opens:
        return False
    if word.low.isascii():
        return is_verb(word)
    # the likeliest reading; guessing other words costs too much time
    return is_dictionary_word(word.low) and read_word(word.low)[0].part in {"VERB", "PRTS", "INFN", "PRED", "ADJS"}


def find_main_verb(claim: SentenceFacts) -> Word | None:
    """Find the verb that follows the subject, no part of a compound ("paid-up"); English words in "s" come last."""
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
_NUMBER_SIGN = re.compile(r"(?:№|(?<!\w)(?:no\.?|number|номер))\s*$")
_LONGEST_SIGN = 10  # characters of "number" and the like before a number
_SIGNS = frozenset("$€£¥₽")
_OPENING_WORDS = 2  # words before a number that is part of a name


def is_light(word: Word) -> bool:
    """Check for a word like "costs", "fee" or "can" that posts leave out."""
    return is_asking_word(word.low) or word.stem in _LIGHT_STEMS or _asks_for_value(word.low)


@lru_cache(maxsize=20_000)
def _asks_for_value(low: str) -> bool:
    """Whether a word asks for a price, hours or a phone number: our table has it beside their annotation."""
    return any(term.startswith("<") for variants in expand_words(low).values() for term in variants)


def list_unit_words(facts: SentenceFacts) -> frozenset[int]:
    """Offsets of the words that are units: "roubles" in "40 roubles", but not "tea" in "£4 tea"."""
    numbers = (number for number in facts.numbers if number.unit not in {"", "ordinal"})
    ends = {number.end for number in numbers if facts.text[number.start - 1 : number.start] not in _SIGNS}
    return frozenset(
        word.start
        for word in facts.words
        if any(word.start - n in ends and not facts.text[word.start - n : word.start].strip("- ") for n in range(3))
    )


def is_verb_form(word: Word) -> bool:
    """Whether a word is a form of a verb; English words in -s are none, since they may be plurals."""
    if word.low.isascii():
        return is_verb(word) and not word.low.endswith("s")
    readings = read_word(word.low)
    return is_predicate_verb(word) or not any(one.part in {"NOUN", "ADJF", "PRTF", ""} for one in readings)


def list_identifiers(facts: SentenceFacts) -> list[Number]:
    """List the numbers that name a thing: "bus 27", "27-й автобус", "Tawny 1.0", "No. 4", "house 9"."""
    low, verb, found = fold_text(facts.text), find_main_verb(facts) if facts.numbers else None, list[Number]()
    for number in facts.numbers[:MOST_FIGURES]:
        before = [word for word in facts.all_words if word.end <= number.start]
        if _NUMBER_SIGN.search(low, max(0, number.start - _LONGEST_SIGN), number.start):
            found.append(number)
        elif number.unit == "ordinal":
            found += [number] if low[number.start].isdigit() and len(before) <= 1 else []
        elif before and not (number.unit or number.hedge or number.weak):
            last = before[-1]
            gap = low[last.end : number.start]
            apart = len(gap) > 3 or ("," in gap and verb is not None and verb.start < last.start)
            if apart or not last.stem or is_light(last) or is_verb_form(last):
                continue
            counted = any(word.start - number.end == 1 and not is_verb_form(word) for word in facts.words)
            others = len(facts.numbers) + len(facts.moments) > 1 or (verb is not None and verb.start > number.start)
            if last.capital or len(before) <= _OPENING_WORDS or (not counted and others):
                found.append(number)
    return found


def has_identifier(number: Number, there: SentenceFacts) -> bool:
    """Check whether a sentence has the number that names a thing."""
    return any(one.unit in {"", "ordinal"} and set(one.values) & set(number.values) for one in there.numbers)


_MOST_ITEM_WORDS = 40  # words of an item that are compared
_JOINT = re.compile(r"\s(?:[–—-]|и|а|and|but|while)\s")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|)]\s|[\n(]")


class NumberedItems:
    """Items of a sentence, such as a price list: the words that each of its numbers and times belongs to."""

    def __init__(self, claim: SentenceFacts, values: Sequence[Number], here: SentenceFacts) -> None:
        self._claim, self._values, self._here = claim, values, here
        valued = [*(number.start for number in here.numbers), *(moment.start for moment in here.moments)]
        valued += [name.word.start for name in here.names if not name.weak]
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
        identifiers = list_identifiers(claim)
        self._claimed: dict[int, frozenset[str]] = {}
        self._foreign: dict[int, bool] = {}
        for start in valued:
            n = bisect_right(starts, start) - 1
            # a value that stands alone belongs to those before
            words = (pieces[n] or pieces[max(0, n - 1)])[:_MOST_ITEM_WORDS]
            near = [claim.words.nearest(word)[1] for word in words if claim.words.has(word)]
            claimed, foreign = {word.stem for word in near if word}, not all(map(claim.words.has, words))
            beside = (one for one in here.numbers if bisect_right(starts, one.start) - 1 == n)
            named = [one for one in beside if one.unit in {"", "ordinal"}]
            for identifier in identifiers:  # "bus 27" and "bus 41" have the same words
                if any(is_same_value(identifier, one) for one in named):
                    claimed.add(f"{identifier.values[0]:g}")
                elif named:
                    foreign = True
            self._claimed[start], self._foreign[start] = frozenset(claimed), foreign

    def find_difference(self, numbers: Sequence[Number]) -> str:
        """Find one of these numbers of the claim in whose place the sentence has another."""
        for number in numbers:
            same = [one.start for one in self._here.numbers if is_same_value(number, one)]
            elsewhere = any(self._is_nearer(one.start, same) for one in self._list_rivals(number))
            if (not same or elsewhere) and (rival := self._find_rival(number)):
                quoted = self._claim.text[number.start : number.end]
                return f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"
        return ""

    def find_moment_elsewhere(self) -> str:
        """Find a date or time of the claim that stands only at another thing, while the claim's thing has another."""
        for moment in self._claim.moments:
            same, others = list[int](), list[Moment]()
            for one in self._here.moments:
                equal = {value == one.fields()[name] for name, value in moment.fields().items() if name in one.fields()}
                same += [one.start] if equal == {True} else []
                others += [one] if equal == {False} else []
            for other in others:
                if other.start not in same and self._is_nearer(other.start, same):
                    quoted = self._claim.text[moment.start : moment.end]
                    return f"{quoted} ≠ {self._here.text[other.start : other.end]}"
        return ""

    def is_same_attribute(self) -> bool:
        """Check that what differs may be the same attribute later: the price of the same item, or no number at all."""
        rivals = [rival for number in self._values if (rival := self._find_rival(number))]
        return all(rival.unit and not self._foreign[rival.start] for rival in rivals)

    def _find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        others = self._list_rivals(number)
        own = [one for one in others if self._claimed[one.start]]
        if own:
            return min(own, key=lambda one: self._foreign[one.start])
        return others[0] if len(others) == 1 and not contains_value(number, self._here) else None

    def _list_rivals(self, number: Number) -> list[Number]:
        """List the other numbers of the same unit; without a unit, of the same noun."""
        rivals = []
        for one in self._here.numbers:
            if any(is_same_value(value, one) for value in (*self._values, number)):
                continue
            units = {number.unit, one.unit}
            if units == {""}:
                mine, theirs = (stem(of.noun.split()[0]) if of.noun else "" for of in (number, one))
                alike = mine == theirs or measure_stem_similarity(mine, (theirs,)) >= SAME_WORD
            else:
                bare_price = "" in units and not one.noun and not units.isdisjoint(CURRENCIES)
                alike = len(units) == 1 or bare_price
            rivals += [one] if alike else []
        return rivals

    def _is_nearer(self, other: int, same: Sequence[int]) -> bool:
        """Check whether another value stands at more of the claim's words than all of these: offsets of values."""
        there = self._claimed[other]
        for one in same:
            here, foreign = self._claimed[one], self._foreign[one]
            own = bool(there - here) and not self._foreign[other]
            if not ((own and (other > one or foreign)) or (foreign and len(there) > len(here))):
                return False
        return bool(same)
