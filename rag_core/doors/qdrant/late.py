"""A collection on a server that may be gone when the bot begins, or lose it later: looked for until it is there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Generic, Protocol, TypeVar

from rag_core.doors.qdrant.calls import Lost
from rag_core.errors import QdrantGone, RagError

__all__ = ["Late"]

_LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)


class _Closing(Protocol):
    def close(self) -> None: ...


B = TypeVar("B", bound=_Closing)
T = TypeVar("T")


class Late(Generic[B]):
    """What `opening` opens, now or as soon as it can be; until then every use raises why not, at once."""

    def __init__(self, opening: Callable[[], B], every: float = _LOOK_EVERY_S) -> None:
        """Try once. Raises what cannot be mended by waiting."""
        self._opening, self._every = opening, every
        self._found: B | None = None
        self._why: RagError = QdrantGone("The Qdrant server has not been asked yet.")
        self._closed, self._turn = Event(), Lock()
        self._looking: Thread | None = None
        if not self._look():
            self._look_on()

    @property
    def there(self) -> B:
        """What was opened. Raises the sentence that says why it is not there."""
        if self._found is None:
            raise self._why
        return self._found

    def do(self, work: Callable[[B], T]) -> T:
        """Work with it; where the server has lost the collection, look for a new one from now on."""
        found = self.there
        try:
            return work(found)
        except Lost as exc:
            with self._turn:
                if self._found is found:
                    self._found, self._why = None, exc
                    found.close()
            self._look_on()
            raise

    def close(self) -> None:
        """Look no longer, and let go."""
        self._closed.set()
        with self._turn:
            if self._found is not None:
                self._found.close()

    def _look_on(self) -> None:
        with self._turn:
            if self._looking is None or not self._looking.is_alive():
                self._looking = Thread(target=self._look_until_there, name="qdrant", daemon=True)
                self._looking.start()

    def _look_until_there(self) -> None:
        while not self._closed.wait(self._every):
            try:
                if self._look():
                    return
            except RagError as exc:  # it is back, and not as it was: a person has to read why
                log.error("the Qdrant server cannot be used: %s", exc.reason)
                self._why = exc

    def _look(self) -> bool:
        try:
            found = self._opening()
        except QdrantGone as exc:
            self._why = exc
            return False
        with self._turn:
            if self._closed.is_set():
                found.close()
            else:
                self._found, self._looking = found, None  # at once: who loses it again must not think it is looked for
        return True
