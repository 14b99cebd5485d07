import time

import pytest

from rag_core.storage.visible_posts import summarize_latest_texts
from rag_core.text.post_text import (
    PostLink,
    cover_spoilers,
    find_poll,
    find_post_links,
    label_poll,
    list_spoilers,
    resolve_post_link,
)
from rag_core.types import Certainty, Channel, Entity, Media, PostKey

POLL = Media("poll")


@pytest.mark.parametrize(
    ("text", "media", "poll"),
    [
        ("Best knot\n— Bowline\n— Hitch", POLL, "Best knot\n— Bowline\n— Hitch"),
        ("Vote by Friday.\nBest knot\n— Bowline\n— Hitch\nThe bowline holds.", POLL, "Best knot\n— Bowline\n— Hitch"),
        ("Which knot?\n— Bowline\n— Hitch", None, "Which knot?\n— Bowline\n— Hitch"),
        ("To bring:\n— rope\n— gloves", None, None),
        ("No options here", POLL, None),
    ],
)
def test_a_poll_is_told_by_its_media_or_by_its_question(make_post, text, media, poll):
    post = make_post(1, text, media=media)
    span = find_poll(post)
    assert (text[slice(*span)] if span else None) == poll
    assert label_poll(post).count("Poll: ") == (poll is not None)


@pytest.mark.parametrize(
    ("question", "poll"),
    [
        ("What does slack in a mooring line refer to?", "Slack in a mooring line refers to\n— Loose length\n— Tension"),
        ("Какой мост разводят первым?", "Который из мостов?\nКакой мост разводят первым\n— Лодочный\n— Мучной"),
    ],
)
async def test_a_poll_is_never_a_sure_answer(library, make_post, question, poll):
    await library.keep(make_post(50, poll, chat=library.harbour, media=POLL))
    answer = await library.ask(question)
    assert answer.certainty is not Certainty.SURE
    assert not any("— " in sentence.text for sentence in answer.sentences)


async def test_a_statement_stands_before_a_poll_about_the_same(library, make_post):
    poll = make_post(51, "Suggest a time for the daily quiz\n— 2 pm\n— 3 pm", chat=library.harbour, days=5, media=POLL)
    await library.keep(make_post(50, "Join the daily live quiz at 4pm.", chat=library.harbour), poll)
    answer = await library.ask("At what time is the daily live quiz?")
    assert [sentence.text for sentence in answer.sentences] == ["Join the daily live quiz at 4pm."]


KNOWN = {-1001234: Channel(-1001234, "Harbour", "Harbour_News"), -1005678: Channel(-1005678, "Crew")}


LINKS = """
https://t.me/harbour_news/12 https://harbour_news.t.me/12 tg://resolve?domain=harbour_news&post=12
https://web.telegram.org/a/#-1001234_12 см.https://t.me/harbour_news/12 t.me/HARBOUR_NEWS/12
http://www.telegram.me/harbour_news/12/ https://telegram.dog/s/harbour_news/12 (https://t.me/harbour_news/12).
https://t.me/harbour_news/7/12 https://t.me/harbour_news/12?thread=7 tg://privatepost?channel=1234&post=12&single
https://t.me/harbour_news/12?single https://t.me/harbour_news/12?t=5&single&x=1 https://t.me/c/5678/12
https://t.me/c/5678/7/12?single
"""
NO_LINKS = """
12 https://t.me/harbour_news https://t.me/harbour_news/ https://t.me/harbour_news/0 https://t.me/harbour_news/12abc
https://t.me/harbour_news/12?comment=5 https://t.me/c/5678 https://not-t.me/harbour_news/12 https://t.me/+AbCdEf/12
https://evil.example/t.me/harbour_news/12 https://t.me/joinchat/AbCdEf https://example.org/harbour_news/12
"""


@pytest.mark.parametrize("text", LINKS.split())
def test_a_link_means_its_post_in_every_form(text):
    (link,) = find_post_links(text)
    post = PostKey(-1005678 if "5678" in text else -1001234, 12)
    assert (resolve_post_link(link, KNOWN), link.single) == (post, "single" in text)


@pytest.mark.parametrize("text", NO_LINKS.split())
def test_what_leads_to_no_post_is_no_link(text):
    assert find_post_links(text) == []


@pytest.mark.parametrize("text", ["https://t.me/elsewhere/12", "https://t.me/c/999/12"])
def test_a_link_to_an_unknown_channel_means_nothing_here(text):
    (link,) = find_post_links(text)
    assert resolve_post_link(link, KNOWN) is None
    assert link.text == text


def test_several_links_come_in_their_order_and_once():
    text = "t.me/harbour_news/3 и t.me/c/5678/1,\nt.me/Harbour_news/3"
    assert [(link.chat, link.message_id) for link in find_post_links(text)] == [("harbour_news", 3), (-1005678, 1)]
    assert find_post_links("t.me/c/1/2")[0] == PostLink(-1001, 2, False, "t.me/c/1/2")


def hide(make_post, text, *hidden, **link):
    entities = [
        Entity("spoiler", len(text[: text.index(one)].encode("utf-16-le")) // 2, len(one.encode("utf-16-le")) // 2)
        for one in hidden
    ]
    entities += [Entity("text_link", entities[0].offset, 1, url) for url in link.values()]
    return list_spoilers([make_post(1, text, entities=tuple(entities))])


@pytest.mark.parametrize(
    ("text", "hidden", "shown", "covered"),
    [
        ("The code is MARLIN.", "MARLIN", "“The code is MARLIN. [1]”", "“The code is ▒▒▒▒▒▒. [1]”"),
        ("🎁 Код — ОМУЛЬ!", "ОМУЛЬ", "Отгадка — код омуля.", "Отгадка — код ▒▒▒▒▒."),
        ("In the end the butler did it.", "the butler did it", "the butler", "▒▒▒ ▒▒▒▒▒▒"),
        ("In the end it was so. It ends well.", "It ends well", "At last it ends well!", "At last ▒▒ ▒▒▒▒ ▒▒▒▒!"),
        ("He comes at 7:30, she at 7:45.", "7:30", "at 7:30 or 7:45", "at ▒▒▒▒ or 7:45"),
        ("Winner: 🐟", "🐟", "Winner: 🐟", "Winner: ▒▒"),
        ("Winner: one\ntwo", "one\ntwo", "Winner: one two", "Winner: ▒▒▒ ▒▒▒"),
    ],
)
def test_what_a_text_shows_of_a_spoiler_is_covered(make_post, text, hidden, shown, covered):
    assert cover_spoilers(shown, hide(make_post, text, hidden)) == covered


def test_an_address_under_hidden_words_is_covered_and_nothing_without_spoilers(make_post):
    spoilers = hide(make_post, "The map is here.", "here", url="https://example.org/marlin")
    assert "marlin" not in cover_spoilers("See https://example.org/marlin", spoilers)
    assert list_spoilers([make_post(1, "The code is MARLIN.")]) == ()


def test_thousands_of_spoilers_take_no_seconds_and_hide_all(make_post):
    words = [f"w{n}" for n in range(4000)]
    text = " ".join(words)
    places = [Entity("spoiler", text.index(f"w{n}"), len(f"w{n}")) for n in range(4000)]
    started = time.thread_time()
    spoilers = list_spoilers([make_post(1, text, entities=tuple(places))])
    assert cover_spoilers("w17 and w3999", spoilers) == "▒▒▒ and ▒▒▒▒▒"
    cover_spoilers(text[:4096], spoilers)
    assert time.thread_time() - started < 1


async def test_profiles_of_channels_are_made_of_what_posts_show(library, make_post):
    post = make_post(50, "The code is MARLIN.", chat=library.safe, entities=(Entity("spoiler", 12, 6),))
    await library.keep(post)
    latest = await summarize_latest_texts(library.rag.archive, [library.safe], 5, list)
    assert latest == {library.safe: ["The code is       ."]}
