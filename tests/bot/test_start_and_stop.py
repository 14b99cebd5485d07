import asyncio

import pytest
from driver import OTTO

from bot.app import run_bot
from bot.settings import Settings
from rag_core.errors import SettingsWrong

FERRY = "When does the ferry to Owl Island leave?"


@pytest.mark.parametrize(
    ("token", "said"),
    [("", "BOT__TOKEN is empty"), ("nonsense", "is not a token"), ("43:WRONG", "does not know this token")],
)
async def test_a_wrong_token_is_one_sentence(sandbox, home, token, said):
    settings = Settings.model_validate({"bot": {"token": token, "api": sandbox.url}, "data": {"dir": home}})
    with pytest.raises(SettingsWrong, match=said):
        await run_bot(settings)


async def test_a_wrong_proxy_is_one_sentence_without_its_password(sandbox, home):
    given = {"token": sandbox.token, "api": sandbox.url, "proxy": "gopher://me:hidden@127.0.0.1:9"}
    with pytest.raises(SettingsWrong, match="BOT__PROXY cannot be used") as caught:
        await run_bot(Settings.model_validate({"bot": given, "data": {"dir": home}}))
    assert "hidden" not in caught.value.reason


async def test_a_bot_that_cannot_reach_telegram_waits_and_can_be_stopped(home, caplog):
    given = {"token": "42:SANDBOX", "api": "http://127.0.0.1:9"}
    stop = asyncio.Event()
    running = asyncio.create_task(run_bot(Settings.model_validate({"bot": given, "data": {"dir": home}}), stop=stop))
    await asyncio.sleep(0.3)
    assert not running.done()
    stop.set()
    await asyncio.wait_for(running, 30)


async def test_stopping_lets_a_running_question_finish(sandbox, live, monkeypatch):
    from bot.worker import question_worker

    asking, real = asyncio.Event(), question_worker.answer_question

    async def slowly(*args, **told):
        asking.set()
        await asyncio.sleep(0.3)
        return await real(*args, **told)

    monkeypatch.setattr(question_worker, "answer_question", slowly)
    await sandbox.say(OTTO, FERRY)
    async with live():
        await asking.wait()
    (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]
