"""/models in the chat: what is in use, another one with a button, for admins only."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, OTTO, buttons, current, say, wait_for_text

from bot.handlers.models import _ModelCallback
from bot.sandbox import Sandbox
from rag_core.models.catalog import find_models


@pytest.fixture
def pulled(home: Path, tiny_gguf: Path) -> Path:
    """A bot's folder with two writers."""
    for tier in ("small", "default"):
        (row,) = [row for row in find_models(tier) if row.role == "writer"]
        (home / "models" / row.name).mkdir(parents=True)
        shutil.copy(tiny_gguf, home / "models" / row.name / row.file)
    return home


async def pressed(sandbox: Sandbox, message: dict[str, Any], label: str, begins: str) -> str:
    """Press, and what the message says once it begins so."""
    data = buttons(current(sandbox, message))[label]
    await sandbox.press(ADMIN, ADMIN, message["message_id"], data)
    return await wait_for_text(sandbox, message, begins)


async def test_an_admin_and_nobody_else_changes_over_with_a_button(sandbox: Sandbox, live: Any, pulled: Path) -> None:
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert asked["text"].startswith(
            "In use:\nWrites the answers: qwen3-4b-instruct\nPlans the search: qwen3-4b-instruct"
        )
        names = [
            "Writes the answers: qwen3.5-0.8b",
            "✓ Writes the answers: qwen3-4b-instruct",
            "Writes the answers: none, I quote the posts",
        ]
        assert list(buttons(asked)) == names
        # nobody else may, and nothing that can be made up works
        assert "admins" in (await say(sandbox, OTTO, "/models"))["text"]
        assert not [data for data in buttons(asked).values() if "qwen" in data]
        await sandbox.press(OTTO, ADMIN, asked["message_id"], buttons(asked)[names[0]])
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], _ModelCallback(token="AAAAAAAA").pack())
        assert current(sandbox, asked)["text"] == asked["text"]
        file = pulled / "models" / "qwen3.5-0.8b" / "model.gguf"
        whole = file.read_bytes()
        file.write_bytes(b"GGUF" + bytes(100))  # what cannot be loaded changes nothing
        said = await pressed(sandbox, asked, names[0], "Nothing has changed.")
        assert "Writes the answers: qwen3-4b-instruct" in said
        file.write_bytes(whole)
        said = await pressed(sandbox, asked, names[0], "Writes the answers")
        assert said.startswith("Writes the answers — now qwen3.5-0.8b.\n\nIn use:\nWrites the answers: qwen3.5-0.8b")
        said = await pressed(sandbox, asked, names[2], "Writes the answers — now none")
        assert "No model is in use. I search by words" in said
    async with live():  # it is remembered
        assert "No model is in use. I search by words" in (await say(sandbox, ADMIN, "/models"))["text"]


async def test_without_a_model_the_command_to_fetch_one_is_told(sandbox: Sandbox, live: Any) -> None:
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert "citegram models pull default" in asked["text"]
        assert not buttons(asked)
