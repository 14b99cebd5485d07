"""Cues of assertion: whether a sentence states what it says, or denies, corrects, asks, plans or rumours it.

Each check returns the reason, "" for none. A cue that the claim has itself is no disagreement. Pure functions.
"""

from __future__ import annotations

import re

from rag_core.text.numbers import join_digit_groups
from rag_core.text.tokens import WordReading, is_dictionary_word, read_word, stem
from rag_core.verification.claim_extraction import is_verb
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.word_comparison import SAME_WORD, Word, fold_text, is_same_name, likeness

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


def find_correction(claim: SentenceFacts, here: SentenceFacts, *, replaced: bool) -> str:
    """Find "X, not Y" where Y is a number or a day of the claim; with `replaced` also "X instead of Y"."""
    low = fold_text(claim.text)
    if _CORRECTION.search(low):
        return ""
    values = [low[number.start : number.end] for number in claim.numbers]
    values += [low[moment.start : moment.end] for moment in claim.moments]
    digits = {digit for value in values for digit in _DIGITS.findall(join_digit_groups(value))}
    weekdays = {stem(word) for value in values for word in value.split()} - {""}
    for found in _CORRECTION.finditer(fold_text(here.text)):
        if not replaced and found[0].startswith(("вместо", "instead")):
            continue
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


_PLAN_WORDS = re.compile(
    r"(?<!\w)(?:смо(?:жет|гут)|ожида\w+|планиру\w+|намерен\w*|собира(?:ет|ют)\w*|жд[еу]т|мо(?:жет|гут)|возможн\w+|предлага\w+|обеща\w+|"
    r"рассматрива\w+|прогноз\w*|готовит\w*|буд(?:ет|ут)|хот(?:ят|ел\w*)|проект\w*|цел(?:ь|ью)|will|would|may|might|could|plans?|planned|planning|"
    r"expect\w*|intend\w*|propos\w+|going to|hop(?:e|es|ing)|consider\w*|forecast\w*|aims?)(?!\w)"
)
_PAST_EN = re.compile(
    r"(?:was|were|had|has|have|did|became|began|bought|built|came|chose|drew|fell|found|gave|got|grew|held|kept|knew|led|left|"
    r"lost|made|met|paid|ran|rose|said|saw|sent|sold|spent|stood|taught|told|took|went|won|\w{2,}ed)$"
)


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


def is_past(word: Word) -> bool:
    """Check for a verb of the past or a short participle."""
    if word.low.isascii():
        return bool(_PAST_EN.match(word.low))
    return any(reading.part == "PRTS" or reading.tense == "past" for reading in _read_first(word))


def find_unrealised(claim: SentenceFacts, here: SentenceFacts) -> str:
    """Find that the sentence speaks of what is to come, where the claim says that it happened."""
    happened = [word for word in claim.all_words if is_predicate_verb(word) and is_past(word)]
    if not happened or _PLAN_WORDS.search(fold_text(claim.text)):
        return ""
    for word in happened:
        for other in here.all_words:
            if likeness(word.low, word.stem, other.low, other.stem) >= SAME_WORD and is_past(other):
                return ""
    if found := _PLAN_WORDS.search(fold_text(here.text)):
        return f"to come: {found[0]}"
    for word in here.all_words:
        if word.stem and not word.low.isascii() and any(reading.tense == "futr" for reading in _read_first(word)):
            return f"to come: {word.low}"
    return ""
