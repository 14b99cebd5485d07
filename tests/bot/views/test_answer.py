from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest
from sample_sizes import choose_size

from bot.control.answers import describe_answer
from bot.i18n import get_translator
from bot.sandbox.messages import prepare_text
from bot.views.answer import make_link, render_answer, render_sentences
from bot.views.format import split_pages
from bot.views.text import RenderContext, format_answer_text
from ingest.message_kinds import count_utf16_units
from rag_core.types import (
    Answer,
    Certainty,
    Channel,
    Citation,
    MediaSpan,
    Origin,
    Passage,
    Post,
    PostKey,
    Sentence,
    Shortfall,
)

DAY = datetime(2024, 3, 12, 10, tzinfo=UTC)
LATER = datetime(2024, 3, 14, 10, tzinfo=UTC)
PUBLIC, PRIVATE = -1001234, -1005678
CHANNELS = {PUBLIC: Channel(PUBLIC, "Гавань", "harbour"), PRIVATE: Channel(PRIVATE, "Owl Hill")}
RU, EN = RenderContext(get_translator("ru"), UTC), RenderContext(get_translator("en"), UTC)


def cited(text, *keys, quote=None):
    said = quote or text
    return Sentence(text, tuple(Citation(key, said, 0, len(said), DAY) for key in keys))


def answered(*sentences, **more):
    return Answer(sentences, 0.9, "direct", channels=CHANNELS, **more)


def nearest(text, chat_id=PUBLIC, message_id=4):
    return Passage(PostKey(chat_id, message_id), 0, "header", text, 0, len(text), DAY)


def links(content):
    text, entities = content.render()
    return [(e.extract_from(text), e.url) for e in entities if e.type == "text_link" and e.url]


def of_type(entities, kind, text):
    return [e.extract_from(text) for e in entities if e.type == kind]


def test_a_question_as_it_was_understood_has_nothing_to_tap():
    said = cited("At six.", PostKey(PUBLIC, 1))
    text, entities = render_answer(answered(said, restated="Is it on evil.example or @evil?"), {}, EN).render()
    assert text.startswith("You mean: Is it on evil.example or @evil?")
    assert of_type(entities, "code", text) == ["evil.example", "@evil"]
    text, entities = render_answer(answered(said, restated="When?"), {}, EN).render()
    assert "You mean: When?" in of_type(entities, "italic", text)


def test_a_count_goes_without_the_numbers_that_the_lines_of_its_posts_have():
    keys = [PostKey(PUBLIC, n) for n in (1, 2)]
    lines = [
        cited(f"12 March 2024: {quote}", key, quote=quote) for key, quote in zip(keys, ("One.", "Two."), strict=True)
    ]
    count = Sentence("2 posts: 12 March 2024.", tuple(line.citations[0] for line in lines))
    text, _ = render_answer(answered(*lines, count), {}, EN).render()
    assert "2 posts: 12 March 2024.\n" in text and text.count("[1]") == text.count("[2]") == 1
    for alone in (answered(count), answered(lines[0], count), answered(*lines, count, model="a model")):
        assert "2 posts: 12 March 2024. [1] [2]" in render_answer(alone, {}, EN).render()[0]


def test_a_source_tells_of_edits_origins_and_copies():
    key = PostKey(PUBLIC, 1)
    post = Post(key, DAY, "x", edited=LATER, origin=Origin("Студия"))
    copies = {key: (PostKey(PRIVATE, 7), PostKey(PRIVATE, 8), PostKey(-1009, 9), PostKey(PUBLIC, 3))}
    text, _ = render_answer(answered(cited("Да.", key), copies=copies), {key: post}, RU).render()
    assert "1. Студия, переслал канал Гавань · 12 марта 2024 · изменён 14 марта 2024 · ещё в 2 каналах" in text
    text, _ = render_answer(answered(cited("Yes.", key), copies=copies), {key: post}, EN).render()
    assert "1. Студия, forwarded by Гавань · 12 March 2024 · edited 14 March 2024 · also in 2 channels" in text
    soon = {key: replace(post, edited=DAY + timedelta(minutes=5))}
    assert (
        "· 12 марта 2024 · изменён в тот же день\n"
        in f"{render_answer(answered(cited('Да.', key)), soon, RU).render()[0]}\n"
    )


def test_who_was_first_is_told_with_the_day_and_in_the_reader_s_time():
    key, first, forward = PostKey(PUBLIC, 1), PostKey(PRIVATE, 7), PostKey(PRIVATE, 3)
    posts = {
        key: Post(key, LATER, "x"),
        first: Post(first, DAY.replace(hour=22, minute=5), "x"),
        forward: Post(forward, DAY, "x", origin=Origin("Гавань", PUBLIC, 1)),
    }
    said = Sentence("Да.", (Citation(key, "Да.", 0, 3, LATER),))
    answer = answered(said, copies={key: (first, forward)})
    text, _ = render_answer(answer, posts, RU).render()
    assert "14 марта 2024 · сначала в Owl Hill, 12 марта 2024, 22:05" in text
    content = render_answer(answer, posts, RenderContext(get_translator("en"), timezone(timedelta(hours=3))))
    assert "14 March 2024 · first in Owl Hill, 13 March 2024, 01:05" in content.render()[0]
    assert ("Owl Hill", "https://t.me/c/5678/7") in links(content)


def test_who_was_first_is_not_told_where_a_copy_went_meanwhile():
    key, gone = PostKey(PUBLIC, 1), PostKey(PRIVATE, 7)
    text, _ = render_answer(answered(cited("Да.", key), copies={key: (gone,)}), {key: Post(key, DAY, "x")}, RU).render()
    assert "12 марта 2024 · ещё в 1 канале" in text


def test_a_long_list_of_sources_folds_and_a_short_one_does_not():
    for count, kind in ((3, "blockquote"), (4, "expandable_blockquote")):
        sentences = [cited(f"Sentence {n}.", PostKey(PUBLIC, n)) for n in range(1, count + 1)]
        text, entities = render_answer(answered(*sentences), {}, EN).render()
        (folded,) = of_type(entities, kind, text)
        assert folded.count("\n") == count - 1


def test_what_a_model_wrote_is_said_to_be_its_words():
    for model, said in ((None, []), ("qwen-1.5b", ["Written by qwen-1.5b from these posts"])):
        text, entities = render_answer(
            answered(cited("As it stands.", PostKey(PUBLIC, 1)), model=model), {}, EN
        ).render()
        assert of_type(entities, "italic", text) == said


def test_only_https_becomes_a_link():
    for url in ("javascript:alert(1)", "http://t.me/x/1", "tg://resolve?domain=x"):
        assert links(make_link("x", url)) == []


def test_a_channel_nobody_knows_any_more_still_has_its_link():
    content = render_answer(answered(cited("Yes.", PostKey(-1009999, 5))), {}, EN)
    assert ("channel", "https://t.me/c/9999/5") in links(content)


def test_words_before_a_quote_that_name_its_date_are_not_dated_again():
    newer, older = cited("С мая 600 ₽.", PostKey(PUBLIC, 2)), cited("Занятие стоит 500 ₽.", PostKey(PUBLIC, 1))
    framed = replace(older, text=f"Раньше, 12 марта 2024: {older.text}")
    counted = replace(older, text="1 пост: 12 марта 2024")
    text, _ = render_answer(answered(newer, framed, counted, certainty=Certainty.PROBABLE), {}, RU).render()
    assert "\n\n12 марта 2024: С мая 600 ₽. [1]\n\nРаньше, 12 марта 2024: Занятие стоит 500 ₽. [2]" in text
    assert "\n\n12 марта 2024: 1 пост: 12 марта 2024" in text
    lines = cited("Цены\nРжаной 185 ₽.", PostKey(PUBLIC, 3))
    in_one = replace(lines, text="12 марта: Цены Ржаной 185 ₽.")
    text, _ = render_answer(answered(in_one, certainty=Certainty.PROBABLE), {}, RU).render()
    assert "\n\n12 марта: Цены Ржаной 185 ₽. [1]" in text


@pytest.mark.parametrize(
    ("certainty", "folded"), [(Certainty.PROBABLE, ["B says so.", "C too."]), (Certainty.SURE, [])]
)
def test_what_may_answer_besides_the_first_is_folded(certainty, folded):
    first, *others = (cited(text, PostKey(PUBLIC, n)) for n, text in enumerate(("A.", "B says so.", "C too."), 1))
    answer = answered(first, *(replace(one, further=True) for one in others), certainty=certainty)
    content = render_answer(answer, {}, RenderContext(get_translator("en"), UTC))
    text, entities = content.render()
    quoted = " ".join(of_type(entities, "expandable_blockquote", text))
    assert [said for said in ("A.", "B says so.", "C too.") if said in quoted] == folded
    assert ("Also found:" in text) is bool(folded)


def test_a_near_post_whose_words_were_spoken_says_where_in_the_recording():
    passage = replace(nearest("The Tesla meets in the old mill."), read=(MediaSpan(0, 32, "voice", 62),))
    refusal = answered(nearest=(passage,), certainty=Certainty.PROBABLE)
    text, _ = render_answer(refusal, {}, EN).render()
    assert " · in the recording, at 1:02\nThe Tesla meets in the old mill." in text
    told = format_answer_text(describe_answer(refusal, {}, "en"), EN.words, UTC)
    assert ", in the recording, at 1:02\n    “The Tesla meets in the old mill.”" in told


YES = cited("Yes.", PostKey(PUBLIC, 1))
FAILED = (Shortfall("search", "a"), Shortfall("search", "b"), Shortfall("unheard-of", "c"))


@pytest.mark.parametrize(
    ("answer", "group", "said"),
    [
        (answered(YES, cited("Two.", PostKey(PUBLIC, 1)), model="m"), False, "Yes. [1] Two. [1]\n\nSource\n"),
        (answered(), True, "I found nothing about this in this group's channels."),
        (answered(nearest=(nearest("x"),), certainty=Certainty.PROBABLE), True, "I found no clear answer. Si"),
        (answered(read_as=(("stolen", "stollen"),)), False, "I looked for “stollen”: the channels I read for you say"),
        (answered(shortfalls=FAILED), False, "I found no answer, but I could not look everywhere just now. Please"),
        (answered(YES, shortfalls=FAILED), False, "Yes. [1]"),
    ],
    ids=[
        "a paragraph of a model",
        "a refusal in a group",
        "what a group withholds",
        "a word that was read otherwise",
        "half a search",
        "shortfalls",
    ],
)
def test_an_answer_begins_with(answer, group, said):
    text, _ = render_answer(answer, {}, replace(EN, group=group)).render()
    assert text.startswith(said), text
    assert text.count("Part of the search failed, so something") == bool(answer.shortfalls)  # each is said once
    assert ("I skipped one step of the search, so" in text) == bool(answer.shortfalls)


NOON = datetime(2024, 3, 12, 10, tzinfo=UTC)
# Latin, Cyrillic, Hebrew, Arabic, emoji in pairs of UTF-16 units, joiners, turns of direction, blanks, markup.
LETTERS = [*"abzжщ ыи של مرحبا 😀 \n .é<>&_*[]()`\u202e\u200f\u0007\r", "👩‍👧", "🇷🇺", "https://t.me/x"]
MOST = 10_000  # characters of one answer


def words(random, most):
    return "".join(random.choices(LETTERS, k=random.randint(1, most)))


def made(random):
    """Up to 10,000 characters in up to 12 sentences, with up to 20 cited posts in three channels."""
    channels = {-1001 - n: Channel(0, words(random, 80), random.choice([None, "harbour_news"])) for n in range(3)}
    keys = [PostKey(-1001 - n % 3, n + 1) for n in range(random.randint(1, 20))]
    sentences, count = [], random.randint(1, 12)
    for _ in range(count):
        text = words(random, random.choice([20, 200, MOST]) // count)[: MOST // count]
        cited = random.sample(keys, random.randint(1, len(keys)))
        quotes = tuple(Citation(key, text, 0, len(text), NOON) for key in cited)
        sentences.append(Sentence(text, quotes, further=random.random() < 0.4))
    stages = random.sample(["dense", "stopped", "write", "search"], random.randint(0, 3))
    shortfalls = tuple(Shortfall(stage, "") for stage in stages)
    model = random.choice([None, "a model"])
    certainty = random.choice([Certainty.SURE, Certainty.PROBABLE])
    return Answer(
        tuple(sentences), random.random(), "direct", model, shortfalls, channels=channels, certainty=certainty
    )


def test_any_answer_renders_to_messages_that_telegram_takes_with_all_links_intact():
    random = Random(0)
    for _ in range(choose_size(300, 60)):
        check(made(random), random.choice(["ru", "en"]))


def check(answer, lang):
    whole = render_answer(answer, {}, RenderContext(get_translator(lang), UTC))
    cut = split_pages(whole)
    assert cut
    found = []
    for page in cut:
        given_marks = [entity.model_dump(exclude_none=True, mode="json") for entity in page.entities]
        text, marks = prepare_text(page.text, given_marks)  # raises for whatever Telegram would refuse
        assert count_utf16_units(text) <= 4096
        links = [mark for mark in marks if mark["type"] == "text_link"]
        assert len(links) == sum(entity.type == "text_link" for entity in page.entities)
        found += [mark["url"] for mark in links]
    probable, (first, *others) = answer.certainty is Certainty.PROBABLE, answer.sentences
    shown = [first, *sorted(others, key=lambda one: probable and one.further)]  # what is folded comes below
    marked, sources = [answer.link(c) for s in shown for c in _posts(s)], map(answer.link, answer.posts())
    assert _once(found) == _once([*marked, *sources])
    assert split_pages(render_sentences(answer))


def _posts(sentence):
    return [citation.post for citation in sentence.citations]


def _once(urls):
    """Without repeats next to each other: a title longer than a message is linked in each of its parts."""
    return [url for place, url in enumerate(urls) if place == 0 or urls[place - 1] != url]
