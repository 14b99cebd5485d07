import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from driver import (
    ADMIN,
    GROUP,
    HARBOUR,
    KILN,
    OTTO,
    RITA,
    bind,
    buttons,
    execute,
    find_formatted,
    open_archive,
    save,
    say,
    say_text,
    write_as_chat,
)
from sandbox_chat_changes import create_topic

from bot.handlers import search
from bot.sandbox.state import get_message_key
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.storage import channels
from rag_core.types import Channel, Post, PostKey, Visibility

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
TUGS = [
    Post(PostKey(HARBOUR, 100 + n), START + timedelta(days=n), f"Tugboat number {n} has arrived.") for n in range(12)
]
STALE = "This search is too old. Please search again: /search"


async def close(home, *chats):
    async with open_archive(home) as archive:
        for chat in chats:
            await channels.set_channel_visibility(archive, chat, Visibility.ADMINS)


async def turn(sandbox, message, label, who):
    """Press a button; the message as it is then, and what the bot said to the press."""
    data = buttons(message).get(label, label)
    pressed = await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    room = sandbox.world.room(message["chat"]["id"])
    return room.messages[get_message_key(message)], pressed["answer"].get("text") or ""


async def test_a_reader_searches_and_turns_the_pages(sandbox, live, home):
    await save(home, *TUGS)
    async with live():
        first = await say(sandbox, OTTO, "/search tugboat")
        assert first["text"].startswith("Search: tugboat\nFound 12 posts · page 1 of 3\n\n1. Harbour News · ")
        assert find_formatted(first, "bold") == ["tugboat", *["Tugboat"] * 5]
        links = [e["url"] for e in first["entities"] if e["type"] == "text_link"]
        assert len(links) == 5
        assert all(link.startswith("https://t.me/harbour_news/1") for link in links)
        assert list(buttons(first)) == ["▶"]
        assert all(len(data.encode()) <= 64 for data in buttons(first).values())
        second, _ = await turn(sandbox, first, "▶", OTTO)
        assert "page 2 of 3\n\n6. Harbour News" in second["text"]
        assert list(buttons(second)) == ["◀", "▶"]
        last, toast = await turn(sandbox, second, "▶", OTTO)
        assert ("page 3 of 3" in last["text"], list(buttons(last)), toast) == (True, ["◀"], "")
        back, _ = await turn(sandbox, last, "◀", OTTO)
        assert back["text"] == second["text"]
    assert len(sandbox.world.sent[OTTO]) == 1


async def test_what_cannot_be_searched_is_one_sentence(sandbox, live_bot):
    for said, told in (
        ("/search", "Write what to look for after the command, for example: /search library in October"),
        ("/search the of", "These words are too common. Add one that says what the posts are about."),
        (f"/search {'x' * 1001}", "That is too long: 1,001 characters, and I can take 1,000. Please shorten it."),
        ("/search zeppelin", "I found no such posts. Try fewer words, or other ones."),
    ):
        assert (await say(sandbox, OTTO, said))["text"] == told


async def test_in_a_group_only_whoever_searched_turns_the_pages(sandbox, live, home):
    await save(home, *TUGS)
    await bind(home, HARBOUR)
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Boats")
    hello = await sandbox.say(ADMIN, "hello", chat_id=GROUP)
    masked = write_as_chat(hello, "/search@citegram_bot tugboat", hello["from"])
    async with live():
        first = await say(sandbox, OTTO, "/search@citegram_bot tugboat", GROUP, thread=topic)
        assert (first["message_thread_id"], "page 1 of 3" in first["text"]) == (topic, True)
        same, told = await turn(sandbox, first, "▶", RITA)
        assert same["text"] == first["text"]
        assert told == "Листать может только тот, кто искал. Начните свой поиск: /search"
        assert "page 2 of 3" in (await turn(sandbox, first, "▶", OTTO))[0]["text"]
        sandbox.push({"message": masked})
        (theirs,) = await sandbox.replies(GROUP)
        sandbox.world.rooms[GROUP].messages[theirs["message_id"]]["reply_to_message"] = masked
        assert "page 2 of 3" in (await turn(sandbox, theirs, "▶", ADMIN))[0]["text"]


async def test_a_group_finds_what_is_bound_to_it_and_no_more_also_for_an_admin(sandbox, live, home):
    async with live():
        unbound = await say(sandbox, OTTO, "/search@citegram_bot mackerel", GROUP)
        assert unbound["text"].startswith("This group has no channels yet")
        await bind(home, KILN)
        for who in (OTTO, ADMIN):
            found = await say(sandbox, who, "/search@citegram_bot mackerel @harbour_news", GROUP)
            assert found["text"] == "I found no such posts. Try fewer words, or other ones."
        spoken = len(sandbox.world.sent[GROUP])
        sandbox.world.rooms[GROUP].bot_spoke = True  # then bare commands reach the bot, and may be meant for another
        for text in ("/search", "/search@other_bot глазурь"):
            await sandbox.say(OTTO, text, chat_id=GROUP)
        assert "1. Печь" in (await say(sandbox, OTTO, "/search глазурь", GROUP))["text"]
    assert len(sandbox.world.sent[GROUP]) == spoken + 1


async def test_pages_show_only_what_may_be_read_when_they_are_turned(sandbox, live, home):
    other = [Post(PostKey(KILN, 100 + n), START + timedelta(days=20), f"Tugboat of clay {n}.") for n in range(7)]
    await save(home, *TUGS, *other)
    async with live():
        first = await say(sandbox, OTTO, "/search tugboat")
        assert "Found 19 posts" in first["text"]
        await close(home, HARBOUR)
        second, toast = await turn(sandbox, first, "▶", OTTO)
        assert second["text"].startswith("Search: tugboat\nFound 7 posts · page 2 of 2\n\n6. Печь и глина")
        assert "Harbour" not in second["text"]
        assert toast == "The posts have changed, so the pages may have moved."
        await close(home, KILN)
        closed, _ = await turn(sandbox, second, "◀", OTTO)
        assert closed["text"] == "No channel is open to you yet. Ask the bot's admin to open one."
        assert not buttons(closed)


async def test_made_up_foreign_and_stale_page_buttons_do_nothing(sandbox, live, home):
    await save(home, *TUGS)
    async with live():
        first, other = await say(sandbox, OTTO, "/search tugboat"), await say(sandbox, OTTO, "/search number")
        for data in (buttons(other)["▶"], "b:search-page:AAAAAAAA.AAAA:1", "b:search-page::1", "b:search-page:x.y:-1"):
            same, told = await turn(sandbox, first, data, OTTO)
            assert (same["text"], told) == (first["text"], STALE)
        token = buttons(first)["▶"].split(":")[2]
        for number, shown in ((10**18, "page 3 of 3"), (-(10**18), "page 1 of 3")):
            data = f"b:search-page:{token}:{number}"
            assert shown in (await turn(sandbox, first, data, OTTO))[0]["text"]
        room = sandbox.world.room(OTTO)
        edited = {**other["reply_to_message"], "text": "/search silver trophy"}
        for now in ({"reply_to_message": edited}, {}):  # edited since, and deleted
            del other["reply_to_message"]
            other |= now
            same, told = await turn(sandbox, other, "▶", OTTO)
            assert (same["text"], told) == (other["text"], STALE)
        old = room.messages.pop(first["message_id"])  # then Telegram gives no more than its id
        pressed = await sandbox.press(OTTO, OTTO, old["message_id"], buttons(first)["▶"])
        assert pressed["answer"]["text"] == STALE


async def test_an_index_that_is_down_is_said_to_be_so(sandbox, live, home, monkeypatch):
    await save(home, *TUGS)

    def broken(*_):
        raise IndexUnavailable("index /srv/x is damaged")

    async def down(*_):
        broken()

    async with live():
        first = await say(sandbox, OTTO, "/search tugboat")
        for name in ("search", "matching", "all_of"):
            monkeypatch.setattr(LexicalIndex, name, broken)
        for text in ("/search mackerel", "/search posts in March 2024", "/search «bird cliffs»"):
            told = (await say(sandbox, OTTO, text))["text"]
            assert told.startswith("The search is down right now, so I")
            assert "/srv/x" not in told
        monkeypatch.setattr(search, "list_posts", down)
        same, told = await turn(sandbox, first, "▶", OTTO)
        assert same["text"] == first["text"]
        assert told.startswith("The search is down right now, so I")


async def test_few_searches_run_at_once_and_of_one_reader_only_one(sandbox, live, monkeypatch):
    real, running, free = search.list_posts, [], asyncio.Event()
    most = []

    async def slow(question, rag, **told):
        running.append(question.viewer.user_id)
        most.append((len(running), running.count(OTTO)))
        await free.wait()
        running.remove(question.viewer.user_id)
        return await real(question, rag, **told)

    monkeypatch.setattr(search, "list_posts", slow)
    async with live():
        for _ in range(5):
            await sandbox.say(OTTO, "/search mackerel")
        for who in (RITA, ADMIN):
            await sandbox.say(who, "/search mackerel")
        busy = [message["text"] for message in await sandbox.replies(OTTO, 2)]
        assert busy == ["One moment, I am still busy with your last searches."] * 2
        async with asyncio.timeout(30):
            while len(running) < 2:  # noqa: ASYNC110 - a fake that is looked at
                await asyncio.sleep(0.01)
        free.set()
        assert all("quay" in message["text"] for message in await sandbox.replies(OTTO, 3))
        assert "quay" in (await sandbox.replies(RITA))[0]["text"]
        assert "quay" in (await sandbox.replies(ADMIN))[0]["text"]
    assert (max(all_of for all_of, _ in most), max(of_one for _, of_one in most)) == (2, 1)


async def test_hostile_posts_and_searches_are_only_text(sandbox, live, home):
    nasty = "<b>tugboat</b> [x](http://evil.example) \u202egnp.exe\u202c @harbour_news https://evil.example/?q=1"
    await save(home, Post(PostKey(HARBOUR, 99), START, nasty))
    async with live():
        for text in ("tugboat", "<b>tugboat</b> \u202e", "tugboat'; drop table posts; --", "«<b>tugboat»"):
            found = await say(sandbox, OTTO, f"/search {text}")
            assert "\u202e" not in found["text"]
            links = {e["url"] for e in found["entities"] if e["type"] == "text_link"}
            assert links == {"https://t.me/harbour_news/99"}, text


LINES = (
    "Yesterday the pilot Marta Kovacs guided a tanker through the narrows.",
    "The dredger Otter deepens the narrows until spring, says Marta Kovacs.",
    "Rain keeps the fishing boats in. The tanker waits outside.",
    "A second tanker is expected; the boat is called Wanderer.",
)


@pytest.fixture
async def filled_harbour(home):
    start = datetime(2024, 5, 1, 9, tzinfo=UTC)
    posts = [Post(PostKey(HARBOUR, 100 + n), start + timedelta(days=n), LINES[n % len(LINES)]) for n in range(12)]
    await save(home, *posts)


async def test_a_channel_is_described_by_names_subjects_and_dates(sandbox, filled_harbour, live_bot):
    reply = await say(sandbox, OTTO, "/about @harbour_news")
    text = reply["text"]
    assert text.startswith("Harbour News\n\n16 posts since 12 March 2024, the last on 12 May 2024\nAbout 3 a week")
    assert "Marta Kovacs (6)" in text
    assert "tanker (9)" in text
    assert any(one.get("url") == "https://t.me/harbour_news" for one in reply["entities"])
    assert await say_text(sandbox, OTTO, "/about t.me/harbour_news") == text
    assert await say_text(sandbox, OTTO, "/about harbour") == text
    assert "12 мая" in await say_text(sandbox, RITA, "/about @harbour_news")


@pytest.mark.parametrize("change", ["deleted_at = 1", "text = 'Nothing.'"])
async def test_names_of_posts_that_are_gone_before_it_arrives_are_not_told(sandbox, live, home, filled_harbour, change):
    async with live():
        sandbox.faults.fail_next("sendMessage", "500", times=2)
        await sandbox.say(OTTO, "/about @harbour_news")
        assert await sandbox.until(lambda: any(line["method"] == "sendMessage" for line in sandbox.transcript))
        await asyncio.to_thread(execute, home, f"UPDATE posts SET {change} WHERE text LIKE '%Kovacs%'")
        (reply,) = await sandbox.replies(OTTO)
    assert reply["text"].startswith("I did not send this answer: a post behind it was changed, deleted or closed")


async def test_names_are_neither_dates_nor_signatures_and_stand_in_the_nominative(sandbox, live, home):
    english = "It was in February when Farid sailed. Farid\n\nOtter line"
    russian = "Ремонт на Кирпичной до вторника. Ждём Глеба.\nГлеб\n\nЗаслонка · Кирпичная, 14"
    when = datetime(2024, 5, 1, 9, tzinfo=UTC)
    album = [Post(PostKey(KILN, 190 + n), when, "", album="a") for n in range(3)]
    posts = [Post(PostKey(KILN, 100 + n), when, (english, russian)[n % 2]) for n in range(6)]
    await save(home, *posts, *album)
    async with live():
        text = await say_text(sandbox, ADMIN, "/about @pech_i_glina")
    assert "Farid (3)" in text
    assert "Кирпичная (3)" in text
    assert [word for word in ("February", "Farid Otter", "Кирпичной", "Глеб Заслонка", "Counted") if word in text] == []


async def test_a_name_of_several_channels_is_not_said_to_be_unknown(sandbox, live, home):
    async with open_archive(home) as archive:
        for chat, title in ((-1001000009, "Harbour News Two"), (-1001000010, "Harbour Walks")):
            await channels.save_channel(archive, Channel(chat, title, visibility=Visibility.PUBLIC))
    async with live():
        text = await say_text(sandbox, OTTO, "/about harbour")
        assert text.startswith("Several channels have this in their titles.")
        assert "• Harbour News Two\n• Harbour Walks" in text
        assert "/about @channel" in await say_text(sandbox, OTTO, "/about")


async def test_a_closed_channel_answers_as_one_that_does_not_exist(sandbox, live_bot):
    nobody = await say_text(sandbox, OTTO, "/about Nowhere")
    assert [await say_text(sandbox, OTTO, f"/about {said}") for said in ("Crew only", "The safe")] == [nobody] * 2
    assert (await say_text(sandbox, ADMIN, "/about Crew only")).startswith("Crew only")
    assert "/about @channel" in await say_text(sandbox, OTTO, "/about")
