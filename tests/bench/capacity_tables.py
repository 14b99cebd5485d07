"""The arithmetic of deploy/CAPACITY.md: prints its tables from the figures they are made of.

python tests/bench/capacity_tables.py

A figure is measured (by the scripts beside this one, or as EVALUATION.md says), from documentation (the page links
it), or assumed. Change one here, print, and put the tables into the page: a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

KB, MB, GB, TB = 10**3, 10**6, 10**9, 10**12
DAY = 86_400

# Measured: bytes on disk of a post; `measure_one_engine.py fill` at 100,000 invented posts of 40 terms, copies at
# 20,000.
ARCHIVE, WORDS, COPIES = 749, 301, 263
# Measured: between 20,000 and 100,000 of them, `measure_one_engine.py ask`.
WORDS_IN_MEMORY = 982
# Measured: `filtered_vectors.py`, on disk between 100,000 and a million vectors, in memory at a million just written.
VECTOR, VECTOR_IN_MEMORY = 1_233, 1_198
BOT = 229 * MB  # what is left of the bot's memory without posts
# Measured, two cores (EVALUATION.md): milliseconds at 100,000 and a million posts.
MS = {"search by words": (0.4, 3), "search by meaning": (5, 14), "a whole answer, words alone": (19, 39)}
IMPORTED = 282_000 / 70  # posts a second, archive and words
EMBEDDED = {"offline models, English, one core": 125, "offline models, Russian, one core": 800}
# Assumed: passages a second. Nobody has run them here.
EMBEDDED |= {"multilingual-e5-small int8, eight cores": 150, "multilingual-e5-small, one GPU": 2_000}

DIMENSION = 384  # multilingual-e5-small
PASSAGES = 1.1  # assumed: of a post; news posts are seldom longer than one
HEADROOM = 1.5  # documentation: times what is counted, for versions and segments in the making
LINKS = 16
GRAPH = 2 * LINKS * 4 * 1.1  # assumed: bytes; four to a link, twice LINKS at the bottom, a tenth above
LOOKUP = 8  # assumed: bytes of a value in a payload index
INDEXED = 5  # fields of a point
POINT = 40  # assumed: bytes; UUID, number, version
STORED = 300  # assumed: bytes of a payload on disk
MACHINE = 64 * GB
PRICE = 60  # assumed: euros a month for such a machine
FULL = 0.75  # of a machine's memory
REPLICAS = 2
IN_MEMORY = {"16 bits": 2.0, "int8": 1.0, "binary": 1 / 8}  # bytes of a number

MESSAGES_S, CHAT_S, GROUP_MIN = 30, 1, 20  # documentation: Telegram's limits for a bot
TOKENS = 150  # assumed: of an answer by a model
GENERATED = 1_000  # assumed: tokens a second of one GPU with a 4 B model that answers many at once
READERS, ASKED, PEAK = 1_000_000, 1, 5  # assumed: questions a reader a day; the busiest second over the mean


def _size(number: float) -> str:
    unit, name = next((u, n) for u, n in ((TB, "TB"), (GB, "GB"), (MB, "MB"), (KB, "kB"), (1, "B")) if number >= u)
    return f"{number / unit:.3g} {name}"


def _time(seconds: float) -> str:
    for unit, name in ((DAY, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.3g} {name}"
    return f"{seconds:.3g} s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def one_machine() -> str:
    """A million posts in one folder."""
    posts = 10**6
    vectors = PASSAGES * VECTOR
    rows = [
        ["archive", f"{ARCHIVE}", _size(ARCHIVE * posts), "read as needed"],
        ["copies, in the archive", f"{COPIES}", _size(COPIES * posts), "read as needed"],
        ["words", f"{WORDS}", _size(WORDS * posts), _size(WORDS_IN_MEMORY * posts)],
        [
            "vectors (384 numbers, 16 bits)",
            f"{vectors:.0f}",
            _size(vectors * posts),
            _size(PASSAGES * VECTOR_IN_MEMORY * posts),
        ],
        ["the bot itself", "", "", _size(BOT)],
    ]
    disk = (ARCHIVE + COPIES + WORDS + vectors) * posts
    memory = (WORDS_IN_MEMORY + PASSAGES * VECTOR_IN_MEMORY) * posts + BOT
    rows.append(["together", f"{ARCHIVE + COPIES + WORDS + vectors:.0f}", _size(disk), _size(memory)])
    return _table(["1,000,000 posts", "bytes a post on disk", "disk", "memory"], rows)


def speed() -> str:
    """Questions a second of two cores."""
    rows = [
        [name, *(f"{ms:g}" for ms in both), *(f"{cores * 1000 / ms:.0f}" for ms in both)]
        for name, both in MS.items()
        for cores in [1 if "meaning" in name else 2]
    ]
    return _table(["", "ms at 100,000", "ms at 1,000,000", "a second at 100,000", "a second at 1,000,000"], rows)


def _point(bytes_of_a_number: float) -> float:
    """Bytes of memory of a passage on the server."""
    return (DIMENSION * bytes_of_a_number + GRAPH) * HEADROOM + POINT + INDEXED * LOOKUP


def cluster() -> str:
    """Memory, machines and disk of a cluster."""
    rows = []
    for posts in (10**8, 10**9):
        points = posts * PASSAGES
        for kind, size in IN_MEMORY.items():
            memory = points * _point(size) * REPLICAS
            machines = max(3, math.ceil(memory / (MACHINE * FULL)))
            whole = 2 * DIMENSION + (0 if size == 2 else DIMENSION * size) + GRAPH + STORED
            disk = points * whole * HEADROOM * REPLICAS
            row = [f"{posts:,}", kind, f"{_point(size):.0f}", _size(memory), str(machines), str(2 * machines)]
            rows.append([*row, _size(disk / machines), f"{PRICE * machines:,}"])
    head = ["posts", "vectors in memory", "bytes a passage", "memory", "machines of 64 GB", "shards", "disk of each"]
    head.append("€ a month")
    return _table(head, rows)


def archive() -> str:
    """What stays on the bot's machine."""
    rows = []
    for posts in (10**6, 10**8, 10**9):
        disk = (ARCHIVE + COPIES) * posts
        rows.append([f"{posts:,}", _size(disk), _time(posts / IMPORTED), _size(WORDS_IN_MEMORY * posts)])
    return _table(["posts", "archive on disk", "import", "words in memory"], rows)


def embedding() -> str:
    """How long the vectors take."""
    rows = [
        [name, f"{speed:,}", *(_time(posts * PASSAGES / speed) for posts in (10**6, 10**8, 10**9))]
        for name, speed in EMBEDDED.items()
    ]
    return _table(["", "passages a second", "1,000,000 posts", "100,000,000", "1,000,000,000"], rows)


def readers() -> str:
    """Messages and models for many readers."""
    mean = READERS * ASKED / DAY
    peak = PEAK * mean
    rows = [
        ["questions a second, mean", f"{mean:.1f}"],
        ["questions a second, busiest", f"{peak:.0f}"],
        ["answers a day that one bot may send at 30 a second", f"{MESSAGES_S * DAY:,}"],
        ["bots for the busiest second, a message each", f"{math.ceil(peak / MESSAGES_S)}"],
        ["hours to tell every reader something", f"{READERS / MESSAGES_S / 3600:.1f}"],
        ["answers a minute in one group", f"{GROUP_MIN}"],
        ["answers a second of a model on one GPU", f"{GENERATED / TOKENS:.1f}"],
        ["GPUs for the busiest second", f"{math.ceil(peak * TOKENS / GENERATED)}"],
    ]
    return _table([f"{READERS:,} readers, {ASKED} question a day", ""], rows)


def tables() -> list[str]:
    """All of them, in the order of the page."""
    return [one_machine(), speed(), cluster(), archive(), embedding(), readers()]


if __name__ == "__main__":
    print("\n\n".join(tables()))
