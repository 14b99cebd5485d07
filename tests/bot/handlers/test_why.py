import json
from datetime import UTC, datetime, timedelta

import pytest
from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, RITA, bind, open_archive, query_archive

import rag_core.answer
from bot.control.answers import TerminalAnswerer
from bot.i18n import get_translator
from bot.stored_answer import hash_text_version, parse_stored_answer, serialize_answer
from bot.views.results import describe_plan, explain_answer
from bot.views.text import RenderContext, format_answer_trace
from rag_core.storage import channels, posts, readers, visible_posts
from rag_core.storage.questions import AnsweredQuestion, fetch_trace
from rag_core.types import (
    Answer,
    Channel,
    Citation,
    DroppedSentence,
    DropReason,
    Media,
    Origin,
    Passage,
    Post,
    PostKey,
    Sentence,
    Shortfall,
    Source,
    Viewer,
)

FERRY = "When does the ferry to Owl Island leave?"
COURSE = "Когда открывается запись на курс керамики?"
DAY = datetime(2024, 3, 12, 9, tzinfo=UTC)
EN, RU = RenderContext(get_translator("en"), UTC), RenderContext(get_translator("ru"), UTC)


def marked(content, kind):
    text, entities = content.render()
    return [e.extract_from(text) for e in entities if e.type == kind]


# Through the whole bot


async def test_admins_are_told_the_stages_too_also_by_the_number_of_an_answer(ask, live_bot):
    await ask(ADMIN, "Is fresh mackerel sold on the quay until October?")
    told = (await ask(ADMIN, "/why"))["text"]
    assert "How I made it: direct" in told
    assert "lexical" in told
    number = told.split("direct, ")[1].split()[0]
    assert "lexical" in (await ask(ADMIN, f"/why {number}"))["text"]
    assert (await ask(ADMIN, "/why 0"))["text"].startswith("I do not have an answer with this number")
    await ask(OTTO, "Is fresh mackerel sold on the quay until October?")
    assert "How I made it:" not in (await ask(OTTO, f"/why {number}"))["text"]


async def test_admins_are_told_what_the_model_wrote_and_why_it_was_left_out(live, ask, monkeypatch):
    wrong = DroppedSentence("The ferry leaves at nine.", DropReason.NUMBER, (PostKey(HARBOUR, 10),))
    gone = DroppedSentence("The safe is open.", DropReason.WORDS, (PostKey(HARBOUR, 999),))
    answer = rag_core.answer.answer_question

    async def answer_with_a_model(question, rag, **callbacks):
        given = await answer(question, rag, **callbacks)
        rag.caches.dropped[given.trace_id] = (wrong, gone)
        return given

    monkeypatch.setattr("bot.worker.question_worker.answer_question", answer_with_a_model)
    async with live():
        await ask(ADMIN, FERRY)
        told = (await ask(ADMIN, "/why"))["text"]
        await ask(OTTO, FERRY)
        of_reader = (await ask(OTTO, "/why"))["text"]
    assert "• The ferry leaves at nine. — a number or date that the post does not say with it" in told
    assert "The safe is open." not in told and "leaves at nine" not in of_reader


async def test_a_reply_chooses_the_answer(sandbox, live, ask):
    async with live():
        first = await ask(OTTO, FERRY)
        asked = max(n for n in sandbox.world.room(OTTO).messages if n < first["message_id"])
        await ask(OTTO, "When is mackerel sold on the quay?")
        by_answer = await ask(OTTO, "/why", reply_to=first["message_id"])
        by_question = await ask(OTTO, "/why", reply_to=asked)
        last = await ask(OTTO, "/why")
        nothing = await ask(OTTO, "/why", reply_to=last["message_id"])
    assert by_answer["text"] == by_question["text"]
    assert FERRY in by_answer["text"]
    assert "mackerel" in last["text"]
    assert nothing["text"].startswith("This message is not one of my answers")


async def test_in_a_group_everybody_hears_of_their_own_answers(sandbox, live, ask, home):
    await bind(home, HARBOUR, KILN)
    async with live():
        to_otto = await ask(OTTO, f"/ask@citegram_bot {FERRY}", GROUP)
        to_rita = await ask(RITA, f"/ask@citegram_bot {COURSE}", GROUP)
        last = await ask(OTTO, "/why@citegram_bot", GROUP)
        replied = await ask(RITA, "/why@citegram_bot", GROUP, reply_to=to_rita["message_id"])
        foreign = await ask(RITA, "/why@citegram_bot", GROUP, reply_to=to_otto["message_id"])
        none = await ask(ADMIN, "/why@citegram_bot", GROUP)
        sent = len(sandbox.world.sent[GROUP])
        await sandbox.say(ADMIN, "/why", chat_id=GROUP)  # may be meant for another bot
        await ask(ADMIN, f"/ask@citegram_bot {FERRY}", GROUP)
        assert len(sandbox.world.sent[GROUP]) == sent + 1
        await query_archive(home, lambda archive: readers.unbind_channel(archive, GROUP, HARBOUR))
        lost = await ask(OTTO, "/why@citegram_bot", GROUP, reply_to=to_otto["message_id"])
    assert "Harbour" in last["text"] and "Harbour" not in lost["text"]
    assert FERRY in last["text"]
    assert COURSE in replied["text"]
    assert foreign["text"].startswith("Это спросил кто-то другой")
    assert none["text"].startswith("You have not asked me anything here yet")


# By itself


@pytest.fixture
async def archive(tmp_path):
    async with open_archive(tmp_path) as archive:
        await channels.save_channel(archive, Channel(HARBOUR, "Harbour News", "harbour_news"))
        await channels.save_channel(archive, Channel(KILN, "Печь и глина"))
        yield archive


def written_at(chat_id, number, text, *, edited=0, **more):
    """A post of the first day; `edited` is the number of days after which it got this text."""
    return Post(PostKey(chat_id, number), DAY, text, edited=DAY + timedelta(days=edited) if edited else None, **more)


def answered(text, lang, at, answer):
    row = {"bot_id": 42, "update_id": 1, "chat_id": OTTO, "message_id": 1, "user_id": OTTO, "asked_at": at}
    return AnsweredQuestion(**row, text=text, lang=lang, private=True, answered_at=at, answer=answer)


def given(*cited, found=(), shortfalls=()):
    """What is kept of an answer that quotes these posts whole, and found those as well."""
    sentences = tuple(Sentence(p.text, (Citation(p.key, p.text, 0, len(p.text), p.date),)) for p in cited)
    sources = tuple(
        Source(n, Passage(p.key, 0, "", p.text, 0, len(p.text), p.date), 1.0) for n, p in enumerate((*cited, *found), 1)
    )
    answer = Answer(sentences, 0.9, "direct", found=sources, shortfalls=tuple(Shortfall(s, "") for s in shortfalls))
    kept = json.dumps(serialize_answer(answer, {post.key: post for post in cited}), ensure_ascii=False)
    return answered("Почему?", "ru", DAY + timedelta(days=2), kept)


async def keep(archive, *kept):
    for post in kept:
        await posts.save_posts(archive, [post], source="live")


async def told(archive, asked, shown=EN, see=(HARBOUR, KILN)):
    return (await explain_answer(asked, Viewer(OTTO, frozenset(see)), archive, shown)).text


async def said(*args, **more):
    return (await told(*args, **more)).render()[0]


async def test_edits_before_and_after_an_answer_are_told_apart(archive):
    first = written_at(HARBOUR, 1, "The ferry leaves at 7:30.")
    second = written_at(HARBOUR, 1, "The ferry leaves at 8:15.", edited=1)
    third = written_at(HARBOUR, 1, "The ferry leaves at 9:00.", edited=5)
    asked = given(second)
    await keep(archive, first, second, third)
    content = await told(archive, asked)
    text, _ = content.render()
    assert "1. Harbour News · 12 March 2024 · edited 17 March 2024\n" in text
    assert "Changed after the answer, 17 March 2024:\nThe ferry leaves at 8:15 9:00.\n" in text
    assert text.endswith("Changed before the answer, 13 March 2024:\nThe ferry leaves at 7:30 8:15.")
    assert marked(content, "strikethrough") == ["8:15", "7:30"]
    assert "Изменено после ответа, 17 марта 2024:\n" in await said(archive, asked, RU)


async def test_an_album_tells_of_the_caption_that_was_edited(archive):
    def members(first, second, edited):
        texts = {1: "", 2: first, 3: second}
        return [written_at(HARBOUR, n, t, edited=edited, album="a", media=Media("photo")) for n, t in texts.items()]

    key = PostKey(HARBOUR, 2)
    await keep(archive, *members("Regatta at noon.", "", 0))
    one_caption = given(*(await visible_posts.fetch_posts(archive, [key])).values())
    await keep(archive, *members("Regatta at two.", "", 4)[1:2])
    assert "Changed after the answer, 16 March 2024:\nRegatta at noon two." in await said(archive, one_caption)

    await keep(archive, *members("Regatta at two.", "Bring umbrellas.", 5)[2:])
    await keep(archive, *members("", "Bring towels.", 6)[2:])
    two_captions = given(*(await visible_posts.fetch_posts(archive, [key])).values())
    text = await said(archive, two_captions)
    assert "Changed 16 March 2024:\nRegatta at noon two." in text
    assert "Changed 18 March 2024:\nBring umbrellas towels." in text


@pytest.mark.parametrize(
    ("versions", "cited", "end"),
    [
        (((0, "Open."), (3, "Closed."), (5, "Open.")), "Open.", "Changed 17 March 2024:\nClosed Open."),
        (((1, "At 8:15."),), "At 8:15.", "I do not know what it said before the edit."),
        (((0, "One"), (1, "Two")), "Zero.", "Changed 13 March 2024:\nOne Two"),
        (((0, "One two."), (1, "One\n\ntwo.")), "One\n\ntwo.", "13 March 2024:\nonly spaces and line breaks"),
    ],
    ids=["taken back after the answer", "before we knew the post", "cited text not known any more", "of spaces"],
)
async def test_an_edit_is_told_as_far_as_it_is_known(archive, versions, cited, end):
    await keep(archive, *(written_at(HARBOUR, 1, text, edited=edited) for edited, text in versions))
    assert (await said(archive, given(written_at(HARBOUR, 1, cited)))).endswith(end)


@pytest.mark.parametrize("way", ["deleted", "suspected"])
async def test_a_post_that_went_is_named_as_gone_without_its_text(archive, way):
    gone, here = written_at(HARBOUR, 1, "The secret ferry."), written_at(KILN, 2, "Обжиг по четвергам.")
    await keep(archive, gone, here, written_at(HARBOUR, 1, "The open ferry.", edited=1))
    if way == "suspected":
        await posts.mark_posts_suspected(archive, [gone.key])
    else:
        await posts.mark_posts_deleted(archive, [gone.key], how=way)
    content = await told(archive, given(gone, here, found=(gone,)))
    text, _ = content.render()
    assert "1. Harbour News · 12 March 2024 — this post is gone, or closed to you now\n" in text
    assert "2. Печь и глина · 12 March 2024" in text
    assert "ferry" not in text
    assert marked(content, "text_link") == ["Печь и глина"]
    assert "этого поста больше нет" in await said(archive, given(gone), RU)


async def test_of_several_sources_those_of_a_closed_channel_are_left_out(archive):
    hidden, seen = written_at(HARBOUR, 1, "The ferry."), written_at(KILN, 2, "Обжиг.")
    other = written_at(HARBOUR, 3, "Mackerel.")
    await keep(archive, hidden, seen, other, written_at(HARBOUR, 1, "The boat.", edited=1))
    text = await said(archive, given(hidden, seen, found=(other,)), see=(KILN,))
    assert text == "You asked: “Почему?”\n\nSource\n2. Печь и глина · 12 March 2024"
    await posts.mark_posts_deleted(archive, [hidden.key], how="admin")
    assert await said(archive, given(hidden, seen, found=(other,)), see=(KILN,)) == text


async def test_an_explanation_names_few_others_and_what_was_done_without(archive):
    found = tuple(written_at(HARBOUR, n, f"Ferry {n}.", origin=Origin("Студия")) for n in range(1, 10))
    await keep(archive, *found)
    text = await said(archive, given(found=found), RU)
    assert text.count("• Студия, переслал канал Harbour News") == 5
    assert text.endswith("… и ещё 4") and "Посмотрел эти посты, но ответа в них нет:" in text
    text = await said(archive, given(shortfalls=("dense", "dense", "rerank")))
    assert text.startswith("You asked: “Почему?”\n\nI found no posts about it.\n\nI searched by words only")
    assert text.count("I searched by words only: the search by") == 1 and "not be in the best order" in text
    assert parse_stored_answer("{}").cited == ()  # an answer that only said that nothing is open
    text = await said(archive, answered("Hm?", "en", DAY, '{"messages": [3]}'))
    assert text == "You asked: “Hm?”\n\nI found no posts about it."


def test_nothing_that_stands_in_a_post_is_kept():
    post = written_at(HARBOUR, 1, "The silver trophy is under the staircase.")
    framed = Sentence(f"Posted on 12 March: {post.text}", (Citation(post.key, post.text, 0, len(post.text), DAY),))
    counted = Sentence("2 posts.", (Citation(post.key, "trophy", 11, 17, DAY),))
    raw = serialize_answer(Answer((framed, counted), 1.0, "direct"), {post.key: post})
    assert [one["around"] for one in raw["sentences"]] == ["Posted on 12 March:", "2 posts."]
    assert "trophy" not in json.dumps(raw)
    assert raw["cited"] == [[*post.key, int(DAY.timestamp()), hash_text_version(post.text)]]


ASKED = "How much does a ferry ticket cost in April 2025?"


async def test_a_plan_holds_nothing_of_closed_channels(library, make_post):
    before = await describe_plan(library.question("What is the ferry safe code?"), library.rag)
    await library.keep(make_post(9, "The ferry safe code is 4711, ferry and all.", chat=library.safe, days=90))
    assert await describe_plan(library.question("What is the ferry safe code?"), library.rag) == before


async def test_the_terminal_sees_results_and_logs_and_traces_do_not(library, caplog):
    answerer = TerminalAnswerer(library.rag, UTC)
    with caplog.at_level(0):
        found = await answerer.ask(ASKED, trace=True)
    assert found is not None
    shown = "\n".join(format_answer_trace(found))
    assert "--- plan" in shown and "--- search" in shown and "twelve euros" in shown
    assert found["answer"]["actions"] and all(set(a) == {"tool", "took_ms", "ok"} for a in found["answer"]["actions"])
    assert "twelve euros" not in caplog.text
    trace = await fetch_trace(library.rag.archive, found["answer"]["trace_id"])
    assert "twelve euros" not in f"{trace}{library.runs[-1].spans}"
    silent = await answerer.ask(ASKED, trace=False)
    assert silent is not None and silent["results"] == []
