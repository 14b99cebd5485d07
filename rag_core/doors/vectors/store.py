"""The embedded store: a folder and its engine, opened or built anew, asked, started again, sealed.

Blocking calls. The engine is started again when it ends (out of memory, a kill): what it acknowledged is in
its write-ahead log.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rag_core.doors.vectors.contract import Floats
from rag_core.doors.vectors.folder import Damaged, Home
from rag_core.doors.vectors.points import ABOUT, About, Batch, Only
from rag_core.doors.vectors.process import OPEN_PATIENCE_S, PATIENCE_S, Engine, EngineGone, EngineRefused
from rag_core.errors import VectorsUnavailable, raised_as

__all__ = ["Store"]

log = logging.getLogger(__name__)

# Opening after a kill replays what was written since the last flush: 20,000 points take 2 s. A flush takes
# 0.2 to 0.5 s, and searches wait meanwhile.
_FLUSH_EVERY = 20_000
_ROOM = 64 * 2**20  # bytes; the engine maps files of 32 MB and dies where the disk cannot back them
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE}

_FAILED = (
    "The vector index in {folder} failed ({said}). Restart Citegram; if it fails again, delete the folder: "
    "it is built anew from the archive."
)
_AROUND = "The vector index in {folder} cannot be read or written ({said}). Check the disk and its permissions."
_ENDED = (
    "The engine of the vector index in {folder} does not run (it ended with {code}: {said}). "
    "Check that memory and disk space are free."
)
_FULL = "The disk that holds the vector index in {folder} is full. Free some space and try again."
_DAMAGED = "The vector index in {folder} was damaged while it was in use ({said}). Restart Citegram: it is built anew."
_OTHER = (
    "The vector index in {folder} was made for the model {made.model} ({made.dimension} numbers), not for {model} "
    "({size}). Choose that model again, or delete the folder: it is filled anew from the archive."
)


class Store:
    """An open store. One thread at a time; every method raises VectorsUnavailable where it cannot do its work."""

    def __init__(self, home: Home, about: About, engine: Engine) -> None:
        self._home, self.about, self._engine = home, about, engine
        self._unflushed = 0

    @classmethod
    def open(cls, folder: Path, model: str, dimension: int) -> Store:
        """Open what is in the folder; where there is nothing or something damaged, begin anew."""
        home = Home(folder)
        try:
            try:
                about = home.about()
                if about is not None:
                    return cls(home, about, _reopened(home, about, model, dimension))
            except Damaged as exc:
                log.warning("the vector index in %s is damaged (%s): it is built anew from the archive", folder, exc)
            about = home.cleared(model, dimension)
            made = cls(home, about, _started(home, about, make=True))
            try:
                home.finish(about)
            except BaseException:
                made._engine.stop()
                raise
            return made
        except BaseException:
            home.release()
            raise

    def write(self, batch: Batch) -> None:
        """Write points; a flush comes with it now and then."""
        self._ask("upsert", {"ids": batch.ids, "payloads": batch.payloads}, batch.vectors.tobytes())
        self._unflushed += len(batch.ids)
        if self._unflushed >= _FLUSH_EVERY:
            self.flush()

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Take out all parts of posts, given as message ids by channel, but the points with these ids."""
        self._ask("remove", {"posts": list(posts.items()), "but": but})

    def search(self, vector: Floats, only: Only, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Payloads and cosines of the n nearest that are allowed."""
        reply, _ = self._ask("search", {"only": only, "n": n}, vector.tobytes())
        return [(payload, score) for payload, score in reply["hits"]]

    def vectors(self, ids: list[str]) -> dict[str, Floats]:
        """The vectors of those ids that are there."""
        reply, raw = self._ask("vectors", {"ids": ids})
        return dict(zip(reply["ids"], self._rows(raw), strict=True))

    def hashed(self, numbers: list[int]) -> list[tuple[str, Floats]]:
        """Text hashes and vectors of points with these hash numbers, a page of them."""
        reply, raw = self._ask("hashed", {"numbers": numbers})
        return list(zip(reply["hashes"], self._rows(raw), strict=True))

    def count(self) -> int:
        """How many points there are."""
        return int(self._ask("count", {})[0]["points"])

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """The payloads of the next n points in the engine's order, and where to go on; None at the end."""
        reply, _ = self._ask("page", {"after": after, "n": n, "fields": ABOUT})
        return reply["rows"], reply["after"]

    def flush(self) -> None:
        """Bring everything to disk, and note what is there."""
        self._ask("flush", {})
        self._home.seal(self.about, closed=False)
        self._unflushed = 0

    def _rows(self, raw: bytes) -> Floats:
        return np.frombuffer(raw, np.float32).reshape(-1, self.about.dimension)

    def _ask(self, do: str, fields: Mapping[str, object], raw: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """One request. Where the engine has gone it is started again and asked once more: all may be repeated."""
        folder = self._home.folder
        try:
            try:
                return self._engine.ask(do, fields, raw, PATIENCE_S)
            except EngineGone as exc:
                log.warning("%s: it is started again", exc)
                self._engine = _started(self._home, self.about, make=False)
                return self._engine.ask(do, fields, raw, PATIENCE_S)
        except EngineGone as exc:
            raise VectorsUnavailable(_ENDED.format(folder=folder, code=exc.code, said=exc.said)) from exc
        except EngineRefused as exc:
            say = _AROUND if exc.kind == "around" else _FAILED
            raise VectorsUnavailable(say.format(folder=folder, said=exc.said)) from exc
        except Damaged as exc:
            raise VectorsUnavailable(_DAMAGED.format(folder=folder, said=exc)) from exc

    def close(self) -> None:
        """Flush, end the engine and let go of the folder."""
        try:
            if self._engine.stop():
                self._home.seal(self.about, closed=True)
        except VectorsUnavailable as exc:  # nothing is lost: the next opening only knows less
            log.warning("%s", exc.reason)
        finally:
            self._home.release()


def _reopened(home: Home, about: About, model: str, dimension: int) -> Engine:
    if (about.model, about.dimension) != (model, dimension):
        raise VectorsUnavailable(_OTHER.format(folder=home.folder, made=about, model=model, size=dimension))
    home.check(about)
    return _started(home, about, make=False)


def _started(home: Home, about: About, *, make: bool) -> Engine:
    """A running engine with the shard open. Raises VectorsUnavailable; Damaged where the shard is at fault."""
    folder = home.folder
    unstarted = raised_as(VectorsUnavailable, OSError, say="The engine of the vector index cannot be started ({}).")
    with unstarted, home.engine_lock() as lock:
        engine = Engine(home.log, lock)
    try:
        shard = {"path": str(home.shard(about)), "size": about.dimension, "make": make}
        engine.ask("open", shard, b"", OPEN_PATIENCE_S)
        return engine
    except EngineRefused as exc:
        engine.stop()
        if exc.kind == "failed" and not make:
            raise Damaged(exc.said) from exc
        say = _AROUND if exc.kind == "around" else _FAILED
        raise VectorsUnavailable(say.format(folder=folder, said=exc.said)) from exc
    except EngineGone as exc:
        if exc.code in _CRASHES and home.free() < _ROOM:
            raise VectorsUnavailable(_FULL.format(folder=folder)) from exc
        if exc.code in _CRASHES and not make:
            raise Damaged(str(exc)) from exc
        raise VectorsUnavailable(_ENDED.format(folder=folder, code=exc.code, said=exc.said)) from exc
