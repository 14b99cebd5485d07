from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from driver import HARBOUR, KILN, OTTO, SAFE, say

from bot.cli.folder import open_up_to_date_engine
from bot.sandbox import Sandbox
from bot.settings import Settings
from rag_core.storage import near_duplicates, posts
from rag_core.types import PostKey

RACE = "The tortoise race on the long beach begins at noon and ends in September."
QUESTION = "When does the tortoise race on the long beach begin?"


async def answered(sandbox: Sandbox, wanted: str, but: str = "\0") -> str:
    """The answer to the question, asked again until it has what is wanted: posts are taken in meanwhile."""
    async with asyncio.timeout(20):
        while True:
            reply = await say(sandbox, OTTO, QUESTION)
            if re.search(wanted, reply["text"]) and but not in reply["text"]:
                return str(reply["text"])


async def test_the_same_post_in_other_channels_is_one_source_until_a_fact_is_changed(
    sandbox: Sandbox, live: Any
) -> None:
    async with live():
        await sandbox.post(HARBOUR, f"{RACE}\n\nSubscribe to @harbour_news")
        await asyncio.sleep(1)  # Telegram's times are whole seconds
        copy = await sandbox.post(KILN, f"🐢 {RACE}\n\n👉 t.me/pech_i_glina")
        await sandbox.post(SAFE, RACE)
        text = await answered(sandbox, r"\d{4} · also in @pech_i_glina\n")
        assert text.count("begins at noon") == 1
        assert "Harbour News" in text
        await sandbox.edit(KILN, copy["message_id"], RACE.replace("noon", "one"))
        text = await answered(sandbox, "begins at", but="also in")
        assert "safe" not in text


async def test_commands_that_hold_the_folder_alone_know_the_copies_too(home: Path, make_post: Any) -> None:
    settings = Settings.model_validate({"data": {"dir": home}})
    async with open_up_to_date_engine(settings) as rag:
        await posts.save_posts(
            rag.archive, [make_post(n, RACE, chat=chat) for n, chat in ((90, HARBOUR), (91, KILN))], source="test"
        )
    async with open_up_to_date_engine(settings) as rag:
        known = await near_duplicates.fetch_copies(rag.archive, [PostKey(HARBOUR, 90)], {HARBOUR, KILN})
    assert {one.key for one in known[PostKey(HARBOUR, 90)].all} == {PostKey(HARBOUR, 90), PostKey(KILN, 91)}
