"""Rules of the tree: which package may import which, where SQL and settings live, what is installed."""

import ast
import os
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("rag_core", "ingest", "bot")
MAY_NOT_IMPORT = {"rag_core": {"bot", "ingest", "aiogram", "apscheduler"}, "ingest": {"bot", "aiogram"}, "bot": set()}


@cache
def files(package):
    return sorted((ROOT / package).rglob("*.py"))


@cache
def parsed(file):
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(file):
    found = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_point_one_way(package):
    for file in files(package):
        assert not imported(file) & MAY_NOT_IMPORT[package], file


def test_only_the_settings_read_the_environment_and_only_the_archive_writes_sql():
    for file in chain.from_iterable(map(files, PACKAGES)):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"os\.environ(?!\.setdefault\()|os\.getenv|load_dotenv", text), file
        if "rag_core/storage" not in file.as_posix():
            assert not re.search(r"\"(SELECT|PRAGMA|INSERT|UPDATE|DELETE FROM) ", text), file


# Modules that are imported only where an extra is installed.
OF_EXTRAS = {"bot/api/http_server.py", "bot/api/mcp_server.py", "rag_core/llm/llama_worker.py"}


def list_installed_without_extras():
    """Distributions that an installation of the project without extras brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = set()
    left = [Requirement(line) for line in project["project"]["dependencies"]]
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            left += map(Requirement, requires(name) or ())
    return found


def test_modules_import_what_an_installation_without_extras_brings():
    installed, owners = list_installed_without_extras(), packages_distributions()
    for file in chain.from_iterable(map(files, PACKAGES)):
        lines = parsed(file).body
        names = [alias.name for node in lines if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in lines if isinstance(node, ast.ImportFrom) and node.module]
        for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - set(PACKAGES):
            brought = {canonicalize_name(owner) for owner in owners.get(top, ())} & installed
            assert brought or str(file.relative_to(ROOT)) in OF_EXTRAS, (file, top)


def test_every_dependency_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.M))
    for line in project["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", line)
        assert name and name[0].lower().replace("_", "-").replace(".", "-") in locked, line


def test_the_project_speaks_of_itself_alone():
    places = re.compile(r"/work/|/root/|pypi\.org|pythonhosted|/\.library")
    read = {".py", ".md", ".toml", ".lock", ".ftl", ".yaml", ".json", ".js", ".css", ".html", ""}
    left_out = {".git", ".venv", ".hypothesis", "data"}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in left_out and "cache" not in name]
        for file in (Path(folder, name) for name in names if name not in left_out and "cache" not in name):
            if file.is_file() and file.suffix in read and file.name != Path(__file__).name:
                assert not places.search(file.read_text(encoding="utf-8", errors="ignore")), file
