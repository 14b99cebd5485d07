"""Domain types: frozen dataclasses in the order in which a question meets them, without input or output.

Offsets are counted in Unicode code points of the post's text, except in `Entity`, which keeps Telegram's UTF-16
units (https://core.telegram.org/api/entities#entity-length). All datetimes are aware and in UTC, except
`Question.asked_at`, which is in the asker's time zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rag_core.models.onnx_models import PassageSimilarity


class PostKey(NamedTuple):
    """Id of a post: chat and message."""

    chat_id: int
    message_id: int


class PassageRef(NamedTuple):
    """Passage reference: a part of a post, `start` and `end` in code points of its text."""

    key: PostKey
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class PostKeySet:
    """Set of posts: by channel their message ids, ascending, each once."""

    by_chat: Mapping[int, NDArray[np.int64]]

    def __len__(self) -> int:
        return sum(map(len, self.by_chat.values()))

    @classmethod
    def of(cls, keys: Iterable[PostKey]) -> PostKeySet:
        """Build from keys in any order."""
        ids_by_chat: dict[int, set[int]] = {}
        for key in keys:
            ids_by_chat.setdefault(key.chat_id, set()).add(key.message_id)
        return cls({chat: np.array(sorted(ids), np.int64) for chat, ids in ids_by_chat.items()})

    def __and__(self, other: PostKeySet) -> PostKeySet:
        """Intersection."""
        both = self.by_chat.keys() & other.by_chat.keys()
        shared = {chat: np.intersect1d(self.by_chat[chat], other.by_chat[chat], assume_unique=True) for chat in both}
        return PostKeySet({chat: ids for chat, ids in shared.items() if len(ids)})

    def __or__(self, other: PostKeySet) -> PostKeySet:
        """Union."""
        nothing = np.zeros(0, np.int64)
        chats = self.by_chat.keys() | other.by_chat.keys()
        return PostKeySet({c: np.union1d(self.by_chat.get(c, nothing), other.by_chat.get(c, nothing)) for c in chats})

    def holding(self, chat_id: int, messages: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the messages of a channel that are in the set."""
        ids = self.by_chat.get(chat_id)
        if ids is None or not len(ids):
            return np.zeros(len(messages), np.bool_)
        at = np.minimum(ids.searchsorted(messages), len(ids) - 1)
        found: NDArray[np.bool_] = ids.take(at) == messages
        return found


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Filter of a search: `channels` is never implied; `since` is inclusive, `until` exclusive.

    `keys` restricts the search to these posts, as far as the other conditions allow them.
    """

    channels: frozenset[int]
    since: datetime | None = None
    until: datetime | None = None
    keys: PostKeySet | None = None


class Visibility(StrEnum):
    """Who may read a channel's posts through the bot. Admins read all three."""

    PUBLIC = "public"
    MEMBERS = "members"
    ADMINS = "admins"


@dataclass(frozen=True, slots=True)
class Channel:
    """Source of posts. `username` has no @ and is resolved when a link is made, never stored in an answer.

    `inside`: the bot is a member now. `guarded_too`: an admin allows its protected and paid posts to be found.
    `bindable`: an admin allows the admins of groups to bind it, though it is not public. `topics` are the titles of a
    forum's topics by the id of the message that opened each.
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
    topics: Mapping[int, str] = field(default_factory=dict, hash=False)


LINKLESS_KINDS = frozenset({"group", "private"})  # of chats whose messages Telegram gives no links
_LINKED_ID_PREFIX = "-100"  # of the ids of channels and supergroups


def format_channel_post_link(key: PostKey, channel: Channel | None, topic: int | None = None) -> str:
    """Link to a post with the channel's current username; None is an unknown channel. "" where Telegram has none.

    Links to private channels open for their members only: https://core.telegram.org/api/links#message-links
    """
    if channel and channel.kind in LINKLESS_KINDS:
        return ""
    place = f"{topic}/{key.message_id}" if topic else key.message_id
    if channel and channel.username:
        return f"https://t.me/{channel.username}/{place}"
    bare = str(key.chat_id).removeprefix(_LINKED_ID_PREFIX)
    return f"https://t.me/c/{bare}/{place}" if bare.isdigit() and key.chat_id < 0 else ""


@dataclass(frozen=True, slots=True)
class Entity:
    """Span of formatting in UTF-16 units, with Telegram's own type names."""

    type: str
    offset: int
    length: int
    url: str | None = None


PICTURE, VOICE, DOCUMENT, PAGE = "picture", "voice", "document", "page"
DOUBTFUL_MARK = "(?)"  # after a number that could hardly be read


@dataclass(frozen=True, slots=True)
class MediaFile:
    """File of a post whose text can be read, as a `kind` of `MediaText`.

    `id` begins with its source and is the same for the same file: "bot:" and Telegram's `file_unique_id`, "mtproto:"
    and the id of the file, "path:", the size and the name of an export's file. `locator` is what it is fetched by: the
    Bot API's `file_id`, a path, or "" where the message itself is asked for. `size` is in bytes and `seconds` the
    length of a recording, 0 where it is not known.
    """

    kind: str
    id: str
    locator: str
    size: int = 0
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class Media:
    """Attachment of a post; `kind` as in the Bot API: photo, video, document, poll ...

    `file` is known of posts that arrive, not of those that are read from the archive.
    """

    kind: str
    file_name: str | None = None
    mime: str | None = None
    file: MediaFile | None = field(default=None, compare=False)


class MediaText(NamedTuple):
    """Text of a part of a post's file, without empty lines.

    `kind` is PICTURE, VOICE, DOCUMENT or PAGE (the preview of a linked page); `place` the second at which it is said,
    or the page of a document, from 1.
    """

    kind: str
    text: str
    place: int | None = None


class MediaSpan(NamedTuple):
    """Span of a post's text that was read of its file; `kind` and `place` as in `MediaText`."""

    start: int
    end: int
    kind: str
    place: int | None

    def is_doubtful(self, quote: str) -> bool:
        """Whether a quote of it may be misread: what was heard always, numbers with a mark."""
        return self.kind == VOICE or DOUBTFUL_MARK in quote


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a forwarded post. Only `name` is certain: exports often have no id."""

    name: str
    chat_id: int | None = None
    message_id: int | None = None
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Post:
    """One version of a channel message. The text includes captions and polls.

    `media_text` is what was read of its file; of a visible post the text ends with it, each in lines of its own.
    `guarded` is "protected" where Telegram forbids copying, "paid" where readers pay for the post. `topic` is the id of
    the message that opened its topic in a forum.
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
    version: int = 1
    guarded: str | None = None
    topic: int | None = None
    media_text: tuple[MediaText, ...] = ()

    @property
    def stamp(self) -> datetime:
        """Time of this version: that of the edit, else of the post; the newest version has the greatest."""
        return self.edited or self.date

    @property
    def own_text(self) -> str:
        """Text of a visible post without that of its file."""
        spans = self.list_media_spans()
        return self.text[: spans[0].start].rstrip() if spans else self.text

    def list_media_spans(self) -> list[MediaSpan]:
        """Spans of the text that were read of the file, of a visible post."""
        start = len(self.text) - sum(len(one.text) + 1 for one in self.media_text) + 1
        spans = []
        for one in self.media_text:
            spans.append(MediaSpan(start, start + len(one.text), one.kind, one.place))
            start += len(one.text) + 1
        return spans

    def find_media_span(self, start: int, end: int) -> MediaSpan | None:
        """The first span that was read of the file and shares words with a part of the text."""
        return next((span for span in self.list_media_spans() if span.start < end and start < span.end), None)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Reader and the channels this reader may read. There is no value for "all": they are always listed.

    What could not be looked at now: `unconfirmed` are channels that the reader was a member of when Telegram last said
    so; `incomplete`: it did not say either whether the reader is a member of others. A channel of which the reader is
    not known to be a member is never counted: its number would tell of closed channels.
    """

    user_id: int
    channels: frozenset[int]
    unconfirmed: frozenset[int] = frozenset()
    incomplete: bool = False

    def select_readable(self, known: Mapping[int, Channel]) -> dict[int, Channel]:
        """Those of the known channels, by chat id, that the reader may read."""
        return {chat_id: channel for chat_id, channel in known.items() if chat_id in self.channels}

    def may_miss(self, chat_id: int) -> bool:
        """Whether it is not known now if this reader may read a channel."""
        return chat_id not in self.channels and (self.incomplete or chat_id in self.unconfirmed)

    def narrow(self, chosen: frozenset[int]) -> Viewer:
        """Copy with these channels alone, as far as the reader may read them."""
        channels, unconfirmed = self.channels & chosen, self.unconfirmed & chosen
        incomplete = self.incomplete and not chosen <= channels | unconfirmed
        return replace(self, channels=channels, unconfirmed=unconfirmed, incomplete=incomplete)

    def list_shortfalls(self) -> list[Shortfall]:
        """The shortfall of what is made for this viewer where channels could not be looked at."""
        if not (self.unconfirmed or self.incomplete):
            return []
        reason = "Telegram did not say which channels the reader is a member of."
        return [Shortfall("membership", reason, len(self.unconfirmed))]


@dataclass(frozen=True, slots=True)
class Question:
    """Question with its reader, place and time; `lang` is "ru" or "en", the language of the answer.

    `asked_at` is in the asker's time zone, in which "yesterday" is understood.
    """

    text: str
    lang: str
    asked_at: datetime
    viewer: Viewer
    chat: int = 0
    thread: int | None = None

    def localize(self, moment: datetime) -> datetime:
        """The moment in the asker's time zone, in which its day is told."""
        return moment.astimezone(self.asked_at.tzinfo)


class Kind(StrEnum):
    """Intent of a question. HOW_MANY to TIMELINE are answered exactly, from all posts that match.

    POSTED asks for the posts of a period, NEWS for the newest posts about a topic, COMING for what posts announce for
    the days ahead, INTRODUCTION who runs a channel or what it is about, DEFINITION who or what a name stands for. LIST,
    COMPARE, SUMMARY and CLAIM ("is it true that") are searched like facts, and are routed to their own recipe.
    """

    FACT = "fact"
    WHEN = "when"
    HOW_MANY = "how_many"
    FIRST = "first"
    LAST = "last"
    POSTED = "posted"
    NEWS = "news"
    COMING = "coming"
    INTRODUCTION = "introduction"
    DEFINITION = "definition"
    TIMELINE = "timeline"
    LIST = "list"
    COMPARE = "compare"
    SUMMARY = "summary"
    CLAIM = "claim"


AUTO_RECIPE = "auto"  # the recipe is chosen for each question, one of the following two
DIRECT_RECIPE, AGENT_RECIPE = "direct", "agent"
TELEGRAM_START = datetime(2013, 8, 14, tzinfo=UTC)  # no post is older than Telegram
LEXICAL_ONLY, HYBRID, DENSE_FIRST = "lexical", "hybrid", "meaning first"  # retrievers of a plan, its `legs`


@dataclass(frozen=True, slots=True)
class Plan:
    """Search plan of a question. `since` is inclusive, `until` exclusive; `channels` None means the viewer's.

    `queries`: the question itself, then expansions; `should`: words that raise the score of a post; `slack`: days
    around the period that count as well; `yearless`: the question names no year, so that an earlier one fits too;
    `reasons` go into the trace. `authors`, `origins`, `media` and `files` are names as written in the question, of
    which a post must match one; `asked` is the question without the words that became filters; `whole`: it asks what
    there is to tell of something ("tell me about the pool"), and for no value; `like` is a hypothetical post (HyDE) for
    the dense retriever; `read_as` holds the words whose spelling was corrected, as (typed, read); `k_per_query` hits of
    each retriever for each query; the queries are fused by reciprocal rank, and then alike posts are left out by MMR
    where `diverse`; `aliases` are (term, other name) that posts or administrators gave.
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
    whole: bool = False
    like: str = ""
    k_per_query: int = 50
    diverse: bool = True
    slack: int = 0
    yearless: bool = False
    legs: str = HYBRID
    reasons: tuple[str, ...] = ()
    read_as: tuple[tuple[str, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def has_filters(self) -> bool:
        """Whether the plan filters by author, origin, kind or file."""
        return bool(self.authors or self.origins or self.media or self.files)


@dataclass(frozen=True, slots=True)
class Passage:
    """Chunk of a post: `text` is exactly `post.text[start:end]`, `header` is indexed with it and never quoted.

    `file_name` is in the header too; `media` is the kind of the post's attachment, "" for none. `read`: spans of the
    post's text that were read of its file.
    """

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
    file_name: str = ""
    media: str = ""
    topic: int | None = None
    read: tuple[MediaSpan, ...] = ()

    @property
    def title(self) -> str:
        """Title of the channel, with which the header begins."""
        return self.header.partition(" · ")[0]

    def cite(self, span: tuple[int, int]) -> Citation:
        """Cite a span of its text."""
        at, to = self.start + span[0], self.start + span[1]
        found = next((one for one in self.read if one.start < to and at < one.end), None)
        return Citation(self.key, self.text[slice(*span)], at, to, self.date, found)

    @property
    def ref(self) -> PassageRef:
        """Reference to this part of its post."""
        return PassageRef(self.key, self.part, self.start, self.end)


@dataclass(frozen=True, slots=True)
class Hit:
    """Passage with its score and the retriever that found it (`leg`): "lexical", "dense" or "both".

    `likeness` is the cosine between question and passage, 0 without an embedding model.
    """

    passage: Passage
    score: float
    leg: str
    likeness: float = 0.0


@dataclass(frozen=True, slots=True)
class Source:
    """Passage with its number in the prompt, in the draft's citations and for the reader; `leg` as in `Hit`."""

    number: int
    passage: Passage
    score: float
    leg: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Passages that an answer may cite, numbered from 1.

    `boilerplate`: by channel, the keys of lines that most of its posts repeat; they answer nothing. `similarities`: of
    the question to the sources, by their numbers, where the embedding model compares tokens.
    """

    sources: tuple[Source, ...] = ()
    boilerplate: Mapping[int, frozenset[str]] = field(default_factory=dict)
    similarities: Mapping[int, PassageSimilarity] = field(default_factory=dict)

    def extend(self, sources: Sequence[Source]) -> Evidence:
        """Copy with further sources, numbered after its own."""
        after = max((source.number for source in self.sources), default=0)
        more = (replace(source, number=after + n) for n, source in enumerate(sources, 1))
        return replace(self, sources=(*self.sources, *more))


@dataclass(frozen=True, slots=True)
class Citation:
    """Quote of a post that supports a sentence: `quote` is exactly `post.text[start:end]`.

    `read`: the first span of what was read of the post's file that it has words of.
    """

    post: PostKey
    quote: str
    start: int
    end: int
    date: datetime
    read: MediaSpan | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence of an answer. `support` is 1.0 where the sentence is its quote, word for word.

    `further`: a quote that may answer where the first does not: it is shown folded.
    """

    text: str
    citations: tuple[Citation, ...]
    support: float = 1.0
    further: bool = False

    def quotes(self, citations: Iterable[Citation]) -> bool:
        """Whether it quotes some words of these citations."""
        pairs = ((own, one) for one in citations for own in self.citations)
        return any(own.post == one.post and own.start < one.end and one.start < own.end for own, one in pairs)


class Certainty(StrEnum):
    """Degree of certainty of an answer; NONE is a refusal."""

    SURE = "sure"
    PROBABLE = "probable"
    NONE = "none"


class DropReason(StrEnum):
    """Reason why a sentence of a model is not shown. The posts are those that it names."""

    UNCITED = "uncited"  # it names no post, or is no sentence of an answer
    LONG = "long"
    NUMBER = "number"  # that the posts lack, or do not say with the rest
    NAME = "name"
    LINK = "link"
    DENIED = "denied"  # or left open
    OTHER = "other"  # said of something else
    APART = "apart"  # said in different sentences
    WORDS = "words"  # too few of them are in the posts
    CHANGED = "changed"  # the post is edited, deleted or closed meanwhile


@dataclass(frozen=True, slots=True)
class DroppedSentence:
    """Sentence that a model wrote and that is not shown, with the posts that it names."""

    text: str
    reason: DropReason
    posts: tuple[PostKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """Answer before it is checked; `likely` is the probability that the evidence answers the question, 0..1.

    `model`: the name of the model that wrote it; None for a verbatim or computed answer. `missing`: the parts of the
    question that nothing was found for. `doubted`: sentences of the model that none of its posts supports.
    `candidates`: quotes that a model may be asked about, whether they answer, that of the first sentence first; none
    where it does not answer by itself (a series). `judged`: the model's log odds that the first sentence answers.
    `near`: passages that a refusal offers instead, none where nothing found is about the question.
    """

    sentences: tuple[Sentence, ...] = ()
    likely: float = 0.0
    model: str | None = None
    certainty: Certainty = Certainty.SURE
    missing: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()
    candidates: tuple[Sentence, ...] = ()
    judged: float | None = None
    near: tuple[Passage, ...] = ()

    def graded_by(self, extract: Draft) -> Draft:
        """Copy with the certainty and the near passages of the extract; where that found nothing, it is probable."""
        certainty = Certainty.PROBABLE if extract.certainty is Certainty.NONE else extract.certainty
        return replace(self, certainty=certainty, near=extract.near)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Degradation of an answer: the stage that failed, one plain sentence, and the number that it is about."""

    stage: str
    reason: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Action:
    """Step of an answer: a stage or a tool of `react`, its duration, and whether it succeeded."""

    tool: str
    took_ms: float
    ok: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Checked answer for the reader. Without sentences it is a refusal, with the nearest posts as links.

    `found` has all sources of the search that are still current, best first, cited or not. `understood` is the
    standalone question that a follow-up was rewritten to, `restated` the same where it is a sentence that readers can
    be shown; `certainty` decides how the answer begins. `read_as` and `aliases` are those of the plan; `missing` are
    the parts of the question that nothing was found for. `actions` are for programs and admins; readers never see
    them. `addresses`: links of the cited or nearest posts, where the question asks for one and no sentence shows it.
    `judged` as in `Draft`, of a refusal too. `aged`: it is probable, the question names no time, and the post of its
    first sentence is more than half a year old, with no earlier one below it.
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
    restated: str = ""
    read_as: tuple[tuple[str, str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    certainty: Certainty = Certainty.SURE
    actions: tuple[Action, ...] = field(default=(), compare=False)
    missing: tuple[str, ...] = ()
    addresses: Mapping[PostKey, tuple[str, ...]] = field(default_factory=dict)
    judged: float | None = None
    aged: bool = False

    def __post_init__(self) -> None:
        """Nothing is sure without a sentence; PROBABLE without one: a group wants only sure answers."""
        if not self.sentences and self.certainty is Certainty.SURE:
            object.__setattr__(self, "certainty", Certainty.NONE)

    @property
    def refused(self) -> bool:
        """Whether the posts do not answer the question."""
        return not self.sentences

    def counts_lines(self, sentence: Sentence) -> bool:
        """Whether a sentence counts posts that have lines of their own: computed, it quotes none of them."""
        alone = {one.citations[0].post for one in self.sentences if len(one.citations) == 1}
        posts = {c.post for c in sentence.citations}
        quoted = any(c.quote in sentence.text for c in sentence.citations)
        return self.model is None and len(posts) > 1 and posts <= alone and not quoted

    def posts(self) -> tuple[PostKey, ...]:
        """Cited posts, each once, in the order of their numbers (1, 2, ...)."""
        return tuple(dict.fromkeys(c.post for s in self.sentences for c in s.citations))

    def list_named_posts(self) -> tuple[PostKey, ...]:
        """Cited posts and the copies of each."""
        return tuple(dict.fromkeys(key for post in self.posts() for key in (post, *self.copies.get(post, ()))))

    def link(self, key: PostKey) -> str:
        """Link to a post with the channel's current username and the post's topic; "" where Telegram has none."""
        passages = (*(source.passage for source in self.found), *self.nearest)
        topic = next((passage.topic for passage in passages if passage.key == key), None)
        return format_channel_post_link(key, self.channels.get(key.chat_id), topic)
