"""A stand-in for a Qdrant server, so that "Qdrant is gone, and back" can be played where there is none.

It is no Qdrant. It answers the REST calls that Citegram makes, on loopback, out of qdrant-client's local mode: a scan
in Python over what is in memory. It says nothing about a server's speed, its disk, its indexes, quantisation, shards
or replicas: those settings are kept and shown again, and change nothing. What was written stays while it is `stop`ped;
`forget` is a server that lost its disk.

Beside other processes: `python tests/fake_qdrant.py [port]`, which prints its address. In a test:

    async with FakeQdrant() as qdrant:
        ... QDRANT__URL=qdrant.url ...
        await qdrant.stop()     # connections are refused
        await qdrant.start()    # at the same address, with the same collections
        qdrant.status = 503     # answers, but does not work
        qdrant.delay = 60       # seconds before each answer: hangs
"""

import asyncio
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from aiohttp import web
from local_server import LocalServer
from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

_SCATTERED = ("shard_number", "replication_factor", "write_consistency_factor")
_SETTINGS = ("hnsw_config", "quantization_config")  # which local mode does not keep


class FakeQdrant(LocalServer):
    """The stand-in, as an asynchronous context; its fields may be set at any time."""

    def __init__(self, *, key="", port=0):
        self.key, self.status, self.delay = key, 0, 0.0
        self.asked = []  # method and path of each request
        super().__init__(web.route("*", "/{path:.*}", self._answer), port=port)
        self._thread = ThreadPoolExecutor(1)  # local mode bears one
        self._local = QdrantClient(":memory:")
        self._made = {}
        self._indexed = {}

    @property
    def collections(self):
        return sorted(self._made)

    def info(self, name):
        return dict(self._info(name))

    async def __aexit__(self, *_):
        await self.stop()
        self._thread.shutdown()
        self._local.close()

    def forget(self):
        """Lose every collection. Only while nothing is asked."""
        for name in list(self._made):
            self._local.delete_collection(name)
        self._made.clear()
        self._indexed.clear()

    async def _answer(self, request):
        self.asked.append(f"{request.method} {request.path}")
        await asyncio.sleep(self.delay)
        if self.status:
            return _refused(self.status, "the stand-in was told to fail")
        if self.key and request.headers.get("api-key") != self.key:
            return _refused(403, "Forbidden: the key is wrong")
        if request.path == "/":
            return web.json_response({"title": "a stand-in for qdrant", "version": "1.16.0"})
        body = await request.read()
        work = partial(self._done, request.method, request.path.strip("/").split("/")[1:], body or b"{}")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _done(self, method, path, body):
        name, rest = path[0] if path else "", "/".join(path[1:])
        if name not in self._made and (method, rest) not in {("PUT", ""), ("GET", "exists"), ("GET", "")} and path:
            return _refused(404, f"Not found: Collection `{name}` doesn't exist!")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # local mode says that it is slow, and has no indexes
                return _said(self._of(method, name, rest, body))
        except LookupError as exc:
            return _refused(exc.args[0], f"the stand-in has no {method} {name}/{rest}")
        except ValueError as exc:
            return _refused(400, f"Wrong input: {exc}")

    def _of(self, method, name, rest, body):
        if not name:
            return {"collections": [{"name": one} for one in self.collections]}
        collection = {
            ("GET", "exists"): lambda: {"exists": name in self._made},
            ("PUT", ""): lambda: self._create(name, models.CreateCollection.model_validate_json(body)),
            ("PATCH", ""): lambda: self._update(name, models.UpdateCollection.model_validate_json(body)),
            ("GET", ""): lambda: self._info(name),
            ("DELETE", ""): lambda: bool(self._made.pop(name)) and self._local.delete_collection(name),
            ("PUT", "index"): lambda: self._index(name, models.CreateFieldIndex.model_validate_json(body)),
        }
        if (method, rest) in collection:
            return collection[method, rest]()
        return self._points(method, name, rest, body)

    def _points(self, method, name, rest, body):
        local = self._local
        if (method, rest) == ("PUT", "points"):
            return local.upsert(name, models.PointsList.model_validate_json(body).points)
        if (method, rest) == ("POST", "points/delete"):
            return local.delete(name, _selected(body))
        if (method, rest) == ("POST", "points/query/batch"):
            searches = models.QueryRequestBatch.model_validate_json(body).searches
            return local.query_batch_points(name, [_without_params(one) for one in searches])
        if (method, rest) == ("POST", "points"):
            asked = models.PointRequest.model_validate_json(body)
            return local.retrieve(name, asked.ids, asked.with_payload or False, asked.with_vector or False)
        if (method, rest) == ("POST", "points/scroll"):
            return self._scrolled(name, models.ScrollRequest.model_validate_json(body))
        if (method, rest) == ("POST", "points/count"):
            counted = models.CountRequest.model_validate_json(body)
            return local.count(name, counted.filter)
        raise LookupError(405)

    def _scrolled(self, name, asked):
        vectors = asked.with_vector or False
        page = (asked.limit or 10, asked.order_by, asked.offset, asked.with_payload or False)
        points, following = self._local.scroll(name, asked.filter, *page, vectors)
        return {"points": points, "next_page_offset": following}

    def _create(self, name, wanted):
        if name in self._made:
            raise LookupError(409)
        given = {field: getattr(wanted, field) for field in type(wanted).model_fields}
        vectors = given.pop("vectors") or {}
        kept = {field: value for field, value in given.items() if value is not None and field not in _SETTINGS}
        self._local.create_collection(name, vectors_config=vectors, **kept)
        self._made[name] = {field: given[field] for field in _SETTINGS if given[field] is not None}
        self._made[name]["params"] = {field: given[field] for field in _SCATTERED if given[field] is not None}
        return True

    def _update(self, name, wanted):
        if wanted.metadata is not None:
            self._local.update_collection(name, metadata=wanted.metadata)
        changed = {field: getattr(wanted, field) for field in (*_SETTINGS, "vectors")}
        self._made[name]["params"] |= _plain(wanted.params) if wanted.params else {}
        self._made[name] |= {field: value for field, value in changed.items() if value is not None}
        if wanted.quantization_config is models.Disabled.DISABLED:
            self._made[name].pop("quantization_config")
        return True

    def _index(self, name, wanted):
        schema = wanted.field_schema
        kind = schema.type if isinstance(schema, BaseModel) else schema
        params = schema if isinstance(schema, BaseModel) else None
        self._indexed.setdefault(name, {})[wanted.field_name] = {"data_type": kind, "params": params, "points": 0}
        return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)

    def _info(self, name):
        if name not in self._made:
            raise LookupError(404)
        info = self._local.get_collection(name).model_dump(mode="json", exclude_none=True)
        for field, value in self._made[name].items():
            if field == "vectors":
                info["config"]["params"]["vectors"]["dense"] |= _plain(value)["dense"]
            else:
                info["config"][field] = {**info["config"].get(field, {}), **_plain(value)}
        info["payload_schema"] = _plain(self._indexed.get(name, {}))
        return info


def _without_params(search):
    return search.model_copy(update={"params": None})  # local mode is exact, and warns where it is asked to be


def _selected(body):
    return TypeAdapter[Any](models.PointIdsList | models.FilterSelector).validate_json(body)


def _plain(value):
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _said(result):
    return web.json_response({"result": _plain(result), "status": "ok", "time": 0.0})


def _refused(status, why):
    return web.json_response({"status": {"error": why}, "time": 0.0}, status=status)


async def _forever(port):
    async with FakeQdrant(port=port) as stand_in:
        print(stand_in.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":  # python tests/fake_qdrant.py [port]: prints its address, and answers until it is ended
    with suppress(KeyboardInterrupt):
        asyncio.run(_forever(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
