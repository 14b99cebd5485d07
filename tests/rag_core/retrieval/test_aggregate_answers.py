from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.aggregate import answer_by_aggregation
from rag_core.retrieval.search import find_titled_channel
from rag_core.storage.channels import load_channels
from rag_core.types import Channel, PostKey, Viewer


async def told(library, text, **asked):
    question = library.question(text, **asked)
    plan = plan_by_rules(question, await load_channels(library.rag.archive))
    return await answer_by_aggregation(question, plan, library.rag)


def numbers(draft):
    return [c.post.message_id for s in draft.sentences for c in s.citations]


def said(draft):
    (sentence,) = draft.sentences
    return sentence.text.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("text", "start", "cited"),
    [
        ("When was the ferry first mentioned?", "First mentioned on 1 March 2025: The ferry to Owl Island leaves", [1]),
        ("Когда впервые написали про обжиг?", "Впервые в постах — 2 марта 2025: Обжиг проходит", None),
        ("When did you last write about the ferry?", "Last mentioned on 20 May 2025: The ferry is out of", [6]),
        ("Когда впервые заговорили про осень на курсе «керамики»?", "", [1]),
        ("When did you first write about a trip to Owl Island?", "", [1]),
        ("когда выложили «Абонемент в мастерскую»", "Пост от 3 марта 2025: Абонемент", None),
        ("when did you post about mackerel?", "Posted on 2 March 2025: Fresh", None),
        ("How many posts mention the ferry?", "3 posts with the word “ferry”, from 1 March 2025 to 20 May", [1, 5, 6]),
        ("Сколько постов про обжиг?", "2 поста со словом «обжиг», с 2 марта 2025 по 20 апреля 2025.", None),
        ("How many posts mention the ferry in April 2025?", "1 post with", None),
    ],
)
async def test_mentions_are_dated_and_counted(library, text, start, cited):
    draft = await told(library, text)
    assert said(draft).startswith(start)
    assert cited is None or numbers(draft) == cited


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("timeline of the mackerel", "3 March 2025: "),
        ("When was the mackerel first mentioned?", "First mentioned on 3 March 2025: "),
        ("How many posts mention the mackerel?", "1 post with the word “mackerel”: 3 March 2025."),
        ("when did you post about mackerel?", "Posted on 3 March 2025: "),
        ("what was posted on 3 March 2025?", "3 March 2025: "),
    ],
)
async def test_days_are_those_of_the_asker(library, text, day):
    question = library.question(text)
    question = replace(question, asked_at=question.asked_at.astimezone(timezone(timedelta(hours=12))))
    draft = await answer_by_aggregation(question, plan_by_rules(question), library.rag)
    assert any(sentence.text.startswith(day) for sentence in draft.sentences), draft.sentences


async def test_news_about_something_are_dated_lines_newest_first(library):
    draft = await told(library, "Последние новости про обжиг")
    lines = [sentence.text.replace("\u202f", " ") for sentence in draft.sentences]
    assert lines[0].startswith("20 апреля 2025: Новая глазурь") and lines[0].endswith("Про обжиг спросите Тамару.")
    assert lines[1].startswith("2 марта 2025: Обжиг проходит")


async def test_what_is_new_are_dated_lines_of_all_channels_newest_first_copies_once(library, make_post):
    digest = "Digest of the week: everything that was lit and everything that was not."
    await library.keep(
        *(
            make_post(n, f"Hello, readers!\n\nBuoy number {n} is lit again.", chat=library.harbour, days=300 + n)
            for n in range(7, 12)
        ),
        make_post(30, digest, chat=library.harbour, days=312), make_post(31, digest, chat=library.kiln, days=313),
        make_post(90, "The vault is empty and nobody may know.", chat=library.safe, days=314),
    )  # fmt: skip
    draft = await told(library, "what's new?")
    *lines, total = (sentence.text for sentence in draft.sentences)
    assert lines[0] == f"7 January 2026: {digest}"  # the original of the copies
    assert lines[1:] == [f"{n - 5} January 2026: Buoy number {n} is lit again." for n in (11, 10, 9, 8, 7)]
    assert total == "7 posts, from 2 January 2026 to 8 January 2026."
    assert all("vault" not in sentence.text for sentence in draft.sentences)
    assert sum(len(sentence.text) for sentence in draft.sentences) <= 600
    assert all(c.quote for s in draft.sentences for c in s.citations)


async def test_a_month_without_a_year_is_the_latest_with_posts_and_the_year_is_told(library):
    draft = await told(library, "что было в апреле")
    assert [sentence.text[:12] for sentence in draft.sentences] == ["20 апреля 20", "10 апреля 20"]
    none = await told(library, "что было в апреле 2024")
    assert none is not None and not none.sentences
    earlier = replace(library.question("what happened in March?"), asked_at=datetime(2028, 5, 1, tzinfo=UTC))
    draft = await answer_by_aggregation(earlier, plan_by_rules(earlier), library.rag)
    assert draft is not None and draft.sentences[0].text.startswith("4 March 2025: Please keep dogs")


async def test_on_a_quiet_day_the_last_post_before_it_is_quoted(library, make_post):
    await library.keep(make_post(90, "The vault is empty and nobody may know.", chat=library.safe, days=314))
    draft = await told(library, "what's new today?")
    assert said(draft).startswith("There are no posts of that time. The last one before it, 20 May 2025: The ferry")
    assert numbers(draft) == [6]
    assert said(await told(library, "что нового за неделю")).startswith(
        "За это время постов нет. Последний до того, 20"
    )
    for past in ("что было в апреле 2024", "what was posted on 3 June 2025"):  # nobody expects the post before it
        none = await told(library, past)
        assert none is not None and not none.sentences
    nothing = await told(library, "what's new today?", see=())
    assert nothing is None or not nothing.sentences


async def test_without_a_topic_all_posts_are_counted_but_those_of_closed_channels(library, make_post):
    await library.keep(make_post(90, "The vault is empty.", chat=library.safe, days=4))
    for text in ("how many posts are there in total?", "how many posts"):
        draft = await told(library, text)
        assert draft is not None and draft.sentences[0].text.startswith("10 posts, from 1 March 2025 to 20 May 2025")
        cited, lines = draft.sentences[0].citations, draft.sentences[1:]
        assert cited == tuple(line.citations[0] for line in lines)  # numbered in the order of the lines
    russian = await told(library, "сколько всего постов")
    assert russian is not None and russian.sentences[0].text.startswith("10 постов, ")


async def test_a_known_word_that_is_not_in_the_period_is_a_refusal(library):
    none = await told(library, "How many posts mention the ferry in 2024?")
    assert none is not None and not none.sentences


@pytest.mark.parametrize(
    "text",
    [
        "How many posts mention a zyzzyva?", "When was the zyzzyva first mentioned?",
        "How many posts mention Harbour?", "any posts about the ferry regatta", "когда выложили «Форсаж»",
    ],
)  # fmt: skip
async def test_what_no_post_says_and_other_questions_are_left_to_the_search(library, text):
    assert await told(library, text) is None


async def test_a_long_list_is_counted_whole_and_linked_in_part(library, make_post):
    await library.keep(*(make_post(n, f"Buoy {n} is lit.", chat=library.harbour, days=n) for n in range(100, 223)))
    draft = await told(library, "How many posts mention a buoy?")
    assert said(draft).startswith("123 posts with the word “buoy”, from 9 June 2025 to ")
    assert len(numbers(draft)) == 5


async def test_posts_that_cannot_be_read_are_neither_first_nor_counted(library, make_post):
    await library.keep(make_post(1, "The ferry, the ferry!", chat=library.safe, days=-30))
    await library.keep(make_post(2, "A ferry at night.", chat=library.safe, days=300))
    assert numbers(await told(library, "When was the ferry first mentioned?")) == [1]
    assert numbers(await told(library, "When was the ferry last mentioned?")) == [6]
    assert said(await told(library, "How many posts mention the ferry?")).startswith("3 posts")
    everything = (library.harbour, library.safe)
    assert said(await told(library, "How many posts mention the ferry?", see=everything)).startswith("5 posts")


async def test_a_word_of_a_closed_channel_is_as_unknown_as_one_that_nobody_wrote(library, make_post):
    """Otherwise counting "ferry" with any word would tell whether a closed channel knows that word."""
    await library.keep(make_post(1, "The trophy is safe.", chat=library.safe))
    closed = await told(library, "How many posts mention the ferry trophy?")
    unknown = await told(library, "How many posts mention the ferry zyzzyva?")
    assert closed == unknown
    assert said(closed).startswith("3 posts with the word “ferry”, ")


async def test_a_deleted_post_is_not_counted_from_the_moment_it_is_gone(library):
    await library.erase(PostKey(library.harbour, 1), index=False)
    assert numbers(await told(library, "When was the ferry first mentioned?")) == [5]
    assert said(await told(library, "How many posts mention the ferry?")).startswith("2 posts")


async def test_a_first_post_of_one_long_sentence_is_quoted_in_part(library, make_post):
    text = "The funicular will climb the hill " + "past the old mill and the new mill " * 7 + "to the very top."
    assert 250 < len(text) <= 300
    await library.keep(make_post(30, text, chat=library.harbour))
    draft = await told(library, "When was the funicular first mentioned?")
    assert numbers(draft) == [30]
    assert len(said(draft)) <= 300


async def test_a_count_of_more_words_than_can_be_said_is_not_given(library, make_post):
    names = " ".join(f"Longname{'x' * 40}{n}" for n in range(9))
    await library.keep(make_post(31, f"Here are {names}.", chat=library.harbour))
    assert await told(library, f"How many posts mention {names}?") is None


async def _introduce(library, make_post):
    await library.keep(
        make_post(1, "Hello! This is the channel of the swimming pool on the pier.", chat=library.harbour, days=1),
        *(
            make_post(n, f"Lane number {n} is open to everybody from today.", chat=library.harbour, days=200 + n)
            for n in (21, 22)
        ),
        make_post(41, "The pool gave us water for the kiln.", chat=library.kiln, days=310),
    )


async def test_what_is_new_at_a_channel_are_its_posts(library, make_post):
    await _introduce(library, make_post)
    assert numbers(await told(library, "what's new at the harbour"))[:2] == [22, 21]
    assert 41 in numbers(await told(library, "any posts about the pool"))  # a topic is no channel


async def test_a_channel_that_the_reader_may_not_read_has_no_title(library):
    both, one = Viewer(1, frozenset({library.harbour, library.kiln})), Viewer(1, frozenset({library.kiln}))
    assert await find_titled_channel("harbour", both, library.rag) == library.harbour
    assert await find_titled_channel("harbour", one, library.rag) is None


async def test_a_channel_that_is_named_is_not_left_for_another(library, make_post):
    await _introduce(library, make_post)
    question = library.question("what's new in @pech_i_glina at the harbour")
    known = {library.kiln: Channel(library.kiln, "Печь и глина", "pech_i_glina")}
    draft = await answer_by_aggregation(question, plan_by_rules(question, known), library.rag)
    assert draft is None or all(c.post.chat_id == library.kiln for s in draft.sentences for c in s.citations)
