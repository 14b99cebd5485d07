import time
from datetime import UTC, datetime, timedelta

import pytest

from rag_core.storage import channel_history, channels, posts
from rag_core.types import Channel

HARBOUR, KILN = -1001, -1002
START = datetime(2025, 3, 1, 12, tzinfo=UTC)  # of the first day of `make_post`


def day(number):
    return START + timedelta(days=number)


@pytest.fixture
async def archive(archive):
    for number, title in ((HARBOUR, "Harbour"), (KILN, "Kiln")):
        await channels.save_channel(archive, Channel(number, title, state="active"))
    return archive


async def join(archive, chat_id, moment):
    await channels.record_bot_joined(archive, chat_id)
    async with archive.writing() as connection:
        sql = "UPDATE channels SET joined_at = ? WHERE chat_id = ?"
        await connection.execute(sql, (int(moment.timestamp()), chat_id))


async def spans(archive, chat_id=HARBOUR):
    return [(gap.since, gap.until) for gap in (await channel_history.list_open_gaps(archive)).get(chat_id, [])]


async def test_a_gap_does_not_begin_before_the_bot_joined(archive):
    await join(archive, HARBOUR, day(7))
    await join(archive, KILN, day(9))
    assert await channel_history.note_outage_gaps(archive, day(5), day(8)) == 1
    assert await spans(archive) == [(day(7), day(8))]


async def test_what_came_before_joining_is_a_gap_from_the_beginning(archive):
    await join(archive, HARBOUR, day(7))
    assert await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert await spans(archive) == [(None, day(7))]
    assert not await channel_history.note_gap_before_joining(archive, HARBOUR)  # the same update again
    assert len(await spans(archive)) == 1


async def test_of_a_channel_that_is_imported_only_the_time_since_its_newest_post_is_a_gap(archive, make_post):
    await posts.save_posts(archive, [make_post(1, "old"), make_post(2, "new", days=5)], source="import")
    await join(archive, HARBOUR, day(5.5))
    assert not await channel_history.note_gap_before_joining(archive, HARBOUR)
    await join(archive, HARBOUR, day(9))
    assert await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert await spans(archive) == [(day(5), day(9))]


async def test_a_post_that_came_before_the_word_of_joining_is_no_import(archive, make_post):
    await posts.save_posts(archive, [make_post(70, "just now", days=7)], source="live")
    await join(archive, HARBOUR, day(7) + timedelta(minutes=2))
    assert await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert await spans(archive) == [(None, day(7) + timedelta(minutes=2))]


async def test_a_channel_without_anything_before_the_bot_has_no_gap_for_long(archive, make_post):
    await join(archive, HARBOUR, day(7))
    await channel_history.note_gap_before_joining(archive, HARBOUR)
    await posts.save_posts(archive, [make_post(3, "not the first", days=8)], source="live")
    assert await channel_history.close_complete_gaps(archive) == 0
    await posts.save_posts(archive, [make_post(2, "the first", days=7)], source="live")
    assert await channel_history.close_complete_gaps(archive) == 1


async def test_a_coming_that_nobody_told_of_is_noticed_once(archive, make_post):
    async with archive.writing() as connection:
        await channels.record_bot_heard(connection, [HARBOUR])
    await posts.save_posts(archive, [make_post(1, "imported", chat=KILN)], source="import")
    await join(archive, KILN, day(7))
    assert await channel_history.list_channels_without_gaps(archive) == [HARBOUR]
    await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert await channel_history.list_channels_without_gaps(archive) == []
    await channel_history.close_covered_gaps(
        archive, HARBOUR, day(0), datetime.now(UTC) + timedelta(days=1), whole=True
    )
    assert await spans(archive) == []
    assert await channel_history.list_channels_without_gaps(archive) == []


async def test_a_channel_the_bot_is_not_in_has_no_gap_before_joining(archive):
    assert not await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert not await channel_history.note_gap_before_joining(archive, -5)


@pytest.mark.parametrize(
    ("first", "last", "whole", "left"),
    [
        (4, 9, False, []),
        (5, 8, False, []),
        (1, 6, False, [(6, 8)]),
        (7, 9, False, [(5, 7)]),
        (6, 7, False, [(5, 6), (7, 8)]),
        (6, 7, True, [(7, 8)]),
        (1, 4, False, [(5, 8)]),
        (9, 12, False, [(5, 8)]),
        (9, 12, True, []),
    ],
)
async def test_an_import_closes_or_narrows_the_gaps_it_covers(archive, first, last, whole, left):
    await join(archive, HARBOUR, day(0))
    await join(archive, KILN, day(0))
    await channel_history.note_outage_gaps(archive, day(5), day(8))
    await channel_history.mark_gaps_reported(archive, await channel_history.list_unreported_gaps(archive))
    changed = await channel_history.close_covered_gaps(archive, HARBOUR, day(first), day(last), whole=whole)
    assert await spans(archive) == [(day(since), day(until)) for since, until in left]
    assert changed == (left != [(5, 8)])
    assert await spans(archive, KILN) == [(day(5), day(8))]
    assert await channel_history.list_unreported_gaps(archive) == []  # what is left of a gap is no news


async def test_a_gap_without_an_unknown_number_was_none(archive, make_post):
    await join(archive, HARBOUR, day(0))
    await posts.save_posts(archive, [make_post(6, "before", days=1), make_post(7, "before", days=4)], source="live")
    await channel_history.note_outage_gaps(archive, day(5), day(8))
    assert await channel_history.close_complete_gaps(archive) == 0  # nothing is known of what comes after
    await posts.save_posts(archive, [make_post(8, "redelivered", days=7), make_post(9, "after", days=9)], source="live")
    assert await channel_history.close_complete_gaps(archive) == 1
    assert await spans(archive) == []


async def test_a_gap_in_which_a_number_is_unknown_stays(archive, make_post):
    await join(archive, HARBOUR, day(0))
    await posts.save_posts(archive, [make_post(7, "before", days=4), make_post(9, "after", days=9)], source="live")
    await channel_history.note_outage_gaps(archive, day(5), day(8))
    assert await channel_history.close_complete_gaps(archive) == 0
    # what is known to be deleted is known
    await posts.save_posts(archive, [make_post(8, "between", days=6)], source="import")
    await posts.mark_posts_deleted(archive, [make_post(8, "").key], how="import")
    assert await channel_history.close_complete_gaps(archive) == 1


async def test_gaps_of_a_channel_that_waits_for_approval_are_told_when_it_is_approved(archive):
    await channels.set_channel_state(archive, HARBOUR, "pending")
    await join(archive, HARBOUR, day(7))
    await channel_history.note_gap_before_joining(archive, HARBOUR)
    assert await channel_history.list_unreported_gaps(archive) == []
    await channels.set_channel_state(archive, HARBOUR, "active")
    (gap,) = await channel_history.list_unreported_gaps(archive)
    await channel_history.mark_gaps_reported(archive, [gap])
    assert await channel_history.list_unreported_gaps(archive) == []
    assert await spans(archive) == [(None, day(7))]


async def test_very_many_deleted_posts_hold_nothing_up(archive, make_post):
    """A channel that deletes half its posts; the bot's loop waits while the last step is worked out."""
    await posts.save_posts(archive, [make_post(n, f"Post {n}.", chat=HARBOUR) for n in range(1, 10_001)], source="live")
    gone, moment = range(1, 10_000), START + timedelta(days=99)
    await channel_history.take_out_missing(archive, HARBOUR, gone, moment, 0.05, seen=True)
    began = time.process_time()
    again = await channel_history.take_out_missing(archive, HARBOUR, gone, moment + timedelta(hours=2), 0.05, seen=True)
    assert time.process_time() - began < 1.2
    assert again == (len(gone), 0, 0)
