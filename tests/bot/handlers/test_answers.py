import asyncio
import itertools
import json
import re
from datetime import UTC, datetime

from driver import (
    ADMIN,
    CREW,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    bind,
    buttons,
    current,
    execute,
    open_archive,
    open_more,
    press,
    query_archive,
    say,
    say_text,
    wait_until_idle,
)
from sandbox_chat_changes import create_topic

from bot.sandbox.state import set_chat_member
from bot.stored_answer import hash_text_version
from bot.views.keyboards import Press
from rag_core.calibration import Calibration
from rag_core.storage import channels, posts, readers
from rag_core.types import Certainty, Post, PostKey, Visibility

FERRY = "When does the ferry to Owl Island leave?"
COURSE = "Когда открывается запись на курс керамики?"
MARCH = "What was posted in March 2024?"
NOBODY = "Who won the ferry chess tournament in Buenos Aires?"


def votes(home):
    return execute(home, "SELECT user_id, good, reason FROM votes ORDER BY user_id")


# Votes


async def test_a_reader_votes_changes_their_mind_and_says_why(sandbox, live, ask, home):
    async with live():
        answer = await ask(OTTO, FERRY)
        assert list(buttons(answer)) == ["👍", "👎", "More"]
        assert await press(sandbox, answer, "👍", OTTO) == "Thank you! You can change your vote."
        assert votes(home) == [(OTTO, 1, None)]
        assert await press(sandbox, answer, "👍 1", OTTO) == "You have already voted that way."
        assert await press(sandbox, answer, "👎", OTTO) == "Noted. What is wrong with it?"
        assert votes(home) == [(OTTO, 0, None)]
        assert list(buttons(current(sandbox, answer)))[3:] == [
            "It is wrong", "Out of date", "Not what I asked", "Wrong source"
        ]  # fmt: skip
        assert await press(sandbox, answer, "Out of date", OTTO) == "Thank you, noted."
        assert votes(home) == [(OTTO, 0, "outdated")]
        assert "Out of date" not in buttons(current(sandbox, answer))
        stats = await ask(ADMIN, "/stats")
    assert "Votes in 7 days: 👍 0, 👎 1 (wrong 0, out of date 1, not what was asked 0, wrong source 0)" in stats["text"]


async def test_in_a_group_every_member_has_one_vote_and_others_none(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    sandbox.world.add_person(900, "Stranger", lang="en")
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        answer = await ask(OTTO, f"/ask@citegram_bot {FERRY}", GROUP, thread=topic)
        for label in ("👍", "More"):
            assert await press(sandbox, answer, label, 900) == "This is for members of this group."
        await press(sandbox, answer, "👍", OTTO)
        await press(sandbox, answer, "👍 1", RITA)
        assert "👍 2" in buttons(current(sandbox, answer))
        await press(sandbox, answer, "👎", RITA)
        assert {"👍 1", "👎 1"} <= set(buttons(current(sandbox, answer)))
        assert current(sandbox, answer)["message_thread_id"] == topic
    assert votes(home) == [(RITA, 0, None), (OTTO, 1, None)]


async def test_made_up_stale_and_foreign_buttons_are_one_sentence(sandbox, live, ask, home):
    gone = "I no longer have this answer. Please ask again."
    async with live():
        answer = await ask(OTTO, FERRY)
        other = await ask(RITA, COURSE)
        made_up = Press(to="sources", token="0" * 20).pack()
        foreign = buttons(await open_more(sandbox, other, RITA))["Источники"]
        assert await press(sandbox, answer, made_up, OTTO) == gone
        assert await press(sandbox, answer, foreign, OTTO) == gone  # Rita's answer, from Otto's chat
        assert "no longer works" in await press(sandbox, answer, "an:zz:1:2", OTTO)
        sources = buttons(await open_more(sandbox, answer, OTTO))["Sources"]
        await sandbox.delete(OTTO, answer["message_id"])
        pressed = await sandbox.press(OTTO, OTTO, answer["message_id"], sources)
        assert pressed["answer"]["text"] == gone
        sent = len(sandbox.world.sent[OTTO])
    assert sent == 1
    assert votes(home) == []


# More


async def test_more_shows_the_other_buttons_and_back_the_first_ones(sandbox, live, ask):
    async with live():
        answer = await ask(OTTO, FERRY)
        await press(sandbox, answer, "👍", OTTO)
        rows = (await open_more(sandbox, answer, OTTO))["reply_markup"]["inline_keyboard"]
        assert [[one["text"] for one in row] for row in rows] == [
            ["Sources", "Why?", "Link"],
            ["Deeper"],
            ["Copy", "Share"],
            ["❝ Quote 1"],
            ["‹ Back"],
        ]
        await press(sandbox, answer, "‹ Back", OTTO)
        rows = current(sandbox, answer)["reply_markup"]["inline_keyboard"]
    assert [[one["text"] for one in row] for row in rows] == [["👍 1", "👎", "More"]]


async def test_a_refusal_offers_a_search_for_its_words_and_to_ask_another_way(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    async with live():
        for chat in (OTTO, GROUP):
            answer = await ask(OTTO, NOBODY if chat == OTTO else f"/ask@citegram_bot {NOBODY}", chat)
            assert await press(sandbox, answer, "Search these words", OTTO) == ""
            command, found = await sandbox.replies(chat, 2)
            assert command["text"] == "/search won ferry chess tournament Buenos Aires"
            if chat == OTTO:  # in a group only the asker sees both, and a reply to one's own is not possible
                assert found["reply_to_message"]["message_id"] == command["message_id"]
            assert found["text"].startswith("Search: ")
            await press(sandbox, answer, "Ask another way", OTTO)
            assert (await sandbox.replies(chat))[0]["text"].startswith("Try the words that a post would use")
        assert (await press(sandbox, answer, "Search these words", RITA)).startswith(
            "Это для того, кто спрашивал. Спросите и"
        )


# Sources


async def many(home):
    """Seven posts that answer one question, kept as an answer cites them."""
    kept = [Post(PostKey(HARBOUR, 50 + n), datetime(2024, 6, 1 + n, tzinfo=UTC), f"Tug {n} is red.") for n in range(7)]
    sentences = [{"around": "", "quote": 0, "citations": [[*post.key, 0, 13]]} for post in kept]
    cited = [[*post.key, 1717200000, hash_text_version(post.text)] for post in kept]
    async with open_archive(home) as archive:
        await posts.save_posts(archive, kept, source="test")
        async with archive.writing() as connection:
            sql = "UPDATE questions SET answer = json_set(answer, '$.sentences', json(?), '$.cited', json(?))"
            await connection.execute(sql, (json.dumps(sentences), json.dumps(cited)))


async def test_sources_come_page_by_page_with_their_words(sandbox, ask, home, live_bot):
    answer = await ask(OTTO, FERRY)
    await many(home)
    pressed = buttons(await open_more(sandbox, answer, OTTO))["Sources"]
    await press(sandbox, answer, "Sources", OTTO)
    (first,) = await sandbox.replies(OTTO)
    assert first["text"].startswith("Sources · page 1 of 3\n\n1. Harbour News · 1 June 2024\nTug 0 is red.\n\n2. ")
    kinds = [e["type"] for e in first["entities"]]
    assert kinds.count("expandable_blockquote") == 3
    assert next(e["url"] for e in first["entities"] if e["type"] == "text_link") == "https://t.me/harbour_news/50"
    assert first["reply_to_message"]["message_id"] == answer["message_id"]
    await press(sandbox, first, "▶", OTTO)
    await press(sandbox, first, "▶", OTTO)
    last = current(sandbox, first)
    assert last["text"] == "Sources · page 3 of 3\n\n7. Harbour News · 7 June 2024\nTug 6 is red."
    assert list(buttons(last)) == ["◀"]
    assert "Sources" not in buttons(current(sandbox, answer))
    assert await press(sandbox, answer, pressed, OTTO) == "It is already below."


async def test_sources_are_read_again_at_every_press(sandbox, live, ask, home):
    closed = "You can no longer see the posts behind this answer."
    async with live(), open_archive(home) as archive:
        answer = await ask(OTTO, FERRY)
        await many(home)
        await press(sandbox, answer, "Sources", OTTO)
        (shown,) = await sandbox.replies(OTTO)
        edited = Post(PostKey(HARBOUR, 50), datetime(2024, 6, 1, tzinfo=UTC), "Tug 0 is blue.",
                      edited=datetime(2024, 7, 1, tzinfo=UTC))  # fmt: skip
        await posts.save_posts(archive, [edited], source="test")
        await posts.mark_posts_deleted(archive, [PostKey(HARBOUR, 51)], how="test")
        told = (await ask(OTTO, "/sources"))["text"]
        assert "1. Harbour News · 1 June 2024 · edited 1 July 2024\nThis post has changed since my answer" in told
        assert "2. Harbour News · 1 June 2024 — this post is gone, or closed to you now" in told
        assert "blue" not in told and "Tug 1" not in told
        await channels.set_channel_visibility(archive, HARBOUR, Visibility.ADMINS)
        await press(sandbox, shown, "▶", OTTO)
        assert current(sandbox, shown)["text"] == closed
        assert (await ask(OTTO, "/sources"))["text"] == closed
        await press(sandbox, answer, "Why?", OTTO)
        (why,) = await sandbox.replies(OTTO)
        assert "Harbour" not in why["text"]


async def test_without_an_answer_or_a_source_sources_and_links_say_what_to_do(ask, live_bot):
    assert (await ask(OTTO, "/sources"))["text"].startswith("You have not asked me anything here yet")
    assert (await ask(RITA, "/link"))["text"].startswith("Вы здесь ещё ничего не спрашивали")
    assert list(buttons(await ask(OTTO, NOBODY))) == ["Search these words", "Ask another way"]
    assert (await ask(OTTO, "/sources"))["text"].startswith("This answer quotes no post")


async def test_in_a_group_sources_are_those_of_the_group(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    thread = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        answer = await ask(OTTO, f"/ask@citegram_bot {FERRY}", GROUP, thread=thread)
        await press(sandbox, answer, "Sources", RITA)
        (shown,) = await sandbox.replies(GROUP)
        assert "7:30 every morning" in shown["text"]
        assert shown["message_thread_id"] == thread
        await query_archive(home, lambda archive: readers.unbind_channel(archive, GROUP, HARBOUR))
        told = await ask(ADMIN, "/sources@citegram_bot", GROUP, reply_to=answer["message_id"])
        assert told["text"].startswith("Someone else asked this.")
        own = await ask(OTTO, "/sources@citegram_bot", GROUP, reply_to=answer["message_id"])
        assert own["text"] == "You can no longer see the posts behind this answer."


# Why, shorter, deeper


async def test_shorter_is_the_first_sentence_without_asking_again(sandbox, live, ask, home):
    async with live():
        answer = await ask(OTTO, MARCH)
        first = answer["text"].split("\n\n")[0]
        await open_more(sandbox, answer, OTTO)
        both = (press(sandbox, answer, "Shorter", OTTO), press(sandbox, answer, "Shorter", OTTO))
        said = await asyncio.gather(*both)
        (short,) = await sandbox.replies(OTTO)
        assert short["text"].split("\n\n")[0] == first
        assert short["text"].endswith("This is only the beginning. The whole answer is above.")
        assert sorted(said) == ["", "It is already below."]
        assert len(execute(home, "SELECT id FROM questions")) == 1
    assert len(sandbox.world.sent[OTTO]) == 2


async def test_deeper_asks_again_and_says_what_came_of_it(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        for chat, thread in ((OTTO, None), (GROUP, topic)):
            answer = await ask(OTTO, f"/ask@citegram_bot {FERRY}", chat, thread=thread)
            began = await press(sandbox, answer, "Deeper", OTTO)
            (deep,) = await sandbox.replies(chat)
            assert began == "Looking deeper: up to 5 sentences this time."
            assert "7:30 every morning" in deep["text"]
            assert "The posts say no more about this" in deep["text"]
            question = (message.get("reply_to_message", {}).get("message_id") for message in (deep, answer))
            assert len(set(question)) == 1
            assert ("reply_to_message" in deep) == (chat == GROUP)  # in private the question stands right above
            assert "Deeper" not in buttons(current(sandbox, answer))
            assert not {"Deeper", "Подробнее"} & set(buttons(deep))
            assert deep.get("message_thread_id") == thread


# Links


async def test_a_link_asks_a_short_question_for_whoever_opens_it(sandbox, live, ask):
    async def open_link(asker, question, who):
        await ask(asker, question)
        found = re.search(r"start=(\S+)", (await ask(asker, "/link"))["text"])
        assert found and len(found[1]) <= 64
        await sandbox.say(who, f"/start {found[1]}")
        told, answer = await sandbox.replies(who, 2)
        return told["text"], answer["text"]

    async with live():
        told, answer = await open_link(OTTO, FERRY, RITA)
        assert told == f"Вопрос по ссылке: «{FERRY}»"
        assert "7:30 every morning" in answer
        assert "staircase" not in (await open_link(ADMIN, "Where is the silver trophy?", OTTO))[1]
        for payload in ("q", "s", "q*", "qAA", "q_w", "x" * 65, "q" + "A" * 63, "hello", "q4", "qAAAA"):
            greeting = await ask(OTTO, f"/start {payload}")
            assert greeting["text"].startswith("Ask me about your channels"), payload


async def test_a_long_question_is_kept_only_when_its_asker_makes_a_link(sandbox, ask, home, live_bot):
    long = "Скажите, пожалуйста, когда же всё-таки открывается запись на осенний курс керамики?"
    answer = await ask(RITA, long)
    assert execute(home, "SELECT * FROM linked_questions") == []
    ((handle,),) = execute(home, "SELECT handle FROM questions")
    await press(sandbox, answer, "Ссылка", RITA)
    (told,) = await sandbox.replies(RITA)
    payload = told["text"].split("start=")[1]
    await sandbox.say(OTTO, f"/start {payload}")
    asked, reply = await sandbox.replies(OTTO, 2)
    assert long in asked["text"]
    assert "пятого сентября" in reply["text"]
    for guess in (f"s{handle}", f"q{handle}", "s1", handle, "s" + payload[1:-1]):
        assert (await ask(ADMIN, f"/start {guess}"))["text"].startswith("Ask me about your channels")


def asked_questions(home):
    return [text for (text,) in execute(home, "SELECT text FROM questions ORDER BY id")]


async def test_a_reader_asks_about_the_answer_in_plain_words(sandbox, live, ask, home, monkeypatch):
    monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.SURE)
    async with live():
        await ask(OTTO, FERRY)
        sources = await say(sandbox, OTTO, "source?")
        assert [link["url"] for link in sources["entities"] if "url" in link] == ["https://t.me/harbour_news/10"]
        assert "7:30" in sources["text"]
        assert (await say_text(sandbox, OTTO, "are you sure?")).startswith("My answer stands on these posts.")
        assert (await say_text(sandbox, OTTO, "how old is this info")).startswith("This answer is from a post of ")
        whole = await say_text(sandbox, OTTO, "show me the whole post")
        assert "leaves at 7:30 every morning from pier four." in whole
        assert await say_text(sandbox, OTTO, "tldr") == "The answer is one quote: it does not get shorter."
        gone = [PostKey(HARBOUR, 10)]
        await query_archive(home, lambda archive: posts.mark_posts_deleted(archive, gone, how="admin"))
        assert (await say_text(sandbox, OTTO, "are you sure?")).startswith("Not any more: ")
        assert "7:30" not in await say_text(sandbox, OTTO, "show me the whole post")
        await ask(OTTO, COURSE)
        assert (await say_text(sandbox, OTTO, "точно?")).startswith("Ответ взят из этих постов.")
        assert "курс керамики открывается" in await say_text(sandbox, OTTO, "покажи пост целиком")
    assert asked_questions(home) == [FERRY, COURSE]


async def test_more_asks_again_with_a_wider_search_and_once(sandbox, live, ask, home):
    async with live():
        await ask(OTTO, FERRY)
        assert "7:30" in (await ask(OTTO, "more"))["text"]
        said = await say_text(sandbox, OTTO, "tell me more")
        assert said == "I have looked deeper already: that is all that I found. Ask about one detail of it."
    assert asked_questions(home) == [FERRY, FERRY]


async def test_no_the_other_one_answers_from_the_next_posts_until_there_is_none(sandbox, live, ask, home, monkeypatch):
    monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.SURE)
    async with live():
        islands = ("Gull Rock", "Owl Island village", "Bear Island", "Owl Island lighthouse", "Seal Bank")
        for text in (f"A ferry to {island} leaves when the tide is in." for island in islands):
            await sandbox.post(HARBOUR, text)
        await wait_until_idle(sandbox, home)
        told, shown = await ask(OTTO, FERRY), []
        while not told["text"].startswith("I have no other post for this question."):
            shown.append({entity["url"] for entity in told["entities"] if "url" in entity})
            told = await ask(OTTO, "no, the other one" if len(shown) % 2 else "not that one")
        assert len(shown) > 1
        assert all(one and one.isdisjoint(other) for one, other in itertools.combinations(shown, 2))
        assert (await say_text(sandbox, OTTO, "no, another one")).startswith("Try the words that a post would use")
    assert set(asked_questions(home)) == {FERRY}


async def test_an_answer_is_told_again_in_the_other_language_and_its_quotes_stay(sandbox, ask, home, live_bot):
    await ask(OTTO, FERRY)
    told = await say_text(sandbox, OTTO, "по-русски")
    assert told.startswith("Скорее всего, ответ здесь:\n\nThe ferry to Owl Island leaves at 7:30")
    assert told.endswith("Цитаты остаются на языке своих постов.")
    assert "1. Harbour News · 12 марта 2024" in told
    # a post in that language that was found, too, and says the same figure
    await sandbox.post(HARBOUR, "Паром на Owl Island (ferry) уходит в 7:30.")
    await wait_until_idle(sandbox, home)
    await ask(OTTO, FERRY)
    assert "здесь:\n\nПаром на Owl Island (ferry)" in await say_text(sandbox, OTTO, "can you say it in Russian?")
    await ask(OTTO, NOBODY)
    assert (await say_text(sandbox, OTTO, "на русском")).startswith("Попробуйте слова, какими пишут в постах")


async def test_a_complaint_is_answered_with_an_apology_and_the_address_that_the_owner_gave(sandbox, live, ask, home):
    async with live():
        alone = await say(sandbox, RITA, "позови человека")
        assert alone["text"].startswith("Извините.")
        assert "reply_markup" not in alone
        await ask(OTTO, FERRY)
        told = await say(sandbox, OTTO, "you got that wrong, i want to talk to a human")
        assert f"What was wrong with my answer to “{FERRY.removesuffix('?')}”?" in told["text"]
        assert "The answer came from: Harbour News" in told["text"]
        assert "No contact is set here" in told["text"]
        named = json.dumps([told["text"], told["entities"]])  # the rest of a message has hashes and a time
        assert str(ADMIN) not in named  # nobody is named whom the owner did not name
        assert await press(sandbox, told, "Out of date", OTTO) == "Thank you, noted."
        assert votes(home) == [(OTTO, 0, "outdated")]
    async with live(contact="@harbour_help"):
        told = await say(sandbox, OTTO, "let me talk to a person")
        assert told["text"].endswith("To reach a person: @harbour_help")
    assert asked_questions(home) == [FERRY]


async def test_after_a_refusal_a_remark_says_that_there_is_nothing(sandbox, ask, live_bot):
    await ask(OTTO, NOBODY)
    for text in ("more", "tldr", "not that one"):
        assert (await say_text(sandbox, OTTO, text)).startswith("Try the words that a post would use")
    nothing = "This answer quotes no post: the posts do not say it outright."
    assert [await say_text(sandbox, OTTO, text) for text in ("source?", "really?")] == [nothing] * 2
    await ask(OTTO, "/verify Zeppelins were never painted violet.")
    assert "counted" not in (await ask(OTTO, "source?"))["text"]


async def test_of_a_probable_answer_the_bot_is_not_sure_when_asked_and_when_brief(
    sandbox, live, ask, home, monkeypatch
):
    monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.PROBABLE)
    async with live():
        said = (await ask(OTTO, FERRY))["text"]
        assert said.startswith("The answer is probably here, in a post of 12 March 2024:\n\nThe")
        assert (await say_text(sandbox, OTTO, "really?")).startswith("I am not quite sure")
        timed = await ask(OTTO, "When did the ferry to Owl Island leave in March 2024?")  # its age is no doubt
        assert timed["text"].startswith("The answer may be here:\n\n12 March 2024: The ferry")
        await sandbox.post(HARBOUR, "The ferry to Owl Island village leaves when the tide is in.")
        await wait_until_idle(sandbox, home)
        assert "[2]" in (await ask(OTTO, FERRY))["text"]
        assert (await say_text(sandbox, OTTO, "tldr")).startswith("The answer is probably here:")


async def test_others_in_a_group_ask_about_an_answer_and_see_what_the_group_may(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    async with live():
        answer = await ask(OTTO, f"@citegram_bot {FERRY}", GROUP)
        replied = {"reply_to": answer["message_id"]}
        assert "7:30" in await say_text(sandbox, RITA, "source?", GROUP, **replied)
        assert "Это для того, кто спрашивал" in await say_text(sandbox, RITA, "more", GROUP, **replied)
        assert "7:30" in (await ask(OTTO, "more", GROUP, **replied))["text"]
        assert "looked deeper already" in await say_text(sandbox, OTTO, "any more details?", GROUP, **replied)
    assert asked_questions(home) == [FERRY, FERRY]


async def test_a_channel_that_closed_since_is_not_shown(sandbox, live, ask, home):
    await query_archive(home, lambda archive: channels.record_bot_joined(archive, CREW))
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    async with live():
        assert "4417" in (await ask(OTTO, "Which digits open the boathouse padlock?"))["text"]
        set_chat_member(sandbox.world, CREW, OTTO, "left")
        for text in ("source?", "show me the whole post", "are you sure?", "when was this posted?", "more", "tldr"):
            reply = (await ask(OTTO, text))["text"]
            assert "4417" not in reply and "Crew" not in reply, text


async def test_at_most_four_buttons_are_under_an_answer_and_none_under_courtesies(sandbox, ask, home, live_bot):
    most = {FERRY: 4, NOBODY: 4, "hi": 0, "thanks!": 0, "🙂": 0, "bye": 0, "you are stupid": 0, "ok": 0, "/start": 1}
    for text, count in most.items():
        rows = (await ask(OTTO, text)).get("reply_markup", {}).get("inline_keyboard", [])
        assert sum(map(len, rows)) <= count, text
        assert len(rows) <= 2, text
    execute(home, "UPDATE channels SET visibility = 'admins'")
    assert "reply_markup" not in await ask(OTTO, FERRY)
