import asyncio
import shutil
import sqlite3
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import pytest_asyncio

from bot.__main__ import main  # isort: skip  # before aiogram, whose types are then built when they are first used
from driven_sandbox import DrivenSandbox, running_bot
from driver import ADMIN, CREW, GROUP, HARBOUR, KILN, OTTO, RITA, SAFE, CommandResult, index_posts, make_local_bot
from share_aiogram_between_bots import share_between_bots

from bot.settings import Settings
from rag_core import RagSettings, open_engine
from rag_core.types import Channel, Post, PostKey, Visibility

share_between_bots()  # every test has a bot of its own

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split()
FLAGS += ["--disable-component-update", "--disable-sync"]
FLAGS += ["--host-resolver-rules=MAP evil.example 127.0.0.1"]  # a name that its owner points at this machine

TOKEN = "42:" + "SANDBOX-" * 4 + "abc"  # as long as a real one: the check of all output looks for it

CHANNELS = [
    Channel(HARBOUR, "Harbour News", "harbour_news", visibility=Visibility.PUBLIC),
    Channel(KILN, "Печь и глина", "pech_i_glina", visibility=Visibility.PUBLIC),
    Channel(CREW, "Crew only", visibility=Visibility.MEMBERS),
    Channel(SAFE, "The safe"),
]
TEXTS = {
    HARBOUR: [
        "The ferry to Owl Island leaves at 7:30 every morning from pier four.",
        "Fresh mackerel is sold on the quay on Fridays.",
        "The lighthouse museum shows old brass lamps until October.",
        "Please keep dogs on a leash near the bird cliffs.",
    ],
    KILN: [
        "Запись на осенний курс керамики открывается пятого сентября.",
        "Обжиг проходит по четвергам, забирайте изделия после шести вечера.",
        "Новая глазурь цвета морской волны уже на полке.",
        "Мастерская закрыта в дни городского марафона.",
    ],
    CREW: ["The boathouse padlock opens with the digits 4417.", "Paddles hang behind the blue door."],
    SAFE: ["The treasurer hid the silver trophy under the staircase.", "Ledger pages are counted twice."],
}


def written(chat_id, texts):
    start = datetime(2024, 3, 12, 9, tzinfo=UTC)
    return [Post(PostKey(chat_id, 10 + n), start + timedelta(days=n), text) for n, text in enumerate(texts)]


async def fill(folder):
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        await index_posts(rag, [post for chat, texts in TEXTS.items() for post in written(chat, texts)], CHANNELS)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
def home(filled, tmp_path):
    """A data folder of its own, with four channels in the archive and the index."""
    return shutil.copytree(filled, tmp_path / "data")


@pytest.fixture
async def sandbox():
    sandbox = DrivenSandbox(token=TOKEN)
    world = sandbox.world
    world.add_person(RITA, "Rita", lang="ru")
    world.add_person(OTTO, "Otto", lang="en")
    world.add_person(ADMIN, "Ada", lang="en")
    world.add_group(GROUP, "Neighbours", members=[OTTO, RITA, ADMIN], forum=True, bot="administrator")
    for channel in CHANNELS:
        world.add_channel(channel.chat_id, channel.title, channel.username, members=[ADMIN])
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


@pytest.fixture
async def bot(sandbox):
    """Who speaks to the sandbox as a bot does, in files that have a sandbox of their own as well."""
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        yield bot


@asynccontextmanager
async def launch_browser():
    api = pytest.importorskip("playwright.async_api", reason="playwright drives the browser")
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
async def browser():
    async with launch_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _module_browser():
    async with launch_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def shared_browser(_module_browser):
    """One browser for the tests of a file, all in one event loop: to start it takes a second of processor time."""
    yield _module_browser
    for context in _module_browser.contexts:
        await context.close()


async def publish_no_menu(*_):
    """Three quarters of the calls of a start, for the tests of other things."""


@pytest.fixture
def live(sandbox, home, monkeypatch):
    """Runs the real bot on the sandbox; it ends as it does on SIGTERM.

    The menu is published in the test of it only.
    """
    monkeypatch.setattr("bot.app.publish_menu", publish_no_menu)

    @asynccontextmanager
    async def run(admins=(ADMIN,), watch=None, sections=None, **bot):
        given = {"token": sandbox.token, "api": sandbox.url, "admins": admins, **bot}
        settings = Settings.model_validate({"bot": given, "data": {"dir": home}, **(sections or {})})
        async with running_bot(settings, watch):
            yield

    return run


@pytest.fixture
async def live_bot(live):
    """The real bot, from the first line of a test to its last; it stands last among the arguments."""
    async with live():
        yield


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """On a slow machine an answer takes longer than a reader is left without a word, and in a group the first message
    would be that word. Tests of what is said meanwhile set this back.
    """
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 60.0)


class Eyes:
    """A watch that knows which texts the word index has taken in."""

    def __init__(self):
        self.texts = set()
        self._bell = asyncio.Event()

    def show_answer(self, chat_id, message_id, answer):
        """Not looked at."""

    def show_progress(self, leg, waiting, taken):
        self.texts |= {post.text for post in taken}
        self._bell.set()

    async def see(self, text, within=5.0):
        async with asyncio.timeout(within):
            while text not in self.texts:
                self._bell.clear()
                await self._bell.wait()


@pytest.fixture
def eyes():
    return Eyes()


@pytest.fixture
def ask(sandbox, home):
    """Says something and gives the bot's answer, once it is kept as well: what follows may speak of it."""

    async def asked(who, text, chat_id=None, **more):
        await sandbox.say(who, text, chat_id=chat_id, **more)
        (reply,) = await sandbox.replies(chat_id or who)
        with closing(sqlite3.connect(home / "citegram.db")) as archive:
            sql = "SELECT count(*) FROM questions WHERE state IN ('queued', 'running')"
            async with asyncio.timeout(30):
                while archive.execute(sql).fetchone()[0]:  # noqa: ASYNC110 - the archive rings no bell
                    await asyncio.sleep(0.01)
        return reply

    return asked


@pytest.fixture
def run_command(capsys):
    """`citegram` with these words, in this process."""

    def run(*words):
        capsys.readouterr()
        try:
            code = main([*map(str, words)])
        except SystemExit as exc:
            code = int(exc.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return run


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A working folder without .env, and no model that would be fetched; no setting is in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODELS__EMBEDDER", "none")
    return tmp_path


@pytest.fixture
def evaluate(nowhere, run_command, monkeypatch):
    """`citegram eval` in a folder without settings and without a model."""
    monkeypatch.setattr("bot.evaluation.metrics.BOOTSTRAP_DRAWS", 50)  # a thousand take a second
    return partial(run_command, "--data", "data", "eval")
