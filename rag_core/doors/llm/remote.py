"""A model on a server that speaks OpenAI's protocol (LLM__URL): llama-server, llama_cpp.server, vLLM, or another.

The server need not be there when the bot starts: it is looked at with the first turn, and again until it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rag_core.doors.llm.contract import Decoding, OnPlace, Prompt, Seat, finished
from rag_core.doors.llm.dialects import Dialect
from rag_core.doors.llm.remote_seat import Met, RemoteSeat, counted
from rag_core.doors.llm.server import Refused, Server
from rag_core.doors.llm.turns import Turns
from rag_core.errors import GenerationFailed
from rag_core.settings import LlmSettings

__all__ = ["PATIENCE_S", "Rates", "RemoteModel", "open_remote"]

PATIENCE_S = 30.0  # a server that has said nothing for so long will not say anything
_NOT_FOUND = 404
_CLOSED = "The model is being closed: ask again after the start."
_SAMPLE = "The ferry leaves at half past seven, and comes back before dark. " * 20


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of prompt (0: the server does not count them) and reply, as seen from here."""

    prefill: float
    decode: float


class RemoteModel:
    """See LanguageModel; besides: `meet`, `speed`."""

    def __init__(self, server: Server, settings: LlmSettings) -> None:
        self._server, self._settings = server, settings
        self._turns = Turns(settings.parallel)
        self._met: Met | None = None
        self._meeting = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of the model, without the folders of the server."""
        given = self._met.model if self._met else self._settings.name
        return given.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf") or "LLM__URL"

    @property
    def place(self) -> str:
        """Host and port of the server."""
        return self._server.place

    @property
    def dialect(self) -> Dialect | None:
        """Whose server it is; None before it was reached."""
        return self._met.dialect if self._met else None

    @property
    def context(self) -> int:
        """As set, or less where the server says so."""
        return self._met.context if self._met else self._settings.context

    @property
    def grammars(self) -> bool:
        """True only for a server that was seen to be llama.cpp's; what others write is to be checked."""
        return self._met is not None and self._met.dialect.gbnf

    @property
    def bare_verdicts(self) -> bool:
        """Whether `odds` can only say which is likelier, as the server tells no probabilities."""
        return self._met is not None and self._met.bare_verdicts

    @property
    def waiting(self) -> int:
        """How many have a seat or wait for one."""
        return self._turns.waiting

    @asynccontextmanager
    async def turn(self, reader: int, on_place: OnPlace | None = None) -> AsyncIterator[Seat]:
        """Wait for one's turn; as many as LLM__PARALLEL have one at once. Raises GenerationFailed."""
        async with self._turns.seat(reader, on_place):
            seat = RemoteSeat(self._server, await self.meet())
            try:
                yield seat
            except Refused as exc:
                if exc.status == _NOT_FOUND:  # it may have been started with another model since
                    self._met = None
                raise
            finally:
                await seat.leave()

    async def meet(self) -> Met:
        """Who the server is; asked once. Raises GenerationFailed."""
        async with self._meeting:
            if self._met is None:
                self._met = await _met(self._server, self._settings)
            return self._met

    async def speed(self) -> Rates:
        """Measure it with a prompt of some hundred tokens; takes a turn. Raises GenerationFailed."""
        async with self.turn(0) as seat:
            tokens = (await seat.count([_SAMPLE]))[0]
            end = await finished(seat.stream(Prompt("", _SAMPLE), Decoding(32)))
        figures = end.figures
        read = figures.evaluated or tokens
        wrote_s = (figures.took_ms - figures.first_ms) / 1000
        return Rates(1000 * read / max(figures.first_ms, 1.0), max(figures.tokens - 1, 0) / max(wrote_s, 0.001))

    async def close(self) -> None:
        """Let go of the server; whoever waits is told so."""
        self._turns.close(_CLOSED)
        await self._server.close()


def open_remote(settings: LlmSettings, patience: float = PATIENCE_S, rest: float = 15.0) -> RemoteModel:
    """A model on the server LLM__URL. `patience` is how long it may say nothing, `rest` how long it is left alone
    after a row of failures, both in seconds. Raises ModelUnavailable for an address that is none.
    """
    return RemoteModel(Server(settings.url, settings.key.get_secret_value(), patience, rest), settings)


async def _met(server: Server, settings: LlmSettings) -> Met:
    try:
        listed = await server.ask("/v1/models")
    except Refused as exc:
        if exc.status != 404 or not settings.name:
            raise
        return Met(Dialect.OTHER, settings.name, settings.context)
    rows = [row for row in _rows(listed) if isinstance(row.get("id"), str)]
    row = next((row for row in rows if settings.name in ("", row["id"])), {})
    model = settings.name or row.get("id", "")
    if not model:
        raise GenerationFailed(f"The server {server.place} has no model: start it with one, or set LLM__NAME.")
    met = Met(_OWNERS.get(str(row.get("owned_by", "")), Dialect.OTHER), model, settings.context)
    if met.dialect is Dialect.OTHER and await _counts(server, model):
        met.dialect = Dialect.LLAMA_PYTHON
    room = await _room(server, met.dialect, row)
    met.context = min(met.context, room) if room else met.context
    return met


_OWNERS = {"llamacpp": Dialect.LLAMA_SERVER, "vllm": Dialect.VLLM}


def _rows(listed: Any) -> list[dict[str, Any]]:
    given = listed.get("data") if isinstance(listed, dict) else None
    return [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []


async def _counts(server: Server, model: str) -> bool:
    """Whether it counts tokens the way only llama_cpp.server does."""
    try:
        return await counted(server, Met(Dialect.LLAMA_PYTHON, model, 0), "a") > 0
    except Refused:
        return False


async def _room(server: Server, dialect: Dialect, row: dict[str, Any]) -> int:
    """The context as the server has it, in tokens; 0 where it does not say."""
    try:
        if dialect is Dialect.LLAMA_SERVER:
            return int((await server.ask("/props"))["default_generation_settings"]["n_ctx"])
        return int(row.get("max_model_len") or 0)
    except (Refused, LookupError, TypeError, ValueError):
        return 0
