import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from driver import CREW, HARBOUR, KILN
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.i18n import get_translator
from bot.sandbox.messages import prepare_text
from bot.views.keyboards import cut_page
from bot.views.results import RESULTS_PER_PAGE, render_search_page
from bot.views.text import RenderContext
from ingest.message_kinds import count_utf16_units
from rag_core.retrieval.post_search import FoundPost, SearchListing, SearchRequest, TextMatcher
from rag_core.types import Channel, Media, Origin, Plan, Post, PostKey, SearchFilter, Shortfall

CHANNELS = {
    HARBOUR: Channel(HARBOUR, "Harbour News", "harbour_news"),
    KILN: Channel(KILN, "Печь и глина", "pech_i_glina"),
    CREW: Channel(CREW, "Crew only"),
}
DAY = datetime(2024, 3, 12, 9, tzinfo=UTC)
EN, RU = RenderContext(get_translator("en"), UTC), RenderContext(get_translator("ru"), UTC)


def post(number=7, text="The ferry leaves at eight.", chat=HARBOUR, **more):
    return Post(PostKey(chat, number), DAY, text, **more)


def listed(*found, words="ferry", must=(), **more):
    entries = tuple(one if isinstance(one, FoundPost) else FoundPost(one) for one in found)
    plan = more.pop("plan", Plan((words,), must=must))
    sought = SearchRequest(plan, words, more.pop("filters", ()), more.pop("beside", ()))
    only = more.pop("only", SearchFilter(frozenset(CHANNELS)))
    given = {"matching": sum(one.whole for one in entries), "more": False, "channels": CHANNELS, "shortfalls": ()}
    return SearchListing(sought, only, TextMatcher.of(words, must), entries, **(given | more))


def said(listing, number=0, shown=EN):
    return str(render_search_page(listing, number, shown).render()[0])


def test_what_was_understood_is_said_in_the_readers_days():
    moscow = ZoneInfo("Europe/Moscow")
    only = SearchFilter(frozenset(CHANNELS), datetime(2024, 3, 1, tzinfo=moscow), datetime(2024, 4, 1, tzinfo=moscow))
    listing = listed(post(), only=only, plan=Plan(("ferry",), channels=frozenset({HARBOUR})))
    english, russian = replace(EN, zone=moscow), replace(RU, zone=moscow)
    for shown, text in (
        (english, "Search: ferry · 1 March 2024 – 31 March 2024 · Harbour News\n"),
        (russian, "Поиск: ferry · 1 марта 2024 – 31 марта 2024 · Harbour News\n"),
    ):
        assert said(listing, shown=shown).startswith(text)
    day = replace(only, until=datetime(2024, 3, 2, tzinfo=moscow))
    assert "· 1 March 2024\n" in said(replace(listing, only=day, sought=SearchRequest(Plan(()))), shown=english)
    assert "ferry · since 1 March" in said(replace(listing, only=replace(only, until=None)), shown=english)
    assert "ferry · по 31 марта" in said(replace(listing, only=replace(only, since=None)), shown=russian)


def test_posts_that_are_merely_near_stand_apart():
    near = FoundPost(post(8, "The boat leaves."), whole=False)
    text = said(listed(post(), near))
    assert "Found 1 post · similar: 1\n" in text
    assert text.index("eight.") < text.index("Similar, or without some of the words:") < text.index("The boat")
    alone = said(listed(near))
    assert "No post has all these words. Similar ones: 1\n" in alone
    assert "Similar, or without some of the words:" not in alone
    lost = said(listed(near, shortfalls=(Shortfall("chronicle", "!"),)))
    assert "No post has all these words. Similar" not in lost
    assert lost.endswith("Counting took too long, so I searched instead. There may be more posts.")


@pytest.mark.parametrize(
    ("more", "english", "russian"),
    [
        ({}, "I found no such posts. Try fewer words, or other ones.", "Таких постов не нашёл."),
        ({"must": ("the ferry",)}, "I found no post with exactly these words. Try it without the quotation marks.",
         "Постов с точно такими словами не нашёл."),
        ({"must": ("#ferry",)}, "I found no such posts. Try fewer words, or other ones.", "Таких постов не нашёл."),
        ({"filters": ("in August", "@harbour_news")}, "I found no such posts. Try it without “in August” or “@harbour_",
         "Таких постов не нашёл. Попробуйте без «in August» или «@harbour_news»."),
        ({"shortfalls": (Shortfall("search", "!"),)},
         "I found no such posts, but I could not search everything.\n\nPart of the search failed",
         "Таких постов не нашёл, но поискать удалось не везде."),
    ],
)  # fmt: skip
def test_where_nothing_was_found_it_is_said_what_to_try(more, english, russian):
    assert said(listed(**more)).startswith(english)
    assert said(listed(**more), shown=RU).startswith(russian)


def test_a_text_that_turns_the_writing_around_or_looks_like_nothing_does_no_harm():
    turned = post(text="ferry \u202eevil\u202c and \u2066more\u2069 words")
    blank = post(8, "\u3164\u2800 \u200b")
    text = said(listed(turned, blank, post(9, "", media=Media("document", "ferry\nmenu.pdf"))))
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    assert "2. Harbour News · 12 March 2024\n\n3. Harbour News · 12 March 2024\nferry menu.pdf" in text


def test_many_links_in_a_post_do_not_cost_the_links_of_ours():
    spam = " ".join(f"@spam{n} #tag{n} t.me/x{n}" for n in range(40))
    listing = listed(*(post(n, f"ferry {spam}") for n in range(1, 6)))
    text, entities = render_search_page(listing, 0, EN).render()
    _, kept = prepare_text(text, [e.model_dump(exclude_none=True) for e in entities])
    assert len(kept) < 100
    assert sum(entity["type"] == "text_link" for entity in kept) == 5


HOSTILE = "ferry паром 🔥👨‍👩‍👧 \u202e\u0301\u200bשלום @a_user #tag http://x.io <b>]('\"{ } *_`[~\\\n\r\t"
TEXTS = (
    st.text(max_size=400) | st.text(HOSTILE, max_size=600) | st.sampled_from(["🔥" * 600, "ferry " * 900, "a" * 3000])
)
NAMES = st.text(HOSTILE, max_size=140) | st.sampled_from(["", "🔥" * 128, "\u3164", "{ $count }", "\ue0000\ue001"])
POSTS = st.builds(
    post,
    st.integers(1, 2**31),
    TEXTS,
    st.sampled_from([*CHANNELS, -1009]),
    edited=st.just(DAY),
    origin=st.none() | st.builds(Origin, NAMES),
    media=st.none() | st.builds(Media, st.just("document"), NAMES),
)
FOUND = st.builds(FoundPost, POSTS, st.just(tuple(PostKey(-n, 1) for n in range(1, 4))), st.just(True))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(FOUND, max_size=7),
    st.text(HOSTILE, max_size=900),
    st.lists(NAMES, min_size=3, max_size=3),
    st.integers(0, 1),
    st.sampled_from(["en", "ru"]),
)
def test_any_page_is_one_that_telegram_takes(found, words, names, number, lang):
    titled = {key: replace(c, title=name) for (key, c), name in zip(CHANNELS.items(), names, strict=True)}
    must = (words[:80],) if words.strip() else ()
    only = SearchFilter(frozenset(CHANNELS), DAY - timedelta(days=9), DAY)
    listing = listed(*found, words=words, must=must, channels=titled, only=only, beside=(words,), filters=(words,),
                     plan=Plan((words,), channels=frozenset(CHANNELS), must=must), matching=10**6,
                     shortfalls=tuple(Shortfall(s, "") for s in ("dense", "lexical", "search", "copies")))  # fmt: skip
    _, number, _ = cut_page(listing.found, number, RESULTS_PER_PAGE)
    text, entities = render_search_page(listing, number, EN if lang == "en" else RU).render()
    assert count_utf16_units(text) <= 4096
    shown, kept = prepare_text(text, [e.model_dump(exclude_none=True) for e in entities])
    assert shown
    links = [urlsplit(e["url"]) for e in kept if e["type"] == "text_link"]
    assert len(links) == len(found[number * RESULTS_PER_PAGE :][:RESULTS_PER_PAGE])
    assert all((url.scheme, url.netloc) == ("https", "t.me") for url in links)
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", shown)
