"""What a process and its children take of the machine, read from /proc: memory, descriptors, threads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bot.data_folder import measure_disk_usage

_MB = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. Memory in MB: what is in use of the bot's and its children's; `own` is what no file backs."""

    at: float  # seconds since the begin
    rss: float
    children: float
    own: float
    descriptors: dict[int, int]  # by process
    threads: int
    tasks: int
    archive: float
    indexes: float


def sample_processes(pid: int, at: float, tasks: Path, folder: Path) -> Sample:
    """Look at a running process. Raises ProcessLookupError where it has ended."""
    status = _status(pid)
    if not status:
        raise ProcessLookupError(pid)
    family = [pid, *_descendants(pid)]
    all_of_it = [_status(one) for one in family]
    rss = [one.get("VmRSS", 0) / 1024 for one in all_of_it]
    used, number = measure_disk_usage(folder), 0
    with suppress(OSError, ValueError):  # not written yet, or just being written
        number = int(tasks.read_text("ascii"))
    return Sample(
        at=round(at, 2),
        rss=round(sum(rss), 2),
        children=round(sum(rss[1:]), 2),
        own=round(sum(one.get("RssAnon", 0) for one in all_of_it) / 1024, 2),
        descriptors={one: _descriptors(one) for one in family},
        threads=sum(one.get("Threads", 0) for one in all_of_it),
        tasks=number,
        archive=round(used.archive / _MB, 2),
        indexes=round(used.indexes / _MB, 2),
    )


def _status(pid: int) -> dict[str, int]:
    """The numbers of /proc/PID/status, memory in kB; empty where the process has ended."""
    found = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if value.split() and value.split()[0].isdecimal():
                found[name] = int(value.split()[0])
    return found


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (parent := _status(int(folder.name)).get("PPid")):
            parents.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        young = parents.get(left.pop(), [])
        found += young
        left += young
    return found


def _descriptors(pid: int) -> int:
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0
