"""The rich form of answers, digests and verdicts says what the plain one says."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiogram.methods import SendRichMessage
from aiogram.utils.formatting import Text
from rich_text import find_notes, join_words, list_links, list_marks, outline

from bot.i18n import get_translator
from bot.sandbox.messages import prepare_rich_message
from bot.telegram.recheck import hide_spoilers
from bot.views.answer import render_answer
from bot.views.results import render_digest, render_verdicts
from bot.views.rich import MAX_RICH_BLOCKS, build_rich_message, quote_post
from bot.views.text import RenderContext
from rag_core.retrieval.digests import DigestLine
from rag_core.text.post_text import list_spoilers
from rag_core.types import Answer, Channel, Citation, Entity, Post, PostKey, Sentence, Visibility
from rag_core.verification import Claim, Label, Verdict, Verification

HARBOUR, CREW = -1001234, -1005678
CHANNELS = {HARBOUR: Channel(HARBOUR, "Гавань", "harbour", visibility=Visibility.PUBLIC), CREW: Channel(CREW, "Crew")}
EN, RU = (RenderContext(get_translator(lang), UTC) for lang in ("en", "ru"))
OLD = Post(
    PostKey(HARBOUR, 1), datetime(2024, 5, 1, 9, tzinfo=UTC), "Prices. A ticket costs 320. Children go free. #fees"
)
NEW = Post(PostKey(CREW, 2), datetime(2025, 6, 2, 9, tzinfo=UTC), "A ticket now costs 400.")
POSTS = {post.key: post for post in (OLD, NEW)}


def quote(post, words):
    at = post.text.index(words)
    return Citation(post.key, words, at, at + len(words), post.date)


def answered(*sentences, **more):
    return Answer(sentences, 0.9, "direct", channels=CHANNELS, **more)


NOW_SAID = Sentence(NEW.text, (quote(NEW, NEW.text),))


def rich_of(text):
    built = build_rich_message(text)
    assert built is not None
    return prepare_rich_message(built)  # the sandbox's limits hold


def test_each_mark_opens_the_words_of_its_post_with_a_link_to_it():
    earlier = Sentence("Children go free.", (quote(OLD, "Children go free."),))
    rich = rich_of(render_answer(answered(NOW_SAID, earlier), POSTS, EN))
    assert outline(rich["blocks"]) == [
        "paragraph: A ticket now costs 400. [1]",
        "paragraph: Children go free. [2]",
        "heading: Sources",
        "expandable_blockquote: [1] A ticket now costs 400. — Crew · 2 June 2025",
        "expandable_blockquote: [2] Prices. A ticket costs 320. Children go free. #fees — Гавань · 1 May 2024",
    ]
    assert list_marks(rich) == ["p1", "p2"]
    note = find_notes(rich)["p2"]
    assert {"type": "marked", "text": "Children go free."} in note["text"]["text"]
    assert set(list_links(note)) == {"https://t.me/harbour/1"}
    day = {"type": "date_time", "text": "1 May 2024", "unix_time": int(OLD.date.timestamp()), "date_time_format": "D"}
    assert day in note["credit"]


@pytest.mark.parametrize(("shown", "before"), [(EN, "Earlier, on 1 May 2024"), (RU, "Раньше, 1 мая 2024")])
def test_a_value_that_changed_is_a_table_with_a_link_in_each_row(shown, before):
    was = Sentence(f"{before}: A ticket costs 320.", (quote(OLD, "A ticket costs 320."),))
    text = render_answer(answered(NOW_SAID, was), POSTS, shown)
    assert f"{NEW.text} [1]\n\n{before}: A ticket costs 320. [2]" in text.render()[0]
    table = rich_of(text)["blocks"][0]
    day = shown.words.date(NEW.date, UTC)
    assert outline([table])[1:] == [f"  {day} | A ticket now costs 400. [1]", f"  {before} | A ticket costs 320. [2]"]
    assert table["is_compact"]
    assert [list_links(row) for row in table["cells"]] == [["https://t.me/c/5678/2"], ["https://t.me/harbour/1"]]


def test_two_facts_and_a_written_answer_are_no_series():
    other = Sentence("Children go free.", (quote(OLD, "Children go free."),))
    was = Sentence("Earlier, on 1 May 2024: A ticket costs 320.", (quote(OLD, "A ticket costs 320."),))
    for answer in (answered(NOW_SAID, other), answered(NOW_SAID, was, model="writer")):
        assert "table" not in {block["type"] for block in rich_of(render_answer(answer, POSTS, EN))["blocks"]}


def test_a_post_that_has_just_gone_keeps_a_note_of_the_cited_words():
    was = Sentence("A ticket costs 320.", (quote(OLD, "A ticket costs 320."),))
    note = find_notes(rich_of(render_answer(answered(was), {}, EN)))["p1"]
    assert join_words(note["text"]) == "[1] A ticket costs 320."
    assert "https://t.me/harbour/1" in list_links(note)


def test_many_notes_are_folded_and_all_of_them_have_a_post():
    posts = {PostKey(HARBOUR, n): Post(PostKey(HARBOUR, n), OLD.date, f"Fact number {n}.") for n in range(1, 6)}
    said = [Sentence(post.text, (quote(post, post.text),)) for post in posts.values()]
    rich = rich_of(render_answer(answered(*said), posts, EN))
    *_, folded = rich["blocks"]
    assert (folded["type"], folded["summary"], len(folded["blocks"])) == ("details", "Sources", 5)
    assert sorted(find_notes(rich)) == sorted(list_marks(rich)) == [f"p{n}" for n in range(1, 6)]


def test_over_the_limits_there_is_no_rich_form():
    assert build_rich_message(Text("\n\n".join("a" * MAX_RICH_BLOCKS))) is not None
    assert build_rich_message(Text("\n\n".join("a" * (MAX_RICH_BLOCKS + 1)))) is None
    assert build_rich_message(Text("a" * 32_768)) is not None
    assert build_rich_message(Text("a" * 32_769)) is None
    long = [Post(PostKey(HARBOUR, n), OLD.date, f"{n} " + "word " * 200) for n in range(60)]
    said = [Sentence(f"{n} word", (quote(post, f"{n} word"),)) for n, post in enumerate(long)]
    assert build_rich_message(render_answer(answered(*said), {post.key: post for post in long}, EN)) is None


def test_a_long_post_is_cut_around_the_cited_words():
    text = "Beginning. " + "before " * 200 + "Here it is. " + "after " * 200
    words, _ = quote_post(text, ["Here it is."]).render()
    assert len(words) <= 702
    assert "Here it is." in words
    assert words.startswith("…")
    assert words.endswith("…")
    assert quote_post("Short.", ["Short."]).render()[0] == "Short."


def test_a_long_post_without_spaces_is_cut_where_there_is_room_no_more():
    words, _ = quote_post("今 " + "天" * 4096, []).render()
    assert len(words) == 701


def test_addresses_and_names_in_posts_are_words_and_nothing_in_them_is_detected():
    hostile = Post(
        PostKey(HARBOUR, 3), OLD.date, "Pay at evil.example or ask @evil /start <b>now</b> [x](http://evil.example)"
    )
    said = Sentence(hostile.text, (quote(hostile, hostile.text),))
    built = build_rich_message(render_answer(answered(said), {hostile.key: hostile}, EN))
    assert built.skip_entity_detection
    assert built.html is built.markdown is None
    assert set(list_links(prepare_rich_message(built))) == {"https://t.me/harbour/3"}


def test_what_a_post_hides_is_hidden_in_its_note_and_in_a_row():
    start = OLD.text.index("320")
    hidden = replace(OLD, entities=(Entity("spoiler", start, 3),))
    was = Sentence("Earlier, on 1 May 2024: A ticket costs 320.", (quote(OLD, "A ticket costs 320."),))
    built = build_rich_message(render_answer(answered(NOW_SAID, was), {**POSTS, OLD.key: hidden}, EN))
    assert built is not None
    call = hide_spoilers(SendRichMessage(chat_id=1, rich_message=built), list_spoilers([hidden]))
    shown = prepare_rich_message(call.rich_message)
    assert str(shown).count("{'type': 'spoiler', 'text': '320'}") == 2
    assert str(shown).count("320") == 2


@pytest.mark.parametrize("shown", [EN, RU])
def test_verdicts_and_digests_say_the_same_in_both_forms(shown):
    verdict = Verdict(Claim("Tickets cost 320.", "en"), Label.CONTRADICTED, 0.9, against=(quote(NEW, NEW.text),))
    verdicts = render_verdicts(Verification((verdict,), channels=CHANNELS), POSTS, shown)
    line = DigestLine(OLD, 0, len(OLD.text), channels=2, changed=True, heading="Prices of tickets")
    digest = render_digest([line], CHANNELS, shown, OLD.date, NEW.date).text
    for text in (verdicts, digest):
        plain, entities = text.render()
        rich = rich_of(text)
        said = "\n".join(outline(rich["blocks"]))
        for word in plain.replace("•", " ").split():
            assert word in said
        assert {e.url for e in entities if e.url} == set(list_links(rich))
    assert rich["blocks"][0]["type"] == rich["blocks"][1]["type"] == "heading"
