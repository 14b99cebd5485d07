import asyncio
import json
import re
from itertools import chain

import numpy as np
import pytest
from sample_sizes import FULL

from rag_core.models.catalog import find_models
from rag_core.models.onnx_models import open_embedder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def embedder(offline_models):
    embedder = asyncio.run(open_embedder(find_models("minilm-navec")[0], offline_models, threads=1))
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture(scope="module")
def xquad(shared_data):
    found = {}
    for name in ("corpus", "queries"):
        with (shared_data / "xquad" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            found[name] = [json.loads(line) for line in lines]
    return found


async def test_english_vectors_are_those_of_the_published_model(embedder):
    # cosines of the published float32 model, as its page shows them
    first, *others = await embedder.passages(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    assert [first @ other for other in others] == pytest.approx([0.695, 0.943, 0.257], abs=0.03)


async def test_unknown_words_weigh_nothing_beside_known_ones(embedder):
    alone, beside, unknown = await embedder.passages(["паром", "паром щъыбжф", "щъыбжф"])
    assert alone @ beside > 0.9999
    assert np.linalg.norm(unknown) == pytest.approx(1, abs=1e-5)


async def test_a_text_among_others_has_the_vector_it_has_alone(embedder, xquad):
    texts = [sentence for row in xquad["corpus"][:12] for sentence in re.split(r"(?<=[.!?])\s+", row["text"])]
    together = await embedder.passages(texts)
    alone = np.array([await embedder.query(text) for text in texts])
    assert np.array_equal(together, alone)  # to the last bit, or closed posts would change the vectors of others


# Among half of the paragraphs the right one is found more often: the bars are as far below what is reached.
@pytest.mark.parametrize(
    ("lang", "at_1", "at_20"), [("en", 0.9 if FULL else 0.95, 0.99), ("ru", 0.6 if FULL else 0.73, 0.95)]
)
async def test_questions_find_their_paragraphs(embedder, xquad, lang, at_1, at_20):
    step = 1 if FULL else 2
    corpus = [row for row in xquad["corpus"] if row["lang"] == lang][::step]
    names = [row["id"] for row in corpus]
    asked = [row for row in xquad["queries"] if row["lang"] == lang and {*row["relevant"]} & {*names}][::step]
    posts = await embedder.passages([row["text"] for row in corpus])
    questions = await embedder.passages([row["text"] for row in asked])
    gold = [names.index(row["relevant"][0]) for row in asked]
    scores = questions @ posts.T
    ranks = (scores > scores[np.arange(len(gold)), gold][:, None]).sum(axis=1)
    assert (ranks < 1).mean() >= at_1, (ranks < 1).mean()
    assert (ranks < 20).mean() >= at_20


@pytest.mark.alone
async def test_the_event_loop_is_never_late_by_50_ms(embedder, free_loop):
    english = [
        f"The ferry number {n} leaves at {n % 24}:30 from pier four, says the harbour master." for n in range(100)
    ]
    russian = [f"Паром номер {n} отходит в {n % 24}:30 от четвёртого причала, говорит начальник." for n in range(100)]
    mixed = list(chain(*zip(english, russian, strict=True)))
    assert await free_loop(lambda: embedder.passages(mixed)) <= 0.05
