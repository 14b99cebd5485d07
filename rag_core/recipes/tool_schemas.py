"""Tool schemas: the input and output models of the tools of `react`.

Posts are named by the numbers they were found under. The docstrings of the input models are part of their JSON
schemas, which servers without GBNF receive.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SUM_FORMAT = "sum"  # format of a text in a schema: arithmetic only
MAX_POSTS = 99  # of one question: two digits in the grammar

QueryText = Annotated[str, StringConstraints(min_length=1, max_length=120)]
PostNumber = Annotated[int, Field(ge=1, le=MAX_POSTS)]
# The range of posts; days outside it may be no valid times in every time zone.
PostDay = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))]
PostNumbers = Annotated[list[PostNumber], Field(min_length=1, max_length=5)]


class ToolSchema(BaseModel):
    """Base of the tool schemas: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SearchInput(ToolSchema):
    """Posts that answer a question; days are inclusive."""

    query: QueryText
    since: PostDay | None = None
    until: PostDay | None = None


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


class WebSearchInput(ToolSchema):
    """Input of a web search that an installation may plug in; none is included."""

    query: QueryText


class PostSummary(ToolSchema):
    """Summary of a post."""

    post: int
    channel: str
    date: date
    snippet: str


class PostListOutput(ToolSchema):
    """Summaries of posts, in the tool's order."""

    posts: list[PostSummary]


class PostText(ToolSchema):
    """Text of a post, truncated where it is long."""

    post: int
    date: date
    text: str


class PostTextsOutput(ToolSchema):
    """Texts of posts."""

    posts: list[PostText]


class MentionCountOutput(ToolSchema):
    """Number of posts that mention a topic, and the first and last day."""

    count: int
    first: date | None = None
    last: date | None = None


class TimelineOutput(ToolSchema):
    """Number of posts that mention a topic, and a sample in order of date."""

    count: int
    posts: list[PostSummary]


class DateBoundsOutput(ToolSchema):
    """Days from `since` to before `until`, None where open; both None where the words name no past time."""

    since: date | None = None
    until: date | None = None


class CalculationOutput(ToolSchema):
    """Result of a calculation, to twelve digits."""

    result: str


class SummaryOutput(ToolSchema):
    """Verbatim sentences, each with the number of its post."""

    sentences: list[PostText]


class VerifyOutput(ToolSchema):
    """Verdict on a claim: supported, contradicted or not_found, and the deciding posts.

    `confidence` is the likelihood that they support the claim, 0..1: near 0 where they contradict it.
    """

    label: str
    confidence: float
    posts: list[int]


class WebPage(ToolSchema):
    """Page of the web. It is no post and cannot be cited."""

    title: str
    snippet: str


class WebSearchOutput(ToolSchema):
    """Results of a web search."""

    pages: list[WebPage]
