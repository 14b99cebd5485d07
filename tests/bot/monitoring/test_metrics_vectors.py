"""The leg of the vectors as it is told to whoever watches: with a real store, and where it cannot be opened."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from local_server import find_free_port
from metrics_client import fetch_text
from prometheus_client.metrics_core import Metric

from bot.jobs import JobLog
from bot.metrics import Meter, StateCollector
from bot.monitoring import ReadinessCheck
from rag_core.errors import IndexUnavailable
from rag_core.index.vector_store import VectorPoint, VectorStore
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import find_models
from rag_core.types import PassageRef, PostKey


def told(metrics: list[Metric], name: str) -> dict[str, float]:
    """Leg -> value."""
    return {one.labels["leg"]: one.value for metric in metrics for one in metric.samples if one.name == name}


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    vectors = await open_vector_store(tmp_path / "vectors", model="tiny", dimension=2)
    yield vectors
    await vectors.close()


def desk_of(library: Any, store: VectorStore) -> Any:
    """The part of a desk that is looked at."""
    rag = replace(library.rag, dense=DenseIndex(find_models("tiny")[0], None, store))  # type: ignore[arg-type]
    return SimpleNamespace(rag=rag, archive=rag.archive, indexing=SimpleNamespace(job_log=JobLog(rag.archive)))


async def test_the_lag_and_the_size_of_the_vectors_are_told(library: Any, store: VectorStore) -> None:
    desk, meter = desk_of(library, store), Meter()
    place = PassageRef(PostKey(library.harbour, 3), 0, 0, 58)
    await store.upsert(
        [VectorPoint(place, datetime(2025, 3, 3, tzinfo=UTC), "en", "hash", np.array([1, 0], np.float32))]
    )
    read = await StateCollector(lambda: desk, meter).read()
    assert told(read, "citegram_index_lag_changes") == {"words": 0, "copies": 10, "vectors": 10}
    assert told(read, "citegram_index_passages")["vectors"] == 1


async def test_vectors_that_do_not_answer_are_no_reason_to_tell_nothing(
    library: Any, store: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(self: Any) -> int:
        raise IndexUnavailable("The Qdrant server at http://secret does not answer.")

    desk, meter = desk_of(library, store), Meter()
    monkeypatch.setattr(type(store), "count", gone)
    read = await StateCollector(lambda: desk, meter).read()
    assert meter.instruments.registry.get_sample_value("citegram_scrape_failures_total", {"part": "sizes"}) == 1
    assert told(read, "citegram_index_lag_changes")["vectors"] == 10
    assert told(read, "citegram_index_passages") == {}
    said = await ReadinessCheck(lambda: desk, meter.wire).look()
    assert said["vectors"] == "cannot be searched"
    assert said["archive"] == said["words"] == "ok"


async def test_a_model_that_is_wanted_and_not_there_makes_the_bot_not_ready(live: Any) -> None:
    port = find_free_port()
    async with live(sections={"monitoring": {"port": port}, "models": {"embedder": "minilm-navec"}}):
        status, text = await fetch_text(port, "readyz")
    assert status == 503
    assert json.loads(text)["checks"]["vectors"] == "not opened"
