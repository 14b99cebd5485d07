"""Small talk in the real bot: a line of its own, never a question."""

from __future__ import annotations

import pytest
from driver import GROUP, HARBOUR, OTTO, RITA, execute, open_archive, say_text, wait_until_handled

from rag_core.storage.posts import save_posts


async def test_small_talk_is_answered_in_its_language_and_not_kept(sandbox, live, home):
    async with live():
        addressed = await sandbox.say(OTTO, "@citegram_bot thank you!", chat_id=GROUP)
        overheard = await sandbox.say(OTTO, "thank you!", chat_id=GROUP)
        assert (await say_text(sandbox, OTTO, "привет!")).startswith("Привет!")
        assert (await say_text(sandbox, RITA, "thanks a lot")).startswith("You are welcome!")
        assert (await say_text(sandbox, RITA, "👍")).startswith("🙂 Если")
        assert await say_text(sandbox, OTTO, "what is this channel about?") == (
            "I read these channels for you: Harbour News, Печь и глина. Ask me about anything in them."
        )
        await wait_until_handled(sandbox)
    reactions = sandbox.world.reactions
    assert [list(reactions.get((GROUP, m["message_id"]), {}).values()) for m in (addressed, overheard)] == [[["❤"]], []]
    assert GROUP not in sandbox.world.sent
    assert execute(home, "SELECT id FROM questions") + execute(home, "SELECT * FROM talks") == []


async def test_a_question_behind_a_greeting_is_answered_and_thanks_do_not_end_a_talk(sandbox, live, ask):
    async with live():
        reply = (await ask(OTTO, "Hello! When does the ferry to Owl Island leave? Thanks!"))["text"]
        assert "7:30" in reply
        assert "Answering:" not in reply
        assert (await say_text(sandbox, OTTO, "thanks")).startswith("You are welcome!")
        assert "7:30" in (await ask(OTTO, "why so early?"))["text"]


@pytest.mark.parametrize("text", ["What is this channel about?", "о чём этот канал?"])
async def test_a_channel_is_told_of_in_the_words_of_its_first_post(sandbox, live, home, ask, make_post, text):
    about = make_post(1, "This channel is about the harbour: ferries, fish and fog.", chat=HARBOUR, days=-400)
    async with open_archive(home) as archive:
        await save_posts(archive, [about], source="export")
    async with live():
        assert "ferries, fish and fog" in (await ask(OTTO, text))["text"]
        assert (await say_text(sandbox, OTTO, "which channels do you read?")).startswith("I read these channels")
