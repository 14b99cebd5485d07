import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from apscheduler.triggers.cron import CronTrigger
from driver import wait_until

from bot.jobs import JobLog, ScheduledJob, build_maintenance_jobs, run_jobs
from ingest.outages import GapsFound, Heartbeat, JobFailing
from rag_core.errors import ArchiveUnavailable, BackupFailed
from rag_core.settings import DataSettings
from rag_core.storage import channel_history, channels, questions, raw_updates
from rag_core.storage.backups import list_backups
from rag_core.types import Channel

FULL = ArchiveUnavailable("The disk is full.")


async def test_the_same_sentence_is_said_once_and_that_it_is_over_too(archive, caplog):
    job_log = JobLog(archive)
    assert job_log.record_failure("inbox", FULL)
    assert not any(job_log.record_failure("inbox", FULL) for _ in range(50))
    assert job_log.record_failure("inbox", ArchiveUnavailable("The archive is locked."))
    job_log.record_success("inbox", 1)
    job_log.record_success("inbox", 1)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["inbox: The disk is full.", "inbox: The archive is locked.", "inbox works again"]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_failure_that_lasts_is_said_again_after_an_hour(archive, caplog, monkeypatch):
    now = 5000.0
    monkeypatch.setattr("bot.jobs.outages.get_monotonic_time", lambda: now)
    job_log = JobLog(archive)
    for _ in range(130):
        job_log.record_failure("inbox", FULL)
        now += 60
    assert len(caplog.records) == 3


class Told:
    def __init__(self):
        self.notices = []

    async def __call__(self, notice):
        self.notices.append(notice)
        return True


def counting(failure=None):
    """Work that fails the first time, if it is given an error, and its runs."""
    runs = []

    async def work():
        runs.append(len(runs))
        if failure and len(runs) == 1:
            raise failure
        return f"time {len(runs)}"

    return work, runs


async def test_a_job_that_fails_is_tried_again_and_admins_hear_of_it_where_it_matters(archive):
    told, no_room, job_log = Told(), BackupFailed("There is no room."), JobLog(archive)
    (first, backups), (second, saves) = counting(no_room), counting(no_room)
    async with run_jobs(
        [ScheduledJob("backup", first, 0.02, loud=True), ScheduledJob("save", second, 0.02)], job_log, told
    ):
        await wait_until(lambda: len(backups) > 2 < len(saves))
    assert told.notices == [JobFailing("backup", "There is no room.")]
    assert job_log.jobs["backup"].failures == job_log.jobs["save"].failures == 1
    assert not job_log.jobs["backup"].failing


async def test_a_nightly_job_runs_at_its_time_or_soon_after_a_start_where_it_did_not(archive, monkeypatch):
    monkeypatch.setattr("bot.jobs._OVERDUE_START_SECONDS", 0.05)
    job_log, far = JobLog(archive), (datetime.now(UTC) + timedelta(hours=12)).time()
    job_log.record_success("fresh", 1)
    (never, never_ran), (fresh, fresh_ran) = counting(), counting()
    async with run_jobs([ScheduledJob("never", never, at=far), ScheduledJob("fresh", fresh, at=far)], job_log, Told()):
        await wait_until(lambda: bool(never_ran))
        await asyncio.sleep(0.05)
    assert (never_ran, fresh_ran) == ([0], [])
    soon = lambda _, last, now: now + timedelta(days=last is not None)  # noqa: E731 - its time is now
    monkeypatch.setattr(CronTrigger, "get_next_fire_time", soon)
    async with run_jobs([ScheduledJob("fresh", fresh, at=far)], job_log, Told()):
        await wait_until(lambda: bool(fresh_ran))


async def test_what_runs_when_the_bot_stops_is_cancelled_and_waited_for(archive):
    begun, ended = asyncio.Event(), False

    async def long():
        nonlocal ended
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            ended = True
        return ""

    job_log = JobLog(archive)
    async with run_jobs([ScheduledJob("check", long, first=0)], job_log, Told()):
        await asyncio.wait_for(begun.wait(), 30)
    assert ended
    assert "check" not in job_log.jobs  # it did not fail


HARBOUR = -1001000000001


class Desk:
    def __init__(self, library):
        self.rung = 0
        self.told = []
        self.pulse = Heartbeat(library.rag.archive)
        self.archive = library.rag.archive
        self.jobs = partial(build_maintenance_jobs, library.rag, library.indexer, self.pulse, self.ring, self.tell)

    def ring(self):
        self.rung += 1

    async def tell(self, notice):
        self.told.append(notice)
        return True

    async def run(self, name, **settings):
        jobs = {job.name: job for job in self.jobs(DataSettings(**settings))}
        return await jobs[name].work()


@pytest.fixture
async def desk(library):
    return Desk(library)


async def test_every_job_of_an_archive_in_order_passes(desk):
    jobs = desk.jobs(DataSettings())
    names = [job.name for job in jobs]
    assert names == ["inbox", "heartbeat", "gaps", "save", "forget", "memory", "check", "backup"]
    for job in jobs:
        await job.work()
    assert desk.rung == 1
    assert desk.told == []


async def test_backups_are_made_and_so_many_kept_or_none(desk):
    for _ in range(3):
        await desk.run("backup", backups=2)
    assert len(list_backups(desk.archive.folder)) == 2
    names = [job.name for job in desk.jobs(DataSettings(backups=0))]
    assert "backup" not in names


async def test_a_gap_is_told_with_the_heartbeat_that_finds_it(desk):
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


async def test_what_is_old_is_forgotten_by_the_time_of_the_heartbeat_and_not_of_the_wall(desk):
    now, asked = datetime.now(UTC), datetime.now(UTC) - timedelta(days=2)
    row = {"bot_id": 1, "update_id": 1, "chat_id": 5, "message_id": 1, "thread": None, "user_id": 5}
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
