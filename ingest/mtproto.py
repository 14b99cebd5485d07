"""MTProto: messages of a channel by their ids, asked for with the bot's own token, in the form of Bot API messages.

Bots may ask for messages by id (https://core.telegram.org/method/channels.getMessages), not for a chat's history. The
session takes no updates: those stay with the Bot API. A flood wait is obeyed to the second by whoever asks, and
nothing is sent meanwhile. The session file can act as the bot, so that only its owner may read it.

Messages (https://core.telegram.org/constructor/message) are converted for `parse_live_post`, so that a post is the
same whether it came as an update or from the history. Objects are told apart by the names of their constructors; the
client library is imported with the first request.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.messages import parse_live_post, parse_topic_title, read_rich_message
from rag_core.errors import HistoryUnavailable
from rag_core.types import Channel, Post

JsonObject = dict[str, Any]
Peers = Mapping[int, Any]  # Bot API id -> chat or user

# Names of entities that differ from the constructor's in more than the style; the others are made snake case.
_ENTITY_TYPES = {
    "BankCard": "bank_card_number",
    "FormattedDate": "date_time",
    "MentionName": "text_mention",
    "Phone": "phone_number",
    "Strike": "strikethrough",
    "TextUrl": "text_link",
}
# Media of which no word is read: the constructor's name -> the Bot API's field.
_WORDLESS_MEDIA = {
    "Dice": "dice",
    "Game": "game",
    "Geo": "location",
    "GeoLive": "location",
    "Giveaway": "giveaway",
    "GiveawayResults": "giveaway_winners",
    "Invoice": "invoice",
    "PaidMedia": "paid_media",
    "Story": "story",
}
# The server shows these as something else to a client of this layer: a post is better not read than read wrongly.
_UNREADABLE_MEDIA = frozenset({"Unsupported", "VideoStream"})
CHANNEL_PREFIX = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class FoundMessages:
    """Messages of a reply, ids that do not exist, and `peers` that are named; of an id in neither nothing is known."""

    messages: tuple[Any, ...]
    empty: frozenset[int]
    peers: dict[int, Any] = field(default_factory=dict)


def index_peers(chats: Iterable[Any], users: Iterable[Any]) -> dict[int, Any]:
    """Index the chats and users of a reply by their Bot API ids."""
    found = {(-one.id if type(one).__name__.startswith("Chat") else -CHANNEL_PREFIX - one.id): one for one in chats}
    return found | {one.id: one for one in users}


def convert_message(message: Any, channel: Channel, peers: Peers) -> Post | None:
    """Convert a channel's message to a post; None for what is none or this layer lacks. Raises MalformedMessage."""
    media = getattr(message, "media", None)
    name = type(media).__name__.removeprefix("MessageMedia") if media else ""
    if type(message).__name__ != "Message" or name in _UNREADABLE_MEDIA:
        return None
    rich: JsonObject = {}
    if blocks := message.rich_message:
        named = (one for file in blocks.documents for one in getattr(file, "attributes", ()))
        rich = {"blocks": [block.to_dict() for block in blocks.blocks]}
        rich["files"] = [one.to_dict() for one in named if hasattr(one, "file_name")]
        if not read_rich_message(rich).text:  # blocks that this layer of the protocol does not have
            return None
    # posts of a channel have at most a signature, in a group everybody writes under their own name
    in_group = not message.post and message.from_id is not None
    writer = _join_names(peers.get(get_peer_id(message.from_id))) if in_group else None
    header = message.fwd_from
    copied = in_group and bool(header and header.saved_from_peer and header.channel_post)
    buttons = [
        {
            "text": one.text,
            "url": getattr(one.type, "url", None),
            "copy_text": {"text": getattr(one.type, "copy_text", None)},
        }
        for row in getattr(message.reply_markup, "rows", ())
        for one in row.buttons
    ]
    raw: JsonObject = {
        "chat": {"id": channel.chat_id, "title": channel.title, "username": channel.username, "type": channel.kind},
        "message_id": message.id,
        "date": int(message.date.timestamp()),
        "text": message.message or "",
        "entities": [_convert_entity(one) for one in message.entities or ()],
        "rich_message": rich,
        "reply_markup": {"inline_keyboard": [buttons]},
        "author_signature": message.post_author or writer,
        "is_automatic_forward": copied and get_peer_id(message.from_id) == get_peer_id(header.saved_from_peer),
        "has_media_spoiler": bool(getattr(media, "spoiler", False)),
        "is_paid_post": bool(message.paid_suggested_post_stars or message.paid_suggested_post_ton),
        "has_protected_content": bool(message.noforwards or getattr(peers.get(channel.chat_id), "noforwards", False)),
        **_convert_media(message.media, name),
        **_convert_reply(message.reply_to, channel.chat_id),
        **_convert_topic(message.reply_to),
    }
    if message.edit_date and not message.edit_hide:
        raw["edit_date"] = int(message.edit_date.timestamp())
    if message.grouped_id:
        raw["media_group_id"] = str(message.grouped_id)
    if header:
        raw["forward_origin"] = _convert_origin(header, peers)
    return parse_live_post(raw)[1]


def convert_topic_title(message: Any) -> tuple[int, str, int] | None:
    """Convert the title that a service message gives its topic: topic, title, Unix seconds; None for other messages."""
    action: Any = getattr(message, "action", None)
    if type(action).__name__ not in ("MessageActionTopicCreate", "MessageActionTopicEdit"):
        return None
    raw = {"forum_topic_created": {"name": action.title}, "message_id": message.id}
    return parse_topic_title(raw | {"date": int(message.date.timestamp())} | _convert_topic(message.reply_to))


def _convert_topic(header: Any) -> JsonObject:
    if not getattr(header, "forum_topic", None):
        return {}
    return {"is_topic_message": True, "message_thread_id": header.reply_to_top_id or header.reply_to_msg_id}


def get_peer_id(peer: Any) -> int:
    """Bot API id of a peer."""
    if hasattr(peer, "channel_id"):
        return -CHANNEL_PREFIX - int(peer.channel_id)
    return -int(peer.chat_id) if hasattr(peer, "chat_id") else int(peer.user_id)


def _join_names(peer: Any) -> str:
    return " ".join(filter(None, (getattr(peer, key, None) for key in ("title", "first_name", "last_name"))))


def _convert_entity(entity: Any) -> JsonObject:
    name = type(entity).__name__.removeprefix("MessageEntity")
    kind = _ENTITY_TYPES.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    if kind == "blockquote" and entity.collapsed:
        kind = "expandable_blockquote"
    return {"type": kind, "offset": entity.offset, "length": entity.length, "url": getattr(entity, "url", None)}


def _convert_reply(header: Any, chat_id: int) -> JsonObject:
    if header is None or not getattr(header, "reply_to_msg_id", None):
        return {}
    if header.forum_topic and not header.reply_to_top_id:  # in a topic, but to none of its messages
        return {}
    if header.reply_to_peer_id and get_peer_id(header.reply_to_peer_id) != chat_id:
        return {"external_reply": {}}
    return {"reply_to_message": {"message_id": header.reply_to_msg_id}}


def _convert_origin(header: Any, peers: Peers) -> JsonObject:
    origin: JsonObject = {"date": int(header.date.timestamp()), "author_signature": header.post_author}
    if header.from_id is None:
        return origin | {"type": "hidden_user", "sender_user_name": header.from_name or ""}
    peer_id = get_peer_id(header.from_id)
    peer = peers.get(peer_id)
    described: JsonObject = {"id": peer_id, "title": _join_names(peer) or header.from_name}
    if header.channel_post:
        return origin | {"type": "channel", "chat": described, "message_id": header.channel_post}
    if peer_id < 0:
        return origin | {"type": "chat", "sender_chat": described}
    return origin | {"type": "user", "sender_user": described}


# Media with words: the constructor's name -> the Bot API's field, and the fields in which its words are.
_MEDIA_FIELDS = {
    "Contact": ("contact", ("first_name", "last_name", "phone_number")),
    "Venue": ("venue", ("title", "address")),
}


def _convert_media(media: Any, name: str) -> JsonObject:
    if kind := _WORDLESS_MEDIA.get(name):
        return {kind: {}}
    if known := _MEDIA_FIELDS.get(name):
        return {known[0]: {key: getattr(media, key) for key in known[1]}}
    match name:
        case "Photo" if media.photo:
            return {"live_photo": {}} if media.live_photo else {"photo": [{"file_unique_id": str(media.photo.id)}]}
        case "Document" if media.document:
            found = {type(one).__name__.removeprefix("DocumentAttribute"): one for one in media.document.attributes}
            named, video, audio = (found.get(kind) for kind in ("Filename", "Video", "Audio"))
            document = media.document
            raw = {"file_name": named.file_name if named else None, "mime_type": document.mime_type}
            raw |= {"file_unique_id": str(document.id), "file_size": document.size}
            raw |= {"duration": int(getattr(video or audio, "duration", 0))}
            if "Sticker" in found or "CustomEmoji" in found:
                return {"sticker": raw}
            if "Animated" in found:
                return {"animation": raw}
            if video:
                return {"video_note" if video.round_message else "video": raw}
            if audio:
                return {"voice" if audio.voice else "audio": raw | {"performer": audio.performer, "title": audio.title}}
            return {"document": raw}
        case "Poll":
            poll = media.poll
            options = [{"text": one.text.text} for one in poll.answers]
            return {"poll": {"question": poll.question.text, "options": options, "explanation": media.results.solution}}
        case "ToDo":
            tasks = [{"text": one.title.text} for one in media.todo.list]
            return {"checklist": {"title": media.todo.title.text, "tasks": tasks}}
        case "WebPage":
            return {"page": {key: getattr(media.webpage, key, None) for key in ("site_name", "title", "description")}}
    return {}  # a file that has expired


_TIMEOUT_SECONDS = 20.0
_DOWNLOAD_SECONDS = 300.0
_REFUSED_TEXT = "Telegram does not take HISTORY__API_ID and HISTORY__API_HASH, or BOT__TOKEN: see my.telegram.org."
_UNREACHABLE_TEXT = "Telegram cannot be reached for history ({problem}): it is tried again."
_FLOOD_TEXT = "Telegram asks to wait for {seconds:.0f} s."
_NO_ACCESS_TEXT = "The bot cannot read this channel: make it an administrator, then resume."
_BASIC_GROUP_TEXT = "Telegram shows bots no history of a basic group: make it a supergroup, or import its export."

log = logging.getLogger(__name__)


class FloodWait(HistoryUnavailable):
    """Telegram wants to be left alone for some seconds."""


class NoAccess(HistoryUnavailable):
    """The bot may not read this channel."""

    lasting = True


class HistoryClient:
    """Client of one bot; it connects with the first request, and again after a failure."""

    def __init__(
        self, api_id: int, api_hash: str, token: str, folder: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api_id, self._api_hash, self._token = api_id, api_hash, token
        self._file = folder / f"history-{token.partition(':')[0]}.session"  # a session belongs to one bot
        self._clock = clock
        self._client: Any = None  # a TelegramClient
        self._hashes: dict[int, int] = {}
        self._quiet_until = 0.0
        self._turn = asyncio.Lock()

    @property
    def flood_seconds(self) -> float:
        """Seconds for which Telegram wants to be left alone; 0 where it may be asked."""
        return max(0.0, self._quiet_until - self._clock())

    async def get_messages(self, chat_id: int, ids: Sequence[int]) -> FoundMessages:
        """Ask for up to a hundred messages of a channel. Raises HistoryUnavailable, FloodWait or NoAccess."""
        if chat_id > -CHANNEL_PREFIX:
            raise NoAccess(_BASIC_GROUP_TEXT)
        async with self._requesting(_TIMEOUT_SECONDS):
            return await self._ask(-chat_id - CHANNEL_PREFIX, ids)

    async def download_file(self, chat_id: int, message_id: int, file: Path, most: int) -> bool:
        """Download the file of a message; False where it has none, or a larger one. Raises as `get_messages`."""
        async with self._requesting(_DOWNLOAD_SECONDS):
            found = await self._ask(-chat_id - CHANNEL_PREFIX, [message_id])
            media = next((one.media for one in found.messages), None)
            if media is None or getattr(getattr(media, "document", None), "size", 0) > most:
                return False
            with file.open("wb") as opened:  # to a path the library would add an ending of its own
                return await self._client.download_media(media, file=opened) is not None

    @asynccontextmanager
    async def _requesting(self, seconds: float) -> AsyncIterator[None]:
        from telethon import errors

        # of the network, of the server, and replies that cannot be read
        broken = errors.RPCError, errors.BadMessageError, errors.InvalidChecksumError, errors.SecurityError
        unread = errors.TypeNotFoundError, BufferError, EOFError, OSError, TimeoutError, ValueError
        async with self._turn:
            if wait := self.flood_seconds:
                raise FloodWait(_FLOOD_TEXT.format(seconds=wait))
            try:
                async with asyncio.timeout(seconds):
                    yield
            except errors.FloodError as exc:
                self._quiet_until = self._clock() + getattr(exc, "seconds", _TIMEOUT_SECONDS)
                raise FloodWait(_FLOOD_TEXT.format(seconds=self.flood_seconds)) from exc
            except (errors.ChannelPrivateError, errors.ChannelInvalidError, errors.ForbiddenError) as exc:
                raise NoAccess(_NO_ACCESS_TEXT) from exc
            except (errors.AuthKeyError, errors.UnauthorizedError) as exc:  # revoked, or the token was changed
                await self.close()
                self._file.unlink(missing_ok=True)
                raise HistoryUnavailable(_REFUSED_TEXT) from exc
            except errors.BadRequestError as exc:
                refused = isinstance(exc, errors.ApiIdInvalidError | errors.AccessTokenInvalidError)
                raise HistoryUnavailable(_REFUSED_TEXT if refused else str(exc)) from exc
            except (*broken, *unread) as exc:
                await self.close()
                raise HistoryUnavailable(_UNREACHABLE_TEXT.format(problem=type(exc).__name__)) from exc

    async def close(self) -> None:
        """Disconnect; the session stays signed in."""
        client, self._client = self._client, None
        if client is not None:
            await client.disconnect()

    async def _ask(self, bare_id: int, ids: Sequence[int]) -> FoundMessages:
        from telethon import functions, types

        client = self._client or await self._connect()
        if bare_id not in self._hashes:
            # a bot reaches the channels it is in without their access hash
            reply = await client(functions.channels.GetChannelsRequest([types.InputChannel(bare_id, 0)]))
            self._hashes |= {one.id: getattr(one, "access_hash", 0) or 0 for one in reply.chats}
        where = types.InputChannel(bare_id, self._hashes.get(bare_id, 0))
        wanted = [types.InputMessageID(one) for one in ids]
        reply = await client(functions.channels.GetMessagesRequest(where, wanted))
        there = tuple(one for one in reply.messages if not isinstance(one, types.MessageEmpty))
        # Telegram names the ids that are empty; one that a reply leaves out says nothing
        empty = frozenset(one.id for one in reply.messages if isinstance(one, types.MessageEmpty))
        return FoundMessages(there, empty & frozenset(ids), index_peers(reply.chats, reply.users))

    async def _connect(self) -> Any:
        from telethon import TelegramClient
        from telethon.sessions import StringSession

        client = TelegramClient(
            StringSession(self._file.read_text() if self._file.exists() else ""),
            self._api_id,
            self._api_hash,
            receive_updates=False,
            flood_sleep_threshold=0,
            request_retries=1,
            connection_retries=3,
            base_logger=log.name,
        )
        try:
            await client.connect()
            if not await client.is_user_authorized():
                await client.sign_in(bot_token=self._token)
        except BaseException:
            await client.disconnect()
            raise
        self._client = client
        fresh = self._file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(client.session.save())
        fresh.replace(self._file)
        return client
