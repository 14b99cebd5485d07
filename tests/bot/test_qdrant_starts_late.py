"""A Qdrant server that comes up after the bot: posts are searched by words, and by meaning as soon as it answers."""

import asyncio

import pytest
from driven_sandbox import running_bot
from driver import OTTO

from bot.settings import Settings

FERRY = "When does the ferry to Owl Island leave?"


@pytest.mark.timeout(300)
async def test_a_server_that_comes_up_after_the_bot_is_taken_up_without_a_hand(
    sandbox, home, qdrant, offline_models, caplog
):
    await qdrant.stop()
    given = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": home}}
    given |= {"models": {"dir": offline_models.parent, "reranker": "none"}, "qdrant": {"url": qdrant.url}}
    async with running_bot(Settings.model_validate(given)):
        await sandbox.say(OTTO, FERRY)
        (reply,) = await sandbox.replies(OTTO, timeout=60)
        assert "7:30" in reply["text"]
        assert "I searched by words only: the search by meaning is down." in reply["text"]
        await qdrant.start()
        async with asyncio.timeout(120):
            while not any(call.endswith("/points") and call.startswith("PUT") for call in qdrant.asked):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await sandbox.say(OTTO, "When can I buy fresh fish?")
            await sandbox.replies(OTTO, timeout=60)
        assert any("query" in call for call in qdrant.asked)
    assert "Traceback" not in caplog.text
