"""/sets: named sets of channels, asked by "in work: …", within what the asker may read."""

from __future__ import annotations

from driver import CREW, GROUP, HARBOUR, KILN, OTTO, RITA, bind, open_archive, press, say, say_text

from rag_core.storage.channels import set_channel_visibility
from rag_core.storage.readers import load_channel_sets, save_channel_sets
from rag_core.types import Visibility

FERRY = "when does the ferry to Owl Island leave?"


async def test_a_set_is_made_asked_and_removed(sandbox, live):
    async with live():
        assert "No sets of channels yet" in await say_text(sandbox, OTTO, "/sets")
        made = await say_text(sandbox, OTTO, "/sets Town = @harbour_news")
        assert made == "Saved: Town is Harbour News. Ask like this: in Town: what is new?"
        assert "Saved: clay is" in await say_text(sandbox, OTTO, "/sets clay = Печь и глина")
        assert "• town: Harbour News" in await say_text(sandbox, OTTO, "/sets")
        assert "7:30" in await say_text(sandbox, OTTO, f"In town: {FERRY}")
        assert "7:30" in await say_text(sandbox, OTTO, f"town: {FERRY}")
        assert "7:30" not in await say_text(sandbox, OTTO, f"in clay: {FERRY}")
        assert "7:30" in await say_text(sandbox, OTTO, FERRY)
        assert "7:30" not in await say_text(sandbox, OTTO, "/search in clay: ferry")
        assert "7:30" in await say_text(sandbox, OTTO, "/search in town: ferry")
        assert await say_text(sandbox, OTTO, "/sets - Clay") == "Removed: Clay"
        assert (await say_text(sandbox, OTTO, "/sets - clay")).startswith("I have no set with this name: clay")
        assert "7:30" in await say_text(sandbox, OTTO, f"in clay: {FERRY}")  # no set any more: words like others
        assert "Town" not in await say_text(sandbox, RITA, "/sets")  # each chat has its own


async def test_a_russian_set_is_named_in_its_case(sandbox, live):
    async with live():
        await say(sandbox, RITA, "/sets работа = @pech_i_glina, Harbour News")
        assert "четвергам" in await say_text(sandbox, RITA, "в работе: когда обжиг?")


async def test_what_cannot_be_a_set_is_said_in_a_sentence(sandbox, live, home):
    async with live():
        for wrong in ("work", "work =", "= @harbour_news", f"{'x' * 40} = @harbour_news", "a: b = @harbour_news"):
            assert (await say_text(sandbox, OTTO, f"/sets {wrong}")).startswith("To make one: /sets work")
        for unknown in ("@nobody", "Crew only", "The safe"):  # closed to Otto: as if there were none
            told = await say_text(sandbox, OTTO, f"/sets work = {unknown}")
            assert told.startswith(f"I read no channel with this name for you: {unknown}")
        async with open_archive(home) as archive:
            await save_channel_sets(archive, OTTO, {f"set {n}": [HARBOUR] for n in range(20)})
        assert (await say_text(sandbox, OTTO, "/sets one more = @harbour_news")).startswith("There are 20 sets already")


async def test_a_set_opens_no_channel(sandbox, live, home):
    async with open_archive(home) as archive:
        await save_channel_sets(archive, OTTO, {"boats": [HARBOUR, CREW], "crew": [CREW]})
    async with live():
        assert "4417" not in await say_text(sandbox, OTTO, "in boats: which digits open the boathouse padlock?")
        closed = await say_text(sandbox, OTTO, "in crew: which digits open the boathouse padlock?")
        assert closed == "You can ask none of the channels of this set now. See /sets"
        listed = await say_text(sandbox, OTTO, "/sets")
        assert "• boats: Harbour News" in listed
        assert "• crew: no channel that you can ask now" in listed
        async with open_archive(home) as archive:
            await set_channel_visibility(archive, HARBOUR, Visibility.ADMINS)
        assert "7:30" not in await say_text(sandbox, OTTO, f"in boats: {FERRY}")


async def test_a_groups_sets_are_its_admins(sandbox, live, home):
    await bind(home, HARBOUR, KILN)
    async with live():
        refused = await say_text(sandbox, RITA, "/sets@citegram_bot town = @harbour_news", chat=GROUP)
        assert "администраторы этой группы" in refused
        made = await say_text(sandbox, OTTO, "/sets@citegram_bot town = @harbour_news", chat=GROUP)
        assert made.startswith("Saved: town is Harbour News")
        assert "7:30" in await say_text(sandbox, RITA, f"/ask@citegram_bot in town: {FERRY}", chat=GROUP)


async def test_sets_are_shown_and_erased_with_what_is_kept_of_a_reader(sandbox, live, home):
    async with live():
        await say(sandbox, OTTO, "/sets town = @harbour_news")
        asked = await say(sandbox, OTTO, "/forget")
        await press(sandbox, asked, "Erase", OTTO)
    async with open_archive(home) as archive:
        assert await load_channel_sets(archive, OTTO) == {}
        assert await archive.rows("SELECT * FROM choices WHERE name LIKE 'sets %'") == []
