"""Tool schemas: the input and output models of the tools of `react`.

Posts are named by the numbers they were found under.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "SUM_FORMAT",
    "CalculationInput",
    "CalculationOutput",
    "DateBoundsOutput",
    "MentionCountOutput",
    "MentionsInput",
    "NeighboursInput",
    "NewestInput",
    "PostListOutput",
    "PostSummary",
    "PostText",
    "PostTextsOutput",
    "PostsInput",
    "RerankInput",
    "SearchInput",
    "SummaryOutput",
    "TimeInput",
    "TimelineOutput",
    "ToolSchema",
    "VerifyInput",
    "VerifyOutput",
    "WebPage",
    "WebSearchInput",
    "WebSearchOutput",
]

SUM_FORMAT = "sum"  # of a text, in a schema: arithmetic alone
MAX_POSTS = 99  # of one question: two digits under a grammar

QueryText = Annotated[str, StringConstraints(min_length=1, max_length=120)]
PostNumber = Annotated[int, Field(ge=1, le=MAX_POSTS)]
PostDay = Annotated[
    date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))
]  # of posts; others may be no moments elsewhere
PostNumbers = Annotated[list[PostNumber], Field(min_length=1, max_length=5)]


class ToolSchema(BaseModel):
    """Every key is there, and no other; a number in quotes is no number."""

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
    """For whoever plugs in a search of the web; there is none here."""

    query: QueryText


class PostSummary(ToolSchema):
    """A post in short."""

    post: int
    channel: str
    date: date
    snippet: str


class PostListOutput(ToolSchema):
    """Posts in short, in the order that the tool promises."""

    posts: list[PostSummary]


class PostText(ToolSchema):
    """A post's text, or the beginning of a long one."""

    post: int
    date: date
    text: str


class PostTextsOutput(ToolSchema):
    """Texts of posts."""

    posts: list[PostText]


class MentionCountOutput(ToolSchema):
    """How many posts mention something, when first and last."""

    count: int
    first: date | None = None
    last: date | None = None


class TimelineOutput(ToolSchema):
    """How many posts mention something, and a few of them in the order of their dates."""

    count: int
    posts: list[PostSummary]


class DateBoundsOutput(ToolSchema):
    """Days from `since` to before `until`, None where open; all None: the words speak of no time that has begun."""

    since: date | None = None
    until: date | None = None


class CalculationOutput(ToolSchema):
    """What came out, to twelve digits."""

    result: str


class SummaryOutput(ToolSchema):
    """Sentences, word for word, with the number of the post each is from."""

    sentences: list[PostText]


class VerifyOutput(ToolSchema):
    """Whether posts say a claim: supported, contradicted or not_found, and the posts that decide.

    `confidence` is how likely they bear it out, 0..1: near 0 where they say otherwise.
    """

    label: str
    confidence: float
    posts: list[int]


class WebPage(ToolSchema):
    """A page of the web. It is no post: nothing can be cited from it."""

    title: str
    snippet: str


class WebSearchOutput(ToolSchema):
    """Pages of the web."""

    pages: list[WebPage]
