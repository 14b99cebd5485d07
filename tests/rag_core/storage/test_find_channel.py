import pytest

from rag_core.storage.channels import find_channel
from rag_core.types import Channel

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
