"""Plan schema and reply parsing: the JSON plan that a model writes, its grammar, and a tolerant parser of replies.

Parsing never raises, whatever the reply: an unreadable plan gives an empty proposal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

from rag_core.planning.queries import MAX_PHRASES, MAX_QUERIES, MAX_QUERY_LENGTH, sanitize_query, truncate_query
from rag_core.text.tokens import tokenize

# Characters; with these lengths a plan of Russian words, at 2.5 characters a token, fits its 256 tokens.
MAX_PHRASE_LENGTH, MAX_CHANNEL_LENGTH = 24, 32
_SIMILAR_SHARE = 0.8  # share of common terms: at most one of five words may differ

QueryText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY_LENGTH)]
PhraseText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PHRASE_LENGTH)]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MetadataFilters(_StrictModel):
    """Metadata filters of a plan: inclusive days; a channel by its @username or the beginning of its title."""

    date_from: date | None
    date_to: date | None
    channel: Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHANNEL_LENGTH)] | None
    author: PhraseText | None


class SearchPlan(_StrictModel):
    """Plan in the JSON form that the model writes."""

    normalized_queries: list[QueryText] = Field(min_length=3, max_length=MAX_QUERIES)
    must_phrases: list[PhraseText] = Field(max_length=2)
    should_phrases: list[PhraseText] = Field(max_length=3)
    metadata_filters: MetadataFilters | None
    k_per_query: int = Field(ge=1, le=50)
    fusion: Literal["rrf", "mmr"]


class ShortPlan(_StrictModel):
    """Short plan, for the small models of `mapreduce`: keywords and filters."""

    keywords: list[PhraseText] = Field(min_length=1, max_length=6)
    filters: MetadataFilters | None


_REWRITE_ADAPTER = TypeAdapter[list[str]](Annotated[list[QueryText], Field(min_length=1, max_length=3)])


def _load_grammar(name: str) -> str:
    return files("rag_core.planning").joinpath(name).read_text(encoding="utf-8")


PLAN_GRAMMAR, REWRITE_GRAMMAR = _load_grammar("plan.gbnf"), _load_grammar("rewrite.gbnf")
_SHORT_ROOT = r'root ::= "{\"keywords\": [" phrase (", " phrase){0,5} "], \"filters\": " filters "}"'
SHORT_PLAN_GRAMMAR = re.sub(r"^root .*$", lambda _: _SHORT_ROOT, PLAN_GRAMMAR, count=1, flags=re.M)
SHORT_PLAN_SCHEMA: dict[str, Any] = ShortPlan.model_json_schema()
PLAN_SCHEMA: dict[str, Any] = SearchPlan.model_json_schema()
REWRITE_SCHEMA: dict[str, Any] = _REWRITE_ADAPTER.json_schema()


@dataclass(frozen=True, slots=True)
class PlanProposal:
    """Proposal of a model, cleaned; a truncated reply gives only its complete queries."""

    queries: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    should: tuple[str, ...] = ()
    since: date | None = None
    until: date | None = None
    channel: str = ""
    author: str = ""
    k_per_query: int = 0
    fusion: str = ""


P = TypeVar("P", bound=BaseModel)  # form of a plan


def parse_strictly(form: type[P], text: str) -> P | None:
    """Parse a reply that is exactly a plan of this form; None for any other text."""
    try:
        return form.model_validate_json(text)
    except ValueError:  # of pydantic, and for lone surrogates
        return None


def parse_proposal(text: str) -> PlanProposal:
    """Parse a reply to a proposal; a truncated or invalid one gives its complete queries, or nothing."""
    plan = parse_strictly(SearchPlan, text)
    if plan is None:
        _, key, rest = text.partition('"normalized_queries"')
        return PlanProposal(_clean_queries(_read_complete_strings(rest)[:MAX_QUERIES] if key else ()))
    return _add_filters(
        PlanProposal(
            _clean_queries(plan.normalized_queries),
            _clean_queries(plan.must_phrases),
            _clean_queries(plan.should_phrases),
            k_per_query=plan.k_per_query,
            fusion=plan.fusion,
        ),
        plan.metadata_filters,
    )


def parse_short_plan(text: str) -> PlanProposal:
    """Parse a short plan: its keywords are one query; a truncated or invalid one gives its complete keywords."""
    plan = parse_strictly(ShortPlan, text)
    if plan is None:
        _, key, rest = text.partition('"keywords"')
        keywords, filters = _read_complete_strings(rest)[:6] if key else [], None
    else:
        keywords, filters = plan.keywords, plan.filters
    return _add_filters(PlanProposal(_clean_queries([" ".join(keywords)] if keywords else ())), filters)


def _add_filters(proposal: PlanProposal, filters: MetadataFilters | None) -> PlanProposal:
    if filters is None:
        return proposal
    return replace(
        proposal,
        since=filters.date_from,
        until=filters.date_to,
        channel=sanitize_query(filters.channel or ""),
        author=sanitize_query(filters.author or ""),
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


def _read_complete_strings(text: str) -> list[str]:
    """Complete strings of a JSON list that may be truncated."""
    strings: list[str] = []
    rest = text.partition("[")[2].lstrip()
    while rest.startswith('"'):
        try:
            string, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            break
        strings.append(string)
        rest = rest[end:].lstrip()
        if not rest.startswith(","):
            break
        rest = rest[1:].lstrip()
    return strings


def _clean_queries(texts: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for text in islice(texts, MAX_PHRASES):
        query = truncate_query(sanitize_query(text))
        if tokenize(query) and not any(are_similar_queries(query, other) for other in kept):
            kept.append(query)
    return tuple(kept)
