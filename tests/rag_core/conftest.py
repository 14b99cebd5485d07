"""Models small enough to build in a test, a reranker made of a real encoder, and a watch on the event loop."""

import asyncio
import json
from contextlib import asynccontextmanager

import numpy as np
import pytest
from tiny_gguf import build
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_core import RagSettings, open_engine
from rag_core.models.catalog import ModelRole, ModelSpec, ModelTier, Pooling, write_manifest
from rag_core.models.onnx_conversion import FLOAT, OnnxGraphBuilder

WORDS = "<pad> <unk> <s> ferry boat island morning glaze kiln query passage : паром остров печь глазурь".split()


def write_tokenizer(folder):
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"model_max_length": 64, "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}), "utf-8")


@pytest.fixture
def make_model(tmp_path):
    """What builds an embedder whose token vectors are a seeded table, and gives its row and folder.

    `real` is the true width of its vectors, `table` replaces them, `eight` brings them to 8 bits as they are computed,
    with one scale for the batch, as models on hubs do; other names are fields of the row.
    """

    def make(*, real=None, table=None, listed=True, eight=False, **fields):
        given = {"name": "tiny", "dimension": 4, "max_tokens": 64, "languages": frozenset({"en"}), **fields}
        row = ModelSpec(tier=ModelTier.OFFLINE, role=ModelRole.EMBEDDER, licence="MIT", **given)
        folder = tmp_path / "models" / row.name
        folder.mkdir(parents=True)
        width = real or row.dimension
        if table is None:
            table = np.random.default_rng(7).normal(size=(len(WORDS), width))
        g = OnnxGraphBuilder()
        vectors = g.op("Gather", g.constant("table", np.asarray(table, np.float32)), "input_ids")
        if eight:
            greatest = g.op("ReduceMax", g.op("Abs", vectors), keepdims=0)
            step = g.op("Div", greatest, g.number(127.0))
            vectors = g.op("Mul", g.op("Round", g.op("Div", vectors, step)), step)
        mask = g.op("Unsqueeze", g.op("Cast", "attention_mask", to=FLOAT), g.ints(-1))
        out = g.op("Mul", vectors, mask, out="last_hidden_state")
        shape = ["batch", "length", width]
        if row.pooling is Pooling.NONE:
            out, shape = g.op("ReduceSum", out, g.ints(1), out="sentence", keepdims=0), ["batch", width]
        g.save(folder / "model.onnx", ["input_ids", "attention_mask"], out, shape)
        write_tokenizer(folder)
        if listed:
            write_manifest(folder, model=row.name)
        return row, folder

    return make


@pytest.fixture
def make_reranker(tmp_path):
    """What builds a cross-encoder that scores a text by its words' places in WORDS, or by `worth`."""

    def make(worth=None, **fields):
        row = ModelSpec(
            "judge", ModelTier.OFFLINE, ModelRole.RERANKER, "MIT", frozenset({"en"}), **{"max_tokens": 64, **fields}
        )
        folder = tmp_path / "models" / row.name
        folder.mkdir(parents=True)
        worth = np.arange(len(WORDS)) if worth is None else worth
        g = OnnxGraphBuilder()
        each = g.op("Gather", g.constant("worth", np.asarray(worth, np.float32)), "input_ids")
        each = g.op("Mul", each, g.op("Cast", "token_type_ids", to=FLOAT))
        each = g.op("Mul", each, g.op("Cast", "attention_mask", to=FLOAT))
        out = g.op("ReduceSum", each, g.ints(1), out="logits", keepdims=1)
        g.save(folder / "model.onnx", ["input_ids", "attention_mask", "token_type_ids"], out, ["batch", 1])
        write_tokenizer(folder)
        write_manifest(folder, model=row.name)
        return row, folder

    return make


@pytest.fixture(scope="session")
def slow_gguf(tmp_path_factory):
    return build(tmp_path_factory.mktemp("slow") / "slow.gguf", layers=8, dim=512)


@pytest.fixture
def loop_lag():
    """A block that learns by how many seconds the event loop was late, each time it was asked."""

    @asynccontextmanager
    async def measure():
        lags = []

        async def ask():
            loop, pause = asyncio.get_running_loop(), 0.005
            while True:
                started = loop.time()
                await asyncio.sleep(pause)
                lags.append(loop.time() - started - pause)

        asking = asyncio.create_task(ask())
        try:
            yield lags
        finally:
            asking.cancel()

    return measure


@pytest.fixture(scope="session")
def sample_channels(tmp_path_factory):
    """A data folder with the sample channels in the archive and the index, which nobody changes."""
    from bot.cli.demo import import_sample_channels
    from bot.data_folder import catch_up_indexes

    folder = tmp_path_factory.mktemp("samples")

    async def fill():
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
            await import_sample_channels(rag.archive)
            await catch_up_indexes(rag)

    asyncio.run(fill())
    return folder


@pytest.fixture
def free_loop(loop_lag):
    """Does some work up to twenty times until the event loop was never late by 50 ms: work that holds the loop holds it
    each time, another process on the machine does not.
    """

    async def worst(work):
        found = []
        for _ in range(20):
            async with loop_lag() as lags:
                await work()
            assert len(lags) > 10, "the work was too short to tell"
            found.append(max(lags))
            if found[-1] <= 0.05:
                break
        return min(found)

    return worst
