import asyncio
import time

import pytest
from driver import HARBOUR, RITA, index_posts

from rag_core import RagSettings, open_engine
from rag_core.storage import visible_posts
from rag_core.types import Post, PostKey

ATTACKERS = range(9000, 9006)
PATTERNS = ["не ", "Anna Ivanova ", "monday ", "isn't ", "1 ", "Анна и "]
MOST_S = 2.0  # of waiting
# Of the whole process until the plain question is answered: up to 1.7 s on a slow machine, and minutes before
# hostile texts were bounded.
MOST_CPU_S = 2.5


async def keep_hostile_posts(home):
    """Three posts of each pattern in a channel that everybody may read."""
    async with open_engine(RagSettings.model_validate({"data": {"dir": home}})) as rag:
        like = (await visible_posts.fetch_posts(rag.archive, [PostKey(HARBOUR, 10)]))[PostKey(HARBOUR, 10)]
        hostile = [
            Post(PostKey(HARBOUR, 100 + 10 * n + m), like.date, (pattern * 4000)[: 4000 - m])
            for n, pattern in enumerate(PATTERNS)
            for m in range(3)
        ]
        await index_posts(rag, hostile)


@pytest.mark.alone
@pytest.mark.parametrize(("command", "length"), [("/verify ", 4000), ("", 900)], ids=["verify", "ask"])
async def test_six_hostile_requests_do_not_delay_another_reader(sandbox, live, home, command, length):
    await keep_hostile_posts(home)
    for attacker in ATTACKERS:
        sandbox.world.add_person(attacker, f"A{attacker}", lang="en")
    async with live():
        for attacker, pattern in zip(ATTACKERS, PATTERNS, strict=True):
            await sandbox.say(attacker, command + (pattern * length)[:length])
        begun, spent = asyncio.get_running_loop().time(), time.process_time()
        await sandbox.say(RITA, "When does the ferry to Owl Island leave?")
        (reply,) = await sandbox.replies(RITA, timeout=30)
        waited, spent = asyncio.get_running_loop().time() - begun, time.process_time() - spent
        assert "7:30" in reply["text"]
        for attacker in ATTACKERS:
            await sandbox.replies(attacker, timeout=60)
    assert spent <= MOST_CPU_S
    came = {int(c["params"]["chat_id"]): c["at"] for c in sandbox.transcript if c["method"] == "sendMessage"}
    assert waited <= MOST_S or came[RITA] < max(came[attacker] for attacker in ATTACKERS)
