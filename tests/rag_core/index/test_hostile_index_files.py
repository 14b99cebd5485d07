"""Folders of derived data that somebody else filled: read with bounds, and built anew."""

import json
import os
import resource
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from rag_core.errors import ModelUnavailable
from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.index.vector_store import StoreInfo
from rag_core.index.vectors_edge import StoreDamaged, StoreFolder
from rag_core.models.catalog import check_model_files, find_models, read_kept_checksums
from rag_core.text.tokens import ANALYSIS_VERSION
from rag_core.types import PassageRef, PostKey

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def entry(number, *terms):
    return IndexEntry(PassageRef(PostKey(-1, number), 0, 0, 9), DAY, terms)


def saved(folder):
    index = LexicalIndex()
    index.replace((), [entry(n, "ferry", f"word{n}") for n in range(50)])
    index.watermark = 7
    index.save(folder, "archive")
    return index


def array(name, values, kind):
    """One array is exchanged."""
    return lambda _current, home: np.array(values, kind).tofile(home / f"{name}.bin")


def about(**changed):
    def harm(current, home):
        current.write_text(json.dumps(json.loads(current.read_text("utf-8")) | changed), "utf-8")

    return harm


def text(name, content):
    def harm(current, home):
        (current if name == "current.json" else home / name).write_bytes(content)

    return harm


def word_twice(_current, home):
    words = (home / "vocabulary.txt").read_text("utf-8").splitlines()
    (home / "vocabulary.txt").write_text("\n".join([words[0], *words]), "utf-8")


def instead(name, make):
    def harm(current, home):
        place = current if name == "current.json" else home / name
        place.unlink()
        make(place)

    return harm


def sparse(place):
    with place.open("wb") as file:
        file.truncate(1 << 43)


def bound(place):
    with socket.socket(socket.AF_UNIX) as one:
        before = Path.cwd()
        os.chdir(place.parent)
        one.bind(place.name)
        os.chdir(before)


HARM = {
    "an empty array": text("docs.bin", b""),
    "a truncated array": lambda _current, home: os.truncate(home / "docs.bin", 101),
    "no array": lambda _current, home: (home / "docs.bin").unlink(),
    "a truncated note": text("current.json", b'{"format": 1'),
    "documents that are not there": array("docs", [1 << 30] * 100, "int32"),
    "documents below nought": array("docs", [-5] * 100, "int32"),
    "ends that go back": array("indptr", [0, 90, *range(2, 51), 100], "int64"),
    "ends below nought": array("indptr", [-9, *range(51, 101)], "int64"),
    "fewer places than documents": array("start", [0] * 49, "int32"),
    "deep JSON": text("current.json", b"[" * 100_000),
    "a list": text("current.json", b"[1, 2]"),
    "an empty note": text("current.json", b""),
    "a long number": text("current.json", b'{"format": ' + b"9" * 10_000 + b"}"),
    "not UTF-8": text("vocabulary.txt", b"\xff\xfe"),
    "few words": text("vocabulary.txt", b"ferry"),
    "a word twice": word_twice,
    "another folder": about(folder="../elsewhere"),
    "an absolute folder": about(folder="/etc"),
    "no folder": about(folder=[1]),
    "a folder with a nought": about(folder="x\0y"),
    "another archive": about(archive="somebody else's"),
    "an old analysis": about(analysis=ANALYSIS_VERSION - 1),
    "a watermark without an end": about(watermark=float("inf")),
    "channels without an end": about(chats=[float("inf")] * 3),
    **{
        f"{what} for {name}": instead(name, make)
        for name in ("current.json", "docs.bin", "vocabulary.txt")
        for what, make in {
            "a pipe": os.mkfifo,
            "a device": lambda place: place.symlink_to("/dev/zero"),
            "a link": lambda place: place.symlink_to("/proc/self/environ"),
            "a ring of links": lambda place: place.symlink_to(place.name),
            "a folder": Path.mkdir,
            "a socket": bound,
            "eight terabytes of nothing": sparse,
        }.items()
    },
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_a_hostile_index_is_none_and_the_next_takes_its_place(harm, tmp_path):
    folder = tmp_path / "lexical"
    saved(folder)
    note = json.loads((folder / "current.json").read_text("utf-8"))
    harm(folder / "current.json", folder / note["folder"])
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert LexicalIndex.load(folder, "archive") is None
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB
    if not (folder / "current.json").is_dir():
        saved(folder)
        again = LexicalIndex.load(folder, "archive")
        assert again
        assert len(again) == 50


def test_links_in_an_index_are_not_followed_when_it_is_removed(tmp_path):
    folder, other = tmp_path / "lexical", tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("kept")
    saved(folder)
    (folder / "7-0123abcd").symlink_to(other)
    saved(folder)
    assert not (folder / "7-0123abcd").exists()
    assert (other / "kept").exists()


def test_what_is_beside_the_index_where_its_folder_is_a_link_is_left_alone(tmp_path):
    """Whoever moves the index to another disk may link to a folder that holds everything else, too."""
    folder, disk = tmp_path / "lexical", tmp_path / "disk"
    (disk / "photos").mkdir(parents=True)
    (disk / "photos" / "kept").write_text("kept")
    (disk / "current").symlink_to(disk / "photos")
    folder.symlink_to(disk)
    for _ in range(2):
        saved(folder)
    assert (disk / "photos" / "kept").exists()
    assert (disk / "current").is_symlink()
    assert len([place for place in disk.iterdir() if place.is_dir()]) == 3  # photos, the link to it, one index


NOTES = {
    "a pipe": os.mkfifo,
    "a device": lambda place: place.symlink_to("/dev/zero"),
    "a ring of links": lambda place: place.symlink_to(place.name),
    "a socket": bound,
    "eight terabytes of nothing": sparse,
    "deep JSON": lambda place: place.write_bytes(b"[" * 100_000),
    "no end": lambda place: place.write_text('{"format": 4, "identity": 1, "model": 1, "dimension": Infinity}'),
}


@pytest.mark.parametrize("make", NOTES.values(), ids=NOTES)
def test_a_hostile_note_of_a_vector_store_is_damage(make, tmp_path):
    home = StoreFolder(tmp_path / "vectors")
    try:
        about = home.reset("tiny", 4)
        home.seal(about, closed=False)
        (home.folder / "store.json").unlink()
        make(home.folder / "store.json")
        with pytest.raises(StoreDamaged):
            home.unseal("tiny", 4)
        (home.folder / "shard-link").symlink_to(tmp_path)
        assert home.shard(home.reset("tiny", 4)).is_dir()
    finally:
        home.lock.close()
    assert isinstance(about, StoreInfo)


@pytest.mark.parametrize("make", NOTES.values(), ids=NOTES)
def test_a_hostile_list_of_a_model_is_damage(make, tmp_path):
    (row,) = find_models("multilingual-e5-small")
    make(tmp_path / "files.json")
    with pytest.raises(ModelUnavailable, match="citegram models pull multilingual-e5-small again"):
        check_model_files(row, tmp_path)
    assert read_kept_checksums(tmp_path) == {}
