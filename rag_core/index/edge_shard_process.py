"""qdrant-edge worker process: the program that owns the vector shard. It imports as little of Citegram as it can.

qdrant-edge 0.9.0 holds Python's global lock (GIL) in every call, searches included: in the bot's own process a search
in a million vectors would block the event loop for 60 ms, and opening them for 3 s. And native code that reads a
damaged file may crash its process. So the shard is opened in a process of its own.

The engine keeps vectors and payloads, without indexes over them: filters and candidates are found in the sketch
(`vector_sketch.py`), and the engine compares only these. Indexes of the engine over the same fields would take 0.9 GB
and 2 to 4 s of every opening at a million points, and gather more slowly.

Vectors are float32 numbers behind the messages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import qdrant_edge as edge
from numpy.typing import NDArray

from rag_core.index.vector_sketch import VectorSketch, decode_point_ids, encode_point_ids
from rag_core.processes import open_parent_pipes, read_message, release_mapped_pages, write_message

_REF_PAYLOAD = edge.PayloadSelector.Include(["chat", "message", "part", "start", "end"])
_EXACT_SEARCH = edge.SearchParams(exact=True)
SKETCH_FILE = "sketch.bin"  # in the shard's folder
_REBUILD_PAGE_POINTS = 2_000
# The log of changes is a mapped file of 32 MB that is written from its beginning to its end, 2 kB a change, and never
# read before the next opening: written pages stay in this process's memory unless they are returned.
_LOG_RELEASE_CHANGES = 200
WorkerReply = tuple[dict[str, Any], bytes]
_EMPTY_REPLY: WorkerReply = {}, b""


def _read_vectors(found: list[edge.Record]) -> NDArray[np.float32]:
    return np.array([record.vector["dense"] for record in found], np.float32)  # type: ignore[call-overload,index]


class VectorShard:
    """Open shard and its sketch; its public methods are the requests of the protocol, except `close`."""

    def __init__(self, path: str, size: int, *, make: bool) -> None:
        self._size, self._saved = size, Path(path, SKETCH_FILE)
        self._log, self._changes = f"{os.path.realpath(path)}/wal/", 0
        if make:
            halves, place = edge.VectorStorageDatatype.Float16, edge.Memory.Cold
            dense = edge.EdgeVectorParams(size=size, distance=edge.Distance.Cosine, datatype=halves, memory=place)
            self._shard = edge.EdgeShard.create(path, edge.EdgeConfig(vectors={"dense": dense}))
            self._sketch = VectorSketch(size)
        else:
            self._shard = edge.EdgeShard.load(path)
            # raises if the files cannot be read
            self._shard.scroll(edge.ScrollRequest(limit=1, with_payload=True, with_vector=True))
            self._sketch = self._load_sketch()

    def _load_sketch(self) -> VectorSketch:
        """Load the saved sketch, or make it from the stored vectors: 40 s of processor time for a million."""
        try:
            sketch = VectorSketch.load(self._saved, self._size)
            self._saved.unlink()  # from now on it changes
            if len(sketch) != self._shard.count(edge.CountRequest(exact=True)):
                raise ValueError("it has other points than the engine")
            return sketch
        except (OSError, ValueError) as exc:
            print(f"the sketch is made anew: {exc}", file=sys.stderr)
        sketch, after, more = VectorSketch(self._size), None, True
        while more:
            page = edge.ScrollRequest(offset=after, limit=_REBUILD_PAGE_POINTS, with_payload=True, with_vector=True)
            found, after = self._shard.scroll(page)
            more = after is not None
            if found:
                ids = decode_point_ids([str(record.id) for record in found])
                sketch.write(sketch.make_rows(ids, [record.payload or {} for record in found], _read_vectors(found)))
        return sketch

    def upsert(self, ask: dict[str, Any], raw: bytes) -> WorkerReply:
        """Write points: `ids`, `payloads`, and in `raw` a vector for each."""
        vectors, ids = np.frombuffer(raw, np.float32).reshape(-1, self._size), decode_point_ids(ask["ids"])
        rows = self._sketch.make_rows(ids, ask["payloads"], vectors)
        each = zip(ask["ids"], vectors.tolist(), ask["payloads"], strict=True)
        points = [edge.Point(name, {"dense": row}, payload) for name, row, payload in each]
        self._change(edge.UpdateOperation.upsert_points(points))
        self._sketch.write(rows)
        return _EMPTY_REPLY

    def remove(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Delete all points of `posts` (pairs of a channel and its message ids), except the point ids in `but`."""
        kept = {tuple(row) for row in decode_point_ids(ask["but"]).tolist()}
        there = self._sketch.find_posts(ask["posts"])
        if len(ids := there[[tuple(row) not in kept for row in there.tolist()]]):
            self._change(edge.UpdateOperation.delete_points([*encode_point_ids(ids)]))
            self._sketch.remove(ids)
        return _EMPTY_REPLY

    def _change(self, operation: edge.UpdateOperation) -> None:
        """Change the engine's points, before the sketch; of a change that it refused, the caller tries all again."""
        self._shard.update(operation)
        self._changes += 1
        if self._changes % _LOG_RELEASE_CHANGES == 0:
            release_mapped_pages(self._log)

    def search(self, ask: dict[str, Any], raw: bytes) -> WorkerReply:
        """Find the `n` nearest points that `only` allows: `hits` are pairs of a payload and a cosine."""
        vector = np.frombuffer(raw, np.float32)
        candidates = self._sketch.find_candidates(vector, ask["only"], ask["n"])
        if not candidates:
            return {"hits": []}, b""
        nearest = edge.Query.Nearest(vector.tolist(), using="dense")
        among = edge.Filter(must=[edge.HasIdCondition({*candidates})])
        request = edge.QueryRequest(
            limit=ask["n"], query=nearest, filter=among, with_payload=_REF_PAYLOAD, params=_EXACT_SEARCH
        )
        return {"hits": [(point.payload, point.score) for point in self._shard.query(request)]}, b""

    def vectors(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Read the vectors of the points among `ids` that exist, and their ids."""
        found = self._shard.retrieve(ask["ids"], with_payload=False, with_vector=True)
        return {"ids": [str(record.id) for record in found]}, _read_vectors(found).tobytes()

    def vectors_by_hash(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Read vectors and text hashes of one point for each of the `numbers` that is the `hash` of a point."""
        ids = encode_point_ids(self._sketch.find_hashes(ask["numbers"]))
        payload = edge.PayloadSelector.Include(["text_hash"])
        found = self._shard.retrieve([*ids], with_payload=payload, with_vector=True)
        return {"hashes": [(record.payload or {})["text_hash"] for record in found]}, _read_vectors(found).tobytes()

    def count(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Count the points."""
        return {"points": self._shard.count(edge.CountRequest(exact=True))}, b""

    def page(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Read the `fields` of the next `n` points from the id `after` on, and the id of the next page."""
        payload = edge.PayloadSelector.Include(ask["fields"])
        page = edge.ScrollRequest(offset=ask["after"], limit=ask["n"], with_payload=payload, with_vector=False)
        found, following = self._shard.scroll(page)
        return {"rows": [record.payload for record in found], "after": following and str(following)}, b""

    def flush(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Write everything to disk and truncate the log."""
        self._shard.flush()
        return _EMPTY_REPLY

    def close(self) -> None:
        """Flush and close the shard, and save its sketch."""
        self._shard.close()
        self._sketch.save(self._saved)


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve requests until the input ends. The first request is "open"."""
    shard: VectorShard | None = None
    while received := read_message(requests):
        ask, raw = received
        try:
            if ask["do"] == "open":
                try:
                    shard = VectorShard(ask["path"], ask["size"], make=ask["make"])
                except BaseException as panic:  # the engine panics on a file that it cannot interpret
                    raise ValueError(f"{type(panic).__name__} {panic}") from panic
                reply, out = _EMPTY_REPLY
            else:
                # a panic ends the program: its state is unknown then, and a new process starts from the disk
                reply, out = getattr(shard, ask["do"])(ask, raw)
        except Exception as exc:  # the engine raises nothing narrower; the parent makes the message
            reply, out = {"error": " ".join(f"{type(exc).__name__}: {exc}".split())[:300]}, b""
        write_message(replies, reply, out)
    if shard is not None:
        shard.close()


if __name__ == "__main__":
    main(*open_parent_pipes())
