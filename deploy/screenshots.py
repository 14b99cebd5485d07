"""The pictures of the README, made anew from the running demo.

Run it with .venv/bin/python deploy/screenshots.py, in the development environment (make test) and with Chromium and an
emoji font (apt-get install chromium fonts-noto-color-emoji), after make demo, whose model for search by meaning serves
here too. Each picture is taken in English and in Russian: a private chat, the same on a phone in dark colours, a group,
the sources of an answer, verdicts, a rich message.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, async_playwright

from bot.cli.demo import ADMIN_ID, GROUP_ID, READER_ID, open_demo_sandbox, run_demo_bot
from bot.i18n import get_translator
from bot.settings import Settings
from rag_core.models.active_models import get_models_folder
from rag_core.settings import DataSettings, ModelSettings

PICTURES = Path(__file__).parent / "pictures"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SIZE = {"width": 1380, "height": 860}
NARROW = {"width": 920, "height": 860}
PHONE = {"width": 390, "height": 844}
WAIT_MS = 15_000


@dataclass(frozen=True)
class Tongue:
    """Who looks on, and what they ask: alone, in a group, to see the sources; and what they want verified."""

    lang: str
    user: int
    alone: str
    in_group: str
    for_sources: str
    claims: str


TONGUES = (
    Tongue(
        "en",
        READER_ID,
        "How much is the upgrade arm?",
        "How many Perseids in four hours?",
        "What was posted in August 2025?",
        "Membership for 2027 is 1,500 ₽ a year. Students pay 900 ₽.",
    ),
    Tongue(
        "ru",
        ADMIN_ID,
        "Кто новый председатель дома на Кирпичной, 9?",
        "Кто новый председатель дома на Кирпичной, 9?",
        "Что публиковали в августе 2025?",
        "Проезд в автобусе стоит 40 рублей. Ель во дворе школы спилили.",
    ),
)


async def ask(page: Page, question: str) -> None:
    """Type a question and wait for the answer with its buttons."""
    votes = page.get_by_role("button", name=re.compile("^👍"))
    before = await votes.count()
    await page.fill("#composer", question)
    await page.click("#send")
    await votes.nth(before).wait_for(timeout=WAIT_MS)


async def private(page: Page, tongue: Tongue) -> None:
    """A question in private; its first citation is open beside it."""
    await ask(page, tongue.alone)
    await page.locator('a[href^="https://t.me/"]', has_text="[1]").last.click()
    await page.wait_for_selector(".highlight")


async def phone(page: Page, tongue: Tongue) -> None:
    """The answer of the picture before, without its post."""
    await page.locator(".citation").last.wait_for(timeout=WAIT_MS)


async def group(page: Page, tongue: Tongue) -> None:
    """A question in a group, with a vote under the answer."""
    await page.click(f'[data-chat="{GROUP_ID}"]')
    await ask(page, f"@citegram_bot {tongue.in_group}")
    await page.get_by_role("button", name="👍").last.click()
    await page.get_by_role("button", name=re.compile("👍 1")).last.wait_for(timeout=WAIT_MS)


async def sources(page: Page, tongue: Tongue) -> None:
    """The sources of an answer, with the words that it stands on."""
    await ask(page, tongue.for_sources)
    words, told = get_translator(tongue.lang), page.locator(".message.theirs")
    before = await told.count()
    await page.get_by_role("button", name=words("button-more"), exact=True).last.click()
    await page.get_by_role("button", name=words("button-sources"), exact=True).last.click()
    await told.nth(before).wait_for(timeout=WAIT_MS)
    await told.nth(before).scroll_into_view_if_needed()
    for fold in await told.nth(before).locator("blockquote button").all():
        await fold.click()


async def verdicts(page: Page, tongue: Tongue) -> None:
    """What the posts say of two claims."""
    quotes = page.get_by_role("button", name=re.compile("^❝"))
    await page.fill("#composer", f"/verify {tongue.claims}")
    await page.click("#send")
    await quotes.last.wait_for(timeout=WAIT_MS)


async def rich(page: Page, tongue: Tongue) -> None:
    """An answer as a rich message: a table, and a note with the words of its post."""
    await page.fill("#composer", "/mode rich")
    await page.click("#send")
    plain = get_translator(tongue.lang)("button-form", rich="yes")
    await page.get_by_role("button", name=plain).last.wait_for(timeout=WAIT_MS)
    await ask(page, tongue.for_sources)
    await page.locator(".footnote").nth(1).click()
    await page.get_by_role("button", name=plain).last.click()


SHOTS: tuple[tuple[str, dict[str, int], Callable[[Page, Tongue], Awaitable[None]]], ...] = (
    ("sandbox", SIZE, private),
    ("phone", PHONE, phone),
    ("group", NARROW, group),
    ("sources", NARROW, sources),
    ("verify", NARROW, verdicts),
    ("rich", NARROW, rich),
)


def find_chromium() -> str:
    """Find the browser; end with a sentence where it, or an emoji font for it, is missing."""
    chromium = shutil.which("chromium") or sys.exit("no chromium here: apt-get install chromium")
    fonts = shutil.which("fc-list")
    if fonts and not subprocess.run([fonts, ":charset=1f44d"], capture_output=True, check=True).stdout:  # noqa: S603
        sys.exit("no emoji font here, so buttons would be empty boxes: apt-get install fonts-noto-color-emoji")
    return chromium


async def main(chromium: str) -> None:
    """Run the demo in a temporary folder and take the pictures."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        models = ModelSettings(dir=get_models_folder(Settings().rag()))
        settings = Settings(data=DataSettings(dir=Path(folder)), models=models)
        sandbox, settings = await stack.enter_async_context(open_demo_sandbox(settings, 0))
        await stack.enter_async_context(run_demo_bot(settings))
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, size, play in SHOTS:
            for tongue in TONGUES:
                page, theme = await browser.new_page(viewport=size), "dark" if size is PHONE else "light"
                await page.goto(f"{sandbox.url}/?user={tongue.user}&lang={tongue.lang}&theme={theme}")
                await play(page, tongue)
                await page.wait_for_timeout(5_000)  # the page scrolls smoothly, and what the bot says to a press fades
                await page.screenshot(path=PICTURES / f"{name}-{tongue.lang}.png")
                await page.close()
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main(find_chromium()))
