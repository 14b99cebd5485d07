"""Reconnecting handle of a store: opened once, and again after its server was away or has lost a collection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, Timer
from typing import Generic, Protocol, TypeVar

from rag_core.errors import CollectionLost, QdrantGone, RagError

T = TypeVar("T")
log = logging.getLogger(__name__)

_RECONNECT_EVERY_S = 2.0


class _Closeable(Protocol):
    def close(self) -> None: ...


B = TypeVar("B", bound=_Closeable)


class Reconnecting(Generic[B]):
    """Reconnecting handle: while the server is away, every use raises the reason at once."""

    def __init__(self, opening: Callable[[], B], every: float = _RECONNECT_EVERY_S) -> None:
        """Open by calling `opening`, later again if it raises QdrantGone. Other errors are raised."""
        self._opening, self._every = opening, every
        self._closed, self._lock = False, Lock()
        self._timer: Timer | None = None
        self._opened: B | RagError
        try:
            self._opened = opening()
        except QdrantGone as exc:
            self._opened = exc
            self._try_again_later()

    @property
    def opened(self) -> B:
        """The opened object. Raises the error of the last attempt if there is none."""
        if isinstance(self._opened, RagError):
            raise self._opened
        return self._opened

    def do(self, work: Callable[[B], T]) -> T:
        """Call `work` with the opened object; if the server has lost the collection, start to reopen it."""
        opened = self.opened
        try:
            return work(opened)
        except CollectionLost as exc:
            with self._lock:
                first = self._opened is opened  # of several calls that notice it
                if first:
                    self._opened = exc
                    opened.close()
            if first:
                self._try_again_later()
            raise

    def close(self) -> None:
        """Stop retrying, and close the opened object."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            if not isinstance(self._opened, RagError):
                self._opened.close()

    def _try_again_later(self) -> None:
        self._timer = Timer(self._every, self._try_again)
        self._timer.daemon = True
        self._timer.start()

    def _try_again(self) -> None:
        try:
            opened = self._opening()
        except RagError as exc:
            if not isinstance(exc, QdrantGone):  # the server answers but cannot be used: an admin has to act
                log.error("the Qdrant server cannot be used: %s", exc.reason)
            self._opened = exc
            if not self._closed:
                self._try_again_later()
            return
        with self._lock:
            if self._closed:
                opened.close()
            else:
                self._opened = opened
