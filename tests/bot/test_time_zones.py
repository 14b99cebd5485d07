from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from driver import HARBOUR, OTTO, RITA, buttons, press

from bot.control.server import RequestHandlers
from ingest.indexer import LexicalIndexer
from rag_core import RagSettings, open_engine
from rag_core.storage import channels, posts
from rag_core.types import Channel, Post, PostKey

ASKED = "What was posted yesterday?"


async def keep(folder, *kept):
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        await channels.save_channel(rag.archive, Channel(HARBOUR, "Harbour News", "harbour_news"))
        await posts.save_posts(rag.archive, kept, source="test")
        indexer = LexicalIndexer(rag.archive, rag.lexical)
        await indexer.catch_up()
        await indexer.save()


@pytest.fixture
def elsewhere():
    """A zone in which it is another day now than in UTC, and a post of yesterday there, not of yesterday here."""
    # fourteen hours ahead, or twelve behind
    name, hour = ("Pacific/Kiritimati", 20) if datetime.now(UTC).hour >= 11 else ("Etc/GMT+12", 4)
    zone = ZoneInfo(name)
    yesterday = datetime.now(zone).date() - timedelta(days=1)
    moment = datetime.combine(yesterday, time(hour), zone).astimezone(UTC)
    assert moment.date() != datetime.now(UTC).date() - timedelta(days=1)
    return name, Post(PostKey(HARBOUR, 900), moment, "The crane was painted green.")


async def test_a_chat_chooses_its_own_zone(sandbox, live, home, ask):
    midnight = datetime(2026, 3, 14, 21, tzinfo=UTC)  # in Moscow
    await keep(home, Post(PostKey(HARBOUR, 900), midnight - timedelta(hours=2), "The crane was painted green."))
    sandbox.world.clock = lambda: (midnight + timedelta(hours=1.5)).timestamp()
    async with live():
        assert "crane" not in (await ask(OTTO, ASKED))["text"]
        offered = await ask(OTTO, "/settings")
        assert offered["text"].startswith("Dates and times here: UTC")
        chosen = next(name for name in buttons(offered) if name.startswith("Moscow"))
        await press(sandbox, offered, chosen, OTTO)
        assert "crane" in (await ask(OTTO, ASKED))["text"]
        assert "crane" not in (await ask(RITA, ASKED))["text"]
        assert (await ask(OTTO, "/settings Nowhere/Atlantis"))["text"].startswith("I do not know this time zone")
        assert (await ask(OTTO, "/settings Asia/Tokyo"))["text"].startswith("Dates and times here: Tokyo")


async def test_a_question_from_a_terminal_counts_them_in_the_zone_of_the_settings(library, elsewhere):
    name, post = elsewhere
    await channels.save_channel(library.rag.archive, Channel(HARBOUR, "Harbour News", "harbour_news"))
    await library.keep(post)
    told = []
    for zone in (ZoneInfo(name), UTC):
        requests = RequestHandlers(library.rag, library, library, zone).all()
        told.append(await requests["ask"](lambda done, total: None, question=ASKED))
    assert "no posts" not in told[0]["answer"]["sentences"][0]["text"]
    assert told[1]["answer"]["sentences"][0]["text"].startswith("There are no posts of that time.")
