"""A server that speaks OpenAI's protocol, on the wire: retries, a circuit breaker, and every failure as one sentence.

What a server says of a failure is only looked at: it may repeat the prompt, and the prompt holds posts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import stamina
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, ServerTimeoutError, TCPConnector
from purgatory import AsyncCircuitBreakerFactory
from purgatory.domain.model import OpenedState
from yarl import URL

from rag_core.doors.llm.sse import data_of
from rag_core.errors import GenerationFailed, ModelUnavailable

__all__ = ["Outage", "Refused", "Server"]

_CONNECT_S, _LOOK_S = 5.0, 10.0
_ATTEMPTS, _FIRST_WAIT_S, _LONGEST_WAIT_S = 3, 0.2, 1.0
# Each failure has been tried three times already; then the server is left alone for a while.
_FAILURES, _REST_S = 3, 15.0
_LONGEST_REPLY = 16 << 20  # bytes; the tokens of the longest post are some ten thousand
_LONGEST_WORD = 1 << 16  # bytes of an error that are looked at
_CONNECTIONS = 64


class Outage(GenerationFailed):
    """The server is not there, is silent, or talks nonsense: it may be well again later."""


class _Passing(Outage):
    """It failed before the first byte, so that nothing is lost by asking again at once."""


class Refused(GenerationFailed):
    """The server is well and will not do this. `status` is of HTTP; `said` what it gave as the reason, for no one."""

    def __init__(self, reason: str, status: int, said: str) -> None:
        super().__init__(reason)
        self.status, self.said = status, said


class Server:
    """One address. `patience` is how long it may say nothing, in seconds."""

    def __init__(self, url: str, key: str, patience: float, rest: float = _REST_S) -> None:
        """Raises ModelUnavailable for an address that is none."""
        try:
            given = URL(url.strip().rstrip("/"))
            self.place = f"{given.host}:{given.port}"  # without a password
        except ValueError:
            given = URL()
        if given.scheme not in ("http", "https") or not given.host:
            raise ModelUnavailable("LLM__URL is no address of a server: write http://host:port.")
        self._root = str(given).removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._patience, self._rest = patience, rest
        self._session: ClientSession | None = None
        well = [(BaseException, lambda exc: not isinstance(exc, Outage))]
        self._breakers = AsyncCircuitBreakerFactory(_FAILURES, rest, cast(Any, well))

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply to one request, parsed; GET without a body. Raises Outage, Refused, GenerationFailed."""
        async with self._answer(path, body) as response:
            return json.loads(b"".join([chunk async for chunk in self._chunks(response)]))

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """What a stream says, until [DONE] or its end. Closing the iterator closes the connection."""
        async with self._answer(path, body) as response:
            if response.content_type != "text/event-stream":
                raise self._nonsense()
            async for data in data_of(self._chunks(response)):
                if data.strip() == "[DONE]":
                    return
                message = json.loads(data)
                if not isinstance(message, dict) or "error" in message:
                    raise self._nonsense()
                yield message

    @asynccontextmanager
    async def _answer(self, path: str, body: Mapping[str, Any] | None) -> AsyncIterator[ClientResponse]:
        """A response that has begun. What goes wrong with it inside counts against the server."""
        breaker = await self._breakers.get_breaker("llm")
        try:
            async with breaker:
                with self._plainly():
                    response = await self._begun(path, body)
                    try:
                        yield response
                    finally:
                        response.close()
        except OpenedState:
            raise GenerationFailed(
                f"The language model's server {self.place} failed {_FAILURES} times in a row: "
                f"it is asked again after {self._rest:.0f} s."
            ) from None

    async def _begun(self, path: str, body: Mapping[str, Any] | None) -> ClientResponse:
        tries = stamina.retry_context(
            on=_Passing, attempts=_ATTEMPTS, timeout=None, wait_initial=_FIRST_WAIT_S, wait_max=_LONGEST_WAIT_S
        )
        async for attempt in tries:
            with attempt:
                return await self._once(path, body)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, path: str, body: Mapping[str, Any] | None) -> ClientResponse:
        if self._session is None:
            self._session = ClientSession(headers=self._headers, connector=TCPConnector(limit=_CONNECTIONS))
        # what needs no model is told at once, or the server hangs
        patience = min(self._patience, _LOOK_S) if body is None else self._patience
        silence = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=patience)
        given: dict[str, Any] = {"json": body, "timeout": silence, "allow_redirects": False}
        try:
            response = await self._session.request("GET" if body is None else "POST", self._root + path, **given)
        except ServerTimeoutError:
            raise
        except (ClientError, OSError):
            raise _Passing(f"The language model's server {self.place} cannot be reached: start it.") from None
        if response.status == 200:
            return response
        try:
            await self._fail(response)
        finally:
            response.close()
        raise AssertionError("a failure is raised")

    async def _fail(self, response: ClientResponse) -> None:
        """Raise what a status means."""
        status, said = response.status, ""
        with self._plainly():
            said = (await response.content.read(_LONGEST_WORD)).decode("utf-8", "replace").lower()
        if status in (401, 403):
            raise Refused(f"The language model's server {self.place} wants another key: check LLM__KEY.", status, said)
        if status == 404:
            raise Refused(f"The server {self.place} has no such model: check LLM__URL and LLM__NAME.", status, said)
        if "logprobs" not in said and (status == 429 or status >= 500):
            busy = "is busy" if status in (429, 503) else f"failed ({status})"
            raise _Passing(f"The language model's server {self.place} {busy}: ask again later, its log says more.")
        if "context" in said:
            raise Refused("The prompt is longer than the server's model takes: lower LLM__CONTEXT.", status, said)
        raise Refused(f"The server {self.place} refused the request ({status}): its log says why.", status, said)

    async def _chunks(self, response: ClientResponse) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in response.content.iter_any():
            total += len(chunk)
            if total > _LONGEST_REPLY:
                raise self._nonsense()
            yield chunk

    def _nonsense(self) -> Outage:
        return Outage(f"{self.place} does not answer as a language model's server: check LLM__URL.")

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Failures of a response as sentences."""
        try:
            yield
        except ServerTimeoutError:
            raise Outage(
                f"The language model's server {self.place} said nothing for too long: is it overloaded?"
            ) from None
        except (ClientError, OSError):
            raise Outage(f"The language model's server {self.place} broke off: ask again.") from None
        except (ValueError, RecursionError):
            raise self._nonsense() from None
