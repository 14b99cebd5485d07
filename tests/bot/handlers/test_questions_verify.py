"""/verify through the whole bot: what it is asked with, who sees what, and what it says when it cannot know."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, RITA, bind, open_archive, save, say

from bot.sandbox import Sandbox, user_actions
from bot.sandbox.user_actions import UserMessage
from rag_core.errors import IndexUnavailable
from rag_core.index.bm25 import Bm25Index
from rag_core.storage import questions
from rag_core.types import Origin, Post, PostKey

FERRY = "The ferry to Owl Island leaves at 7:30 every morning."
LATE = "The ferry to Owl Island leaves at 9:15 every morning."
TROPHY = "The treasurer hid the silver trophy under the staircase."
YES, NO, NOT_THERE = "The posts say so", "The posts say otherwise", "The posts do not say this"


def forwarded(sandbox: Sandbox, who: int, text: str, **more: Any) -> None:
    user_actions.send_as_person(sandbox.world, who, who, UserMessage(text, None, None, "Somebody Shy", **more))


def links(message: dict[str, Any]) -> set[str]:
    return {entity["url"] for entity in message["entities"] if entity["type"] == "text_link"}


@pytest.mark.parametrize(
    ("claim", "said"), [(FERRY, YES), (LATE, NO), ("A zeppelin flies to Bear Mountain.", NOT_THERE)]
)
async def test_a_claim_gets_its_verdict_with_the_words_of_the_post(
    sandbox: Sandbox, live: Any, ask: Any, claim: str, said: str
) -> None:
    async with live():
        reply = await ask(OTTO, f"/verify {claim}")
    assert reply["text"].startswith(f"“{claim}”\n{said}")
    found = said != NOT_THERE
    assert ("leaves at 7:30 every morning" in reply["text"].partition("\n")[2]) == found
    assert ("https://t.me/harbour_news/10" in links(reply)) == found
    assert ("1 independent source, first @harbour_news" in reply["text"]) == (said == YES)


async def test_the_bot_verifies_what_is_replied_to(sandbox: Sandbox, live: Any, ask: Any) -> None:
    async with live():
        answer = await ask(OTTO, "When does the ferry to Owl Island leave?")
        verdict = await ask(OTTO, "/verify", reply_to=answer["message_id"])
    assert YES in verdict["text"]
    assert "Sources" not in verdict["text"]
    assert "Quoted from the posts" not in verdict["text"]


async def test_of_a_quoted_message_only_the_quote_is_verified(sandbox: Sandbox, live: Any) -> None:
    async with live():
        quote = {"text": FERRY, "position": 0, "is_manual": True}
        user_actions.send_as_person(sandbox.world, OTTO, OTTO, UserMessage("/verify", extra={"quote": quote}))
        (reply,) = await sandbox.replies(OTTO)
    assert reply["text"].startswith(f"“{FERRY}”\n{YES}")


async def test_a_message_forwarded_in_private_is_verified_in_the_reader_s_language(sandbox: Sandbox, live: Any) -> None:
    async with live():
        forwarded(sandbox, RITA, LATE)
        (reply,) = await sandbox.replies(RITA)
        forwarded(
            sandbox, RITA, "", extra={"photo": [{"file_id": "a", "file_unique_id": "a", "width": 9, "height": 9}]}
        )
        (wordless,) = await sandbox.replies(RITA)
    assert reply["text"].startswith(f"«{LATE}»\nВ постах написано другое")
    assert wordless["text"] == "Могу проверить только текст. Перешлите мне сообщение с текстом."


@pytest.mark.parametrize(
    ("reader", "named", "holds", "changed"),
    [
        (
            OTTO,
            "This is the post of 1 May 2024 in Harbour News.",
            "I found no later post that changes it.",
            "A later post has changed it, see below.",
        ),
        (
            RITA,
            "Это пост от 1 мая 2024 в канале Harbour News.",
            "Более поздних постов, которые это меняют, не нашлось.",
            "Позже написали иначе, смотрите ниже.",
        ),
    ],
)
async def test_a_forwarded_post_of_a_readable_channel_is_named_and_whether_it_still_holds(
    sandbox: Sandbox, live: Any, home: Path, reader: int, named: str, holds: str, changed: str
) -> None:
    text = "The harbour kiosk sells hot soup for four euros a bowl."
    await save(home, Post(PostKey(HARBOUR, 200), datetime(2024, 5, 1, tzinfo=UTC), text))
    async with live():
        forwarded(sandbox, reader, text)
        (first,) = await sandbox.replies(reader)
    await save(
        home, Post(PostKey(HARBOUR, 300), datetime(2024, 8, 1, tzinfo=UTC), text.replace("four euros", "six euros"))
    )
    async with live():
        forwarded(sandbox, reader, text)
        (second,) = await sandbox.replies(reader)
        forwarded(sandbox, reader, TROPHY)  # of a channel that this reader may not read
        (hidden,) = await sandbox.replies(reader)
    assert first["text"].startswith(f"{named} {holds}\n")
    assert "https://t.me/harbour_news/200" in links(first)
    assert second["text"].startswith(f"{named} {changed}\n")
    assert named.split()[0] not in hidden["text"].splitlines()[0]


async def test_only_the_captioned_picture_of_a_forwarded_album_is_answered(sandbox: Sandbox, live: Any) -> None:
    async with live():
        forwarded(sandbox, OTTO, "", album="a1")
        forwarded(sandbox, OTTO, FERRY, album="a1")
        (reply,) = await sandbox.replies(OTTO)
    assert YES in reply["text"]
    assert len(sandbox.world.sent[OTTO]) == 1


async def test_a_group_asks_its_own_channels_and_is_left_alone_otherwise(
    sandbox: Sandbox, live: Any, home: Path, ask: Any
) -> None:
    await bind(home, HARBOUR)
    async with live():
        await sandbox.say(OTTO, "/verify", chat_id=GROUP)
        hint = await ask(OTTO, "/verify@citegram_bot", GROUP)
        told = await ask(OTTO, f"/verify@citegram_bot {FERRY}", GROUP)
        hidden = await ask(OTTO, f"/verify@citegram_bot {TROPHY}", GROUP)
        said = await sandbox.say(RITA, FERRY, chat_id=GROUP)
        replied = await ask(OTTO, "/verify@citegram_bot", GROUP, reply_to=said["message_id"])
    assert hint["text"].startswith("Write what to check after the command")
    assert YES in told["text"]
    assert YES in replied["text"]
    assert NOT_THERE in hidden["text"]


async def test_a_verdict_for_one_reader_is_none_for_another(sandbox: Sandbox, live: Any, ask: Any) -> None:
    async with live():
        assert YES in (await ask(ADMIN, f"/verify {TROPHY}"))["text"]
        theirs = await ask(OTTO, f"/verify {TROPHY}")
        assert YES in (await ask(ADMIN, f"/verify {TROPHY}"))["text"]
    assert theirs["text"] == f"“{TROPHY}”\n{NOT_THERE}"


async def test_what_was_asked_before_a_restart_is_told_after_it(sandbox: Sandbox, live: Any, home: Path) -> None:
    message = user_actions.send_as_person(sandbox.world, OTTO, OTTO, UserMessage("x"))
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


async def test_an_index_that_is_down_is_never_not_found(
    sandbox: Sandbox, live: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise IndexUnavailable("index /srv/x is damaged")

    async with live():
        monkeypatch.setattr(Bm25Index, "search", broken)
        told = (await ask(OTTO, f"/verify {FERRY}"))["text"]
    assert told.startswith("The search is down right now, so I")
    assert "/srv/x" not in told


async def test_a_text_without_a_claim_and_a_bare_command_are_told_so(sandbox: Sandbox, live: Any, ask: Any) -> None:
    async with live():
        assert (await ask(OTTO, "/verify ?!"))["text"].startswith("There is nothing to check here")
        assert (await ask(RITA, "/verify"))["text"].startswith("Напишите после команды, что проверить")


async def test_a_long_text_has_a_verdict_for_each_of_its_first_claims(sandbox: Sandbox, live: Any, ask: Any) -> None:
    text = " ".join(f"The ferry number {n} to Owl Island carries {n + 40} dogs." for n in range(11))
    russian = " ".join(f"Паром номер {n} везёт {n} собак." for n in range(40, 53))
    async with live():
        told = (await ask(OTTO, f"/verify {text}"))["text"]
        in_russian = (await ask(RITA, f"/verify {russian}"))["text"]
    assert "8. “The ferry number 7" in told
    assert "9. “" not in told
    assert "I did not check 3 more statements. Send them separately." in told
    assert "Ещё 5 утверждений не проверены: пришлите их отдельно." in in_russian


async def test_copies_and_forwards_are_one_source_and_the_first_is_named(
    sandbox: Sandbox, live: Any, home: Path, ask: Any
) -> None:
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


async def test_a_later_post_of_the_channel_changes_the_verdict(
    sandbox: Sandbox, live: Any, home: Path, ask: Any
) -> None:
    later = Post(PostKey(HARBOUR, 300), datetime(2024, 8, 1, tzinfo=UTC), LATE)
    await save(home, later)
    async with live():
        told = (await ask(OTTO, f"/verify {FERRY}"))["text"]
    assert told.startswith(f"“{FERRY}”\nThe posts said so until 1 August 2024\nA later post says otherwise:\n{LATE}\n")
    assert "1 August 2024\nEarlier posts said so:\nThe ferry to Owl Island leaves at 7:30" in told


async def test_why_tells_what_a_verdict_stands_on(sandbox: Sandbox, live: Any, home: Path, ask: Any) -> None:
    async with live():
        await ask(OTTO, f"/verify {FERRY}")
        why = await ask(OTTO, "/why")
    assert "Harbour News · 12 March 2024" in why["text"]
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        ((kind, kept),) = archive.execute("SELECT kind, answer FROM questions")
    assert kind == "verify"
    assert "7:30" not in kept


async def test_help_and_menu_know_the_command(sandbox: Sandbox, live: Any) -> None:
    async with live():
        private = await say(sandbox, OTTO, "/help")
        group = await say(sandbox, OTTO, "/help@citegram_bot", GROUP)
    assert "/verify text — check it against the posts" in private["text"]
    assert "/verify text — check it against the posts, also as a reply" in group["text"]
