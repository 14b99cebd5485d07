"""Updates of every type of the installed aiogram, made from the fields of its models, nested and long to Telegram's
limits: each is parsed in little processor time, and what is beyond the limits is set aside alone.
"""

import asyncio
import json
import random
import time
import typing
from datetime import datetime
from enum import Enum

import pytest
from aiogram import Bot
from aiogram.client.default import Default
from aiogram.methods import GetChat, SendMessage
from aiogram.types import Chat, Message, RichMessage, Update
from driver import HARBOUR, OTTO, RITA, open_archive, query_archive
from pydantic import BaseModel
from sample_sizes import FULL

from bot.telegram import updates
from bot.telegram.session import TelegramSession
from bot.telegram.updates import UNREAD_FIELDS, InboxMiddleware
from ingest.inbox import process_pending_posts
from rag_core.storage import posts, raw_updates
from rag_core.storage.raw_updates import RawUpdate, encode_update

MAX_SECONDS = 0.05  # of processor time
RICH_DEPTH, RICH_CHARACTERS = 16, 32_768
KINDS = [name for name in Update.model_fields if name != "update_id"]
FORMATS = ("bold", "italic", "underline", "strikethrough", "spoiler", "marked", "subscript", "superscript")
CHANNEL = {"id": HARBOUR, "type": "channel", "title": "Harbour News"}


def nest(levels, text="breaking news"):
    for level in range(levels):
        text = {"type": FORMATS[level % len(FORMATS)], "text": text}
    return text


def rich(*texts):
    return {"blocks": [{"type": "paragraph", "text": text} for text in texts]}


def post(number, **content):
    return {"message_id": number, "date": 1_750_000_000, "chat": CHANNEL} | content


class Maker:
    """Maker of values for annotations: models with all their fields near the top, with the needed ones below."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.characters = RICH_CHARACTERS
        self.messages = self.rich_messages = self.values = 0

    def make(self, annotation, depth=0, nested=0):
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
        if hasattr(annotation, "__value__"):  # an alias: the recursive ones are of rich texts
            return self.make(annotation.__value__, depth, nested)
        if origin is typing.Annotated:
            return self.make(inner[0], depth, nested)
        if origin is typing.Literal:
            return self.make_plain(inner[0])
        if origin is list:
            most = 1 if self.values > 1500 else 2 if nested else 30
            return [self.make(inner[0], depth + 1, nested) for _ in range(self.random.choice((1, most)))]
        if inner:  # a union
            return self.choose(inner, depth, nested)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.make_model(annotation, depth + 1, nested)
        return self.make_plain(annotation)

    def choose(self, members, depth, nested):
        found = [member for member in members if member not in (type(None), Default)]
        rich_text = str in found and len(found) > 20
        if rich_text and (nested >= RICH_DEPTH or self.characters <= 0):
            self.characters -= 20
            return "Новости 🙂 " * 2
        return self.make(self.random.choice(found[rich_text * 2 :]), depth, nested + rich_text)

    def make_model(self, model, depth, nested):
        if not model.__pydantic_complete__:
            model.model_rebuild()
        self.messages += model is Message
        made = {}
        for name, field in model.model_fields.items():
            enough = self.values > 1500 or (self.messages > 3 and "message.Message" in str(field.annotation))
            wanted = (depth < 3 or self.random.random() < 0.2) and not enough
            if field.is_required() or typing.get_origin(field.annotation) is typing.Literal or wanted:
                made[field.alias or name] = self.make(field.annotation, depth, nested)
        if model is RichMessage and (blocks := 400 >> 4 * self.rich_messages):
            self.rich_messages += 1
            made["blocks"] += rich(*(nest(RICH_DEPTH, "я" * 40) for _ in range(blocks)))["blocks"]
        return made

    def make_plain(self, kind):
        self.values += 1
        if isinstance(kind, Enum):
            return kind.value
        if kind is bool or isinstance(kind, bool | str | int):
            return kind is bool or kind
        numbers = {int: 2**52 - 1, float: 0.5, datetime: 1_750_000_000}
        return numbers.get(kind, "Ночной паром 🙂 " * self.random.choice((1, 20)))


def make_updates():
    for kind in KINDS:
        for seed in range(20 if FULL else 2):
            raw = Maker(seed).make(Update.model_fields[kind].annotation)
            yield kind, encode_update({"update_id": 1, kind: raw})


def parse(text):
    """What comes of an update, what was set aside, and the processor time (s), of the better try where one is slow."""
    seconds = []
    for _ in range(2):
        wrong = {}
        began = time.thread_time()
        (update,) = updates._parse_some(None, [RawUpdate(1, "", text)], wrong)
        seconds.append(time.thread_time() - began)
        if seconds[-1] < MAX_SECONDS:
            break
    return update, wrong, min(seconds)


def test_every_update_to_telegrams_limits_is_parsed_in_little_time():
    parse('{"update_id": 1, "message": {}}')  # the models are built
    slow = {}
    for kind, raw in make_updates():
        update, wrong, seconds = parse(raw.text)
        assert not wrong, (kind, wrong)
        assert update.event_type == kind
        if seconds > MAX_SECONDS:
            slow[kind] = seconds
    assert not slow


def test_a_message_of_marks_in_reply_to_another_is_parsed_in_little_time():
    marks = rich([{"type": "bold", "text": "я"} for _ in range(RICH_CHARACTERS)])
    _, wrong, seconds = parse(encode_update({"update_id": 1, "channel_post": post(9, rich_message=marks)}).text)
    assert not wrong
    assert seconds < MAX_SECONDS
    both = post(9, rich_message=marks, reply_to_message=post(8, rich_message=marks))
    assert parse(encode_update({"update_id": 1, "channel_post": both}).text)[1] == {}


def test_all_unions_that_hold_themselves_are_in_fields_that_are_not_read():
    """A new aiogram may have others: each level of such a union multiplies the time by the number of its members."""
    within = {}

    def list_unions(annotation):
        if typing.get_origin(annotation) is typing.Literal:
            return
        annotation = getattr(annotation, "__value__", annotation)
        members = [inner for inner in typing.get_args(annotation) if inner is not type(None)]
        if len(members) > 3:
            yield annotation
        for inner in members:
            yield from list_unions(inner)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in within:
            within[annotation] = set()
            annotation.model_rebuild()
            for name, field in annotation.model_fields.items():
                if name not in UNREAD_FIELDS:
                    within[annotation] |= set(list_unions(field.annotation))

    for root in (Update, Chat):
        list(list_unions(root))
    for model, unions in within.items():
        assert not any(model in typing.get_args(union) for union in unions), model


HOSTILE = {
    "depth": lambda: json.dumps({"update_id": 1, "channel_post": post(9, rich_message=rich(nest(225)))}),
    "depth of JSON": lambda: '{"update_id":1,"message":' + "[" * 5000 + "]" * 5000 + "}",
    "values": lambda: '{"update_id":1,"message":[' + "{}," * 400_000 + "1]}",
    "length": lambda: '{"update_id":1,"message":"' + "x" * (1 << 23) + '"}',
    "integer": lambda: json.dumps({"update_id": 1, "message": post(9, chat={"id": 2**63, "type": "private"})}),
    "digits": lambda: '{"update_id":1,"message":{"date":' + "9" * 5000 + "}}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_beyond_the_bounds_is_set_aside_in_little_time(name, caplog):
    update, wrong, seconds = parse(HOSTILE[name]())
    assert {record.levelname for record in caplog.records} == {"ERROR"}  # admins are told of errors
    assert 1 in wrong
    assert set(update.model_fields_set) == {"update_id"}
    assert seconds < MAX_SECONDS


@pytest.mark.parametrize("kind", ["bold", "unknown"])
def test_a_union_that_nobody_knows_of_ends_with_its_processor_time(kind, monkeypatch):
    monkeypatch.setattr(updates, "UNREAD_FIELDS", frozenset())
    text = "deep"
    for _ in range(9):
        text = {"type": kind, "text": text}
    _, wrong, seconds = parse(encode_update({"update_id": 1, "message": post(9, rich_message=rich(text))}).text)
    assert wrong == {1: "takes too long to parse"}
    assert seconds < 1


@pytest.mark.parametrize("method", [SendMessage(chat_id=1, text="a"), GetChat(chat_id=1)])
async def test_a_reply_with_a_rich_message_in_it_takes_little_time(method):
    session, bot = TelegramSession(), Bot("42:TEST")
    held = post(9, rich_message=rich(nest(RICH_DEPTH)))
    result = post(10, text="a", reply_to_message=held, external_reply={"origin": {}, "rich_message": rich(nest(16))})
    if isinstance(method, GetChat):
        result = CHANNEL | {"accent_color_id": 1, "max_reaction_count": 1, "pinned_message": held}
        result |= {
            "accepted_gift_types": dict.fromkeys(
                ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"),
                True,
            )
        }
    else:
        result["external_reply"]["origin"] = {"type": "hidden_user", "date": 1, "sender_user_name": "x"}
    content = json.dumps({"ok": True, "result": result})
    session.check_response(bot, method, 200, content)
    began = time.thread_time()
    reply = session.check_response(bot, method, 200, content).result
    assert time.thread_time() - began < MAX_SECONDS
    assert (reply.pinned_message or reply).chat.id == HARBOUR
    await bot.session.close()


async def test_a_batch_of_the_worst_never_holds_the_event_loop(archive):
    inbox, bot = InboxMiddleware(archive), Bot("42:TEST")
    marks = rich(*([{"type": "bold", "text": "я"} for _ in range(60)] for _ in range(500)))
    worst = [HOSTILE[name]() for name in HOSTILE]
    worst += [encode_update({"update_id": 1, "channel_post": post(n, rich_message=marks)}).text for n in range(1, 8)]
    raws = [RawUpdate(n, "channel_post", text) for n, text in enumerate(worst, 1)]
    steps = []

    async def watch():
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            steps.append(time.thread_time() - began)

    watcher = asyncio.create_task(watch())
    parsed = await inbox.keep(bot, raws)
    assert [bool(update.channel_post) for update in parsed] == [False] * len(HOSTILE) + [True] * 7
    assert await process_pending_posts(archive) == 7
    watcher.cancel()
    assert max(steps) < 0.1
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 0, "poison": len(HOSTILE), "done": 7}
    await bot.session.close()


@pytest.mark.parametrize("fault", [ValueError, RecursionError, OverflowError, MemoryError])
@pytest.mark.parametrize("place", ["parse", "store"])
async def test_any_error_of_one_post_sets_that_post_aside_alone(archive, monkeypatch, fault, place):
    import ingest.inbox

    real = {"parse": ingest.inbox.parse_live_post, "store": posts.save_arrivals_in_transaction}

    def parse_post(message):
        if message["message_id"] == 2:
            raise fault
        return real["parse"](message)

    async def store_posts(connection, kept, **more):
        if any(arrived.key.message_id == 2 for arrived, _ in kept):
            raise fault
        return await real["store"](connection, kept, **more)

    if place == "parse":
        monkeypatch.setattr(ingest.inbox, "parse_live_post", parse_post)
    else:
        monkeypatch.setattr(posts, "save_arrivals_in_transaction", store_posts)
    raws = [encode_update({"update_id": n, "channel_post": post(n, text=f"Post {n}.")}) for n in (1, 2, 3)]
    await raw_updates.save_updates(archive, 42, raws)
    await process_pending_posts(archive)
    assert await posts.list_message_ids(archive, HARBOUR) == {1, 3}
    ((number, error),) = await archive.rows("SELECT update_id, error FROM updates WHERE state = 'poison'")
    assert (number, error) == (2, f"{fault.__name__} when {place}d")


async def test_behind_a_thousand_rich_messages_a_question_is_answered_soon(sandbox, live, home):
    """In the queue at Telegram, and stored by a process that ended before it handled them."""
    number = 1000 if FULL else 200
    reply = {"message_id": 1, "date": 1, "chat": CHANNEL, "rich_message": rich(nest(RICH_DEPTH))}
    person = {"id": RITA, "is_bot": False, "first_name": "Rita"}
    head = {"message_id": 5, "date": 1_750_000_000, "chat": {"id": RITA, "type": "private", "first_name": "Rita"}}
    waiting = {"message": head | {"from": person, "photo": [], "reply_to_message": reply}}
    stored = [encode_update({"update_id": n} | waiting) for n in range(1, number + 1)]
    stored += [RawUpdate(number + 1, "message", HOSTILE["depth of JSON"]()), RawUpdate(number + 2, "message", "{")]
    stored += [RawUpdate(number + 3, "channel_post", HOSTILE["depth"]())]
    await query_archive(home, lambda archive: raw_updates.save_updates(archive, 42, stored))
    for n in range(number):
        sandbox.push({"channel_post": post(100 + n, rich_message=rich(nest(RICH_DEPTH)))})
    began = time.process_time()
    async with live():
        await sandbox.say(OTTO, "When does the ferry to Owl Island leave?")
        (answer,) = await sandbox.replies(OTTO)
        async with open_archive(home) as archive, asyncio.timeout(30):
            while (await raw_updates.count_updates_by_state(archive))["pending"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the archive sends no events
            assert (await raw_updates.count_updates_by_state(archive))["poison"] == 3
    assert "7:30" in answer["text"]
    assert time.process_time() - began < (20 if FULL else 8)
