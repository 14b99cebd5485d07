"""Recorded model replies: a measurement with a model can be shared, and repeated to the digit without the model.

A recording is a JSON Lines file: the moment at which it began and the models' names, then a line for each reply, by a
hash of what was asked, and for each answer its time and the memory of its process. It holds the model's replies, which
may quote posts, but no prompts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bot.evaluation.answer_metrics import JudgedAnswer
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, ImportRefused, translate_errors
from rag_core.llm import (
    DecodingParams,
    FinishReason,
    Generation,
    GenerationStats,
    LanguageModel,
    LlmSession,
    Prompt,
    QueuePositionCallback,
)

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
    ) -> tuple[LanguageModel | None, LanguageModel | None]:
        """Models that are recorded, or replayed. Raises ImportRefused."""
        if not self.replaying:
            self.models = {"writer": _describe(writer), "planner": _describe(planner)}
            with translate_errors(ImportRefused, OSError, say=f"{self.file} cannot be written ({{}}): name another."):
                head = {"now": self.now.isoformat(), "models": self.models}
                self.file.write_text(json.dumps(head) + "\n", encoding="utf-8")
        about, own = self.models["writer"], self.models["planner"]
        return (
            RecordedModel(self, about, writer) if about else None,
            RecordedModel(self, own, planner) if own else None,
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


class RecordedModel:
    """Language model whose replies are recorded, or replayed where there is no `model`."""

    def __init__(self, recording: Recording, about: Mapping[str, Any], model: LanguageModel | None) -> None:
        self._recording, self._model = recording, None if recording.replaying else model
        self.name, self.context, self.grammars = str(about["name"]), int(about["context"]), bool(about["grammars"])

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._model.waiting if self._model else 0

    @property
    def bare_verdicts(self) -> bool:
        """Whether `odds` knows only which word is likelier."""
        return self._model.bare_verdicts if self._model else False

    @asynccontextmanager
    async def turn(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[LlmSession]:
        """Take a turn."""
        if self._model is None:
            yield _RecordedSession(self._recording, None)
            return
        async with self._model.turn(reader, on_place) as session:
            yield _RecordedSession(self._recording, session)

    async def close(self) -> None:
        """Do nothing: the model is closed by its opener."""


class _RecordedSession:
    def __init__(self, recording: Recording, session: LlmSession | None) -> None:
        self._recording, self._session = recording, session

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        key = make_key(prompt, decoding, grammar)
        if self._session is None:
            value = self._recording.take(key)
            if value["text"]:
                yield value["text"]
            yield Generation(value["text"], FinishReason(value["finish"]), GenerationStats(**value["figures"]))
            return
        async for piece in self._session.stream(prompt, decoding, grammar=grammar, schema=schema):
            if isinstance(piece, Generation):
                figures = asdict(piece.figures)
                self._recording.add(key, {"text": piece.text, "finish": piece.finish, "figures": figures})
            yield piece

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        key = make_key(prompt, yes, no)
        if self._session is None:
            return float(self._recording.take(key))
        value = await self._session.odds(prompt, yes, no)
        self._recording.add(key, value)
        return value

    async def count(self, texts: Sequence[str]) -> list[int]:
        key = make_key(tuple(texts))
        if self._session is None:
            return list(self._recording.take(key))
        value = await self._session.count(texts)
        self._recording.add(key, value)
        return value
