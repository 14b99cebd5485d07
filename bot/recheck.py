"""Access check before sending: a message that shows posts is checked again before every attempt to send it.

A `Basis` names what a message shows: posts, channels that it names, channels that it counted over. While
`recheck_before_sending` is in force, `RecheckMiddleware` (a middleware of the Bot API session, inside the one that
retries) checks the basis before each call that carries text: first attempts, retries, parts of a long answer,
edits, drafts. So a sender cannot forget a retry, and a new sender needs one `with` statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiogram import Bot
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType

from bot import access
from bot.access import AdminRegistry
from bot.views.answer import JsonObject, hash_text_version
from rag_core.errors import ArchiveUnavailable, RagError
from rag_core.storage import Archive, posts
from rag_core.types import Answer, Citation, Post, PostKey, Sentence, Viewer
from rag_core.verification.verdicts import Verification

__all__ = [
    "DRAFT_MEMBERSHIP_MAX_AGE_SECONDS",
    "Basis",
    "ContentWithdrawn",
    "Reader",
    "RecheckMiddleware",
    "RecheckUnavailable",
    "ShownPost",
    "build_answer_basis",
    "build_draft_basis",
    "build_posts_basis",
    "build_verdicts_basis",
    "parse_basis",
    "recheck_basis",
    "recheck_before_sending",
]

# A draft changes every second or so: Telegram is asked about a membership as rarely as this, unless an update says
# that it changed. A message that stays is never sent on a cached membership.
DRAFT_MEMBERSHIP_MAX_AGE_SECONDS = 10.0
# Calls with these names bring text to a reader; "typing" does not.
_TEXT_METHOD_PREFIXES = ("send", "edit", "copy", "forward")
_CHAT_ACTION_METHOD = "sendChatAction"


class ContentWithdrawn(RagError):
    """What a message shows does not hold any more: it must not be sent."""

    def __init__(self) -> None:
        super().__init__("What this message shows was changed, deleted or closed to its reader meanwhile.")


class RecheckUnavailable(RagError):
    """It is not known whether the reader may still see a message: it must wait."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a message, and where; `private` as in `build_viewer`."""

    user_id: int
    chat_id: int
    private: bool


@dataclass(frozen=True, slots=True)
class ShownPost:
    """A post of which a message shows something.

    `mark` is that of its text (bot/kept.py), None where it was already gone and only its channel and day are shown.
    `spans` are the cited places in that text, `words` the same as text where they are at hand: an edit that leaves
    the cited words in the post withdraws nothing. Without either any edit does.
    """

    key: PostKey
    mark: str | None
    spans: tuple[tuple[int, int], ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Basis:
    """What a message stands on: posts, `channels` named beside them, and channels it was `counted` over."""

    posts: tuple[ShownPost, ...] = ()
    channels: frozenset[int] = frozenset()
    counted: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        """False for a message that shows nothing of any channel."""
        return bool(self.posts or self.channels or self.counted)

    @property
    def named(self) -> frozenset[int]:
        """All channels of which something is shown."""
        return self.channels | {shown.key.chat_id for shown in self.posts}

    def as_json(self) -> JsonObject:
        """The same for the archive, without any words of posts."""
        return {
            "posts": [[*shown.key, shown.mark, [list(span) for span in shown.spans]] for shown in self.posts],
            "channels": sorted(self.channels),
            "counted": sorted(self.counted),
        }


def parse_basis(raw: JsonObject) -> Basis:
    """What `as_json` wrote."""
    shown = (ShownPost(PostKey(c, m), then, tuple((a, b) for a, b in spans)) for c, m, then, spans in raw["posts"])
    return Basis(tuple(shown), frozenset(raw["channels"]), frozenset(raw["counted"]))


def build_answer_basis(answer: Answer, stored: Mapping[PostKey, Post]) -> Basis:
    """What an answer shows: its citations, the nearest posts of a refusal, the channels that have copies.

    `stored` are the posts as they are now; a citation that they do not bear out any more makes the basis fail.
    """
    citations = [c for sentence in answer.sentences for c in sentence.citations]
    nearest = [
        ShownPost(p.key, _hash_if_quoted(p.key, [(p.start, p.end, p.text)], stored), ((p.start, p.end),))
        for p in answer.nearest
    ]
    copies = {key.chat_id for post in answer.posts() for key in answer.copies.get(post, ())}
    # No model wrote it and it is no quote: it was counted, over all that the asker could read.
    worked_out = answer.model is None and any(
        not any(c.quote and s.text.endswith(c.quote) for c in s.citations) for s in answer.sentences
    )
    counted = frozenset(answer.channels) if worked_out else frozenset[int]()
    return Basis((*_list_cited_posts(citations, stored), *nearest), frozenset(copies), counted)


def build_verdicts_basis(found: Verification, stored: Mapping[PostKey, Post]) -> Basis:
    """What verdicts show: their citations, who was first; how many sources there are was counted over all channels."""
    citations = [c for v in found.verdicts for c in (*v.citations, *v.against, *filter(None, (v.superseded,)))]
    first = {v.earliest.chat_id for v in found.verdicts if v.earliest}
    return Basis(tuple(_list_cited_posts(citations, stored)), frozenset(first), frozenset(found.channels))


def build_draft_basis(sentences: Iterable[Sentence]) -> Basis:
    """What a draft shows: the citations of its sentences, by their words."""
    shown = (ShownPost(c.post, "", words=(c.quote,)) for sentence in sentences for c in sentence.citations if c.quote)
    return Basis(tuple(dict.fromkeys(shown)))


async def build_posts_basis(keys: Iterable[PostKey], viewer: Viewer, archive: Archive) -> Basis:
    """What a view of these posts shows to a viewer; taken before it is made. Raises ArchiveUnavailable."""
    readable = [key for key in dict.fromkeys(keys) if key.chat_id in viewer.channels]
    stored = await posts.fetch_posts(archive, readable)
    return Basis(
        tuple(ShownPost(key, hash_text_version(stored[key].text) if key in stored else None) for key in readable)
    )


async def recheck_basis(
    basis: Basis, reader: Reader, archive: Archive, rights: AdminRegistry, *, max_age_s: float = 0.0
) -> None:
    """Check that a message may still be read by its reader, and that its posts still say what it shows.

    Raises Withdrawn where it does not hold, CouldNotCheck where that cannot be known now. Memberships behind what
    is shown are no older than `max_age_s`; those behind what was counted are as old as for any question.
    """
    where: dict[str, Any] = {"user_id": reader.user_id, "chat_id": reader.chat_id, "private": reader.private}
    try:
        if not await _are_posts_unchanged(basis, archive):
            raise ContentWithdrawn
        unknown = frozenset[int]()
        for wanted, age in ((basis.named, max_age_s), (basis.counted - basis.named, None)):
            if wanted:
                found = await access.resolve_channel_access(archive, rights, **where, among=wanted, max_age_s=age)
                if wanted - found.open.keys() - found.unknown:
                    raise ContentWithdrawn
                unknown |= found.unknown
    except ArchiveUnavailable as exc:
        raise RecheckUnavailable(exc.reason) from exc
    if unknown:
        raise RecheckUnavailable("Telegram did not say whether the reader is still a member.")


async def _are_posts_unchanged(basis: Basis, archive: Archive) -> bool:
    wanted = [shown for shown in basis.posts if shown.mark is not None]
    stored = await posts.fetch_posts(archive, {shown.key for shown in wanted})
    for shown in wanted:
        post = stored.get(shown.key)
        if post is None:
            return False
        if hash_text_version(post.text) != shown.mark:
            words = shown.words or await _load_cited_words(shown, archive)
            if not words or any(said not in post.text for said in words):
                return False
    return True


async def _load_cited_words(shown: ShownPost, archive: Archive) -> tuple[str, ...]:
    """The cited words, out of the version of the post that was cited; none where it is not kept."""
    older = (version.text for version in await posts.list_post_versions(archive, shown.key))
    text = next((text for text in older if hash_text_version(text) == shown.mark), None)
    return () if text is None else tuple(text[start:end] for start, end in shown.spans)


def _list_cited_posts(citations: Sequence[Citation], stored: Mapping[PostKey, Post]) -> Iterator[ShownPost]:
    for key in dict.fromkeys(c.post for c in citations):
        quotes = list(dict.fromkeys((c.start, c.end, c.quote) for c in citations if c.post == key))
        yield ShownPost(key, _hash_if_quoted(key, quotes, stored), tuple((start, end) for start, end, _ in quotes))


def _hash_if_quoted(key: PostKey, quotes: Sequence[tuple[int, int, str]], stored: Mapping[PostKey, Post]) -> str:
    """The mark of a post in which all the quotes stand; "", which no post has, where one does not."""
    text = stored[key].text if key in stored else None
    stands = text is not None and all(text[start:end] == quote for start, end, quote in quotes)
    return hash_text_version(text) if text is not None and stands else ""


_CURRENT_CHECK: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("recheck_before_sending", default=None)


@contextmanager
def recheck_before_sending(
    basis: Basis, reader: Reader, archive: Archive, rights: AdminRegistry, *, max_age_s: float = 0.0
) -> Iterator[None]:
    """Within, each attempt to send or edit a message raises Withdrawn or CouldNotCheck where `recheck_basis` does.

    One within another: both are checked.
    """
    outer = _CURRENT_CHECK.get()

    async def check() -> None:
        if outer is not None:
            await outer()
        await recheck_basis(basis, reader, archive, rights, max_age_s=max_age_s)

    token = _CURRENT_CHECK.set(check if basis else outer)
    try:
        yield
    finally:
        _CURRENT_CHECK.reset(token)


class RecheckMiddleware(BaseRequestMiddleware):
    """Runs the check in force before each attempt of a call that carries text. Registered after `RetryMiddleware`."""

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Check, then make the request."""
        check, name = _CURRENT_CHECK.get(), str(method.__api_method__)
        if check is not None and name.startswith(_TEXT_METHOD_PREFIXES) and name != _CHAT_ACTION_METHOD:
            await check()
        result: Any = await make_request(bot, method)
        return result  # type: ignore[no-any-return]
