from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from driver import HARBOUR, OTTO
from page_faults import note_faults, playwright_api

from bot.sandbox import Sandbox
from rag_core.types import Post, PostKey

LEAVES = "The ferry to Owl Island leaves at 7:30 every morning from pier four."


async def test_a_reader_presses_a_receipt_and_sees_the_words_in_their_post(
    sandbox: Sandbox, live: Any, ask: Any, browser: playwright_api.Browser
) -> None:
    text = f"🚢 Summer timetable.\n{LEAVES} Welcome!"
    sandbox.world.add_history(HARBOUR, [Post(PostKey(HARBOUR, 10), datetime(2024, 3, 12, 9, tzinfo=UTC), text)])
    page = await browser.new_page(locale="en-GB", viewport={"width": 1300, "height": 800})
    wrong = note_faults(page)
    async with live():
        answer = await ask(OTTO, "When does the ferry to Owl Island leave?")
        await page.goto(f"{sandbox.url}/?user={OTTO}")
        keys = page.locator(f'[data-message="{OTTO}/{answer["message_id"]}"] .key')
        await keys.filter(has_text="More").click()
        await keys.filter(has_text="❝ Quote 1").click()
        reply = page.locator("#main .replied.quoted")
        await playwright_api.expect(reply.locator(".name")).to_have_text("Harbour News")
        await playwright_api.expect(reply.locator(".words")).to_have_text(LEAVES)

        await reply.click()
        shown = page.locator(f'#source [data-message="{HARBOUR}/10"]')
        await playwright_api.expect(shown).to_be_in_viewport()
        await playwright_api.expect(shown.locator("mark.quoted")).to_have_text(LEAVES)
        await sandbox.edit(HARBOUR, 10, "The ferry is out of service.")
        await playwright_api.expect(shown.locator("mark.quoted")).to_have_count(0)
        await playwright_api.expect(reply.locator(".words")).to_have_text(LEAVES)
    assert wrong == []
