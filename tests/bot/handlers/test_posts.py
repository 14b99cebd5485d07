"""Posts that go: by /delete, found gone by /check, and back again when they are seen."""

from datetime import UTC, datetime, timedelta

import pytest
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import CopyMessage
from driver import ADMIN, HARBOUR, KILN, OTTO, RITA, SAFE, open_archive

from bot.handlers.posts import PostPresence, classify_copy_result
from bot.sandbox.state import set_chat_member
from rag_core.storage import channels, posts, visible_posts
from rag_core.types import Channel, Media, Post, PostKey

FERRY = "When does the ferry to Owl Island leave?"
FERRY_POST = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
COURSE = "Когда открывается запись на курс керамики?"
COURSE_POST = "Запись на осенний курс керамики открывается пятого сентября."
DAY = datetime(2024, 3, 12, 9, tzinfo=UTC)


@pytest.fixture
def sandbox(sandbox):
    """The channels show what is in the archive."""
    for chat_id, text in ((HARBOUR, FERRY_POST), (KILN, COURSE_POST), (SAFE, "The silver trophy.")):
        sandbox.world.add_history(chat_id, [Post(PostKey(chat_id, 10), DAY, text)])
    return sandbox


@pytest.fixture
async def archive(home):
    async with open_archive(home) as archive:
        yield archive


def data(message):
    return [key["callback_data"] for key in message["reply_markup"]["inline_keyboard"][0]]


async def confirmed(sandbox, ask, text, **more):
    """/delete and its first button: the question as it stands then, and the toast."""
    asked = await ask(ADMIN, text, **more)
    told = await sandbox.press(ADMIN, ADMIN, asked["message_id"], data(asked)[0])
    return sandbox.world.room(ADMIN).messages[asked["message_id"]], told["answer"]["text"]


async def test_what_an_admin_deletes_is_in_no_answer_from_that_moment_on(sandbox, ask, live_bot):
    kept = await ask(ADMIN, "/delete https://t.me/harbour_news/10")
    assert kept["text"] == (
        "Take this post out of all answers? The channel itself stays as it is.\n\n"
        f"1. Harbour News · 12 March 2024\n{FERRY_POST}"
    )
    told = await sandbox.press(ADMIN, ADMIN, kept["message_id"], data(kept)[1])
    assert told["answer"]["text"] == "Nothing was deleted."
    for reader, question, found, link, said in (
        (OTTO, FERRY, "7:30", "https://t.me/harbour_news/10", "Harbour News · 12 March 2024 — this post is gone"),
        (RITA, COURSE, "пятого", "t.me/c/1000002/10", "Печь и глина · 12 марта 2024 — этого поста больше нет"),
    ):
        first = await ask(reader, question)
        assert found in first["text"]
        question_back, toast = await confirmed(sandbox, ask, f"/delete {link}")
        assert toast.startswith("Done: I no longer use this post. It comes back only")
        assert question_back["text"].endswith(toast)
        assert "reply_markup" not in question_back
        assert found not in (await ask(reader, question))["text"]
        why = (await ask(reader, "/why", reply_to=first["message_id"]))["text"]
        assert f"1. {said}" in why and found not in why


async def test_several_links_go_at_once_and_unknown_ones_are_named(sandbox, live, ask, archive):
    await channels.save_channel(archive, Channel(-1009999, "Nameless"))
    await posts.save_posts(archive, [Post(PostKey(-1009999, 1), DAY + timedelta(days=1), "")], source="live")
    links = "t.me/harbour_news/10 t.me/harbour_news/10?single t.me/harbour_news/7/11, t.me/pech_i_glina/10"
    async with live():
        asked = await ask(ADMIN, f"/delete {links} t.me/harbour_news/999 t.me/elsewhere/1")
        assert asked["text"].startswith("Take these 3 posts out of all answers?")
        assert "t.me/harbour_news/999 — I do not have this post" in asked["text"]
        assert "t.me/elsewhere/1 — I do not have this post" in asked["text"]
        before = await posts.count_posts(archive)
        told = await sandbox.press(ADMIN, ADMIN, asked["message_id"], data(asked)[0])
        assert await posts.count_posts(archive) == before - 3
        assert told["answer"]["text"].startswith("Done: I no longer use these posts.")
        wordless = (await ask(ADMIN, "/delete t.me/c/9999/1 t.me/c/8888/1"))["text"]
        assert "1. Nameless · 13 March 2024\n\nt.me/c/8888/1 — I do not have this post" in wordless


async def test_a_reply_to_a_forwarded_post_means_that_post(sandbox, live, ask):
    async with live():
        forwarded = await sandbox.say(ADMIN, "", forward_of=(KILN, 10))
        await sandbox.replies(ADMIN)  # the forward itself is taken for a question
        _, toast = await confirmed(sandbox, ask, "/delete", reply_to=forwarded["message_id"])
        assert "пятого" not in (await ask(RITA, COURSE))["text"]
    assert toast.startswith("Done: I no longer")


async def album(archive):
    """Three photos of which the second has the caption, and the third a caption of its own."""
    captions = {20: "", 21: "The regatta begins at noon.", 22: "Umbrellas are for hire."}
    members = [Post(PostKey(HARBOUR, n), DAY, text, album="a", media=Media("photo")) for n, text in captions.items()]
    await posts.save_posts(archive, members, source="live")


async def test_an_album_goes_as_a_whole_and_one_of_it_by_a_single_link(sandbox, live, ask, archive):
    await album(archive)
    async with live():
        single = await ask(ADMIN, "/delete https://t.me/harbour_news/22?single")
        assert "Umbrellas are for hire." in single["text"]
        await sandbox.press(ADMIN, ADMIN, single["message_id"], data(single)[0])
        assert (await visible_posts.fetch_posts(archive, [PostKey(HARBOUR, 21)]))[PostKey(HARBOUR, 21)].text.endswith(
            "noon."
        )
        whole = await ask(ADMIN, "/delete https://t.me/harbour_news/20")
        assert "The regatta begins at noon." in whole["text"]
        await sandbox.press(ADMIN, ADMIN, whole["message_id"], data(whole)[0])
    assert await visible_posts.fetch_posts(archive, [PostKey(HARBOUR, n) for n in (20, 21, 22)]) == {}


async def test_only_what_was_asked_about_is_deleted(sandbox, live, ask, archive):
    """An album that has grown since, a button with made-up data, someone else's finger."""
    await album(archive)
    async with live():
        asked = await ask(ADMIN, "/delete https://t.me/harbour_news/20")
        late = Post(PostKey(HARBOUR, 23), DAY, "", album="a", media=Media("photo"))
        await posts.save_posts(archive, [late], source="live")
        grown = await sandbox.press(ADMIN, ADMIN, asked["message_id"], data(asked)[0])
        made_up = await sandbox.press(ADMIN, ADMIN, asked["message_id"], "b:delete:00000000:0")
        stranger = await sandbox.press(OTTO, ADMIN, asked["message_id"], data(asked)[0])
        assert PostKey(HARBOUR, 21) in await visible_posts.fetch_posts(archive, [PostKey(HARBOUR, 21)])
    for told in (grown, made_up):
        assert told["answer"]["text"] == "These posts have changed since. Send /delete again."
    assert stranger["answer"]["text"].startswith("Only this bot's admins")


async def test_what_cannot_be_done_is_one_sentence(live, ask, archive):
    before = await posts.get_last_seq(archive)
    async with live():
        for command in ("/delete", "/check"):
            for who, args, said in (
                (OTTO, "https://t.me/harbour_news/10", "Only this bot's admins can do this."),
                (RITA, "https://t.me/harbour_news/10", "Это могут только администраторы бота."),
                (ADMIN, "", f"Send {command} with links to posts"),
                (ADMIN, "the ferry, please", f"Send {command} with links to posts"),
                (ADMIN, "https://t.me/harbour_news/10?comment=3", f"Send {command} with links to posts"),
                (ADMIN, " ".join(f"t.me/harbour_news/{n}" for n in range(1, 40)), "Please send at most 10 links"),
                (ADMIN, "https://t.me/harbour_news/999", "https://t.me/harbour_news/999 — I do not have this post"),
            ):
                told = await ask(who, f"{command} {args}")
                assert told["text"].startswith(said)
                assert "reply_markup" not in told
    assert await posts.get_last_seq(archive) == before


async def test_a_post_that_is_gone_is_left_out_until_an_edit_brings_it_back(sandbox, live, ask, eyes):
    async with live(watch=eyes):
        for reader, chat_id, question, found, username, text in (
            (OTTO, HARBOUR, FERRY, "7:30", "harbour_news", FERRY_POST),
            (RITA, KILN, COURSE, "пятого", "pech_i_glina", COURSE_POST),
        ):
            kept = sandbox.world.room(chat_id).messages[10]
            first = await ask(reader, question)
            await sandbox.delete(chat_id, 10)
            assert found in (await ask(reader, question))["text"]  # nobody has told us

            told = await ask(ADMIN, f"/check https://t.me/{username}/10")
            assert told["text"].endswith("It is gone from the channel, so I leave it out until it comes back.")
            assert found not in (await ask(reader, question))["text"]
            assert found not in (await ask(reader, "/why", reply_to=first["message_id"]))["text"]

            sandbox.world.room(chat_id).messages[10] = kept
            await sandbox.edit(chat_id, 10, f"{text} !")
            await eyes.see(f"{text} !")
            assert found in (await ask(reader, question))["text"]


async def test_where_the_bot_cannot_look_nothing_is_marked(sandbox, live, ask, archive):
    before, bot_id = await posts.get_last_seq(archive), sandbox.world.bot.id
    await sandbox.delete(SAFE, 10)
    async with live():
        for status in ("left", "kicked"):
            set_chat_member(sandbox.world, SAFE, bot_id, status)
            told = (await ask(ADMIN, "/check https://t.me/c/1000004/10"))["text"]
            assert "I cannot look: I am not in this channel, or do not have the rights." in told
        sandbox.world.room(HARBOUR).protected = True
        told = (await ask(ADMIN, "/check https://t.me/harbour_news/10"))["text"]
        assert "Telegram does not let me copy it" in told
        sandbox.faults.fail_next("copyMessage", "429", retry_after=3600)
        told = (await ask(ADMIN, "/check https://t.me/pech_i_glina/10"))["text"]
        assert "Telegram gave no clear answer." in told
        keys = [PostKey(chat, 10) for chat in (SAFE, HARBOUR, KILN)]
        assert {*await visible_posts.fetch_posts(archive, keys)} == {*keys}
    assert await posts.get_last_seq(archive) == before


CALL = CopyMessage(chat_id=1, from_chat_id=-1001, message_id=2)


EXPLICIT = {
    PostPresence.GONE: ["message to copy not found", "message to forward not found", "message to be replied not found",
                        "message to react not found"],
    PostPresence.UNCOPIED: ["message has protected content and can't be forwarded", "CHAT_FORWARDS_RESTRICTED",
                            "message can't be copied"],
    PostPresence.CLOSED: ["bot is not a member of the channel chat", "bot was kicked from the channel chat",
                          "chat not found", "CHANNEL_PRIVATE"],
    PostPresence.UNSURE: ["bot was blocked by the user", "MESSAGE_ID_INVALID", "message thread not found",
                          "message to edit not found", "a sentence of tomorrow"],
}  # fmt: skip
UNSURE = [
    TelegramRetryAfter(CALL, "Too Many Requests", retry_after=5),
    TelegramServerError(CALL, "Internal Server Error"),
    TelegramNetworkError(CALL, "message to copy not found? no: timeout"),
    ClientDecodeError("no JSON", ValueError("x"), "<html>message to copy not found</html>"),
    TimeoutError(),
]


def test_only_telegrams_own_words_say_that_a_post_is_gone():
    for kind in (TelegramBadRequest, TelegramForbiddenError):
        for where, messages in EXPLICIT.items():
            for message in messages:
                assert classify_copy_result(kind(CALL, f"Bad Request: {message}")) is where, message
    assert {classify_copy_result(failure) for failure in UNSURE} == {PostPresence.UNSURE}
