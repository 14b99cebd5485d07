from datetime import UTC, datetime, timedelta

import pytest
from driven_sandbox import compose, send_file_as_person
from driver import (
    ADMIN,
    GROUP,
    HARBOUR,
    KILN,
    OTTO,
    RITA,
    bind,
    execute,
    query_archive,
    save,
    say,
    say_text,
    wait_until_handled,
)

from bot.middlewares import MAX_QUESTION_LENGTH
from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage
from bot.sandbox.state import Membership, UploadedFile
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.storage.posts import save_posts
from rag_core.types import Origin, Post, PostKey

FERRY = "When does the ferry to Owl Island leave?"
COURSE = "Когда открывается запись на курс керамики?"
WHY = "why so early?"


async def test_an_answer_is_typed_first_and_is_no_reply(sandbox, live):
    async with live():
        reply = await say(sandbox, OTTO, FERRY)
        calls = [call["method"] for call in sandbox.transcript]
        assert calls.index("sendChatAction") < calls.index("sendMessage")
        russian = await say(sandbox, OTTO, f"/ask {COURSE}")  # Otto's Telegram speaks English
    assert "reply_to_message" not in reply  # the question stands right above
    assert reply["link_preview_options"] == {"is_disabled": True}
    assert "Источник\n1. Печь и глина · 12 марта 2024" in russian["text"]


async def test_a_command_in_private_is_not_quoted_back_and_one_in_a_group_is(sandbox, live, home):
    await bind(home, HARBOUR)
    async with live():
        more = (
            "/about",
            "/about @harbour_news",
            "/sets",
            "/settings Mars",
            "/watches",
            "/digest",
            "/mode",
            "/link",
            "/sources",
        )
        for command in ("/new", "/stop", "/why", "/forget", "/search", "/nonsense", "/stats", *more):
            assert "reply_to_message" not in await say(sandbox, OTTO, command), command
        assert "reply_to_message" in await say(sandbox, OTTO, "/new@citegram_bot", GROUP)


async def test_what_cannot_be_asked_or_is_not_in_the_posts_gets_one_sentence(sandbox, live_bot):
    for reader, text, said in (
        (OTTO, "/ask", "Write the question after the command, for example: /ask how much is membership?"),
        (RITA, "/ask   ", "Напишите вопрос после команды, например: /ask сколько стоит проезд на автобусе?"),
        (OTTO, "why " * 300, f"That is too long: {len('why ' * 300) - 1:,} characters, and I can take 1,000."),
        (RITA, "почему " * 200, "В вопросе может быть 1\u00a0000 знаков, а здесь их 1\u00a0399."),
        (OTTO, "/frobnicate now", "I do not know this command. See what I can do: /help"),
        (RITA, "/frobnicate", "Такой команды нет. Что я умею: /help"),
        (OTTO, "Who won the chess tournament in Buenos Aires?", "I found nothing about this in the channels"),
        (RITA, "Кто выиграл шахматный турнир в Аргентине?", "В каналах, которые вам открыты, об этом"),
    ):
        assert (await say(sandbox, reader, text))["text"].startswith(said), text
    assert "7:30" in await say_text(sandbox, OTTO, FERRY.ljust(MAX_QUESTION_LENGTH, "?"))  # the longest


async def test_a_caption_is_a_question_and_a_bare_file_is_not(sandbox, live):
    async with live():
        send_file_as_person(sandbox.world, OTTO, UploadedFile("f1", "pier.pdf", "application/pdf", b"x"))
        send_file_as_person(sandbox.world, OTTO, UploadedFile("f2", "pier.pdf", "application/pdf", b"x"), FERRY)
        bare, asked = await sandbox.replies(OTTO, 2)
    assert {"I can only read text. Please write your question."} < {bare["text"], asked["text"]}
    assert "7:30" in bare["text"] + asked["text"]


async def test_a_follow_up_is_answered_until_a_new_talk_begins(sandbox, ask, live_bot):
    assert "7:30" in (await ask(OTTO, FERRY))["text"]
    follow_up = (await ask(OTTO, WHY))["text"]
    assert "7:30" in follow_up
    assert "You mean" not in follow_up  # put together for the search: no sentence
    other = (await ask(OTTO, "and to Gull Rock?"))["text"]
    assert other.startswith("You mean: When does the ferry to Gull Rock leave?")
    assert await say_text(sandbox, OTTO, "/new") == "New conversation. I have forgotten the earlier questions."
    assert "7:30" not in (await ask(OTTO, WHY))["text"]


async def test_a_talk_can_be_off_and_on_in_a_group_as_its_admins_say(sandbox, live, ask):
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        assert (await say_text(sandbox, OTTO, "/new off")).startswith("I do not remember earlier questions here.")
        await ask(OTTO, FERRY)
        assert "7:30" not in (await ask(OTTO, WHY))["text"]
        assert (await say_text(sandbox, OTTO, "/new on")) == "From now on I remember earlier questions here."
        assert "off and /new on" in await say_text(sandbox, OTTO, "/new perhaps")
        refused = await say_text(sandbox, OTTO, "/new@citegram_bot off", GROUP)
        assert refused == "Only admins can change whether I remember earlier questions here."
        assert "не помню" in await say_text(sandbox, RITA, "/new@citegram_bot off", GROUP)


async def test_a_follow_up_is_not_answered_with_what_another_talk_meant_by_it(sandbox, ask, live_bot):
    await ask(OTTO, FERRY)
    assert "7:30" in (await ask(OTTO, WHY))["text"]
    await ask(RITA, "When is fresh mackerel sold on the quay?")
    assert "7:30" not in (await ask(RITA, WHY))["text"]
    # and an answer out of memory is followed up as well
    assert "7:30" in (await ask(RITA, FERRY))["text"]
    assert "7:30" in (await ask(RITA, WHY))["text"]


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


@pytest.mark.parametrize("text", ["What is this channel about?", "о чём этот канал?"])
async def test_a_channel_is_told_of_in_the_words_of_its_first_post(sandbox, live, home, ask, make_post, text):
    about = make_post(1, "This channel is about the harbour: ferries, fish and fog.", chat=HARBOUR, days=-400)
    await query_archive(home, lambda archive: save_posts(archive, [about], source="export"))
    async with live():
        assert "ferries, fish and fog" in (await ask(OTTO, text))["text"]
        assert (await say_text(sandbox, OTTO, "which channels do you read?")).startswith("I read these channels")


CLAIM = "The ferry to Owl Island leaves at 7:30 every morning."
LATE = "The ferry to Owl Island leaves at 9:15 every morning."
TROPHY = "The treasurer hid the silver trophy under the staircase."
YES, NO, NOT_THERE = "The posts say so", "The posts say otherwise", "The posts do not say this"


def forwarded(sandbox, who, text, **more):
    page_api.send_as_person(sandbox.world, who, who, compose(sandbox.world, text, origin="Somebody Shy", **more))


def links(message):
    return {entity["url"] for entity in message["entities"] if entity["type"] == "text_link"}


async def test_what_is_replied_to_quoted_or_forwarded_as_an_album_is_verified(sandbox, live, ask):
    async with live():
        answer = await ask(OTTO, "When does the ferry to Owl Island leave?")
        verdict = await ask(OTTO, "/verify", reply_to=answer["message_id"])
        quote = {"text": CLAIM, "position": 0, "is_manual": True}
        page_api.send_as_person(sandbox.world, OTTO, OTTO, UserMessage("/verify", extra={"quote": quote}))
        (of_quote,) = await sandbox.replies(OTTO)
        forwarded(sandbox, OTTO, "", album="a1")  # of an album only the picture with the caption is answered
        forwarded(sandbox, OTTO, CLAIM, album="a1")
        (of_album,) = await sandbox.replies(OTTO)
    assert YES in verdict["text"]
    assert "Sources" not in verdict["text"]
    assert "Quoted from the posts" not in verdict["text"]
    assert of_quote["text"].startswith(f"“{CLAIM}”\n{YES}")
    assert YES in of_album["text"]
    assert len(sandbox.world.sent[OTTO]) == 4


async def test_a_message_forwarded_in_private_is_verified_in_the_reader_s_language(sandbox, live):
    async with live():
        forwarded(sandbox, RITA, LATE)
        (reply,) = await sandbox.replies(RITA)
        forwarded(
            sandbox, RITA, "", extra={"photo": [{"file_id": "a", "file_unique_id": "a", "width": 9, "height": 9}]}
        )
        (wordless,) = await sandbox.replies(RITA)
    assert reply["text"].startswith(f"«{LATE}»\nВ постах написано другое")
    assert wordless["text"] == "Могу проверить только текст. Перешлите мне сообщение с текстом."


async def test_a_forwarded_post_of_a_readable_channel_is_named(sandbox, live, home):
    text = "The harbour kiosk sells hot soup for four euros a bowl."
    named = {
        OTTO: "This is the post of 1 May 2024 in Harbour News.",
        RITA: "Это пост от 1 мая 2024 в канале Harbour News.",
    }
    holds = {
        OTTO: "I found no later post that changes it.",
        RITA: "Более поздних постов, которые это меняют, не нашлось.",
    }
    changed = {OTTO: "A later post has changed it, see below.", RITA: "Позже написали иначе, смотрите ниже."}

    async def forward(reader, text):
        forwarded(sandbox, reader, text)
        (reply,) = await sandbox.replies(reader)
        return reply

    await save(home, Post(PostKey(HARBOUR, 200), datetime(2024, 5, 1, tzinfo=UTC), text))
    async with live():
        for reader in named:
            first = await forward(reader, text)
            assert first["text"].startswith(f"{named[reader]} {holds[reader]}\n")
            assert "https://t.me/harbour_news/200" in links(first)
            assert first["text"].count(text) == 1  # the claim, which no quote of the same words repeats
    later = Post(PostKey(HARBOUR, 300), datetime(2024, 8, 1, tzinfo=UTC), text.replace("four euros", "six euros"))
    await save(home, later)
    async with live():
        for reader in named:
            assert (await forward(reader, text))["text"].startswith(f"{named[reader]} {changed[reader]}\n")
            hidden = await forward(reader, TROPHY)  # of a channel that this reader may not read
            assert named[reader].split()[0] not in hidden["text"].splitlines()[0]


async def test_a_group_asks_its_own_channels_and_is_left_alone_otherwise(sandbox, live, home, ask):
    await bind(home, HARBOUR)
    async with live():
        await sandbox.say(OTTO, "/verify", chat_id=GROUP)
        hint = await ask(OTTO, "/verify@citegram_bot", GROUP)
        for chat, command in ((OTTO, "/help"), (GROUP, "/help@citegram_bot")):
            assert "/verify text — check it against the posts" in (await say(sandbox, OTTO, command, chat))["text"]
        told = await ask(OTTO, f"/verify@citegram_bot {CLAIM}", GROUP)
        hidden = await ask(OTTO, f"/verify@citegram_bot {TROPHY}", GROUP)
        said = await sandbox.say(RITA, CLAIM, chat_id=GROUP)
        replied = await ask(OTTO, "/verify@citegram_bot", GROUP, reply_to=said["message_id"])
    assert hint["text"].startswith("Write what to check after the command")
    assert YES in told["text"]
    assert YES in replied["text"]
    assert NOT_THERE in hidden["text"]


async def test_a_verdict_for_one_reader_is_none_for_another(sandbox, live, home, ask):
    async with live():
        assert YES in (await ask(ADMIN, f"/verify {TROPHY}"))["text"]
        theirs = await ask(OTTO, f"/verify {TROPHY}")
        assert YES in (await ask(ADMIN, f"/verify {TROPHY}"))["text"]
        assert theirs["text"] == f"“{TROPHY}”\n{NOT_THERE}"
        await ask(OTTO, f"/verify {CLAIM}")
        assert "Harbour News · 12 March 2024" in (await ask(OTTO, "/why"))["text"]
    kept = execute(home, "SELECT kind, answer FROM questions ORDER BY id")
    assert {kind for kind, _ in kept} == {"verify"}
    assert "7:30" not in kept[-1][1]


async def test_an_index_that_is_down_is_never_not_found(sandbox, live, ask, monkeypatch):
    def broken(*_):
        raise IndexUnavailable("index /srv/x is damaged")

    async with live():
        monkeypatch.setattr(LexicalIndex, "search", broken)
        told = (await ask(OTTO, f"/verify {CLAIM}"))["text"]
    assert told.startswith("The search is down right now, so I")
    assert "/srv/x" not in told


async def test_a_long_text_has_a_verdict_for_each_of_its_first_claims(sandbox, live, ask):
    text = " ".join(f"The ferry number {n} to Owl Island carries {n + 40} dogs." for n in range(11))
    russian = " ".join(f"Паром номер {n} везёт {n} собак." for n in range(40, 53))
    async with live():
        told = (await ask(OTTO, f"/verify {text}"))["text"]
        in_russian = (await ask(RITA, f"/verify {russian}"))["text"]
        assert (await ask(OTTO, "/verify ?!"))["text"].startswith("There is nothing to check here")
        assert (await ask(RITA, "/verify"))["text"].startswith("Напишите после команды, что проверить")
    assert "8. “The ferry number 7" in told
    assert "9. “" not in told
    assert "I did not check 3 more statements. Send them separately." in told
    assert "Ещё 5 утверждений не проверены: пришлите их отдельно." in in_russian


async def test_copies_and_forwards_are_one_source_and_the_first_is_named(sandbox, live, home, ask):
    day = datetime(2024, 5, 1, 10, 32, tzinfo=UTC)
    text = "The drawbridge was raised 214 times this winter, the harbour office counted."
    first = Post(PostKey(HARBOUR, 200), day, text)
    copied = Post(PostKey(KILN, 201), day + timedelta(hours=2), text, origin=Origin("Harbour News", HARBOUR, 200, day))
    own = Post(PostKey(KILN, 202), day + timedelta(days=1), "Winter in figures: the drawbridge was raised 214 times.")
    await save(home, copied, first)
    async with live():
        one = await ask(OTTO, "/verify The drawbridge was raised 214 times this winter.")
    await save(home, own)
    async with live():
        two = await ask(OTTO, "/verify The drawbridge was raised 214 times this winter.")
    assert "1 independent source, first @harbour_news, 1 May 2024" in one["text"]
    assert "2 independent sources, first @harbour_news" in two["text"]
