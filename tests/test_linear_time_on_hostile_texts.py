"""What strangers write costs processor time in proportion to its length, in every function that reads text.

Functions are found, not listed: every module-level function of the three packages whose arguments can be made of a
hostile text (`hostile_function_arguments`) is called on each pattern. What cannot be called is written out here with
its reason.
"""

import functools
import gc
import importlib
import inspect
import logging
import pkgutil
import signal
import time
from contextlib import contextmanager, suppress

import pytest
from hostile_function_arguments import CannotBuild, make_hostile_argument, make_hostile_arguments

import bot
import ingest
import rag_core
from rag_core.answer import answer_question
from rag_core.text.names import _sound_alike
from rag_core.text.tokens import read_word
from rag_core.verification.verify import verify_text

LENGTH = 4000  # characters: what one message has at most
MOST_S = 0.25
# Where half the text takes less than this, nothing is said of the growth.
FLOOR_S = 0.04
MOST_GROWTH = 3.2  # of twice the text: 2 is linear, 4 is quadratic
ATTEMPTS = 8
# Processor time of `known_work` on a quiet machine: MOST_S is longer where that takes longer.
KNOWN_WORK_S = 0.0015

PATTERNS = ["не ", "Anna Ivanova ", ".", "1 ", "monday ", "Анна и ", "a@a."]
# All words differ, and all begin alike: no cache and no index by the first letters helps.
DIFFERENT = ["w{0} ", "Учител{1}{2} ", "{3}.{4:02}.20{5:02} "]
# One long run that ends in something else: rules that can cut it in many ways try them all.
ENDING = ["a", " ", "1"]
# Those that nearly every check of words or signs has been slow with; the rest is for what reads sentences.
FEW = ["не ", "Anna Ivanova ", ".", "w{0} ", "a…!"]

# No reader's and no poster's text gets there.
NOT_REACHED = {
    "rag_core.llm": "talks to a model",
    "rag_core.models.onnx_conversion": "builds a model",
    "rag_core.models.download": "downloads models",
    "rag_core.models.onnx_models": "loads networks from files of the catalog",
    "rag_core.index.vectors_edge": "numbers, not texts",
    "rag_core.index.edge_shard_process": "numbers, not texts",
    "rag_core.index.vector_sketch": "numbers, not texts",
    "rag_core.index.vector_store": "numbers, not texts",
    "rag_core.index.vectors_qdrant": "talks to a server",
    "rag_core.processes": "starts processes: its arguments are the bot's",
    "ingest.media.pictures": "pixels, in a process with limits",
    "ingest.media.voices": "sound, in a process with limits",
    "ingest.rebuild": "a program of its own: its arguments are the bot's",
    "bot.__main__": "runs on import; its arguments are the administrator's",
    "bot.cli": "commands of the terminal: their arguments are the administrator's",
    "bot.doctor": "a command of the terminal: reads settings and files",
    "bot.evaluation": "commands of the terminal: read the developer's questions",
    "bot.sandbox": "stands in for Telegram in tests and in the demo",
}
# Functions that change the process in which they are called.
NOT_CALLED = {
    "ingest.exports.main": "ends its process",
    "bot.logs.set_up_logging": "sets up the log",
    "bot.logs.set_log_format": "sets up the log",
    "bot.logs.set_text_logging": "sets up the log",
    "bot.logs.register_secrets": "hides its argument, a secret of the administrator, in all output from then on",
}
# Types that no text can be part of, by their exact names. A function that takes another sort of thing must be made
# callable, or its type be named here.
NOT_MADE = {
    "aiogram.client.bot.Bot": "the client of the Bot API",
    "aiogram.dispatcher.router.Router": "the router that handlers are registered with",
    "aiogram.exceptions.TelegramBadRequest": "an error of the Bot API",
    "aiogram.exceptions.TelegramForbiddenError": "an error of the Bot API",
    "aiohttp.web_protocol.RequestHandler": "a connection",
    "aiohttp.web_request.Request": "a request, read by its library",
    "_contextvars.ContextVar[~T]": "a variable of the code",
    "asyncio.streams.StreamWriter": "a connection",
    "asyncio.timeouts.Timeout": "a clock",
    "bot.access.AdminRegistry": "the admins of a bot, and its archive",
    "bot.api.Application": "who is asked, with an archive",
    "bot.jobs.JobLog": "the archive",
    "builtins.module": "a module that is imported",
    "collections.abc.Awaitable[dict[str, typing.Any]]": "a tool",
    "collections.abc.Awaitable[str | None]": "a job",
    "collections.abc.Awaitable[str]": "a call that waits",
    "collections.abc.Hashable": "a key of a cache",
    "dataclasses.Field[typing.Any]": "a column of the archive",
    "pathlib.Path": "a file, read by its caller",
    "pydantic.type_adapter.TypeAdapter[typing.Any]": "what a handler takes, by its signature",
    "pydantic_core._pydantic_core.ValidationError": "an error of a library",
    "rag_core.index.lexical_index.LexicalIndex": "an open index",
    "rag_core.llm.protocol.LanguageModel": "a language model",
    "rag_core.models.onnx_conversion.E5File": "the weights of a model, with a known checksum",
    "rag_core.index.vectors_qdrant.QdrantConnection": "a server",
    "rag_core.storage.db.Archive": "the archive",
    "rag_core.retrieval.post_search.WatchIndex": "an open index",
    "re.Pattern[str]": "a rule",
    "socket.socket": "a connection",
    "sqlite3.Connection": "the archive",
    "sqlite3.Row": "a row of the archive",
    "starlette.requests.Request": "a request, read by its library",
    "type[aiogram.utils.formatting.Text]": "a style",
    "type[BaseException]": "an error",
    "type[pydantic.main.BaseModel]": "a form of a model's call",
    "type[rag_core.errors.RagError]": "an error",
    "typing.TextIO": "an open file",
    "zipfile.ZipFile": "a file, read by its caller",
}
# Functions that cannot be called for another reason, by their exact names.
NOT_CALLABLE = {
    "bot.background.spawn": "a coroutine, which it starts",
    "bot.telegram.ephemeral._list_replies": "a call to Telegram",
    "bot.telegram.recheck._is_for_one": "a call to Telegram",
    "bot.telegram.session._check_wait": "a method of the Bot API, with the client in its annotations",
    "ingest.messages._compose_text": "a rich message that was read (test_parsing_of_every_update)",
    "ingest.messages._list_object_steps": "a rich message that is being read; read_rich_message is called whole",
    "bot.control._open_connector": "a connector of a library that is imported late",
    "bot.logs.collect_secrets": "any model of settings",
    "rag_core.retrieval.search.run_beside": "a coroutine, which it starts",
    "rag_core.storage.post_rows.decode_row": "any dataclass",
    "rag_core.models.catalog.check_model_files": "a tree of JSON with the names of model files",
    "rag_core.models.catalog.is_model_present": "a tree of JSON with the names of model files",
    "rag_core.models.catalog.verify_model_checksums": "a tree of JSON with the names of model files",
    "rag_core.models.catalog.name_vector_space": "a row of the catalog, which holds rows; no text of others",
}


def modules():
    for package in (rag_core, ingest, bot):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(found.name == name or found.name.startswith(f"{name}.") for name in NOT_REACHED):
                yield importlib.import_module(found.name)


def functions():
    """Every function of the modules, private ones too, by its full name; coroutines are tested through the whole."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            plain = inspect.unwrap(value) if callable(value) else value
            if not inspect.isfunction(plain) or value.__module__ != module.__name__:
                continue
            if not inspect.signature(plain).parameters:
                continue
            if not (inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)):
                found[f"{module.__name__}.{name}"] = value
    return {name: value for name, value in found.items() if name not in NOT_CALLED}


def texts():
    made = {pattern: make_hostile_argument(pattern, LENGTH) for pattern in PATTERNS}
    for pattern in DIFFERENT:
        row = (
            pattern.format(n, chr(1072 + n % 32), chr(1072 + n // 32 % 32), n % 28 + 1, n % 12 + 1, n % 30)
            for n in range(1500)
        )
        made[pattern] = "".join(row)[:LENGTH]
    for sign in ENDING:
        made[f"{sign}…!"] = sign * (LENGTH - 1) + "!"
    return made


class TooSlow(BaseException):
    """The processor time is up."""


@contextmanager
def stopped_after(seconds):
    def stop(*_):
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def make_arguments(function, text):
    return make_hostile_arguments(function, text, f"Паром {text}"[:LENGTH])


def seconds(function, arguments):
    begun = time.process_time()
    with suppress(TooSlow, Exception, SystemExit), stopped_after(4 * MOST_S):
        found = function(**arguments)
        if inspect.isgenerator(found):
            list(found)
    return time.process_time() - begun


def seconds_anew(function, text, caches):
    """The processor time of one call, with nothing remembered from the calls before."""
    arguments = make_arguments(function, text)
    clear(caches)
    return seconds(function, arguments)


def clear(caches):
    for cache in caches:
        cache.cache_clear()


def caches():
    gc.unfreeze()  # conftest.py freezes what was loaded with the tests, and that is left out of the list
    found = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    gc.freeze()
    ours = [one for one in found if (one.__module__ or "").split(".")[0] in {"rag_core", "ingest", "bot"}]
    return [one for one in ours if inspect.signature(one).parameters]  # constants are worked out once


@pytest.mark.timeout(300)
def test_every_function_reads_hostile_text_in_linear_time(tmp_path, monkeypatch):
    """First half the text: what reads it quickly is not slow with all of it (`too_slow` says what slow is).

    All functions read one text before the next one comes, so that what is remembered of it is worked out once, in the
    time of whoever asks for it first.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    read_word("слово")  # loads the dictionary, once in a process
    called = functions()
    kept, slow, unknown = caches(), {}, {}
    assert len(kept) > 10
    for pattern, text in texts().items():
        prepared = {}
        for name, function in called.items():
            if name in slow or name in unknown or not (pattern in FEW or name.startswith("rag_core.")):
                continue
            try:
                prepared[name] = make_arguments(function, text[: LENGTH // 2])
            except CannotBuild as exc:
                unknown[name] = str(exc)
        clear(kept)
        suspected = [name for name, arguments in prepared.items() if seconds(called[name], arguments) > FLOOR_S]
        for name in suspected:
            if found := too_slow(called[name], text, kept):
                slow[name] = f"{name} {pattern!r}: {found}"
    new = {name: why for name, why in unknown.items() if not named(name, why)}
    assert not new, "no arguments can be made for these: teach hostile_function_arguments, or give a reason in NOT_MADE"
    assert sorted(NOT_CALLABLE.keys() - unknown.keys()) == [], "these can be called by now"
    assert len(called) - len(unknown) > 600
    assert not slow


def named(function, why):
    """Whether there is a reason that no arguments are made for a function; of a union, one for each of its types."""
    return function in NOT_CALLABLE or all(one in NOT_MADE for one in why.split("; "))


def known_work():
    """The processor time of the same work each time: how much this machine is slowed down by others now."""
    begun = time.process_time()
    sorted(str(n) for n in range(20_000))
    return time.process_time() - begun


def too_slow(function, text, kept):
    """What is wrong with the time that a function takes; nothing where it is right.

    The best of some calls counts: other processes on the machine slow down this one's processor time as well. One
    that is too slow by itself is so at every call.
    """
    taken = seconds_anew(function, text, kept)
    if taken <= MOST_GROWTH * FLOOR_S:
        return ""
    half, found = float("inf"), ""
    for _ in range(ATTEMPTS):
        half = min(half, seconds_anew(function, text[: LENGTH // 2], kept))
        if taken > MOST_S * min(3.0, max(1.0, known_work() / KNOWN_WORK_S)):  # calls are stopped at four
            found = f"{taken:.2f} s"
        elif half > FLOOR_S and taken > MOST_GROWTH * half:
            found = f"{taken / half:.1f} times that of half the text"
        else:
            return ""
        taken = min(taken, seconds_anew(function, text, kept))
    return found


async def test_verdicts_and_answers_among_hostile_posts_cost_a_second_at_most(empty_library, make_post):
    """Each text stands three times in the archive, is claimed, and is asked."""
    every = texts()
    await empty_library.keep(
        *(
            make_post(10 * n + m, f"Паром {m}: {text}" if m else text, chat=empty_library.harbour)
            for n, text in enumerate(every.values(), 1)
            for m in range(3)
        )
    )
    slow = []
    for pattern, text in every.items():
        for work, longest in ((verify_text, LENGTH), (answer_question, 1000)):
            question = empty_library.question(text[:longest])
            begun = time.process_time()
            await work(question, empty_library.rag)
            if (taken := time.process_time() - begun) > 1.0:
                slow.append(f"{work.__name__} {pattern!r}: {taken:.2f} s")
    assert not slow


@pytest.mark.parametrize("letter", ["q", "в"])
def test_two_names_of_thousands_of_letters_are_compared_in_little_time(letter):
    begun = time.process_time()
    assert _sound_alike(letter * LENGTH, letter * LENGTH)
    assert not _sound_alike(letter * LENGTH, letter * (LENGTH - 1))
    assert time.process_time() - begun < MOST_S
