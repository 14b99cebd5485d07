"""OpenAI-compatible client (LLM__URL): llama-server, llama_cpp.server, vLLM and others.

The server need not run when the bot starts: it is contacted with the first request, and again until it answers.
Requests are retried before the first byte, the circuit breaker leaves a server alone that fails or is too slow, and
every failure becomes one sentence. The text of a server's error is never shown or logged: it may repeat the prompt,
which holds posts.

Dialects: llama-server and llama_cpp.server take GBNF (`grammar`), vLLM takes GBNF in `structured_outputs`, and JSON
schemas in `response_format` as OpenAI and most others do. The dialect is detected once, from /v1/models and from the
path that counts tokens. A server ignores a schema that it does not support, so replies are always validated.

Streams are server-sent events, each with its message in one line:
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import stamina
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, ServerTimeoutError, TCPConnector
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from rag_core.errors import GenerationFailed, ModelUnavailable
from rag_core.llm.protocol import (
    MODEL_CLOSED,
    CircuitBreaker,
    DecodingParams,
    FinishReason,
    Generation,
    GenerationStats,
    LlmSession,
    Prompt,
    QueuePositionCallback,
    TokenRates,
    collect_generation,
)
from rag_core.llm.turns import FairScheduler
from rag_core.settings import LlmSettings

# Texts that the tokenizer of some model reads as control tokens anywhere: a space makes them plain text.
_CONTROL_TOKEN_PATTERN = re.compile(
    r"<(?=\||\uff5c|<SYS|</SYS|/?(?:s|bos|eos|unk|pad|mask|think|tool_call|start_of_turn|end_of_turn)>)"
    r"|\[(?=/?[A-Z_]{3,24}\])"
)
_TOP_LOGPROBS = 20  # the maximum of OpenAI and vLLM


class ServerDialect(StrEnum):
    """Kind of the server, by its extensions of the API."""

    LLAMA_SERVER = "llama-server"
    LLAMA_PYTHON = "llama_cpp.server"
    VLLM = "vLLM"
    OTHER = "OpenAI"


_LLAMA_DIALECTS = (ServerDialect.LLAMA_SERVER, ServerDialect.LLAMA_PYTHON)  # llama.cpp obeys GBNF strictly


def build_request_body(dialect: ServerDialect, model: str, prompt: Prompt, decoding: DecodingParams) -> dict[str, Any]:
    """Build a chat request."""
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    for asked, replied in prompt.shots:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": replied}]
    messages.append({"role": "user", "content": prompt.ask})
    how = asdict(decoding)
    repeat, top_k = how.pop("repeat_penalty"), how.pop("top_k")
    how["max_tokens"] = max(1, decoding.max_tokens)
    if dialect is not ServerDialect.OTHER:  # other servers may reject fields that OpenAI does not have
        how |= {"top_k": top_k, "chat_template_kwargs": {"enable_thinking": False}}
        how["repetition_penalty" if dialect is ServerDialect.VLLM else "repeat_penalty"] = repeat
    for message in messages:
        plain = message["content"].encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be sent
        message["content"] = _CONTROL_TOKEN_PATTERN.sub(lambda found: found[0] + " ", plain)
    return {"model": model, "messages": messages, **how}


def build_reply_constraint(
    dialect: ServerDialect, grammar: str | None, schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Build the fields that constrain the reply to a grammar, or to a schema where grammars are not supported."""
    if grammar and dialect in _LLAMA_DIALECTS:
        return {"grammar": grammar}
    if schema:
        wanted = {"name": "reply", "schema": dict(schema), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}
    return {"structured_outputs": {"grammar": grammar}} if grammar and dialect is ServerDialect.VLLM else {}


def compute_log_odds(reply: Any, yes: str, no: str) -> float | None:
    """Log odds, log P(yes) - log P(no), from the top logprobs of the first token; None without logprobs.

    A word that is not among them gets the logprob of the last of them; where both are missing the odds are even.
    """
    try:
        given = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        top = [(str(each["token"]), float(each["logprob"])) for each in given]
        lowest = min(logprob for _, logprob in top)  # ValueError where there are none
    except (LookupError, TypeError, ValueError):
        return None

    def begins(token: str, word: str) -> bool:
        plain = token.replace("▁", " ").strip().casefold()
        return bool(plain) and word.casefold().startswith(plain)

    def find(word: str, other: str) -> float:
        found = (logprob for token, logprob in top if begins(token, word) and not begins(token, other))
        return max(found, default=lowest)

    return find(yes, no) - find(no, yes)


_CONNECT_TIMEOUT_S = 5.0
# Limits of a whole request, however steadily its reply drips: what needs no generation, and a stream.
_INFO_TIMEOUT_S, _STREAM_TIMEOUT_S = 5.0, 120.0
_MAX_ATTEMPTS, _FIRST_RETRY_PAUSE_S, _MAX_RETRY_PAUSE_S = 3, 0.2, 1.0
_BREAKER_RESET_S = 15.0
_MAX_REPLY_BYTES = 16 << 20  # the longest post has some ten thousand tokens
_MAX_ERROR_BYTES = 1 << 16  # of an error's text that are read
_MAX_CONNECTIONS = 64


class ServerUnavailable(GenerationFailed):
    """Server cannot be reached, does not answer, or sends invalid replies; it may work again later."""


class ServerTooSlow(ServerUnavailable):
    """Server answers, but did not end its reply in time."""


class _TransientServerFailure(ServerUnavailable):
    """Failure before the first byte, so that the request can be retried at once."""


class ServerRefused(GenerationFailed):
    """Server works and refuses the request. `status` is of HTTP; `said` is its reason, never shown or logged."""

    def __init__(self, reason: str, status: int, said: str) -> None:
        super().__init__(reason)
        self.status, self.said = status, said


class LlmServer:
    """HTTP client of one server. `patience`: seconds of silence, and for a whole reply that is no stream."""

    def __init__(self, url: str, key: str, patience: float, breaker: CircuitBreaker) -> None:
        """Raises ModelUnavailable for an invalid address."""
        try:
            given = URL(url.strip().rstrip("/"))
            self.place = f"{given.host}:{given.port}"  # without a password
            self.title = f"The language model's server {self.place}"
        except ValueError:
            given = URL()
        if given.scheme not in ("http", "https") or not given.host:
            raise ModelUnavailable("LLM__URL is no address of a server: write http://host:port.")
        self._root = str(given).removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._patience, self._breaker = patience, breaker
        self._session: ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, path: str, body: Mapping[str, Any] | None = None, *, generates: bool = False) -> Any:
        """Send a request (GET without a body), parse the reply; `generates`: by the model. Raises GenerationFailed."""
        limit = self._patience if generates else min(self._patience, _INFO_TIMEOUT_S)
        until = asyncio.get_running_loop().time() + limit
        async with self._open(path, body, until) as response, asyncio.timeout_at(until):
            raw = b""
            async for chunk in response.content.iter_any():
                raw += chunk
                if len(raw) > _MAX_REPLY_BYTES:
                    raise self.make_protocol_error()
            return json.loads(raw)

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the messages of a stream, until [DONE] or its end. Closing the iterator closes the connection."""
        until, total = asyncio.get_running_loop().time() + _STREAM_TIMEOUT_S, 0
        async with self._open(path, body, until) as response:
            if response.content_type != "text/event-stream":
                raise self.make_protocol_error()
            while True:
                async with asyncio.timeout_at(until):
                    line = await response.content.readline()
                total += len(line)
                field, _, data = line.strip().partition(b":")
                if not line or (field == b"data" and data.strip() == b"[DONE]"):
                    return
                if field != b"data":  # keep-alives
                    continue
                message = json.loads(data)
                if not isinstance(message, dict) or "error" in message or total > _MAX_REPLY_BYTES:
                    raise self.make_protocol_error()
                yield message

    @asynccontextmanager
    async def _open(self, path: str, body: Mapping[str, Any] | None, until: float) -> AsyncIterator[ClientResponse]:
        """Open a response, until a time of the loop. Failures while it is read count for the circuit breaker."""
        self._breaker.require_closed()
        try:
            async with asyncio.timeout_at(until):
                response = await self._send_with_retries(path, body)
            with closing(response):
                yield response
        except ServerUnavailable as exc:
            failed = exc
        except ServerTimeoutError:
            failed = ServerUnavailable(f"{self.title} said nothing for too long: is it overloaded?")
        except TimeoutError:
            failed = ServerTooSlow(f"{self.title} took too long to answer: is it overloaded?")
        except (ClientError, OSError):
            failed = ServerUnavailable(f"{self.title} broke off: ask again.")
        except (ValueError, RecursionError, HttpProcessingError):  # the last: a line without an end
            failed = self.make_protocol_error()
        else:
            self._breaker.failures = 0
            return
        self._breaker.record_failure()
        raise failed from None  # what the server sent is never logged

    async def _send_with_retries(self, path: str, body: Mapping[str, Any] | None) -> ClientResponse:
        tries = stamina.retry_context(
            on=_TransientServerFailure,
            attempts=_MAX_ATTEMPTS,
            timeout=None,
            wait_initial=_FIRST_RETRY_PAUSE_S,
            wait_max=_MAX_RETRY_PAUSE_S,
        )
        async for attempt in tries:
            with attempt:
                if self._session is None:
                    self._session = ClientSession(headers=self._headers, connector=TCPConnector(limit=_MAX_CONNECTIONS))
                silence = ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self._patience)
                given: dict[str, Any] = {"json": body, "timeout": silence, "allow_redirects": False}
                method = "GET" if body is None else "POST"
                try:
                    response = await self._session.request(method, self._root + path, **given)
                except ServerTimeoutError:
                    raise
                except (ClientError, OSError):
                    raise _TransientServerFailure(f"{self.title} cannot be reached: start it.") from None
                status = response.status
                if status == 200:
                    return response
                with closing(response):
                    said = (await response.content.read(_MAX_ERROR_BYTES)).decode("utf-8", "replace").lower()
                if status not in (401, 403, 404) and "logprobs" not in said and (status == 429 or status >= 500):
                    busy = "is busy" if status in (429, 503) else f"failed ({status})"
                    raise _TransientServerFailure(f"{self.title} {busy}: ask again later, its log says more.")
                if status in (401, 403):
                    reason = f"{self.title} wants another key: check LLM__KEY."
                elif status == 404:
                    reason = f"The server {self.place} has no such model: check LLM__URL and LLM__NAME."
                elif "context" in said:
                    reason = "The prompt is longer than the server's model takes: lower LLM__CONTEXT."
                else:
                    reason = f"The server {self.place} refused the request ({status}): its log says why."
                raise ServerRefused(reason, status, said)
        raise AssertionError("the last attempt returns or raises")

    def make_protocol_error(self) -> ServerUnavailable:
        """Error for an answer that is none of a language model's server."""
        return ServerUnavailable(f"{self.place} does not answer as a language model's server: check LLM__URL.")


_CHAT_PATH = "/v1/chat/completions"
_CHARS_PER_TOKEN = 3  # between English (4 to 5) and Russian (2 to 3) with today's vocabularies


@dataclass(slots=True)
class ServerInfo:
    """Detected properties of a server."""

    dialect: ServerDialect
    model: str
    context: int


class RemoteSession:
    """`LlmSession` with a server. It cannot be used after the turn."""

    def __init__(self, server: LlmServer, met: ServerInfo) -> None:
        self._server, self._met = server, met
        self.running: set[AsyncGenerator[dict[str, Any], None]] = set()  # streams, which the end of the turn closes
        self.left = False
        self.dripped = False  # a reply was given up that came too slowly to be of use to anybody

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        """Stream pieces of text, and `Generation` last. Reasoning in a separate field is ignored."""
        assert not self.left, "the turn is over"
        how = {"stream": True, "stream_options": {"include_usage": True}}
        wanted = {**build_request_body(self._met.dialect, self._met.model, prompt, decoding), **how}
        now = asyncio.get_running_loop().time
        began, first, finish, pieces, counts = now(), 0.0, "", list[str](), dict[str, Any]()
        messages = self._server.stream(_CHAT_PATH, wanted | build_reply_constraint(self._met.dialect, grammar, schema))
        self.running.add(messages)
        try:
            async with aclosing(messages):
                async for message in messages:
                    counts |= {key: message[key] for key in ("usage", "timings") if isinstance(message.get(key), dict)}
                    choice: dict[str, Any] = next(iter(message.get("choices") or ()), {})
                    finish = choice.get("finish_reason") or finish
                    piece = (choice.get("delta") or {}).get("content")
                    if piece and isinstance(piece, str):
                        first = first or now()
                        pieces.append(piece)
                        yield piece
        except (AttributeError, TypeError):
            raise self._server.make_protocol_error() from None
        finally:
            self.running.discard(messages)
            took = now() - began
            # pieces came so slowly that no reply would end in time
            self.dripped |= not finish and took > _DRIP_AFTER_S and 0 < len(pieces) < _MIN_PIECES_PER_S * took
        if not finish:
            raise ServerUnavailable(f"{self._server.title} broke off: ask again.")
        usage, timings = counts.get("usage", {}), counts.get("timings", {})
        read = _read_int(usage, "prompt_tokens")
        cached = _read_int(usage.get("prompt_tokens_details"), "cached_tokens")
        evaluated = _read_int(timings, "prompt_n") or max(0, read - cached)
        wrote = _read_int(usage, "completion_tokens") or len(pieces)
        first_s = first - began if first else took
        figures = GenerationStats(read, evaluated, wrote, 1000 * first_s, 1000 * took)
        reason = FinishReason.LENGTH if finish == "length" else FinishReason.STOP
        yield Generation("".join(pieces), reason, figures)

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log odds from the first token's top logprobs. Raises GenerationFailed, also for a server that gives none."""
        assert not self.left, "the turn is over"
        one = build_request_body(self._met.dialect, self._met.model, prompt, DecodingParams(1, temperature=0.0))
        wanted = one | {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        reply = await self._server.ask(_CHAT_PATH, wanted, generates=True)
        if (log_odds := compute_log_odds(reply, yes, no)) is None:
            raise GenerationFailed(f"{self._server.place} gives no log-probabilities: its model judges nothing.")
        return log_odds

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text by the server; where it cannot, estimate a third of the characters."""
        assert not self.left, "the turn is over"
        try:
            return list(await asyncio.gather(*(_count_server_tokens(self._server, self._met, text) for text in texts)))
        except ServerRefused:
            return [math.ceil(len(text) / _CHARS_PER_TOKEN) for text in texts]

    async def count_unread(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt: what a server has cached is not known."""
        return await self.count(["\n".join((p.system, *chain(*p.shots), p.ask)) for p in prompts])


async def _count_server_tokens(server: LlmServer, met: ServerInfo, text: str) -> int:
    """Count the tokens of a text. Raises ServerRefused for a server that cannot count, and GenerationFailed."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    asked: dict[ServerDialect, tuple[str, dict[str, Any]]] = {
        ServerDialect.LLAMA_SERVER: ("/tokenize", {"content": plain}),
        ServerDialect.LLAMA_PYTHON: ("/extras/tokenize/count", {"input": plain}),
        ServerDialect.VLLM: ("/tokenize", {"model": met.model, "prompt": plain, "add_special_tokens": False}),
    }
    if met.dialect not in asked:
        raise ServerRefused(f"The server {server.place} does not count tokens.", 404, "")
    reply = await server.ask(*asked[met.dialect])
    try:
        return int(reply["count"]) if "count" in reply else len(reply["tokens"])
    except (LookupError, TypeError, ValueError):
        raise ServerRefused(f"The server {server.place} does not count tokens.", 200, "") from None


# A stream that is given up after so many seconds with fewer pieces than this is left alone by the others for a while.
_DRIP_AFTER_S, _MIN_PIECES_PER_S = 5.0, 2.5


def _read_int(given: Any, name: str) -> int:
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, int) else 0


_SERVER_SILENCE_TIMEOUT_S = 30.0  # a server that sends nothing for so long counts as hung
_HTTP_NOT_FOUND = 404
_DIALECT_BY_OWNER = {"llamacpp": ServerDialect.LLAMA_SERVER, "vllm": ServerDialect.VLLM}
_SPEED_SAMPLE = "The ferry leaves at half past seven, and comes back before dark. " * 20


class RemoteModel:
    """`LanguageModel` on the server LLM__URL."""

    rates: TokenRates | None = None  # what a server needs is not known

    def __init__(
        self, settings: LlmSettings, patience: float = _SERVER_SILENCE_TIMEOUT_S, rest: float = _BREAKER_RESET_S
    ) -> None:
        """`patience`: seconds of the read timeout, `rest`: of the breaker's pause.

        Raises ModelUnavailable for an invalid address.
        """
        self._turns, self.breaker = FairScheduler(settings.parallel), CircuitBreaker(rest)
        self._server = LlmServer(settings.url, settings.key.get_secret_value(), patience, self.breaker)
        self.place = self._server.place  # host and port
        self._settings = settings
        self._met: ServerInfo | None = None
        self._meeting = asyncio.Lock()

    @property
    def name(self) -> str:
        """Name of the model, without the folders of the server."""
        given = self._met.model if self._met else self._settings.name
        return given.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf") or "LLM__URL"

    @property
    def dialect(self) -> ServerDialect | None:
        """Dialect of the server; None before it was reached."""
        return self._met.dialect if self._met else None

    @property
    def context(self) -> int:
        """Context size of the settings, or of the server where that is smaller."""
        return self._met.context if self._met else self._settings.context

    @property
    def grammars(self) -> bool:
        """Whether the server is known to be llama.cpp's; replies of others must be validated."""
        return self._met is not None and self._met.dialect in _LLAMA_DIALECTS

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._turns.waiting

    @asynccontextmanager
    async def turn(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[LlmSession]:
        """Wait for a turn; LLM__PARALLEL requests may have one at once. Raises GenerationFailed."""
        async with self._turns.acquire(reader, on_place):
            session = RemoteSession(self._server, await self.meet())
            try:
                yield session
            except ServerRefused as exc:
                if exc.status == _HTTP_NOT_FOUND:  # it may have been restarted with another model
                    self._met = None
                raise
            finally:
                session.left = True
                for messages in list(session.running):
                    await messages.aclose()
                if session.dripped:
                    self.breaker.leave_alone()

    async def meet(self) -> ServerInfo:
        """Detect the server's dialect, model and context; fetched once. Raises GenerationFailed.

        One that was too slow is left alone for a while: the others who wait would lose their time as well.
        """
        async with self._meeting:
            self.breaker.require_closed()
            if self._met is None:
                try:
                    self._met = await self._fetch_server_info()
                except ServerTooSlow:
                    self.breaker.leave_alone()
                    raise
            return self._met

    async def _fetch_server_info(self) -> ServerInfo:
        server, settings = self._server, self._settings
        try:
            listed = await server.ask("/v1/models")
        except ServerRefused as exc:
            if exc.status != _HTTP_NOT_FOUND or not settings.name:
                raise
            return ServerInfo(ServerDialect.OTHER, settings.name, settings.context)
        given = listed.get("data") if isinstance(listed, dict) else None
        rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
        row = next((row for row in rows if isinstance(row.get("id"), str) and settings.name in ("", row["id"])), {})
        model = settings.name or row.get("id", "")
        if not model:
            raise GenerationFailed(f"The server {server.place} has no model: start it with one, or set LLM__NAME.")
        dialect = _DIALECT_BY_OWNER.get(str(row.get("owned_by", "")), ServerDialect.OTHER)
        size = 0
        with suppress(ServerRefused, LookupError, TypeError, ValueError):
            if dialect is ServerDialect.OTHER:
                if await _count_server_tokens(server, ServerInfo(ServerDialect.LLAMA_PYTHON, model, 0), "a") > 0:
                    dialect = ServerDialect.LLAMA_PYTHON
            elif dialect is ServerDialect.LLAMA_SERVER:
                size = int((await server.ask("/props"))["default_generation_settings"]["n_ctx"])
        with suppress(TypeError, ValueError):
            size = size or int(row.get("max_model_len") or 0)
        return ServerInfo(dialect, model, min(settings.context, size) if size else settings.context)

    async def measure_speed(self) -> TokenRates:
        """Measure the rates as seen from here, with some hundred tokens; takes a turn. Raises GenerationFailed."""
        async with self.turn(0) as session:
            tokens = (await session.count([_SPEED_SAMPLE]))[0]
            end = await collect_generation(session.stream(Prompt("", _SPEED_SAMPLE), DecodingParams(32)))
        figures = end.figures
        read = figures.evaluated or tokens
        wrote_s = (figures.took_ms - figures.first_ms) / 1000
        return TokenRates(1000 * read / max(figures.first_ms, 1.0), max(figures.tokens - 1, 0) / max(wrote_s, 0.001))

    async def close(self) -> None:
        """Close the connections; waiting requests raise GenerationFailed."""
        self._turns.close(MODEL_CLOSED)
        await self._server.close()
