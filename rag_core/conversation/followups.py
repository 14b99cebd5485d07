"""Follow-up questions: which ones can only be understood with the question before, and their standalone form.

A leading "and", a pronoun without an antecedent, or an ellipsis shows a follow-up. By rules times, names
and things replace those of the earlier question, pronouns their antecedents, and any other follow-up stands in brackets
beside the earlier question. A model rewrites when it is idle; it may only repeat the conversation: a rewrite with a new
name or number, or with more than one new word, is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.dates import parse_coming_period, parse_period
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.planning.intents import asks_about_recent_events, counts_all_posts, strip_asking_phrase
from rag_core.run import Run, Stage
from rag_core.storage.readers import ConversationTurn
from rag_core.text.answer_type import extract_numbers
from rag_core.text.names import find_names
from rag_core.text.query_terms import is_asking_word
from rag_core.text.question_kinds import asks_of_this_channel
from rag_core.text.sentences import is_pasted
from rag_core.text.tokens import STOP_WORDS, WordReading, detect_language, fold_case, read_word, tokenize
from rag_core.types import Question
from rag_core.writing.prompts import (
    build_paragraph_grammar,
    clean_reply,
    escape_prompt_text,
    load_prompt,
    quote_question,
)

_MAX_WORDS = 40  # words of a question that are read by the dictionary
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_DAY = (
    r"(?:(?:в|во|по|на|к|on|in|at|over|during|for)\s+)?(?:the\s+)?(?:"
    r"понедельник\w*|вторник\w*|сред[ауеы]|средам|четверг\w*|пятниц\w+|суббот\w+|воскресень\w+|будн\w+|выходн\w+|"
    r"праздник\w*|рабочие дни|сегодня|завтра|послезавтра|вчера|утр\w{1,3}|вечер\w{0,3}|днем|ночью|летом|зимой|"
    r"весной|осенью|каникул\w*|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?|"
    r"(?:bank |public )?holidays?|today|tonight|tomorrow|yesterday|mornings?|evenings?|afternoons?|nights?|"
    r"summer|winter|spring|autumn)"
)
_DAYS_PATTERN = re.compile(rf"{_DAY}(?:\s+{_DAY})?")
_DETERMINER_LEMMAS = frozenset("какой который этот весь такой мой ваш ваша".split())
_ATTRIBUTES = frozenset(
    "цена цены курс стоимость адрес телефон номер время часы расписание график дата место вход билет билеты скидка "
    "скидки автор причина итог price prices cost costs address phone number time hours schedule date place entrance "
    "ticket tickets discount discounts author reason result score".split()
)
_PREPOSITION_PATTERN = re.compile(
    r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|from|to|with|by|near)\s"
)
_ENGLISH_THING_PATTERN = re.compile(
    r"\b(?:how much|how many|what|when|where|who)\b[^,]*?\b(?P<det>a|an|the|some)\s+(?P<thing>\w+(?:\s+\w+)*?)"
    r"(?=\s+(?:cost|costs|for|in|on|at|by|to|from|with|open|opens|close|closes|start|starts|begin|begins|work|works|now|today)\b|\s*$)"
)
_ATTRIBUTE_OF_PATTERN = re.compile(r"\b(?:price|cost|rate|address|schedule|date|time) of (?P<thing>(?:the |an? )?\w+)")
_ENGLISH_ONE_PATTERN = re.compile(r"\bones?$")
_DETERMINER_PATTERN = re.compile(r"(?P<det>a|an|the|some)\s+")


def names_attribute(rest: str) -> bool:
    """Whether a follow-up only names an attribute of the earlier subject: "and the price?"."""
    words = [word for word in _WORD.findall(rest.lower()) if word not in {"the", "its", "their"}]
    return len(words) == 1 and words[0] in _ATTRIBUTES


def replace_thing(question: str, rest: str) -> str | None:
    """Replace the thing of a question, or its adjective, by another one; None where the words are of another kind."""
    if preposition := _PREPOSITION_PATTERN.match(fold_case(rest)):
        wanted = {r.case for _, readings in list(_read_words(rest[preposition.end() :]))[-1:] for r in readings[:2]}
        for found in reversed(list(re.finditer(rf"(?<!\w){re.escape(preposition[0])}(\w+)", fold_case(question)))):
            same_case = not wanted or wanted & {r.case for r in read_word(found[1])[:2]}
            if same_case and not _DAYS_PATTERN.fullmatch(found[0]):
                return f"{question[: found.start()]}{rest}{question[found.end() :]}"
        return None
    if _ENGLISH_ONE_PATTERN.search(fold_case(rest)):
        return None
    if detect_language(rest) == "ru":
        return _replace_adjective(question, rest) or _replace_russian_thing(question, rest)
    return _replace_english_thing(question, rest)


def _read_words(text: str) -> Iterator[tuple[re.Match[str], tuple[WordReading, ...]]]:
    for number, match in enumerate(_WORD.finditer(text)):
        if number == _MAX_WORDS:
            return
        yield match, read_word(match[0].lower()) if re.search("[а-яё]", match[0].lower()) else ()


def _is_adjective(reading: WordReading) -> bool:
    return reading.part == "ADJF" and reading.lemma not in _DETERMINER_LEMMAS


def _replace_adjective(question: str, rest: str) -> str | None:
    """Replace an adjective by another one of the same form: "ржаной" by "пшеничный", "первый" by "последний"."""
    words = list(_read_words(rest))
    if len(words) != 1:
        return None
    forms = {(r.case, r.gender, r.number) for r in words[0][1] if _is_adjective(r)}
    for match, readings in reversed(list(_read_words(question))):
        if forms & {(r.case, r.gender, r.number) for r in readings if _is_adjective(r)}:
            return f"{question[: match.start()]}{rest}{question[match.end() :]}"
    return None


def _is_subject_noun(word: re.Match[str], readings: tuple[WordReading, ...]) -> bool:
    """Whether a word is a noun in the nominative, also one that has a single form for all cases ("латте")."""
    return any(r.part == "NOUN" and (r.case == "nomn" or r.lemma == fold_case(word[0])) for r in readings[:3])


def _replace_russian_thing(question: str, rest: str) -> str | None:
    """Replace the noun in the nominative with its adjectives; of an attribute ("курс доллара") that in the genitive."""
    new, words = list(_read_words(rest)), list(_read_words(question))
    nouns = [n for n, word in enumerate(new) if _is_subject_noun(*word)]
    at = next((n for n, word in enumerate(words) if _is_subject_noun(*word)), None)
    others = {"VERB", "INFN", "PREP", "NPRO"}
    if at is None or not nouns or nouns[0] > 1 or any(r.part in others for _, read in new for r in read[:1]):
        return None
    first = last = at
    if fold_case(words[at][0][0]) in _ATTRIBUTES and at + 1 < len(words) and _is_genitive(words[at + 1][1]):
        first = last = at + 1
    while first and any(map(_is_adjective, words[first - 1][1][:1])):
        first -= 1
    while last + 1 < len(words) and any(map(_is_adjective, words[last + 1][1][:1])):
        last += 1
    return f"{question[: words[first][0].start()]}{rest}{question[words[last][0].end() :]}"


def _is_genitive(readings: tuple[WordReading, ...]) -> bool:
    return any(r.part == "NOUN" and r.case == "gent" for r in readings[:1])


def _replace_english_thing(question: str, rest: str) -> str | None:
    if len(rest.split()) > 4:
        return None
    if of := _ATTRIBUTE_OF_PATTERN.search(fold_case(question)):
        return f"{question[: of.start('thing')]}{rest}{question[of.end('thing') :]}"
    found, determiner = _ENGLISH_THING_PATTERN.search(fold_case(question)), _DETERMINER_PATTERN.match(fold_case(rest))
    if found is None or determiner is None or (determiner["det"] == "the") != (found["det"] == "the"):
        return None
    return f"{question[: found.start('det')]}{rest}{question[found.end('thing') :]}"


def find_russian_noun(text: str, gender: str, number: str) -> bool:
    """Whether a Russian text has a noun of a number and a gender, "" for any gender."""
    return any(_agrees(r, gender, number) for _, read in _read_words(text) for r in read[:1])


def _agrees(reading: WordReading, gender: str, number: str) -> bool:
    in_number = number == "plur" if reading.number == "plur" else number != "plur"
    return reading.part == "NOUN" and in_number and (not gender or number == "plur" or reading.gender == gender)


def is_russian_name(name: str, gender: str) -> bool:
    """Whether a Russian name may be that of a person or thing of a gender; always for one in another script."""
    return all(
        any((r.name or r.part == "NOUN") and (not r.gender or r.gender == gender) for r in readings)
        for match, readings in _read_words(name)
        if readings
    )


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


_OCCURRENCE_PATTERNS = (
    (re.compile(r"впервые|в первый раз"), "впервые"),
    (re.compile(r"(?:в )?последний раз"), "в последний раз"),
    (re.compile(r"(?:(?:for )?the )?\bfirst(?: time)?\b"), "first"),
    (re.compile(r"(?:(?:for )?the )?\blast(?: time)?\b(?! (?:week|month|year|night))"), "last"),
)
_ABOUT_PATTERN = re.compile(r"^(?:о|об|обо|про|насч[её]т|about)\s+", re.I)


def rewrite_by_rules(text: str, turns: Sequence[ConversationTurn], now: datetime) -> str:
    """Rewrite a follow-up as a standalone question by rules (turns oldest first); other questions stay unchanged."""
    if not turns or not is_followup(text, now):
        return text
    last = turns[-1]
    rest = strip_lead_in(text).strip(EDGE_CHARACTERS)
    pronoun = find_pronoun(rest)
    if pronoun is not None:
        rewritten = _replace_pronoun(rest, pronoun, last, now, led=rest != text.strip(EDGE_CHARACTERS))
    elif TELL_MORE_PATTERN.match(fold_case(rest)):
        rewritten = f"{rest}: {extract_subject(last.question, now)}"
    else:
        rewritten = _carry_over_subject(rest, last, now)
    rewritten = rewritten[:MAX_FOLLOWUP_LENGTH].strip(EDGE_CHARACTERS)
    return text if rewritten == text.strip(EDGE_CHARACTERS) else f"{rewritten}?"


_WHO_PATTERN = re.compile(r"(?:кто|who)\b")
_ASKS_FOR_NAME_PATTERN = re.compile(r"\b(?:who|whom|where|which|what|кто|кого|кем|кому|где|куда|как\w{2,3})\b")
_THING_PATTERN = re.compile(r"\b(?:the|an?)\s.+")
_DEFINITION_PATTERN = re.compile(
    r"^(?:кто так(?:ой|ая|ие)|что такое|(?:расскажи\w*|что известно|что пишут|что писали)(?: мне)? (?:о|об|про)|"
    r"who(?: is|'s|’s|s) (?!the |your |our |in )|what (?:is|are) (?!the )|tell me about)\s*(?P<name>[^?]+)"
)


def _replace_pronoun(rest: str, pronoun: Pronoun, last: ConversationTurn, now: datetime, *, led: bool) -> str:
    """Replace the pronoun by its antecedent: a name of the last answer or question, or the subject."""
    asked = last.question.strip(EDGE_CHARACTERS)
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
    gender = RUSSIAN_GENDERS.get(word)
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
    asked_names = find_question_names(asked)
    if pronoun.person and not asked_names and _WHO_PATTERN.match(fold_case(asked)):
        return None
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
    question = last.question.strip(EDGE_CHARACTERS)
    left = rest
    when, other = split_time(rest, now)
    if QUESTION_WORD_PATTERN.match(fold_case(rest)) or _INNER_QUESTION_WORD.search(fold_case(rest)):
        subject = extract_subject(question, now if when else None)
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
    return _replace_topic(question, rest, now) or replace_thing(question, left) or _append_aside(question, left)


def _replace_time(question: str, when: str, now: datetime) -> str:
    """Replace the time in a question, or append it; the old preposition stays where the new time has none."""
    old, _ = split_time(question, now)
    if not old:
        return f"{question} {when}"
    before = re.match(rf"{PREPOSITION}\s+", fold_case(old))
    alone = re.match(rf"{PREPOSITION}|(?:last|this|next|yesterday|today|вчера|сегодня)\b", fold_case(when))
    return question.replace(old, f"{old[: before.end()]}{when}" if before and not alone else when, 1)


def _swap_first_and_last(question: str, rest: str) -> str | None:
    for pattern, words in _OCCURRENCE_PATTERNS:
        if pattern.fullmatch(fold_case(rest)):
            for other, _ in _OCCURRENCE_PATTERNS:
                if other is not pattern and (found := other.search(fold_case(question))):
                    return f"{question[: found.start()]}{words}{question[found.end() :]}"
    return None


def _replace_name(question: str, rest: str) -> str | None:
    preposition = re.match(rf"({PREPOSITION})\s+", fold_case(rest))
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
    earlier_time = "" if split_time(rest, now)[0] else split_time(question, now)[0]
    return f"{asked} {earlier_time}".rstrip()


def _find_preposition_before(question: str, at: int) -> str | None:
    found = re.search(rf"(?<!\w)({PREPOSITION})\s+$", fold_case(question[:at]))
    return found[1] if found else None


_MAX_REWRITE_LENGTH, _MAX_REWRITE_TOKENS = 200, 96
_SHOWN_TURNS = 3  # earlier questions in the prompt
_REWRITE_REJECTED = "The model's question was not the one that was asked: the rules' is taken."


async def rewrite_followup(question: Question, turns: Sequence[ConversationTurn], rag: Engine, run: Run) -> Question:
    """Rewrite a follow-up as a standalone question, by a model where one is idle, else by rules; turns oldest first."""
    if not turns or not is_followup(question.text, question.asked_at):
        return question
    by_rules = rewrite_by_rules(question.text, turns, question.asked_at)
    model = rag.planner or rag.writer
    text = by_rules
    if model is not None and not model.waiting:
        text = await run.attempt(Stage.FOLLOWUP, _rewrite_by_model(question, turns, model, run), by_rules)
    return replace(question, text=text)


async def _rewrite_by_model(
    question: Question, turns: Sequence[ConversationTurn], model: LanguageModel, run: Run
) -> str:
    """Rewrite by the model; call it in a stage. Raises GenerationFailed, also for an unfaithful rewrite."""
    template = load_prompt("followup", question.lang)
    prompt = Prompt(template.system, f"{_format_turns(turns)}\n{quote_question(question.text)}", template.shots)
    grammar = build_paragraph_grammar(_MAX_REWRITE_LENGTH)
    decoding = DecodingParams(_MAX_REWRITE_TOKENS, 0.0)
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=grammar)
    text = " ".join(clean_reply(reply).split())[:_MAX_REWRITE_LENGTH]
    if not _is_faithful_rewrite(text, question.text, turns):
        raise GenerationFailed(_REWRITE_REJECTED)
    return text


def _format_turns(turns: Sequence[ConversationTurn]) -> str:
    lines = (
        f"{escape_prompt_text(turn.question)} ({escape_prompt_text(', '.join(turn.entities))})".removesuffix(" ()")
        for turn in turns[-_SHOWN_TURNS:]
    )
    return "<talk>\n{}\n</talk>".format("\n".join(lines))


def _is_faithful_rewrite(text: str, asked: str, turns: Sequence[ConversationTurn]) -> bool:
    """Whether a rewrite keeps the follow-up and the topic, and adds no name, no number and at most one word."""
    history = " ".join(part for turn in turns for part in (turn.question, *turn.entities))
    own, before, rewritten = set(tokenize(asked)), set(tokenize(history)), set(tokenize(text))
    names = {term for name in find_question_names(text) for term in tokenize(name.text)}
    kept = {term for word in extract_content_words(asked) for term in tokenize(word)} | set(extract_numbers(asked))
    return (
        bool(rewritten & before)
        and kept <= rewritten | set(extract_numbers(text))
        and names <= own | before
        and extract_numbers(text) <= extract_numbers(f"{asked} {history}")
        and len(rewritten - own - before) <= 1
    )
