"""The program of the child process that owns the shard. It knows qdrant-edge, and nothing of Citegram.

qdrant-edge 0.9.0 keeps Python's lock in every call, searches too: in the bot's own process a search in a
million vectors would stop the event loop for 60 ms, opening them for 3 s. And native code that meets a
damaged file may take its process with it. So the shard lives here.

A request and a reply are each: two big-endian lengths, a JSON object, float32 numbers. The end of the input
is the end of the program: it has no parent any more.
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

__all__ = ["Shard", "main"]

_LENGTHS = struct.Struct(">II")  # as in process.py
_PLACE = edge.PayloadSelector.Include(["chat", "message", "part", "start", "end"])
_EXACT = edge.SearchParams(exact=True)
_DELETE_AT_ONCE = 500
# What a filtered search costs beside one comparison (0.05 µs), measured at 60,000 to a million points: for each
# point that the narrowest condition lets through, and for each that is ranked and then filtered.
_GATHERED, _RANKED = 12, 60
# `errno` of what is wrong around the shard, not with it: EPERM, EIO, EAGAIN, ENOMEM, EACCES, ENFILE, EMFILE,
# ENOSPC, EROFS, EDQUOT; or another program has the log open. The engine's errors are texts.
_AROUND = ("WouldBlock", *(f"(os error {code})" for code in (1, 5, 11, 12, 13, 23, 24, 28, 30, 122)))

Reply = tuple[dict[str, Any], bytes]
_NOTHING: Reply = {}, b""


def _rows(raw: bytes, size: int) -> list[list[float]]:
    numbers = array("f", raw).tolist()
    return [numbers[at : at + size] for at in range(0, len(numbers), size)]


def _dense(found: list[edge.Record] | list[edge.ScoredPoint]) -> bytes:
    numbers = array("f")
    for record in found:
        numbers.extend(record.vector["dense"])  # type: ignore[arg-type,call-overload,index]
    return numbers.tobytes()


def _conditions(only: dict[str, Any]) -> list[edge.FieldCondition]:
    conditions = [edge.FieldCondition("chat", match=edge.MatchAny(only["channels"]))]
    if only["since"] is not None or only["until"] is not None:
        conditions.append(edge.FieldCondition("date", range=edge.RangeFloat(gte=only["since"], lt=only["until"])))
    if only["lang"] is not None:
        conditions.append(edge.FieldCondition("lang", match=edge.MatchValue(only["lang"])))
    return conditions


class Shard:
    """One open shard and what may be asked of it."""

    def __init__(self, path: str, size: int, *, make: bool) -> None:
        self._size = size
        if not make:
            self._shard = edge.EdgeShard.load(path)
            self._shard.scroll(edge.ScrollRequest(limit=1, with_payload=True, with_vector=True))  # is it readable?
            return
        dense = edge.EdgeVectorParams(
            size=size, distance=edge.Distance.Cosine, datatype=edge.VectorStorageDatatype.Float16
        )
        self._shard = edge.EdgeShard.create(path, edge.EdgeConfig(vectors={"dense": dense}))
        for field, index in (
            ("chat", edge.IntegerIndexParams(lookup=True, range=False)),
            ("message", edge.IntegerIndexParams(lookup=True, range=False)),
            ("hash", edge.IntegerIndexParams(lookup=True, range=False)),
            ("date", edge.IntegerIndexParams(lookup=False, range=True)),
            ("lang", edge.KeywordIndexParams()),
        ):
            self._shard.update(edge.UpdateOperation.create_field_index(field, index))

    def upsert(self, ask: dict[str, Any], raw: bytes) -> Reply:
        """`ids` and `payloads`, and a row of numbers for each."""
        rows = zip(ask["ids"], _rows(raw, self._size), ask["payloads"], strict=True)
        points = [edge.Point(name, {"dense": row}, payload) for name, row, payload in rows]
        self._shard.update(edge.UpdateOperation.upsert_points(points))
        return _NOTHING

    def remove(self, ask: dict[str, Any], _: bytes) -> Reply:
        """`posts`: pairs of a channel and its message ids; `but` the points with these ids."""
        kept = [edge.HasIdCondition(set(ask["but"]))] if ask["but"] else []
        for chat, messages in ask["posts"]:
            for at in range(0, len(messages), _DELETE_AT_ONCE):
                some = edge.MatchAny(messages[at : at + _DELETE_AT_ONCE])
                of_chat = edge.FieldCondition("chat", match=edge.MatchValue(chat))
                posts = edge.Filter(must=[of_chat, edge.FieldCondition("message", match=some)], must_not=[*kept])
                self._shard.update(edge.UpdateOperation.delete_points_by_filter(posts))
        return _NOTHING

    def search(self, ask: dict[str, Any], raw: bytes) -> Reply:
        """The `n` nearest that `only` allows: `hits` are pairs of a payload and a cosine."""
        (vector,) = _rows(raw, self._size)
        conditions = _conditions(ask["only"])
        found = self._by_ranking(vector, conditions, ask["n"])
        if found is None:
            found = self._nearest(vector, edge.Filter(must=[*conditions]), ask["n"])
        return {"hits": [(point.payload, point.score) for point in found]}, b""

    def _nearest(self, vector: list[float], allowed: edge.Filter | None, n: int, *, payload: bool = True) -> list[Any]:
        nearest = edge.Query.Nearest(vector, using="dense")
        return self._shard.query(
            edge.QueryRequest(
                limit=n, query=nearest, filter=allowed, with_payload=_PLACE if payload else False, params=_EXACT
            )
        )

    def _by_ranking(self, vector: list[float], conditions: list[edge.FieldCondition], n: int) -> list[Any] | None:
        """The same answer by a cheaper way where the filter lets much through, or None.

        The engine gathers all that a filter allows before it compares, and that costs more than comparing with
        everything. So the nearest of all points are ranked first, half as many again as it should take, and the
        filtered query runs over those. When it finds n, nobody who is allowed stands nearer: whoever does would
        be among the ranked. When it finds fewer, the ranking settles nothing.
        """
        points = self._about(None)
        allowed = max(1, self._about(edge.Filter(must=[*conditions])))
        narrowest = min(self._about(edge.Filter(must=[one])) for one in conditions)
        pool = 3 * n * points // (2 * allowed) + 100
        if _GATHERED * narrowest < points + _RANKED * pool:
            return None
        ranked = self._nearest(vector, None, pool, payload=False)
        among = edge.HasIdCondition({point.id for point in ranked})
        found = self._nearest(vector, edge.Filter(must=[among, *conditions]), n)
        return found if len(found) == n or len(ranked) < pool else None

    def _about(self, allowed: edge.Filter | None) -> int:
        """How many points a filter lets through, estimated from its indexes."""
        return self._shard.count(edge.CountRequest(exact=False, filter=allowed))

    def vectors(self, ask: dict[str, Any], _: bytes) -> Reply:
        """The vectors of the points among `ids` that are there, and their ids."""
        found = self._shard.retrieve(ask["ids"], with_payload=False, with_vector=True)
        return {"ids": [str(record.id) for record in found]}, _dense(found)

    def hashed(self, ask: dict[str, Any], _: bytes) -> Reply:
        """Vectors of points whose `hash` is among `numbers`, at most two for each, and their text hashes."""
        some = edge.Filter(must=[edge.FieldCondition("hash", match=edge.MatchAny(ask["numbers"]))])
        payload = edge.PayloadSelector.Include(["text_hash"])
        limit = 2 * len(ask["numbers"])
        page = edge.ScrollRequest(limit=limit, filter=some, with_payload=payload, with_vector=True)
        found, _next = self._shard.scroll(page)
        return {"hashes": [(record.payload or {})["text_hash"] for record in found]}, _dense(found)

    def count(self, ask: dict[str, Any], _: bytes) -> Reply:
        """How many points there are."""
        return {"points": self._shard.count(edge.CountRequest(exact=True))}, b""

    def page(self, ask: dict[str, Any], _: bytes) -> Reply:
        """The `fields` of the next `n` points after the id `after`, and where to go `after` that."""
        payload = edge.PayloadSelector.Include(ask["fields"])
        page = edge.ScrollRequest(offset=ask["after"], limit=ask["n"], with_payload=payload, with_vector=False)
        found, following = self._shard.scroll(page)
        return {"rows": [record.payload for record in found], "after": following and str(following)}, b""

    def flush(self, ask: dict[str, Any], _: bytes) -> Reply:
        """Bring everything to disk and shorten the log."""
        self._shard.flush()
        return _NOTHING

    def close(self) -> None:
        """Flush and let go of the folder."""
        self._shard.close()


def _fault(exc: BaseException) -> dict[str, str]:
    said = " ".join(f"{type(exc).__name__}: {exc}".split())[:300]
    return {"error": said, "kind": "around" if any(words in said for words in _AROUND) else "failed"}


def _opened(ask: dict[str, Any]) -> Shard:
    try:
        return Shard(ask["path"], ask["size"], make=ask["make"])
    except Exception:
        raise
    except BaseException as panic:  # the engine's way to say that a file makes no sense
        raise ValueError(f"{type(panic).__name__} {panic}") from panic


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve until the input ends or "close" is asked. What is asked first is "open".

    A panic later on ends the program: nobody knows what it left behind, and a new one begins from the disk.
    """
    shard: Shard | None = None
    while len(head := requests.read(_LENGTHS.size)) == _LENGTHS.size:
        text, numbers = _LENGTHS.unpack(head)
        ask, raw = json.loads(requests.read(text)), requests.read(numbers)
        if len(raw) < numbers or ask["do"] == "close":
            break
        try:
            if ask["do"] == "open":
                shard = _opened(ask)
                reply, out = _NOTHING
            else:
                reply, out = getattr(shard, ask["do"])(ask, raw)
        except Exception as exc:  # the engine raises nothing narrower; the parent tells people
            reply, out = _fault(exc), b""
        said = json.dumps(reply).encode()
        replies.write(_LENGTHS.pack(len(said), len(out)) + said + out)
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
