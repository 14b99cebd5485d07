"""MTProto client: asks Telegram for messages of a channel by their ids, signed in with the bot's own token.

Bots may ask for messages by id (https://core.telegram.org/method/channels.getMessages), not for a chat's history. The
session takes no updates: those stay with the Bot API. A flood wait is obeyed to the second by whoever asks, and
nothing is sent meanwhile. The session file can act as the bot, so that only its owner may read it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from telethon import TelegramClient, errors, functions, types
from telethon.crypto import rsa
from telethon.sessions import StringSession

from ingest.history.mtproto_conversion import CHANNEL_PREFIX, FoundMessages, index_peers
from rag_core.errors import HistoryUnavailable

_TIMEOUT_SECONDS = 20.0
_RECONNECT_TRIES = 3

_REFUSED_TEXT = "Telegram does not take HISTORY__API_ID and HISTORY__API_HASH, or BOT__TOKEN: see my.telegram.org."
_UNREACHABLE_TEXT = "Telegram cannot be reached for history ({problem}): it is tried again."
_NO_ACCESS_TEXT = "The bot cannot read this channel: make it an administrator, then resume."
_BASIC_GROUP_TEXT = "Telegram shows bots no history of a basic group: make it a supergroup, or import its export."

# Of the network, of the server, and replies that cannot be read.
_FAILURES = (
    errors.RPCError,
    errors.BadMessageError,
    errors.InvalidChecksumError,
    errors.SecurityError,
    errors.TypeNotFoundError,
    BufferError,
    EOFError,
    OSError,
    TimeoutError,
    ValueError,
)

log = logging.getLogger(__name__)


class FloodWait(HistoryUnavailable):
    """Telegram wants to be left alone for some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"Telegram asks to wait for {seconds:.0f} s.")


class NoAccess(HistoryUnavailable):
    """The bot may not read this channel."""

    lasting = True


@dataclass(frozen=True, slots=True)
class HistoryAccount:
    """What the client signs in with. `server` and `public_key` name another server than Telegram's, for tests."""

    api_id: int
    api_hash: str
    token: str
    server: tuple[int, str, int] | None = None  # data centre, address, port
    public_key: str = ""


class HistoryClient:
    """Client of one bot; it connects with the first request, and again after a failure."""

    def __init__(self, account: HistoryAccount, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        # a session belongs to one bot and to one server
        where = "" if account.server is None else "-test"
        self._file = folder / f"history-{account.token.partition(':')[0]}{where}.session"
        self._clock = clock
        self._client: TelegramClient | None = None
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
        async with self._turn:
            return await self._ask_or_explain(-chat_id - CHANNEL_PREFIX, ids)

    async def close(self) -> None:
        """Disconnect; the session stays signed in."""
        client, self._client = self._client, None
        if client is not None:
            await client.disconnect()

    async def _ask_or_explain(self, bare_id: int, ids: Sequence[int]) -> FoundMessages:
        if wait := self.flood_seconds:
            raise FloodWait(wait)
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await self._ask(bare_id, ids)
        except errors.FloodError as exc:
            self._quiet_until = self._clock() + getattr(exc, "seconds", _TIMEOUT_SECONDS)
            raise FloodWait(self.flood_seconds) from exc
        except (errors.ChannelPrivateError, errors.ChannelInvalidError, errors.ForbiddenError) as exc:
            raise NoAccess(_NO_ACCESS_TEXT) from exc
        except (errors.AuthKeyError, errors.UnauthorizedError) as exc:  # revoked, or the token was changed
            await self.close()
            self._file.unlink(missing_ok=True)
            raise HistoryUnavailable(_REFUSED_TEXT) from exc
        except errors.BadRequestError as exc:
            refused = isinstance(exc, errors.ApiIdInvalidError | errors.AccessTokenInvalidError)
            raise HistoryUnavailable(_REFUSED_TEXT if refused else str(exc)) from exc
        except _FAILURES as exc:
            await self.close()
            raise HistoryUnavailable(_UNREACHABLE_TEXT.format(problem=type(exc).__name__)) from exc

    async def _ask(self, bare_id: int, ids: Sequence[int]) -> FoundMessages:
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

    async def _connect(self) -> TelegramClient:
        account = self._account
        session = StringSession(self._file.read_text() if self._file.exists() else "")
        if account.server and not session.server_address:
            session.set_dc(*account.server)
        if account.public_key:
            rsa.add_key(account.public_key, old=False)
        client = TelegramClient(
            session,
            account.api_id,
            account.api_hash,
            receive_updates=False,
            flood_sleep_threshold=0,
            request_retries=1,
            connection_retries=_RECONNECT_TRIES,
            base_logger=log.name,
        )
        try:
            await client.connect()
            if not await client.is_user_authorized():
                await client.sign_in(bot_token=account.token)
        except BaseException:
            await client.disconnect()
            raise
        self._client = client
        fresh = self._file.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(session.save())
        fresh.replace(self._file)
        return client
