from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import ModelSpec
from rag_core.models.onnx_models import open_reranker

MakeModel = Callable[..., tuple[ModelSpec, Path]]
FreeLoop = Callable[[Callable[[], Awaitable[object]]], Awaitable[float]]


async def test_scores_come_in_the_order_of_the_texts(make_reranker: MakeModel) -> None:
    reranker = await open_reranker(*make_reranker())
    texts = ["kiln", "ferry", "", "boat boat", "glaze " * 20] * 8
    scores = await reranker.scores("island", texts)
    # places in the tokenizer's words, and 2 for the token that opens a text
    assert scores == [2 + 8, 2 + 3, 2, 2 + 4 + 4, 2 + 20 * 7] * 8
    assert await reranker.scores("island", []) == []
    assert await reranker.scores("\ud83d ferry", ["\udc00 kiln"]) == [2 + 1 + 8]  # lone surrogates
    assert 0 < reranker.pair_s < 0.5
    await reranker.close()


async def test_a_pair_is_cut_at_the_text_and_not_at_the_question(make_reranker: MakeModel) -> None:
    reranker = await open_reranker(*make_reranker(max_tokens=8))
    question = "ferry boat island"
    assert await reranker.scores(question, ["kiln " * 100_000]) == [2 + 3 * 8]
    await reranker.close()


async def test_scores_that_are_no_numbers_are_refused(make_reranker: MakeModel) -> None:
    with pytest.raises(ModelUnavailable, match="judge makes scores that are no numbers"):
        await open_reranker(*make_reranker(worth=np.full(18, np.nan)))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("judge")]


async def test_what_is_no_reranker_is_one_sentence(
    make_model: MakeModel, make_reranker: MakeModel, tmp_path: Path
) -> None:
    row, folder = make_reranker()
    with pytest.raises(ModelUnavailable, match=r"judge cannot be used .*: run citegram models pull judge again\.$"):
        await open_reranker(row, make_model(listed=False)[1])
    with pytest.raises(ModelUnavailable, match="run citegram models pull judge"):
        await open_reranker(row, tmp_path / "nowhere")
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelUnavailable, match="is damaged"):
        await open_reranker(row, folder)
