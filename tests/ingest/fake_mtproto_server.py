"""A Telegram behind the client library: what `TelegramClient` would send is answered here, with real TL objects."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from telethon import TelegramClient, errors, functions, types

from rag_core.storage import channels
from rag_core.types import Channel, Visibility

BARE_ID = 1234567890
CHAT_ID = -1_000_000_000_000 - BARE_ID
GROUP_ID = CHAT_ID - 1
START = datetime(2024, 3, 12, 12, 0, tzinfo=UTC)
CHANNEL = Channel(CHAT_ID, "Пекарня", "bakery", inside=True)


def make_message(message_id, text="", **more):
    """The n-th message is written n minutes after the first."""
    date = START + timedelta(minutes=message_id)
    fields = {"peer_id": types.PeerChannel(BARE_ID), "date": date, "message": text or f"Хлеб {message_id} рублей"}
    return types.Message(message_id, post=True, **(fields | more))


@dataclass
class TelegramServer:
    """Messages of one channel, and what goes wrong. `requests`: the ids that were asked for, in order."""

    messages: dict[int, Any] = field(default_factory=dict)
    requests: list[list[int]] = field(default_factory=list)
    sign_ins: int = 0
    problem: Exception | None = None
    silent: bool = False  # every id is said to be empty
    protected: bool = False
    terse: bool = False  # ids that are empty are left out

    def post(self, *numbers, **more):
        self.messages |= {number: make_message(number, **more) for number in numbers}

    async def answer(self, request):
        if self.problem:
            raise self.problem
        if isinstance(request, functions.channels.GetChannelsRequest):
            return types.messages.Chats([self.channel(one.channel_id) for one in request.id])
        assert isinstance(request, functions.channels.GetMessagesRequest), request
        assert request.channel.access_hash == 77
        ids = [one.id for one in request.id]
        assert 0 < len(ids) <= 100
        self.requests.append(ids)
        there = [None if self.silent else self.messages.get(one) for one in ids]
        found = [message or types.MessageEmpty(one, None) for one, message in zip(ids, there, strict=True)]
        if self.terse:
            found = [one for one in found if not isinstance(one, types.MessageEmpty)]
        return types.messages.ChannelMessages(1, len(found), found, [], [self.channel(request.channel.channel_id)], [])

    def channel(self, bare_id=BARE_ID):
        return types.Channel(
            bare_id, "Пекарня", types.ChatPhotoEmpty(), START, access_hash=77, noforwards=self.protected, broadcast=True
        )


def flood(seconds):
    return errors.FloodWaitError(None, capture=seconds)


def serve(monkeypatch, server=None):
    """The server; nothing is ever sent to the network."""
    found = server or TelegramServer()

    async def call(_, request, **__):
        return await found.answer(request)

    async def nothing(_):
        return None

    async def sign_in(client, **_):
        found.sign_ins += 1
        client.session.set_dc(2, "127.0.0.1", 443)

    async def authorized(_):
        return bool(found.sign_ins)

    monkeypatch.setattr(TelegramClient, "__call__", call)
    monkeypatch.setattr(TelegramClient, "connect", nothing)
    monkeypatch.setattr(TelegramClient, "disconnect", nothing)
    monkeypatch.setattr(TelegramClient, "sign_in", sign_in)
    monkeypatch.setattr(TelegramClient, "is_user_authorized", authorized)
    return found


async def save_bakery(archive):
    """A channel that the bot is in and has no posts of, and an approved group."""
    await channels.save_channel(archive, Channel(CHAT_ID, "Bakery", "bakery", visibility=Visibility.PUBLIC))
    await channels.save_channel(archive, Channel(GROUP_ID, "Bakers", kind="supergroup"))
    await channels.record_bot_joined(archive, CHAT_ID)
