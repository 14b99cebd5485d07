"""Qdrant connection: nodes of a server or cluster, retries, and errors as sentences.

Imported only if QDRANT__URL is set.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TypeVar
from urllib.parse import urlsplit

import stamina
from httpx import TimeoutException
from pydantic import ValidationError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from rag_core.errors import CollectionLost, QdrantGone, VectorsUnavailable
from rag_core.settings import QdrantSettings

IN_MEMORY_URL = ":memory:"  # qdrant-client's own scan in Python, for tests
_FIRST_RETRY_PAUSE_S, _MAX_RETRY_PAUSE_S = 0.1, 1.0
_RETRIES = 2  # where the server refuses to connect
_BUSY_STATUSES = (429, 502, 503, 504)
_PASSED_OVER_S = 5.0  # a node that did not answer; without another one it is asked all the same
_READ_TIMEOUT_S = 1  # of a search, where another node can be asked: within the budget of a search

_SERVER_SILENT = "The Qdrant server at {where} does not answer ({said}). Check that it runs, and QDRANT__URL."
_SERVER_UNKNOWN = (
    "What answers at {where} is no Qdrant server that we know. Check QDRANT__URL, and that it is 1.16 or later."
)
_KEY_REFUSED = "The Qdrant server at {where} refuses the key. Check QDRANT__KEY."
_SERVER_FAILED = "The Qdrant server at {where} could not do its work ({said})."
_COLLECTION_LOST = "The Qdrant server at {where} has lost a collection ({said}): it is filled again from the archive."

T = TypeVar("T")
log = logging.getLogger(__name__)


@contextmanager
def _translate_qdrant_errors(where: str) -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as exc:
        if exc.status_code in (401, 403):
            raise VectorsUnavailable(_KEY_REFUSED, code="qdrant-key-refused", where=where) from exc
        said, status = f"{exc.status_code} {exc.reason_phrase}", exc.status_code or 500
        if status == 404:
            raise CollectionLost(_COLLECTION_LOST.format(where=where, said=said)) from exc
        kind = QdrantGone if status >= 500 or status in _BUSY_STATUSES else VectorsUnavailable
        raise kind(_SERVER_FAILED, code="qdrant-failed", where=where, said=said) from exc
    except ResponseHandlingException as exc:
        if isinstance(exc.source, ValidationError | ValueError):
            raise VectorsUnavailable(_SERVER_UNKNOWN, code="qdrant-unknown", where=where) from exc
        raise QdrantGone(_SERVER_SILENT, code="qdrant-silent", where=where, said=exc) from exc
    except (ApiException, QdrantException) as exc:
        raise QdrantGone(_SERVER_FAILED, code="qdrant-failed", where=where, said=exc) from exc


def _is_transient_error(exc: Exception) -> bool:
    """Whether to retry a call: not after a timeout, which would happen again."""
    if isinstance(exc, UnexpectedResponse):
        return exc.status_code in _BUSY_STATUSES
    if isinstance(exc, ResponseHandlingException):
        return not isinstance(exc.source, TimeoutException | ValidationError | ValueError)
    return isinstance(exc, ResourceExhaustedResponse)  # 429 with the seconds to wait


@dataclass(slots=True)
class _Node:
    """Node of the cluster: `reads` is a client that gives up sooner, so that another node can be asked in time."""

    where: str
    client: QdrantClient
    reads: QdrantClient
    down_until: float = 0.0


class QdrantConnection:
    """Connection to a Qdrant server or to the nodes of a cluster, with retries. Every call must be repeatable.

    A node that does not answer is passed over for some seconds; `where` names the nodes in messages.
    """

    def __init__(self, nodes: Sequence[_Node], retries: int = 0) -> None:
        self._nodes = list(nodes)
        self._attempts = 1 if len(nodes) > 1 else retries + 1  # another node is the better second attempt
        self.where = ", ".join(node.where for node in nodes)
        self._local_lock = RLock()

    @classmethod
    def of(cls, client: QdrantClient, where: str) -> QdrantConnection:
        """Connection to one server through this client."""
        return cls([_Node(where, client, client)])

    @property
    def local(self) -> bool:
        """Whether this is qdrant-client's local mode, without a server."""
        return self.where == IN_MEMORY_URL

    def __call__(self, work: Callable[[QdrantClient], T], *, read: bool = False) -> T:
        """Call `work` with a client of the first node that answers, with retries at each.

        `read`: a short request, that another node may answer sooner. Raises VectorsUnavailable; QdrantGone if it may
        work later.
        """
        if self.local:
            with self._local_lock:  # local mode is not thread-safe
                return work(self._nodes[0].client)
        now = time.monotonic()
        for node in sorted(self._nodes, key=lambda node: max(now, node.down_until)):  # stable: the first that is up
            try:
                return self._ask(node, work, read)
            except CollectionLost:
                raise
            except QdrantGone as exc:
                node.down_until = time.monotonic() + _PASSED_OVER_S
                failure = exc
        raise failure

    def _ask(self, node: _Node, work: Callable[[QdrantClient], T], read: bool) -> T:
        pauses = {"wait_initial": _FIRST_RETRY_PAUSE_S, "wait_max": _MAX_RETRY_PAUSE_S, "timeout": None}
        with _translate_qdrant_errors(node.where):
            for attempt in stamina.retry_context(on=_is_transient_error, attempts=self._attempts, **pauses):  # type: ignore[arg-type]
                with attempt:
                    return work(node.reads if read else node.client)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes:
            node.client.close()
            node.reads.close()


def connect_qdrant(settings: QdrantSettings) -> QdrantConnection:
    """Make a connection to the server, without a request yet. Raises VectorsUnavailable for an invalid URL.

    Messages name only the host of a URL: the URL may hold a password.
    """
    if settings.url == IN_MEMORY_URL:
        return QdrantConnection.of(QdrantClient(IN_MEMORY_URL), IN_MEMORY_URL)
    key = settings.key.get_secret_value()
    # As a header: given as `api_key` it makes the client warn, for localhost too.
    headers = {"api-key": key} if key else {}

    def connect(url: str, seconds: int) -> QdrantClient:
        return QdrantClient(url=url, metadata=headers, timeout=seconds, check_compatibility=False)

    nodes = []
    for url in settings.urls:
        parts = urlsplit(url)
        where = parts.netloc.rpartition("@")[2] or url
        if key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            log.warning("the key for %s goes over the network in clear: use https unless the network is yours", where)
        try:
            client = connect(url, settings.timeout)
            hurried = len(settings.urls) > 1 and settings.timeout > _READ_TIMEOUT_S
            nodes.append(_Node(where, client, connect(url, _READ_TIMEOUT_S) if hurried else client))
        except ValueError as exc:
            raise VectorsUnavailable(
                f"QDRANT__URL is not the address of a server ({exc}): write http://host:6333."
            ) from exc
    return QdrantConnection(nodes, _RETRIES)
