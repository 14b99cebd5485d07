"""Access check before sending: a message that shows posts is checked again before every attempt to send it.

A `ShownContent` names what a message shows: posts, channels that it names, channels that it counted over. A `View` is a
rendered text with its content, made of the same posts. While `recheck_before_sending` is in force, `recheck_call`
(a middleware of the Bot API session, inside the one that retries) checks the content before each call, but for the few
methods that bring no text to anybody: first attempts, retries, parts of a long answer, edits, drafts, alerts. So a
sender cannot forget a retry, and a new sender needs one `with` statement. What the posts hide as spoilers is hidden.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from aiogram import Bot
from aiogram.client.session.middlewares.base import NextRequestMiddlewareType
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import InlineKeyboardMarkup, InputRichBlock, MessageEntity, RichBlockTableCell
from aiogram.utils.formatting import Text
from pydantic import BaseModel, TypeAdapter, ValidationError

from bot import access
from bot.stored_answer import JsonObject, hash_text_version, load_cited_text
from bot.views.format import MAX_ENTITIES, list_utf16_offsets, split_pages
from bot.views.rich import hide_spoilers_in_rich_text
from rag_core.errors import ArchiveUnavailable, RagError, translate_errors
from rag_core.storage import questions, visible_posts
from rag_core.text.post_text import Spoiler, cover_spans, cover_spoilers, find_spoiler_spans, list_spoilers
from rag_core.types import Answer, Citation, Post, PostKey, Sentence
from rag_core.verification import Verification

# A draft changes every second or so: a membership is asked from Telegram at most this often, unless an update
# reports a change. A message that stays is never sent on a cached membership.
DRAFT_MEMBERSHIP_MAX_AGE_SECONDS = 10.0
# They bring no text to a reader; the check itself asks who is a member. Every other method is checked.
METHODS_WITHOUT_TEXT = frozenset(
    "deleteMessage deleteEphemeralMessage getChat getChatMember getFile getMe getUpdates sendChatAction "
    "setMessageReaction".split()
)


T = TypeVar("T")


class SendingRefused(RagError):
    """A message must not be sent now: what it shows was withdrawn, or cannot be checked again."""


class ContentWithdrawn(SendingRefused):
    """The content of a message is out of date or closed: it must not be sent."""

    def __init__(self) -> None:
        super().__init__("What this message shows was changed, deleted or closed to its reader meanwhile.")


class QuestionErased(SendingRefused):
    """The reader erased the question while its answer waited to be sent: nothing must be sent."""

    def __init__(self) -> None:
        super().__init__("The question was erased meanwhile.")


class RecheckUnavailable(SendingRefused):
    """It is not known whether the reader may still see a message: it must wait."""


@dataclass(frozen=True, slots=True)
class ShownPost:
    """Post of which a message shows something.

    `mark` is the hash of its text (`hash_text_version`). `spans` are the cited places in that text, `words` the cited
    words where they are at hand: an edit that keeps the cited words withdraws nothing. Without either any edit
    withdraws the message.
    """

    key: PostKey
    mark: str
    spans: tuple[tuple[int, int], ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownContent:
    """Shown content of a message: posts shown, `channels` named beside them, and channels it was `counted` over."""

    posts: tuple[ShownPost, ...] = ()
    channels: frozenset[int] = frozenset()
    counted: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        """Return False for a message that shows nothing of any channel."""
        return bool(self.posts or self.channels or self.counted)

    def __or__(self, other: ShownContent) -> ShownContent:
        """Content of a message that shows both."""
        posts = tuple(dict.fromkeys((*self.posts, *other.posts)))
        return ShownContent(posts, self.channels | other.channels, self.counted | other.counted)

    def as_json(self) -> JsonObject:
        """Serialize for the archive, without any words of posts."""
        return _CONTENTS.dump_python(self, mode="json", exclude={"posts": {"__all__": {"words"}}})  # type: ignore[no-any-return]


_CONTENTS = TypeAdapter(ShownContent)


def parse_shown_content(raw: JsonObject) -> ShownContent:
    """Parse the result of `as_json`. Raises ContentWithdrawn for one of an earlier version, which cannot be checked."""
    try:
        return _CONTENTS.validate_python(raw)
    except ValidationError:
        raise ContentWithdrawn from None


@dataclass(frozen=True, slots=True)
class View:
    """View: text and buttons of a message, with the content that they show."""

    text: Text
    content: ShownContent = ShownContent()
    buttons: InlineKeyboardMarkup | None = None

    def as_kwargs(self) -> dict[str, Any]:
        """Arguments of a method that sends or edits a message."""
        return {**self.text.as_kwargs(), "reply_markup": self.buttons}

    async def send(self, call: Callable[..., Awaitable[T]], reader: access.Reader, rights: access.AdminRegistry) -> T:
        """Send this view by a method of aiogram's, checked before each attempt; of several messages give the last."""
        *before, last = split_pages(self.text)
        with recheck_before_sending(self.content, reader, rights):
            for page in before:
                await call(**page.as_kwargs())
            return await call(**last.as_kwargs(), reply_markup=self.buttons)


def collect_content_of_answer(answer: Answer, stored: Mapping[PostKey, Post]) -> ShownContent:
    """Collect the shown content of an answer: citations, the nearest posts of a refusal, the channels that have copies.

    `stored` are the posts as they are now; a citation that no longer matches its post makes the content fail.
    """
    citations = [c for sentence in answer.sentences for c in sentence.citations]
    nearest = [
        ShownPost(p.key, _hash_if_quoted(p.key, [(p.start, p.end, p.text)], stored), ((p.start, p.end),))
        for p in answer.nearest
    ]
    copies = {key.chat_id for post in answer.posts() for key in answer.copies.get(post, ())}
    # Neither written by a model nor a quote: it was counted over all that the reader may read.
    worked_out = answer.model is None and any(
        not any(c.quote and s.text.endswith(c.quote) for c in s.citations) for s in answer.sentences
    )
    counted = frozenset(answer.channels) if worked_out else frozenset[int]()
    return ShownContent((*_list_cited_posts(citations, stored), *nearest), frozenset(copies), counted)


def collect_content_of_verdicts(found: Verification, stored: Mapping[PostKey, Post]) -> ShownContent:
    """Collect the shown content of verdicts: citations, the post that the message is, and the earliest post of each.

    Sources were counted over all channels.
    """
    citations = [c for v in found.verdicts for c in (*v.citations, *v.against, *filter(None, (v.superseded,)))]
    first = {v.earliest.chat_id for v in found.verdicts if v.earliest}
    same = [ShownPost(found.same.key, hash_text_version(found.same.text))] if found.same else []
    return ShownContent((*same, *_list_cited_posts(citations, stored)), frozenset(first), frozenset(found.channels))


def collect_content_of_draft(sentences: Sequence[Sentence], channels: Collection[int]) -> ShownContent:
    """Collect the shown content of a draft: citations with their words; a sentence without any was counted."""
    shown = (ShownPost(c.post, "", words=(c.quote,)) for sentence in sentences for c in sentence.citations if c.quote)
    named = frozenset(c.post.chat_id for sentence in sentences for c in sentence.citations)
    worked_out = any(not any(c.quote for c in sentence.citations) for sentence in sentences)
    return ShownContent(tuple(dict.fromkeys(shown)), named, frozenset(channels) if worked_out else frozenset())


def collect_content_of_posts(posts: Iterable[Post]) -> ShownContent:
    """Collect the shown content of a view from the posts that it was rendered of."""
    return ShownContent(tuple(ShownPost(post.key, hash_text_version(post.text)) for post in posts))


async def recheck_shown_content(
    content: ShownContent, reader: access.Reader, rights: access.AdminRegistry, *, max_age_s: float = 0.0
) -> None:
    """Check that the reader may still read a message, and that its posts still say what it shows.

    Raises ContentWithdrawn where that does not hold, RecheckUnavailable where it cannot be known now. Memberships
    behind what is shown are no older than `max_age_s`; those behind counts are as old as for any question.
    """
    try:
        stored = await visible_posts.fetch_posts(rights.archive, {shown.key for shown in content.posts})
        for shown in content.posts:
            post = stored.get(shown.key)
            if post is None:
                raise ContentWithdrawn
            if hash_text_version(post.text) != shown.mark:
                text = None if shown.words else await load_cited_text(post, shown.mark, rights.archive)
                words = shown.words if text is None else [text[start:end] for start, end in shown.spans]
                if not words or any(quote not in post.text for quote in words):
                    raise ContentWithdrawn
        unknown, named = frozenset[int](), content.channels | {shown.key.chat_id for shown in content.posts}
        for wanted, age in ((named, max_age_s), (content.counted - named, None)):
            if wanted:
                found = await access.resolve_channel_access(rights, reader, among=wanted, max_age_s=age)
                if wanted - found.open.keys() - found.unknown:
                    raise ContentWithdrawn
                unknown |= found.unknown
    except ArchiveUnavailable as exc:
        raise RecheckUnavailable(exc.reason) from exc
    if unknown:
        raise RecheckUnavailable("Telegram did not say whether the reader is still a member.")


def _list_cited_posts(citations: Sequence[Citation], stored: Mapping[PostKey, Post]) -> Iterator[ShownPost]:
    for key in dict.fromkeys(c.post for c in citations):
        quotes = list(dict.fromkeys((c.start, c.end, c.quote) for c in citations if c.post == key))
        yield ShownPost(key, _hash_if_quoted(key, quotes, stored), tuple((start, end) for start, end, _ in quotes))


def _hash_if_quoted(key: PostKey, quotes: Sequence[tuple[int, int, str]], stored: Mapping[PostKey, Post]) -> str:
    """Hash of a post that contains all the quotes; "", which matches no post, where one is missing."""
    text = stored[key].text if key in stored else None
    stands = text is not None and all(text[start:end] == quote for start, end, quote in quotes)
    return hash_text_version(text) if text is not None and stands else ""


@contextmanager
def set_in_block(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable until the block ends."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


_CURRENT_CHECK: ContextVar[Callable[[TelegramMethod[Any]], Awaitable[tuple[Spoiler, ...]]] | None] = ContextVar(
    "recheck_before_sending", default=None
)


def recheck_before_sending(
    content: ShownContent,
    reader: access.Reader,
    rights: access.AdminRegistry,
    *,
    max_age_s: float = 0.0,
    question_id: int | None = None,
) -> AbstractContextManager[None]:
    """Run `recheck_shown_content` before each attempt to send or edit a message in the block.

    Checks of the blocks around it run first. The attempt raises ContentWithdrawn or RecheckUnavailable where a check
    does, and where others would see what is for its reader alone. With a `question_id` it raises QuestionErased where
    that question is in the archive no more.
    """
    outer = _CURRENT_CHECK.get()

    async def check(method: TelegramMethod[Any]) -> tuple[Spoiler, ...]:
        others = await outer(method) if outer is not None else ()
        with suppress(ArchiveUnavailable):  # what shows no posts is sent all the same
            if question_id is not None and not await questions.has_question(rights.archive, question_id):
                raise QuestionErased
        if content and reader.alone and not _is_for_one(method, reader.user_id):
            raise ContentWithdrawn
        await recheck_shown_content(content, reader, rights, max_age_s=max_age_s)
        with translate_errors(RecheckUnavailable, ArchiveUnavailable):
            stored = await visible_posts.fetch_posts(rights.archive, {shown.key for shown in content.posts})
        return (*others, *list_spoilers(stored.values()))

    return set_in_block(_CURRENT_CHECK, check if content or question_id is not None else outer)


def send_without_content() -> AbstractContextManager[None]:
    """Send a sentence of the bot within a block whose content is checked: it shows nothing of it."""
    return set_in_block(_CURRENT_CHECK, None)


def _is_for_one(method: TelegramMethod[Any], user_id: int) -> bool:
    given = getattr(method, "ephemeral_message_parameters", None)
    receiver = given.receiver_user_id if given else getattr(method, "receiver_user_id", None)
    return user_id in (receiver, getattr(method, "chat_id", None)) or method.__api_method__ == "answerCallbackQuery"


async def recheck_call(
    make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
) -> Response[TelegramType]:
    """Middleware inside `RetryMiddleware`: run the check before each call that may carry text, and hide spoilers."""
    check = _CURRENT_CHECK.get()
    if check is not None and method.__api_method__ not in METHODS_WITHOUT_TEXT and (spoilers := await check(method)):
        method = hide_spoilers(method, spoilers)
    return await make_request(bot, method)


_ENTITIES_BY_TEXT = {"text": "entities", "caption": "caption_entities", "message_text": "entities"}
_UNFORMATTED = frozenset({"text", "caption", "message_text", "title", "description"})
_RICH_TEXTS = frozenset({"text", "credit", "caption", "summary"})
_CODE = frozenset({"code", "pre"})  # no other format can be combined with them


def hide_spoilers(value: Any, spoilers: Sequence[Spoiler]) -> Any:
    """Hide spoilers in a Bot API method or object, in all objects within it; labels and alerts are covered."""
    if isinstance(value, list):
        return [hide_spoilers(one, spoilers) for one in value]
    if not isinstance(value, BaseModel) or isinstance(value, MessageEntity):
        return value
    changed: dict[str, Any] = {}
    rich = _RICH_TEXTS if isinstance(value, InputRichBlock | RichBlockTableCell) else ()
    for name in type(value).model_fields:
        held = getattr(value, name)
        if name in rich and held is not None:
            changed[name] = hide_spoilers_in_rich_text(held, spoilers)
        elif isinstance(held, list | BaseModel):
            changed.setdefault(name, hide_spoilers(held, spoilers))
        elif isinstance(held, str) and name in _UNFORMATTED:
            entities = _ENTITIES_BY_TEXT.get(name, "")
            if entities in type(value).model_fields:
                changed[name], changed[entities] = _format_text(held, getattr(value, entities) or [], spoilers)
            else:
                changed[name] = cover_spoilers(held, spoilers)
    return value.model_copy(update=changed)


def _format_text(
    text: str, entities: Sequence[MessageEntity], spoilers: Sequence[Spoiler]
) -> tuple[str, list[MessageEntity]]:
    """Add spoiler entities; covered is what stands in code, and all where there are too many entities."""
    places, formatted, covered = list_utf16_offsets(text), list[MessageEntity](), list[tuple[int, int]]()
    code = [(one.offset, one.offset + one.length) for one in entities if one.type in _CODE]
    spans = find_spoiler_spans(text, spoilers)
    for start, end in spans:
        first, last = places[start], places[end]
        if any(first < b and a < last for a, b in code):
            covered.append((start, end))
        else:
            formatted.append(MessageEntity(type="spoiler", offset=first, length=last - first))
    if len(entities) + len(formatted) > MAX_ENTITIES:
        covered, formatted = spans, []
    return cover_spans(text, covered), sorted((*entities, *formatted), key=lambda one: (one.offset, -one.length))
