"""Calls to a Qdrant server: repeated where that may help, and what goes wrong is one sentence. Seldom imported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TypeVar
from urllib.parse import urlsplit

import stamina
from httpx import TimeoutException
from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.settings import QdrantSettings

__all__ = ["LOCAL", "Calls", "Lost", "connected"]

LOCAL = ":memory:"  # qdrant-client's own scan in Python, for tests
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_BUSY = (429, 502, 503, 504)

_SILENT = "The Qdrant server at {where} does not answer ({said}). Check that it runs, and QDRANT__URL."
_STRANGE = "What answers at {where} is no Qdrant server that we know. Check QDRANT__URL, and that it is 1.16 or later."
_REFUSED = "The Qdrant server at {where} refuses the key. Check QDRANT__KEY."
_FAILED = "The Qdrant server at {where} could not do its work ({said})."
_LOST = "The Qdrant server at {where} has lost a collection ({said}): it is filled again from the archive."

T = TypeVar("T")
log = logging.getLogger(__name__)


class Lost(QdrantGone):
    """A collection that was there is not any more."""


@contextmanager
def _said_plainly(where: str) -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as exc:
        if exc.status_code in (401, 403):
            raise VectorsUnavailable(_REFUSED.format(where=where)) from exc
        said, status = f"{exc.status_code} {exc.reason_phrase}", exc.status_code or 500
        if status == 404:
            raise Lost(_LOST.format(where=where, said=said)) from exc
        kind = QdrantGone if status >= 500 or status in _BUSY else VectorsUnavailable
        raise kind(_FAILED.format(where=where, said=said)) from exc
    except ResponseHandlingException as exc:
        if isinstance(exc.source, ValidationError | ValueError):
            raise VectorsUnavailable(_STRANGE.format(where=where)) from exc
        raise QdrantGone(_SILENT.format(where=where, said=exc)) from exc
    except (ApiException, QdrantException) as exc:
        raise QdrantGone(_FAILED.format(where=where, said=exc)) from exc


def _passing(exc: Exception) -> bool:
    """Whether to ask once more: not where time ran out, for it would run out again."""
    if isinstance(exc, UnexpectedResponse):
        return exc.status_code in _BUSY
    return isinstance(exc, ResponseHandlingException) and not isinstance(
        exc.source, TimeoutException | ValidationError | ValueError
    )


class Calls:
    """A client, its name in sentences, and how often a call is tried. Every call must be one that may be repeated."""

    def __init__(self, client: QdrantClient, where: str, retries: int = 0) -> None:
        self._client, self.where, self._attempts = client, where, retries + 1
        self._alone = RLock()

    @property
    def local(self) -> bool:
        """Whether there is no server at all."""
        return self.where == LOCAL

    def __call__(self, work: Callable[[QdrantClient], T]) -> T:
        """What `work` returns. Raises VectorsUnavailable; QdrantGone where it may be well again later."""
        if self.local:
            with self._alone:  # local mode bears one thread
                return work(self._client)
        pauses = {"wait_initial": _FIRST_PAUSE_S, "wait_max": _LONGEST_PAUSE_S, "timeout": None}
        with _said_plainly(self.where):
            for attempt in stamina.retry_context(on=_passing, attempts=self._attempts, **pauses):  # type: ignore[arg-type]
                with attempt:
                    return work(self._client)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """End the connections."""
        self._client.close()


def connected(settings: QdrantSettings) -> Calls:
    """Calls to the server, which has not been asked anything yet; of a URL only the host is ever said: it may hold a
    password. Raises VectorsUnavailable for a URL that is none."""
    if settings.url == LOCAL:
        return Calls(QdrantClient(LOCAL), LOCAL)
    parts, key = urlsplit(settings.url), settings.key.get_secret_value() or None
    where = parts.netloc.rpartition("@")[2] or settings.url
    if key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        log.warning("the key for %s goes over the network in clear: use https unless the network is yours", where)
    try:
        # As a header: given as a key it makes the client warn, of localhost too.
        headers = {"api-key": key} if key else {}
        client = QdrantClient(url=settings.url, metadata=headers, timeout=settings.timeout, check_compatibility=False)
    except ValueError as exc:
        raise VectorsUnavailable(f"QDRANT__URL is not the address of a server ({exc}).") from exc
    return Calls(client, where, settings.retries)
