"""/reindex in the chat: asked for with buttons, watched in one message, also after a restart; for admins only."""

from __future__ import annotations

import pytest
from driver import ADMIN, GROUP, OTTO, RITA, buttons, current, hold_rebuild, open_archive, press, say, wait_for_text

from bot.handlers import admin
from bot.handlers.admin import _RebuildAction, _RebuildCallback
from bot.i18n import get_translator
from rag_core.storage import channels
from rag_core.types import Channel


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(admin, "_UPDATE_INTERVAL_SECONDS", 0.0)


async def test_an_admin_has_all_or_one_channel_rebuilt_and_watches_it(sandbox, live, home):
    async with live():
        asked = await say(sandbox, ADMIN, "/reindex")
        assert asked["text"].startswith("Rebuild the search from all the posts?")
        assert list(buttons(asked)) == ["All channels", "One channel…", "Cancel"]
        with hold_rebuild(home):
            await press(sandbox, asked, "All channels", ADMIN)
            assert (
                await wait_for_text(sandbox, asked, "Rebuilding") == "Rebuilding the search: all channels\nPreparing…"
            )
            assert list(buttons(current(sandbox, asked))) == ["Cancel"]
            answered = await say(sandbox, OTTO, "When does the ferry to Owl Island leave?")
            assert "7:30" in answered["text"]
        done = await wait_for_text(sandbox, asked, "Done")
        assert done == "Done: the search is rebuilt (all channels, 12 posts)."
        assert buttons(current(sandbox, asked)) == {}
        assert "7:30" in (await say(sandbox, OTTO, "When does the ferry to Owl Island leave?"))["text"]
        with hold_rebuild(home):
            named = await say(sandbox, ADMIN, "/reindex @harbour_news")
            await wait_for_text(sandbox, named, "Rebuilding the search: Harbour News")
            del sandbox.world.room(ADMIN).messages[named["message_id"]]  # then the end is told in a new one
        (end,) = await sandbox.replies(ADMIN, timeout=60)
        assert end["text"] == "Done: the search is rebuilt (Harbour News, 4 posts)."


async def test_one_channel_is_chosen_from_the_list_that_is_turned_like_pages(sandbox, live, home):
    async with live(admins=(RITA,)):
        asked = await say(sandbox, RITA, "/reindex")
        await sandbox.press(RITA, RITA, asked["message_id"], buttons(asked)["Один канал…"])
        listed = current(sandbox, asked)
        assert listed["text"] == "Какой канал?"
        assert list(buttons(listed)) == ["Crew only", "Harbour News", "The safe", "Печь и глина", "Отмена"]
        await sandbox.press(RITA, RITA, asked["message_id"], buttons(listed)["Печь и глина"])
        done = await wait_for_text(sandbox, asked, "Готово")
        assert done == "Готово: поиск перестроен (Печь и глина, 4 поста)."
        unknown = await say(sandbox, RITA, "/reindex @nobody")
        assert unknown["text"] == "Канала @nobody я не знаю. Все каналы: /channels"
        async with open_archive(home) as archive:
            for number in range(15):
                await channels.save_channel(archive, Channel(-1002000 - number, f"Number {number:02}"))
        asked = await say(sandbox, RITA, "/reindex")
        seen = set[str]()
        for label in ("Один канал…", "Дальше ›", "Дальше ›", "‹ Раньше"):  # a long list is turned like pages
            await sandbox.press(RITA, RITA, asked["message_id"], buttons(current(sandbox, asked))[label])
            seen |= {*buttons(current(sandbox, asked))}
    assert len(seen - {"Дальше ›", "‹ Раньше", "Отмена"}) == 19


async def test_a_rebuild_is_cancelled_runs_once_and_fails_with_a_reason(sandbox, live, home):
    async with live():
        first, second = await say(sandbox, ADMIN, "/reindex"), await say(sandbox, ADMIN, "/reindex")
        with hold_rebuild(home):
            await press(sandbox, first, "All channels", ADMIN)
            await wait_for_text(sandbox, first, "Rebuilding")
            await press(sandbox, second, "All channels", ADMIN)
            busy = "The search is already being rebuilt. Wait for it to finish, or cancel it."
            assert current(sandbox, second)["text"] == busy
            assert (await say(sandbox, ADMIN, "/reindex @harbour_news"))["text"]
            await press(sandbox, second, "Cancel", ADMIN)
            assert await wait_for_text(sandbox, first, "Cancelled") == "Cancelled. The search works as before."
            late = await press(sandbox, second, "Cancel", ADMIN)
            assert late == "This rebuild is already over."
        asked, broken = await say(sandbox, ADMIN, "/reindex"), await say(sandbox, ADMIN, "/reindex")
        await press(sandbox, asked, "Cancel", ADMIN)
        assert current(sandbox, asked)["text"] == "Nothing was changed."
        assert buttons(current(sandbox, asked)) == {}
        (home / "lexical.next").write_text("in the way")
        await press(sandbox, broken, "All channels", ADMIN)
        failed = await wait_for_text(sandbox, broken, "The search was not rebuilt and works as")
        assert failed.startswith("The search was not rebuilt and works as before. I cannot write the index to disk")


async def test_after_a_restart_the_same_message_goes_on(sandbox, live, home):
    with hold_rebuild(home):
        async with live():
            asked = await say(sandbox, ADMIN, "/reindex")
            await press(sandbox, asked, "All channels", ADMIN)
            await wait_for_text(sandbox, asked, "Rebuilding")
        assert current(sandbox, asked)["text"].startswith("Rebuilding")
    async with live():
        assert await wait_for_text(sandbox, asked, "Done") == "Done: the search is rebuilt (all channels, 12 posts)."


async def test_nobody_else_can_ask_for_it(sandbox, live, home):
    async with live():
        refused = await say(sandbox, RITA, "/reindex")
        assert refused["text"].startswith("Это могут только администраторы бота.")
        made_up = await say(sandbox, ADMIN, "/reindex")
        await press(sandbox, made_up, _RebuildCallback(action=_RebuildAction.ONE, token="nobody's").pack(), ADMIN)
        assert current(sandbox, made_up)["text"] == "I no longer have this channel."
        await sandbox.say(ADMIN, "/reindex", chat_id=GROUP)
        await say(sandbox, ADMIN, "/help")
    async with open_archive(home) as archive:
        assert await archive.rows("SELECT * FROM rebuilds") == []
    assert not [m for m in sandbox.world.room(GROUP).messages.values() if m["from"]["id"] != ADMIN]


@pytest.mark.parametrize(
    ("lang", "left", "said"),
    [
        ("en", 12, "Less than a minute left"),
        ("en", 65, "About 1 minute left"),
        ("ru", 0, "Осталось меньше минуты"),
        ("ru", 60, "Осталась примерно 1 минута"),
        ("ru", 180, "Осталось примерно 3 минуты"),
        ("ru", 300, "Осталось примерно 5 минут"),
    ],
)
def test_remaining_time_in_words(lang, left, said):
    assert get_translator(lang)("reindex-left", minutes=round(left / 60)) == said
