"""qdrant-edge worker process: the program that owns the vector shard. It imports as little of Citegram as it can.

qdrant-edge 0.9.0 holds Python's global lock (GIL) in every call, searches included: in the bot's own process a search
in a million vectors would block the event loop for 60 ms, and opening them for 3 s. And native code that reads a
damaged file may crash its process. So the shard is opened in a process of its own.

Vectors are float32 numbers behind the messages.
"""

from __future__ import annotations

import os
from array import array
from typing import Any, BinaryIO

import qdrant_edge as edge

from rag_core.os_support import release_mapped_pages
from rag_core.worker_process import open_parent_pipes, read_message, write_message

_REF_PAYLOAD = edge.PayloadSelector.Include(["chat", "message", "part", "start", "end"])
_EXACT_SEARCH = edge.SearchParams(exact=True)
_DELETE_BATCH_IDS = 500
# The log of changes is a mapped file of 32 MB that is written from its beginning to its end, 2 kB a change, and never
# read before the next opening: written pages stay in this process's memory unless they are returned.
_LOG_RELEASE_CHANGES = 200
# Costs of a filtered search in units of one comparison (0.06 µs), measured at a million points: for each point that
# the narrowest condition allows (7 to 11 if that is not the slot), and for each point that is ranked and then filtered.
_GATHER_COST, _RANK_COST = 13, 80
_NAMED_POST_COST = 40  # the same unit, for each post that a filter names
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
    """Channels and dates as one condition on slots; empty if the filter has no slots."""
    if only["slots"] is None:
        return []
    slots = edge.FieldCondition("slot", match=edge.MatchAny(only["slots"]))
    if only["later"] is None:
        return [slots]
    return [edge.Filter(should=[slots, edge.FieldCondition("date", range=edge.RangeFloat(gte=only["later"]))])]


class VectorShard:
    """Open shard; its public methods are the requests of the protocol, except `close`."""

    def __init__(self, path: str, size: int, *, make: bool) -> None:
        self._size, self._slotted = size, True
        self._log, self._changes = f"{os.path.realpath(path)}/wal/", 0
        if not make:
            self._shard = edge.EdgeShard.load(path)
            self._shard.scroll(
                edge.ScrollRequest(limit=1, with_payload=True, with_vector=True)
            )  # raises if the files cannot be read
            self._slotted = "slot" in self._shard.info().payload_schema  # False for shards made before slots existed
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
        """Write points: `ids`, `payloads`, and in `raw` a vector for each."""
        rows = zip(ask["ids"], _decode_vectors(raw, self._size), ask["payloads"], strict=True)
        points = [edge.Point(name, {"dense": row}, payload) for name, row, payload in rows]
        self._change(edge.UpdateOperation.upsert_points(points))
        return _EMPTY_REPLY

    def remove(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Delete all points of `posts` (pairs of a channel and its message ids), except the point ids in `but`."""
        kept = [edge.HasIdCondition(set(ask["but"]))] if ask["but"] else []
        for chat, messages in ask["posts"]:
            for at in range(0, len(messages), _DELETE_BATCH_IDS):
                some = edge.MatchAny(messages[at : at + _DELETE_BATCH_IDS])
                of_chat = edge.FieldCondition("chat", match=edge.MatchValue(chat))
                posts = edge.Filter(must=[of_chat, edge.FieldCondition("message", match=some)], must_not=[*kept])
                self._change(edge.UpdateOperation.delete_points_by_filter(posts))
        return _EMPTY_REPLY

    def _change(self, operation: edge.UpdateOperation) -> None:
        self._shard.update(operation)
        self._changes += 1
        if self._changes % _LOG_RELEASE_CHANGES == 0:
            release_mapped_pages(self._log)

    def search(self, ask: dict[str, Any], raw: bytes) -> WorkerReply:
        """Find the `n` nearest points that `only` allows: `hits` are pairs of a payload and a cosine."""
        (vector,) = _decode_vectors(raw, self._size)
        only, n = ask["only"], ask["n"]
        points = (self._search_channels if only["posts"] is None else self._search_posts)(vector, only, n)
        return {"hits": [(point.payload, point.score) for point in points]}, b""

    def _search_posts(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """Search single posts: many posts by filtering a ranking, else channel by channel.

        12,000 of 100,000 points: 20 ms by ranking, 40 ms channel by channel, 70 ms as one filter with "or" between 12
        channels; 1,200 points: 12 ms channel by channel, 16 ms with "or".
        """
        found = self._rank_and_filter_posts(vector, only, n)
        for chat, messages in only["posts"] if not found else ():
            of_chat = edge.FieldCondition("chat", match=edge.MatchValue(chat))
            conditions = _make_conditions(only, of_chat, edge.FieldCondition("message", match=edge.MatchAny(messages)))
            found += self._nearest(vector, edge.Filter(must=[*conditions]), n)
        return sorted(found, key=lambda point: -point.score)[:n]

    def _rank_and_filter_posts(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """Rank all points and keep those of the posts; empty if too costly, not applicable, or below n hits."""
        posts, points = {(chat, one) for chat, some in only["posts"] for one in some}, self._estimate_count(None)
        pool = 3 * n * points // (2 * len(posts)) + 100
        bounded = any(only[name] is not None for name in ("since", "until", "lang"))
        if bounded or _NAMED_POST_COST * len(posts) < points + _RANK_COST * pool:
            return []
        found = [p for p in self._nearest(vector, None, pool) if (p.payload["chat"], p.payload["message"]) in posts]
        return found[:n] if len(found) >= n else []

    def _nearest(self, vector: list[float], allowed: edge.Filter | None, n: int, *, payload: bool = True) -> list[Any]:
        query, fields = edge.Query.Nearest(vector, using="dense"), _REF_PAYLOAD if payload else False
        return self._shard.query(
            edge.QueryRequest(limit=n, query=query, filter=allowed, with_payload=fields, params=_EXACT_SEARCH)
        )

    def _search_channels(self, vector: list[float], only: dict[str, Any], n: int) -> list[Any]:
        """Search whole channels by the cheaper of two query plans.

        The engine gathers all points that a filter allows before it compares, which can cost more than comparing
        with all points. So if the filter allows many, the nearest of all points are ranked first, 1.5 times as many
        as expected to be needed, and the filtered query runs over those. If it finds n, no other allowed point can be
        nearer, since it would be among the ranked. If it finds fewer, the full filtered query is needed.
        """
        conditions = _make_conditions(only, edge.FieldCondition("chat", match=edge.MatchAny(only["channels"])))
        slots = _make_slot_conditions(only) if self._slotted else []
        points = self._estimate_count(None)
        allowed = self._estimate_count(
            edge.Filter(must=[*slots, *_make_language_conditions(only)] if slots else [*conditions])
        )
        narrowest = min(self._estimate_count(edge.Filter(must=[one])) for one in conditions)
        in_slots = self._estimate_count(edge.Filter(must=[*slots]))
        slots, narrowest = (slots, in_slots) if 3 * in_slots < 2 * narrowest else ([], narrowest)
        pool = 3 * n * points // (2 * max(1, allowed)) + 100
        if _GATHER_COST * narrowest >= points + _RANK_COST * pool:
            ranked = self._nearest(vector, None, pool, payload=False)
            found = self._nearest(
                vector, edge.Filter(must=[edge.HasIdCondition({p.id for p in ranked}), *conditions]), n
            )
            if len(found) == n or len(ranked) < pool:
                return found
        return self._nearest(vector, edge.Filter(must=[*slots, *conditions]), n)

    def _estimate_count(self, allowed: edge.Filter | None) -> int:
        """Estimate the number of points that a filter allows, from the payload indexes."""
        return self._shard.count(edge.CountRequest(exact=False, filter=allowed))

    def vectors(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Read the vectors of the points among `ids` that exist, and their ids."""
        found = self._shard.retrieve(ask["ids"], with_payload=False, with_vector=True)
        return {"ids": [str(record.id) for record in found]}, _encode_vectors(found)

    def vectors_by_hash(self, ask: dict[str, Any], _: bytes) -> WorkerReply:
        """Read vectors and text hashes of points whose `hash` is among `numbers`, twice as many at most."""
        some = edge.Filter(must=[edge.FieldCondition("hash", match=edge.MatchAny(ask["numbers"]))])
        payload = edge.PayloadSelector.Include(["text_hash"])
        limit = 2 * len(ask["numbers"])
        page = edge.ScrollRequest(limit=limit, filter=some, with_payload=payload, with_vector=True)
        found, _next = self._shard.scroll(page)
        return {"hashes": [(record.payload or {})["text_hash"] for record in found]}, _encode_vectors(found)

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
        """Flush and close the shard."""
        self._shard.close()


def _open_shard(ask: dict[str, Any]) -> VectorShard:
    try:
        return VectorShard(ask["path"], ask["size"], make=ask["make"])
    except Exception:
        raise
    except BaseException as panic:  # the engine panics on a file that it cannot interpret
        raise ValueError(f"{type(panic).__name__} {panic}") from panic


def main(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve requests until the input ends. The first request is "open".

    A later panic ends the program: the state in memory is unknown then, and a new process starts from the disk.
    """
    shard: VectorShard | None = None
    while received := read_message(requests):
        ask, raw = received
        try:
            if ask["do"] == "open":
                shard = _open_shard(ask)
                reply, out = _EMPTY_REPLY
            else:
                reply, out = getattr(shard, ask["do"])(ask, raw)
        except Exception as exc:  # the engine raises nothing narrower; the parent makes the message
            reply, out = {"error": " ".join(f"{type(exc).__name__}: {exc}".split())[:300]}, b""
        write_message(replies, reply, out)
    if shard is not None:
        shard.close()


if __name__ == "__main__":
    main(*open_parent_pipes())
