"""Follow-up questions: which ones can only be understood with the question before, and their standalone form.

A leading "and", a pronoun without an antecedent, or an ellipsis shows a follow-up. By rules a time, a name or a thing
takes the place of that of the earlier question; any other follow-up stands beside the earlier subject, which is put in
brackets: outside of its sentence it has another case. Brackets are for the search: such a reading is no sentence that a
person would say, and is not shown. A model rewrites when it is idle; it may only repeat the conversation: a rewrite
with a new name or number, or with more than one new word, is rejected.

The memory of a conversation holds rewritten questions and the names in their answers, for about an hour, in forums by
topic. It is never a source of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from rag_core.dates import find_dates, parse_coming_period, parse_period
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.planning.intents import RECENT_EVENTS, asks_of_this_channel, counts_all_posts, strip_asking_phrase
from rag_core.planning.queries import AUXILIARY_VERBS, QUESTION_WORDS, split_question
from rag_core.run import Run, Stage
from rag_core.storage import readers
from rag_core.storage.readers import ConversationKey, ConversationTurn
from rag_core.text.names import NAME_PATTERN
from rag_core.text.numbers import extract_figures
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import is_pasted
from rag_core.text.tokens import STOP_WORDS, WordReading, detect_language, fold_case, read_word, tokenize
from rag_core.types import Answer, Question
from rag_core.writing import prompts

_LEAD_IN_PATTERN = re.compile(
    r"^\W*(?:(?:ну\s+)?(?:а|и|но)(?:\s+как\s+насчет|\s+что\s+насчет|\s+если)?|как\s+насчет|что\s+насчет|"
    r"(?:and|but|or|so)(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about)\s+(?=\w|[«\"“@])"
)
_PREPOSITION = r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|without|of|from|to|with|by|near)"
QUESTION_WORD_PATTERN = re.compile(rf"^(?:{_PREPOSITION}\s+)?(?:{QUESTION_WORDS}|{AUXILIARY_VERBS})\b(?!\s+about\b)")
_INNER_QUESTION_WORD = re.compile(r"\s(?:кто|где|куда|когда|почему|сколько|скольки|скок\w?|почем)\b")
_SHORT_WHICH_PATTERN = re.compile(rf"^{_PREPOSITION}\s+(?:как\w{{2,4}}|what|which)\s+\w+$")  # "на какие улицы?"

_PRONOUN_PATTERN = re.compile(
    r"\b(?:(?P<person>он|она|его|ее|ему|него|нее|ней|нему|нем|he|she|him|her|his)|"
    r"(?P<many>они|их|им|ими|них|ним|ними|they|them|their)|(?P<place>там|туда|оттуда|there)|"
    r"оно|это|этого|этому|этим|этом|it|its|(?:that|this)(?=\W*$))\b"
)
# Expletive "it" and "there", which refer to nothing: "is it true that", "how long does it take", "is there a ferry"
_EXPLETIVE_PATTERN = re.compile(
    r"\b(?:(?:is|was|will|does|did|would|can)\s+it\s+(?:be\s+)?(?:true|possible|necessary|right|correct|legal|worth|safe|take|"
    r"took|cost\s+to|rain|snow)|it\s+(?:is|was)\s+(?:true|possible|necessary)|it\s+(?:rain|snow)(?:s|ed)\b|(?:is|are|was|were|be|been|will|has|have)\s+there|"
    r"there\s+(?:is|are|was|were|be|been|will|has|have)|they\s+(?:\w+\s+)?(?:write|wrote|say|said|post|posted|report|reported|publish|"
    r"published|mention|mentioned|talk|talked)|"
    r"они\s+(?:\w+\s+)?(?:писали|пишут|написали|сообщали|сообщают|сообщили|говорили|говорят|публиковали|упоминали)|это\s+правда|правда\s+ли\s+это(?=\s+что)|что\s+это\s+за|(?:как|что)\s+там)\b"
)
_HOW_PATTERN = re.compile(r"^how\s+\w+(?=\s)")
_GENDERS = {**dict.fromkeys(("он", "его", "него", "ему", "нему", "нем"), "masc"),
            **dict.fromkeys(("она", "ее", "нее", "ней"), "femn")}  # fmt: skip
_WHO_DID_PATTERN = re.compile(r"(?:who|what) \w+ (?:to \w+ )?$")
_ASKING_WORD_PATTERN = re.compile(
    r"^(?:правда|верно|действительно|известно|известен|известна|расскажи\w*|скажи\w*|tell|known|пис\w+|пишут|написали|пост\w*|"
    r"posts?|writ\w+|wrote|said|says?|сказал\w*|говор\w+|упомина\w+|упомян\w+|mention\w*|раз|times?|впервые|first|last|последний|"
    r"как\w{2,3}|please|пожалуйста|проходит|находится|нового|new|happened|скок\w?|почем|щас)$"
)
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_MAX_READ_WORDS = 40  # words of a question that are read by the dictionary


class NameSpan(NamedTuple):
    """Name and its position in a text."""

    text: str
    start: int
    end: int


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
    for match in NAME_PATTERN.finditer(text):
        start, name = match.start(), match[0]
        first, _, more = name.partition(" ")
        opens = not text[:start].strip(' «"“')
        is_first_word = opens and not (re.search(r"[A-Z]", first) and _is_content_word(fold_case(first)))
        # several words may begin with a Russian first name
        is_first_name = bool(more) and any(reading.name for reading in read_word(fold_case(first))[:1])
        if (is_first_word and not is_first_name) or fold_case(first) in STOP_WORDS:
            start, name = start + len(first) + bool(more), more
        if name and fold_case(name) not in STOP_WORDS:
            spans.append(NameSpan(name, start, start + len(name)))
    return spans


def _find_pronoun(text: str) -> re.Match[str] | None:
    """Find the first pronoun without an antecedent in the question itself, one of a person first; None without any."""
    low, things = fold_case(text), list[re.Match[str]]()
    for match in _PRONOUN_PATTERN.finditer(low):
        before, personal = low[: match.start()], bool(match["person"] or match["many"])
        expletive = any(e.start() <= match.start() < e.end() for e in _EXPLETIVE_PATTERN.finditer(low))
        if expletive or find_question_names(text[: match.start()]):
            continue
        # "how much is the entrance there": the words before "there" do not name its place
        named = _HOW_PATTERN.sub("", before)  # "how often does it go"
        words = [word for word in extract_content_words(named) if not _ATTRIBUTE_PATTERN.search(word)]
        if words and not match["place"]:
            if personal and re.search("[а-я]", match[0]):
                gender = _GENDERS.get(match[0])
                nouns = [r for _, read in _read_words(before) for r in read[:1] if r.part == "NOUN"]
                if any((r.number == "plur") == bool(match["many"]) and gender in {None, r.gender} for r in nouns):
                    continue
            # "how old is he", "who wanted to grind it": adjectives and verbs
            elif not personal and (re.search("[а-я]", match[0]) or not _WHO_DID_PATTERN.match(before)):
                continue
        if match["person"]:
            return match
        if not (find_question_names(text) or len(extract_content_words(text)) >= _MAX_FOLLOWUP_TERMS):
            things.append(match)
    return things[0] if things else None


def _read_words(text: str) -> Iterator[tuple[re.Match[str], tuple[WordReading, ...]]]:
    for match in islice(_WORD.finditer(text), _MAX_READ_WORDS):
        word = match[0].lower()
        yield match, read_word(word) if re.search("[а-яё]", word) else ()


def extract_subject(question: str, now: datetime | None) -> str:
    """Extract the subject of a question: its first part without leading asking words and, seen from `now`, its time."""
    text = split_question(question)[0].strip(" ?!.…")
    when = parse_period(text, now) if now else None
    if when is not None and (at := fold_case(text).find(when.words)) >= 0:
        text = f"{text[:at].rstrip()} {text[at + len(when.words) :].lstrip()}".strip()
    for word in _WORD.finditer(text):
        if _is_content_word(fold_case(word[0])):
            quoted = text[: word.start()].endswith(tuple('«"“„@'))
            article = _ARTICLE_PATTERN.search(text[: word.start()])
            return text[article.start() if article else word.start() - quoted :].strip(" ,")
    return text


_ARTICLE_PATTERN = re.compile(r"\b(?:the|an?)\s+$", re.I)


# Content words from which a question, as one with a name, is standalone although it begins with "and" or says "it".
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


def is_followup(text: str, now: datetime) -> bool:
    """Whether a question can only be understood with the turn before it."""
    rest = strip_lead_in(text)
    asked, own = fold_case(rest).strip(_EDGE_CHARACTERS), extract_content_words(rest)
    if not asked or len(text) > _MAX_FOLLOWUP_LENGTH or asks_of_this_channel(fold_case(rest)):
        return False
    if _find_pronoun(rest) or (_PRO_FORM_PATTERN.search(asked) and len(own) <= _MAX_FOLLOWUP_TERMS):
        return True
    questioned, names = QUESTION_WORD_PATTERN.match(asked), find_question_names(rest)
    if rest != text:
        if _STANDALONE_WHO_PATTERN.match(asked) or is_pasted(rest):
            return False
        if questioned and {"VERB", "NOUN"} <= _list_parts_of_speech(own):
            return False  # "а где принимают батарейки?"
        return not names and len(own) < _MAX_FOLLOWUP_TERMS if questioned else len(own) <= _MAX_FOLLOWUP_TERMS + 2
    if _TELL_MORE_PATTERN.match(asked):
        return True
    if not own:
        of_news = RECENT_EVENTS.search(asked) or re.search(r"\b(?:нового|new)\b", asked)
        return bool(questioned) and not (of_news or counts_all_posts(asked))
    if questioned and not names:
        attribute = len(own) == 1 and (_ATTRIBUTE_PATTERN.search(asked) or _SHORT_WHICH_PATTERN.match(asked))
        verb_alone = len(own) == 1 and _list_parts_of_speech(own) == {"VERB"}  # "когда вернулись?"
        if attribute or verb_alone or (len(own) < _MAX_FOLLOWUP_TERMS and _WHY_SO_PATTERN.match(asked)):
            return True
    when, left = _split_time(asked, now)
    return "?" in text and bool(when) and not left


def _list_parts_of_speech(words: Sequence[str]) -> set[str]:
    """Parts of speech of the Russian words that name no attribute, by their likeliest readings."""
    things = " ".join(word for word in words if not _ATTRIBUTE_PATTERN.search(word))
    return {readings[0].part for _, readings in _read_words(things) if readings}


def _split_time(text: str, now: datetime) -> tuple[str, str]:
    """Split a text into its words of time, "" where there are none, and the others."""
    period = parse_period(text, now) or parse_coming_period(text, now)
    at = fold_case(text).find(period.words) if period else -1
    if period is None or at < 0:
        return "", text
    end = at + len(period.words)
    return text[at:end], f"{text[:at]} {text[end:]}".strip(_EDGE_CHARACTERS)


_ABOUT_PATTERN = re.compile(r"^(?:о|об|обо|про|насч[её]т|about)\s+", re.I)
_ENDS_WITH_ABOUT = re.compile(r"\b(?:о|об|про)\s+$")
_ASKS_FOR_NAME_PATTERN = re.compile(r"\b(?:who|whom|where|which|what|кто|кого|кем|кому|где|куда|как\w{2,3})\b")
_DEFINITION_PATTERN = re.compile(
    r"^(?:кто так(?:ой|ая|ие)|что такое|(?:расскажи\w*|что известно|что пишут|что писали)(?: мне)? (?:о|об|про)|"
    r"who(?: is|'s|’s|s) (?!the |your |our |in )|what (?:is|are) (?!the )|tell me about)\s*(?P<name>[^?]+)"
)
_NOMINATIVE_PRONOUNS = frozenset("он она они he she him her it them they its his their".split())
# A thing that ends an earlier question: no auxiliary verb stands before it, so that it has no verb of its own.
_AUXILIARY = r"\b(?:do|does|did|can|could|will|would|has|have|had|should)\b(?! (?:you|we|i)\b)"
_ENGLISH_THING = re.compile(
    rf"^(?:(?:(?!{_AUXILIARY}).)*?|.*\b(?:has|have|had)\s)\b(?P<thing>(?:the|an?)\s\w+(?:[\s'’-]\w+){{0,4}})$"
)
_ENGLISH_COPULAR = re.compile(
    r"^(?:how (?:much|old|long|big)|when|where)(?:\s(?:is|are|was|were)|'s)\s(?P<thing>(?:the|an?)\s.+)$"
)
_BRACKETS = str.maketrans("", "", "()")


class Rewriting(NamedTuple):
    """Standalone question of a follow-up; `spoken`: a sentence that a person would say, not words for a search."""

    text: str
    spoken: bool = True


def rewrite_by_rules(text: str, turns: Sequence[ConversationTurn], now: datetime) -> Rewriting:
    """Rewrite a follow-up as a standalone question by rules (turns oldest first); other questions stay unchanged."""
    if not turns or not is_followup(text, now):
        return Rewriting(text)
    question, clear = turns[-1].question.strip(_EDGE_CHARACTERS), True
    rest = strip_lead_in(text).strip(_EDGE_CHARACTERS)
    if pronoun := _find_pronoun(rest):
        rewritten, clear = _replace_pronoun(rest, pronoun, question, turns[-1].entities, now)
    elif _TELL_MORE_PATTERN.match(fold_case(rest)):
        rewritten, clear = f"{rest}: {extract_subject(question, now)}", False
    else:
        rewritten = _carry_over_subject(rest, question, now)
    rewritten = rewritten[:_MAX_FOLLOWUP_LENGTH].strip(_EDGE_CHARACTERS)
    if rewritten == text.strip(_EDGE_CHARACTERS):
        return Rewriting(text)
    return Rewriting(f"{rewritten}?", clear and "(" not in rewritten)


def _append_aside(text: str, aside: str) -> str:
    return f"{text} ({aside.translate(_BRACKETS).strip()})"


def _replace_pronoun(
    rest: str, pronoun: re.Match[str], question: str, names: Sequence[str], now: datetime
) -> Rewriting:
    """Replace a pronoun by the name that the earlier question asked for, by its own name or thing, or by its subject.

    A Russian subject, and what "that" and "это" stand for, is put in brackets. It is no sentence where a Russian
    pronoun is in another case, or verbs of the earlier question come along.
    """
    low, subject = fold_case(question), extract_subject(question, now)
    word, before, after = pronoun[0], rest[: pronoun.start()], rest[pronoun.end() :]
    fresh = [name for name in names if fold_case(name) not in low]
    antecedent, aside, spoken = subject, "", word in _NOMINATIVE_PRONOUNS
    if definition := _DEFINITION_PATTERN.match(low):
        antecedent = question[definition.start("name") : definition.end("name")].strip()
        spoken = spoken and not _ENDS_WITH_ABOUT.search(low[: definition.start("name")])  # "о мостике": another case
    elif fresh and (pronoun["person"] or pronoun["place"]) and _ASKS_FOR_NAME_PATTERN.search(low):
        antecedent, aside = fresh[0], subject
    elif detect_language(subject) != detect_language(rest) and not find_question_names(question):
        return Rewriting(rest)  # a question that mixes two languages finds nothing
    elif word in {"that", "this"} or re.match("[а-я]", word):
        return Rewriting(_append_aside(f"{before.rstrip()}{after}", subject))
    elif not pronoun["person"] and (thing := _ENGLISH_THING.match(low)):
        antecedent, asks = question[thing.start("thing") :], QUESTION_WORD_PATTERN.match(low)
        # "last bus from the hill", "is the pool open": the thing is another one, or has words besides
        spoken = spoken and asks is not None and asks[0] not in {"is", "are", "was", "were"}
    else:
        # "who is in charge there": a name in its place lacks a preposition
        spoken = word != "there" and subject in [name.text for name in find_question_names(f", {subject}")]
    if word in {"his", "her", "its", "their"} and re.match(r"\s+\w", after):
        antecedent = f"{antecedent}'s"
    replaced = f"{before}{antecedent}{after}"
    return Rewriting(_append_aside(replaced, aside) if aside else replaced, spoken)


def _carry_over_subject(rest: str, question: str, now: datetime) -> str:
    """Change in the earlier question what the follow-up says differently; else add the earlier subject to it."""
    when, left = _split_time(rest, now)
    if QUESTION_WORD_PATTERN.match(fold_case(rest)) or _INNER_QUESTION_WORD.search(fold_case(rest)):
        subject = extract_subject(question, now if when else None)
        return rest if subject in rest else _append_aside(rest, subject)
    if when:  # replaces the time in the question; the old preposition stays where the new time has none
        old, _ = _split_time(question, now)
        before = re.match(rf"{_PREPOSITION}\s+", fold_case(old))
        alone = re.match(rf"{_PREPOSITION}|(?:last|this|next|yesterday|today|вчера|сегодня)\b", fold_case(when))
        new = f"{old[: before.end()]}{when}" if before and not alone else when
        question = question.replace(old, new, 1) if old else f"{question} {when}"
        if not extract_content_words(left):
            return question
    if changed := _replace_name(question, left):
        return changed
    if detect_language(left) != detect_language(question) and not find_question_names(f", {left}"):
        return rest  # a joined question would mix two languages; names are the same in both
    words = [word for word in _WORD.findall(fold_case(left)) if word not in {"the", "its", "their"}]
    if len(words) == 1 and words[0] in _ATTRIBUTES:  # "and the price?"
        return _append_aside(left, extract_subject(question, None))
    topic = strip_asking_phrase(question)
    if topic != question:  # after "tell me about"; the time is the new one, or else the earlier one
        bare = _ABOUT_PATTERN.sub("", rest, count=1)
        # A Russian word without its preposition is in another grammatical case than this position needs.
        asked = f"{question.removesuffix(topic)}{bare}" if bare != rest or detect_language(rest) == "en" else rest
        earlier_time = "" if _split_time(rest, now)[0] else _split_time(question, now)[0]
        return f"{asked} {earlier_time}".rstrip()
    return _replace_thing(question, left) or _append_aside(question, left)


def _replace_name(question: str, rest: str) -> str | None:
    preposition = re.match(rf"({_PREPOSITION})\s+", fold_case(rest))
    name, on = (rest[preposition.end() :], preposition[1]) if preposition else (rest, None)
    if [found.text for found in find_question_names(f", {name}")] != [name]:
        return None
    old = [found for found in find_question_names(question) if found.text != name]
    before = [re.search(rf"(?<!\w)({_PREPOSITION})\s+$", fold_case(question[: found.start])) for found in old]
    same = [found for found, word in zip(old, before, strict=True) if (word and word[1]) == on]
    chosen = same[0] if same else old[-1] if old and on is None else None
    return f"{question[: chosen.start]}{name}{question[chosen.end :]}" if chosen else None


_DETERMINER_LEMMAS = frozenset("какой который этот весь такой мой ваш ваша".split())
_ATTRIBUTES = frozenset(
    "цена цены курс стоимость адрес телефон номер время часы расписание график дата место вход билет билеты скидка "
    "скидки автор причина итог price prices cost costs address phone number time hours schedule date place entrance "
    "ticket tickets discount discounts author reason result score".split()
)


def _replace_thing(question: str, rest: str) -> str | None:
    """Replace the thing of a question, or its adjective, by another one; None where the words are of another kind."""
    if preposition := re.match(rf"{_PREPOSITION}\s", fold_case(rest)):
        words = _WORD.findall(rest[preposition.end() :])[:_MAX_READ_WORDS]
        wanted = {r.case for word in words[-1:] for _, readings in _read_words(word) for r in readings[:2]}
        thing = rf"(?<!\w){re.escape(preposition[0])}(\w+(?:\s+\w+){{0,{max(0, len(words) - 1)}}})"
        for found in reversed(list(re.finditer(thing, fold_case(question)))):
            dated = any(find_dates(found[1]))  # "в субботу | в детском зале": a day is no thing
            if not dated and (not wanted or wanted & {r.case for r in read_word(found[1].split()[-1])[:2]}):
                return f"{question[: found.start()]}{rest}{question[found.end() :]}"
        return None
    if detect_language(rest) != "ru":
        named, asked = _ENGLISH_THING.match(fold_case(rest)), _ENGLISH_COPULAR.match(fold_case(question))
        return f"{question[: asked.start('thing')]}{rest}" if named and asked else None
    new, words = list(_read_words(rest)), list(_read_words(question))
    if len(new) == 1:  # an adjective of the same form: "ржаной" by "пшеничный", "первый" by "последний"
        forms = {(r.case, r.gender, r.number) for r in new[0][1] if _is_adjective(r)}
        for match, readings in reversed(words):
            if forms & {(r.case, r.gender, r.number) for r in readings if _is_adjective(r)}:
                return f"{question[: match.start()]}{rest}{question[match.end() :]}"
        # a verb of the same form: "открывается" by "закрывается"
        verb = next((r for r in new[0][1][:1] if r.part == "VERB"), None)
        for match, readings in reversed(words):
            if verb and any(r._replace(lemma=verb.lemma, case=verb.case, name=verb.name) == verb for r in readings[:1]):
                return f"{question[: match.start()]}{rest}{question[match.end() :]}"

    # the noun in the nominative, or of one form for all cases ("латте"), with its adjectives; of an attribute
    # ("курс доллара") that in the genitive
    def is_nominative(word: re.Match[str], read: tuple[WordReading, ...]) -> bool:
        low = fold_case(word[0])
        nouns = (r for r in read[:3] if r.part == "NOUN")
        return _is_content_word(low) and any(r.case == "nomn" or r.lemma == low for r in nouns)

    nouns, earlier = ([n for n, pair in enumerate(of) if is_nominative(*pair)] for of in (new, words))
    at = earlier[0] if earlier else None
    others = {"VERB", "INFN", "PREP", "NPRO"}
    if at is None or not nouns or nouns[0] > 1 or any(r.part in others for _, read in new for r in read[:1]):
        return None
    first = last = at
    genitive = [r.part == "NOUN" and r.case == "gent" for _, read in words[at + 1 : at + 2] for r in read[:1]]
    if fold_case(words[at][0][0]) in _ATTRIBUTES and any(genitive):
        first = last = at + 1
    while first and any(map(_is_adjective, words[first - 1][1][:1])):
        first -= 1
    while last + 1 < len(words) and any(map(_is_adjective, words[last + 1][1][:1])):
        last += 1
    return f"{question[: words[first][0].start()]}{rest}{question[words[last][0].end() :]}"


def _is_adjective(reading: WordReading) -> bool:
    return reading.part == "ADJF" and reading.lemma not in _DETERMINER_LEMMAS


_MAX_REWRITE_LENGTH, _MAX_REWRITE_TOKENS = 200, 96
_SHOWN_TURNS = 3  # earlier questions in the prompt


async def rewrite_followup(
    question: Question, turns: Sequence[ConversationTurn], rag: Engine, run: Run
) -> tuple[Question, bool]:
    """Rewrite a follow-up, by a model where one is idle, else by rules; turns oldest first.

    Returns also whether readers may be shown it as a sentence, see `Rewriting.spoken`.
    """
    if not is_followup(question.text, question.asked_at):
        return question, True
    by_rules = rewrite_by_rules(question.text, turns, question.asked_at)
    model, found = rag.planner or rag.writer, by_rules
    if model is not None and not model.waiting:
        found = await run.attempt(Stage.FOLLOWUP, _rewrite_by_model(question, turns, model, run), by_rules)
    return replace(question, text=found.text), found.spoken


async def _rewrite_by_model(
    question: Question, turns: Sequence[ConversationTurn], model: LanguageModel, run: Run
) -> Rewriting:
    """Rewrite by the model; call it in a stage. Raises GenerationFailed, also for an unfaithful rewrite."""
    template = prompts.load_prompt("followup", question.lang)
    named = ((turn.question, ", ".join(turn.entities)) for turn in turns[-_SHOWN_TURNS:])
    escaped = (map(prompts.escape_prompt_text, texts) for texts in named)
    lines = "\n".join(f"{asked} ({names})".removesuffix(" ()") for asked, names in escaped)
    talk = f"<talk>\n{lines}\n</talk>\n{prompts.quote_question(question.text)}"
    prompt = Prompt(template.system, talk, template.shots)
    grammar = prompts.build_paragraph_grammar(_MAX_REWRITE_LENGTH)
    decoding = DecodingParams(_MAX_REWRITE_TOKENS, 0.0)
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=grammar)
    text = " ".join(prompts.clean_reply(reply).split())[:_MAX_REWRITE_LENGTH]
    # it keeps the follow-up and the topic, and adds no name, no number and at most one word
    asked, history = question.text, " ".join(part for turn in turns for part in (turn.question, *turn.entities))
    own, before, rewritten = set(tokenize(asked)), set(tokenize(history)), set(tokenize(text))
    names = {term for name in find_question_names(text) for term in tokenize(name.text)}
    kept = {term for word in extract_content_words(asked) for term in tokenize(word)} | extract_figures(asked)
    figures = extract_figures(text)
    told = kept <= rewritten | figures and not before.isdisjoint(rewritten)
    new = names - own - before or figures - extract_figures(f"{asked} {history}")
    if not told or new or len(rewritten - own - before) > 1:
        raise GenerationFailed("The model's question was not the one that was asked: the rules' is taken.")
    return Rewriting(text)


_MEMORY_CHOICE = "memory {}"  # name of a chat's choice, by its id
_MAX_TURNS, _MAX_TOKENS = 20, 400
_MAX_NAMES, _MAX_NAME_LENGTH = 8, 60
_CHARACTERS_PER_TOKEN = 3  # between English (4) and Russian (2.5); the window need not be exact
_MAX_STORED_LENGTH = 600  # characters of a stored question


def identify_conversation(question: Question) -> ConversationKey:
    """Key of the conversation of a question: chat, reader and forum topic."""
    return ConversationKey(question.chat, question.viewer.user_id, question.thread or 0)


async def is_memory_enabled(chat: int, rag: Engine) -> bool:
    """Whether earlier questions are remembered in a chat; 0 is the terminal. Raises ArchiveUnavailable."""
    if not chat or not rag.settings.memory.enabled:
        return False
    return (await readers.load_choices(rag.archive)).get(_MEMORY_CHOICE.format(chat)) != "off"


async def set_memory_enabled(chat: int, rag: Engine, *, to: bool) -> None:
    """Switch the memory of a chat on or off; switching off deletes its turns."""
    await readers.save_choice(rag.archive, _MEMORY_CHOICE.format(chat), "on" if to else "off")
    if not to:
        await readers.forget_turns(rag.archive, chat=chat)


async def load_turns(question: Question, rag: Engine) -> tuple[ConversationTurn, ...]:
    """Load the newest turns that fit into the token window, oldest first. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return ()
    since = question.asked_at - timedelta(minutes=rag.settings.memory.minutes)
    turns = await readers.list_recent_turns(rag.archive, identify_conversation(question), since)
    left, kept = _MAX_TOKENS, list[ConversationTurn]()
    for turn in turns:  # the newest first
        left -= sum(map(len, (turn.question, *turn.entities))) // _CHARACTERS_PER_TOKEN + 1
        if left < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


async def resolve_followup(question: Question, rag: Engine, run: Run) -> tuple[Question, bool]:
    """Rewrite a follow-up with the stored turns of its conversation, as `rewrite_followup`; other questions stay."""
    turns = await run.attempt(Stage.MEMORY, load_turns(question, rag), ())
    return await rewrite_followup(question, turns, rag, run) if turns else (question, True)


async def follows_earlier_question(question: Question, rag: Engine) -> bool:
    """Whether a question is a follow-up in a conversation that is remembered. Raises ArchiveUnavailable."""
    return is_followup(question.text, question.asked_at) and bool(await load_turns(question, rag))


async def remember_answer(question: Question, answer: Answer, rag: Engine) -> None:
    """Store an answered standalone question as a turn, and delete expired turns. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return
    names = (name.text[:_MAX_NAME_LENGTH] for s in answer.sentences for name in find_question_names(s.text))
    turn = ConversationTurn(question.text[:_MAX_STORED_LENGTH], tuple(dict.fromkeys(names))[:_MAX_NAMES])
    at, minutes = question.asked_at, rag.settings.memory.minutes
    expired = at - timedelta(minutes=minutes)
    await readers.remember_turn(rag.archive, identify_conversation(question), turn, at, _MAX_TURNS, expired)


async def start_new_conversation(talk: ConversationKey, rag: Engine) -> int:
    """Delete the turns of a conversation; the number of deleted turns."""
    return await readers.forget_turns(rag.archive, user=talk.user, chat=talk.chat, thread=talk.thread)
