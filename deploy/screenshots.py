"""The pictures of the README, made anew from the running demo.

Run it with .venv/bin/python deploy/screenshots.py, in the development environment (make test) and with Chromium.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from playwright.async_api import Page, async_playwright

from bot.commands.demo import furnished, running
from bot.settings import Settings
from rag_core.settings import DataSettings

PICTURES = Path(__file__).parent / "pictures"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SHOTS = (
    ("sandbox-en", "?user=1002&lang=en&theme=light", "How many Perseids in four hours?", 1380),
    ("sandbox-ru", "?user=1001&lang=ru&theme=light", "Сколько стоит разовое посещение бассейна?", 1380),
)


async def ask(page: Page, question: str) -> None:
    """Type a question, wait for the answer, open its first citation."""
    await page.fill("#composer", question)
    await page.click("#send")
    cited = page.locator('a[href^="https://t.me/"]', has_text="[1]").last
    await cited.wait_for(timeout=15_000)
    await cited.click()
    await page.wait_for_selector(".highlight")
    await page.wait_for_timeout(800)  # the page scrolls smoothly


async def main() -> None:
    """Run the demo in a temporary folder and take the pictures."""
    chromium = shutil.which("chromium") or sys.exit("no chromium here: apt-get install chromium")
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        settings = Settings(data=DataSettings(dir=Path(folder)))
        sandbox, settings = await stack.enter_async_context(furnished(settings, port=0))
        await stack.enter_async_context(running(settings))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, query, question, width in SHOTS:
            page = await browser.new_page(viewport={"width": width, "height": 860})
            await page.goto(f"{sandbox.url}/{query}")
            await ask(page, question)
            await page.screenshot(path=PICTURES / f"{name}.png")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
