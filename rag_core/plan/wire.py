"""A plan as a model writes it, and what can be trusted of it: read strictly, cut where need be, cleaned.

Whatever a model says, nothing here raises: a plan that cannot be read proposes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from rag_core.analysis import terms
from rag_core.plan.queries import LONGEST, MOST_PHRASES, MOST_QUERIES, sanitised, short

__all__ = [
    "PLAN_GRAMMAR",
    "PLAN_SCHEMA",
    "REWRITE_GRAMMAR",
    "REWRITE_SCHEMA",
    "MetadataFilters",
    "Proposal",
    "SearchPlan",
    "alike",
    "proposed",
    "rewritten",
    "strictly",
]

# With these lengths a plan of Russian words, at 2.5 characters a token, fits the 256 tokens it may have.
LONGEST_PHRASE, LONGEST_CHANNEL = 24, 32
_ALIKE = 0.8  # share of common terms: of five words one may differ at most

Query = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
Phrase = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_PHRASE)]


class _Wire(BaseModel):
    """Every key is there, and no other; a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MetadataFilters(_Wire):
    """Days are inclusive; a channel by its @username or how its title begins."""

    date_from: date | None
    date_to: date | None
    channel: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_CHANNEL)] | None
    author: Phrase | None


class SearchPlan(_Wire):
    """The plan on the wire."""

    normalized_queries: list[Query] = Field(min_length=3, max_length=MOST_QUERIES)
    must_phrases: list[Phrase] = Field(max_length=2)
    should_phrases: list[Phrase] = Field(max_length=3)
    metadata_filters: MetadataFilters | None
    k_per_query: int = Field(ge=1, le=50)
    fusion: Literal["rrf", "mmr"]


_REWRITE = TypeAdapter[list[str]](Annotated[list[Query], Field(min_length=1, max_length=3)])


def _grammar(name: str) -> str:
    return files("rag_core.plan").joinpath(name).read_text(encoding="utf-8")


PLAN_GRAMMAR, REWRITE_GRAMMAR = _grammar("plan.gbnf"), _grammar("rewrite.gbnf")
PLAN_SCHEMA: dict[str, Any] = SearchPlan.model_json_schema()
REWRITE_SCHEMA: dict[str, Any] = _REWRITE.json_schema()


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a model proposes, cleaned; of a text that is cut only complete queries are left."""

    queries: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    should: tuple[str, ...] = ()
    since: date | None = None
    until: date | None = None
    channel: str = ""
    author: str = ""


def strictly(text: str) -> SearchPlan | None:
    """The plan, where the text is one and nothing else."""
    try:
        return SearchPlan.model_validate_json(text)
    except (ValidationError, ValueError):  # a lone half of a letter is no text for pydantic
        return None


def proposed(text: str) -> Proposal:
    """What a reply proposes; of one that is cut or wrong its complete queries, or nothing."""
    plan = strictly(text)
    if plan is None:
        _, key, rest = text.partition('"normalized_queries"')
        return Proposal(_cleaned(_strings(rest)[:MOST_QUERIES] if key else ()))
    said = plan.metadata_filters
    return Proposal(
        _cleaned(plan.normalized_queries),
        _cleaned(plan.must_phrases),
        _cleaned(plan.should_phrases),
        said.date_from if said else None,
        said.date_to if said else None,
        sanitised(said.channel) if said and said.channel else "",
        sanitised(said.author) if said and said.author else "",
    )


def rewritten(text: str) -> tuple[str, ...]:
    """The queries of a rewrite; of one that is cut or wrong those that are complete."""
    try:
        return _cleaned(_REWRITE.validate_json(text, strict=True))
    except (ValidationError, ValueError):
        return _cleaned(_strings(text)[:3])


def alike(one: str, other: str) -> bool:
    """Whether two queries look for the same: nearly all of their terms are common."""
    mine, others = set(terms(one)), set(terms(other))
    return len(mine & others) >= _ALIKE * len(mine | others)


def _strings(text: str) -> list[str]:
    """The complete strings of a list that may break off."""
    found: list[str] = []
    rest = text.partition("[")[2].lstrip()
    while rest.startswith('"'):
        try:
            said, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            break
        found.append(said)
        rest = rest[end:].lstrip()
        if not rest.startswith(","):
            break
        rest = rest[1:].lstrip()
    return found


def _cleaned(texts: Iterable[str]) -> tuple[str, ...]:
    """Without code, orders and invisible characters, at most so long as a query may be; each looking for its own."""
    kept: list[str] = []
    for text in islice(texts, MOST_PHRASES):
        query = short(sanitised(text))
        if terms(query) and not any(alike(query, other) for other in kept):
            kept.append(query)
    return tuple(kept)
