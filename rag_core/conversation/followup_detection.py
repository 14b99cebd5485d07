"""Follow-up detection: whether a question can only be understood with the one before it, by rules.

What shows it are a leading "and" or "what about", a pronoun without an antecedent in the question itself, or that the
question is elliptical. followup_rewriting.py makes such a question a standalone one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.conversation.followup_slot_filling import find_russian_noun
from rag_core.dates.parse import parse_coming_period, parse_period
from rag_core.planning.intents import asks_about_recent_events, counts_all_posts
from rag_core.text.channel_questions import asks_of_this_channel
from rag_core.text.names import find_names
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import is_pasted
from rag_core.text.tokens import STOP_WORDS, fold_case, tokenize

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
PREPOSITION = r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|without|of|from|to|with|by|near)"

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
    r"они\s+(?:\w+\s+)?(?:писали|пишут|написали|сообщали|сообщают|сообщили|говорили|говорят|публиковали|упоминали)|это\s+правда|правда\s+ли\s+это(?=\s+что)|что\s+это\s+за|(?:как|что)\s+там)\b"
)
# "which country has a flag on its ...": the pronoun refers to a word of the question itself
_WHICH_KIND_PATTERN = re.compile(r"\b(?:как\w{2,3}|which|what)\s+(\w+)")
_STANDALONE_TERMS = 3  # content words from which a question with "it" or "they" counts as standalone
_ANYBODY_PATTERN = re.compile(r"\W*(?:did|do|have|are|were) they\b")
_ANYBODY_TERMS = 2  # those of "did they fix the gate", where "they" is whoever does it
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
        enough = _ANYBODY_TERMS if _ANYBODY_PATTERN.match(low) else _STANDALONE_TERMS
        if impersonal and (find_question_names(text) or len(extract_content_words(text)) >= enough):
            continue
        whole = bool(match["that"]) or match[0] in {"это", "этого", "этом"}
        return Pronoun(*match.span(), bool(match["person"]), bool(match["many"]), bool(match["place"]), whole)
    return None


RUSSIAN_GENDERS = {"он": "masc", "его": "masc", "него": "masc", "ему": "masc", "нему": "masc", "нем": "masc",
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
            before, RUSSIAN_GENDERS.get(pronoun[0], ""), number
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
EDGE_CHARACTERS = " \t\n?!.…,;:"
MAX_FOLLOWUP_LENGTH = 600  # characters: a longer text is no follow-up, and rewrites are cut to this length
_ATTRIBUTE_PATTERN = re.compile(
    r"\b(?:score|result|price|reason|date|time|hour|day|place|phone|number|address|winner|author|source|deadline|age|link|outcome|cost|"
    r"счет\w{0,2}|результат\w{0,2}|цен[аыу]|причин[аыу]|дат[аыу]|адрес\w{0,2}|победител\w|автор\w{0,2}|источник\w{0,2}|"
    r"entrance|tickets?|вход|билет\w{0,2}|час[ау]?|дня|день|числ\w|телефон\w?|номер\w?|мест[ео]|итог\w{0,2}|возраст\w{0,2}|ссылк[аиу]|год[уа]?|исход\w{0,2})$"
)
_WHY_SO_PATTERN = re.compile(r"^(?:почему|зачем|отчего|why|how come)\b.*\b(?:так|такой|такая|такое|такие|so|such)\b")
TELL_MORE_PATTERN = re.compile(
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


def is_followup(text: str, now: datetime) -> bool:
    """Whether a question can only be understood with the turn before it."""
    plain = fold_case(text).strip(EDGE_CHARACTERS)
    if not plain or len(text) > MAX_FOLLOWUP_LENGTH:
        return False
    rest = strip_lead_in(text)
    own, folded = extract_content_words(rest), fold_case(rest)
    if asks_of_this_channel(folded):
        return False
    if find_pronoun(rest) is not None:
        return True
    if _PRO_FORM_PATTERN.search(folded.strip(EDGE_CHARACTERS)) and len(own) <= _MAX_FOLLOWUP_TERMS:
        return True
    if rest == text:
        return _is_elliptical(text, plain, own, now)
    if _STANDALONE_WHO_PATTERN.match(folded.strip(EDGE_CHARACTERS)) or is_pasted(rest):
        return False
    if QUESTION_WORD_PATTERN.match(folded) and (find_question_names(rest) or len(own) >= _MAX_FOLLOWUP_TERMS):
        return False
    return len(own) <= _MAX_FOLLOWUP_TERMS + 2


def _is_elliptical(text: str, plain: str, own: Sequence[str], now: datetime) -> bool:
    if TELL_MORE_PATTERN.match(plain):
        return True
    if not own:
        of_news = asks_about_recent_events(plain) or re.search(r"\b(?:нового|new)\b", plain)
        return bool(QUESTION_WORD_PATTERN.match(plain)) and not (of_news or counts_all_posts(plain))
    if find_question_names(text):
        short = "?" in text and re.fullmatch(rf"{PREPOSITION}\s+\S+(?:\s+\S+)?", plain)
        return bool(short) and not split_time(plain, now)[1]
    if len(own) <= 1 and QUESTION_WORD_PATTERN.match(plain) and _ATTRIBUTE_PATTERN.search(plain):
        return True
    if len(own) <= _MAX_FOLLOWUP_TERMS - 1 and _WHY_SO_PATTERN.match(plain):
        return True
    when, left = split_time(plain, now)
    return "?" in text and bool(when) and not left


def split_time(text: str, now: datetime) -> tuple[str, str]:
    """Split a text into its words of time, "" where there are none, and the others."""
    period = parse_period(text, now) or parse_coming_period(text, now)
    if period is None:
        return "", text
    at = fold_case(text).find(period.words)
    end = at + len(period.words)
    return (text[at:end], f"{text[:at]} {text[end:]}".strip(EDGE_CHARACTERS)) if at >= 0 else ("", text)
