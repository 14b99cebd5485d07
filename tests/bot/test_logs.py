import asyncio
import gc
import io
import json
import logging
import re
from contextlib import contextmanager

import pytest
from driver import GROUP, OTTO
from pydantic import TypeAdapter

from bot import logs
from bot.logs import PrivacyFilter
from rag_core.errors import IndexUnavailable

SECRET = "heliotrope"
QUESTION = f"When does the {SECRET} ferry to Owl Island leave?"


@contextmanager
def log_of(texts=False, structured=False):
    """Everything that a bot with -v writes, as it writes it."""
    written = io.StringIO()
    handler, root = logging.StreamHandler(written), logging.getLogger()
    handler.addFilter(logs._filter)
    handler.setFormatter(logs.JsonFormatter() if structured else logs.PlainFormatter())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logs.set_text_logging(texts)
    try:
        yield written
    finally:
        logs.set_text_logging(False)
        root.setLevel(level)
        root.removeHandler(handler)


def test_a_library_that_retries_says_nothing_that_explains_nothing():
    logs.set_up_logging(verbose=False)
    assert not logging.getLogger("stamina").isEnabledFor(logging.WARNING)


@pytest.mark.parametrize("texts", [False, True])
async def test_texts_of_readers_are_in_the_log_only_where_that_is_switched_on(sandbox, live, ask, texts):
    with log_of(texts=texts) as written:
        async with live():
            await ask(OTTO, QUESTION)
            for text in (f"/search {SECRET}", "/why", "/link", "/mydata", "/forget", "x" * 2000 + SECRET):
                await ask(OTTO, text)
            sandbox.push({"message": {"message_id": "odd", "text": SECRET}})
            await sandbox.say(OTTO, f"/ask {QUESTION}", chat_id=GROUP)
    assert "@citegram_bot answers" in written.getvalue()
    assert (QUESTION in written.getvalue(), SECRET in written.getvalue()) == (texts, texts)


async def test_a_failure_is_logged_without_the_text_that_made_it(sandbox, live, ask, monkeypatch):
    async def broken(question, *args, **more):
        try:
            TypeAdapter(int).validate_python(question.text)
        except ValueError as exc:
            raise RuntimeError(f"cannot answer {question.text}") from exc

    monkeypatch.setattr("bot.worker.question_worker.answer_question", broken)
    monkeypatch.setattr("bot.handlers.search.list_posts", broken)
    with log_of() as written:
        async with live():
            await ask(OTTO, QUESTION)
            await ask(OTTO, f"/search {SECRET}")
    said = written.getvalue()
    assert SECRET not in said
    assert "RuntimeError" in said
    assert "ValidationError" in said
    assert "Traceback" in said


def logged(*args, exc=None):
    record = logging.LogRecord("bot.x", logging.ERROR, "", 0, "%s", args, (type(exc), exc, None) if exc else None)
    PrivacyFilter().filter(record)
    return logging.Formatter().format(record)


def test_our_own_sentences_are_kept_and_others_are_not():
    assert logged(IndexUnavailable("The index is gone.")) == "The index is gone."
    assert "No space" in logged(OSError(28, "No space left on device"))
    assert logged(ValueError(SECRET)) == "ValueError"
    assert SECRET not in logged([ValueError(SECRET), (KeyError(SECRET),)])
    assert SECRET not in logged("failed", exc=ExceptionGroup("many", [KeyError(SECRET), ValueError(SECRET)]))
    assert SECRET not in logged("failed", exc=asyncio.InvalidStateError(SECRET))


@pytest.mark.plants_secrets
@pytest.mark.parametrize("structured", [False, True])
async def test_a_failing_question_names_its_trace_and_neither_text_nor_token(
    sandbox, live, ask, monkeypatch, structured
):
    secret = "1234567:" + "a" * 35

    async def broken(question, *args, **more):
        logging.getLogger("bot.x").warning("https://api.telegram.org/bot%s/getMe", secret)
        raise RuntimeError(f"cannot answer {question.text} {secret}")

    monkeypatch.setattr("bot.worker.question_worker.answer_question", broken)
    with log_of(structured=structured) as written:
        async with live():
            await ask(OTTO, QUESTION)
    said = written.getvalue()
    assert SECRET not in said
    assert secret not in said
    lines = [line for line in said.splitlines() if "bot.x" in line or "question 1 failed" in line]
    found = (
        [json.loads(line)["request"] for line in lines] if structured else re.findall(r"\[(\w{12})\]", "\n".join(lines))
    )
    assert len(found) == 2
    assert len(set(found)) == 1


async def test_structured_lines_are_objects_with_what_a_plain_line_says(sandbox, live, ask):
    with log_of(structured=True) as written:
        async with live():
            await ask(OTTO, QUESTION)
            sandbox.push({"message": {"message_id": "odd", "text": SECRET}})
            await ask(OTTO, "When is mackerel sold?")
        try:
            raise KeyError(SECRET)
        except KeyError:
            logging.getLogger("bot.x").exception("failed")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    assert {"INFO", "ERROR"} <= {line["level"] for line in lines}
    answered, other = (line for line in lines if line["message"].startswith("answered "))
    assert answered["request"] in answered["message"] and other["request"] in other["message"]
    assert answered["request"] != other["request"]
    assert answered["time"].endswith("+00:00")
    (failed,) = (line for line in lines if "exception" in line)
    assert failed["exception"].startswith("Traceback") and failed["exception"].endswith("KeyError: KeyError")
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize(("name", "kind"), [("plain", logs.PlainFormatter), ("json", logs.JsonFormatter)])
def test_the_format_is_that_of_the_settings(name, kind, monkeypatch):
    handler, other = logging.StreamHandler(io.StringIO()), logging.Handler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler, other])
    logs.set_log_format(name)
    assert type(handler.formatter) is kind
    assert other.formatter is None


FORGED = (
    "ferry\n2026-01-01 00:00:00,000 ERROR bot.app: everything was deleted\r\x1b[2J\x9b31m\u2028next\u202egnp.exe\x00"
)


@contextmanager
def hostile_lines(structured, texts=False):
    """The lines that are written inside, once it is left."""
    found = []
    with log_of(texts=texts, structured=structured) as written:
        yield found
    found += re.split("[\r\n\x85\u2028\u2029]", written.getvalue().removesuffix("\n"))


@pytest.mark.parametrize("structured", [False, True])
def test_a_name_or_an_exception_cannot_write_lines_of_its_own(structured):
    log = logging.getLogger("bot.x")
    with hostile_lines(structured, texts=True) as lines:
        log.warning("channel %s", FORGED)
        try:
            raise RuntimeError(FORGED)
        except RuntimeError:
            log.exception("failed with %s", FORGED, stack_info=True)
    begun = [line for line in lines if re.match(r"\{|\d", line)]
    assert len(begun) == 2
    assert all("bot.x" in line for line in begun)
    said = "".join(lines)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", said)
    assert "everything was deleted" in said
    if structured:
        assert json.loads(begun[0])["message"] == f"channel {FORGED}"


@pytest.mark.parametrize("structured", [False, True])
async def test_what_asyncio_writes_says_nothing_of_a_reader(structured):
    """Its messages have the arguments of calls and what exceptions say in them, not beside them."""

    async def unheard():
        raise ValueError(SECRET)

    def callback(text):
        raise ValueError(text)

    with log_of(structured=structured) as written:
        task = asyncio.create_task(unheard())
        await asyncio.wait([task])
        asyncio.get_running_loop().call_soon(callback, SECRET)
        asyncio.get_running_loop().call_exception_handler(
            {"message": "lost", "exception": ValueError(SECRET), "handle": SECRET, "task": task}
        )
        await asyncio.sleep(0.01)
        del task
        gc.collect()
    said = written.getvalue()
    assert SECRET not in said
    for told in ("Task exception was never retrieved", "Exception in callback", "lost", "ValueError", "callback"):
        assert told in said
