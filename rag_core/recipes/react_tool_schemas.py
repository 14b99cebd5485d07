"""Tool schemas: the input models of the tools of `react`.

Posts are named by the numbers they were found under. The docstrings are part of the JSON schemas, which servers
without GBNF receive.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rag_core.errors import RagError

SUM_FORMAT = "sum"  # format of a text in a schema: arithmetic only
MAX_POSTS = 99  # of one question: two digits in the grammar

QueryText = Annotated[str, StringConstraints(min_length=1, max_length=120)]
PostNumber = Annotated[int, Field(ge=1, le=MAX_POSTS)]
# The range of posts; days outside it may be no valid times in every time zone.
PostDay = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))]
PostNumbers = Annotated[list[PostNumber], Field(min_length=1, max_length=5)]
ChannelName = Annotated[str, StringConstraints(min_length=1, max_length=32)]  # @username or beginning of the title
HitCount = Annotated[int, Field(ge=1, le=50)]


class ToolSchema(BaseModel):
    """Base of the tool schemas: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ToolFailed(RagError):
    """Tool cannot do what it was asked; the sentence is for the model."""


class SearchInput(ToolSchema):
    """Posts that answer any of these queries, in these channels and days (inclusive), with at least this score."""

    queries: Annotated[list[QueryText], Field(min_length=1, max_length=3)]
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=3)] | None = None
    since: PostDay | None = None
    until: PostDay | None = None
    k: HitCount = 5
    threshold: float = Field(0, ge=0, le=1)


class LegInput(ToolSchema):
    """One query, and how many posts."""

    query: QueryText
    k: HitCount = 5


class QueryInput(ToolSchema):
    """A question, or a part of one."""

    query: QueryText


class FusionInput(ToolSchema):
    """Rankings of posts by their numbers, best first."""

    rankings: Annotated[list[PostNumbers], Field(min_length=2, max_length=4)]


class SummaryInput(ToolSchema):
    """Posts by their numbers, and the most characters of their summary."""

    posts: PostNumbers
    max_length: int = Field(500, ge=60, le=600)


class PostsInput(ToolSchema):
    """Posts by their numbers."""

    posts: PostNumbers


class NeighboursInput(ToolSchema):
    """A post and how many before and after it in its channel."""

    post: PostNumber
    before: int = Field(2, ge=0, le=3)
    after: int = Field(2, ge=0, le=3)


class NewestInput(ToolSchema):
    """The newest posts, of all or about something."""

    about: Annotated[str, StringConstraints(max_length=120)] | None = None
    limit: int = Field(5, ge=1, le=9)


class MentionsInput(ToolSchema):
    """Something that posts mention; days are inclusive."""

    topic: QueryText
    since: PostDay | None = None
    until: PostDay | None = None


class TimeInput(ToolSchema):
    """Words about time: "last week"."""

    text: QueryText


class CalculationInput(ToolSchema):
    """Arithmetic: numbers, + - * / // % **, brackets, abs, max, min, round, sqrt."""

    expression: Annotated[
        str, StringConstraints(min_length=1, max_length=120), Field(json_schema_extra={"format": SUM_FORMAT})
    ]


class RerankInput(ToolSchema):
    """Posts in the order in which they answer a question."""

    query: QueryText
    posts: PostNumbers


class VerifyInput(ToolSchema):
    """Something that may be so."""

    claim: Annotated[str, StringConstraints(min_length=1, max_length=300)]
