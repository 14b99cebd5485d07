"""What tools are given and what they give back, as it is written out. Posts go by the numbers they were found under."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "SUM",
    "Aspect",
    "Bounds",
    "Checked",
    "Claimed",
    "Counted",
    "Expression",
    "Found",
    "Listed",
    "Near",
    "Newest",
    "Numbers",
    "Points",
    "Reckoned",
    "Sought",
    "Spoken",
    "Text",
    "Texts",
    "Told",
    "WebFound",
    "WebPage",
    "WebSought",
    "Wire",
    "Wished",
]

SUM = "sum"  # of a text, in a schema: arithmetic alone
MOST_POSTS = 99  # of one question: two digits under a grammar

Query = Annotated[str, StringConstraints(min_length=1, max_length=120)]
Number = Annotated[int, Field(ge=1, le=MOST_POSTS)]
Day = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))]  # of posts; others may be no moments elsewhere
Several = Annotated[list[Number], Field(min_length=1, max_length=5)]


class Wire(BaseModel):
    """Every key is there, and no other; a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Sought(Wire):
    """Posts that answer a question; days are inclusive."""

    query: Query
    since: Day | None = None
    until: Day | None = None


class Numbers(Wire):
    """Posts by their numbers."""

    posts: Several


class Near(Wire):
    """A post and how many before and after it in its channel."""

    post: Number
    before: int = Field(2, ge=0, le=3)
    after: int = Field(2, ge=0, le=3)


class Newest(Wire):
    """The newest posts, of all or about something."""

    about: Annotated[str, StringConstraints(max_length=120)] | None = None
    limit: int = Field(5, ge=1, le=9)


class Aspect(Wire):
    """Something that posts mention; days are inclusive."""

    topic: Query
    since: Day | None = None
    until: Day | None = None


class Spoken(Wire):
    """Words about time: "last week"."""

    text: Query


class Expression(Wire):
    """Arithmetic: numbers, + - * / // % **, brackets, abs, max, min, round, sqrt."""

    expression: Annotated[
        str, StringConstraints(min_length=1, max_length=120), Field(json_schema_extra={"format": SUM})
    ]


class Wished(Wire):
    """Posts in the order in which they answer a question."""

    query: Query
    posts: Several


class Claimed(Wire):
    """Something that may be so."""

    claim: Annotated[str, StringConstraints(min_length=1, max_length=300)]


class WebSought(Wire):
    """For whoever plugs in a search of the web; there is none here."""

    query: Query


class Found(Wire):
    """A post in short."""

    post: int
    channel: str
    date: date
    snippet: str


class Listed(Wire):
    """Posts in short, in the order that the tool promises."""

    posts: list[Found]


class Text(Wire):
    """A post's text, or the beginning of a long one."""

    post: int
    date: date
    text: str


class Texts(Wire):
    """Texts of posts."""

    posts: list[Text]


class Counted(Wire):
    """How many posts mention something, when first and last."""

    count: int
    first: date | None = None
    last: date | None = None


class Points(Wire):
    """How many posts mention something, and a few of them in the order of their dates."""

    count: int
    posts: list[Found]


class Bounds(Wire):
    """Days from `since` to before `until`, None where open; all None: the words speak of no time that has begun."""

    since: date | None = None
    until: date | None = None


class Reckoned(Wire):
    """What came out, to twelve digits."""

    result: str


class Told(Wire):
    """Sentences, word for word, with the number of the post each is from."""

    sentences: list[Text]


class Checked(Wire):
    """Whether posts say a claim: supported, contradicted or not_found, and the posts that decide.

    `confidence` is how likely they bear it out, 0..1: near 0 where they say otherwise.
    """

    label: str
    confidence: float
    posts: list[int]


class WebPage(Wire):
    """A page of the web. It is no post: nothing can be cited from it."""

    title: str
    snippet: str


class WebFound(Wire):
    """Pages of the web."""

    pages: list[WebPage]
