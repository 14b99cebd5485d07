"""That the judge of `kill_loop.py` notices what is lost, twice or stale."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from chaos import consistency_check
from chaos.bot_process import BotHome
from chaos.channel_traffic import CHANNELS, ChannelTraffic
from chaos.expected_posts import ExpectedPost, list_expected_posts
from driven_sandbox import DrivenSandbox

from bot.cli.demo import run_demo_bot
from bot.settings import Settings
from rag_core import RagSettings, open_engine
from rag_core.index.lexical_index import IndexEntry
from rag_core.storage import Archive, channels
from rag_core.storage.post_rows import from_unix_seconds
from rag_core.text.tokens import tokenize
from rag_core.types import PostKey


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
        given = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": home.data}}
        models = {"models": {"embedder": "none", "reranker": "none"}}
        async with run_demo_bot(Settings.model_validate(given | models)), asyncio.timeout(60):
            while traffic.updates < 400:
                traffic.next()
            pending = "SELECT count(*) FROM updates WHERE state = 'pending'"
            while sandbox.world.queue.kept or home.rows(pending) != [(0,)]:  # noqa: ASYNC110 - nothing rings a bell
                await asyncio.sleep(0.05)
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
