"""Whatever happens to the bot, nothing is lost, there twice or stale: short forms of `kill_loop.py` and
`fault_matrix.py`, in one file because all bots are forked from one process.
"""

import asyncio
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from chaos import fault_matrix
from chaos.bot_process import BotHome, BotProcess, start_fork_server
from chaos.consistency_check import check_answers
from chaos.kill_loop import Chaos, Plan, run_kills
from driven_sandbox import DrivenSandbox

from rag_core.storage import Archive, channels, subscriptions
from rag_core.types import Channel, Visibility


@pytest.fixture
def models(request):
    """Where the offline model is; None where it cannot be fetched: then words alone are looked at."""
    try:
        return Path(request.getfixturevalue("offline_models")).parent
    except pytest.skip.Exception:
        return None


@pytest.mark.timeout(900)  # it takes 25 s, and ten times as long among ten others
async def test_five_kills_lose_nothing_double_nothing_and_leave_nothing_stale(tmp_path, models):
    short = Plan(kills=5, updates=1000, rate=110, patience=500, longest_life=2)
    chaos = Chaos(short, tmp_path, models)
    metrics, wrong = await run_kills(chaos)
    assert wrong == []
    assert (metrics["kills"], metrics["kills_before_ready"]) == (5, 1)
    assert metrics["updates"] >= 1000
    assert metrics["stores"]["archive"]["seen"] == metrics["posts"] > 300
    assert metrics["stores"]["answers"]["seen"] == metrics["questions"] > 5
    stores = {"archive", "lexical", "dense"} if models else {"archive", "lexical"}
    assert {name for name, store in metrics["stores"].items() if store["seen"] > 200} == stores
    assert metrics["tracebacks"] == 0, (tmp_path / "bot.log").read_text(encoding="utf-8")[-5000:]
    noticed = await chaos.invent()
    for kind in ("archive lost", "archive stale", "lexical lost", "lexical stale"):
        assert noticed[kind], kind


def test_an_answer_that_is_lost_or_twice_is_noticed():
    found = check_answers({1: [], 2: ["a"], 3: ["a", "a"], 4: ["a", "a"], 5: ["a", "a", "a"]}, {4: 1, 5: 1})
    assert (len(found.lost), len(found.twice)) == (1, 2)


@pytest.mark.timeout(600)  # it takes 20 s, and many times as long beside others
def test_a_kill_in_an_import_and_nonsense_while_questions_come_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))  # what it sets for its bots is left to no other test
    cells = fault_matrix.run_matrix("kill/import,invalid/questions", tmp_path / "homes", None, posts=500, seconds=3)
    assert [(cell.fault, cell.activity, cell.wrong, cell.skipped) for cell in cells] == [
        ("kill -9", "import", [], ""),
        ("invalid JSON", "questions", [], ""),
    ]
    killed, garbled = cells
    assert killed.restarts == 2
    assert killed.posts > 2000
    assert garbled.questions > 10


BAY = Channel(-1001000009, "Bay", "bay_news", visibility=Visibility.PUBLIC)
# Each reader watches another animal: a reader gets at most twenty notices a day.
WATCHERS = {901: "walrus", 902: "beaver", 903: "falcon", 904: "turtle", 905: "badger"}
KILLS, POSTS_A_LIFE = 3, 4


@pytest.mark.timeout(300)
async def test_three_kills_lose_no_notice_of_a_watch(tmp_path):
    """One comes twice only where the process died between Telegram taking the message and our noting it."""
    chance, sandbox = random.Random(1), DrivenSandbox()
    home = BotHome(tmp_path, None, {"BOT__ADMINS": "1"})
    archive = await Archive.open(home.data)
    await channels.save_channel(archive, BAY)
    for reader, animal in WATCHERS.items():
        await subscriptions.add_watch(archive, subscriptions.NewWatch(reader, reader, True, animal, animal))
        sandbox.world.add_person(reader, animal, lang="en").started = True
    await archive.close()
    sandbox.world.add_channel(BAY.chat_id, BAY.title, BAY.username, members=[*WATCHERS])
    await sandbox.start()
    await start_fork_server()

    def told():
        rooms = {reader: sandbox.world.room(reader).messages for reader in WATCHERS}
        sent = [rooms[reader][n]["text"] for reader in WATCHERS for n in sandbox.world.sent.get(reader, ())]
        return Counter(name for text in sent for name in re.findall(r"number (\d+) ", text))

    posted = 0
    try:
        for life in range(KILLS + 1):
            bot = BotProcess(home, sandbox)
            await bot.begin()
            try:
                assert await sandbox.until(lambda: not sandbox.world.queue.kept, timeout=60)
                for _ in range(POSTS_A_LIFE):
                    animal = [*WATCHERS.values()][posted % len(WATCHERS)]
                    words = " ".join(chance.sample("amber basil cedar delta ember fjord grove heron inlet".split(), 7))
                    await sandbox.post(BAY.chat_id, f"The {animal} of number {posted} likes {words}.")
                    posted += 1
                    await asyncio.sleep(chance.uniform(0, 0.3))
                if life < KILLS:
                    await asyncio.sleep(chance.uniform(0, 2))
                else:
                    assert await sandbox.until(lambda: len(told()) == POSTS_A_LIFE * (KILLS + 1), timeout=60), told()
                    await asyncio.sleep(2)  # a second notice would come now
            finally:
                await bot.killed()
    finally:
        await sandbox.stop()
    assert sum(number > 1 for number in told().values()) <= KILLS
