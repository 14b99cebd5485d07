"""Sketch of the stored vectors: two bits a component and filter columns, by which the embedded store finds candidates.

96 bytes for 384 numbers: one bit for the sign, one for the size of a component. A search takes three steps:

1. Filter: channels, dates, language and single posts give the allowed rows.
2. Sketch: of these the 8,192 in which the fewest signs differ from the question's, of those the 768 with the greatest
   product of the question's numbers and the row's two bits. Fewer allowed rows than that are all candidates.
3. The engine computes the cosines of the candidates from the whole vectors: scores and order are the exact ones.

A row depends on its own vector and payload alone. Nothing is learned from other vectors (no ranges, codebooks or
links), and candidates are chosen among the allowed rows by their own values and, if these are equal, by their ids: so
what closed channels hold cannot change what an outsider finds. Components of a block that a model left zero say
nothing: a row that has no component in common with the question has the cosine 0, and comes after all others.

The sketch is a cache in memory: it is saved when the store is closed, and made anew from the engine where there is no
saved one, as after a kill.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_core.safe_files import open_regular_file, replace_durably

Ints = NDArray[np.int64]
Rows = NDArray[np.intp]

# Of the point's id, and of what filters compare; `words` says which signs say something. A row without a chat is free.
_FILTER_COLUMNS = ("id_high", "id_low", "chat", "message", "date", "lang", "hash", "words")
_WORD_BITS = 64  # components in each column of signs and of sizes
_SCANNED_ROWS = 65_536  # at a time: their columns fit the processor's cache
_FIRST_ROWS = 4_096  # room for them from the beginning
# Rows at 384 components; more where there are fewer, since the estimates are coarser then. Of the 50 nearest they hold
# at least 99.5 %, in a million invented vectors and in 200,000 of real texts (deploy/CAPACITY.md).
_POOL_ROWS, _CANDIDATES, _COMPONENTS = 8_192, 768, 384
_POOL_ROWS_PER_HIT, _CANDIDATES_PER_HIT = 96, 12  # if more hits are wanted than usual
_LOOKUP_MASK = 2**20 - 1  # last bits of a value, for a table that most rows fail
_DIFFERENT = np.uint16(2**16 - 1)  # more bits than any vector has
# The eight components that an octet stands for: 1 for a bit that is set, -1 for one that is not.
_OCTETS = 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[None], axis=0, bitorder="little").astype(np.float32) - 1


def encode_point_ids(ids: Ints) -> list[str]:
    """Convert pairs of numbers to point ids, UUIDs without hyphens."""
    text = ids.astype(">i8").tobytes().hex()
    return [text[at : at + 32] for at in range(0, len(text), 32)]


def decode_point_ids(ids: Sequence[str]) -> Ints:
    """Convert point ids (UUIDs) to pairs of numbers: shape (len(ids), 2)."""
    return np.frombuffer(bytes.fromhex("".join(ids).replace("-", "")), ">i8").astype(np.int64).reshape(-1, 2)


class VectorSketch:
    """Sketch of a store's points; for one thread."""

    def __init__(self, dimension: int) -> None:
        words = range(-(-dimension // _WORD_BITS))
        self._signs, self._sizes = [f"signs{n}" for n in words], [f"sizes{n}" for n in words]
        self._names = [*_FILTER_COLUMNS, *self._signs, *self._sizes]
        self._use_table(np.zeros((len(self._names), _FIRST_ROWS), np.int64), 0)
        self._free: list[int] = []
        self._chat_codes: dict[int, int] = {}

    def _use_table(self, table: Ints, end: int) -> None:
        """Take a table, shape (columns, rows), of which the rows before `end` are in use."""
        self._table, self._end = table, end
        self._columns: dict[str, NDArray[Any]] = {
            name: row if name in _FILTER_COLUMNS else row.view(np.uint64)
            for name, row in zip(self._names, table, strict=True)
        }
        self._codes = np.zeros(table.shape[1], np.int32)  # a small number for the chat of each row; 0 if it is free

    @classmethod
    def load(cls, file: Path, dimension: int) -> VectorSketch:
        """Load what `save` wrote. Raises OSError, ValueError where it is missing, damaged or another vector's."""
        sketch = cls(dimension)
        with open_regular_file(file, file.lstat().st_size) as opened:
            checksum, table = int.from_bytes(opened.read(8), "little"), np.fromfile(opened, np.int64)
        if checksum != zlib.crc32(table.data):
            raise ValueError("it is not as it was left")
        table = table.reshape(len(sketch._names), -1)
        sketch._use_table(table, table.shape[1])
        chats, codes = np.unique(sketch._columns["chat"], return_inverse=True)
        sketch._chat_codes = {int(chat): code for code, chat in enumerate(chats, 1)}
        sketch._codes[:] = codes + 1
        return sketch

    def save(self, file: Path) -> None:
        """Save the rows in use. Raises OSError."""
        raw = self._table[:, np.flatnonzero(self._codes)].tobytes()
        replace_durably(file, zlib.crc32(raw).to_bytes(8, "little") + raw)

    def __len__(self) -> int:
        return self._end - len(self._free)

    def make_rows(
        self, ids: Ints, payloads: Sequence[Mapping[str, Any]], vectors: NDArray[np.float32]
    ) -> dict[str, NDArray[Any]]:
        """Make the columns of points. Raises OverflowError for numbers that no column holds."""
        filters: dict[str, list[int]] = {
            name: [int(payload[name]) for payload in payloads] for name in ("chat", "message", "date", "hash")
        }
        filters["lang"] = [_hash_language(str(payload["lang"])) for payload in payloads]
        rows: dict[str, NDArray[Any]] = {name: np.array(values, np.int64) for name, values in filters.items()}
        rows |= {"id_high": ids[:, 0], "id_low": ids[:, 1], "words": _find_words(vectors)}
        rows |= zip(self._signs, _pack_bits(vectors > 0).T, strict=True)
        # the second bits: set from the vector's own standard deviation on, and for negative components from minus it on
        deviations = 1 / np.sqrt(np.maximum(1, np.count_nonzero(vectors, axis=1, keepdims=True)))
        large = vectors > np.where(vectors > 0, deviations, -deviations)
        return rows | dict(zip(self._sizes, _pack_bits(large).T, strict=True))

    def write(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Write the rows of points, in place of their old ones."""
        ids = np.stack([rows["id_high"], rows["id_low"]], axis=1)
        known = self._find_ids(ids)
        numbers = np.array([known.get(tuple(row), -1) for row in ids.tolist()], np.intp)
        fresh = int((numbers < 0).sum())
        taken, self._free = self._free[:fresh], self._free[fresh:]
        first, end = self._end, self._end + fresh - len(taken)
        if end > self._table.shape[1]:
            table, codes = np.zeros((len(self._names), max(end, first * 9 // 8 + _FIRST_ROWS)), np.int64), self._codes
            table[:, :first] = self._table[:, :first]
            self._use_table(table, first)
            self._codes[: len(codes)] = codes
        self._end = end
        numbers[numbers < 0] = [*taken, *range(first, end)]
        for name in self._names:
            self._columns[name][numbers] = rows[name]
        chats = rows["chat"].tolist()
        self._codes[numbers] = [self._chat_codes.setdefault(chat, len(self._chat_codes) + 1) for chat in chats]

    def remove(self, ids: Ints) -> None:
        """Free the rows of points."""
        rows = [*self._find_ids(ids).values()]
        self._codes[rows] = 0
        self._free += rows

    # Look-ups

    def _find_ids(self, ids: Ints) -> dict[tuple[int, ...], int]:
        wanted = set(map(tuple, ids.tolist()))
        rows = self._find_values("id_low", ids[:, 1])
        there = zip(map(tuple, self._ids(rows).tolist()), rows.tolist(), strict=True)
        return {point: number for point, number in there if point in wanted}

    def find_posts(self, posts: Sequence[tuple[int, Sequence[int]]]) -> Ints:
        """Ids of all points of posts, given as message ids by channel."""
        return self._ids(self._find_posts(posts))

    def _find_posts(self, posts: Sequence[tuple[int, Sequence[int]]]) -> Rows:
        named = [(self._chat_codes[chat], np.array(some, np.int64)) for chat, some in posts if chat in self._chat_codes]
        if not named:
            return np.zeros(0, np.intp)
        rows = self._find_values("message", np.concatenate([some for _, some in named]))
        codes, messages = self._codes[rows], self._columns["message"][rows]
        return np.concatenate([rows[codes == code][np.isin(messages[codes == code], some)] for code, some in named])

    def find_hashes(self, numbers: Sequence[int]) -> Ints:
        """Ids of one point for each of the text hashes that exist."""
        rows = self._find_values("hash", np.array(numbers, np.int64))
        return self._ids(rows[np.unique(self._columns["hash"][rows], return_index=True)[1]])

    def _find_values(self, name: str, values: Ints) -> Rows:
        """Rows in use whose column has one of the values; a table of their last bits excludes most rows."""
        table = np.zeros(_LOOKUP_MASK + 1, np.bool_)
        table[values & _LOOKUP_MASK] = True
        column = self._columns[name]
        found = [np.flatnonzero(table[column[part] & _LOOKUP_MASK]) + part.start for part in self._parts()]
        rows: Rows = np.concatenate([np.zeros(0, np.intp), *found])
        return rows[np.isin(column[rows], values) & (self._codes[rows] > 0)]

    def _parts(self) -> Iterator[slice]:
        return (slice(at, min(at + _SCANNED_ROWS, self._end)) for at in range(0, self._end, _SCANNED_ROWS))

    def _ids(self, rows: Rows | slice) -> Ints:
        return np.stack([self._columns["id_high"][rows], self._columns["id_low"][rows]], axis=1)

    # Search

    def find_candidates(self, vector: NDArray[np.float32], only: Mapping[str, Any], hits: int) -> set[str]:
        """Ids of the allowed points among which the nearest are: more than `hits` if so many are allowed."""
        words = [n for n in range(len(self._signs)) if vector[n * _WORD_BITS : (n + 1) * _WORD_BITS].any()]
        components = sum(len(vector[n * _WORD_BITS : (n + 1) * _WORD_BITS]) for n in words)
        count = max(_CANDIDATES * _COMPONENTS // components, _CANDIDATES_PER_HIT * hits)
        pool = max(_POOL_ROWS * _COMPONENTS // components, _POOL_ROWS_PER_HIT * hits)
        signs, active = _pack_bits(vector[None] > 0)[0], int(_find_words(vector[None])[0])
        found, differing = [np.zeros(0, np.intp)], [np.zeros(0, np.uint16)]
        for part, allowed in self._find_allowed(only):
            found.append(allowed + part.start)
            differing.append(self._count_differing_signs(part, allowed, words, signs, active))
        rows, different = np.concatenate(found), np.concatenate(differing)
        if len(rows) > count:
            rows = rows[self._select_smallest(different, rows, pool)]
            rows = rows[self._select_smallest(-self._estimate_cosines(rows, vector, words, active), rows, count)]
        return set(encode_point_ids(self._ids(rows)))

    def _find_allowed(self, only: Mapping[str, Any]) -> Iterator[tuple[slice, Rows]]:
        """Allowed rows of one part of the columns after the other, counted from the beginning of the part."""
        channels = np.zeros(len(self._chat_codes) + 1, np.bool_)
        channels[[self._chat_codes[chat] for chat in only["channels"] if chat in self._chat_codes]] = True
        named = None
        if only["posts"] is not None:
            named = np.zeros(self._end, np.bool_)
            named[self._find_posts(only["posts"])] = True
        for part in self._parts():
            allowed = channels[self._codes[part]]
            if named is not None:
                allowed &= named[part]
            if only["since"] is not None:
                allowed &= self._columns["date"][part] >= only["since"]
            if only["until"] is not None:
                allowed &= self._columns["date"][part] < only["until"]
            if only["lang"] is not None:
                allowed &= self._columns["lang"][part] == _hash_language(only["lang"])
            yield part, np.flatnonzero(allowed)

    def _count_differing_signs(
        self, part: slice, allowed: Rows, words: list[int], signs: NDArray[np.uint64], active: int
    ) -> NDArray[np.uint16]:
        whole = 3 * len(allowed) > part.stop - part.start  # then it is quicker to count in all rows

        def read(name: str) -> NDArray[Any]:
            return self._columns[name][part] if whole else self._columns[name][part][allowed]

        differing = np.zeros(part.stop - part.start if whole else len(allowed), np.uint16)
        for n in words:
            differing += np.bitwise_count(read(self._signs[n]) ^ signs[n])
        differing[(read("words") & active) == 0] = _DIFFERENT
        return differing[allowed] if whole else differing

    def _estimate_cosines(
        self, rows: Rows, vector: NDArray[np.float32], words: list[int], active: int
    ) -> NDArray[np.float32]:
        """Products of the question's numbers and the rows' components, by a table for each eight of them.

        The two bits of a component stand for -1.5, -0.5, 0.5 and 1.5: the first for -1 or 1, the second for half of it.
        """
        padded = np.zeros(len(self._signs) * _WORD_BITS, np.float32)
        padded[: len(vector)] = vector
        estimates = np.zeros(len(rows), np.float32)
        for n in words:
            tables = padded[n * _WORD_BITS : (n + 1) * _WORD_BITS].reshape(8, 8) @ _OCTETS
            for name, weight in ((self._signs[n], np.float32(1)), (self._sizes[n], np.float32(0.5))):
                octets = self._columns[name][rows].astype("<u8").view(np.uint8).reshape(-1, 8).T.astype(np.intp)
                for table, octet in zip(weight * tables, octets, strict=True):
                    estimates += table.take(octet)
        estimates[(self._columns["words"][rows] & active) == 0] = -np.inf
        return estimates

    def _select_smallest(self, keys: NDArray[Any], rows: Rows, count: int) -> Rows:
        """Positions of the smallest keys, among equal ones of the smallest ids: whatever the order of the rows is."""
        if len(keys) <= count:
            return np.arange(len(keys))
        last = np.partition(keys, count - 1)[count - 1]
        below, equal = np.flatnonzero(keys < last), np.flatnonzero(keys == last)
        if len(below) + len(equal) > count:
            order = np.argsort(self._columns["id_low"][rows[equal]], kind="stable")
            equal = equal[order[: count - len(below)]]
        return np.concatenate([below, equal])


def _pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack bits into words: shape (vectors, words)."""
    packed = np.packbits(np.pad(bits, ((0, 0), (0, -bits.shape[1] % _WORD_BITS))), axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64)


def _find_words(vectors: NDArray[np.float32]) -> Ints:
    """For each vector a number whose bits say which words have a component that is not zero."""
    found = np.zeros(len(vectors), np.int64)
    for n, at in enumerate(range(0, vectors.shape[1], _WORD_BITS)):
        found |= vectors[:, at : at + _WORD_BITS].any(axis=1).astype(np.int64) << (n % 63)
    return found


def _hash_language(lang: str) -> int:
    return int.from_bytes(blake2b(lang.encode(), digest_size=8).digest(), "little", signed=True)
