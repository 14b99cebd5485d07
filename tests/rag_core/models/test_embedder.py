import asyncio
import os
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import ModelRole, ModelSpec, ModelTier, PackageSource, Pooling
from rag_core.models.onnx_models import open_embedder


@pytest.fixture
async def opened(make_model):
    """The tiny model as `make_model` builds it, open until the test ends."""
    open_ones = []

    async def opening(**fields):
        open_ones.append(await open_embedder(*make_model(**fields)))
        return open_ones[-1]

    yield opening
    for embedder in open_ones:
        await embedder.close()


async def test_vectors_have_unit_length_and_the_order_of_their_texts(opened):
    embedder = await opened()
    texts = ["ferry " * (1 + n % 7) + ("boat", "island", "kiln")[n % 3] for n in range(30)]
    vectors = await embedder.passages(texts)
    assert (vectors.shape, vectors.dtype) == ((30, 4), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose((await embedder.passages([text]))[0], vector, atol=1e-6)
    assert (await embedder.passages([])).shape == (0, 4)
    odd = await embedder.passages(["", " ", "\n\x00", "👩‍👩‍👧 🏝", "\ud83d lone", "ﷺ" * 50])
    assert np.allclose(np.linalg.norm(odd, axis=1), 1, atol=1e-6)


async def test_a_post_has_the_same_vector_beside_whatever_posts_of_other_channels(opened):
    table = np.random.default_rng(7).normal(size=(15, 4))
    table[7] *= 50  # "glaze": beside it, one scale for the batch leaves little of the others
    embedder = await opened(eight=True, table=table)
    (alone,) = await embedder.passages(["ferry boat island"])
    for others in (["glaze"], ["glaze kiln", "ferry glaze glaze"], ["glaze"] * 40):
        beside = await embedder.passages([*others, "ferry boat island"])
        assert (beside[-1] == alone).all()


async def test_pooling_is_the_rows(make_model):
    vectors = {}
    for pooling in Pooling:
        embedder = await open_embedder(*make_model(name=f"tiny-{pooling}", pooling=pooling))
        vectors[pooling] = await embedder.passages(["ferry boat", "boat island"])
        await embedder.close()
    # the first token is the same in all texts, and a mean is a sum of another length
    assert np.allclose(*vectors[Pooling.CLS])
    assert not np.allclose(*vectors[Pooling.MEAN])
    assert not np.allclose(*vectors[Pooling.NONE])


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.NONE])
async def test_an_offline_model_makes_the_vectors_that_fastembed_makes(make_model, pooling):
    row, folder = make_model(pooling=pooling, max_tokens=5)
    texts = ["ferry boat", "boat", "kiln " * 9, "", "unheard ferry"]
    vectors = []
    for source in (None, PackageSource("tiny", "1", "", 0, "", "bert")):
        embedder = await open_embedder(replace(row, source=source), folder)
        vectors.append(await embedder.passages(texts))
        await embedder.close()
    assert np.allclose(*vectors, atol=1e-6)


async def test_questions_and_posts_get_the_prefix_of_the_row(opened):
    plain = await opened(name="plain")
    e5 = await opened(name="e5", query_prefix="query: ", passage_prefix="passage: ")
    assert np.allclose(await e5.query("ferry"), await plain.query("query: ferry"), atol=1e-6)
    assert np.allclose(await e5.passages(["ferry"]), await plain.passages(["passage: ferry"]), atol=1e-6)
    assert not np.allclose(await e5.query("ferry"), (await e5.passages(["ferry"]))[0])


async def test_a_huge_text_is_cut_and_costs_little(opened):
    embedder = await opened()
    started = time.perf_counter()
    vector = await embedder.query("ferry boat " * 1_000_000)
    assert time.perf_counter() - started < 0.5
    assert np.allclose(vector, await embedder.query("ferry boat " * 60), atol=1e-6)


async def test_a_question_waits_for_no_post(opened):
    embedder, begun, go_on = await opened(), threading.Event(), threading.Event()
    held = asyncio.create_task(embedder._thread.run(lambda: (begun.set(), go_on.wait(10)), background=True))
    posts = asyncio.create_task(embedder.passages(["ferry boat"] * 3))
    await asyncio.to_thread(begun.wait, 10)
    await asyncio.wait_for(embedder.query("ferry"), 5)
    assert not posts.done()
    go_on.set()
    assert len(await posts) == 3
    await held


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has a priority of its own")
async def test_posts_are_embedded_with_less_priority_than_questions(opened):
    embedder = await opened()
    priorities = [
        await embedder._thread.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), background=late)
        for late in (False, True)
    ]
    assert priorities[0] < priorities[1]
    assert os.getpriority(os.PRIO_PROCESS, 0) == priorities[0]


async def test_a_closed_model_leaves_no_thread_and_says_so(make_model):
    row, folder = make_model()
    before = set(threading.enumerate())
    embedder = await open_embedder(row, folder)
    waiting = asyncio.create_task(embedder.passages(["ferry"] * 1000))
    await asyncio.sleep(0)
    await embedder.close()
    await embedder.close()
    with pytest.raises(ModelUnavailable, match="tiny is closed"):
        await embedder.query("ferry")
    with pytest.raises((ModelUnavailable, asyncio.CancelledError)):
        await waiting
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("tiny")]


async def test_another_width_than_the_rows_is_refused_and_leaves_no_thread(make_model):
    with pytest.raises(
        ModelUnavailable, match="vectors of 6 numbers instead of 4: run citegram models pull tiny again"
    ):
        await open_embedder(*make_model(real=6))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tiny")]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
async def test_vectors_that_cannot_be_compared_are_refused(make_model, bad):
    with pytest.raises(ModelUnavailable, match="tiny makes vectors without a length"):
        await open_embedder(*make_model(table=np.full((18, 4), bad)))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        *(("model.onnx", raw) for raw in (b"", b"not a model", b"\x08\x09\x12\x00")),
        *((f"{name}.json", b'{"version": "1.0"') for name in ("tokenizer", "tokenizer_config", "config")),
    ],
)
async def test_a_file_that_cannot_be_read_is_one_sentence(make_model, name, raw):
    row, folder = make_model(listed=False)
    (folder / name).write_bytes(raw)
    with pytest.raises(ModelUnavailable, match=r"tiny cannot be used .*models pull tiny again\.$"):
        await open_embedder(row, folder)


_asked = []
_watching = threading.Event()


def _watch(event, given):
    if _watching.is_set() and event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
        _asked.append((event, *given))


async def test_loading_and_embedding_ask_nobody(make_model, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    sys.addaudithook(_watch)
    _watching.set()
    try:
        embedder = await open_embedder(*make_model())
        await embedder.passages(["ferry", "boat"])
        await embedder.close()
    finally:
        _watching.clear()
    assert _asked == []


async def test_each_text_goes_into_the_block_of_its_language(make_model):
    english, folder = make_model(name="english", languages=frozenset({"en"}))
    russian, other = make_model(name="russian", languages=frozenset({"ru"}), dimension=3)
    other.rename(folder.parent / "both-russian")
    both = ModelSpec("both", ModelTier.OFFLINE, ModelRole.EMBEDDER, "MIT", frozenset({"en", "ru"}), dimension=7,
                    parts=(english, russian))  # fmt: skip
    home = folder.parent / "both"
    home.mkdir()
    folder.rename(home / "english")
    (folder.parent / "both-russian").rename(home / "russian")
    embedder = await open_embedder(both, home)
    texts = ["паром", "ferry", "остров паром", "1984", "Ferry и паром у острова", ""]
    vectors = await embedder.passages(texts)
    assert (embedder.name, embedder.dimension, embedder.languages) == ("both", 7, {"en", "ru"})
    assert [bool(v[:4].any()) for v in vectors] == [False, True, False, True, False, True]
    assert [bool(v[4:].any()) for v in vectors] == [True, False, True, False, True, False]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose(await embedder.query(text), vector, atol=1e-6)
    assert (await embedder.passages([])).shape == (0, 7)
    await embedder.close()
    with pytest.raises(ModelUnavailable, match="both is closed"):
        await embedder.query("паром")
