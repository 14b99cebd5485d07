"""The sdist and the wheel: what they hold, and the program from an environment that knows nothing of the repository.

`make wheel-check PYTHONS='python3.12 python3.13'` installs it into an empty environment of each of these Pythons.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE, STDOUT

import pytest
from dockerfile_stages import trim_image
from driven_sandbox import DrivenSandbox

pytestmark = pytest.mark.slow

PYTHONS = os.environ.get("CITEGRAM_PYTHONS", "").split()
ADA = 501
POST = {"id": 1, "type": "message", "date_unixtime": "1790000000", "text": "The water has 14 degrees, bring a towel."}
EXPORT = json.dumps({"name": "Quarry", "type": "public_channel", "id": 77, "messages": [POST]})
# Settings of whoever runs the tests are taken away by conftest.py; the repository must not be on the path either.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(*command, cwd, code=0, stdin="", **settings):
    """Standard output and error of a program; the test fails with them where it ends with another exit code."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=CLEAN | settings, input=stdin, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-4000:]
    return done.stdout


def list_tracked(root, *folders):
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders, cwd=root)
    return {name for name in listed.splitlines() if (root / name).is_file()}


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    """The sdist of the files that git knows, beside what a person's checkout also holds, and the wheel made of it."""
    folder = tmp_path_factory.mktemp("wheel")
    source, tools = folder / "source", folder / "tools"
    for name in list_tracked(root):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, source / name)
    for name in (".env", "data/citegram.db", ".venv/pyvenv.cfg", "bot/__pycache__/app.cpython-311.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("a person's own")
    lock = folder / "build.lock"
    shutil.copy(root / "requirements-build.lock", lock)
    trim_image(lock, {"hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"})
    run(sys.executable, "-m", "venv", "--without-pip", tools, cwd=folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", tools / "bin" / "python")
    run(*pip, "install", "-q", "--require-hashes", "-r", lock, cwd=folder)
    run(tools / "bin" / "hatchling", "build", "-t", "sdist", "-d", folder / "dist", cwd=source)
    (sdist,) = folder.glob("dist/*.tar.gz")
    run(*pip, "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder / "dist", sdist, cwd=folder)
    (wheel,) = folder.glob("dist/*.whl")
    return sdist, wheel


def test_both_hold_the_project_and_nothing_of_the_person_who_builds(root, built):
    sdist, wheel = built
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert names == list_tracked(root) | {"PKG-INFO"}
    with zipfile.ZipFile(wheel) as packed:
        names = {name for name in packed.namelist() if ".dist-info/" not in name}
        weights = packed.getinfo("rag_core/models/e5_small_adapter.npz").compress_size
        (about,) = (packed.read(name).decode() for name in packed.namelist() if name.endswith("/METADATA"))
    assert names == list_tracked(root, "bot", "ingest", "rag_core")
    assert re.search(r"^License-File: LICENSE$", about, re.M)
    assert wheel.stat().st_size - weights < 2 << 20 > weights


@pytest.mark.skipif(not PYTHONS, reason="make wheel-check")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", PYTHONS or [""])
async def test_an_empty_environment_runs_all_of_it(root, built, tmp_path, python):
    """As a person does it: pip, with the locked versions; a demo, then a bot of one's own in the sandbox."""
    home, bin = tmp_path / "home", tmp_path / "venv" / "bin"
    home.mkdir()
    locked = re.findall(r"(?m)^[\w.-]+==[^\\\n]+", (root / "requirements.lock").read_text("utf-8"))
    (tmp_path / "locked.txt").write_text("\n".join(locked))
    run(python, "-m", "venv", bin.parent, cwd=home)
    run(bin / "pip", "install", "-q", "--disable-pip-version-check", "-c", tmp_path / "locked.txt", built[1], cwd=home)
    run(bin / "pip", "check", cwd=home)
    citegram, words_alone = bin / "citegram", {"MODELS__EMBEDDER": "none"}
    assert run(citegram, "--version", cwd=home).startswith("citegram 0.")

    told = run(citegram, "demo", "--once", "How much is membership?", cwd=home, **words_alone)
    assert "1,500" in told
    assert "https://t.me/owl_hill_observers/" in told

    (home / "result.json").write_text(EXPORT, "utf-8")
    assert "1 new" in run(citegram, "import", "result.json", "--username", "@quarry", cwd=home, **words_alone)
    sandbox = DrivenSandbox()
    sandbox.world.add_person(ADA, "Ada", lang="en")
    await sandbox.start()
    settings = CLEAN | words_alone | {"BOT__API": sandbox.url, "BOT__ADMINS": str(ADA)}

    async def ask_program(word, stdin=""):
        """What a command prints beside the sandbox, which answers it in this event loop."""
        started = await create_subprocess_exec(
            citegram, word, cwd=home, env=settings, stdin=PIPE, stdout=PIPE, stderr=STDOUT
        )
        told = (await started.communicate(stdin.encode()))[0].decode()
        assert started.returncode == 0, told
        return told

    try:
        assert "Now start the bot" in await ask_program("init", sandbox.token)
        bot = await create_subprocess_exec(citegram, "run", cwd=home, env=settings)
        try:
            await sandbox.say(ADA, "How warm is the water?")
            (answer,) = await sandbox.replies(ADA, timeout=120)
            told = await ask_program("doctor")
        finally:
            bot.send_signal(signal.SIGTERM)
            assert await bot.wait() == 0
    finally:
        await sandbox.stop()
    assert "14 degrees" in answer["text"]
    assert "archive: 1 posts" in told
