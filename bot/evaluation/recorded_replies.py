"""Recorded model replies: a measurement with a model can be shared, and repeated to the digit without the model.

A recording is a JSON Lines file: the moment at which it began and the models' names, then a line for each reply, by a
hash of what was asked, and for each answer its time and the memory of its process. It holds the model's replies, which
may quote posts, but no prompts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, ImportRefused, translate_errors
from rag_core.llm.protocol import (
    CircuitBreaker,
    DecodingParams,
    FinishReason,
    Generation,
    GenerationStats,
    LanguageModel,
    LlmSession,
    Prompt,
    QueuePositionCallback,
    TokenRates,
)

if TYPE_CHECKING:
    from bot.evaluation.metrics import JudgedAnswer

_NOT_RECORDED = "The recording holds no reply to this: record it anew."
_UNREADABLE = "{} is no recording ({{}}): make one with --record FILE."


class Recording:
    """Recording of one measurement, to be written (`replaying` false) or replayed. Raises ImportRefused."""

    def __init__(self, file: Path, *, replaying: bool) -> None:
        self.file, self.replaying, self.now = file, replaying, datetime.now(UTC)
        self.models: dict[str, dict[str, Any] | None] = {}
        self._replies: dict[str, list[Any]] = defaultdict(list)
        if replaying:
            wrong = (OSError, ValueError, KeyError, TypeError, StopIteration)
            with translate_errors(ImportRefused, *wrong, say=_UNREADABLE.format(file)):
                lines = iter(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
                head = next(lines)
                self.now, models = datetime.fromisoformat(head["now"]), head["models"]
                self.models = {name: models[name] for name in ("writer", "planner")}
                for line in lines:
                    self._replies[line["key"]].append(line["value"])

    def wrap(self, rag: Engine) -> Engine:
        """Engine whose models are recorded, or replayed. Raises ImportRefused."""
        writer, planner = self.wrap_models(rag.writer, rag.planner)
        return replace(rag, writer=writer, planner=planner)

    def wrap_models(
        self, writer: LanguageModel | None, planner: LanguageModel | None
    ) -> tuple[RecordingModel | None, RecordingModel | None]:
        """Models that are recorded, or replayed. Raises ImportRefused."""
        if not self.replaying:
            self.models = {"writer": _describe(writer), "planner": _describe(planner)}
            with translate_errors(ImportRefused, OSError, say=f"{self.file} cannot be written ({{}}): name another."):
                head = {"now": self.now.isoformat(), "models": self.models}
                self.file.write_text(json.dumps(head) + "\n", encoding="utf-8")
        about, own = self.models["writer"], self.models["planner"]
        return (
            RecordingModel(writer, recording=self, about=about) if about else None,
            RecordingModel(planner, recording=self, about=own) if own else None,
        )

    def take(self, key: str) -> Any:
        """Next recorded value of a key; the last one again, where all were taken. Raises GenerationFailed."""
        found = self._replies.get(key)
        if not found:
            raise GenerationFailed(_NOT_RECORDED)
        return found.pop(0) if len(found) > 1 else found[0]

    def add(self, key: str, value: Any) -> None:
        """Append a value."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "value": value}, ensure_ascii=False) + "\n")

    def keep_cost(self, row: JudgedAnswer, key: str) -> JudgedAnswer:
        """Record the time and the memory of an answer, or replace them by those that were recorded."""
        if self.replaying:
            took_ms, memory_mb, cost = self.take(key)
            return replace(row, took_ms=took_ms, memory_mb=memory_mb, cost=replace(row.cost, **cost))
        cost = {"first_ms": row.cost.first_ms, "tokens_per_s": row.cost.tokens_per_s}
        self.add(key, [row.took_ms, row.memory_mb, cost])
        return row


def make_key(*parts: object) -> str:
    """Key of what was asked: a hash."""
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()


def _describe(model: LanguageModel | None) -> dict[str, Any] | None:
    return {"name": model.name, "context": model.context, "grammars": model.grammars} if model else None


class RecordingModel:
    """Language model that keeps its replies in `replies`, and writes them to a recording or takes them from one.

    `form`: what holds a reply to its form: "gbnf", "schema" or "none"; by default all that is asked for. `about`: the
    model, for a recording that is replayed.
    """

    def __init__(
        self,
        model: LanguageModel | None,
        form: str = "",
        *,
        recording: Recording | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        about = about or _describe(model) or {}
        self.name, self.context, self.grammars = str(about["name"]), int(about["context"]), bool(about["grammars"])
        self.form, self.recording, self.replies = form, recording, list[Generation]()
        self._model = None if recording and recording.replaying else model
        self.breaker = self._model.breaker if self._model else CircuitBreaker()

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._model.waiting if self._model else 0

    @property
    def rates(self) -> TokenRates | None:
        """Rates of the recorded model."""
        return self._model.rates if self._model else None

    @property
    def bare_verdicts(self) -> bool:
        """Whether `odds` knows only which word is likelier."""
        return self._model.bare_verdicts if self._model else False

    @asynccontextmanager
    async def turn(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[LlmSession]:
        """Take a turn."""
        if self._model is None:
            yield _RecordingSession(self, None)
            return
        async with self._model.turn(reader, on_place) as session:
            yield _RecordingSession(self, session)

    async def close(self) -> None:
        """Do nothing: the model is closed by its opener."""


class _RecordingSession:
    """Session of a RecordingModel; `session` is None where the recording replies."""

    def __init__(self, owner: RecordingModel, session: LlmSession | None) -> None:
        self._owner, self._session = owner, session

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        form, recording = self._owner.form, self._owner.recording
        grammar, schema = grammar if form in ("", "gbnf") else None, schema if form in ("", "schema") else None
        key = make_key(prompt, decoding, grammar)
        if self._session is None:
            assert recording
            value = recording.take(key)
            if value["text"]:
                yield value["text"]
            reply = Generation(value["text"], FinishReason(value["finish"]), GenerationStats(**value["figures"]))
            self._owner.replies.append(reply)
            yield reply
            return
        async for piece in self._session.stream(prompt, decoding, grammar=grammar, schema=schema):
            if isinstance(piece, Generation):
                self._owner.replies.append(piece)
                if recording:
                    figures = asdict(piece.figures)
                    recording.add(key, {"text": piece.text, "finish": piece.finish, "figures": figures})
            yield piece

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        return float(await self._ask(make_key(prompt, yes, no), lambda session: session.odds(prompt, yes, no)))

    async def count(self, texts: Sequence[str]) -> list[int]:
        return list(await self._ask(make_key(tuple(texts)), lambda session: session.count(texts)))

    async def count_unread(self, prompts: Sequence[Prompt]) -> list[int]:
        return list(await self._ask(make_key(tuple(prompts)), lambda session: session.count_unread(prompts)))

    async def _ask(self, key: str, ask: Callable[[LlmSession], Awaitable[Any]]) -> Any:
        recording = self._owner.recording
        if self._session is None:
            assert recording
            return recording.take(key)
        value = await ask(self._session)
        if recording:
            recording.add(key, value)
        return value
