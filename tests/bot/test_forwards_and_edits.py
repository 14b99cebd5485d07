from datetime import UTC, datetime

import pytest
from driver import ADMIN, HARBOUR, KILN, OTTO, RITA, execute, find_formatted

from bot.i18n import get_translator
from rag_core.types import Post, PostKey

FERRY = "When does the ferry to Owl Island leave?"
FERRY_WAS = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
FERRY_IS = "The ferry to Owl Island leaves at 8:15 every morning from pier four."
COURSE = "Когда открывается запись на курс керамики?"
COURSE_WAS = "Запись на осенний курс керамики открывается пятого сентября."
COURSE_IS = "Запись на осенний курс керамики открывается девятого сентября."


def shown(sandbox, chat_id, text):
    """Put an archived post where the channel shows it, so that it can be edited there."""
    date = datetime(2024, 3, 12, 9, tzinfo=UTC)
    sandbox.world.add_history(chat_id, [Post(PostKey(chat_id, 10), date, text)])


@pytest.mark.parametrize(
    ("reader", "chat_id", "question", "was", "now", "words"),
    [
        (
            OTTO,
            HARBOUR,
            FERRY,
            FERRY_WAS,
            FERRY_IS,
            ("7:30", "8:15", "edited", "after the answer", "before the answer"),
        ),
        (RITA, KILN, COURSE, COURSE_WAS, COURSE_IS, ("пятого", "девятого", "изменён", "после ответа", "до ответа")),
    ],
)
async def test_an_edited_post_is_answered_anew_is_marked_and_explained(
    sandbox, live, ask, eyes, reader, chat_id, question, was, now,
    words
):  # fmt: skip
    old, new, edited, after, before = words
    shown(sandbox, chat_id, was)
    today = get_translator("ru" if reader == RITA else "en").date(datetime.now(UTC), UTC)
    async with live(watch=eyes):
        first = await ask(reader, question)
        assert old in first["text"]
        assert edited not in first["text"]

        await sandbox.edit(chat_id, 10, now)
        await eyes.see(now)
        second = await ask(reader, question)
        assert new in second["text"]
        assert old not in second["text"]
        assert f" · {edited} {today}" in second["text"]

        of_first = await ask(reader, "/why", reply_to=first["message_id"])
        of_second = await ask(reader, "/why")
    for told, when in ((of_first, after), (of_second, before)):
        assert f"{when}, {today}:\n" in told["text"]
        assert (find_formatted(told, "strikethrough"), new in find_formatted(told, "bold")) == ([old], True)
        assert f" · {edited} {today}" in told["text"]


GAZETTE = {"id": -1007000001, "type": "channel", "title": "Owl Gazette", "username": "owl_gazette"}


@pytest.mark.parametrize(
    ("reader", "chat_id", "text", "question", "who", "channel"),
    [
        (OTTO, HARBOUR, "The bakery on Mill Lane sells rye bread at 3 dollars.", "How much is rye bread in Mill Lane?",
         "Owl Gazette, forwarded by Harbour News", "Harbour News"),
        (RITA, KILN, "Булочная на Мельничной продаёт ржаной хлеб по 90 рублей.", "Почём ржаной хлеб в булочной?",
         "Owl Gazette, переслал канал Печь и глина", "Печь и глина"),
    ],
)  # fmt: skip
async def test_a_forward_is_the_word_of_its_origin(
    sandbox, live, ask, eyes, reader, chat_id, text, question, who,
    channel
):  # fmt: skip
    origin = {"type": "channel", "chat": GAZETTE, "message_id": 5, "date": int(datetime(2024, 5, 1).timestamp())}
    async with live(watch=eyes):
        await sandbox.post(chat_id, text, origin=origin, extra={"author_signature": "Ada"})
        await eyes.see(text)
        answer = await ask(reader, question)
        why = await ask(reader, "/why")
    assert text in answer["text"]
    for told in (answer, why):
        assert f"1. {who} · " in told["text"]
        cited = told["text"].partition("•")[0]  # below, /why lists what else was found: posts of the channel itself
        assert cited.count(channel) == cited.count(who)
        assert "Ada" not in told["text"]
    assert find_formatted(answer, "text_link")[-1] == who


async def test_a_forwarded_command_of_somebody_else_is_checked_and_not_done(sandbox, live, ask, home):
    """An admin forwards what a stranger wrote, to have it checked."""
    async with live():
        written = await sandbox.say(OTTO, "/synonyms ferry = heliotrope")
        await sandbox.replies(OTTO)
        told = await ask(ADMIN, "", forward_of=(OTTO, written["message_id"]))
    assert execute(home, "SELECT * FROM channel_synonyms") == []
    assert told["text"].startswith("“/"), told
