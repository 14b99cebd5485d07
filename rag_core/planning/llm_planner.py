"""LLM planner: a model proposes queries, phrases and filters, which are merged into the plan of the rules.

Prompts begin with the constant part, then the day and the channels; the question comes last. Parsing never raises,
whatever the reply. If the model fails, the plan of the rules is used.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from rag_core.dates import parse_period
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, Generation, LanguageModel, LlmSession, Prompt
from rag_core.planning.intents import EXACT_INTENTS, asks_about_posts
from rag_core.planning.queries import (
    MAX_PHRASES,
    MAX_QUERIES,
    MAX_QUERY_LENGTH,
    MIN_QUERIES,
    MIN_QUESTION_TERMS,
    build_transliterated_query,
    route_plan,
    sanitize_query,
    truncate_query,
)
from rag_core.run import Run, Stage
from rag_core.storage.posts import PostFacet, detect_channel_languages, list_facet_values
from rag_core.text.names import matches_name, transliterate_word
from rag_core.text.tokens import WORD, detect_language, tokenize
from rag_core.types import TELEGRAM_START, Channel, Kind, Plan, Question
from rag_core.writing.prompts import escape_prompt_text, load_prompt

if TYPE_CHECKING:
    from rag_core.engine import Engine

# Characters; with these lengths a plan of Russian words, at 2.5 characters a token, fits its 256 tokens.
_MAX_PHRASE_LENGTH, _MAX_CHANNEL_LENGTH = 24, 32
_SIMILAR_SHARE = 0.8  # share of common terms: at most one of five words may differ

QueryText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_LENGTH)]
PhraseText = Annotated[str, StringConstraints(min_length=1, max_length=_MAX_PHRASE_LENGTH)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MetadataFilters(_StrictModel):
    """Metadata filters of a plan: inclusive days; a channel by its @username or the beginning of its title."""

    date_from: date | None
    date_to: date | None
    channel: Annotated[str, StringConstraints(min_length=1, max_length=_MAX_CHANNEL_LENGTH)] | None
    author: PhraseText | None


class SearchPlan(_StrictModel):
    """Plan in the JSON form that the model writes."""

    normalized_queries: list[QueryText] = Field(min_length=3, max_length=MAX_QUERIES)
    must_phrases: list[PhraseText] = Field(max_length=2)
    should_phrases: list[PhraseText] = Field(max_length=3)
    metadata_filters: MetadataFilters | None
    k_per_query: int = Field(ge=1, le=50)
    fusion: Literal["rrf", "mmr"]


_REWRITE_ADAPTER = TypeAdapter[list[str]](Annotated[list[QueryText], Field(min_length=1, max_length=3)])


PLAN_GRAMMAR = files("rag_core.planning").joinpath("plan.gbnf").read_text(encoding="utf-8")
_REWRITE_ROOT = r'root ::= "[" query (", " query (", " query)?)? "]"'
REWRITE_GRAMMAR = re.sub(r"^root .*$", _REWRITE_ROOT, PLAN_GRAMMAR, count=1, flags=re.M)
PLAN_SCHEMA, REWRITE_SCHEMA = SearchPlan.model_json_schema(), _REWRITE_ADAPTER.json_schema()


_NO_FILTERS = MetadataFilters(date_from=None, date_to=None, channel=None, author=None)


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """Proposal of a model, with cleaned queries; a truncated reply gives only its complete queries."""

    queries: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    should: tuple[str, ...] = ()
    filters: MetadataFilters = _NO_FILTERS
    k_per_query: int = 0
    fusion: str = "mmr"


def parse_strictly(text: str) -> SearchPlan | None:
    """Parse a reply that is exactly a plan; None for any other text."""
    try:
        return SearchPlan.model_validate_json(text)
    except ValueError:  # of pydantic, and for lone surrogates
        return None


def parse_proposal(text: str) -> PlanProposal:
    """Parse a reply to a proposal; a truncated or invalid one gives its complete queries, or nothing."""
    plan = parse_strictly(text)
    if plan is None:
        return PlanProposal(_clean_queries(_read_complete_strings(text, '"normalized_queries"')[:MAX_QUERIES]))
    return PlanProposal(
        _clean_queries(plan.normalized_queries),
        _clean_queries(plan.must_phrases),
        _clean_queries(plan.should_phrases),
        plan.metadata_filters or _NO_FILTERS,
        plan.k_per_query,
        plan.fusion,
    )


def parse_rewrite(text: str) -> tuple[str, ...]:
    """Parse the queries of a rewrite; a truncated or invalid reply gives those that are complete."""
    try:
        return _clean_queries(_REWRITE_ADAPTER.validate_json(text, strict=True))
    except ValueError:
        return _clean_queries(_read_complete_strings(text)[:3])


def are_similar_queries(one: str, other: str) -> bool:
    """Whether two queries search for the same: at least 80 % of their terms are common."""
    terms, other_terms = set(tokenize(one)), set(tokenize(other))
    return len(terms & other_terms) >= _SIMILAR_SHARE * len(terms | other_terms)


def _read_complete_strings(text: str, key: str = "") -> list[str]:
    strings, rest = list[str](), text.partition(key)[2] if key else text
    rest = rest.partition("[")[2].lstrip()
    with suppress(ValueError):
        while rest.startswith('"'):
            string, end = json.JSONDecoder().raw_decode(rest)
            strings.append(string)
            rest = rest[end:].lstrip()
            rest = rest[1:].lstrip() if rest.startswith(",") else ""
    return strings


def _clean_queries(texts: Iterable[str]) -> tuple[str, ...]:
    queries = (truncate_query(sanitize_query(text)) for text in islice(texts, MAX_PHRASES))
    return _drop_similar_queries((query for query in queries if tokenize(query)), most=MAX_PHRASES)


def _drop_similar_queries(
    queries: Iterable[str], known: Sequence[str] = (), most: int = MAX_QUERIES
) -> tuple[str, ...]:
    kept: list[str] = []
    for query in queries:
        if len(kept) < most and not any(are_similar_queries(query, other) for other in (*known, *kept)):
            kept.append(query)
    return tuple(kept)


LANGUAGE_NAMES = {"en": "English", "ru": "Russian"}
_NAME_OR_NUMBER = re.compile(r"[A-ZА-ЯЁ\d]")


class QuestionWords:
    """Terms of a question in both scripts."""

    def __init__(self, text: str) -> None:
        own = WORD.findall(text)
        spelt = (other for word in own for other in transliterate_word(word))
        self.terms = frozenset(tokenize(" ".join((*own, *spelt))))

    def of(self, name: str) -> bool:
        """Whether the question contains at least one word of a name."""
        return not self.terms.isdisjoint(tokenize(" ".join(WORD.findall(name))))

    def says(self, phrase: str) -> bool:
        """Whether the question contains all words of a phrase, of one at least."""
        words = tokenize(phrase)
        return bool(words) and self.terms.issuperset(words)


@dataclass(frozen=True, slots=True)
class KnownEntities:
    """Channels by id that the asker may read, and the authors and languages of their posts."""

    channels: Mapping[int, Channel] = field(default_factory=dict)
    authors: Sequence[str] = ()
    languages: frozenset[str] = frozenset()


async def load_known_entities(question: Question, known: Mapping[int, Channel], rag: Engine) -> KnownEntities:
    """Load channels, authors and languages that the viewer may read, for the planner. Raises ArchiveUnavailable."""
    readable = question.viewer.channels
    authors = await list_facet_values(rag.archive, PostFacet.AUTHOR, readable)
    languages = await detect_channel_languages(rag.archive, readable)
    return KnownEntities(question.viewer.select_readable(known), authors, languages)


_OLDEST_DAY = TELEGRAM_START.date()


def merge_plans(
    by_rules: Plan, proposal: PlanProposal, more: Sequence[str], question: Question, around: KnownEntities
) -> Plan:
    """Merge queries: the question itself, those of the model, then those of the rules up to the limit.

    `more` are queries of the rewrite: the first of them always has a place. Filters of the rules stay; a filter of the
    model counts only if the question names it.
    """
    own = by_rules.queries[:1]
    first = _drop_similar_queries(more[:1], own)
    room = MAX_QUERIES - len(own) - len(first)
    fresh = _drop_similar_queries(proposal.queries, (*own, *first))[:room]
    queries = (*own, *fresh, *first)
    queries = (*queries, *_drop_similar_queries(more, queries))
    marks = {frozenset(tokenize(query)) for query in queries}
    # queries of the rules may differ by one word only: they fill up the number, so only equal ones are dropped
    rest = (query for query in by_rules.queries[1:] if frozenset(tokenize(query)) not in marks)
    spoken = QuestionWords(question.text)
    # names and numbers that are not in the question are invented by the model
    told = ((phrase, filter(_NAME_OR_NUMBER.search, WORD.findall(phrase))) for phrase in dict.fromkeys(proposal.should))
    phrases = [phrase for phrase, words in told if spoken.terms.issuperset(tokenize(" ".join(words)))]
    # a required phrase must consist of words of the question
    must = [phrase for phrase in proposal.must if spoken.says(phrase)]
    # a channel counts by its username or the beginning of its title, if the question says it whole; an author if named
    said = sanitize_query(proposal.filters.channel or "").strip().removeprefix("@").casefold()
    meant = [c for c in around.channels.values() if said and (spoken.says(c.username or " ") or spoken.says(c.title))]
    called = [c.chat_id for c in meant if (c.username or "").casefold() == said]
    called = called or [c.chat_id for c in meant if c.title.casefold().startswith(said)]
    author = "" if by_rules.authors else sanitize_query(proposal.filters.author or "")
    known = author and spoken.of(author) and any(matches_name(author, one) for one in around.authors)
    plan = replace(
        by_rules,
        queries=(*queries, *rest)[:MAX_QUERIES],
        k_per_query=proposal.k_per_query or by_rules.k_per_query,
        diverse=proposal.fusion == "mmr",
        must=tuple(dict.fromkeys((*by_rules.must, *must)))[:MAX_PHRASES],
        should=tuple(dict.fromkeys((*by_rules.should, *phrases)))[:MAX_PHRASES],
        channels=by_rules.channels or frozenset(called) or None,
        authors=by_rules.authors or ((author,) if known else ()),
    )
    plan = route_plan(_apply_model_dates(plan, proposal, question), question.text)
    return replace(plan, reasons=(*plan.reasons, f"{len(fresh)} queries by the model"))


def _apply_model_dates(plan: Plan, proposal: PlanProposal, question: Question) -> Plan:
    """Use the dates of the model where the rules cannot parse the period of posts ("since the pandemic")."""
    known = plan.since or plan.until or parse_period(question.text, question.asked_at)
    first, last = proposal.filters.date_from, proposal.filters.date_to
    if known or not (first or last) or not asks_about_posts(question.text.lower().replace("ё", "е")):
        return plan
    today, zone = question.asked_at.date(), question.asked_at.tzinfo or UTC
    since, until = first or _OLDEST_DAY, last or today
    if not _OLDEST_DAY <= since <= until or since > today:
        return plan
    after = datetime.combine(until + timedelta(days=1), time(), zone) if last else None
    return replace(plan, since=datetime.combine(since, time(), zone) if first else None, until=after)


_MAX_PROMPT_LENGTH, _MIN_PROMPT_LENGTH = 1000, 50  # characters of the question in the prompt
_MAX_CHANNELS = 8
_TEMPLATE_TOKENS = 16  # tokens of a chat template around each text, at most
_CONTEXT_TOO_SMALL = "The context of the model is too small to plan a search in: raise LLM__CONTEXT."


def build_plan_prompt(question: Question, around: KnownEntities, most: int = _MAX_PROMPT_LENGTH) -> Prompt:
    """Build the prompt for a plan, with at most `most` characters of the question."""
    template, text = load_prompt("plan", "all"), sanitize_query(question.text)
    text = escape_prompt_text(text)[:most]
    languages, titles, spoken = ", ".join(sorted(around.languages)) or question.lang, list[str](), QuestionWords(text)
    named = [c for c in around.channels.values() if spoken.of(f"{c.title} {c.username or ''}")]
    for channel in sorted(named, key=lambda one: one.chat_id, reverse=True)[:_MAX_CHANNELS]:
        title = escape_prompt_text(sanitize_query(channel.title)).replace(";", ",")[:_MAX_CHANNEL_LENGTH].strip()
        titles.append(f"@{channel.username} {title}" if channel.username else title)
    known = f"Languages: {languages}. Channels: {'; '.join(titles) or 'none'}."
    ask = f"Today: {question.asked_at:%Y-%m-%d}. {known}\nQuestion: {text}"
    return Prompt(template.system, ask, template.shots)


def build_rewrite_prompt(
    question: Question, around: KnownEntities, queries: Sequence[str], other: str, most: int = _MAX_PROMPT_LENGTH
) -> Prompt:
    """Build the prompt for more queries, the first in the language `other`; it begins like the plan prompt."""
    prompt = build_plan_prompt(question, around, most)
    request = f"More queries, not these: {' | '.join(map(escape_prompt_text, queries))}."
    language = f" The first in {LANGUAGE_NAMES[other]}." if other else ""
    return replace(prompt, ask=f"{prompt.ask}\n{request}{language}")


async def fit_prompt(prompt: Callable[[int], Prompt], tokens: int, seat: LlmSession) -> Prompt:
    """Build the prompt with as much of the question as fits into `tokens`. Raises GenerationFailed."""
    most = _MAX_PROMPT_LENGTH
    while True:
        candidate = await asyncio.to_thread(prompt, most)  # a long question takes 10 ms
        texts = [candidate.system, *(text for shot in candidate.shots for text in shot), candidate.ask]
        room = tokens - _TEMPLATE_TOKENS * (len(texts) + 1)
        if sum(len(text.encode()) for text in texts) <= room:  # a token is at least a byte: no need to count
            return candidate
        over = sum(await seat.count(texts)) - room
        if over <= 0:
            return candidate
        if most == _MIN_PROMPT_LENGTH:
            raise GenerationFailed(_CONTEXT_TOO_SMALL)
        most = max(_MIN_PROMPT_LENGTH, min(most, len(candidate.ask)) - max(over // 2, _MIN_PROMPT_LENGTH))


PLAN_DECODING = DecodingParams(max_tokens=256, repeat_penalty=1.2)
REWRITE_DECODING = DecodingParams(max_tokens=128, repeat_penalty=1.2)
_SETTLED_INTENTS = EXACT_INTENTS | {Kind.POSTED, Kind.COMING, Kind.INTRODUCTION}
_UNREADABLE_REPLY = "The model's {} could not be read: only the rules' queries are searched with."


@dataclass(frozen=True, slots=True)
class _PlannerRequest:
    """What is asked for, decoding parameters, and the grammar, the schema and the parser of the reply."""

    name: str
    decoding: DecodingParams
    grammar: str
    schema: Mapping[str, Any]
    parse: Callable[[str], PlanProposal]


_PLAN_REQUEST = _PlannerRequest("plan", PLAN_DECODING, PLAN_GRAMMAR, PLAN_SCHEMA, parse_proposal)
_REWRITE_REQUEST = _PlannerRequest(
    "rewrite", REWRITE_DECODING, REWRITE_GRAMMAR, REWRITE_SCHEMA, lambda text: PlanProposal(parse_rewrite(text))
)


def is_worth_planning(by_rules: Plan) -> bool:
    """Whether a model can improve the plan: not for counts and lists of posts, nor for one or two terms."""
    return by_rules.kind not in _SETTLED_INTENTS and len(set(tokenize(by_rules.asked))) >= MIN_QUESTION_TERMS


async def plan_by_model(
    question: Question, by_rules: Plan, around: KnownEntities, planner: LanguageModel, run: Run
) -> Plan:
    """Extend the plan of the rules by a model; a failure or timeout of the model is a shortfall.

    The stages `plan` and `rewrite` have budgets of their own, without the wait for the model.
    """
    heard: list[str] = []
    before, prompt = len(run.shortfalls), partial(build_plan_prompt, question, around)
    asking = _ask_planner(_PLAN_REQUEST, prompt, question, planner, run, heard)
    # the complete part of a truncated reply is still used
    proposal = await run.attempt(Stage.PLAN, asking, lambda: parse_proposal("".join(heard)))
    if not proposal.queries:
        return by_rules
    if len(run.shortfalls) > before:
        return await asyncio.to_thread(merge_plans, by_rules, proposal, (), question, around)
    own = by_rules.queries[0]
    fresh = _drop_similar_queries(proposal.queries, (own,))
    # the other language that posts are in, "ru" or "en"
    other = next(iter(around.languages & LANGUAGE_NAMES.keys() - {detect_language(own)}), "")
    if any(detect_language(query) == other for query in fresh):
        other = ""
    more: tuple[str, ...] = ()
    if (other or len(fresh) + 1 < MIN_QUERIES) and not planner.waiting:
        asked = partial(build_rewrite_prompt, question, around, (truncate_query(own), *fresh), other)
        rewriting = _ask_planner(_REWRITE_REQUEST, asked, question, planner, run, [])
        more = (await run.attempt(Stage.REWRITE, rewriting, PlanProposal)).queries
    if other:  # the query in the other language first; transliterated names replace it where the model wrote none
        there = [query for query in more if detect_language(query) == other]
        spelt = () if there else filter(None, (build_transliterated_query(own),))
        more = (*there, *spelt, *(query for query in more if query not in there))
    return await asyncio.to_thread(merge_plans, by_rules, proposal, more, question, around)


async def _ask_planner(
    request: _PlannerRequest,
    asked: Callable[[int], Prompt],
    question: Question,
    planner: LanguageModel,
    run: Run,
    heard: list[str],
) -> PlanProposal:
    """Ask for a whole reply with queries; its pieces are appended to `heard` as they arrive. Raises GenerationFailed."""
    async with run.open_session(planner, question.viewer.user_id) as session:
        prompt = await fit_prompt(asked, planner.context - request.decoding.max_tokens, session)
        pieces = session.stream(prompt, request.decoding, grammar=request.grammar, schema=request.schema)
        async for piece in pieces:
            if isinstance(piece, Generation):
                figures = piece.figures
                run.note(tokens=figures.tokens, read=figures.evaluated, first_ms=round(figures.first_ms, 1))
                if (proposal := request.parse(piece.text)).queries:
                    return proposal
                raise GenerationFailed(_UNREADABLE_REPLY.format(request.name))
            heard.append(piece)
    raise GenerationFailed("The model ended without a reply: only the rules' queries are searched with.")
