from math import erf

import numpy as np
import onnxruntime
import pytest

from rag_core.models.onnx_conversion import write_bert_onnx

CONFIG = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "layer_norm_eps": 1e-12}


def bert_weights():
    chance = np.random.default_rng(3)
    shapes = {"embeddings.word_embeddings.weight": (30, 16), "embeddings.position_embeddings.weight": (12, 16),
              "embeddings.token_type_embeddings.weight": (2, 16)}  # fmt: skip
    layer = {"attention.self.query": (16, 16), "attention.self.key": (16, 16), "attention.self.value": (16, 16),
             "attention.output.dense": (16, 16), "intermediate.dense": (32, 16), "output.dense": (16, 32)}  # fmt: skip
    for n in range(2):
        for name, shape in layer.items():
            shapes[f"encoder.layer.{n}.{name}.weight"] = shape
            shapes[f"encoder.layer.{n}.{name}.bias"] = shape[:1]
    weights = {name: chance.normal(scale=0.3, size=shape) for name, shape in shapes.items()}
    for name in ("embeddings", *(f"encoder.layer.{n}.{part}output" for n in range(2) for part in ("", "attention."))):
        weights[f"{name}.LayerNorm.weight"] = 1 + chance.normal(scale=0.1, size=16)
        weights[f"{name}.LayerNorm.bias"] = chance.normal(scale=0.1, size=16)
    return {name: value.astype(np.float32) for name, value in weights.items()}


def bert_in_numpy(w, ids, sides):
    """The encoder as it was published, one text without padding."""

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]

    words, places, kinds = (w[f"embeddings.{k}_embeddings.weight"] for k in ("word", "position", "token_type"))
    x = norm(words[ids] + places[: len(ids)] + kinds[sides], "embeddings")
    for n in range(2):
        layer = f"encoder.layer.{n}."
        q, k, v = (linear(x, f"{layer}attention.self.{kind}") for kind in ("query", "key", "value"))
        heads = []
        for head in (slice(0, 8), slice(8, 16)):
            shares = np.exp(q[:, head] @ k[:, head].T / np.sqrt(8))
            heads.append(shares / shares.sum(-1, keepdims=True) @ v[:, head])
        x = norm(linear(np.hstack(heads), f"{layer}attention.output.dense") + x, f"{layer}attention.output")
        inner = linear(x, f"{layer}intermediate.dense")
        inner = inner * (1 + np.vectorize(erf)(inner / np.sqrt(2))) / 2
        x = norm(linear(inner, f"{layer}output.dense") + x, f"{layer}output")
    return x


def run(file, **feeds):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {name: np.array(value, np.int64) for name, value in feeds.items()})
    return np.asarray(out, np.float64)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    file = tmp_path_factory.mktemp("bert") / "model.onnx"
    write_bert_onnx(CONFIG, {f"bert.{name}": value for name, value in bert_weights().items()}, file)
    return file


def test_the_encoder_in_whole_numbers_is_the_encoder(bert):
    ids, sides = [1, 5, 9, 2, 28, 2], [0, 0, 0, 0, 1, 1]
    made = run(bert, input_ids=[ids], attention_mask=[[1] * 6], token_type_ids=[sides])[0]
    right = bert_in_numpy(bert_weights(), ids, sides)
    cosines = (made * right).sum(-1) / np.linalg.norm(made, axis=-1) / np.linalg.norm(right, axis=-1)
    assert cosines.min() > 0.998


def test_neither_padding_nor_neighbours_change_a_text(bert):
    one, loud = [1, 5, 9, 2], [27, 28, 29, 26, 25, 24, 23]
    alone = run(bert, input_ids=[one], attention_mask=[[1] * 4], token_type_ids=[[0] * 4])[0]
    beside = run(
        bert,
        input_ids=[[*one, 0, 0, 0], loud],
        attention_mask=[[1] * 4 + [0] * 3, [1] * 7],
        token_type_ids=[[0] * 7] * 2,
    )
    assert np.allclose(alone, beside[0][:4], atol=1e-5)


def test_maxsim_is_the_mean_over_the_words_of_a_question_of_their_best_cosines(tmp_path):
    words = np.random.default_rng(4).normal(scale=0.3, size=(103, 16)).astype(np.float32)
    weights = bert_weights() | {"embeddings.word_embeddings.weight": words}
    write_bert_onnx(CONFIG, weights, tmp_path / "plain.onnx")
    write_bert_onnx(CONFIG, weights, tmp_path / "model.onnx", maxsim=True)
    feeds = {"input_ids": [[101, 5, 6, 102, 8, 9, 7, 102, 0]], "attention_mask": [[1] * 8 + [0]],
             "token_type_ids": [[0] * 4 + [1] * 4 + [0]]}  # fmt: skip
    hidden = run(tmp_path / "plain.onnx", **feeds)[0]
    units = hidden / np.linalg.norm(hidden, axis=-1, keepdims=True)
    best = (units[1:3] @ units[4:7].T).max(axis=1)
    assert np.allclose(run(tmp_path / "model.onnx", **feeds), best.mean(), atol=1e-5)
