"""The heap gives back what is free in it."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from rag_core import processes

# A child frees every other block: glibc keeps the pages between those in use until it is asked for them.
HOLES = """
import sys
from pathlib import Path
from rag_core.processes import limit_malloc_arenas, release_free_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

if sys.argv[1] == "bounded":
    limit_malloc_arenas()
blocks = [b"\\x01" * 100_000 for _ in range(1000)]  # written to: what nobody touched is not resident
full = resident()
del blocks[::2]
freed = resident()
release_free_memory()
print(full - freed, freed - resident())
"""
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's heap that needs it")


@glibc
@pytest.mark.parametrize("how", ["bounded", "as it is"])
@pytest.mark.slow
def test_what_is_free_between_blocks_in_use_goes_back(how):
    done = subprocess.run(
        [sys.executable, "-c", HOLES, how],
        cwd=Path(processes.__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    kept_back, given = map(float, done.stdout.split())
    assert kept_back < 10
    assert given > 40  # MB of some 48


def test_where_it_is_not_glibc_nothing_happens(monkeypatch):
    monkeypatch.setattr(processes, "_load_glibc", lambda: None)
    processes.limit_malloc_arenas()
    assert processes.release_free_memory() is False
