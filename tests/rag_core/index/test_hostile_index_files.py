"""Folders of derived data that somebody else filled: read with bounds, and built anew."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import socket
import struct
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from rag_core.errors import ModelUnavailable
from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.index.vector_store import StoreInfo
from rag_core.index.vectors_edge import StoreDamaged, StoreFolder
from rag_core.models.catalog import find_models
from rag_core.models.model_files import check_model_files, read_kept_checksums
from rag_core.text.tokens import ANALYSIS_VERSION
from rag_core.types import PassageRef, PostKey

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
Harm = Callable[[Path, Path], None]  # current.json, and the folder that it names


def entry(number: int, *terms: str) -> IndexEntry:
    return IndexEntry(PassageRef(PostKey(-1, number), 0, 0, 9), DAY, terms)


def saved(folder: Path) -> LexicalIndex:
    index = LexicalIndex()
    index.replace((), [entry(n, "ferry", f"word{n}") for n in range(50)])
    index.watermark = 7
    index.save(folder, "archive")
    return index


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("pwned",))


def header(shape: tuple[int, ...], kind: str) -> bytes:
    out = io.BytesIO()
    npy.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


def with_array(name: str, raw: bytes, *, compressed: bool = False) -> Harm:
    """One array of the archive is exchanged."""

    def harm(current: Path, home: Path) -> None:
        with zipfile.ZipFile(home / "postings.npz") as old:
            members = {one: old.read(one) for one in old.namelist()} | {name: raw}
        how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        with zipfile.ZipFile(home / "postings.npz", "w", how) as new:
            for one, data in members.items():
                new.writestr(one, data)

    return harm


def array(values: object, kind: str) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(values, kind))
    return out.getvalue()


def pickled(current: Path, home: Path) -> None:
    out = io.BytesIO()
    np.save(out, np.array([Evil()], object), allow_pickle=True)
    with_array("docs.npy", out.getvalue())(current, home)


@cache
def archive_of_many_members() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for n in range(20_000):
            new.writestr(f"{n}", b"")
    return out.getvalue()


def many_members(current: Path, home: Path) -> None:
    (home / "postings.npz").write_bytes(archive_of_many_members())


def many_members_hidden(current: Path, home: Path) -> None:
    """The list at the end says one member, the one for large archives the truth."""
    raw = archive_of_many_members()
    _, _, _, _, count, length, offset, _ = struct.unpack("<4s4H2LH", raw[-22:])
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(raw) - 22, 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 100, offset, 0)
    (home / "postings.npz").write_bytes(raw[:-22] + end + locator + last)


def overlapping(current: Path, home: Path) -> None:
    """Every member is the same 40 MB of the file."""
    with zipfile.ZipFile(home / "postings.npz", "w") as new:
        new.writestr("a.npy", array(np.zeros(10_000_000), "int32"))
        (first,) = new.infolist()
        for n in range(60):
            twin = zipfile.ZipInfo(f"b{n}.npy")
            twin.header_offset, twin.CRC = first.header_offset, first.CRC
            twin.file_size = twin.compress_size = first.file_size
            new.filelist.append(twin)


def encrypted(current: Path, home: Path) -> None:
    raw = bytearray((home / "postings.npz").read_bytes())
    at = raw.find(b"PK\x01\x02")
    raw[at + 8] |= 1
    (home / "postings.npz").write_bytes(bytes(raw))


def truncated(current: Path, home: Path) -> None:
    os.truncate(home / "postings.npz", (home / "postings.npz").stat().st_size // 2)


def about(**changed: object) -> Harm:
    def harm(current: Path, home: Path) -> None:
        current.write_text(json.dumps(json.loads(current.read_text("utf-8")) | changed), "utf-8")

    return harm


def text(name: str, content: bytes) -> Harm:
    def harm(current: Path, home: Path) -> None:
        (current if name == "current.json" else home / name).write_bytes(content)

    return harm


def word_twice(_current: Path, home: Path) -> None:
    words = (home / "vocabulary.txt").read_text("utf-8").splitlines()
    (home / "vocabulary.txt").write_text("\n".join([words[0], *words]), "utf-8")


def instead(name: str, make: Callable[[Path], object]) -> Harm:
    def harm(current: Path, home: Path) -> None:
        place = current if name == "current.json" else home / name
        place.unlink()
        make(place)

    return harm


def sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 43)


def bound(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        before = Path.cwd()
        os.chdir(place.parent)
        one.bind(place.name)
        os.chdir(before)


HARM: dict[str, Harm] = {
    "a pickle": pickled,
    "a pickle without an archive": text("postings.npz", pickle.dumps(Evil())),
    "a compressed archive": with_array("docs.npy", header((30_000_000,), "<i4") + bytes(120_000_000), compressed=True),
    "an absurd shape": with_array("docs.npy", header((1 << 50,), "<i4")),
    "a shape that overflows": with_array("docs.npy", header((1 << 33, 1 << 33), "<i4")),
    "a negative shape": with_array("docs.npy", header((-4, -4), "<i4") + bytes(64)),
    "a shape of many ones": with_array("docs.npy", header((1,) * 40, "<i4") + bytes(4)),
    "objects": with_array("docs.npy", header((1,), "|O")),
    "text": with_array("docs.npy", header((1,), "<U400000000")),
    "a record": with_array("docs.npy", array([(1, 2)], "i4,i4")),
    "a long header": with_array("docs.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + b"{" * 100_000),
    "a deep header": with_array("docs.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000),
    "another version": with_array("docs.npy", b"\x93NUMPY\x09\x00"),
    "no magic": with_array("docs.npy", b""),
    "many members": many_members,
    "many members, hidden": many_members_hidden,
    "overlapping members": overlapping,
    "an encrypted archive": encrypted,
    "an empty archive": text("postings.npz", b""),
    "a truncated archive": truncated,
    "no archive": lambda _current, home: (home / "postings.npz").unlink(),
    "a truncated note": text("current.json", b'{"format": 1'),
    "documents that are not there": with_array("docs.npy", array([1 << 30] * 100, "int32")),
    "documents below nought": with_array("docs.npy", array([-5] * 100, "int32")),
    "ends that go back": with_array("indptr.npy", array([0, 90, *range(2, 51), 100], "int64")),
    "ends below nought": with_array("indptr.npy", array([-9, *range(51, 101)], "int64")),
    "a matrix": with_array("docs.npy", array([[0] * 100] * 100, "int32")),
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
        for name in ("current.json", "postings.npz", "vocabulary.txt")
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
def test_a_hostile_index_is_none_and_the_next_takes_its_place(
    harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lexical"
    saved(folder)
    note = json.loads((folder / "current.json").read_text("utf-8"))
    harm(folder / "current.json", folder / note["folder"])
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert LexicalIndex.load(folder, "archive") is None
    assert time.process_time() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB
    assert not (tmp_path / "pwned").exists()
    if not (folder / "current.json").is_dir():
        saved(folder)
        again = LexicalIndex.load(folder, "archive")
        assert again
        assert len(again) == 50


def test_links_in_an_index_are_not_followed_when_it_is_removed(tmp_path: Path) -> None:
    folder, other = tmp_path / "lexical", tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("kept")
    saved(folder)
    (folder / "link").symlink_to(other)
    saved(folder)
    assert not (folder / "link").exists()
    assert (other / "kept").exists()


NOTES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda place: place.symlink_to("/dev/zero"),
    "a ring of links": lambda place: place.symlink_to(place.name),
    "a socket": bound,
    "eight terabytes of nothing": sparse,
    "deep JSON": lambda place: place.write_bytes(b"[" * 100_000),
    "no end": lambda place: place.write_text('{"format": 2, "identity": 1, "model": 1, "dimension": Infinity}'),
}


@pytest.mark.parametrize("make", NOTES.values(), ids=NOTES)
def test_a_hostile_note_of_a_vector_store_is_damage(make: Callable[[Path], object], tmp_path: Path) -> None:
    home = StoreFolder(tmp_path / "vectors")
    try:
        about = home.reset("tiny", 4)
        home.finish(about)
        (home.folder / "about.json").unlink()
        make(home.folder / "about.json")
        with pytest.raises(StoreDamaged):
            home.about()
        (home.folder / "seal.json").unlink()
        make(home.folder / "seal.json")
        with pytest.raises(StoreDamaged):
            home.check(about)
        (home.folder / "shard-link").symlink_to(tmp_path)
        assert home.shard(home.reset("tiny", 4)).is_dir()
    finally:
        home.release()
    assert isinstance(about, StoreInfo)


@pytest.mark.parametrize("make", NOTES.values(), ids=NOTES)
def test_a_hostile_list_of_a_model_is_damage(make: Callable[[Path], object], tmp_path: Path) -> None:
    (row,) = find_models("multilingual-e5-small")
    make(tmp_path / "files.json")
    with pytest.raises(ModelUnavailable, match="citegram models pull multilingual-e5-small again"):
        check_model_files(row, tmp_path)
    assert read_kept_checksums(tmp_path) == {}
