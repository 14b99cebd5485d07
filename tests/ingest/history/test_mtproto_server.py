"""History from a real Telegram server that others wrote: piltover, in the checkout that `MTPROTO_SERVER` names.

Its interpreter is `.venv/bin/python` in the checkout, with the server's dependencies and Telethon. MTPROTO_POSTS: how
many posts the channel has (default 300; 5,000 take some minutes to be posted one by one). MTPROTO_RECORD=1 writes
the recording that test_recorded_wire.py replays.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from telethon.crypto import rsa
from wire_recording import live_through, read_older_layer, record_wire, write_recording

from ingest.history import BackfillRunner, PacedSource, look_before_citing, sweep_channels
from ingest.mtproto import HistoryAccount, HistoryClient
from rag_core.errors import HistoryUnavailable
from rag_core.storage import Archive, channel_history, channels, posts, visible_posts
from rag_core.types import Channel, PostKey

CHECKOUT = os.environ.get("MTPROTO_SERVER", "")
POSTS = int(os.environ.get("MTPROTO_POSTS", "300"))
KILLS = 20
FIRST_ID = 2  # the first message of a channel says that it was created

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not CHECKOUT, reason="MTPROTO_SERVER names no checkout of a Telegram server"),
]


@pytest.fixture(autouse=True)
def older_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    read_older_layer(monkeypatch)


class MtprotoServer:
    """The server in a process of its own, with a person who posts in one channel and a bot that is in it."""

    def __init__(self, process: asyncio.subprocess.Process, told: dict[str, Any]) -> None:
        self._process, self._told = process, told
        self.chat_id = -1_000_000_000_000 - int(told["channel"])
        self.channel = Channel(self.chat_id, "Bakery")

    def make_account(self, port: int = 0, **changes: Any) -> HistoryAccount:
        fields = {"api_id": 1, "api_hash": "hash", "token": self._told["token"], "public_key": self._told["key"]}
        return HistoryAccount(**(fields | {"server": (2, "127.0.0.1", port or self.port)} | changes))

    @property
    def port(self) -> int:
        return int(self._told["port"])

    async def do(self, **order: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{json.dumps(order)}\n".encode())
        assert await read_json(self._process) == {"done": order}


async def read_json(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout
    while line := (await process.stdout.readline()).decode():
        if line.startswith("{"):  # the server prints the codes that it would send
            return json.loads(line)
    raise AssertionError("the server has ended")


@pytest.fixture
async def server() -> AsyncIterator[MtprotoServer]:
    words = [f"{CHECKOUT}/.venv/bin/python", str(Path(__file__).with_name("piltover_server.py")), CHECKOUT]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    try:
        yield MtprotoServer(process, await read_json(process))
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
async def approved(archive: Archive, server: MtprotoServer) -> Archive:
    await channels.save_channel(archive, server.channel)
    await channels.record_bot_joined(archive, server.chat_id)
    await channel_history.begin_backfill(archive, server.chat_id)
    return archive


def unpaced(client: HistoryClient) -> PacedSource:
    async def skip(_: float) -> None:
        return None

    return PacedSource(client, sleep=skip)


async def fetch_all(archive: Archive, client: HistoryClient) -> None:
    runner = BackfillRunner(archive, unpaced(client), lambda: None)
    for _ in range(1000):
        if not await runner.run_once():
            return
    raise AssertionError("it never ends")


async def tell_nobody(_: object) -> bool:
    return True


async def test_posts_come_once_and_deletions_and_edits_follow(
    approved: Archive, server: MtprotoServer, tmp_path: Path
) -> None:
    client = HistoryClient(server.make_account(), tmp_path)
    await server.do(post=POSTS)
    await server.do(delete=[5, 6, 7])
    await server.do(edit=[9, "Хлеб подорожал"])
    await server.do(album=["Печь", "", "Витрина"])
    await fetch_all(approved, client)
    expected = set(range(FIRST_ID, POSTS + FIRST_ID + 3)) - {5, 6, 7}
    album = [PostKey(server.chat_id, POSTS + FIRST_ID + n) for n in range(3)]
    assert {one.text for one in (await visible_posts.fetch_posts(approved, album)).values()} == {"Печь\n\nВитрина"}
    assert await posts.list_message_ids(approved, server.chat_id) == expected
    assert (await approved.rows("SELECT count(*) FROM post_versions"))[0][0] == 0
    edited = PostKey(server.chat_id, 9)
    assert (await visible_posts.fetch_posts(approved, [edited]))[edited].text == "Хлеб подорожал"

    await server.do(delete=[20, 21])
    await server.do(edit=[22, "Хлеб снова подешевел"])
    for hour in range(1, 3 + POSTS // 100):
        moment = datetime.now(UTC) + timedelta(hours=1.1 * hour)
        await sweep_channels(approved, unpaced(client), tell_nobody, moment)
    assert await posts.list_message_ids(approved, server.chat_id) == expected - {20, 21}
    changed = PostKey(server.chat_id, 22)
    assert (await visible_posts.fetch_posts(approved, [changed]))[changed].text == "Хлеб снова подешевел"

    await approved.execute("UPDATE post_looks SET looked_at = 0")
    await server.do(delete=[30])
    assert await look_before_citing(approved, client, [PostKey(server.chat_id, 30)], seconds=10)
    assert 30 not in await posts.list_message_ids(approved, server.chat_id)
    await client.close()
    (session,) = tmp_path.glob("*.session")
    assert session.stat().st_mode & 0o777 == 0o600


async def test_a_bot_that_is_shut_out_loses_no_post(approved: Archive, server: MtprotoServer, tmp_path: Path) -> None:
    client = HistoryClient(server.make_account(), tmp_path)
    await server.do(post=30)
    await fetch_all(approved, client)
    await server.do(leave=True)
    for hour in range(1, 5):
        await sweep_channels(approved, unpaced(client), tell_nobody, datetime.now(UTC) + timedelta(hours=1.1 * hour))
    assert await posts.count_posts(approved, server.chat_id) == 30
    with pytest.raises(HistoryUnavailable):
        await client.get_messages(server.chat_id, [FIRST_ID])
    await client.close()


async def test_a_connection_that_is_cut_is_made_again(server: MtprotoServer, tmp_path: Path) -> None:
    await server.do(post=5)
    async with cuttable_proxy(server.port) as (port, cut):
        client = HistoryClient(server.make_account(port), tmp_path)
        assert len((await client.get_messages(server.chat_id, [2, 3, 4])).messages) == 3
        cut()
        for _ in range(3):  # a request that was under way may fail
            with suppress(HistoryUnavailable):
                assert len((await client.get_messages(server.chat_id, [2, 3, 4])).messages) == 3
                break
        else:
            raise AssertionError("it does not connect again")
        await client.close()
    assert len(list(tmp_path.glob("*.session"))) == 1  # signed in once


@asynccontextmanager
async def cuttable_proxy(port: int) -> AsyncIterator[tuple[int, Any]]:
    writers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onwards = await asyncio.open_connection("127.0.0.1", port)
        writers.extend([writer, onwards])
        tasks.update({asyncio.create_task(copy(reader, onwards)), asyncio.create_task(copy(there, writer))})

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield proxy.sockets[0].getsockname()[1], lambda: [writer.transport.abort() for writer in writers]
    finally:
        proxy.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_wrong_token_and_a_wrong_key_are_one_sentence(
    server: MtprotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = HistoryClient(server.make_account(token=f"{server.make_account().token.partition(':')[0]}:no"), tmp_path)
    with pytest.raises(HistoryUnavailable, match="does not take HISTORY__API_ID"):
        await wrong.get_messages(server.chat_id, [FIRST_ID])
    await wrong.close()
    monkeypatch.setattr(rsa, "_server_keys", {})
    stranger = HistoryClient(server.make_account(public_key=""), tmp_path)
    with pytest.raises(HistoryUnavailable, match="cannot be reached"):
        await stranger.get_messages(server.chat_id, [FIRST_ID])
    await stranger.close()
    assert not list(tmp_path.glob("*.session"))


async def test_a_server_that_says_empty_of_every_id_takes_out_nothing(
    approved: Archive, server: MtprotoServer, tmp_path: Path
) -> None:
    client = HistoryClient(server.make_account(), tmp_path)
    await server.do(post=30)
    await fetch_all(approved, client)
    await server.do(silent=True)
    for hour in range(1, 5):
        await sweep_channels(approved, unpaced(client), tell_nobody, datetime.now(UTC) + timedelta(hours=1.1 * hour))
    await approved.execute("UPDATE post_looks SET looked_at = 0")
    assert not await look_before_citing(approved, client, [PostKey(server.chat_id, 9)], seconds=10)
    assert await posts.count_posts(approved, server.chat_id) == 30
    await client.close()


async def test_a_flood_wait_is_slept_through(server: MtprotoServer, tmp_path: Path) -> None:
    client, slept = HistoryClient(server.make_account(), tmp_path), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(seconds)

    await server.do(post=3, flood=2)
    found = await PacedSource(client, pause=0, sleep=sleep).get_messages(server.chat_id, [2, 3, 4])
    assert len(found.messages) == 3
    assert 1 < slept[0] <= 2
    await client.close()


async def test_a_channel_lives_through_what_is_recorded(
    archive: Archive, server: MtprotoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, now, clock = record_wire(monkeypatch), datetime.now(UTC), [1000.0]

    def pass_time(seconds: float) -> None:
        clock[0] += seconds

    client = HistoryClient(server.make_account(), tmp_path, clock=lambda: clock[0])
    await live_through(archive, client, server.chat_id, now, server.do, pass_time)
    if os.environ.get("MTPROTO_RECORD"):
        write_recording(server.chat_id, now, calls)


def kill_one(server: MtprotoServer, folder: Path, seconds: float) -> bool:
    """Let a process fetch for some time and kill it; whether it was still at work."""
    code = "import asyncio, sys, test_mtproto_server as t; asyncio.run(t.go_on(*sys.argv[1:]))"
    account = json.dumps([server.port, server.make_account().token, server.make_account().public_key])
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    words = [sys.executable, "-c", code, str(folder), account]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}) as running:
        assert running.stdout
        assert running.stdout.readline() == b"at work\n"
        time.sleep(seconds)
        working = running.poll() is None
        running.kill()
    return working


async def go_on(folder: str, account: str) -> None:
    port, token, key = json.loads(account)
    read_older_layer(pytest.MonkeyPatch())
    archive = await Archive.open(Path(folder))
    client = HistoryClient(HistoryAccount(1, "hash", token, (2, "127.0.0.1", port), key), Path(folder))
    print("at work", flush=True)
    runner = BackfillRunner(archive, PacedSource(client, pause=0.2), lambda: None)
    while await runner.run_once():
        pass
    await client.close()
    await archive.close()


async def test_killed_twenty_times_it_has_every_post_once(server: MtprotoServer, tmp_path: Path) -> None:
    await server.do(post=POSTS)
    archive = await Archive.open(tmp_path)
    await channels.save_channel(archive, server.channel)
    await channels.record_bot_joined(archive, server.chat_id)
    await channel_history.begin_backfill(archive, server.chat_id)
    client = HistoryClient(server.make_account(), tmp_path)
    await BackfillRunner(archive, unpaced(client), lambda: None).run_once()  # the newest id
    await client.close()
    chance = random.Random(7)
    kills = [await asyncio.to_thread(kill_one, server, tmp_path, chance.uniform(0.05, 0.4)) for _ in range(KILLS)]
    assert any(kills)
    await fetch_all(archive, client)
    assert await posts.list_message_ids(archive, server.chat_id) == set(range(FIRST_ID, POSTS + FIRST_ID))
    assert (await archive.rows("SELECT count(*) FROM post_versions"))[0][0] == 0
    await client.close()
    await archive.close()
