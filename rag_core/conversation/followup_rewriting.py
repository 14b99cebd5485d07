"""Follow-up rewriting: a follow-up becomes a standalone question, with the earlier questions of its conversation.

By rules times, names and things replace those of the earlier question, pronouns are replaced by their antecedents, and
any other follow-up stands in brackets beside the earlier question. A model rewrites when it is idle;
it may only repeat the conversation: a rewrite with a new name or number, or with more than one new word, is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rag_core.conversation.followup_detection import (
    EDGE_CHARACTERS,
    MAX_FOLLOWUP_LENGTH,
    PREPOSITION,
    QUESTION_WORD_PATTERN,
    RUSSIAN_GENDERS,
    TELL_MORE_PATTERN,
    Pronoun,
    extract_content_words,
    extract_subject,
    find_pronoun,
    find_question_names,
    is_followup,
    split_time,
    strip_lead_in,
)
from rag_core.conversation.followup_slot_filling import is_russian_name, names_attribute, replace_thing
from rag_core.conversation.memory import load_turns
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.planning.topics import strip_asking_phrase
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage.conversation_turns import ConversationTurn
from rag_core.text.answer_type import extract_numbers
from rag_core.text.language_detection import detect_language
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Question
from rag_core.writing.grammar import build_paragraph_grammar
from rag_core.writing.prompt_loading import escape_prompt_text, load_prompt, quote_question
from rag_core.writing.reply_parsing import clean_reply

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
