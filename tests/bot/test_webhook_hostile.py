"""The webhook's port against a stranger who reaches it: what connections, heads and bodies may hold; its hosts."""

import asyncio
import contextlib
import io
import itertools
import json
import time
import zlib
from pathlib import Path

import aiohttp
import pytest
import yarl
from test_webhook import HEADER, SECRET, counts, hook, hooked, message

from bot.telegram.updates import check_listen_host
from rag_core.errors import SettingsWrong

__all__ = ["hook"]  # a fixture

HEAD = b"POST /telegram/updates HTTP/1.1\r\nHost: bot\r\n"
KNOWN = HEAD + f"{HEADER}: {SECRET}\r\n".encode()


@pytest.fixture
async def port(sandbox, live, hook):
    async with live(sections={"webhook": hook}):
        await hooked(sandbox)
        yield hook["port"]


@contextlib.asynccontextmanager
async def opened(port, said=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def answer(port, said, within=10.0):
    """The status that comes for these bytes; 0 where the connection is closed without a word."""
    async with opened(port, said) as reader, asyncio.timeout(within):
        try:
            line = await reader.readline()
        except ConnectionError:
            return 0
        return int(line.split()[1]) if line else 0


async def brought(port, number):
    body = message(number, "/help")
    return await answer(port, KNOWN + b"Content-Length: %d\r\n\r\n" % len(body) + body)


async def test_a_connection_that_asks_nothing_is_closed(port, monkeypatch):
    monkeypatch.setattr("bot.telegram.updates._FIRST_REQUEST_SECONDS", 0.2)
    monkeypatch.setattr("bot.telegram.updates._IDLE_CHECK_SECONDS", 0.1)
    said = [b"", b"POST /telegram/up", HEAD, KNOWN + b"Content-Length: 5\r\n"]
    assert await asyncio.gather(*(answer(port, one) for one in said)) == [0] * len(said)
    assert await brought(port, 7) == 200


async def test_a_head_that_comes_byte_by_byte_is_cut_off(port, monkeypatch):
    monkeypatch.setattr("bot.telegram.updates._FIRST_REQUEST_SECONDS", 0.5)
    monkeypatch.setattr("bot.telegram.updates._IDLE_CHECK_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD)
    async with asyncio.timeout(15):
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"X-Slow: 1\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)
    writer.close()


async def test_a_flood_of_silent_connections_keeps_nobody_out(port, monkeypatch):
    monkeypatch.setattr("bot.telegram.updates._MAX_CONNECTIONS", 20)
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(opened(port, HEAD)) for _ in range(200)]
        await asyncio.sleep(0.2)
        for number in range(30):
            assert await brought(port, 100 + number) == 200
        ours = len(list(Path("/proc/self/fd").iterdir())) - before - 200
        assert ours < 40, "the bot's own ends of 200 connections"
        closed = sum(reader.at_eof() or reader.exception() is not None for reader in readers)
        assert closed > 150


async def test_connections_at_work_are_not_closed_for_others(port, monkeypatch):
    monkeypatch.setattr("bot.telegram.updates._MAX_CONNECTIONS", 3)
    body = message(9, "/help")
    async with contextlib.AsyncExitStack() as stack:
        ends = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.transport.abort)
            writer.write(KNOWN + b"Content-Length: %d\r\n\r\n" % len(body) + body[:10])
            ends.append((reader, writer))
        await asyncio.sleep(0.2)
        assert await answer(port, b"") == 0
        for reader, writer in ends:
            writer.write(body[10:])
            assert b"200" in await reader.readline()


ENDLESS = [
    (KNOWN + b"Content-Length: 1000\r\n\r\n{", 408),
    (KNOWN + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 408),
    (KNOWN + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx", 408),
    (KNOWN + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a" * 1_000_000, 408),
    (KNOWN + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX\r\n", 400),
    (HEAD + b"Content-Length: 1000\r\n\r\n{", 401),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 401),
]


async def test_a_body_without_an_end_is_not_waited_for(port, monkeypatch):
    monkeypatch.setattr("bot.telegram.updates._READ_TIMEOUT_SECONDS", 0.3)
    found = await asyncio.gather(*(answer(port, said) for said, _ in ENDLESS))
    assert found == [status for _, status in ENDLESS]
    assert await brought(port, 8) == 200


async def test_after_a_wrong_secret_the_line_is_closed(port):
    """And nothing of the body is waited for: it may be as long as they like."""
    async with opened(port, HEAD + b"Content-Length: 1000000000\r\n\r\n") as reader, asyncio.timeout(8):
        head = await reader.read()
    assert b" 401 " in head
    assert b"connection: close" in head.lower()


async def test_two_secrets_are_none(port):
    body = message(7, "/help")
    for pair in (("wrong", SECRET), (SECRET, "wrong")):
        lines = b"".join(f"{HEADER}: {one}\r\n".encode() for one in pair)
        first = await answer(port, HEAD + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert first == (200 if pair[0] == SECRET else 401)


async def test_a_compressed_bomb_is_not_unpacked(port):
    bomb, zipped = (zlib.compress(bytes(1 << 26), 1, wbits) for wbits in (15, 31))
    bombs = {"gzip": zipped, "deflate": bomb, "br": bomb, "zstd": bomb}
    async with aiohttp.ClientSession() as http:
        for coding, secret in itertools.product(bombs, ("wrong", SECRET)):
            headers = {HEADER: secret, "Content-Encoding": coding}
            began, before = time.process_time(), _memory_kb()
            address = f"http://127.0.0.1:{port}/telegram/updates"
            async with http.post(address, data=bombs[coding], headers=headers) as response:
                assert response.status == (400 if secret == SECRET else 401), coding
            assert time.process_time() - began < 0.5
            assert _memory_kb() - before < 32_000, coding


def _memory_kb():
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


NO_REQUESTS = [
    b"\x00" * 100,
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"A" * 100 + b"\r\n",
    HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    HEAD + b"".join(b"X%d: a\r\n" % n for n in range(10_000)) + b"\r\n",
    HEAD + b"X: one\x1b[31m\x0btwo\r\n\r\n",
    KNOWN + b"Content-Length: -1\r\n\r\n",
    KNOWN + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    KNOWN + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
]


async def test_what_is_no_request_is_refused_and_fills_no_log(port, caplog):
    caplog.clear()
    for number, said in enumerate(NO_REQUESTS):
        assert await answer(port, said) in {0, 400, 401}, said[:100]
        assert not [record for record in caplog.records if record.name.startswith(("aiohttp", "bot.telegram.updates"))]
        assert await brought(port, 11 + number) == 200


async def test_no_other_way_leads_in(port, home):
    ways = ("/", "/telegram", "/telegram/updates/", "//telegram/updates", "/telegram/./updates", "/TELEGRAM/updates",
            "/x/../telegram/updates", "/telegram%2fupdates", "/telegram/updates;x", "/telegram/updates%00",
            "/telegram/updates%20")  # fmt: skip
    async with aiohttp.ClientSession() as http:
        for way in ways:
            address = yarl.URL(f"http://127.0.0.1:{port}{way}", encoded=True)
            async with http.post(address, data=message(7, "/help"), headers={HEADER: SECRET}) as response:
                assert response.status in {400, 404}, way
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"):
            address = yarl.URL(f"http://127.0.0.1:{port}/telegram/updates")
            async with http.request(method, address, headers={HEADER: SECRET}) as response:
                assert response.status in {400, 405}, method
    assert await counts(home) == {"pending": 0, "poison": 0, "done": 0}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
async def test_json_of_any_depth_is_kept(port, home, opening, closing):
    """Never a failure of ours, for which Telegram would come again for a day."""
    depths = (10, 100, 130, 300, *range(960, 1010, 7), 5000, 500_000)
    for number, depth in enumerate(depths):
        body = message(100 + number, "/help")[:-1] + f', "x": {opening * depth}1{closing * depth}}}'.encode()
        assert await answer(port, KNOWN + b"Content-Length: %d\r\n\r\n" % len(body) + body) == 200
    assert (await counts(home))["poison"] == len(depths) - 2


async def test_odd_numbers_and_names_do_not_fail(port, home):
    odd = [
        {"update_id": 20, **{f"k{n}": n for n in range(20_000)}},
        {"update_id": 21, "\x1b[31mforged\n2026-01-01 ERROR": 1},
        {"update_id": 22, "message": [1] * 1000},
        {"update_id": 23, "message": {"message_id": 2**70, "date": 2**70, "chat": {"id": 2**70}}},
    ]
    async with aiohttp.ClientSession() as http:
        for update in odd:
            address = f"http://127.0.0.1:{port}/telegram/updates"
            async with http.post(
                address, data=io.BytesIO(json.dumps(update).encode()), headers={HEADER: SECRET}
            ) as response:
                assert response.status == 200
    assert (await counts(home))["poison"] == len(odd)


@pytest.mark.parametrize(
    ("host", "public"),
    [("127.0.0.1", False), ("127.8.8.8", False), ("::1", False), ("localhost", False), ("0.0.0.0", True)],
)
def test_a_port_of_this_machine_may_be_opened_and_any_that_is_meant_to_be_public(host, public):
    assert check_listen_host(host, public, "MONITORING__HOST") == host


@pytest.mark.parametrize("section", ["MONITORING", "WEBHOOK"])
@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "0", "127.1", "192.168.1.2", "8.8.8.8", "::ffff:8.8.8.8", "localhost.example.com"]
)
def test_a_port_that_others_can_reach_is_refused_in_one_sentence(host, section):
    with pytest.raises(SettingsWrong) as caught:
        check_listen_host(host, False, f"{section}__HOST")
    assert f"{section}__HOST" in caught.value.reason
    assert f"{section}__PUBLIC=true" in caught.value.reason
    assert caught.value.reason.count(". ") == 0
