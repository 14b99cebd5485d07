"""`make local`: compiled once, kept for the next clone, and one sentence where there is no compiler."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pip
import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "deploy" / "install_llama_cpp.sh"
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# Stands where llama.cpp's build stands: slow, and broken where it is said.
BACKEND = """
import os, pathlib, sys, time, zipfile
def build_wheel(wheels, config_settings=None, metadata_directory=None):
    open(os.environ["BUILDS"], "a").write("built ")
    if os.environ.get("BROKEN"):
        sys.exit("fatal error: no such thing")
    time.sleep(float(os.environ.get("SLOW", 0)))
    name = "slow_llama-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheels) / name, "w") as wheel:
        wheel.writestr("slow_llama.py", "")
        about = {"METADATA": "Metadata-Version: 2.1\\nName: slow-llama\\nVersion: 1.0\\n", "RECORD": "",
                 "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
        for part, text in about.items():
            wheel.writestr(f"slow_llama-1.0.dist-info/{part}", text)
    return name
"""


@pytest.fixture
def environ(tmp_path):
    """An index of one source package, and a home of its own."""
    with tarfile.open(tmp_path / "slow_llama-1.0.tar.gz", "w:gz") as sdist:
        files = {"pyproject.toml": PROJECT, "backend.py": BACKEND,
                 "PKG-INFO": "Metadata-Version: 2.1\nName: slow-llama\nVersion: 1.0\n"}  # fmt: skip
        for name, text in files.items():
            entry = tarfile.TarInfo(f"slow_llama-1.0/{name}")
            entry.size = len(text.encode())
            sdist.addfile(entry, io.BytesIO(text.encode()))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"}
    return clean | pip | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "BUILDS": str(tmp_path / "builds")}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of a clone, with the pip of this one: to install it takes seconds."""
    folder = tmp_path_factory.mktemp("clone")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    (packages / "pip.pth").write_text(f"{Path(pip.__file__).parents[1]}\n")
    return folder / "bin" / "python"


def install(environ, python):
    """`make local`: exit code and what is shown."""
    shown = subprocess.run(
        ["bash", SCRIPT, python, "slow-llama==1.0"], env=environ, capture_output=True, text=True, timeout=120
    )
    return shown.returncode, shown.stdout + shown.stderr


def test_without_a_compiler_one_sentence_says_what_to_install(environ, python, tmp_path):
    (tmp_path / "path").mkdir()
    for tool in ("bash", "mkdir", "mktemp", "rm", "sleep", "tail", "getconf", "kill"):
        found = next((Path(folder) / tool for folder in ("/usr/bin", "/bin") if (Path(folder) / tool).exists()), None)
        if found:
            (tmp_path / "path" / tool).symlink_to(found)
    without = environ | {"BROKEN": "1", "PATH": str(tmp_path / "path")}
    code, shown = install(without, python)
    sentence = "llama.cpp needs a C++ compiler: install one (sudo apt-get install g++) and run make local again."
    assert (code, shown.splitlines()[-1]) == (1, sentence)
    assert "no such thing" not in shown
    code, shown = install(environ | {"BROKEN": "1"}, python)
    assert code == 1
    assert "no such thing" in shown
    assert "mend what they name and run make local again." in shown


def test_it_is_compiled_once_and_the_next_clone_takes_what_was_kept(environ, python, tmp_path):
    hasty = tmp_path / "hasty"
    hasty.mkdir()
    (hasty / "sleep").write_text(f"#!/bin/sh\nexec {shutil.which('sleep')} 0.3\n")  # whatever it is asked for
    (hasty / "sleep").chmod(0o755)
    code, shown = install(environ | {"SLOW": "1", "PATH": f"{hasty}:{environ['PATH']}"}, python)
    assert code == 0, shown
    first, *alive, last = shown.splitlines()
    assert first.startswith("Compiling llama.cpp on ")
    assert "minutes, once. The result is kept in " in first
    assert alive[0].startswith("... still compiling, ")
    assert last.startswith("llama.cpp is compiled and installed, in ")
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "slow-llama"], check=True)  # as in the next clone
    assert install(environ, python) == (0, "llama.cpp is installed.\n")
    subprocess.run([python, "-c", "import slow_llama"], check=True)
    assert (tmp_path / "builds").read_text() == "built "
