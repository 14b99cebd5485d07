"""`make image-check`: the image is built and run, as a person would who follows deploy/README.md.

Built from deploy/Dockerfile; started read-only, as user 10001, with what deploy/compose.yaml holds the bot to and a
network of loopback alone: a demo, doctor, health and readiness, SIGTERM, a real model, a backup that is put back, an
upgrade over the last change of the archive's tables and the way back, kills under load. Figures are printed; what does
not hold ends the run with exit code 1. Where podman is not there, that is said, and nothing was checked.
"""

import argparse
import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script

from chaos.bot_process import BotProcess
from chaos.channel_traffic import CHANNELS
from chaos.kill_loop import Chaos, Plan, run_kills
from chaos.offline_models import offline_models
from driven_sandbox import DrivenSandbox
from podman import ROOT, USER, Container, build, configure, enter_loopback, find_missing, podman

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.download import pull_model

IMAGE, BEFORE = "localhost/citegram-check:now", "localhost/citegram-check:before"
MOST_BYTES, MOST_SECONDS_TO_STOP, MOST_SECONDS_TO_START = 1.2e9, 10.0, 180.0
_PORT, _READER = 19464, 10_001
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "citegram" / "models"
_QUESTION = "When does the ferry zq7777x leave?"
_POST = "The ferry zq7777x leaves at 07:45 from the north pier."
_IMPORTS = (
    "import av, docx, faster_whisper, llama_cpp, mcp, openpyxl, PIL, pypdfium2, qdrant_client, qdrant_edge, telethon"
)
_TOOLS = "command -v gcc g++ cc make cmake ninja git curl; ls -d /build ~root/.cache /opt/.citegram-build"
_SAVE_CHANNELS = """
import asyncio, pathlib
from rag_core.storage import Archive, channels
from rag_core.types import Channel, Visibility
async def save():
    archive = await Archive.open(pathlib.Path("/data"))
    for chat, title, username in KNOWN:
        await channels.save_channel(archive, Channel(chat, title, username, visibility=Visibility.PUBLIC))
    await archive.close()
asyncio.run(save())
"""

failed = []


def expect(holds, otherwise):
    if not holds:
        print(f"  WRONG: {otherwise}", flush=True)
        failed.append(otherwise)


def tell(what, said):
    print(f"{what:10}{said}", flush=True)


def get_page(page):
    """The status and the words of a page of the bot's monitoring; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/{page}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()
    except OSError:
        return 0, ""


async def wait_for(page):
    """Seconds until the page says 200. Raises TimeoutError with what it says instead."""
    started = time.monotonic()
    while (found := await asyncio.to_thread(get_page, page))[0] != 200:
        if time.monotonic() - started > MOST_SECONDS_TO_START:
            raise TimeoutError(f"/{page} after {MOST_SECONDS_TO_START:.0f} s: {found}")
        await asyncio.sleep(0.05)
    return time.monotonic() - started


@contextmanager
def new_volume():
    """The name of a volume, made as Compose makes it, and removed in the end."""
    name = podman("volume", "create")
    try:
        yield name
    finally:
        podman("volume", "rm", "--force", name)


@dataclass
class Scene:
    """A volume of /data, and a Telegram with channels and a reader."""

    volume: str
    sandbox: DrivenSandbox

    @asynccontextmanager
    async def bot(self, image=IMAGE, *more, **settings):
        """A bot that runs here, once it is ready. It is removed in the end."""
        usual = {"BOT__TOKEN": self.sandbox.token, "BOT__API": self.sandbox.url, "MONITORING__PORT": str(_PORT),
                 "BOT__ADMINS": "900", "MODELS__EMBEDDER": "none", "MODELS__RERANKER": "none"}  # fmt: skip
        with Container(image, self.volume, usual | settings, more=more) as container:
            try:
                await wait_for("readyz")
            except TimeoutError as exc:
                raise RuntimeError(f"{exc}\n{container.log()[-3000:]}") from exc
            yield container

    def run(self, *words, image=IMAGE, more=()):
        """What a command says in a container of its own; it must end with 0."""
        done = Container(image, self.volume, {"MODELS__EMBEDDER": "none"}, words, more).run()
        expect(done.returncode == 0, f"{' '.join(words)[:60]}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def prepare(self, image):
        """Let that image's version write an archive that knows the channels."""
        known = [(one.chat_id, one.title, one.username) for one in CHANNELS]
        self.run("-c", _SAVE_CHANNELS.replace("KNOWN", repr(known)), image=image, more=("--entrypoint=python",))

    async def ask(self, text=_QUESTION):
        """A reader's question; the answer as it is when no more comes."""
        sent, before = self.sandbox.world.sent, len(self.sandbox.world.sent.get(_READER, ()))
        await self.sandbox.say(_READER, text)
        if not await self.sandbox.until(lambda: len(sent.get(_READER, ())) > before, 180):
            return "no answer"
        return str(self.sandbox.world.room(_READER).messages[sent[_READER][-1]].get("text", ""))

    async def expect_answer(self, when):
        said = await self.ask()
        expect("07:45" in said, f"{when} the post was not found: {said!r}")

    async def post(self, text=_POST):
        """A post that is indexed when this ends."""
        await self.sandbox.post(CHANNELS[0].chat_id, text)
        if not await self.sandbox.until(lambda: not self.sandbox.world.queue.kept, 60):
            raise TimeoutError("the bot took no post")
        await asyncio.sleep(3)  # a round of the lexical leg

    async def stop(self, container, when):
        """SIGTERM: it ends by itself, in time."""
        seconds, code = await asyncio.to_thread(container.stop)
        tell("SIGTERM", f"{seconds:.1f} s {when}")
        expect(code == 0 and seconds < MOST_SECONDS_TO_STOP, f"{when} it ended with {code}: {container.log()[-1500:]}")


@asynccontextmanager
async def new_scene(image=IMAGE):
    """A scene whose archive was begun by that image."""
    sandbox = DrivenSandbox()
    sandbox.world.add_person(_READER, "Rita", lang="en").started = True
    for one in CHANNELS:
        sandbox.world.add_channel(one.chat_id, one.title, one.username, members=[_READER])
    await sandbox.start()
    with new_volume() as volume:
        try:
            scene = Scene(volume, sandbox)
            scene.prepare(image)
            yield scene
        finally:
            await sandbox.stop()


def check_contents():
    """What is in the image, who runs in it, and where that user may write."""
    expect(get_image_size(IMAGE) < MOST_BYTES, f"the image has more than {MOST_BYTES / 1e6:.0f} MB")
    with new_volume() as volume:
        shell = partial(Container, IMAGE, volume, more=["--entrypoint=/bin/sh"])
        done = shell(words=["-ec", f"python -c '{_IMPORTS}'; id -u; tesseract --list-langs"]).run()
        expect({str(USER), "rus", "eng"} <= set(done.stdout.split()), f"what runs in it: {done.stdout}{done.stderr}")
        tools = shell(words=["-c", _TOOLS]).run().stdout
        expect(not tools, f"tools of the build are in the image: {tools}")
        done = shell(words=["-c", "cat /proc/self/status; touch /opt/citegram/x /etc/x /x"]).run()
        expect("CapEff:\t0000000000000000" in done.stdout and "NoNewPrivs:\t1" in done.stdout, "it has capabilities")
        expect(done.stderr.count("Read-only file system") == 3, f"its root can be written: {done.stderr}")
        started = time.monotonic()
        done = Container(IMAGE, volume, words=["demo", "--once", "When does the library open?"]).run()
        tell("demo", f"answered after {time.monotonic() - started:.1f} s")
        expect(done.returncode == 0 and "10" in done.stdout, f"the demo: {done.stdout}{done.stderr}")


def get_image_size(name):
    return int(podman("image", "inspect", "--format", "{{.Size}}", name))


async def check_unreachable_telegram():
    """A token and no Telegram: alive, not ready, says why; obeys SIGTERM."""
    settings = {"BOT__TOKEN": "123456:" + "A" * 35, "MONITORING__PORT": str(_PORT), "MODELS__EMBEDDER": "none"}
    with new_volume() as volume, Container(IMAGE, volume, settings) as bot:
        tell("alive", f"{await wait_for('healthz'):.1f} s after the start, without Telegram")
        code, reasons = get_page("readyz")
        expect(code == 503 and "telegram" in reasons, f"/readyz without Telegram: {code} {reasons}")
        podman("healthcheck", "run", bot.name)
        done = bot.exec("citegram", "doctor")
        expect("BAD" in done.stdout and "Traceback" not in done.stderr, f"doctor: {done.stdout}{done.stderr}")
        seconds, ended = bot.stop()
        tell("SIGTERM", f"{seconds:.1f} s without Telegram")
        expect(ended == 0 and seconds < MOST_SECONDS_TO_STOP, f"it ended with {ended}: {bot.log()[-1500:]}")


async def check_backup():
    """Half a gigabyte is enough by words; a lost archive comes back from the backup that was made beside the bot."""
    async with new_scene() as scene:
        started = time.monotonic()
        async with scene.bot(IMAGE, "--memory=512m") as bot:
            tell("ready", f"{time.monotonic() - started:.1f} s after the start")
            await scene.post()
            await scene.expect_answer("by words")
            tell("memory", f"{bot.memory() / 1e6:.0f} MB by words, of 512")
            for command in ("doctor", "backup"):
                done = await asyncio.to_thread(bot.exec, "citegram", command)
                expect(done.returncode == 0, f"{command} beside the bot: {done.stdout}{done.stderr}")
            await scene.stop(bot, "by words")
        scene.run("-c", "rm -r /data/citegram.db* /data/lexical*", more=("--entrypoint=/bin/sh",))
        scene.run("restore")
        async with scene.bot() as bot:
            await scene.expect_answer("after the restore")


async def check_writer(gguf):
    """A real model, mounted for reading only: it writes, in the memory that Compose gives; SIGTERM in the midst."""
    mount = f"--volume={gguf}:/models/model.gguf:ro"
    async with new_scene() as scene:
        async with scene.bot(IMAGE, mount, LLM__MODEL="/models/model.gguf", ANSWER__SECONDS="120") as bot:
            await scene.post()
            started = time.monotonic()
            await scene.expect_answer("with the model")
            tell("writer", f"answered after {time.monotonic() - started:.1f} s")
            done = await asyncio.to_thread(bot.exec, "citegram", "doctor")
            measured = re.search(r"reads [\d,]+ and writes [\d.,]+ tokens/s", done.stdout)
            expect(done.returncode == 0 and measured, f"doctor on the model: {done.stdout}{done.stderr}")
            tell("model", f"{measured and measured[0]}, {bot.memory() / 1e6:.0f} MB of memory")
            await scene.sandbox.say(_READER, "What do the posts say about the ferry and its pier, and why?")
            await asyncio.sleep(3)
            await scene.stop(bot, "while the model writes")
        done = Container(IMAGE, scene.volume, {"LLM__MODEL": "/models/model.gguf"}, ["doctor"], ["--memory=1g", mount])
        expect("of memory" in (said := done.run().stdout), f"doctor is content with 1 GB for the model: {said}")


async def check_upgrade():
    """From the version before with its volume to this one, and back by the backup that the upgrade made."""
    async with new_scene(BEFORE) as scene:
        async with scene.bot(BEFORE) as bot:
            await scene.post()
            await scene.expect_answer("in the version before")
            await scene.stop(bot, "of the version before")
        async with scene.bot() as bot:
            await scene.expect_answer("after the upgrade")
            await scene.post("The market zq8888x is open on Sundays.")
            done = await asyncio.to_thread(bot.exec, "sh", "-c", "ls /data/backups/*-version*.db")
            made = done.stdout.split()
            expect(made, "the upgrade made no backup")
            await scene.stop(bot, "after the upgrade")
        scene.run("restore", *made)
        async with scene.bot(BEFORE):
            await scene.expect_answer("after the way back")
        tell("upgrade", "over the last change of the tables, and back")


class ContainerProcess(BotProcess):
    """One life of the bot in a container, on a folder."""

    def __init__(self, home, sandbox):
        self._home, self._sandbox = home, sandbox
        models = ["--volume", f"{home.models}:{home.models}:ro"] if home.models else []
        settings = home.environment(sandbox) | {"DATA__DIR": "/data", "MONITORING__PORT": "0"}
        self._container = Container(IMAGE, str(home.data), settings, more=models)
        self._started = None
        self._first = 0

    async def begin(self):
        for path in (self._home.data, *self._home.data.rglob("*")):
            os.chown(path, USER, USER)
        with self._home.log.open("ab") as log:
            self._started = await asyncio.create_subprocess_exec(
                "podman", *self._container.command("--rm"), stdout=log, stderr=log
            )
        while not self._first and self.over is None:
            self._first = await asyncio.to_thread(self._container.find_first_process)

    @property
    def pid(self):
        return self._first or None

    @property
    def over(self):
        code = self._started.returncode if self._started else None
        return -signal.SIGKILL if code == 128 + signal.SIGKILL else code


async def check_kills(folder, kills, models):
    """Kills of the container while channels live on and people ask: nothing is lost, nothing is there twice."""
    plan = Plan(kills=kills, updates=100 * kills, rate=25, questions=1)
    metrics, wrong = await run_kills(Chaos(plan, folder, models, ContainerProcess))
    names = ("kills", "kills_before_ready", "updates", "posts", "questions", "lost", "twice", "stale", "tracebacks")
    tell("kills", ", ".join(f"{metrics[name]} {name.replace('_', ' ')}" for name in names))
    expect(not wrong and not metrics["tracebacks"], "; ".join(wrong[:10]) or "a bot ended with a traceback")


def export_before(folder):
    """The program as it was before the last change of the archive's tables, with the libraries of today; its commit."""
    git = partial(subprocess.run, cwd=ROOT, check=True, capture_output=True)
    changed = git(["git", "log", "-1", "--format=%h", "--", "rag_core/storage/schema.py"]).stdout.decode().strip()
    packed = git(
        ["git", "archive", f"{changed}^", "rag_core", "ingest", "bot", "pyproject.toml", "README.md", "LICENSE"]
    )
    subprocess.run(["tar", "-C", str(folder), "-xf", "-"], input=packed.stdout, check=True)
    for name in ("requirements-build.lock", "requirements-image.lock", "deploy/build.sh", ".dockerignore"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return f"{changed}^"


def copy_for_others(models, folder):
    """A copy in the folder that the container's user may read, which the cache is not."""
    folder.chmod(0o755)
    if models:
        models = Path(shutil.copytree(models, folder / "models"))
        subprocess.run(["chmod", "-R", "a+rX", str(models)], check=True)
    return models


def find_writer():
    """The offline writer, downloaded where it is missing; None where it cannot be had."""
    (row,) = find_models(ModelTier.OFFLINE_WRITER)
    try:
        return asyncio.run(pull_model(row, _CACHE)) / row.file
    except ModelUnavailable as exc:
        print(f"Checked without a writer: {exc.reason}")
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="kills of the container under load")
    kills, begun = parser.parse_args().kills, time.monotonic()
    if missing := find_missing():
        print(f"image-check did not run: it needs {missing}. Debian has them: podman runc debootstrap catatonit.")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="citegram-image-"))
    configure(folder)
    tell("built", f"in {build(ROOT, IMAGE, folder) / 60:.1f} minutes, {get_image_size(IMAGE) / 1e6:.0f} MB")
    (context := folder / "before").mkdir()
    tell("before", f"{export_before(context)}, built in {build(context, BEFORE, folder) / 60:.1f} minutes")
    gguf, models = find_writer(), copy_for_others(offline_models(None), folder)
    enter_loopback()
    check_contents()
    asyncio.run(check_unreachable_telegram())
    asyncio.run(check_backup())
    asyncio.run(check_upgrade())
    if gguf:
        asyncio.run(check_writer(gguf))
    asyncio.run(check_kills(folder, kills, models))
    shutil.rmtree(folder)
    print(f"image-check took {(time.monotonic() - begun) / 60:.1f} minutes: {'; '.join(failed) or 'all held'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
