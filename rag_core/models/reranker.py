"""Reranker: a cross-encoder that scores how well each text answers a question.

Nothing is downloaded here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rag_core.models.catalog import ModelSpec, PackageSource
from rag_core.models.model_files import check_model_files
from rag_core.models.onnx_models import (
    CPU_PROVIDER,
    OnnxThread,
    choose_onnx_providers,
    load_cross_encoder,
    load_offline_model,
    trim_for_tokenizer,
)

Scorer = Callable[[str, list[str]], Iterable[float]]

_BATCH_PAIRS = 16
_SAMPLE_PAIR = "When does the ferry leave?", "The ferry to the island leaves at half past seven every morning. " * 12


async def open_reranker(model: ModelSpec, folder: Path, threads: int = 2, provider: str = CPU_PROVIDER) -> Reranker:
    """Load a cross-encoder from its folder and measure its speed. Raises ModelUnavailable."""
    thread = OnnxThread(model.name)
    try:
        await thread.run(check_model_files, model, folder)
        session = {"threads": threads, "providers": await thread.run(choose_onnx_providers, provider)}
        reranker = Reranker(model, await thread.run(_load_scorer, folder, model, session), thread)
        await reranker.time()
    except BaseException:
        await thread.close()
        raise
    return reranker


def _load_scorer(folder: Path, row: ModelSpec, session: dict[str, Any]) -> Scorer:
    if isinstance(row.source, PackageSource):
        run = load_offline_model(folder, row, session)
        return lambda question, texts: run([(question, text) for text in texts])[:, 0]
    model = load_cross_encoder(folder, row, session)
    return lambda question, texts: model.rerank(question, texts, batch_size=_BATCH_PAIRS)


class Reranker:
    """Cross-encoder in a thread of its own. `pair_s` is the time for one full-length text, in seconds."""

    def __init__(self, row: ModelSpec, model: Scorer, thread: OnnxThread) -> None:
        self._row, self._model, self._thread = row, model, thread
        self.name, self.languages = row.name, row.languages
        self.pair_s = 0.0

    async def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each text, in their order; greater is better, and only scores of one question are comparable."""
        ordered = [0.0] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for first in range(0, len(order), _BATCH_PAIRS):
            batch = order[first : first + _BATCH_PAIRS]
            scores = await self._thread.run(self._score, question, [texts[i] for i in batch])
            for i, score in zip(batch, scores, strict=True):
                ordered[i] = score
        return ordered

    async def time(self) -> None:
        """Measure `pair_s`; the first call of a model does not count."""
        question, text = _SAMPLE_PAIR
        await self.scores(question, [text])
        started = time.perf_counter()
        await self.scores(question, [text] * 2)
        self.pair_s = (time.perf_counter() - started) / 2

    async def close(self) -> None:
        """Release the model and its thread."""
        await self._thread.close()

    def _score(self, question: str, texts: list[str]) -> list[float]:
        limit = self._row.max_tokens
        trimmed = [trim_for_tokenizer(text, limit) for text in texts]
        scores = [float(score) for score in self._model(trim_for_tokenizer(question, limit), trimmed)]
        if not all(math.isfinite(score) for score in scores):
            raise self._thread.broken("makes scores that are no numbers")
        return scores
