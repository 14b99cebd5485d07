"""/unanswered and /synonyms: what people asked in vain, without naming anybody; and words that find it."""

import asyncio

import pytest
from driver import ADMIN, HARBOUR, OTTO, RITA, buttons, execute, open_archive, press, query_archive, say, say_text

from rag_core.storage import visible_posts
from rag_core.storage.channels import list_synonyms, load_channels, set_channel_visibility
from rag_core.storage.posts import mark_posts_deleted
from rag_core.types import PostKey, Visibility

ZEPPELIN = "When does the zeppelin fly to the ferry museum of Montevideo?"
ALIKE = "the zeppelin flies when, to the Montevideo museum ferry"
ALONE = "Who keeps the purple walrus of Valparaiso?"


async def test_words_are_shown_once_two_readers_asked_alike_and_go_with_forget(sandbox, ask, live_bot):
    assert await say_text(sandbox, ADMIN, "/unanswered") == "No question is without an answer."
    await ask(OTTO, ZEPPELIN)
    await ask(OTTO, ZEPPELIN)
    assert await say_text(sandbox, ADMIN, "/unanswered") == (
        "1 question had no answer. About: ferry. The words of a question appear once two people have asked it."
    )
    await ask(OTTO, ALONE)
    told = await say_text(sandbox, ADMIN, "/unanswered")
    assert "zeppelin" not in told and "walrus" not in told  # no post has these words
    assert told.startswith("2 questions had no answer. About: ")
    await ask(RITA, ALIKE)
    told = await say_text(sandbox, ADMIN, "/unanswered")
    assert f"“{ALIKE}” — 2 people" in told
    assert "Harbour News · " in told  # the nearest post
    assert "walrus" not in told
    assert not [name for name in (str(OTTO), str(RITA), "Otto", "Rita", "Рита") if name in told]
    asked = await ask(RITA, "/forget")
    await press(sandbox, asked, next(iter(buttons(asked))), RITA)
    assert "zeppelin" not in await say_text(sandbox, ADMIN, "/unanswered")
    assert "Only this bot's admins" in await say_text(sandbox, OTTO, "/unanswered")


async def test_a_topic_is_no_word_of_asking(sandbox, ask, live_bot):
    await sandbox.post(HARBOUR, "The first heron of the year, at last.")
    await ask(OTTO, "When was the zeppelin of Montevideo first mentioned by a purple heron?")
    assert "About: heron." in await say_text(sandbox, ADMIN, "/unanswered")


async def test_a_pinned_answer_is_for_readers_of_its_channel_and_goes_with_its_post(sandbox, live, ask, home):
    posted = await sandbox.post(HARBOUR, "The new mast of the harbour stands since June.")
    async with live():
        for reader in (OTTO, RITA):
            await ask(reader, ZEPPELIN)
        listed = await say(sandbox, ADMIN, "/unanswered")
        assert list(buttons(listed)) == ["📌 Pin an answer"]
        await press(sandbox, listed, "📌 Pin an answer", ADMIN)
        (asked,) = await sandbox.replies(ADMIN)
        assert list(buttons(asked)) == ["Pin this post", "Cancel"]
        for wrong in ("https://t.me/harbour_news/99999", "no link"):
            assert "I cannot pin that" in await say_text(sandbox, ADMIN, wrong, reply_to=asked["message_id"])
        link = f"https://t.me/harbour_news/{posted['message_id']}"
        pinned = await say_text(sandbox, ADMIN, link, reply_to=asked["message_id"])
        assert pinned.startswith("Pinned. Readers of Harbour News")
        told = (await ask(OTTO, ALIKE))["text"]
        assert told.startswith("The new mast of the harbour stands since June. [1]")
        await press(sandbox, listed, "📌 Pin an answer", ADMIN)
        (again,) = await sandbox.replies(ADMIN)
        assert "📌 Harbour News" in again["text"]
        await query_archive(home, lambda archive: set_channel_visibility(archive, HARBOUR, Visibility.ADMINS))
        assert "mast" not in (await ask(OTTO, ALIKE))["text"]
        async with open_archive(home) as archive:
            await set_channel_visibility(archive, HARBOUR, Visibility.PUBLIC)
            await mark_posts_deleted(archive, [PostKey(HARBOUR, posted["message_id"])], how="test")
            assert await archive.rows("SELECT * FROM pinned_answers") == []
        assert "mast" not in (await ask(OTTO, ALIKE))["text"]


@pytest.mark.parametrize("reads", [0, 1])
async def test_a_pinned_post_that_is_deleted_is_not_named(sandbox, live, ask, home, monkeypatch, reads):
    """Before the list is made, or between the read of the post and the sending of the list."""
    fetch, seen = visible_posts.fetch_posts, 0
    number = (await sandbox.post(HARBOUR, "Masts."))["message_id"]
    link, delete = f"t.me/harbour_news/{number}", f"UPDATE posts SET deleted_at = 1 WHERE message_id = {number}"

    async def delete_after_read(archive, keys):
        nonlocal seen
        found, seen = await fetch(archive, keys), seen + 1
        if seen == reads:
            await asyncio.to_thread(execute, home, delete)
        return found

    async with live():
        for reader in (OTTO, RITA):
            await ask(reader, ZEPPELIN)
        listed = await say(sandbox, ADMIN, "/unanswered")
        await press(sandbox, listed, "📌 Pin an answer", ADMIN)
        (asked,) = await sandbox.replies(ADMIN)
        await say_text(sandbox, ADMIN, f"https://{link}", reply_to=asked["message_id"])
        assert f"{link}'" in repr(await say(sandbox, ADMIN, "/unanswered"))
        monkeypatch.setattr(visible_posts, "fetch_posts", delete_after_read)
        if not reads:
            await asyncio.to_thread(execute, home, delete)
        assert f"{link}'" not in repr(await say(sandbox, ADMIN, "/unanswered"))


async def test_synonyms_are_entered_by_admins_found_at_once_and_taken_back(sandbox, live, ask, home):
    asked = "When is nosh sold on the quay?"
    async with live():
        assert "Friday" not in (await ask(OTTO, "nosh"))["text"]
        assert "No words that mean the same yet" in await say_text(sandbox, ADMIN, "/synonyms")
        assert await say_text(sandbox, ADMIN, "/synonyms Nosh = mackerel") == (
            "Noted: nosh = mackerel. I search for both from now on."
        )
        assert "Friday" in (await ask(OTTO, asked))["text"]
        assert "I also looked for other names: nosh — mackerel" in await say_text(sandbox, OTTO, "/why")
        await ask(OTTO, "Сколько стоит курс кирамики?")
        assert "«кирамики» как «керамики»" in await say_text(sandbox, OTTO, "/why")
        assert "• nosh = mackerel" in await say_text(sandbox, ADMIN, "/synonyms")
        assert (await say_text(sandbox, ADMIN, "/synonyms nosh = mackerel")).startswith("I already know this pair")
        for wrong in ("nosh", "nosh = nosh", "= x", "a = b = c", f"{'x' * 70} = y"):
            assert (await say_text(sandbox, ADMIN, f"/synonyms {wrong}")).startswith("To add one: /synonyms")
        assert await say_text(sandbox, ADMIN, "/synonyms - mackerel = nosh") == "Removed: mackerel = nosh"
        assert "Only this bot's admins" in await say_text(sandbox, OTTO, "/synonyms a = b")
    async with open_archive(home) as archive:
        assert await list_synonyms(archive, await load_channels(archive)) == []
