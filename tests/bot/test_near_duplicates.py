import asyncio
import re
import time

from driver import HARBOUR, KILN, OTTO, SAFE, say

RACE = "The tortoise race on the long beach begins at noon and ends in September."
QUESTION = "When does the tortoise race on the long beach begin?"


async def answered(sandbox, wanted, but="\0"):
    """The answer to the question, asked again until it has what is wanted: posts are taken in meanwhile."""
    async with asyncio.timeout(20):
        while True:
            reply = await say(sandbox, OTTO, QUESTION)
            if re.search(wanted, reply["text"]) and but not in reply["text"]:
                return str(reply["text"])


async def test_the_same_post_in_other_channels_is_one_source_until_a_fact_is_changed(sandbox, live_bot):
    first = {"date": int(time.time()) - 1}  # Telegram's times are whole seconds
    await sandbox.post(HARBOUR, f"{RACE}\n\nSubscribe to @harbour_news", extra=first)
    copy = await sandbox.post(KILN, f"🐢 {RACE}\n\n👉 t.me/pech_i_glina")
    await sandbox.post(SAFE, RACE)
    text = await answered(sandbox, r"\d{4} · also in @pech_i_glina$")
    assert text.count("begins at noon") == 1
    assert "Harbour News" in text
    await sandbox.edit(KILN, copy["message_id"], RACE.replace("noon", "one"))
    text = await answered(sandbox, "begins at", but="also in")
    assert "safe" not in text
