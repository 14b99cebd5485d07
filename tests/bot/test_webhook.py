import asyncio
import io
import json
import os
import signal
import socket

import aiohttp
import pytest
from chaos.bot_process import fork_bot
from driver import HARBOUR, OTTO, query_archive, say
from local_server import find_free_port

from bot.app import ALLOWED_UPDATES, run_bot
from bot.settings import Settings, read_settings
from rag_core.errors import SettingsWrong
from rag_core.storage import raw_updates

FERRY = "When does the ferry to Owl Island leave?"
SECRET = "a-Secret_of-the-tests"
URL = "https://bot.example.org/telegram/updates"
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@pytest.fixture
def hook(sandbox):
    """The settings of a webhook on a free port, and a proxy of the sandbox's that passes on to it."""
    port = find_free_port()
    sandbox.hooks.behind["https://bot.example.org"] = f"http://127.0.0.1:{port}"
    sandbox.hooks.unit = 0.01
    return {"url": URL, "secret": SECRET, "port": port}


async def knock(hook, body, secret=SECRET, method="POST"):
    address = f"http://127.0.0.1:{hook['port']}/telegram/updates"
    async with (
        aiohttp.ClientSession() as http,
        http.request(
            method, address, data=io.BytesIO(body), headers={HEADER: secret} if secret is not None else {}
        ) as answer,
    ):
        return answer.status


def known(sandbox):
    return sandbox.world.queue.webhook == URL


async def hooked(sandbox, times=1):
    """Wait until Telegram has been told of the webhook so often: the port is open then."""
    told = sandbox.world.queue.bell.until(
        lambda: sum(line["method"] == "setWebhook" for line in sandbox.transcript) >= times, 10
    )
    assert await told


def message(number, text):
    person = {"id": OTTO, "is_bot": False, "first_name": "Otto", "language_code": "en"}
    chat = {"id": OTTO, "type": "private", "first_name": "Otto"}
    sent = {"message_id": 1, "date": 1_750_000_000, "chat": chat, "from": person, "text": text}
    return json.dumps({"update_id": number, "message": sent}).encode()


async def counts(home):
    return await query_archive(home, raw_updates.count_updates_by_state)


async def test_a_question_that_telegram_brings_is_answered_and_a_post_it_brings_is_found(sandbox, live, hook, eyes):
    await sandbox.say(OTTO, FERRY)  # before there is a webhook: it waits
    async with live(sections={"webhook": hook}, watch=eyes):
        (reply,) = await sandbox.replies(OTTO)
        assert "7:30" in reply["text"]
        await sandbox.post(HARBOUR, "The regatta of wooden sailboats begins on Saturday at noon.")
        await eyes.see("The regatta of wooden sailboats begins on Saturday at noon.")
        reply = await say(sandbox, OTTO, "When does the regatta of wooden sailboats begin?")
        assert "Saturday at noon" in reply["text"]
    assert not any(line["method"].lower() == "getupdates" for line in sandbox.transcript)
    (told,) = (line["params"] for line in sandbox.transcript if line["method"] == "setWebhook")
    assert told["url"] == URL
    assert told["secret_token"] == SECRET
    assert json.loads(told["allowed_updates"]) == ALLOWED_UPDATES
    assert told.get("drop_pending_updates") in {None, "false"}
    assert known(sandbox), "the webhook stays set, so that Telegram keeps what comes until the next start"


async def test_without_the_secret_nothing_is_kept(sandbox, live, hook, home):
    async with live(sections={"webhook": hook}):
        await hooked(sandbox)
        for secret in (None, "", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper(), "кириллица"):
            assert await knock(hook, message(7, FERRY), secret) == 401, secret
        assert await knock(hook, message(8, FERRY), SECRET, "GET") == 405
    assert await counts(home) == {"pending": 0, "poison": 0, "done": 0}


NO_UPDATES = [b"", b'{"update_id": 7, "message": {"te', b"[1]", b'{"message": {}}', b'{"update_id": "7"}']
NO_UPDATES += [b'{"update_id": true}', b'{"update_id": %d}' % 2**70, b"[" * 100_000, b"\xff\xfe"]


async def test_what_is_no_update_is_not_confirmed(sandbox, live, hook, home):
    async with live(sections={"webhook": hook}):
        await hooked(sandbox)
        for number, body in enumerate([*NO_UPDATES, b" " * (2**23 + 1)]):
            assert await knock(hook, body) == (400 if body in NO_UPDATES else 413), body[:40]
            assert await knock(hook, message(20 + number, "/help")) == 200
    assert (await counts(home))["poison"] == 0


async def test_the_same_update_twice_is_answered_once(sandbox, live, hook):
    await sandbox.say(OTTO, FERRY)
    ((_, raw),) = sandbox.world.queue.kept.values()
    async with live(sections={"webhook": hook}):
        await sandbox.replies(OTTO)
        twice = await asyncio.gather(*(knock(hook, json.dumps(raw).encode()) for _ in range(3)))
        assert twice == [200, 200, 200]
    async with live(sections={"webhook": hook}):  # it is known after a restart too
        await hooked(sandbox, 2)
        assert await knock(hook, json.dumps(raw).encode()) == 200
        help_text = await say(sandbox, OTTO, "/help")
    assert help_text["text"].startswith("Just write your question")
    assert answered(sandbox, OTTO) == 1


@pytest.mark.parametrize("by_webhook", [False, True])
async def test_questions_that_wait_at_a_stop_are_answered_once_by_the_next_start(
    sandbox, live, hook, monkeypatch, *, by_webhook
):
    from bot.worker import question_worker

    asking = asyncio.Event()

    async def forever(*_, **__):
        asking.set()
        await asyncio.Event().wait()

    sections = {"webhook": hook} if by_webhook else {}
    asked = [(await sandbox.say(OTTO, f"{FERRY} {n}"))["message_id"] for n in range(3)]
    with monkeypatch.context() as stuck:
        stuck.setattr(question_worker, "answer_question", forever)
        stuck.setattr(question_worker.QuestionWorker.stop, "__defaults__", (0.1,))
        async with live(sections=sections):
            await asking.wait()
    late = (await sandbox.say(OTTO, FERRY))["message_id"]  # while nobody is there
    async with live(sections=sections):
        await sandbox.replies(OTTO, 4)
    async with live(sections=sections):
        await sandbox.say(OTTO, "/help")
        await sandbox.until(lambda: "Just write your question. I look for" in last(sandbox, OTTO))
    assert answered(sandbox, OTTO) == len([*asked, late])


def last(sandbox, chat):
    room = sandbox.world.room(chat)
    return str(room.messages[max(room.messages)].get("text", ""))


def answered(sandbox, chat):
    """How many messages of a chat hold an answer: in private nothing else says which question one belongs to."""
    messages = sandbox.world.room(chat).messages
    sent = (messages.get(number, {}) for number in sandbox.world.sent.get(chat, ()))
    return sum("https://t.me/harbour_news/" in str(message.get("entities")) for message in sent)


async def test_polling_takes_the_webhook_away_and_loses_nothing(sandbox, live, hook):
    async with live(sections={"webhook": hook}):
        await hooked(sandbox)
    await sandbox.say(OTTO, FERRY)
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]
    assert not sandbox.world.queue.webhook


async def test_a_webhook_that_somebody_took_away_is_set_again(sandbox, live, hook, monkeypatch, caplog):
    monkeypatch.setattr("bot.telegram.updates._CHECK_INTERVAL_SECONDS", 0.02)
    async with live(sections={"webhook": hook}):
        await hooked(sandbox)
        sandbox.world.queue.hook("")
        assert await sandbox.world.queue.bell.until(lambda: known(sandbox), 30)
        await sandbox.say(OTTO, FERRY)
        await sandbox.replies(OTTO)
    assert "took the webhook away" in caplog.text


async def test_a_proxy_that_does_not_pass_on_is_told_of(sandbox, live, hook, monkeypatch, caplog):
    monkeypatch.setattr("bot.telegram.updates._CHECK_INTERVAL_SECONDS", 0.02)
    sandbox.world.queue.clock = lambda: 4e9  # an error after the start, to the second
    sandbox.hooks.behind["https://bot.example.org"] = f"http://127.0.0.1:{find_free_port()}"
    async with live(sections={"webhook": hook}):
        await sandbox.say(OTTO, FERRY)
        async with asyncio.timeout(30):
            while "Connection refused" not in caplog.text:  # noqa: ASYNC110 - a log rings no bell
                await asyncio.sleep(0.01)
    assert "look at the proxy" in caplog.text


async def test_a_port_that_is_taken_is_one_sentence(sandbox, home, hook):
    given = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": home}, "webhook": hook}
    with socket.create_server(("127.0.0.1", hook["port"])), pytest.raises(SettingsWrong, match="WEBHOOK__PORT"):
        await run_bot(Settings.model_validate(given))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"URL": URL}, "WEBHOOK__SECRET"),
        ({"URL": URL, "SECRET": "with spaces in it"}, "WEBHOOK__SECRET"),
        ({"URL": URL, "SECRET": "x" * 257}, "WEBHOOK__SECRET"),
        ({"URL": "http://bot.example.org/hook", "SECRET": SECRET}, "WEBHOOK__URL"),
        ({"URL": "https://bot.example.org:9000/hook", "SECRET": SECRET}, "WEBHOOK__URL"),
        ({"URL": "https://user:word@bot.example.org/", "SECRET": SECRET}, "WEBHOOK__URL"),
        ({"URL": URL, "SECRET": SECRET, "PORT": "0"}, "WEBHOOK__PORT"),
    ],
)
def test_a_wrong_setting_of_the_webhook_is_one_sentence(monkeypatch, given, said):
    for name, value in given.items():
        monkeypatch.setenv(f"WEBHOOK__{name}", value)
    with pytest.raises(SettingsWrong, match=f"The setting {said} cannot be used") as caught:
        read_settings(None)
    assert "with spaces" not in caught.value.reason
    assert "word@" not in caught.value.reason


async def ended(process, number):
    os.kill(process.pid, number)
    await asyncio.to_thread(process.join, 60)
    return process.exitcode


async def count_answered_questions(home):
    sql = "SELECT count(*) FROM questions WHERE state = 'answered'"
    (row,) = await query_archive(home, lambda archive: archive.rows(sql))
    return int(row[0])


@pytest.mark.timeout(400)
async def test_killed_and_stopped_in_the_middle_nothing_is_lost(sandbox, home, hook):
    given = {"BOT__TOKEN": sandbox.token, "BOT__API": sandbox.url, "DATA__DIR": str(home), "MODELS__EMBEDDER": "none"}
    given |= {f"WEBHOOK__{name.upper()}": str(value) for name, value in hook.items()}
    asked = []
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        process = fork_bot(given, home.parent / "log")
        await asyncio.to_thread(process.start)
        before = answered(sandbox, OTTO)
        asked += [(await sandbox.say(OTTO, f"{FERRY} {number.name} {n}"))["message_id"] for n in range(8)]
        assert await sandbox.until(lambda before=before: answered(sandbox, OTTO) > before, 100)
        assert await ended(process, number) == code
    process = fork_bot(given, home.parent / "log")
    await asyncio.to_thread(process.start)
    assert await sandbox.until(lambda: answered(sandbox, OTTO) >= len(asked), 100)
    async with asyncio.timeout(100):
        while await count_answered_questions(home) < len(asked):  # noqa: ASYNC110 - another process answers
            await asyncio.sleep(0.1)
    assert await ended(process, signal.SIGTERM) == 0
    twice = answered(sandbox, OTTO) - len(asked)
    assert 0 <= twice <= 1, "only the answer that was on its way when the process was killed may come again"
