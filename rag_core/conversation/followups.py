"""Follow-up questions by rules: rewrite a question as a standalone one, with the earlier questions of a conversation.

Times, names and beneficiaries ("for children") replace those of the earlier question, pronouns are replaced by their
antecedents, and any other brief question gets the subject of the earlier one. A question that is no follow-up stays
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.conversation.followup_rewriting import (
    add_past_aside,
    drop_beneficiary,
    extract_noun_phrase,
    find_antecedent,
    find_russian_noun,
    is_russian_name,
    names_attribute,
    replace_slot,
    replace_thing,
    strip_aside,
)
from rag_core.dates.parse import parse_coming_period, parse_period
from rag_core.planning.intents import asks_about_recent_events, counts_all_posts, strip_asking_phrase
from rag_core.storage.user_data import ConversationTurn
from rag_core.text.channel_questions import asks_of_this_channel, detect_contact_kind
from rag_core.text.names import find_names
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import is_pasted
from rag_core.text.status_questions import names_status_topic, strip_status_words
from rag_core.text.tokens import STOP_WORDS, detect_language, fold_case, tokenize

_LEAD_IN_PATTERN = re.compile(
    r"^\W*(?:(?:ну\s+)?(?:а|и|но)(?:\s+как\s+насчет|\s+что\s+насчет|\s+если)?|как\s+насчет|что\s+насчет|"
    r"(?:and|but|or|so)(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about)\s+(?=\w|[«\"“@])"
)
QUESTION_WORD_PATTERN = re.compile(
    r"^(?:(?:с|в|во|по|за|до|на|от|из|у|для|о|об|in|at|by|for|with|from|on|to|until)\s+)?"
    r"(?:кто|кого|кому|кем|ком|что|чего|чему|чем|где|куда|откуда|когда|почему|зачем|отчего|почем|скок\w?|сколько|скольк\w+|как|"
    r"как\w{2,4}|чей|чья|чье|чьи|правда ли|верно ли|есть ли|можно ли|who|whom|whose|what|which|when|where|why|how|"
    r"is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!\s+about\b)"
)
_PREPOSITION = r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|without|of|from|to|with|by|near)"
_OCCURRENCE_PATTERNS = (
    (re.compile(r"впервые|в первый раз"), "впервые"),
    (re.compile(r"(?:в )?последний раз"), "в последний раз"),
    (re.compile(r"(?:(?:for )?the )?\bfirst(?: time)?\b"), "first"),
    (re.compile(r"(?:(?:for )?the )?\blast(?: time)?\b(?! (?:week|month|year|night))"), "last"),
)

_PERSON_PRONOUNS = r"он|она|его|ее|ему|него|нее|ней|нему|нем|he|she|him|her|his"
_PLURAL_PRONOUNS = r"они|их|им|ими|них|ним|ними|they|them|their"
_THING_PRONOUNS = r"оно|это|этого|этому|этим|этом|it|its"
_PLACE_PRONOUNS = r"там|туда|оттуда|there"
_PRONOUN_PATTERN = re.compile(
    rf"\b(?:(?P<person>{_PERSON_PRONOUNS})|(?P<many>{_PLURAL_PRONOUNS})|(?P<thing>{_THING_PRONOUNS})|(?P<place>{_PLACE_PRONOUNS})|"
    r"(?P<that>(?:that|this)(?=\W*$)))\b"
)
# Expletive "it" and "there", which refer to nothing: "is it true that", "how long does it take", "is there a ferry"
_EXPLETIVE_PATTERN = re.compile(
    r"\b(?:(?:is|was|will|does|did|would|can)\s+it\s+(?:be\s+)?(?:true|possible|necessary|right|correct|legal|worth|safe|take|"
    r"took|cost\s+to|rain|snow)|it\s+(?:is|was)\s+(?:true|possible|necessary)|(?:is|are|was|were|be|been|will|has|have)\s+there|"
    r"there\s+(?:is|are|was|were|be|been|will|has|have)|they\s+(?:\w+\s+)?(?:write|wrote|say|said|post|posted|report|reported|publish|"
    r"published|mention|mentioned|talk|talked)|"
    r"они\s+(?:\w+\s+)?(?:писали|пишут|написали|сообщали|сообщают|сообщили|говорили|говорят|публиковали|упоминали)|это\s+правда|правда\s+ли\s+это(?=\s+что)|что\s+это\s+за|как\s+там)\b"
)
# "which country has a flag on its ...": the pronoun refers to a word of the question itself
_WHICH_KIND_PATTERN = re.compile(r"\b(?:как\w{2,3}|which|what)\s+(\w+)")
_STANDALONE_TERMS = 3  # content words from which a question with "it" or "they" counts as standalone
_ASKING_WORD_PATTERN = re.compile(
    r"^(?:правда|верно|действительно|известно|известен|известна|расскажи\w*|скажи\w*|tell|known|пис\w+|пишут|написали|пост\w*|"
    r"posts?|writ\w+|wrote|said|says?|сказал\w*|говор\w+|упомина\w+|упомян\w+|mention\w*|раз|times?|впервые|first|last|последний|"
    r"как\w{2,3}|please|пожалуйста|проходит|находится|нового|new|happened|скок\w?|почем|щас)$"
)
_TRAILING_VERB_PATTERN = re.compile(r"(?<!\s)(?:\s++(?:было|была|были|был|there|were|was|is|are))+$", re.I)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class NameSpan:
    """Name and its position in a text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pronoun:
    """Pronoun that refers to an earlier turn. `whole`: to the whole of it ("who said that")."""

    start: int
    end: int
    person: bool = False
    many: bool = False
    place: bool = False
    whole: bool = False


def strip_lead_in(text: str) -> str:
    """Strip a leading "and" or "what about" from a question."""
    lead_in = _LEAD_IN_PATTERN.match(fold_case(text))
    return text[lead_in.end() :] if lead_in else text


def extract_content_words(text: str) -> list[str]:
    """Extract the content words of a text: no function words and no asking words."""
    return [word for word in _WORD.findall(fold_case(text)) if _is_content_word(word)]


def _is_content_word(word: str) -> bool:
    return bool(tokenize(word)) and not is_asking_word(word) and not _ASKING_WORD_PATTERN.match(word)


def find_question_names(text: str) -> list[NameSpan]:
    """Find the names in a question, without a word that is capitalised only because it comes first."""
    spans = []
    for match in find_names(text):
        start, name = match.start(), match[0]
        first, _, more = name.partition(" ")
        is_first_word = not text[:start].strip(' «"“') and not (
            re.search(r"[A-Z]", first) and _is_content_word(fold_case(first))
        )
        if is_first_word or fold_case(first) in STOP_WORDS:
            start, name = start + len(first) + bool(more), more
        if name and fold_case(name) not in STOP_WORDS:
            spans.append(NameSpan(name, start, start + len(name)))
    return spans


def find_pronoun(text: str) -> Pronoun | None:
    """Find the first pronoun without an antecedent in the question itself; None where there is none."""
    low = fold_case(text)
    for match in _PRONOUN_PATTERN.finditer(low):
        before = low[: match.start()]
        if any(e.start() <= match.start() < e.end() for e in _EXPLETIVE_PATTERN.finditer(low)):
            continue
        if any(tokenize(kind[1]) for kind in _WHICH_KIND_PATTERN.finditer(before)):
            continue
        # "how much is the entrance there": the words before "there" do not name its place
        if (not match["place"] and _has_antecedent(before, match)) or find_question_names(text[: match.start()]):
            continue
        impersonal = not match["person"]
        if impersonal and (find_question_names(text) or len(extract_content_words(text)) >= _STANDALONE_TERMS):
            continue
        whole = bool(match["that"]) or match[0] in {"это", "этого", "этом"}
        return Pronoun(*match.span(), bool(match["person"]), bool(match["many"]), bool(match["place"]), whole)
    return None


_RUSSIAN_GENDERS = {"он": "masc", "его": "masc", "него": "masc", "ему": "masc", "нему": "masc", "нем": "masc",
                    "она": "femn", "ее": "femn", "ей": "femn", "нее": "femn", "ней": "femn"}  # fmt: skip
_ENGLISH_NOUN_PATTERN = re.compile(r"\b(?:the|an?|my|our|your|this|these|those|some|\w+'s)\s+\w|\w{3}s\b")
_WHO_DID_PATTERN = re.compile(r"(?:who|what) \w+ (?:to \w+ )?$")


def _has_antecedent(before: str, pronoun: re.Match[str]) -> bool:
    """Whether the words before a pronoun can be its antecedent: in Russian a noun, in English any content word."""
    if not extract_content_words(before):
        return False
    if re.search("[а-я]", pronoun[0]):
        number = "plur" if pronoun["many"] else "sing"
        return not (pronoun["person"] or pronoun["many"]) or find_russian_noun(
            before, _RUSSIAN_GENDERS.get(pronoun[0], ""), number
        )
    # "how old is he", "who wanted to grind it": adjectives and verbs
    if pronoun["person"] or pronoun["many"]:
        return bool(_ENGLISH_NOUN_PATTERN.search(before))
    return not _WHO_DID_PATTERN.match(before)


def extract_subject(question: str, now: datetime | None) -> str:
    """Extract the subject of a question: the text without leading asking words and, as seen from `now`, its time."""
    text = question.strip(" ?!.…")
    when = parse_period(text, now) if now else None
    if when is not None and (at := fold_case(text).find(when.words)) >= 0:
        text = f"{text[:at].rstrip()} {text[at + len(when.words) :].lstrip()}".strip()
    for word in _WORD.finditer(text):
        if _is_content_word(fold_case(word[0])):
            before = text[: word.start()]
            subject = text[word.start() - (before[-1:] in '«"“„@' and bool(before)) :]
            return _TRAILING_VERB_PATTERN.sub("", subject).strip(" ,")
    return text


# Content words from which a question (as one with a name) is standalone although it begins with "and".
_MAX_FOLLOWUP_TERMS = 3
_EDGE_CHARACTERS = " \t\n?!.…,;:"
_MAX_FOLLOWUP_LENGTH = 600  # characters: a longer text is no follow-up, and rewrites are cut to this length
_ATTRIBUTE_PATTERN = re.compile(
    r"\b(?:score|result|price|reason|date|time|hour|day|place|phone|number|address|winner|author|source|deadline|age|link|outcome|cost|"
    r"счет\w{0,2}|результат\w{0,2}|цен[аыу]|причин[аыу]|дат[аыу]|адрес\w{0,2}|победител\w|автор\w{0,2}|источник\w{0,2}|"
    r"entrance|tickets?|вход|билет\w{0,2}|час[ау]?|дня|день|числ\w|телефон\w?|номер\w?|мест[ео]|итог\w{0,2}|возраст\w{0,2}|ссылк[аиу]|год[уа]?|исход\w{0,2})$"
)
_WHY_SO_PATTERN = re.compile(r"^(?:почему|зачем|отчего|why|how come)\b.*\b(?:так|такой|такая|такое|такие|so|such)\b")
_TELL_MORE_PATTERN = re.compile(
    r"^(?:(?:а|и)\s+)?(?:(?:по)?подробнее|расскажи\s+(?:еще|больше)|(?:tell me )?more|more details?)\W*$"
)
# "the last one", "places left": what they are of was said before
_PRO_FORM_PATTERN = re.compile(
    r"\b(?:the|this|that|which|first|last|next|other|another|new|old)(?: \w+)? ones?\b|"
    r"^(?:(?:are|is) there )?(?:any |still )*(?:places?|seats?|tickets?|spots?|rooms?|spaces?) "
    r"(?:left|available|free|remaining)$|"
    r"^(?:есть (?:ли )?(?:еще |свободные )*(?:места|билеты)|(?:места|билеты) (?:еще )?(?:есть|остались|свободны\w?)|"
    r"(?:остались|есть) (?:ли )?(?:еще )?(?:места|билеты))$"
)
_STANDALONE_WHO_PATTERN = re.compile(r"^who(?:s| is| are|'s|’s) (?:the|your|our) \w+$")
_ANYBODY_PATTERN = re.compile(r"^\W*(?:did|do|have|are|were) they\b", re.I)
_ABOUT_PATTERN = re.compile(r"^(?:о|об|обо|про|насч[её]т|about)\s+", re.I)
_BENEFICIARY_PATTERN = re.compile(r"\b(?P<on>для|for|без|without)\s+(?:[^\W\d]+\s*){1,2}")


def is_followup(text: str, now: datetime) -> bool:
    """Whether a question can only be understood with the turn before it."""
    plain = fold_case(text).strip(_EDGE_CHARACTERS)
    if not plain or len(text) > _MAX_FOLLOWUP_LENGTH:
        return False
    rest = strip_lead_in(text)
    own, folded = extract_content_words(rest), fold_case(rest)
    if detect_contact_kind(folded) or asks_of_this_channel(folded) or _asks_for_status_of_named(rest):
        return False
    if find_pronoun(rest) is not None:
        return True
    if _PRO_FORM_PATTERN.search(folded.strip(_EDGE_CHARACTERS)) and len(own) <= _MAX_FOLLOWUP_TERMS:
        return True
    if rest == text:
        return _is_elliptical(text, plain, own, now)
    if _STANDALONE_WHO_PATTERN.match(folded.strip(_EDGE_CHARACTERS)) or is_pasted(rest):
        return False
    if QUESTION_WORD_PATTERN.match(folded) and (find_question_names(rest) or len(own) >= _MAX_FOLLOWUP_TERMS):
        return False
    return len(own) <= _MAX_FOLLOWUP_TERMS + 2


def _asks_for_status_of_named(rest: str) -> bool:
    """Whether a question asks how a thing stands that it names; "there" and "they" may be only words of asking."""
    return names_status_topic(rest) and find_pronoun(_ANYBODY_PATTERN.sub("", strip_status_words(rest))) is None


def _is_elliptical(text: str, plain: str, own: Sequence[str], now: datetime) -> bool:
    if _TELL_MORE_PATTERN.match(plain):
        return True
    if not own:
        of_news = asks_about_recent_events(plain) or re.search(r"\b(?:нового|new)\b", plain)
        return bool(QUESTION_WORD_PATTERN.match(plain)) and not (of_news or counts_all_posts(plain))
    if find_question_names(text):
        short = "?" in text and re.fullmatch(rf"{_PREPOSITION}\s+\S+(?:\s+\S+)?", plain)
        return bool(short) and not _split_time(plain, now)[1]
    if len(own) <= 1 and QUESTION_WORD_PATTERN.match(plain) and _ATTRIBUTE_PATTERN.search(plain):
        return True
    if len(own) <= _MAX_FOLLOWUP_TERMS - 1 and _WHY_SO_PATTERN.match(plain):
        return True
    when, left = _split_time(plain, now)
    return "?" in text and bool(when) and not left


def rewrite_by_rules(text: str, turns: Sequence[ConversationTurn], now: datetime) -> str:
    """Rewrite a follow-up as a standalone question by rules (turns oldest first); other questions stay unchanged."""
    if not turns or not is_followup(text, now):
        return text
    last = turns[-1]
    rest = strip_lead_in(text).strip(_EDGE_CHARACTERS)
    pronoun = find_pronoun(rest)
    if past := add_past_aside(last.question.strip(_EDGE_CHARACTERS), rest):
        rewritten = past
    elif pronoun is not None:
        rewritten = _replace_pronoun(rest, pronoun, last, now, led=rest != text.strip(_EDGE_CHARACTERS))
    elif _TELL_MORE_PATTERN.match(fold_case(rest)):
        rewritten = f"{rest}: {extract_subject(last.question, now)}"
    else:
        rewritten = _carry_over_subject(rest, last, now)
    rewritten = rewritten[:_MAX_FOLLOWUP_LENGTH].strip(_EDGE_CHARACTERS)
    return text if rewritten == text.strip(_EDGE_CHARACTERS) else f"{rewritten}?"


_WHO_PATTERN = re.compile(r"(?:кто|who)\b")
_ASKS_FOR_NAME_PATTERN = re.compile(r"\b(?:who|whom|where|which|what|кто|кого|кем|кому|где|куда|как\w{2,3})\b")
_THING_PATTERN = re.compile(r"\b(?:the|an?)\s.+")
_DEFINITION_PATTERN = re.compile(
    r"^(?:кто так(?:ой|ая|ие)|что такое|(?:расскажи\w*|что известно|что пишут|что писали)(?: мне)? (?:о|об|про)|"
    r"who(?: is|'s|’s|s) (?!the |your |our |in )|what (?:is|are) (?!the )|tell me about)\s*(?P<name>[^?]+)"
)


def _replace_pronoun(rest: str, pronoun: Pronoun, last: ConversationTurn, now: datetime, *, led: bool) -> str:
    """Replace the pronoun by its antecedent: a name of the last answer or question, or the subject."""
    asked = strip_aside(last.question.strip(_EDGE_CHARACTERS))
    if pronoun.whole:
        aside = extract_subject(asked, None)
        return _append_aside(f"{rest[: pronoun.start].rstrip()}{rest[pronoun.end :]}", aside)
    subject = extract_subject(asked, now)
    word, after = fold_case(rest[pronoun.start : pronoun.end]), rest[pronoun.end :]
    antecedent = _choose_antecedent(word, pronoun, asked, subject, last.entities)
    if antecedent is None:
        return _append_aside(rest, subject)
    if antecedent == subject and detect_language(subject) != detect_language(rest):
        return rest  # a question that mixes two languages finds nothing
    if word in {"his", "her", "its", "their"} and re.match(r"\s+\w", after):
        antecedent = f"{antecedent}'s"
    replaced = f"{rest[: pronoun.start]}{antecedent}{after}"
    return _append_aside(replaced, subject) if led and antecedent not in subject else replaced


_BRACKETS = str.maketrans("", "", "()")


def _append_aside(text: str, aside: str) -> str:
    """Append words in brackets: outside of its sentence a subject has another case, which only an aside may have."""
    return f"{text} ({aside.translate(_BRACKETS).strip()})"


def _choose_antecedent(word: str, pronoun: Pronoun, asked: str, subject: str, names: Sequence[str]) -> str | None:
    """Choose what a pronoun stands for; None for the unnamed person of a question such as "who brings the bread"."""
    gender = _RUSSIAN_GENDERS.get(word)
    if gender:
        names = [name for name in names if is_russian_name(name, gender)]
    low = fold_case(asked)
    fresh = [name for name in names if fold_case(name) not in low]
    definition = _DEFINITION_PATTERN.match(low)
    if definition and not pronoun.many:
        return asked[definition.start("name") : definition.end("name")].strip()
    if pronoun.many and len(names) > 1:
        return ", ".join(names)
    if fresh and (pronoun.person or pronoun.place) and _ASKS_FOR_NAME_PATTERN.search(low):
        return fresh[0]
    known = [name for name in names if name not in fresh]
    return _find_antecedent_in_question(word, pronoun, asked, subject, known)


def _find_antecedent_in_question(
    word: str, pronoun: Pronoun, asked: str, subject: str, known: Sequence[str]
) -> str | None:
    """Find the antecedent among the words of the earlier question; `known`: names that the answer repeats."""
    asked_names, gender = find_question_names(asked), _RUSSIAN_GENDERS.get(word)
    if pronoun.person and not asked_names and _WHO_PATTERN.match(fold_case(asked)):
        return None
    russian_plural = pronoun.many and detect_language(word) == "ru"
    if (gender or russian_plural) and (noun := find_antecedent(asked, gender or "", "sing" if gender else "plur")):
        return noun
    if pronoun.person and known:
        return known[0]
    if pronoun.person and asked_names:
        return asked_names[-1].text
    if word in {"it", "them"} and (thing := _THING_PATTERN.search(subject)):
        return thing[0]
    return subject


# "а в воскресенье во сколько откроется?"
_INNER_QUESTION_WORD = re.compile(r"\s(?:кто|где|куда|когда|почему|сколько|скольки|скок\w?|почем)\b")


def _carry_over_subject(rest: str, last: ConversationTurn, now: datetime) -> str:
    """Change in the earlier question what the follow-up says differently; else add the earlier subject to it."""
    question = last.question.strip(_EDGE_CHARACTERS)
    if replaced := replace_slot(question, rest):
        return replaced
    question, left = strip_aside(question), rest
    when, other = _split_time(rest, now)
    if QUESTION_WORD_PATTERN.match(fold_case(rest)) or _INNER_QUESTION_WORD.search(fold_case(rest)):
        subject = extract_noun_phrase(extract_subject(question, now if when else None))
        return rest if subject in rest else _append_aside(rest, subject)
    if when and not extract_content_words(other):
        return _replace_time(question, when, now)
    if when:
        question, left = _replace_time(question, when, now), other
    if turned := _swap_first_and_last(question, left):
        return turned
    if renamed := _replace_name(question, left):
        return renamed
    if detect_language(left) != detect_language(question) and not find_question_names(f", {left}"):
        return rest  # a joined question would mix two languages; names are the same in both
    if names_attribute(left):
        return _append_aside(left, extract_subject(question, None))
    return (
        _replace_topic(question, rest, now)
        or replace_thing(question, left)
        or _replace_beneficiary(question, left)
        or _append_aside(drop_beneficiary(question), left)
    )


def _split_time(text: str, now: datetime) -> tuple[str, str]:
    period = parse_period(text, now) or parse_coming_period(text, now)
    if period is None:
        return "", text
    at = fold_case(text).find(period.words)
    end = at + len(period.words)
    return (text[at:end], f"{text[:at]} {text[end:]}".strip(_EDGE_CHARACTERS)) if at >= 0 else ("", text)


def _replace_time(question: str, when: str, now: datetime) -> str:
    """Replace the time in a question, or append it; the old preposition stays where the new time has none."""
    old, _ = _split_time(question, now)
    if not old:
        return f"{question} {when}"
    before = re.match(rf"{_PREPOSITION}\s+", fold_case(old))
    alone = re.match(rf"{_PREPOSITION}|(?:last|this|next|yesterday|today|вчера|сегодня)\b", fold_case(when))
    return question.replace(old, f"{old[: before.end()]}{when}" if before and not alone else when, 1)


def _swap_first_and_last(question: str, rest: str) -> str | None:
    for pattern, words in _OCCURRENCE_PATTERNS:
        if pattern.fullmatch(fold_case(rest)):
            for other, _ in _OCCURRENCE_PATTERNS:
                if other is not pattern and (found := other.search(fold_case(question))):
                    return f"{question[: found.start()]}{words}{question[found.end() :]}"
    return None


def _replace_name(question: str, rest: str) -> str | None:
    preposition = re.match(rf"({_PREPOSITION})\s+", fold_case(rest))
    name = rest[preposition.end() :] if preposition else rest
    if [found.text for found in find_question_names(f", {name}")] != [name]:
        return None
    old = [found for found in find_question_names(question) if found.text != name]
    on = preposition[1] if preposition else None
    same = [found for found in old if _find_preposition_before(question, found.start) == on]
    chosen = same[0] if same else old[-1] if old and on is None else None
    return f"{question[: chosen.start]}{name}{question[chosen.end :]}" if chosen else None


def _replace_topic(question: str, rest: str, now: datetime) -> str | None:
    """Replace the topic after "tell me about"; the time is the new one, or else the earlier one."""
    topic = strip_asking_phrase(question)
    if topic == question:
        return None
    bare = _ABOUT_PATTERN.sub("", rest, count=1)
    # A Russian word without its preposition is in another grammatical case than this position needs.
    asked = f"{question.removesuffix(topic)}{bare}" if bare != rest or detect_language(rest) == "en" else rest
    earlier_time = "" if _split_time(rest, now)[0] else _split_time(question, now)[0]
    return f"{asked} {earlier_time}".rstrip()


def _find_preposition_before(question: str, at: int) -> str | None:
    found = re.search(rf"(?<!\w)({_PREPOSITION})\s+$", fold_case(question[:at]))
    return found[1] if found else None


def _replace_beneficiary(question: str, rest: str) -> str | None:
    wanted = re.match(rf"({_PREPOSITION})\s", fold_case(rest))
    if wanted is None:
        return None
    for found in _BENEFICIARY_PATTERN.finditer(fold_case(question)):
        if found["on"] == wanted[1]:
            return f"{question[: found.start()]}{rest} {question[found.end() :]}".strip()
    return f"{question} {rest}"
