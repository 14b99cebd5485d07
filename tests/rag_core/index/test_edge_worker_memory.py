"""The engine's log of changes does not stay in memory, and loses nothing by it."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_core.index.edge_shard_process import VectorShard
from rag_core.index.vector_store import make_point_id
from rag_core.types import PassageRef, PostKey

_SIZE, _CHANGES = 384, 1500
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ .*?(/.*)?$")


def _resident_kb(folder: Path) -> int:
    """Resident kB of the mapped files in a folder."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        if mapping := _MAPPING.match(line):
            inside = (mapping[1] or "").startswith(f"{folder}/")
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="madvise is called through glibc")
def test_what_was_written_to_the_log_leaves_memory_and_is_read_again_after_a_kill(tmp_path: Path) -> None:
    shard = VectorShard(str(tmp_path / "shard"), _SIZE, make=True)
    rows = np.random.default_rng(1).normal(size=(_CHANGES, _SIZE)).astype(np.float32)
    for number, row in enumerate(rows):
        name = make_point_id(PassageRef(PostKey(-1, number), 0, 0, 1))
        payload = {
            "chat": -1, "message": number, "part": 0, "start": 0, "end": 1, "date": 1, "lang": "en", "hash": number,
        }  # fmt: skip
        shard.upsert({"ids": [name], "payloads": [payload]}, row.tobytes())
    written = _CHANGES * _SIZE * 4 // 1024  # kB of vectors alone
    assert _resident_kb(tmp_path / "shard" / "wal") < written / 2
    shutil.copytree(tmp_path / "shard", tmp_path / "killed")  # nothing was flushed
    shard.close()
    again = VectorShard(str(tmp_path / "killed"), _SIZE, make=False)
    assert again.count({}, b"")[0]["points"] == _CHANGES
    again.close()
