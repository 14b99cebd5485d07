"""Follow-up questions: rewrite a question as a standalone one, with the memory of earlier questions.

Rewriting is done by a model when it is idle, by rules otherwise ("а в марте?", "and who said that?"). By the rules,
times, names and beneficiaries ("for children") replace those of the earlier question, pronouns are replaced by their
antecedents, and any other brief question gets the subject of the earlier one. A question that is no follow-up stays
unchanged. A model may only repeat the conversation: a rewrite with a new name or number, or with more than one new
word, is rejected.

Memory holds rewritten questions and the names in their answers, for about an hour; in forums by topic. It is never a
source of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm import DecodingParams, LanguageModel, Prompt, collect_generation
from rag_core.planning.intents import asks_about_recent_events, strip_asking_phrase
from rag_core.storage import conversations, users
from rag_core.storage.conversations import ConversationKey, ConversationTurn
from rag_core.text.answer_type import extract_numbers
from rag_core.text.names import find_names
from rag_core.text.query_terms import is_asking_word
from rag_core.text.tokens import STOP_WORDS, detect_language, tokenize
from rag_core.tracing import LlmCosts, Run, Stage
from rag_core.types import Answer, Question
from rag_core.writing.grammar import build_paragraph_grammar, clean_reply
from rag_core.writing.prompts import escape_prompt_text, load_prompt, quote_question

__all__ = [
    "LEAD_IN_PATTERN",
    "OCCURRENCE_PATTERNS",
    "PREPOSITION",
    "QUESTION_WORD_PATTERN",
    "NameSpan",
    "Pronoun",
    "extract_answer_names",
    "extract_content_words",
    "extract_subject",
    "find_pronoun",
    "find_question_names",
    "fold_case",
    "identify_conversation",
    "is_followup",
    "is_memory_enabled",
    "load_turns",
    "migrate_memory_setting",
    "remember_answer",
    "resolve_followup",
    "rewrite_by_rules",
    "rewrite_followup",
    "set_memory_enabled",
    "start_new_conversation",
    "strip_lead_in",
]

LEAD_IN_PATTERN = re.compile(
    r"^\W*(?:(?:ну\s+)?(?:а|и|но)(?:\s+как\s+насчет|\s+что\s+насчет|\s+если)?|как\s+насчет|что\s+насчет|"
    r"(?:and|but|or|so)(?:\s+(?:what|how)\s+about)?|(?:what|how)\s+about)\s+(?=\w|[«\"“@])"
)
QUESTION_WORD_PATTERN = re.compile(
    r"^(?:(?:с|в|во|по|за|до|на|от|из|у|для|о|об|in|at|by|for|with|from|on|to|until)\s+)?"
    r"(?:кто|кого|кому|кем|ком|что|чего|чему|чем|где|куда|откуда|когда|почему|зачем|отчего|сколько|скольк\w+|как|"
    r"как\w{2,4}|чей|чья|чье|чьи|правда ли|верно ли|есть ли|можно ли|who|whom|whose|what|which|when|where|why|how|"
    r"is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!\s+about\b)"
)
PREPOSITION = r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|without|of|from|to|with|by|near)"
_FIRST_TIME, _LAST_TIME = r"(?:впервые|в первый раз)", r"(?:в )?последний раз"
OCCURRENCE_PATTERNS = (
    (re.compile(_FIRST_TIME), "впервые"),
    (re.compile(_LAST_TIME), "в последний раз"),
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
    r"как\w{2,3}|please|пожалуйста|проходит|находится|нового|new|happened)$"
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


def fold_case(text: str) -> str:
    """Lower-case a text and replace ё by е, keeping its length."""
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text).replace("ё", "е")


def strip_lead_in(text: str) -> str:
    """Strip a leading "and" or "what about" from a question."""
    lead_in = LEAD_IN_PATTERN.match(fold_case(text))
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
        empty = any(e.start() <= match.start() < e.end() for e in _EXPLETIVE_PATTERN.finditer(low)) or any(
            tokenize(kind[1]) for kind in _WHICH_KIND_PATTERN.finditer(low[: match.start()])
        )
        # "how much is the entrance there": the words before "there" do not name its place
        before = not match["place"] and extract_content_words(low[: match.start()])
        if empty or before or find_question_names(text[: match.start()]):
            continue
        impersonal = not match["person"]
        if impersonal and (find_question_names(text) or len(extract_content_words(text)) >= _STANDALONE_TERMS):
            continue
        whole = bool(match["that"]) or match[0] in {"это", "этого", "этом"}
        return Pronoun(
            match.start(), match.end(), bool(match["person"]), bool(match["many"]), bool(match["place"]), whole
        )
    return None


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
    r"\b(?:score|result|price|reason|date|time|address|winner|author|source|deadline|age|link|outcome|cost|"
    r"счет\w{0,2}|результат\w{0,2}|цен[аыу]|причин[аыу]|дат[аыу]|адрес\w{0,2}|победител\w|автор\w{0,2}|источник\w{0,2}|"
    r"итог\w{0,2}|возраст\w{0,2}|ссылк[аиу]|год[уа]?|исход\w{0,2})$"
)
_WHY_SO_PATTERN = re.compile(r"^(?:почему|зачем|отчего|why|how come)\b.*\b(?:так|такой|такая|такое|такие|so|such)\b")
_TELL_MORE_PATTERN = re.compile(
    r"^(?:(?:а|и)\s+)?(?:(?:по)?подробнее|расскажи\s+(?:еще|больше)|(?:tell me )?more|more details?)\W*$"
)
_ABOUT_PATTERN = re.compile(r"^(?:о|об|обо|про|насч[её]т|about)\s+", re.I)
_BENEFICIARY_PATTERN = re.compile(r"\b(?P<on>для|for|без|without)\s+(?:[^\W\d]+\s*){1,2}")


def is_followup(text: str, now: datetime) -> bool:
    """Whether a question can only be understood with the turn before it."""
    plain = fold_case(text).strip(_EDGE_CHARACTERS)
    if not plain or len(text) > _MAX_FOLLOWUP_LENGTH:
        return False
    rest = strip_lead_in(text)
    own, led = extract_content_words(rest), rest != text
    pronoun = find_pronoun(rest)
    if pronoun is not None:
        return True
    if led:
        return (
            not (
                QUESTION_WORD_PATTERN.match(fold_case(rest))
                and (find_question_names(rest) or len(own) >= _MAX_FOLLOWUP_TERMS)
            )
            and len(own) <= _MAX_FOLLOWUP_TERMS + 2
        )
    return _is_elliptical(text, plain, own, now)


def _is_elliptical(text: str, plain: str, own: Sequence[str], now: datetime) -> bool:
    """Whether a question without a lead-in is an ellipsis, too short to be standalone."""
    if _TELL_MORE_PATTERN.match(plain):
        return True
    if not own:
        return (
            bool(QUESTION_WORD_PATTERN.match(plain))
            and not asks_about_recent_events(plain)
            and not re.search(r"\b(?:нового|new)\b", plain)
        )
    if find_question_names(text):
        return (
            "?" in text
            and bool(re.fullmatch(rf"{PREPOSITION}\s+\S+(?:\s+\S+)?", plain))
            and not _split_time(plain, now)[1]
        )
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
    if pronoun is not None:
        rewritten = _replace_pronoun(
            rest, pronoun, last, now if not pronoun.whole else None, led=rest != text.strip(_EDGE_CHARACTERS)
        )
    elif _TELL_MORE_PATTERN.match(fold_case(rest)):
        rewritten = f"{rest}: {extract_subject(last.question, now)}"
    else:
        rewritten = _carry_over_subject(rest, last, now)
    return f"{rewritten[:_MAX_FOLLOWUP_LENGTH].strip(_EDGE_CHARACTERS)}?"


def _replace_pronoun(rest: str, pronoun: Pronoun, last: ConversationTurn, now: datetime | None, *, led: bool) -> str:
    """Replace the pronoun by its antecedent: a name of the last answer or question, or the subject."""
    subject, names = extract_subject(last.question, now), list(last.entities)
    if pronoun.whole:
        return f"{rest[: pronoun.start].rstrip()}{rest[pronoun.end :]}, {subject}"
    fresh = [name for name in names if fold_case(name) not in fold_case(last.question)]
    antecedent = subject
    if pronoun.many and len(names) > 1:
        antecedent = ", ".join(names)
    elif fresh and (pronoun.person or pronoun.place) and _asks_for_name(last.question):
        antecedent = fresh[0]
    elif pronoun.person and not names and (asked_names := find_question_names(last.question)):
        antecedent = asked_names[-1].text
    elif pronoun.person and names and not _asks_for_name(last.question):
        antecedent = next((name for name in names if name not in fresh), subject)
    replaced = f"{rest[: pronoun.start]}{antecedent}{rest[pronoun.end :]}"
    return f"{replaced}, {subject}" if led and antecedent != subject else replaced


def _asks_for_name(question: str) -> bool:
    return bool(
        re.search(r"\b(?:who|whom|where|which|what|кто|кого|кем|кому|где|куда|как\w{2,3})\b", fold_case(question))
    )


def _carry_over_subject(rest: str, last: ConversationTurn, now: datetime) -> str:
    """Change in the earlier question what the follow-up says differently; else add the earlier subject to it."""
    question, left = last.question.strip(_EDGE_CHARACTERS), rest
    if QUESTION_WORD_PATTERN.match(fold_case(rest)):
        return f"{rest}, {extract_subject(question, now)}"
    when, other = _split_time(rest, now)
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
    return (
        _replace_topic(last.question.strip(_EDGE_CHARACTERS), rest, now)
        or _replace_beneficiary(question, left)
        or f"{question}, {left}"
    )


def _split_time(text: str, now: datetime) -> tuple[str, str]:
    """Split a text into its words of time and the rest."""
    period = parse_period(text, now)
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
    before, first = re.match(rf"{PREPOSITION}\s+", fold_case(old)), re.match(PREPOSITION, fold_case(when))
    alike = (
        before and not first and not re.match(r"(?:last|this|next|yesterday|today|вчера|сегодня)\b", fold_case(when))
    )
    return question.replace(old, f"{old[: before.end()]}{when}" if before and alike else when, 1)


def _swap_first_and_last(question: str, rest: str) -> str | None:
    """Swap first and last: "впервые" becomes "в последний раз"."""
    for pattern, words in OCCURRENCE_PATTERNS:
        if pattern.fullmatch(fold_case(rest)):
            for other, _ in OCCURRENCE_PATTERNS:
                if other is not pattern and (found := other.search(fold_case(question))):
                    return f"{question[: found.start()]}{words}{question[found.end() :]}"
    return None


def _replace_name(question: str, rest: str) -> str | None:
    """Replace a name in the question, preferably one with the same preposition; None where there is none."""
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
    earlier_time = "" if _split_time(rest, now)[0] else _split_time(question, now)[0]
    return f"{asked} {earlier_time}".rstrip()


def _find_preposition_before(question: str, at: int) -> str | None:
    found = re.search(rf"(?<!\w)({PREPOSITION})\s+$", fold_case(question[:at]))
    return found[1] if found else None


def _replace_beneficiary(question: str, rest: str) -> str | None:
    """Replace "for children" by "for students", or append it to the question."""
    wanted = re.match(rf"({PREPOSITION})\s", fold_case(rest))
    if wanted is None:
        return None
    for found in _BENEFICIARY_PATTERN.finditer(fold_case(question)):
        if found["on"] == wanted[1]:
            return f"{question[: found.start()]}{rest} {question[found.end() :]}".strip()
    return f"{question} {rest}"


_MAX_TURNS = 20
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
    return (await users.load_choices(rag.archive)).get(_build_setting_key(chat)) != "off"


async def set_memory_enabled(chat: int, rag: Engine, *, to: bool) -> None:
    """Switch the memory of a chat on or off; switching off deletes its turns."""
    await users.save_choice(rag.archive, _build_setting_key(chat), "on" if to else "off")
    if not to:
        await conversations.forget_turns(rag.archive, chat=chat)


async def migrate_memory_setting(old: int, new: int, rag: Engine) -> None:
    """Carry "memory is off" over to the new id of a group."""
    if (await users.load_choices(rag.archive)).get(_build_setting_key(old)) == "off":
        await set_memory_enabled(new, rag, to=False)


async def load_turns(question: Question, rag: Engine) -> tuple[ConversationTurn, ...]:
    """Load the newest turns that fit into the token window, oldest first. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return ()
    since = question.asked_at - timedelta(minutes=rag.settings.memory.minutes)
    left, turns = rag.settings.memory.tokens, list[ConversationTurn]()
    for turn in await conversations.list_recent_turns(rag.archive, identify_conversation(question), since):
        left -= sum(len(text) for text in (turn.question, *turn.entities)) // _CHARACTERS_PER_TOKEN + 1
        if left < 0:
            break
        turns.append(turn)
    return tuple(reversed(turns))


async def remember_answer(question: Question, answer: Answer, rag: Engine) -> None:
    """Store an answered standalone question as a turn, and delete expired turns. Raises ArchiveUnavailable."""
    if not await is_memory_enabled(question.chat, rag):
        return
    archive, at = rag.archive, question.asked_at
    turn = ConversationTurn(question.text[:_MAX_STORED_LENGTH], extract_answer_names(answer))
    await conversations.expire_turns(archive, at - timedelta(minutes=rag.settings.memory.minutes))
    await conversations.remember_turn(archive, identify_conversation(question), turn, at, _MAX_TURNS)
    await conversations.increment_conversation_stat(archive, "kept", at)


def extract_answer_names(answer: Answer) -> tuple[str, ...]:
    """Extract the names in an answer, each once, in order."""
    names = [
        name.text[:_MAX_NAME_LENGTH] for sentence in answer.sentences for name in find_question_names(sentence.text)
    ]
    return tuple(dict.fromkeys(names))[:_MAX_NAMES]


async def start_new_conversation(talk: ConversationKey, rag: Engine) -> int:
    """Delete the turns of a conversation; the number of deleted turns."""
    return await conversations.forget_turns(rag.archive, user=talk.user, chat=talk.chat, thread=talk.thread)


def _build_setting_key(chat: int) -> str:
    return f"memory {chat}"


_MAX_REWRITE_LENGTH, _MAX_REWRITE_TOKENS = 200, 96
_SHOWN_TURNS = 3  # earlier questions in the prompt
_REWRITE_REJECTED = "The model's question was not the one that was asked: the rules' is taken."


async def resolve_followup(question: Question, rag: Engine, run: Run) -> Question:
    """Rewrite a follow-up with the stored turns of its conversation; other questions stay unchanged."""
    turns = await run.attempt(Stage.MEMORY, load_turns(question, rag), ())
    return await rewrite_followup(question, turns, rag, run)


async def rewrite_followup(question: Question, turns: Sequence[ConversationTurn], rag: Engine, run: Run) -> Question:
    """Rewrite a follow-up as a standalone question, by a model where one is idle, else by rules; turns oldest first."""
    if not turns or not is_followup(question.text, question.asked_at):
        return question
    by_rules = rewrite_by_rules(question.text, turns, question.asked_at)
    model = rag.planner or rag.writer
    text = by_rules
    if model is not None and not model.waiting:
        text = await run.attempt(Stage.FOLLOWUP, _rewrite_by_model(question, turns, model, run), by_rules)
    how = "rules" if text == by_rules else "model"
    await run.attempt(
        Stage.MEMORY, conversations.increment_conversation_stat(rag.archive, how, question.asked_at), None
    )
    return replace(question, text=text)


async def _rewrite_by_model(
    question: Question, turns: Sequence[ConversationTurn], model: LanguageModel, run: Run
) -> str:
    """Rewrite by the model; call it in a stage. Raises GenerationFailed, also for an unfaithful rewrite."""
    template = load_prompt("followup", question.lang)
    prompt = Prompt(template.system, f"{_format_turns(turns)}\n{quote_question(question.text)}", template.shots)
    costs = LlmCosts()
    async with run.open_session(model, question.viewer.user_id) as session:
        costs.call()
        end = await collect_generation(
            session.stream(
                prompt, DecodingParams(_MAX_REWRITE_TOKENS, 0.0), grammar=build_paragraph_grammar(_MAX_REWRITE_LENGTH)
            )
        )
    costs.add_stats(end.figures)
    run.note(**costs.to_counts())
    text = " ".join(clean_reply(end.text).split())[:_MAX_REWRITE_LENGTH]
    if not _is_faithful_rewrite(text, question.text, turns):
        raise GenerationFailed(_REWRITE_REJECTED)
    return text


def _format_turns(turns: Sequence[ConversationTurn]) -> str:
    """Format the last turns as data between markers."""
    formatted = [
        f"{escape_prompt_text(turn.question)} ({escape_prompt_text(', '.join(turn.entities))})"
        for turn in turns[-_SHOWN_TURNS:]
    ]
    lines = [line.removesuffix(" ()") for line in formatted]
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
