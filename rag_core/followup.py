"""Follow-ups made to stand alone, by rules: "а в марте?", "and who said that?" after an earlier question.

Times, names and "for whom" take the place of those in the earlier question; pronouns are replaced by what they
stand for; whatever else is asked briefly gets the subject of the earlier question. What is no follow-up stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from rag_core.analysis import language_of
from rag_core.doors.archive.talks import Turn
from rag_core.followup_signs import (
    ASKS,
    OCCURRENCE,
    PREPOSITION,
    Pronoun,
    content,
    folded,
    named,
    pronoun_in,
    subject_of,
    without_lead,
)
from rag_core.plan.kinds import about_lately, without_asking
from rag_core.when import period

__all__ = ["follows", "stand_alone"]

_MOST_TERMS = 3  # a question with as many words of its own, or with a name, stands alone although it begins with "and"
_END = " \t\n?!.…,;:"
_LONGEST = 600  # characters: what is longer than any follow-up, and what a chain of them may grow to
_PARTS = re.compile(
    r"\b(?:score|result|price|reason|date|time|address|winner|author|source|deadline|age|link|outcome|cost|"
    r"счет\w{0,2}|результат\w{0,2}|цен[аыу]|причин[аыу]|дат[аыу]|адрес\w{0,2}|победител\w|автор\w{0,2}|источник\w{0,2}|"
    r"итог\w{0,2}|возраст\w{0,2}|ссылк[аиу]|год[уа]?|исход\w{0,2})$"
)
_WHY_SO = re.compile(r"^(?:почему|зачем|отчего|why|how come)\b.*\b(?:так|такой|такая|такое|такие|so|such)\b")
_MORE = re.compile(
    r"^(?:(?:а|и)\s+)?(?:(?:по)?подробнее|расскажи\s+(?:еще|больше)|(?:tell me )?more|more details?)\W*$"
)
_OF = re.compile(r"^(?:о|об|обо|про|насч[её]т|about)\s+", re.I)
_ITEM = re.compile(r"\b(?P<on>для|for|без|without)\s+(?:[^\W\d]+\s*){1,2}")


def follows(text: str, now: datetime) -> bool:
    """Whether a question can only be understood after another."""
    plain = folded(text).strip(_END)
    if not plain or len(text) > _LONGEST:
        return False
    rest = without_lead(text)
    own, led = content(rest), rest != text
    pronoun = pronoun_in(rest)
    if pronoun is not None:
        return True
    if led:
        return (
            not (ASKS.match(folded(rest)) and (named(rest) or len(own) >= _MOST_TERMS)) and len(own) <= _MOST_TERMS + 2
        )
    return _brief(text, plain, own, now)


def _brief(text: str, plain: str, own: Sequence[str], now: datetime) -> bool:
    """Whether a question without "and" is too short to stand alone."""
    if _MORE.match(plain):
        return True
    if not own:
        return bool(ASKS.match(plain)) and not about_lately(plain) and not re.search(r"\b(?:нового|new)\b", plain)
    if named(text):
        return (
            "?" in text and bool(re.fullmatch(rf"{PREPOSITION}\s+\S+(?:\s+\S+)?", plain)) and not _when(plain, now)[1]
        )
    if len(own) <= 1 and ASKS.match(plain) and _PARTS.search(plain):
        return True
    if len(own) <= _MOST_TERMS - 1 and _WHY_SO.match(plain):
        return True
    when, left = _when(plain, now)
    return "?" in text and bool(when) and not left


def stand_alone(text: str, turns: Sequence[Turn], now: datetime) -> str:
    """The question as it stands alone after these earlier ones, oldest first; itself where it is no follow-up."""
    if not turns or not follows(text, now):
        return text
    last = turns[-1]
    rest = without_lead(text).strip(_END)
    pronoun = pronoun_in(rest)
    if pronoun is not None:
        found = _replaced(rest, pronoun, last, now if not pronoun.whole else None, led=rest != text.strip(_END))
    elif _MORE.match(folded(rest)):
        found = f"{rest}: {subject_of(last.question, now)}"
    else:
        found = _carried(rest, last, now)
    return f"{found[:_LONGEST].strip(_END)}?"


def _replaced(rest: str, pronoun: Pronoun, last: Turn, now: datetime | None, *, led: bool) -> str:
    """The follow-up with what its pronoun stands for."""
    subject, names = subject_of(last.question, now), list(last.entities)
    if pronoun.whole:
        return f"{rest[: pronoun.start].rstrip()}{rest[pronoun.end :]}, {subject}"
    fresh = [name for name in names if folded(name) not in folded(last.question)]
    stands_for = subject
    if pronoun.many and len(names) > 1:
        stands_for = ", ".join(names)
    elif fresh and (pronoun.person or pronoun.place) and _asks_name(last.question):
        stands_for = fresh[0]
    elif pronoun.person and not names and (told := named(last.question)):
        stands_for = told[-1].text
    elif pronoun.person and names and not _asks_name(last.question):
        stands_for = next((name for name in names if name not in fresh), subject)
    found = f"{rest[: pronoun.start]}{stands_for}{rest[pronoun.end :]}"
    return f"{found}, {subject}" if led and stands_for != subject else found


def _asks_name(question: str) -> bool:
    return bool(re.search(r"\b(?:who|whom|where|which|what|кто|кого|кем|кому|где|куда|как\w{2,3})\b", folded(question)))


def _carried(rest: str, last: Turn, now: datetime) -> str:
    """The earlier question with what the follow-up says otherwise; or the follow-up with the earlier subject."""
    question, left = last.question.strip(_END), rest
    if ASKS.match(folded(rest)):
        return f"{rest}, {subject_of(question, now)}"
    when, other = _when(rest, now)
    if when and not content(other):
        return _retimed(question, when, now)
    if when:
        question, left = _retimed(question, when, now), other
    if turned := _turned(question, left):
        return turned
    if renamed := _renamed(question, left):
        return renamed
    if language_of(left) != language_of(question) and not named(f", {left}"):
        return rest  # joined, they would be a question in no language; names are the same in both
    return _told_of(last.question.strip(_END), rest, now) or _for_others(question, left) or f"{question}, {left}"


def _when(text: str, now: datetime) -> tuple[str, str]:
    """The words of time in a text, and what is left without them."""
    found = period(text, now)
    if found is None:
        return "", text
    at = folded(text).find(found.words)
    end = at + len(found.words)
    return (text[at:end], f"{text[:at]} {text[end:]}".strip(_END)) if at >= 0 else ("", text)


def _retimed(question: str, when: str, now: datetime) -> str:
    """The question with another time; its preposition stays where the new one has none."""
    old, _ = _when(question, now)
    if not old:
        return f"{question} {when}"
    before, first = re.match(rf"{PREPOSITION}\s+", folded(old)), re.match(PREPOSITION, folded(when))
    alike = before and not first and not re.match(r"(?:last|this|next|yesterday|today|вчера|сегодня)\b", folded(when))
    return question.replace(old, f"{old[: before.end()]}{when}" if before and alike else when, 1)


def _turned(question: str, rest: str) -> str | None:
    """First and last exchanged: "впервые" becomes "в последний раз"."""
    for pattern, said in OCCURRENCE:
        if pattern.fullmatch(folded(rest)):
            for other, _ in OCCURRENCE:
                if other is not pattern and (found := other.search(folded(question))):
                    return f"{question[: found.start()]}{said}{question[found.end() :]}"
    return None


def _renamed(question: str, rest: str) -> str | None:
    """Another name in the place of one, preferably of one that has the same preposition."""
    preposition = re.match(rf"({PREPOSITION})\s+", folded(rest))
    name = rest[preposition.end() :] if preposition else rest
    if [found.text for found in named(f", {name}")] != [name]:
        return None
    old = [found for found in named(question) if found.text != name]
    on = preposition[1] if preposition else None
    same = [found for found in old if _on(question, found.start) == on]
    chosen = same[0] if same else old[-1] if old and on is None else None
    return f"{question[: chosen.start]}{name}{question[chosen.end :]}" if chosen else None


def _told_of(question: str, rest: str, now: datetime) -> str | None:
    """After "tell me about": another thing in the place of what was asked about, at the time it names or the same."""
    thing = without_asking(question)
    if thing == question:
        return None
    bare = _OF.sub("", rest, count=1)
    # A Russian word without its preposition is in another case than the place asks for.
    asked = f"{question.removesuffix(thing)}{bare}" if bare != rest or language_of(rest) == "en" else rest
    same = "" if _when(rest, now)[0] else _when(question, now)[0]
    return f"{asked} {same}".rstrip()


def _on(question: str, at: int) -> str | None:
    found = re.search(rf"(?<!\w)({PREPOSITION})\s+$", folded(question[:at]))
    return found[1] if found else None


def _for_others(question: str, rest: str) -> str | None:
    """ "for students" in the place of "for children", or behind the question."""
    wanted = re.match(rf"({PREPOSITION})\s", folded(rest))
    if wanted is None:
        return None
    for found in _ITEM.finditer(folded(question)):
        if found["on"] == wanted[1]:
            return f"{question[: found.start()]}{rest} {question[found.end() :]}".strip()
    return f"{question} {rest}"
