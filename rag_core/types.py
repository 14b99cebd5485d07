"""Domain types: frozen dataclasses in the order in which a question meets them, without input or output.

Offsets are counted in Unicode code points of the post's text, except in `Entity`, which keeps Telegram's UTF-16
units (https://core.telegram.org/api/entities#entity-length). All datetimes are aware and in UTC, except
`Question.asked_at`, which is in the asker's time zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "Answer",
    "Channel",
    "Citation",
    "Draft",
    "Entity",
    "Evidence",
    "Hit",
    "Kind",
    "Media",
    "Origin",
    "Passage",
    "Plan",
    "Post",
    "PostKey",
    "Question",
    "Sentence",
    "Shortfall",
    "Source",
    "Viewer",
    "Visibility",
    "format_channel_post_link",
    "format_post_link",
]


class PostKey(NamedTuple):
    """What a post is known by, everywhere."""

    chat_id: int
    message_id: int


class Visibility(StrEnum):
    """Who may read a channel's posts through the bot. Admins read all three."""

    PUBLIC = "public"
    MEMBERS = "members"
    ADMINS = "admins"


@dataclass(frozen=True, slots=True)
class Channel:
    """A source of posts. `username` has no @ and is resolved when a link is made, never stored in an answer.

    `inside`: the bot is a member now. `guarded_too`: an admin lets its protected and paid posts be found.
    `bindable`: an admin lets the admins of groups bind it, though it is not public.
    """

    chat_id: int
    title: str
    username: str | None = None
    kind: str = "channel"
    visibility: Visibility = Visibility.ADMINS
    state: str = "active"
    inside: bool = False
    guarded_too: bool = False
    bindable: bool = False


def format_post_link(key: PostKey, username: str | None) -> str:
    """The https link that opens the post; private channels' links open for their members only.

    Source: https://core.telegram.org/api/links#message-links
    """
    if username:
        return f"https://t.me/{username}/{key.message_id}"
    bare = str(key.chat_id).removeprefix("-100").removeprefix("-")
    return f"https://t.me/c/{bare}/{key.message_id}"


def format_channel_post_link(key: PostKey, channel: Channel | None) -> str:
    """The same with the username that the channel has now; None for one that is not known."""
    return format_post_link(key, channel.username if channel else None)


@dataclass(frozen=True, slots=True)
class Entity:
    """A span of formatting in UTF-16 units, with Telegram's own type names."""

    type: str
    offset: int
    length: int
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """What a post carries beside its text; `kind` as in the Bot API: photo, video, document, poll ..."""

    kind: str
    file_name: str | None = None
    mime: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a forwarded post comes from. Only `name` is certain: exports often know no id."""

    name: str
    chat_id: int | None = None
    message_id: int | None = None
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Post:
    """One message of a channel, in one version. The text is what people read, captions and polls included.

    `guarded` is "protected" where Telegram forbids to copy it, "paid" where readers pay for it.
    """

    key: PostKey
    date: datetime
    text: str
    edited: datetime | None = None
    author: str | None = None
    entities: tuple[Entity, ...] = ()
    links: tuple[str, ...] = ()
    media: Media | None = None
    origin: Origin | None = None
    reply_to: int | None = None
    album: str | None = None
    views: int | None = None
    version: int = 1
    guarded: str | None = None

    @property
    def stamp(self) -> datetime:
        """When this version was written: the newest version has the greatest."""
        return self.edited or self.date


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks, and the channels this asker may read. There is no value for "all": it is always spelt out."""

    user_id: int
    channels: frozenset[int]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, by whom, where and when; `lang` is "ru" or "en", the language the answer is written in.

    `asked_at` is in the asker's time zone: days that are named ("yesterday") are days there.
    """

    text: str
    lang: str
    asked_at: datetime
    viewer: Viewer
    chat: int = 0
    thread: int | None = None


class Kind(StrEnum):
    """What a question wants. HOW_MANY to TIMELINE are answered exactly, from all posts that match.

    POSTED: what was posted in a period. LIST, COMPARE, SUMMARY and CLAIM ("is it true that") are searched as
    facts are, and route to a recipe of their own.
    """

    FACT = "fact"
    WHEN = "when"
    HOW_MANY = "how_many"
    FIRST = "first"
    LAST = "last"
    POSTED = "posted"
    TIMELINE = "timeline"
    LIST = "list"
    COMPARE = "compare"
    SUMMARY = "summary"
    CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a question is searched. `since` is inclusive, `until` exclusive; `channels` None means the viewer's.

    `queries`: the question itself, then others that are to find what it does not; `should` are words that help
    when they stand in a post; `slack`: so many days around the period are meant as well; `reasons` go into the
    trace. `authors`, `origins`, `media` and `files` are names as they were said, of which a post has one; `asked`
    is the question without the words that became filters; `like` is a made-up post whose like the dense leg looks for.
    """

    queries: tuple[str, ...]
    kind: Kind = Kind.FACT
    topic: str = ""
    must: tuple[str, ...] = ()
    should: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    channels: frozenset[int] | None = None
    authors: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    asked: str = ""
    like: str = ""
    k: int = 50
    slack: int = 0
    legs: str = "hybrid"
    reasons: tuple[str, ...] = ()

    @property
    def narrowed(self) -> bool:
        """Whether only posts of a certain author, origin, kind or file are meant."""
        return bool(self.authors or self.origins or self.media or self.files)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a post: `text` is exactly `post.text[start:end]`, `header` is indexed with it and never quoted."""

    key: PostKey
    part: int
    header: str
    text: str
    start: int
    end: int
    date: datetime
    edited: datetime | None = None
    origin: Origin | None = None
    copies: tuple[PostKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage, how well it fits, and which leg found it: "lexical", "dense" or "both".

    `likeness` is the cosine between question and passage, 0 where no embedding model is in use.
    """

    passage: Passage
    score: float
    leg: str
    likeness: float = 0.0


@dataclass(frozen=True, slots=True)
class Source:
    """A passage with the number that the prompt shows, the draft cites and the reader sees; `leg` as in `Hit`."""

    number: int
    passage: Passage
    score: float
    likeness: float = 0.0
    leg: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The passages an answer may stand on, numbered from 1."""

    sources: tuple[Source, ...] = ()

    def numbered(self) -> dict[int, Source]:
        """Number -> source."""
        return {source.number: source for source in self.sources}


@dataclass(frozen=True, slots=True)
class Citation:
    """The words of a post that a sentence stands on: `quote` is exactly `post.text[start:end]`."""

    post: PostKey
    quote: str
    start: int
    end: int
    date: datetime


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an answer. `support` is 1.0 where the sentence is its quote, word for word."""

    text: str
    citations: tuple[Citation, ...]
    support: float = 1.0


@dataclass(frozen=True, slots=True)
class Draft:
    """What was written, before it is checked; `covered` is how much of the question the evidence meets, 0..1.

    `model`: the name of the model that wrote it; None where it is word for word, or worked out.
    """

    sentences: tuple[Sentence, ...] = ()
    covered: float = 0.0
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Something done without: the stage, and one plain sentence."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the reader gets. No sentences: a refusal, with the nearest posts offered as links.

    `found` is all that search brought up and that still stands, best first, whether cited or not. `understood` is a
    follow-up as the question that was answered.
    """

    sentences: tuple[Sentence, ...]
    confidence: float
    recipe: str
    model: str | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    trace_id: str = ""
    nearest: tuple[Passage, ...] = ()
    channels: dict[int, Channel] = field(default_factory=dict)
    copies: dict[PostKey, tuple[PostKey, ...]] = field(default_factory=dict)
    found: tuple[Source, ...] = ()
    understood: str = ""

    @property
    def refused(self) -> bool:
        """True where the posts do not say."""
        return not self.sentences

    def posts(self) -> tuple[PostKey, ...]:
        """The cited posts, each once, in the order of their numbers (1, 2, ...)."""
        return tuple(dict.fromkeys(c.post for s in self.sentences for c in s.citations))

    def named(self) -> tuple[PostKey, ...]:
        """The cited posts and the copies of each."""
        return tuple(dict.fromkeys(key for post in self.posts() for key in (post, *self.copies.get(post, ()))))

    def link(self, key: PostKey) -> str:
        """The link that opens a post, with the username the channel has now."""
        return format_channel_post_link(key, self.channels.get(key.chat_id))

    def without(self, *shortfalls: Shortfall) -> Answer:
        """The same answer with more said about what it did without."""
        return replace(self, shortfalls=(*self.shortfalls, *shortfalls))
