"""Errors reach the admins once, summarised; what is no error of ours, or told elsewhere, does not."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from driver import ADMIN, OTTO, RITA

from bot import access, admin_notifications
from bot.admin_notifications import notify_of_errors
from bot.sandbox import Sandbox
from ingest.outages import AdminNotice, ErrorsLogged

ours = logging.getLogger("bot.somewhere")


class Admins:
    """Takes in what the admins are told."""

    def __init__(self, *, reached: bool = True) -> None:
        self.reached, self.heard = reached, list[tuple[tuple[str, int], ...]]()
        self._bell = asyncio.Event()

    async def __call__(self, notice: AdminNotice) -> bool:
        assert isinstance(notice, ErrorsLogged)
        self.heard.append(notice.lines)
        self._bell.set()
        return self.reached

    async def next(self) -> tuple[tuple[str, int], ...]:
        async with asyncio.timeout(30):
            await self._bell.wait()
        self._bell.clear()
        return self.heard[-1]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_notifications, "_GATHER_SECONDS", 0.05)
    monkeypatch.setattr(admin_notifications, "_MIN_INTERVAL_SECONDS", 0.05)


async def test_many_errors_are_one_message() -> None:
    admins = Admins()
    async with notify_of_errors(admins):
        for number in range(5):
            ours.error("question %d failed: %s", number, "The archive is busy.")
        ours.error("another thing")
        assert await admins.next() == (("question 0 failed: The archive is busy.", 5), ("another thing", 1))


async def test_the_same_is_told_once_and_something_new_is_told() -> None:
    admins = Admins()
    async with notify_of_errors(admins):
        ours.error("question %d failed", 1)
        await admins.next()
        ours.error("question %d failed", 2)
        await asyncio.sleep(0.2)
        assert len(admins.heard) == 1
        ours.error("the disk is full")
        assert await admins.next() == (("the disk is full", 1),)


async def test_where_nobody_was_reached_it_is_told_again() -> None:
    admins = Admins(reached=False)
    async with notify_of_errors(admins):
        ours.error("the disk is full")
        await admins.next()
        admins.reached = True
        assert await admins.next() == (("the disk is full", 1),)
        await asyncio.sleep(0.2)
    assert len(admins.heard) == 2


async def test_what_is_not_ours_or_no_error_or_told_elsewhere_is_silent() -> None:
    admins = Admins()
    async with notify_of_errors(admins):
        logging.getLogger("aiogram.dispatcher").error("Failed to fetch updates")
        logging.getLogger("bot.jobs").error("backup: there is no room")
        ours.warning("hm")
        await asyncio.sleep(0.2)
    assert admins.heard == []
    ours.error("after the end")


@pytest.mark.plants_secrets
async def test_a_thread_may_fail_and_a_token_stays_hidden() -> None:
    admins = Admins()
    async with notify_of_errors(admins):
        said = "no way to https://api.telegram.org/bot123456:" + "A" * 35
        threading.Thread(target=ours.error, args=(said,)).start()
        ((line, _),) = await admins.next()
    assert "AAAA" not in line
    assert "<token>" in line


async def test_a_question_that_fails_is_told_to_the_admins_once(
    sandbox: Sandbox, live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("when does the ferry leave?")

    monkeypatch.setattr(access, "build_viewer", broken)
    monkeypatch.setattr(admin_notifications, "_GATHER_SECONDS", 1.0)
    sandbox.world.people[ADMIN].started = sandbox.world.people[RITA].started = True
    async with live(admins=(ADMIN, RITA), language="ru"):
        for _ in range(3):
            await sandbox.say(OTTO, "when does the ferry leave?")
        await sandbox.replies(OTTO, 3)
        (told,), (also,) = await sandbox.replies(ADMIN), await sandbox.replies(RITA)
    assert "failed: RuntimeError (×3)" in told["text"]
    assert "с прошлого сообщения" in told["text"]
    assert told["text"] == also["text"]
    assert "ferry" not in told["text"]
