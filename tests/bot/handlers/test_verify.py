"""/verify through the whole bot: what it is asked with, who sees what, and what it says when it cannot know."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, RITA, bind, execute, open_archive, save, say

from bot.sandbox import Sandbox, page_api
from bot.sandbox.page_api import UserMessage
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.storage import questions
from rag_core.types import Origin, Post, PostKey

FERRY = "The ferry to Owl Island leaves at 7:30 every morning."
LATE = "The ferry to Owl Island leaves at 9:15 every morning."
TROPHY = "The treasurer hid the silver trophy under the staircase."
YES, NO, NOT_THERE = "The posts say so", "The posts say otherwise", "The posts do not say this"


def forwarded(sandbox: Sandbox, who: int, text: str, **more: Any) -> None:
    page_api.send_as_person(sandbox.world, who, who, UserMessage(text, None, None, "Somebody Shy", **more))


def links(message: dict[str, Any]) -> set[str]:
    return {entity["url"] for entity in message["entities"] if entity["type"] == "text_link"}


async def test_what_is_replied_to_quoted_or_forwarded_as_an_album_is_verified(sandbox, live, ask):
    async with live():
        answer = await ask(OTTO, "When does the ferry to Owl Island leave?")
        verdict = await ask(OTTO, "/verify", reply_to=answer["message_id"])
        quote = {"text": FERRY, "position": 0, "is_manual": True}
        page_api.send_as_person(sandbox.world, OTTO, OTTO, UserMessage("/verify", extra={"quote": quote}))
        (of_quote,) = await sandbox.replies(OTTO)
        forwarded(sandbox, OTTO, "", album="a1")  # of an album only the picture with the caption is answered
        forwarded(sandbox, OTTO, FERRY, album="a1")
        (of_album,) = await sandbox.replies(OTTO)
    assert YES in verdict["text"]
    assert "Sources" not in verdict["text"]
    assert "Quoted from the posts" not in verdict["text"]
    assert of_quote["text"].startswith(f"“{FERRY}”\n{YES}")
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

    async def forward(reader: int, text: str) -> dict[str, Any]:
        forwarded(sandbox, reader, text)
        (reply,) = await sandbox.replies(reader)
        return reply

    await save(home, Post(PostKey(HARBOUR, 200), datetime(2024, 5, 1, tzinfo=UTC), text))
    async with live():
        for reader in named:
            first = await forward(reader, text)
            assert first["text"].startswith(f"{named[reader]} {holds[reader]}\n")
            assert "https://t.me/harbour_news/200" in links(first)
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
        told = await ask(OTTO, f"/verify@citegram_bot {FERRY}", GROUP)
        hidden = await ask(OTTO, f"/verify@citegram_bot {TROPHY}", GROUP)
        said = await sandbox.say(RITA, FERRY, chat_id=GROUP)
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
        await ask(OTTO, f"/verify {FERRY}")
        assert "Harbour News · 12 March 2024" in (await ask(OTTO, "/why"))["text"]
    kept = execute(home, "SELECT kind, answer FROM questions ORDER BY id")
    assert {kind for kind, _ in kept} == {"verify"}
    assert "7:30" not in kept[-1][1]


async def test_what_was_asked_before_a_restart_is_told_after_it(sandbox, live, home):
    message = page_api.send_as_person(sandbox.world, OTTO, OTTO, UserMessage("x"))
    async with open_archive(home) as archive:
        row = {"bot_id": int(sandbox.token.split(":")[0]), "update_id": 10**6, "chat_id": OTTO, "thread": None}
        row |= {"message_id": message["message_id"], "user_id": OTTO, "asked_at": datetime.now(UTC), "private": True}
        queued = await questions.queue_question(
            archive, questions.QuestionRow(**row, text=FERRY, lang="en", kind="verify")
        )  # type: ignore[arg-type]
        taken = await questions.take_next_question(archive)  # a worker had begun when the process ended
    assert taken is not None
    assert taken.id == queued
    async with live():
        async with asyncio.timeout(30):
            said = [reply["text"] for reply in await sandbox.replies(OTTO, 2)]
    assert any(text.startswith(f"“{FERRY}”\n{YES}") for text in said)


async def test_an_index_that_is_down_is_never_not_found(sandbox, live, ask, monkeypatch):
    def broken(*_: Any) -> Any:
        raise IndexUnavailable("index /srv/x is damaged")

    async with live():
        monkeypatch.setattr(LexicalIndex, "search", broken)
        told = (await ask(OTTO, f"/verify {FERRY}"))["text"]
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
    assert "1 independent source, first @harbour_news, 1 May 2024, 10:32" in one["text"]
    assert "2 independent sources, first @harbour_news" in two["text"]


async def test_a_later_post_of_the_channel_changes_the_verdict(sandbox, live, home, ask):
    later = Post(PostKey(HARBOUR, 300), datetime(2024, 8, 1, tzinfo=UTC), LATE)
    await save(home, later)
    async with live():
        told = (await ask(OTTO, f"/verify {FERRY}"))["text"]
    assert told.startswith(f"“{FERRY}”\nThe posts said so until 1 August 2024\nA later post says otherwise:\n{LATE}\n")
    assert "1 August 2024\nEarlier posts said so:\nThe ferry to Owl Island leaves at 7:30" in told
