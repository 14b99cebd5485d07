"""Rules of the tree: which package may import which, which library is used where, where SQL and settings live."""

from __future__ import annotations

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

import rag_core

ROOT = Path(__file__).parents[1]
PACKAGES = ("rag_core", "ingest", "bot")
MAY_NOT_IMPORT = {
    "rag_core": {"bot", "ingest", "aiogram", "apscheduler"},
    "ingest": {"bot", "aiogram"},
    "bot": set[str](),
}
# Which files may import an outside library.
LIBRARIES = {
    "aiosqlite": {"rag_core/storage", "ingest/inbox.py"},
    "apscheduler": {"bot/jobs.py"},
    "rank_bm25": {"rag_core/index/bm25_postings.py"},
    "cachetools": {"rag_core/caches.py"},
    "prometheus_client": {"bot/metrics.py", "bot/monitoring.py"},
    "rensa": {"ingest/copies.py"},
    "simpleeval": {"rag_core/recipes/react_tools.py"},
    "pymorphy3": {"rag_core/text/tokens.py"},
    "rapidfuzz": {"rag_core/planning/spelling_correction.py", "rag_core/conversation/small_talk.py"},
    "py_rust_stemmers": {"rag_core/text/tokens.py"},
    "ijson": {"ingest"},
    "fastembed": {"rag_core/models/onnx_models.py"},
    "onnxruntime": {"rag_core/models"},
    "onnx": {"rag_core/models"},
    "llama_cpp": {"rag_core/llm"},
    "telethon": {"ingest/mtproto.py"},
    "stamina": {"rag_core/llm/openai_client.py", "rag_core/index/vectors_qdrant.py"},
    "qdrant_client": {"rag_core/index"},
    "qdrant_edge": {"rag_core/index/edge_shard_process.py", "rag_core/index/vectors_edge.py"},
}


@cache
def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_arrows_point_one_way(package: str) -> None:
    for file in files(package):
        assert not imported(file) & MAY_NOT_IMPORT[package], file


def test_a_library_is_imported_where_it_belongs_only() -> None:
    for file in chain.from_iterable(map(files, PACKAGES)):
        place = str(file.relative_to(ROOT))
        for library in imported(file) & LIBRARIES.keys():
            assert any(place.startswith(allowed) for allowed in LIBRARIES[library]), (library, place)


def test_only_the_settings_read_the_environment_and_only_the_archive_writes_sql() -> None:
    for file in chain.from_iterable(map(files, PACKAGES)):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"os\.environ(?!\.setdefault\()|os\.getenv|load_dotenv", text), file
        if "rag_core/storage" not in file.as_posix():
            assert not re.search(r"\"(SELECT|PRAGMA|INSERT|UPDATE|DELETE FROM) ", text), file


def test_every_file_lists_what_it_offers_and_the_list_is_true() -> None:
    for file in chain.from_iterable(map(files, PACKAGES)):
        tree = parsed(file)
        lists = [
            [ast.literal_eval(item) for item in node.value.elts]
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List)
            and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        ]
        for names in lists:
            defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            defined |= {
                n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            }
            lines = list(tree.body)
            if "__getattr__" in defined:  # it opens what is imported for types only
                lines += [line for node in tree.body if isinstance(node, ast.If) for line in node.body]
            defined |= {
                (alias.asname or alias.name).split(".")[0]
                for node in lines
                if isinstance(node, ast.ImportFrom | ast.Import)
                for alias in node.names
            }
            assert not set(names) - defined, file
            assert len(names) == len(set(names)), file


def test_what_rag_core_offers_is_what_its_rooms_hold() -> None:
    for name in rag_core.__all__:
        offered = getattr(rag_core, name)
        assert offered.__name__ == name
        assert offered.__module__.startswith("rag_core.")
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = rag_core.Nobody


# Modules that are imported only where an extra is installed.
OF_EXTRAS = {
    "rag_core/llm/llama_worker.py",
}


def list_installed_without_extras() -> set[str]:
    """Distributions that an installation of the project without extras brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: set[str] = set()
    left = [Requirement(line) for line in project["project"]["dependencies"]]
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            left += map(Requirement, requires(name) or ())
    return found


def test_modules_import_what_an_installation_without_extras_brings() -> None:
    installed, owners = list_installed_without_extras(), packages_distributions()
    for file in chain.from_iterable(map(files, PACKAGES)):
        lines = parsed(file).body
        names = [alias.name for node in lines if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in lines if isinstance(node, ast.ImportFrom) and node.module]
        for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - set(PACKAGES):
            brought = {canonicalize_name(owner) for owner in owners.get(top, ())} & installed
            assert brought or str(file.relative_to(ROOT)) in OF_EXTRAS, (file, top)


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.M))
    for line in project["project"]["dependencies"]:
        name = re.match(r"[\w.-]+", line)
        assert name and name[0].lower().replace("_", "-").replace(".", "-") in locked, line


def test_the_project_speaks_of_itself_alone() -> None:
    places = re.compile(r"/work/|/root/|pypi\.org|pythonhosted|/\.library")
    read = {".py", ".md", ".toml", ".lock", ".ftl", ".yaml", ".json", ".js", ".css", ".html", ""}
    left_out = {".git", ".venv", ".hypothesis", "data"}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in left_out and "cache" not in name]
        for file in (Path(folder, name) for name in names if name not in left_out and "cache" not in name):
            if file.is_file() and file.suffix in read and file.name != Path(__file__).name:
                assert not places.search(file.read_text(encoding="utf-8", errors="ignore")), file
