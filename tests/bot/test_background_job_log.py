from __future__ import annotations

import logging

import pytest

from bot import jobs
from bot.jobs import JobLog
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import Archive, monitoring_stats

FULL = ArchiveUnavailable("The disk is full.")


async def test_every_run_is_counted_and_the_last_failure_stays_to_be_seen(archive: Archive) -> None:
    job_log = JobLog(archive)
    job_log.record_success("backup", 1.5, "made")
    job_log.record_failure("backup", FULL)
    assert job_log.jobs["backup"].failing
    job_log.record_success("backup", 0.25, "made again")
    await job_log.write()
    (job,) = await monitoring_stats.load_jobs(archive)
    assert (job.name, job.runs, job.failures, job.took_ms, job.said) == ("backup", 3, 1, 250, "made again")
    assert job.error == "The disk is full."
    assert job.failed_at is not None
    assert not job.failing


async def test_an_earlier_life_is_remembered(archive: Archive) -> None:
    before = JobLog(archive)
    before.record_failure("check", FULL)
    await before.write()
    job_log = JobLog(archive)
    await job_log.read()
    assert job_log.jobs["check"].failing
    job_log.record_success("check", 1)
    assert (job_log.jobs["check"].runs, job_log.jobs["check"].failures) == (2, 1)


async def test_the_same_sentence_is_said_once_and_that_it_is_over_too(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    job_log = JobLog(archive)
    assert job_log.record_failure("inbox", FULL)
    assert not any(job_log.record_failure("inbox", FULL) for _ in range(50))
    assert job_log.record_failure("inbox", ArchiveUnavailable("The archive is locked."))
    job_log.record_success("inbox", 1)
    job_log.record_success("inbox", 1)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["inbox: The disk is full.", "inbox: The archive is locked.", "inbox works again"]
    assert not any(record.exc_info for record in caplog.records)


async def test_a_failure_that_lasts_is_said_again_after_an_hour(
    archive: Archive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 5000.0
    monkeypatch.setattr(jobs, "get_monotonic_time", lambda: now)
    job_log = JobLog(archive)
    for _ in range(130):
        job_log.record_failure("inbox", FULL)
        now += 60
    assert len(caplog.records) == 3


async def test_a_bug_is_said_with_its_traceback(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    job_log = JobLog(archive)
    try:
        _ = 1 / 0
    except ZeroDivisionError as exc:
        job_log.record_failure("check", exc)
    assert job_log.jobs["check"].error == "ZeroDivisionError"
    assert "Traceback" in caplog.text


async def test_work_of_every_second_is_not_written_every_second(archive: Archive) -> None:
    job_log = JobLog(archive)
    job_log.record_success("inbox", 0.01)
    await job_log.keep()
    for _ in range(100):
        job_log.record_success("inbox", 0.01)
        await job_log.keep()
    assert (await monitoring_stats.load_jobs(archive))[0].runs == 1
    job_log.record_failure("inbox", FULL)  # this is not kept back
    await job_log.keep()
    assert (await monitoring_stats.load_jobs(archive))[0].failures == 1


async def test_what_cannot_be_written_is_written_when_the_archive_can_be(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    job_log = JobLog(archive)
    async with archive.writing() as connection:
        await connection.execute("PRAGMA query_only = ON")
    job_log.record_failure("inbox", FULL)
    await job_log.keep()  # fails in silence: what met the same failure says so itself
    assert await monitoring_stats.load_jobs(archive) == []
    async with archive._turn:
        await archive._writer.execute("PRAGMA query_only = OFF")
    await job_log.write()
    assert [job.error for job in await monitoring_stats.load_jobs(archive)] == ["The disk is full."]
