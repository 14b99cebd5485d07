"""qdrant-edge worker process: the program that owns the vector shard; it knows qdrant-edge, and nothing of Citegram.

qdrant-edge 0.9.0 holds Python's global lock in every call, searches included: in the bot's own process a search in a
million vectors would block the event loop for 60 ms, and opening them for 3 s. And native code that meets a damaged
file may end its process. So the shard is opened in a process of its own.

A request and a reply are each: two big-endian lengths, a JSON object, float32 numbers. The end of the input is the
end of the program: its parent has gone.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from array import array
from typing import Any, BinaryIO

import qdrant_edge as edge

__all__ = ["VectorShard", "main"]

_FRAME_HEADER = struct.Struct(">II")  # as in process.py
_REF_PAYLOAD = edge.PayloadSelector.Include(["chat", "message", "part", "start", "end"])
_EXACT_SEARCH = edge.SearchParams(exact=True)
_DELETE_BATCH_IDS = 500
# What a filtered search costs beside one comparison (0.06 µs), measured at a million points: for each point that
# the narrowest condition lets through (7 to 11 where that is no slot), and for each that is ranked and then filtered.
_GATHER_COST, _RANK_COST = 13, 80
_NAMED_POST_COST = 40  # as _GATHERED, for each post that a filter names
EdgeCondition = edge.FieldCondition | edge.Filter
WorkerReply = tuple[dict[str, Any], bytes]
_EMPTY_REPLY: WorkerReply = {}, b""


def _decode_vectors(raw: bytes, size: int) -> list[list[float]]:
    numbers = array("f", raw).tolist()
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def _encode_vectors(found: list[edge.Record] | list[edge.ScoredPoint]) -> bytes:
    numbers = array("f")
    for record in found:
        numbers.extend(record.vector["dense"])  # type: ignore[arg-type,call-overload,index]
    return numbers.tobytes()


def _make_conditions(only: dict[str, Any], *of: edge.FieldCondition) -> list[EdgeCondition]:
    dates = edge.FieldCondition("date", range=edge.RangeFloat(gte=only["since"], lt=only["until"]))
    bounded = only["since"] is not None or only["until"] is not None
    return [*of, *([dates] if bounded else ()), *_make_language_conditions(only)]


def _make_language_conditions(only: dict[str, Any]) -> list[EdgeCondition]:
    return [] if only["lang"] is None else [edge.FieldCondition("lang", match=edge.MatchValue(only["lang"]))]


def _make_slot_conditions(only: dict[str, Any]) -> list[EdgeCondition]:
    """What channels and dates say, as one condition; nothing where there are no slots for it."""
    if only["slots"] is None:
        return []
    slots = edge.FieldCondition("slot", match=edge.MatchAny(only["slots"]))
    if only["later"] is None:
        return [slots]
    return [edge.Filter(should=[slots, edge.FieldCondition("date", range=edge.RangeFloat(gte=only["later"]))])]


class VectorShard:
    """One open shard and what may be asked of it."""

    def __init__(self, path: str, size: int, *, make: bool) -> None:
        self._size, self._slotted = size, True
        if not make:
            self._shard = edge.EdgeShard.load(path)
            self._shard.scroll(edge.ScrollRequest(limit=1, with_payload=True, with_vector=True))  # is it readable?
            self._slotted = "slot" in self._shard.info().payload_schema  # not where it was made before there were any
            return
        halves = edge.VectorStorageDatatype.Float16
        dense = edge.EdgeVectorParams(size=size, distance=edge.Distance.Cosine, datatype=halves)
        self._shard = edge.EdgeShard.create(path, edge.EdgeConfig(vectors={"dense": dense}))
        for field in ("chat", "slot", "message", "hash"):
            lookup = edge.IntegerIndexParams(lookup=True, range=False)
            self._shard.update(edge.UpdateOperation.create_field_index(field, lookup))
        dates = edge.IntegerIndexParams(lookup=False, range=True)
        self._shard.update(edge.UpdateOperation.create_field_index("date", dates))
        self._shard.update(edge.UpdateOperation.create_field_index("lang", edge.KeywordIndexParams()))

    def upsert(self, ask: dict[str, Any], raw: bytes) -> WorkerReply:
        """`ids` and `payloads`, and a row of numbers for each."""
        rows = zip(ask["ids"], _decode_vectors(raw, self._size), ask["payloads"], strict=True)
        points = [edge.Point(name, {"dense": row}, payload) for name, row, payload in rows]
        self._shard.update(edge.UpdateOperation.upsert_points(points))
        return _EMPTY_REPLY

    def remove(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """`posts`: pairs of a channel and its message ids; `but` the points with these ids."""
        kept = [edge.HasIdCondition(set(ask["but"]))] if ask["but"] else []
        for chat, messages in ask["posts"]:
            for at in range(0, len(messages), _DELETE_BATCH_IDS):
                some = edge.MatchAny(messages[at : at + _DELETE_BATCH_IDS])
                of_chat = edge.FieldCondition("chat", match=edge.MatchValue(chat))
                posts = edge.Filter(must=[of_chat, edge.FieldCondition("message", match=some)], must_not=[*kept])
                self._shard.update(edge.UpdateOperation.delete_points_by_filter(posts))
        return _EMPTY_REPLY

    def search(self, ask: dict[str, Any], raw: bytes) -> WorkerReply:
        """The `n` nearest that `only` allows: `hits` are pairs of a payload and a cosine."""
        (vector,) = _decode_vectors(raw, self._size)
        only, n = ask["only"], ask["n"]
        found = (self._in_channels if only["posts"] is None else self._among_posts)(vector, only, n)
        return {"hits": [(point.payload, point.score) for point in found]}, b""

    def _among_posts(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """The nearest of single posts: out of a ranking where there are many of them, else channel by channel.

        12,000 of 100,000 points took 20 ms instead of 40; with "or" between 12 channels 70, and 1,200 took 16 for 12.
        """
        found = self._ranked_posts(vector, only, n)
        for chat, messages in only["posts"] if not found else ():
            of_chat = edge.FieldCondition("chat", match=edge.MatchValue(chat))
            conditions = _make_conditions(only, of_chat, edge.FieldCondition("message", match=edge.MatchAny(messages)))
            found += self._nearest(vector, edge.Filter(must=[*conditions]), n)
        return sorted(found, key=lambda point: -point.score)[:n]

    def _ranked_posts(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """As `_in_channels` ranks, for single posts that nothing else bounds; nothing where that settles nothing."""
        posts, points = {(chat, one) for chat, some in only["posts"] for one in some}, self._about(None)
        pool = 3 * n * points // (2 * len(posts)) + 100
        bounded = any(only[name] is not None for name in ("since", "until", "lang"))
        if bounded or _NAMED_POST_COST * len(posts) < points + _RANK_COST * pool:
            return []
        found = [p for p in self._nearest(vector, None, pool) if (p.payload["chat"], p.payload["message"]) in posts]
        return found[:n] if len(found) >= n else []

    def _nearest(self, vector: list[float], allowed: edge.Filter | None, n: int, *, payload: bool = True) -> list[Any]:
        nearest, place = edge.Query.Nearest(vector, using="dense"), _REF_PAYLOAD if payload else False
        return self._shard.query(
            edge.QueryRequest(limit=n, query=nearest, filter=allowed, with_payload=place, params=_EXACT_SEARCH)
        )

    def _in_channels(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """The nearest of whole channels, by the cheaper of two ways.

        The engine gathers all that a filter allows before it compares, and that costs more than comparing with
        everything. So where much is allowed, the nearest of all points are ranked first, half as many again as it
        should take, and the filtered query runs over those. When it finds n, nobody who is allowed stands nearer:
        whoever does would be among the ranked. When it finds fewer, the ranking settles nothing.
        """
        conditions = _make_conditions(only, edge.FieldCondition("chat", match=edge.MatchAny(only["channels"])))
        slots = _make_slot_conditions(only) if self._slotted else []
        points = self._about(None)
        allowed = self._about(edge.Filter(must=[*slots, *_make_language_conditions(only)] if slots else [*conditions]))
        narrowest = min(self._about(edge.Filter(must=[one])) for one in conditions)
        inside = self._about(edge.Filter(must=[*slots]))
        slots, narrowest = (slots, inside) if 3 * inside < 2 * narrowest else ([], narrowest)
        pool = 3 * n * points // (2 * max(1, allowed)) + 100
        if _GATHER_COST * narrowest >= points + _RANK_COST * pool:
            ranked = self._nearest(vector, None, pool, payload=False)
            found = self._nearest(
                vector, edge.Filter(must=[edge.HasIdCondition({p.id for p in ranked}), *conditions]), n
            )
            if len(found) == n or len(ranked) < pool:
                return found
        return self._nearest(vector, edge.Filter(must=[*slots, *conditions]), n)

    def _about(self, allowed: edge.Filter | None) -> int:
        """How many points a filter lets through, estimated from its indexes."""
        return self._shard.count(edge.CountRequest(exact=False, filter=allowed))

    def vectors(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """The vectors of the points among `ids` that are there, and their ids."""
        found = self._shard.retrieve(ask["ids"], with_payload=False, with_vector=True)
        return {"ids": [str(record.id) for record in found]}, _encode_vectors(found)

    def hashed(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Vectors of points whose `hash` is among `numbers`, at most two for each, and their text hashes."""
        some = edge.Filter(must=[edge.FieldCondition("hash", match=edge.MatchAny(ask["numbers"]))])
        payload = edge.PayloadSelector.Include(["text_hash"])
        limit = 2 * len(ask["numbers"])
        page = edge.ScrollRequest(limit=limit, filter=some, with_payload=payload, with_vector=True)
        found, _next = self._shard.scroll(page)
        return {"hashes": [(record.payload or {})["text_hash"] for record in found]}, _encode_vectors(found)

    def count(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """How many points there are."""
        return {"points": self._shard.count(edge.CountRequest(exact=True))}, b""

    def page(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """The `fields` of the next `n` points after the id `after`, and where to go `after` that."""
        payload = edge.PayloadSelector.Include(ask["fields"])
        page = edge.ScrollRequest(offset=ask["after"], limit=ask["n"], with_payload=payload, with_vector=False)
        found, following = self._shard.scroll(page)
        return {"rows": [record.payload for record in found], "after": following and str(following)}, b""

    def flush(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Bring everything to disk and shorten the log."""
        self._shard.flush()
        return _EMPTY_REPLY

    def close(self) -> None:
        """Flush and let go of the folder."""
        self._shard.close()


def _open_shard(ask: dict[str, Any]) -> VectorShard:
    try:
        return VectorShard(ask["path"], ask["size"], make=ask["make"])
    except Exception:
        raise
    except BaseException as panic:  # the engine's way to say that a file makes no sense
        raise ValueError(f"{type(panic).__name__} {panic}") from panic


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve until the input ends or "close" is asked. What is asked first is "open".

    A panic later on ends the program: nobody knows what it left behind, and a new one begins from the disk.
    """
    shard: VectorShard | None = None
    while len(head := requests.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
        text, numbers = _FRAME_HEADER.unpack(head)
        ask, raw = json.loads(requests.read(text)), requests.read(numbers)
        if len(raw) < numbers or ask["do"] == "close":
            break
        try:
            if ask["do"] == "open":
                shard = _open_shard(ask)
                reply, out = _EMPTY_REPLY
            else:
                reply, out = getattr(shard, ask["do"])(ask, raw)
        except Exception as exc:  # the engine raises nothing narrower; the parent tells people
            reply, out = {"error": " ".join(f"{type(exc).__name__}: {exc}".split())[:300]}, b""
        said = json.dumps(reply).encode()
        replies.write(_FRAME_HEADER.pack(len(said), len(out)) + said + out)
        replies.flush()
    if shard is not None:
        shard.close()


if __name__ == "__main__":
    # The parent decides when to stop: a Ctrl-C in the terminal reaches both, and the parent still has work to finish.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    # Whatever a library prints must not get between the replies.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    main(sys.stdin.buffer, channel)
