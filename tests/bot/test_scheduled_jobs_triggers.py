from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler.events import EVENT_JOB_SUBMITTED
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from driver import wait_until

from bot import jobs
from bot.jobs import (
    FixedDelayTrigger,
    JobLog,
    ScheduledJob,
    open_scheduler,
)
from ingest.outages import AdminNotice, Clock, JobFailing
from rag_core.errors import BackupFailed
from rag_core.storage import Archive, monitoring_stats

SOON = timedelta(seconds=0.02)


class Told:
    """Admins who write down what they are told."""

    def __init__(self) -> None:
        self.notices: list[AdminNotice] = []

    async def __call__(self, notice: AdminNotice) -> bool:
        self.notices.append(notice)
        return True


def counting(enough: int, then: BaseException | None = None) -> tuple[Callable[[], Awaitable[str]], asyncio.Event]:
    """Work that ends well but for its last time, and what is set when it was done `enough` times."""
    done, times = asyncio.Event(), 0

    async def work() -> str:
        nonlocal times
        times += 1
        if times == enough:
            done.set()
            if then:
                raise then
        return f"time {times}"

    return work, done


async def until(happened: asyncio.Event) -> None:
    await asyncio.wait_for(happened.wait(), 30)
    await asyncio.sleep(0.01)


async def test_a_job_runs_again_and_again_and_each_run_is_in_the_archive(archive: Archive) -> None:
    work, done = counting(3)
    async with open_scheduler([ScheduledJob("inbox", work, FixedDelayTrigger(0.02))], JobLog(archive), Told()):
        await until(done)
    (job,) = await monitoring_stats.load_jobs(archive)
    assert job.runs >= 3
    assert job.said and job.said.startswith("time")


async def test_a_job_that_fails_is_tried_again_and_admins_hear_of_it_where_it_matters(archive: Archive) -> None:
    told, no_room = Told(), BackupFailed("There is no room.")
    first, failed = counting(1, no_room)
    second, _ = counting(1, no_room)
    job_log = JobLog(archive)
    # so far apart that no run meets the one before it, which would be a second failure, on any machine
    both = [
        ScheduledJob("backup", first, FixedDelayTrigger(0.4), loud=True),
        ScheduledJob("save", second, FixedDelayTrigger(0.4)),
    ]
    async with open_scheduler(both, job_log, told):
        await until(failed)
        await wait_until(
            lambda: all(job_log.jobs.get(job) and job_log.jobs[job].runs > 2 for job in ("backup", "save"))
        )
    assert told.notices == [JobFailing("backup", "There is no room.")]
    assert job_log.jobs["backup"].failures == job_log.jobs["save"].failures == 1
    assert not job_log.jobs["backup"].failing


async def test_two_instances_of_a_job_never_run_at_once_and_the_one_left_out_is_said(archive: Archive) -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def slow() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1
        return ""

    job_log = JobLog(archive)
    async with open_scheduler([ScheduledJob("check", slow, FixedDelayTrigger(0.02))], job_log, Told()):
        await wait_until(lambda: "check" in job_log.jobs)
        assert "still running" in str(job_log.jobs["check"].error)
        release.set()
        await asyncio.sleep(0.05)
    assert most == 1


async def test_a_time_that_was_missed_by_too_much_is_said_and_one_that_was_not_is_made_up_for(
    archive: Archive,
) -> None:
    strict, ran_strict = counting(1)
    patient, ran_patient = counting(1)
    job_log = JobLog(archive)
    both = [
        ScheduledJob("strict", strict, FixedDelayTrigger(3600), grace=timedelta(hours=12)),
        ScheduledJob("patient", patient, FixedDelayTrigger(3600)),
    ]
    async with open_scheduler(both, job_log, Told()) as scheduler:
        for job in ("strict", "patient"):  # as after a day and a night of sleep
            scheduler.modify_job(job, next_run_time=datetime.now(UTC) - timedelta(hours=30))
        await until(ran_patient)
        assert not ran_strict.is_set()
        assert "not run at its time" in str(job_log.jobs["strict"].error)
        assert not job_log.jobs["patient"].failing
        # and it has a next time
        assert scheduler.get_job("strict").next_run_time > datetime.now(UTC)


async def test_many_missed_times_are_made_up_for_once(archive: Archive) -> None:
    work, done = counting(1)
    started: list[object] = []
    async with open_scheduler(
        [ScheduledJob("inbox", work, FixedDelayTrigger(3))], JobLog(archive), Told()
    ) as scheduler:
        scheduler.add_listener(started.append, EVENT_JOB_SUBMITTED)
        # a clock that was at 1970 when the bot started: APScheduler's own trigger would count for an hour
        scheduler.modify_job("inbox", next_run_time=datetime(1970, 1, 1, tzinfo=UTC))
        await until(done)
    assert len(started) == 1


async def test_a_clock_that_is_set_back_does_not_keep_jobs_waiting(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_CLOCK_CHECK_SECONDS", 0.01)
    work, done = counting(1)
    shift = 0.0
    clock = Clock(lambda: datetime.now(UTC).timestamp() + shift)
    async with open_scheduler(
        [ScheduledJob("inbox", work, FixedDelayTrigger(0.05))], JobLog(archive), Told(), clock=clock
    ) as scheduler:
        # To the scheduler its next time seems to be three days ahead.
        scheduler.modify_job("inbox", next_run_time=datetime.now(UTC) + timedelta(days=3))
        await asyncio.sleep(0.1)
        assert not done.is_set()
        shift = -3 * 86400.0
        await until(done)


async def test_a_nightly_job_that_no_night_has_run_is_run_soon_after_the_start(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_OVERDUE_START_DELAY", SOON)
    job_log = JobLog(archive)
    far = (datetime.now(UTC) + timedelta(hours=12)).hour

    def nightly(name: str, work: Callable[[], Awaitable[str]]) -> ScheduledJob:
        return ScheduledJob(name, work, CronTrigger(hour=far, minute=0, timezone=UTC), overdue=timedelta(hours=25))

    job_log.record_success("fresh", 1)
    (never, never_ran), (fresh, fresh_ran) = counting(1), counting(1)
    async with open_scheduler([nightly("never", never), nightly("fresh", fresh)], job_log, Told()):
        await until(never_ran)
        await asyncio.sleep(0.05)
        assert not fresh_ran.is_set()


async def test_what_runs_when_the_bot_stops_is_cancelled_and_waited_for(archive: Archive) -> None:
    begun, ended = asyncio.Event(), False

    async def long() -> str:
        nonlocal ended
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            ended = True
        return ""

    job_log = JobLog(archive)
    async with open_scheduler([ScheduledJob("check", long, DateTrigger(datetime.now(UTC) + SOON))], job_log, Told()):
        await asyncio.wait_for(begun.wait(), 30)
    assert ended
    assert "check" not in job_log.jobs  # it did not fail


def test_a_job_may_begin_sooner_than_it_comes_back() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    often = FixedDelayTrigger(20, first=3)
    assert often.get_next_fire_time(None, now) == now + timedelta(seconds=3)
    assert often.get_next_fire_time(now, now) == now + timedelta(seconds=20)
    assert FixedDelayTrigger(20).get_next_fire_time(None, now) == now + timedelta(seconds=20)
