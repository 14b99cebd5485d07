from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.jobs import MaintenanceJobs
from ingest.outages import AdminNotice, GapsFound, Heartbeat
from rag_core.settings import DataSettings
from rag_core.storage import channel_history, channels, db, questions, raw_updates
from rag_core.storage.backups import list_backups
from rag_core.types import Channel

HARBOUR = -1001000000001


class Desk:
    """Chores on a library, the bell they ring, and what admins are told."""

    def __init__(self, library: Any) -> None:
        self.rung = 0
        self.told: list[AdminNotice] = []
        self.pulse = Heartbeat(library.rag.archive)
        self.archive = library.rag.archive
        self.chores = MaintenanceJobs(library.rag, library.indexer, self.pulse, self.ring, self.tell)

    def ring(self) -> None:
        self.rung += 1

    async def tell(self, notice: AdminNotice) -> bool:
        self.told.append(notice)
        return True

    async def run(self, name: str, **settings: Any) -> str:
        jobs = {job.name: job for job in self.chores.jobs(DataSettings(**settings), UTC)}
        return await jobs[name].work()


@pytest.fixture
async def desk(library: Any) -> Desk:
    return Desk(library)


async def test_every_job_of_an_archive_in_order_passes(desk: Desk) -> None:
    jobs = desk.chores.jobs(DataSettings(), UTC)
    names = [job.name for job in jobs]
    assert names == ["inbox", "heartbeat", "gaps", "save", "forget", "memory", "check", "backup"]
    for job in jobs:
        await job.work()
    assert desk.rung == 1
    assert desk.told == []


async def test_backups_are_made_and_so_many_kept_or_none(desk: Desk) -> None:
    for _ in range(3):
        await desk.run("backup", backups=2)
    assert len(list_backups(desk.archive.folder)) == 2
    names = [job.name for job in desk.chores.jobs(DataSettings(backups=0), UTC)]
    assert "backup" not in names


async def test_a_large_archive_is_looked_through_once_after_the_start(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "MAX_CHECKED_BYTES", 0)
    await desk.run("damage")


async def test_a_gap_is_told_with_the_heartbeat_that_finds_it(desk: Desk) -> None:
    await channels.save_channel(desk.archive, Channel(HARBOUR, "Harbour", state="active"))
    await channels.record_bot_joined(desk.archive, HARBOUR)
    async with desk.archive.writing() as transaction:
        await transaction.execute("UPDATE channels SET joined_at = 1 WHERE joined_at IS NOT NULL")
    await channel_history.record_heartbeat(desk.archive, datetime.now(UTC) - timedelta(days=3))
    assert await desk.run("heartbeat") == ""  # Telegram has not answered yet
    said = []
    for _ in range(3):
        desk.pulse.heard()
        said.append(await desk.run("heartbeat"))
    assert said == ["", "1 gaps", ""]
    (notice,) = desk.told
    assert isinstance(notice, GapsFound)


async def test_what_is_old_is_forgotten_by_the_time_of_the_heartbeat_and_not_of_the_wall(desk: Desk) -> None:
    now, asked = datetime.now(UTC), datetime.now(UTC) - timedelta(days=2)
    row: dict[str, Any] = {"bot_id": 1, "update_id": 1, "chat_id": 5, "message_id": 1, "thread": None, "user_id": 5}
    number = await questions.queue_question(
        desk.archive, questions.QuestionRow(**row, text="when?", lang="en", asked_at=asked, private=True)
    )
    assert number
    await questions.finish_question(desk.archive, number, state="failed", answer=None)
    await raw_updates.claim_update(desk.archive, 42, 7)
    async with desk.archive.writing() as transaction:
        past = int(asked.timestamp()) - 86400
        await transaction.execute("UPDATE questions SET finished_at = ?", (past,))
        await transaction.execute("UPDATE updates SET received_at = ?", (past,))
    assert await desk.run("forget", keep_questions_days=1) == ""  # there was no heartbeat: nothing is old
    await channel_history.record_heartbeat(
        desk.archive, asked
    )  # the clock on the wall is two days further: it may be wrong
    assert await desk.run("forget", keep_questions_days=1) == ""
    assert await raw_updates.is_update_claimed(desk.archive, 42, 7)
    await channel_history.record_heartbeat(desk.archive, now)
    assert await desk.run("forget", keep_questions_days=1) == "1 updates, 1 questions"
    assert not await raw_updates.is_update_claimed(desk.archive, 42, 7)
