"""History from the replies of a Telegram server, recorded below the client library and replayed.

MTProto encrypts with keys, session and message ids that are new each time, so that its bytes cannot be replayed: what
is kept is the hash of each request in TL, decrypted, and the bytes of its reply. All above it is real.
"""

import asyncio
import base64
import hashlib
import json
import socket
import zlib
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from telethon import types
from telethon.network.mtprotosender import MTProtoSender
from telethon.network.requeststate import RequestState
from telethon.tl.alltlobjects import tlobjects
from telethon.tl.core import RpcResult, TLMessage
from telethon.tl.types import RpcError

from ingest.history import BackfillRunner, PacedSource, look_before_citing, sweep_channels
from ingest.mtproto import FloodWait, HistoryClient
from rag_core.errors import HistoryUnavailable
from rag_core.storage import channel_history, channels, posts, visible_posts
from rag_core.types import Channel, PostKey

RECORDING = Path(__file__).parents[2] / "data" / "mtproto" / "channel.json"
# These carry what differs from machine to machine, or a token.
_NAMED_ONLY = ("InvokeWithLayerRequest", "ImportBotAuthorizationRequest")


class OlderMessages:
    """The server's reply, https://core.telegram.org/constructor/messages.messages, without topics."""

    @classmethod
    def from_reader(cls, reader):
        messages, chats, users = (reader.tgread_vector() for _ in range(3))
        return types.messages.Messages(messages, [], chats, users)


def read_older_layer(patch):
    """Let the client library read the server's layer, 201. All but one of these have got only optional fields since."""
    patch.setitem(tlobjects, 0x8C718E87, OlderMessages)
    patch.setitem(tlobjects, 0x020B1422, types.User)
    patch.setitem(tlobjects, 0x7482147E, types.Channel)
    patch.setitem(tlobjects, 0xEABCDD4D, types.Message)
    patch.setitem(tlobjects, 0xD3D28540, types.MessageService)
    patch.setitem(tlobjects, 0xAFBC09DB, types.MessageReplyHeader)
    patch.setitem(tlobjects, 0x695150D7, types.MessageMediaPhoto)


def describe_request(request):
    inner = getattr(request, "query", request)
    name = type(request if type(request).__name__ in _NAMED_ONLY else inner).__name__
    return name if name in _NAMED_ONLY else f"{name} {hashlib.sha256(bytes(inner)).hexdigest()}"


def replay_wire(patch, calls):
    """Answer requests from a recording, in its order; any other request fails. Nothing is sent to the network."""
    tasks = set()

    async def connect(sender):
        sender.auth_key.key = bytes(range(256))

    async def disconnect(sender, error=None):
        sender._user_connected = False

    def send(sender, request, ordered=False):
        expected, problem, reply = calls.pop(0)
        assert describe_request(request) == expected
        state = RequestState(request)
        state.msg_id = 1
        sender._pending_state[1] = state
        code, _, words = problem.partition(" ")
        error = RpcError(int(code), words) if problem else None
        result = TLMessage(0, 0, RpcResult(1, zlib.decompress(base64.b64decode(reply)), error))
        task = asyncio.ensure_future(sender._handle_rpc_result(result))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return state.future

    patch.setattr(MTProtoSender, "_connect", connect)
    patch.setattr(MTProtoSender, "_disconnect", disconnect)
    patch.setattr(MTProtoSender, "send", send)


async def live_through(archive, client, chat_id, now, do, pass_time):
    """A channel's days: posts, deletions, edits, an album, a flood wait, a server gone mad, and the bot shut out."""

    async def skip(_):
        return None

    async def tell_nobody(_):
        return True

    source = PacedSource(client, sleep=skip)
    await channels.save_channel(archive, Channel(chat_id, "Bakery"))
    await channels.record_bot_joined(archive, chat_id)
    await channel_history.begin_backfill(archive, chat_id)
    await do(post=60, delete=[5, 6, 7], edit=[9, "Хлеб подорожал"])
    await do(album=["Печь", "", "Витрина"])
    while await BackfillRunner(archive, source, lambda: None).run_once():
        pass
    expected = set(range(2, 65)) - {5, 6, 7}
    assert await posts.list_message_ids(archive, chat_id) == expected
    shown = await visible_posts.fetch_posts(archive, [PostKey(chat_id, one) for one in (8, 9, 62)])
    assert [shown[PostKey(chat_id, one)].text for one in (8, 9, 62)] == [
        "Хлеб 6 рублей",
        "Хлеб подорожал",
        "Печь\n\nВитрина",
    ]

    await do(delete=[20, 21], edit=[22, "Хлеб снова подешевел"])
    await archive.execute("UPDATE post_looks SET looked_at = 0")
    await sweep_channels(archive, source, tell_nobody, now + timedelta(hours=1))
    left = expected - {20, 21}
    assert await posts.list_message_ids(archive, chat_id) == left
    edited = PostKey(chat_id, 22)
    assert (await visible_posts.fetch_posts(archive, [edited]))[edited].text == "Хлеб снова подешевел"
    assert len(await posts.list_post_versions(archive, edited)) == 1

    await do(flood=30)
    with pytest.raises(FloodWait, match="30 s"):
        await client.get_messages(chat_id, [2])
    pass_time(30)
    assert len((await client.get_messages(chat_id, [2])).messages) == 1

    for trouble in ({"silent": True}, {"silent": False, "leave": True}):
        await do(**trouble)
        await archive.execute("UPDATE post_looks SET looked_at = 0")
        for hour in (2, 4):
            await sweep_channels(archive, source, tell_nobody, now + timedelta(hours=hour))
        await archive.execute("UPDATE post_looks SET looked_at = 0")
        assert not await look_before_citing(archive, client, [PostKey(chat_id, 8)], seconds=10)
        assert await posts.list_message_ids(archive, chat_id) == left
    with pytest.raises(HistoryUnavailable):
        await client.get_messages(chat_id, [2])
    await client.close()


async def test_a_channel_lives_through_its_recording(archive, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a replay opens no connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    recording = json.loads(RECORDING.read_text())
    read_older_layer(monkeypatch)
    replay_wire(monkeypatch, recording["calls"])
    clock = [1000.0]

    async def do(**_):
        return None

    def pass_time(seconds):
        clock[0] += seconds

    client = HistoryClient(1, "hash", "777007:token", tmp_path, clock=lambda: clock[0])
    now = datetime.fromisoformat(recording["now"])
    await live_through(archive, client, recording["chat_id"], now, do, pass_time)
    assert recording["calls"] == []
