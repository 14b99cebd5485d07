from __future__ import annotations

import pytest

from rag_core.text.post_text import PostLink, find_post_links, resolve_post_link
from rag_core.types import Channel, PostKey

KNOWN = {-1001234: Channel(-1001234, "Harbour", "Harbour_News"), -1005678: Channel(-1005678, "Crew")}


@pytest.mark.parametrize(
    ("text", "key", "single"),
    [
        ("https://t.me/harbour_news/12", PostKey(-1001234, 12), False),
        ("https://harbour_news.t.me/12", PostKey(-1001234, 12), False),
        ("tg://resolve?domain=harbour_news&post=12", PostKey(-1001234, 12), False),
        ("tg://privatepost?channel=1234&post=12&single", PostKey(-1001234, 12), True),
        ("https://web.telegram.org/a/#-1001234_12", PostKey(-1001234, 12), False),
        ("см.https://t.me/harbour_news/12", PostKey(-1001234, 12), False),
        ("t.me/HARBOUR_NEWS/12", PostKey(-1001234, 12), False),
        ("http://www.telegram.me/harbour_news/12/", PostKey(-1001234, 12), False),
        ("https://telegram.dog/s/harbour_news/12", PostKey(-1001234, 12), False),
        ("(https://t.me/harbour_news/12).", PostKey(-1001234, 12), False),
        ("https://t.me/harbour_news/12?single", PostKey(-1001234, 12), True),
        ("https://t.me/harbour_news/12?t=5&single&x=1", PostKey(-1001234, 12), True),
        ("https://t.me/harbour_news/7/12", PostKey(-1001234, 12), False),
        ("https://t.me/harbour_news/12?thread=7", PostKey(-1001234, 12), False),
        ("https://t.me/c/5678/12", PostKey(-1005678, 12), False),
        ("https://t.me/c/5678/7/12?single", PostKey(-1005678, 12), True),
    ],
)
def test_a_link_means_its_post_in_every_form(text: str, key: PostKey, single: bool) -> None:
    (link,) = find_post_links(text)
    assert (resolve_post_link(link, KNOWN), link.single) == (key, single)


@pytest.mark.parametrize(
    "text",
    ["", "12", "https://t.me/harbour_news", "https://t.me/harbour_news/", "https://t.me/harbour_news/0",
     "https://t.me/harbour_news/12abc", "https://t.me/harbour_news/12?comment=5", "https://t.me/c/5678",
     "https://not-t.me/harbour_news/12", "https://evil.example/t.me/harbour_news/12", "https://t.me/joinchat/AbCdEf",
     "https://t.me/+AbCdEf/12", "https://example.org/harbour_news/12"],
)  # fmt: skip
def test_what_leads_to_no_post_is_no_link(text: str) -> None:
    assert find_post_links(text) == []


@pytest.mark.parametrize("text", ["https://t.me/elsewhere/12", "https://t.me/c/999/12"])
def test_a_link_to_an_unknown_channel_means_nothing_here(text: str) -> None:
    (link,) = find_post_links(text)
    assert resolve_post_link(link, KNOWN) is None
    assert link.text == text


def test_several_links_come_in_their_order_and_once() -> None:
    text = "t.me/harbour_news/3 и t.me/c/5678/1,\nt.me/Harbour_news/3"
    assert [(link.chat, link.message_id) for link in find_post_links(text)] == [("harbour_news", 3), (-1005678, 1)]
    assert find_post_links("t.me/c/1/2")[0] == PostLink(-1001, 2, False, "t.me/c/1/2")
