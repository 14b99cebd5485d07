import json
import shutil

from driver import ADMIN, GROUP, OTTO, RITA, find_formatted, say

from bot.telegram.session import publish_menu


async def test_start_says_what_is_read_and_how_to_ask(sandbox, live):
    async with live():
        english, russian = await say(sandbox, OTTO, "/start"), await say(sandbox, RITA, "/START")
        of_admin = (await say(sandbox, ADMIN, "/start"))["text"]
    assert "I read 4 channels for you" in of_admin and "The safe" in of_admin
    assert "I read 2 channels for you:\n• Harbour News\n• Печь и глина\n" in english["text"]
    assert "Just write your question, in English or" in english["text"]
    assert "Для вас я читаю 2 канала:\n• Harbour News\n• Печь и глина\n" in russian["text"]
    assert "BOT__ADMINS" not in english["text"] + russian["text"]
    urls = [e["url"] for e in english["entities"] if e["type"] == "text_link"]
    assert urls == ["https://t.me/harbour_news", "https://t.me/pech_i_glina"]


async def test_without_an_admin_start_tells_how_to_become_one(sandbox, live):
    async with live(admins=()):
        for who, said in ((RITA, "Ваш id: 500."), (OTTO, "Your id is 502.")):
            reply = await say(sandbox, who, "/start")
            assert said in reply["text"]
            assert find_formatted(reply, "code") == [str(who), f"BOT__ADMINS={who}"]
        assert "/start says how to become one" in (await say(sandbox, OTTO, "/stats"))["text"]


async def test_start_with_nothing_to_read_says_what_to_do(sandbox, live, home):
    shutil.rmtree(home)
    async with live():
        reader, admin = await say(sandbox, RITA, "/start"), await say(sandbox, ADMIN, "/start")
    assert "Для вас пока не открыт ни один канал." in reader["text"]
    assert "1. Add me to your channel as an admin." in admin["text"]
    (link,) = [e["url"] for e in admin["entities"] if e["type"] == "text_link"]
    assert link == "https://t.me/citegram_bot?startchannel=true"


async def test_in_a_group_help_and_start_answer_by_name_only(sandbox, live):
    async with live():
        sandbox.world.rooms[GROUP].bot_spoke = True  # then bare commands reach the bot as well
        for text in ("/help", "/start", "/help@citegram_bot", "/start@citegram_bot"):
            await sandbox.say(OTTO, text, chat_id=GROUP)
        replies = {reply["text"] for reply in await sandbox.replies(GROUP, 2)}
    assert len(sandbox.world.sent[GROUP]) == 2
    assert any(text.startswith("/ask question — I answer from this group's channels") for text in replies)
    assert any(text.startswith("This group has no channels yet. Its") for text in replies)


async def test_the_menu_is_there_in_both_languages(sandbox, live, monkeypatch):
    monkeypatch.setattr("bot.app.publish_menu", publish_menu)
    async with live():
        sandbox.world.people[ADMIN].started = True
        assert await sandbox.until(lambda: len([c for c in sandbox.transcript if c["method"] == "setMyCommands"]) == 8)
    calls = [call["params"] for call in sandbox.transcript if call["method"] == "setMyCommands"]
    menus = {
        (json.loads(call["scope"])["type"], call.get("language_code", "")): json.loads(call["commands"])
        for call in calls
    }
    assert [c["command"] for c in menus["all_private_chats", ""]] == ["ask", "search", "verify", "new", "help"]
    of_members = [c["command"] for c in menus["all_group_chats", ""] if c.get("is_ephemeral")]
    assert of_members == ["search", "verify", "why", "sources", "new", "help"]
    ephemeral = {scope for (scope, _), menu in menus.items() if any("is_ephemeral" in one for one in menu)}
    assert ephemeral == {"all_group_chats", "all_chat_administrators"}
    in_groups = [c["command"] for c in menus["all_chat_administrators", "ru"]]
    assert in_groups == [*(c["command"] for c in menus["all_group_chats", ""]), "settings"]
    assert menus["all_private_chats", "ru"][0] == {"command": "ask", "description": "Задать вопрос"}
    assert {"channels", "delete", "check", "grant", "revoke", "stats"} < {c["command"] for c in menus["chat", ""]}
