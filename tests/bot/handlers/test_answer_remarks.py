"""Remarks about an answer in the real bot: shown what the buttons show, never searched, never stored."""

from __future__ import annotations

from pathlib import Path

from driver import CREW, GROUP, HARBOUR, OTTO, RITA, bind, execute, query_archive, say, say_text

from bot.sandbox.state import set_chat_member
from rag_core.calibration import Calibration
from rag_core.storage import channels, posts
from rag_core.types import Certainty, PostKey

FERRY = "When does the ferry to Owl Island leave?"
COURSE = "Когда открывается запись на курс керамики?"
NOBODY = "Who won the ferry chess tournament in Buenos Aires?"


def asked_questions(home: Path) -> list[str]:
    return [text for (text,) in execute(home, "SELECT text FROM questions ORDER BY id")]


async def test_a_reader_asks_about_the_answer_in_plain_words(sandbox, live, ask, home):
    async with live():
        await ask(OTTO, FERRY)
        sources = await say(sandbox, OTTO, "source?")
        assert [link["url"] for link in sources["entities"] if "url" in link] == ["https://t.me/harbour_news/10"]
        assert "7:30" in sources["text"]
        assert (await say_text(sandbox, OTTO, "are you sure?")).startswith("My answer stands on these posts.")
        assert (await say_text(sandbox, OTTO, "how old is this info")).startswith("This answer is from a post of ")
        whole = await say_text(sandbox, OTTO, "show me the whole post")
        assert "leaves at 7:30 every morning from pier four." in whole
        assert (await say_text(sandbox, OTTO, "tldr")).startswith("The ferry to Owl Island leaves at 7:30")
        gone = [PostKey(HARBOUR, 10)]
        await query_archive(home, lambda archive: posts.mark_posts_deleted(archive, gone, how="admin"))
        assert (await say_text(sandbox, OTTO, "are you sure?")).startswith("Not any more: ")
        assert "7:30" not in await say_text(sandbox, OTTO, "show me the whole post")
        await ask(OTTO, COURSE)
        assert (await say_text(sandbox, OTTO, "точно?")).startswith("Ответ стоит на этих постах.")
        assert "курс керамики открывается" in await say_text(sandbox, OTTO, "покажи пост целиком")
    assert asked_questions(home) == [FERRY, COURSE]


async def test_more_asks_again_with_a_wider_search_and_once(sandbox, live, ask, home):
    async with live():
        await ask(OTTO, FERRY)
        assert "7:30" in (await ask(OTTO, "more"))["text"]
        said = await say_text(sandbox, OTTO, "tell me more")
        assert said == "I have looked deeper already: that is all that I found. Ask about one detail of it."
    assert asked_questions(home) == [FERRY, FERRY]


async def test_after_a_refusal_a_remark_says_that_there_is_nothing(sandbox, live, ask):
    async with live():
        await ask(OTTO, NOBODY)
        assert (await say_text(sandbox, OTTO, "more")).startswith("Try the words that a post would use")
        nothing = "This answer quotes no post: I did not find a sure answer."
        assert [await say_text(sandbox, OTTO, text) for text in ("source?", "really?", "tldr")] == [nothing] * 3
        await ask(OTTO, "/verify Zeppelins were never painted violet.")
        assert "counted" not in (await ask(OTTO, "source?"))["text"]


async def test_of_a_probable_answer_the_bot_is_not_sure_when_asked_and_when_brief(sandbox, live, ask, monkeypatch):
    monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.PROBABLE)
    async with live():
        assert (await ask(OTTO, FERRY))["text"].startswith("The answer is probably here:")
        assert (await say_text(sandbox, OTTO, "really?")).startswith("No, I am not sure")
        assert (await say_text(sandbox, OTTO, "tldr")).startswith("The answer is probably here:")


async def test_without_an_answer_before_it_a_remark_is_a_text_like_any_other(sandbox, live, ask, home):
    async with live():
        assert (await say_text(sandbox, OTTO, "точно?")).startswith("Хорошо.")
        assert "found nothing" in (await ask(OTTO, "full text pls"))["text"]
    assert asked_questions(home) == ["full text pls"]


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
