from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.storage import Archive, channel_history, channels
from rag_core.types import Channel

BAKERY = -1001234567890
FIRST = datetime.fromtimestamp(1_710_244_800, UTC)  # of `message`: the n-th comes n minutes after
OPTIONS = ImportOptions(username="bakery")


def minute(number: float) -> datetime:
    return FIRST + timedelta(minutes=number)


async def joined(archive: Archive, moment: datetime) -> None:
    await channels.save_channel(archive, Channel(BAKERY, "Пекарня", state="active"))
    await channels.record_bot_joined(archive, BAKERY)
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET joined_at = ?", (int(moment.timestamp()),))
    await channel_history.note_gap_before_joining(archive, BAKERY)


async def spans(archive: Archive) -> list[tuple[datetime | None, datetime]]:
    return [(gap.since, gap.until) for gap in (await channel_history.list_open_gaps(archive)).get(BAKERY, [])]


async def test_an_export_made_after_the_gap_closes_it(archive: Archive, written: Any, chat: Any, message: Any) -> None:
    await joined(archive, minute(50))
    await import_export(archive, written(chat(*(message(n) for n in (3, 10, 60)))), OPTIONS)
    assert await spans(archive) == []


async def test_an_export_made_before_the_gap_ended_narrows_it(
    archive: Archive, written: Any, chat: Any, message: Any
) -> None:
    await joined(archive, minute(50))
    export = written(chat(*(message(n) for n in (3, 10, 20))))
    await import_export(archive, export, OPTIONS)
    assert await spans(archive) == [(minute(20), minute(50))]
    await import_export(archive, export, OPTIONS)
    assert await spans(archive) == [(minute(20), minute(50))]


async def test_a_full_export_which_may_hold_ones_own_messages_only_fills_nothing(
    archive: Archive, written: Any, chat: Any, message: Any
) -> None:
    await joined(archive, minute(50))
    full = {"about": "", "chats": {"list": [chat(*(message(n) for n in (3, 60)))]}}
    report = await import_export(archive, written(full), ImportOptions())
    assert report.tally.new == 2
    assert await spans(archive) == [(None, minute(50))]


async def test_an_import_before_joining_leaves_no_gap(archive: Archive, written: Any, chat: Any, message: Any) -> None:
    await import_export(archive, written(chat(*(message(n) for n in (3, 60)))), OPTIONS)
    await joined(archive, minute(100))
    assert await spans(archive) == []
