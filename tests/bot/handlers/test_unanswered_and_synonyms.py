"""/unanswered and /synonyms: what people asked in vain, without naming anybody; and words that find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver import ADMIN, OTTO, RITA, buttons, open_archive, press, say_text

from bot.sandbox import Sandbox
from rag_core.storage.channels import list_synonyms, load_channels

ZEPPELIN = "When does the zeppelin fly to the ferry museum of Montevideo?"
ALIKE = "the zeppelin flies when, to the Montevideo museum ferry"
ALONE = "Who keeps the purple walrus of Valparaiso?"


async def test_words_are_shown_once_two_readers_asked_alike_and_go_with_forget(
    sandbox: Sandbox, live: Any, ask: Any
) -> None:
    async with live():
        assert (
            await say_text(sandbox, ADMIN, "/unanswered")
            == "So far no two people have asked the same thing without getting an answer."
        )
        await ask(OTTO, ZEPPELIN)
        await ask(OTTO, ZEPPELIN)
        await ask(OTTO, ALONE)
        told = await say_text(sandbox, ADMIN, "/unanswered")
        assert "zeppelin" not in told
        assert "2 more questions without an answer" in told
        await ask(RITA, ALIKE)
        told = await say_text(sandbox, ADMIN, "/unanswered")
        assert f"“{ALIKE}” — 2 people" in told
        assert "Harbour News · " in told  # the nearest post
        assert "walrus" not in told
        assert not [name for name in (str(OTTO), str(RITA), "Otto", "Rita", "Рита") if name in told]
        asked = await ask(RITA, "/forget")
        await press(sandbox, asked, next(iter(buttons(asked))), RITA)
        assert "zeppelin" not in await say_text(sandbox, ADMIN, "/unanswered")
        assert "Only this bot's admins" in await say_text(sandbox, OTTO, "/unanswered")


async def test_synonyms_are_entered_by_admins_found_at_once_and_taken_back(
    sandbox: Sandbox, live: Any, ask: Any, home: Path
) -> None:
    asked = "When is nosh sold on the quay?"
    async with live():
        assert "Friday" not in (await ask(OTTO, "nosh"))["text"]
        assert "No words that mean the same yet" in await say_text(sandbox, ADMIN, "/synonyms")
        assert await say_text(sandbox, ADMIN, "/synonyms Nosh = mackerel") == (
            "Noted: nosh = mackerel. I search for both from now on."
        )
        assert "Friday" in (await ask(OTTO, asked))["text"]
        assert "• nosh = mackerel" in await say_text(sandbox, ADMIN, "/synonyms")
        assert (await say_text(sandbox, ADMIN, "/synonyms nosh = mackerel")).startswith("I already know this pair")
        for wrong in ("nosh", "nosh = nosh", "= x", "a = b = c", f"{'x' * 70} = y"):
            assert (await say_text(sandbox, ADMIN, f"/synonyms {wrong}")).startswith("To add one: /synonyms")
        assert await say_text(sandbox, ADMIN, "/synonyms - mackerel = nosh") == "Removed: mackerel = nosh"
        assert "Only this bot's admins" in await say_text(sandbox, OTTO, "/synonyms a = b")
    async with open_archive(home) as archive:
        assert await list_synonyms(archive, await load_channels(archive)) == []
