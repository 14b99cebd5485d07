from datetime import UTC, datetime

import aiohttp
from driver import ADMIN, HARBOUR, OTTO, RITA, SAFE

from rag_core.types import Answer, Citation, Passage, Post, PostKey, Sentence, Source

DATE = datetime(2024, 3, 12, 9, tzinfo=UTC)


async def state(sandbox, user):
    async with aiohttp.ClientSession(sandbox.url) as http:
        return await (await http.get(f"/sandbox/state?since=0&user={user}")).json()


async def test_how_an_answer_was_found_is_for_those_who_see_the_chat_and_the_posts(sandbox, live):
    world = sandbox.world
    async with live(watch=sandbox.observed):
        await sandbox.say(ADMIN, "Where did the treasurer hide the silver trophy?")
        await sandbox.replies(ADMIN)
        await sandbox.say(OTTO, "Where did the treasurer hide the silver trophy?")
        await sandbox.replies(OTTO)
        post = await sandbox.post(SAFE, "The spare key is in the blue teapot.")
        world.add_history(SAFE, [Post(PostKey(SAFE, 10), DATE, "The treasurer hid it.")])
        mine = await state(sandbox, ADMIN)
        (found,) = mine["insights"].values()
        assert "under the staircase" in "".join(text for text, _ in found[0]["pieces"])
        assert f"{SAFE}/{post['message_id']}" in mine["findable"]

        theirs = await state(sandbox, OTTO)
        assert [key.split("/")[0] for key in theirs["insights"]] == [str(OTTO)]
        assert (await state(sandbox, RITA))["insights"] == {}
        for outsider in (OTTO, RITA):
            seen = await state(sandbox, outsider)
            assert "staircase" not in str(seen)
            assert str(SAFE) not in str(seen)

        del world.room(SAFE).members[ADMIN]
        assert "staircase" not in str((await state(sandbox, ADMIN))["insights"])


async def test_a_post_counts_as_found_by_a_leg_in_the_words_it_has_now(sandbox):
    observed = sandbox.observed
    assert (await state(sandbox, OTTO))["indexing"] == {}
    observed.show_progress("lexical", 0, ())
    observed.show_progress("dense", 0, ())
    message = await sandbox.post(HARBOUR, "Regatta at noon")
    key, post = f"{HARBOUR}/1", Post(PostKey(HARBOUR, message["message_id"]), DATE, "Regatta at noon")
    assert (await state(sandbox, OTTO))["findable"] == {key: []}
    observed.show_progress("lexical", 0, [post])
    observed.show_progress("dense", 1, ())
    seen = await state(sandbox, OTTO)
    assert seen["findable"] == {key: ["lexical"]}
    assert seen["indexing"] == {"lexical": {"waiting": 0}, "dense": {"waiting": 1}}
    observed.show_progress("dense", 0, [post])
    assert (await state(sandbox, OTTO))["findable"] == {key: ["lexical", "dense"]}
    await sandbox.edit(HARBOUR, message["message_id"], "Regatta at one")
    assert (await state(sandbox, OTTO))["findable"] == {key: []}


async def test_the_quoted_words_are_marked_and_posts_told_by_dates_have_no_leg(sandbox):
    text = "𝄞 Doors open at nine. The band plays at ten."
    key, told = PostKey(HARBOUR, 1), PostKey(HARBOUR, 2)
    cited = Citation(key, text[23:], 123, 100 + len(text), DATE)
    by_date = Citation(told, "First post", 0, 10, DATE)
    others = [Source(n, Passage(PostKey(HARBOUR, n), 0, "", f"Other {n}", 0, 7, DATE), -1.0) for n in range(3, 12)]
    source = Source(12, Passage(key, 0, "", text, 100, 100 + len(text), DATE), 2.0, "both")
    sentences = (Sentence("Ten.", (cited, cited)), Sentence("First.", (by_date,)))
    for n in range(12):
        await sandbox.post(HARBOUR, f"Post {n}")
    sandbox.observed.show_answer(OTTO, 1, Answer(sentences, 1.0, "direct", found=(*others, source)))
    shown = (await state(sandbox, OTTO))["insights"][f"{OTTO}/1"]
    assert [one["post"][1] for one in shown] == [3, 4, 5, 6, 7, 1, 2]
    assert shown[0] == {
        "post": [HARBOUR, 3], "date": DATE.timestamp(), "leg": "",
        "pieces": [["Other 3", False]], "number": None,
    }  # fmt: skip
    assert shown[5]["pieces"] == [[text[:23], False], [text[23:], True]]
    assert (shown[5]["leg"], shown[5]["number"]) == ("both", 1)
    assert (shown[6]["leg"], shown[6]["pieces"], shown[6]["number"]) == ("", [["First post", True]], 2)
