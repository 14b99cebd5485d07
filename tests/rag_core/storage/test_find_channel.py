from datetime import UTC, datetime, timedelta

import pytest

from rag_core.storage.channels import find_channel, load_channels, save_channel_in_transaction
from rag_core.types import Channel, Visibility

KNOWN = {
    channel.chat_id: channel
    for channel in (
        Channel(-1001, "Harbour News", "harbour_news"),
        Channel(-1002, "Twin"),
        Channel(-1003, "Twin"),
        Channel(-1004, "@official"),
        Channel(-1005, "Pier", "news"),
        Channel(-1006, "News"),
        Channel(-1007, ""),
        Channel(-1008, "1984"),
        Channel(-1001234567890, "Long id"),
    )
}


@pytest.mark.parametrize(
    ("said", "chat_id"),
    [
        ("@Harbour_News", -1001),
        ("https://t.me/harbour_news", -1001),
        ("t.me/harbour_news/", -1001),
        ("harbour_news", -1001),
        (" harbour news ", -1001),
        ("-1001", -1001),
        ("1234567890", -1001234567890),
        ("1984", -1008),
        ("@news", -1005),
        ("twin", None),  # two have this title
        ("news", None),  # one has this title, another this username
        ("@twin", None),
        ("@official", None),  # a title that looks like a username, which nobody has
        ("99999999999999999999999", None),
        ("@", None),
        ("", None),
    ],
)
def test_a_channel_is_found_by_what_people_call_it(said, chat_id):
    channel = find_channel(said, KNOWN)
    assert (channel.chat_id if channel else None) == chat_id


async def test_a_username_that_another_channel_took_over_names_the_old_one_no_more(archive):
    """Telegram reports a new one with the next post; meanwhile links by the old one would open another's posts."""
    async with archive.writing() as connection:
        await save_channel_in_transaction(connection, Channel(-1, "Harbour", "pier", visibility=Visibility.PUBLIC))
        await save_channel_in_transaction(connection, Channel(-2, "Pier", "Pier"))
    known = await load_channels(archive)
    assert (known[-1].username, known[-1].visibility, known[-2].username) == (None, Visibility.PUBLIC, "Pier")
    assert find_channel("@pier", known) == known[-2]


async def test_an_old_message_takes_no_username_from_another_channel(archive):
    now = datetime.now(UTC)
    async with archive.writing() as connection:
        await save_channel_in_transaction(connection, Channel(-2, "Quay", "quay"), now)
        await save_channel_in_transaction(connection, Channel(-1, "Harbour", "pier"), now)
        for chat in (-2, -3):
            await save_channel_in_transaction(connection, Channel(chat, "Pier", "pier"), now - timedelta(days=2))
    known = await load_channels(archive)
    assert (known[-1].username, known[-2].username) == ("pier", "quay")
