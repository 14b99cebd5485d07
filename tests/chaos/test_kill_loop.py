"""What no kill and no update may do to the archive, and that the judge of `kill_loop.py` notices it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chaos import consistency_check
from chaos.bot_process import BotHome
from chaos.channel_traffic import CHANNELS, ChannelTraffic
from chaos.expected_posts import ExpectedPost, list_expected_posts
from driven_sandbox import DrivenSandbox

from bot.cli.demo import run_demo_bot
from bot.sandbox import Sandbox
from bot.settings import Settings
from rag_core import RagSettings, open_engine
from rag_core.index.lexical_index import IndexEntry
from rag_core.storage import Archive, channels
from rag_core.storage.post_rows import from_unix_seconds
from rag_core.text.tokens import tokenize
from rag_core.types import PostKey

READER, ADMIN = 801, 802


def inhabitant(sandbox: Sandbox, folder: Path) -> Settings:
    bot = {"token": sandbox.token, "api": sandbox.url, "admins": (ADMIN,)}
    given = {"bot": bot, "data": {"dir": folder}}
    return Settings.model_validate(given | {"models": {"embedder": "none", "reranker": "none"}})


async def settled(sandbox: Sandbox, home: BotHome) -> None:
    """Wait until every update is confirmed and worked in."""
    pending = "SELECT count(*) FROM updates WHERE state = 'pending'"
    for _ in range(600):
        if not sandbox.world.queue.kept and home.rows(pending) == [(0,)]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(home.rows("SELECT state, count(*) FROM updates GROUP BY state"))


async def test_an_update_of_an_unknown_kind_or_origin_keeps_no_other_from_being_handled(tmp_path: Path) -> None:
    sandbox, home, channel = DrivenSandbox(), BotHome(tmp_path, None), CHANNELS[0]
    sandbox.world.add_person(READER, "Rita", lang="en")
    sandbox.world.add_person(ADMIN, "Ada", lang="en")
    sandbox.world.add_channel(channel.chat_id, channel.title, channel.username)
    archive = await Archive.open(home.data)
    await channels.save_channel(archive, channel)
    await archive.close()
    await sandbox.start()

    first = await sandbox.post(channel.chat_id, "The ferry leaves pier four at noon.")
    sandbox.push({"brand_new_kind": {"of": "update"}})
    await sandbox.say(READER, "/help")
    odd = dict(first, message_id=900, text="odd", forward_origin={"type": "from_the_future", "date": 1, "to": "you"})
    sandbox.push({"channel_post": odd})
    last = await sandbox.post(channel.chat_id, "Mackerel is sold on the quay on Fridays.")
    await sandbox.edit(channel.chat_id, first["message_id"], "The ferry leaves pier nine at noon.")
    async with run_demo_bot(inhabitant(sandbox, home.data)):
        (said,) = await sandbox.replies(READER)
        await settled(sandbox, home)
        await sandbox.say(READER, "Which pier does the ferry leave?")
        (answer,) = await sandbox.replies(READER)
        await sandbox.say(ADMIN, "/stats")
        (stats,) = await sandbox.replies(ADMIN)
    await sandbox.stop()

    assert "/search" in said["text"]
    assert "pier nine" in answer["text"]
    kept: list[Any] = home.rows("SELECT message_id, text FROM posts ORDER BY message_id")
    assert kept == [
        (first["message_id"], "The ferry leaves pier nine at noon."),
        (last["message_id"], "Mackerel is sold on the quay on Fridays."),
    ]
    poison: list[Any] = home.rows("SELECT raw, error FROM updates WHERE state = 'poison' ORDER BY update_id")
    assert [json.loads(raw) for raw, _ in poison][1]["channel_post"] == odd
    assert "brand_new_kind" in poison[0][0] and "brand_new_kind" in poison[0][1]
    assert "forward" in poison[1][1]
    assert len(poison) == 2
    assert "2 messages from Telegram that I could not read" in stats["text"]
    assert "brand_new_kind" in stats["text"]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ChannelTraffic]:
    """A data folder after 400 updates and no kill, and what should be in it."""
    folder, sandbox = tmp_path_factory.mktemp("lived"), DrivenSandbox()
    traffic, home = ChannelTraffic(sandbox, seed=7), BotHome(folder, None)

    async def live() -> None:
        archive = await Archive.open(home.data)
        for channel in CHANNELS:  # approved: what waits for approval is in no index
            await channels.save_channel(archive, channel)
        await archive.close()
        await sandbox.start()
        async with run_demo_bot(inhabitant(sandbox, home.data)):
            while traffic.updates < 400:
                traffic.next()
            await settled(sandbox, home)
            await asyncio.sleep(2)  # the lexical leg's turn
        await sandbox.stop()

    asyncio.run(live())
    return home.data, traffic


async def judged(lived: tuple[Path, ChannelTraffic], told: dict[PostKey, ExpectedPost]) -> dict[str, dict[str, int]]:
    """What the judge says where the truth is this."""
    folder, traffic = lived
    before, traffic.told = traffic.told, told
    try:
        return {
            name: verdict.counts()
            for name, verdict in (await consistency_check.check_consistency(folder, None, traffic)).items()
        }
    finally:
        traffic.told = before


async def test_the_judge_notices_what_is_lost_twice_or_stale(lived: tuple[Path, ChannelTraffic]) -> None:
    told = lived[1].told
    key = next(k for k, one in told.items() if len(one.texts) > 1 and one.text and not one.album)
    one, new = told[key], PostKey(key.chat_id, 10_000)
    clean = await judged(lived, told)
    assert all(store | {"seen": 0} == {"lost": 0, "twice": 0, "stale": 0, "seen": 0} for store in clean.values())

    more = await judged(lived, told | {new: ExpectedPost(new, one.date, ["never told zq9999x"])})
    assert more["archive"]["lost"] == more["lexical"]["lost"] == 1
    other = await judged(lived, told | {key: replace(one, texts=[*one.texts, f"{one.text} and zq9999x"])})
    assert other["archive"]["stale"]
    assert other["lexical"]["lost"] and other["lexical"]["stale"]
    less = await judged(lived, {k: v for k, v in told.items() if k != key})
    assert less["archive"]["stale"] == 1
    assert less["lexical"]["stale"] >= 1
    younger = await judged(lived, told | {key: replace(one, texts=one.texts[1:])})
    assert younger["archive"]["twice"]
    older = await judged(lived, told | {key: replace(one, texts=["before zq9999x", *one.texts])})
    assert older["archive"]["lost"]


async def test_the_judge_notices_a_passage_that_is_there_twice(lived: tuple[Path, ChannelTraffic]) -> None:
    folder, traffic = lived
    places = list_expected_posts(traffic.told, {channel.chat_id: channel.title for channel in CHANNELS})
    place, text = next(iter(places.items()))
    async with open_engine(
        RagSettings.model_validate({"data": {"dir": folder}, "models": {"embedder": "none"}})
    ) as rag:
        assert not consistency_check.check_lexical_index(rag.lexical, places, traffic.marks).sentences()
        day = next(one.date for key, one in traffic.told.items() if key == place.key)
        rag.lexical.replace((), [IndexEntry(place, from_unix_seconds(day), tokenize(text))])
        assert len(consistency_check.check_lexical_index(rag.lexical, places, traffic.marks).twice) == 1
        rag.lexical.replace([place.key], ())
        assert consistency_check.check_lexical_index(rag.lexical, places, traffic.marks).lost
