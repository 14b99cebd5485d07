import asyncio
import json
import random
import threading
from itertools import combinations

import numpy as np
import pytest
from sample_sizes import choose_size

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import find_models
from rag_core.models.onnx_models import open_embedder, open_reranker


async def test_scores_come_in_the_order_of_the_texts(make_reranker):
    reranker = await open_reranker(*make_reranker())
    texts = ["kiln", "ferry", "", "boat boat", "glaze " * 20] * 8
    scores = await reranker.scores("island", texts)
    # places in the tokenizer's words, and 2 for the token that opens a text
    assert scores == [2 + 8, 2 + 3, 2, 2 + 4 + 4, 2 + 20 * 7] * 8
    assert await reranker.scores("island", []) == []
    assert await reranker.scores("\ud83d ferry", ["\udc00 kiln"]) == [2 + 1 + 8]  # lone surrogates
    assert 0 < reranker.pair_s < 0.5
    await reranker.close()


async def test_a_pair_is_cut_at_the_text_and_not_at_the_question(make_reranker):
    reranker = await open_reranker(*make_reranker(max_tokens=8))
    question = "ferry boat island"
    assert await reranker.scores(question, ["kiln " * 100_000]) == [2 + 3 * 8]
    await reranker.close()


async def test_scores_that_are_no_numbers_are_refused(make_reranker):
    with pytest.raises(ModelUnavailable, match="judge makes scores that are no numbers"):
        await open_reranker(*make_reranker(worth=np.full(18, np.nan)))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("judge")]


async def test_what_is_no_reranker_is_one_sentence(make_model, make_reranker, tmp_path):
    row, folder = make_reranker()
    with pytest.raises(ModelUnavailable, match=r"judge cannot be used .*: run citegram models pull judge again\.$"):
        await open_reranker(row, make_model(listed=False)[1])
    with pytest.raises(ModelUnavailable, match="run citegram models pull judge"):
        await open_reranker(row, tmp_path / "nowhere")
    (folder / "model.onnx").write_bytes(b"")
    with pytest.raises(ModelUnavailable, match="is damaged"):
        await open_reranker(row, folder)


@pytest.fixture(scope="module")
def reranker(pull_embedder):
    (row,) = find_models("minilm-maxsim")
    reranker = asyncio.run(open_reranker(row, pull_embedder(row.name, "rerankers"), threads=1))
    yield reranker
    asyncio.run(reranker.close())


def agreement(one, other):
    """Kendall's tau: 1 for the same order, -1 for the reversed one."""
    place = {item: n for n, item in enumerate(other)}
    pairs = list(combinations(one, 2))
    return sum(1 if place[a] < place[b] else -1 for a, b in pairs) / len(pairs)


@pytest.mark.slow
async def test_reranking_reversed_hits_brings_the_good_order_back(reranker, offline_models, shared_data):
    with (shared_data / "xquad" / "corpus.jsonl").open(encoding="utf-8") as lines:
        corpus = [row for row in map(json.loads, lines) if row["lang"] == "en"]
    with (shared_data / "xquad" / "queries.jsonl").open(encoding="utf-8") as lines:
        asked = [row for row in map(json.loads, lines) if row["lang"] == "en" and row["relevant"]][
            :: choose_size(20, 40)
        ]
    texts = [row["text"][:250] for row in corpus]
    embedder = await open_embedder(find_models("minilm-navec")[0], offline_models, threads=1)
    posts = await embedder.passages(texts)
    to_good, to_shuffled, to_reversed, first, chance = [], [], [], 0, random.Random(1)
    for row in asked:
        found = [int(n) for n in np.argsort(-(posts @ await embedder.query(row["text"])))[:8]]
        backwards, shuffled = found[::-1], chance.sample(found, len(found))
        scores = await reranker.scores(row["text"], [texts[n] for n in backwards])
        ranked = [n for _, n in sorted(zip(scores, backwards, strict=True), reverse=True)]
        to_good.append(agreement(ranked, found))
        to_shuffled.append(agreement(ranked, shuffled))
        to_reversed.append(agreement(ranked, backwards))
        first += corpus[ranked[0]]["id"] in row["relevant"]
    await embedder.close()
    assert np.mean(to_good) > np.mean(to_shuffled) + 0.2
    assert np.mean(to_good) > 0 > np.mean(to_reversed)
    assert first >= 0.7 * len(asked)
