"""/settings and /bind in a group: checked at every press, and true of every answer after it."""

import asyncio
from functools import partial

import pytest
from driver import (
    ADMIN,
    ANONYMOUS,
    CREW,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    SAFE,
    bind,
    buttons,
    current,
    execute,
    open_archive,
    press,
    query_archive,
    say,
    say_text,
    wait_until_handled,
    write_as_chat,
)
from roles_server import serve_roles
from sandbox_chat_changes import create_topic

from bot.sandbox.state import Membership, get_message_key, set_chat_member
from bot.views.channel_card import make_channel_token
from bot.views.keyboards import Press
from rag_core.calibration import Calibration
from rag_core.llm.protocol import TokenRates
from rag_core.storage import channels, readers
from rag_core.storage.readers import GroupRules
from rag_core.types import Certainty, Visibility

FERRY = "when does the ferry to Owl Island leave?"
ASK = f"/ask@citegram_bot {FERRY}"
SETTINGS = "/settings@citegram_bot"


said = partial(say, chat=GROUP)
told = partial(say_text, chat=GROUP)


@pytest.fixture
async def archive(home):
    async with open_archive(home) as archive:
        yield archive


async def test_the_groups_admin_binds_a_public_channel_with_buttons(sandbox, live_bot):
    settings = await said(sandbox, OTTO, SETTINGS)
    assert "This group has no channels yet." in settings["text"]
    await press(sandbox, settings, "Channels", OTTO)
    assert list(buttons(current(sandbox, settings))) == ["＋ Harbour News", "＋ Печь и глина", "‹ Back"]
    assert await press(sandbox, settings, "＋ Harbour News", OTTO) == "Saved."
    assert "7:30" in (await said(sandbox, RITA, ASK))["text"]
    await press(sandbox, settings, "‹ Back", OTTO)
    assert "This group can ask about 1 channel:\n• Harbour News" in current(sandbox, settings)["text"]
    await press(sandbox, settings, "Channels", OTTO)
    await press(sandbox, settings, "✓ Harbour News", OTTO)
    assert (await said(sandbox, RITA, ASK))["text"].startswith("This group has no channels yet")


async def test_nobody_else_presses_them_and_a_made_up_button_binds_nothing(sandbox, archive, live_bot):
    refused = await said(sandbox, RITA, SETTINGS)
    assert refused["text"].startswith("Это могут только администраторы этой группы")
    settings = await said(sandbox, OTTO, SETTINGS)
    for label in buttons(settings):
        assert "администраторы этой группы" in await press(sandbox, settings, label, RITA)
    await press(sandbox, settings, "Channels", OTTO)
    assert "администраторы этой группы" in await press(sandbox, settings, "＋ Harbour News", RITA)
    assert "Crew only" not in str(current(sandbox, settings))
    for token in ("AAAAAAAA", *(make_channel_token(archive, chat) for chat in (CREW, SAFE))):
        answer = await press(sandbox, settings, f"b:group-bind:{token}:0", OTTO)
        assert answer.startswith("This channel is not available here any")
    assert await readers.list_bound_channels(archive, GROUP) == frozenset()
    assert await readers.load_group_rules(archive, GROUP) == GroupRules()


async def test_a_button_counts_for_who_is_an_admin_when_it_is_pressed(sandbox, live, archive):
    set_chat_member(sandbox.world, GROUP, sandbox.world.bot.id, "administrator")  # so that it hears of others
    set_chat_member(sandbox.world, GROUP, RITA, "administrator")
    async with live():
        settings = await said(sandbox, RITA, SETTINGS)
        assert settings["text"].startswith("Настройки этой группы\n\nГруппе пока не открыт ни один канал")
        await press(sandbox, settings, "Каналы", RITA)
        assert await press(sandbox, settings, "＋ Печь и глина", RITA) == "Сохранено."
        await press(sandbox, settings, "‹ Назад", RITA)
        set_chat_member(sandbox.world, GROUP, RITA, "member", by=OTTO)
        await wait_until_handled(sandbox)
        refused = await press(sandbox, settings, "Пусть спрашивают только администраторы", RITA)
        assert "администраторы этой группы" in refused
        assert await readers.load_group_rules(archive, GROUP) == GroupRules()


async def test_an_anonymous_admin_is_nobody(sandbox, live, archive):
    await readers.bind_channel(archive, GROUP, HARBOUR)
    await readers.change_group_rules(archive, GROUP, admins_ask=True)
    hello = await sandbox.say(OTTO, "hello", chat_id=GROUP)
    async with live():
        for text, sender, refusal in (
            (SETTINGS, ANONYMOUS, "under their own name"),
            (ASK, ANONYMOUS, "under their own name"),
            ("/bind@citegram_bot @harbour_news", sandbox.world.people[ADMIN].wire(), "Only this bot's admins can"),
        ):
            sandbox.push({"message": write_as_chat(hello, text, sender)})
            (reply,) = await sandbox.replies(GROUP)
            assert refusal in reply["text"]


async def test_a_bot_admin_lets_groups_bind_a_closed_channel_and_takes_it_back(sandbox, home, live_bot):
    listed = await say(sandbox, ADMIN, "/channels")

    async def card(*labels):
        for label in labels:
            data = buttons(sandbox.world.room(ADMIN).messages[listed["message_id"]])[label]
            await sandbox.press(ADMIN, ADMIN, listed["message_id"], data)

    await card("Crew only", "Let groups choose it")
    settings = await said(sandbox, OTTO, SETTINGS)
    await press(sandbox, settings, "Channels", OTTO)
    await press(sandbox, settings, "＋ Crew only", OTTO)
    padlock = "/ask@citegram_bot which digits open the boathouse padlock?"
    assert "4417" in (await said(sandbox, RITA, padlock))["text"]
    await card("Do not let groups choose it")
    assert "4417" not in (await said(sandbox, RITA, padlock))["text"]
    assert "Crew only" not in (await said(sandbox, OTTO, SETTINGS))["text"]


async def test_what_a_group_bound_ends_when_the_channel_is_closed(archive):
    await readers.bind_channel(archive, GROUP, HARBOUR, own=True)
    assert await readers.list_bound_channels(archive, GROUP) == {HARBOUR}
    await channels.set_channel_visibility(archive, HARBOUR, Visibility.ADMINS)
    assert await readers.list_bound_channels(archive, GROUP) == frozenset()
    await readers.bind_channel(archive, GROUP, HARBOUR)  # an admin of the bot may
    await readers.bind_channel(archive, GROUP, HARBOUR, own=True)  # and it stays theirs
    assert await readers.list_bound_channels(archive, GROUP) == {HARBOUR}
    await readers.set_channel_bindable(archive, HARBOUR, True)
    await channels.set_channel_visibility(archive, HARBOUR, Visibility.MEMBERS)
    assert not (await channels.load_channels(archive))[HARBOUR].bindable


async def test_where_only_admins_ask_others_are_told_so(sandbox, live, home):
    await bind(home, HARBOUR)
    topic = create_topic(sandbox.world, GROUP, OTTO, "Ferries")
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        assert await press(sandbox, settings, "Let only admins ask", OTTO) == "Saved."
        for text in (ASK, "@citegram_bot when does the ferry leave?", "/search@citegram_bot ferry"):
            assert (await said(sandbox, RITA, text))["text"].startswith("В этой группе меня спрашивают только её адми")
        refused = await said(sandbox, RITA, ASK, thread=topic)
        assert refused["message_thread_id"] == topic
        assert "7:30" in (await said(sandbox, OTTO, ASK))["text"]
        assert "7:30" in (await said(sandbox, ADMIN, ASK))["text"]  # an admin of the bot
        await press(sandbox, settings, "Let everyone ask", OTTO)
        assert "7:30" in (await said(sandbox, RITA, ASK))["text"]


async def test_an_unsure_answer_is_a_refusal_where_only_sure_ones_are_wanted(sandbox, live, archive, monkeypatch):
    await readers.bind_channel(archive, GROUP, HARBOUR)
    await readers.change_group_rules(archive, GROUP, cited_only=True)
    async with live():
        monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.PROBABLE)
        strict = (await said(sandbox, OTTO, ASK))["text"]
        await readers.change_group_rules(archive, GROUP, cited_only=False)
        free = (await said(sandbox, OTTO, ASK))["text"]
    assert strict.startswith("I found no clear answer.")
    assert "Harbour News" in strict  # what came nearest
    assert free.startswith("The answer is probably here, in a post of 12 March 2024")


async def test_the_group_has_one_language_where_it_wants_one(sandbox, live, home):
    await bind(home, HARBOUR)
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        await press(sandbox, settings, "Language: English", OTTO)
        assert "Language: English" in current(sandbox, settings)["text"]
        await press(sandbox, settings, "Language: Russian", OTTO)
        assert "Язык бота: русский" in current(sandbox, settings)["text"]
        answer = (await said(sandbox, OTTO, ASK))["text"]
        assert "The ferry to Owl Island leaves at 7:30" in answer  # a quote stays as it is
        assert "Источник" in answer
        private = await say(sandbox, OTTO, "/start")
    assert "I read 2 channels for you" in private["text"]


async def test_an_admin_and_nobody_else_binds_and_unbinds_a_channel(sandbox, live_bot):
    none = "This group has no channels yet. Its"
    assert (await told(sandbox, OTTO, ASK)).startswith(none)
    refused = await told(sandbox, OTTO, "/bind@citegram_bot @harbour_news")
    assert refused.startswith("Only this bot's admins can do this.")
    assert (await told(sandbox, OTTO, ASK)).startswith(none)
    bound = await told(sandbox, ADMIN, "/bind@citegram_bot @Harbour_News")
    assert bound == "Done: everyone in this group can now ask about Harbour News."
    refused = await told(sandbox, OTTO, "/unbind@citegram_bot @harbour_news")
    assert refused.startswith("Only this bot's admins can do this.")
    assert "7:30" in await told(sandbox, OTTO, ASK)
    listed = await told(sandbox, ADMIN, "/bind@citegram_bot")
    assert "This group can ask about 1 channel:\n• Harbour News\n" in listed
    unbound = await told(sandbox, ADMIN, "/unbind@citegram_bot Harbour News")
    assert unbound.startswith("Done: this group can no longer")
    assert (await told(sandbox, OTTO, ASK)).startswith(none)


async def test_what_cannot_be_bound_is_said(sandbox, live, home):
    await query_archive(home, lambda archive: channels.set_channel_state(archive, SAFE, "pending"))
    async with live():
        unknown = await told(sandbox, ADMIN, "/bind@citegram_bot @nowhere")
        pending = await told(sandbox, ADMIN, "/bind@citegram_bot The safe")
        none = await told(sandbox, ADMIN, "/bind@citegram_bot")
        private = await say(sandbox, ADMIN, "/bind")
    assert unknown.startswith("I do not know the channel @nowhere.")
    assert pending.startswith("The safe is not approved yet")
    assert none == "This group has no channels yet.\nWrite the channel after the command: /bind @channel"
    assert private["text"].startswith("This only works in groups")


async def test_a_group_hears_the_bot_when_it_is_meant_and_else_silence(sandbox, live, home):
    await bind(home, HARBOUR)
    sandbox.world.reads_groups = True  # privacy mode off: the bot gets every message
    async with live():
        by_command = await told(sandbox, OTTO, ASK)
        by_mention = await told(sandbox, OTTO, f"@Citegram_Bot, {FERRY}")
        bare = await told(sandbox, OTTO, f"/ask {FERRY}")
        last = sandbox.world.sent[GROUP][-1]
        by_reply = await told(sandbox, RITA, "и когда уходит паром? the ferry to Owl Island", reply_to=last)
        for text in (FERRY, "see citegram_bot", "mail citegram_bot@example.org", "@citegram_bots hello", "/weather"):
            await sandbox.say(OTTO, text, chat_id=GROUP)
        assert "7:30" in await told(sandbox, OTTO, ASK)
        assert (await told(sandbox, OTTO, "@citegram_bot")).startswith("Write the question after the command")
    assert "7:30" in by_command
    assert by_command == by_mention == bare
    assert "7:30" in by_reply
    assert len(sandbox.world.sent[GROUP]) == 6


async def test_an_answer_stays_in_its_topic_also_in_one_that_the_bot_opened(sandbox, live, home):
    await bind(home, HARBOUR)
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    sandbox.world.room(GROUP).messages[topic]["from"] = sandbox.world.bot.wire()
    sandbox.world.reads_groups = True
    async with live():
        await sandbox.say(OTTO, "chatting", chat_id=GROUP, thread=topic, reply_to=topic)
        reply = await say(sandbox, OTTO, ASK, GROUP, thread=topic)
    assert reply["message_thread_id"] == topic
    assert len(sandbox.world.sent[GROUP]) == 1
    actions = [call for call in sandbox.transcript if call["method"] == "sendChatAction"]
    assert {call["params"]["message_thread_id"] for call in actions} == {str(topic)}


async def test_bindings_move_with_a_group_that_becomes_a_supergroup(sandbox, live, home):
    old, said = -77, {"message_id": 5, "date": 1, "from": sandbox.world.people[ADMIN].wire()}
    async with open_archive(home) as archive:
        await readers.bind_channel(archive, old, HARBOUR)
        await readers.save_choice(archive, f"memory {old}", "off")
        await readers.save_rich_chat(archive, old, rich=True)
        await readers.change_channel_sets(archive, old, lambda sets: sets.update({"boats": [HARBOUR]}))
        await readers.save_chat_zone(archive, GROUP, "Europe/Madrid")  # the group is used before the bot hears of it
        async with live():
            sandbox.push({"message": said | {"chat": {"id": old, "type": "group"}, "migrate_to_chat_id": GROUP}})
            while await readers.list_bound_channels(archive, old):
                await say(sandbox, OTTO, ASK, GROUP)
            assert "7:30" in str((await say(sandbox, OTTO, ASK, GROUP))["rich_message"])
            assert (await told(sandbox, OTTO, "/new@citegram_bot")).startswith("I do not remember earlier questions")
        assert await readers.load_channel_sets(archive, GROUP) == {"boats": {HARBOUR}}
        assert await readers.load_chat_zone(archive, GROUP) == "Europe/Madrid"


WHEN_FERRY = "When does the ferry to Owl Island leave?"


async def pressed(sandbox, who, message, label, then):
    data = buttons(current(sandbox, message))[label]
    await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    assert await sandbox.until(lambda: then in buttons(current(sandbox, message))), buttons(current(sandbox, message))


def recipes_of(home):
    sql = "SELECT json_extract(answer, '$.recipe') FROM questions WHERE answer IS NOT NULL"
    return [recipe for (recipe,) in execute(home, sql)]


async def test_a_reader_chooses_and_the_next_question_is_answered_so(sandbox, home, ask, live_bot):
    asked = await say(sandbox, OTTO, "/mode")
    assert asked["text"].startswith("How I answer here: “I choose”")
    assert list(buttons(asked)) == ["✓ I choose", "Quick", "Thorough", "Footnotes and tables"]
    await pressed(sandbox, OTTO, asked, "Thorough", "✓ Thorough")
    assert "7:30" in (await ask(OTTO, WHEN_FERRY))["text"]
    assert (await say(sandbox, OTTO, "/mode quick"))["text"].startswith("How I answer here: “Quick”")
    assert "7:30" in (await ask(OTTO, WHEN_FERRY))["text"]
    assert recipes_of(home) == ["agent", "direct"]
    assert (await say(sandbox, RITA, "/mode Тщательно"))["text"].startswith("Как я отвечаю здесь: «Тщательно»")
    for unknown in ("oracle", "council", "careful"):
        told = await say(sandbox, OTTO, f"/mode {unknown}")
        assert told["text"].endswith("one of these: auto, quick, thorough")
    told = await say(sandbox, RITA, "/mode оракул")
    assert told["text"].endswith("одно из слов: авто, быстро, тщательно")
    assert (await say(sandbox, RITA, "/mode быстро"))["text"].startswith("Как я отвечаю здесь: «Быстро»")


async def test_in_a_group_its_admins_choose(sandbox, live):
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        said = await say(sandbox, OTTO, "/mode@citegram_bot thorough", GROUP)
        assert said["text"] == "Only an admin can change this here."
        asked = await say(sandbox, RITA, "/mode@citegram_bot thorough", GROUP)
        assert asked["text"].startswith("Как я отвечаю здесь: «Тщательно»")
        await sandbox.press(OTTO, GROUP, get_message_key(asked), buttons(asked)["Быстро"])
        assert "✓ Тщательно" in buttons(current(sandbox, asked))
        await pressed(sandbox, RITA, asked, "Быстро", "✓ Быстро")


async def test_recipes_that_the_model_is_too_slow_for_are_not_offered_and_that_is_said(sandbox, live, monkeypatch):
    slow = property(lambda _: TokenRates(prefill=29, decode=7.4), lambda *_: None)
    monkeypatch.setattr("rag_core.llm.openai_client.RemoteModel.rates", slow, raising=False)
    async with serve_roles({}) as model, live(sections={"llm": {"url": model.url}}):
        asked = await say(sandbox, ADMIN, "/mode")
        assert not {"Council", "Step by step", "Review every draft"} & set(buttons(asked))
        assert "too slow on this machine" in asked["text"] and "Council, Step by step" in asked["text"]
        told = await say(sandbox, OTTO, "/mode")
        assert "too slow" not in told["text"]
        assert (await say(sandbox, ADMIN, "/mode council"))["text"].startswith("I do not know this way")


async def test_recipes_by_name_are_for_admins_and_a_pinned_one_stays(sandbox, live):
    forged = Press(to="mode", token="council").pack()
    async with live():
        asked = await say(sandbox, ADMIN, "/mode")
        assert not {"Council", "Step by step", "Review every draft"} & set(buttons(asked))
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], forged)  # no model is here
        assert "✓ I choose" in buttons(current(sandbox, asked))
    async with serve_roles({}) as model, live(sections={"llm": {"url": model.url}}):
        asked = await say(sandbox, ADMIN, "/mode")
        await pressed(sandbox, ADMIN, asked, "Council", "✓ Council")
        await pressed(sandbox, ADMIN, asked, "Review every draft", "✓ Review every draft")
        reader = await say(sandbox, OTTO, "/mode")
        await sandbox.press(OTTO, OTTO, reader["message_id"], forged)
        assert list(buttons(current(sandbox, reader))) == ["✓ I choose", "Quick", "Thorough", "Footnotes and tables"]
    async with live():
        kept = await say(sandbox, ADMIN, "/mode")
        assert {"✓ Council", "✓ Review every draft"} <= set(buttons(kept))
        await pressed(sandbox, ADMIN, kept, "Quick", "✓ Quick")
        assert "Council" not in buttons(current(sandbox, kept))


async def test_an_admin_switches_a_recipe_off_for_everyone(sandbox, home, ask, live_bot):
    await say(sandbox, OTTO, "/mode thorough")
    asked = await say(sandbox, ADMIN, "/mode")
    await pressed(sandbox, ADMIN, asked, "Switch off for everyone: Thorough", "Switch on for everyone: Thorough")
    assert "7:30" in (await ask(OTTO, WHEN_FERRY))["text"]
    assert recipes_of(home) == ["direct"]
    assert "This is switched off at the moment" in (await say(sandbox, OTTO, "/mode"))["text"]
    await pressed(sandbox, ADMIN, asked, "Switch on for everyone: Thorough", "Switch off for everyone: Thorough")


async def test_two_settings_that_are_changed_at_once_are_both_kept(sandbox, live, home):
    async with live():
        await sandbox.say(OTTO, "/settings@citegram_bot", chat_id=GROUP)  # who made the group
        (shown,) = await sandbox.replies(GROUP)
        place = OTTO, GROUP, get_message_key(shown)
        changes = ("group-cited", "group-admins", "group-alone")
        await asyncio.gather(*(sandbox.press(*place, Press(to=one, number=1).pack()) for one in changes))
    assert execute(home, "SELECT cited_only, admins_ask, asker_only FROM group_rules") == [(1, 1, 1)]
