from datetime import UTC, datetime, timedelta

import pytest

from ingest.outages import Clock, Heartbeat, report_gaps
from rag_core.storage import channel_history, channels
from rag_core.types import Channel

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Times:
    """Two clocks that a test moves: time passes on both, and the one on the wall can be set."""

    def __init__(self, wall=START):
        self.at, self.passed = wall, 1000.0
        self.clock = Clock(lambda: self.at.timestamp(), lambda: self.passed)

    def go(self, by):
        self.at += by
        self.passed += by.total_seconds()

    def set(self, by):
        self.at += by


class Life:
    """A bot that runs, in touch with Telegram while it is told so."""

    def __init__(self, archive, times):
        self.archive, self.times = archive, times
        self.pulse = Heartbeat(archive, times.clock)

    async def run(self, minutes, *, heard=True):
        for _ in range(minutes):
            self.times.go(MINUTE)
            if heard:
                self.pulse.heard()
            await self.pulse.beat()

    async def gaps(self):
        return [(gap.since, gap.until) for gap in (await channel_history.list_open_gaps(self.archive)).get(1, [])]


@pytest.fixture
async def archive(archive):
    await channels.save_channel(archive, Channel(1, "Harbour", state="active"))
    await channels.record_bot_joined(archive, 1)
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET joined_at = ?", (int((START - 9 * DAY).timestamp()),))
    yield archive


@pytest.fixture
def times():
    return Times()


@pytest.fixture
async def life(archive, times):
    """One that has been in touch for some minutes; nothing was noted."""
    life = Life(archive, times)
    await life.run(5)
    assert (await life.gaps(), await channel_history.get_last_heartbeat(archive)) == ([], times.at)
    return life


@pytest.mark.parametrize(("silence", "gap"), [(3 * DAY, True), (23 * HOUR, False)])
async def test_a_bot_that_was_down_for_longer_than_telegram_keeps_updates_has_a_gap(archive, times, life, silence, gap):
    down = times.at
    times.go(silence)
    again = Life(archive, times)
    await again.run(5)
    assert await again.gaps() == ([(down, down + silence + 2 * MINUTE)] if gap else [])


async def test_a_machine_that_slept_for_days_with_the_bot_on_it_has_a_gap(times, life):
    asleep = times.at
    times.go(2 * DAY)  # both clocks go on
    await life.run(5)
    assert await life.gaps() == [(asleep, asleep + 2 * DAY + MINUTE)]


async def test_a_bot_that_runs_without_reaching_telegram_is_out_of_touch(archive, times, life):
    lost = times.at
    await life.run(25 * 60, heard=False)
    assert await channel_history.get_last_heartbeat(archive) == lost
    assert await life.gaps() == []  # it may be a while yet
    await life.run(2)
    assert await life.gaps() == [(lost, lost + 25 * HOUR + MINUTE)]


@pytest.mark.parametrize("by", [3 * DAY, -3 * DAY, 20_000 * DAY])
@pytest.mark.parametrize("minutes", [1, 10])
async def test_a_clock_that_is_wrong_for_a_moment_or_for_good_makes_no_gap(archive, times, life, by, minutes):
    times.set(by)
    await life.run(minutes)
    if minutes == 1:
        times.set(-by)
        await life.run(10)
    assert await life.gaps() == []
    assert await channel_history.get_last_heartbeat(archive) == times.at
    again = Life(archive, times)
    await again.run(3)
    assert await again.gaps() == []


@pytest.mark.parametrize("down_for", [timedelta(), 2 * DAY])
async def test_a_clock_that_is_ahead_around_a_restart_makes_and_hides_no_gap(archive, times, life, down_for):
    times.set(3 * DAY)
    await life.run(1)
    times.set(-3 * DAY)
    down = times.at
    times.go(down_for)
    again = Life(archive, times)
    times.set(30 * DAY)
    await again.run(1)
    times.set(-30 * DAY)
    await again.run(5)
    assert await again.gaps() == ([(down, down + down_for + 3 * MINUTE)] if down_for else [])


async def test_admins_are_told_once_of_a_gap(archive):
    await channel_history.note_outage_gaps(archive, START, START + 3 * DAY)
    told = []

    async def nobody(notice):
        return False

    async def somebody(notice):
        told.append(notice)
        return True

    await report_gaps(archive, nobody)
    for _ in range(3):
        await report_gaps(archive, somebody)
    (notice,) = told
    ((channel, gap),) = notice.gaps
    assert (channel.title, gap.since, gap.until) == ("Harbour", START, START + 3 * DAY)
