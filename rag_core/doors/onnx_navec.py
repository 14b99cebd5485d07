"""navec's Russian word vectors as an ONNX folder that fastembed loads: a text is the weighted mean of its words.

A word weighs a / (a + p(word)), so that frequent words count little (Arora et al. 2017, "A simple but
tough-to-beat baseline for sentence embeddings"). Vectors stay product-quantised: 100 bytes a word.
The format of the file: https://github.com/natasha/navec
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_core.doors.onnx_graph import FLOAT, INT64, Graph

__all__ = ["Navec", "navec_to_onnx", "read_navec", "write_navec"]

_A = 1e-4
_PAD, _UNKNOWN = "<pad>", "<unk>"
# Every text begins with <unk>: next to nothing beside a known word, all there is where no word is known,
# so that no vector is zero.
_FAINT = 1e-7


@dataclass(frozen=True, slots=True)
class Navec:
    """Words with their counts; each word's vector is one of `books[part]` per part, as `codes` say."""

    words: list[str]
    counts: NDArray[np.uint32]
    codes: NDArray[np.uint8]  # (words, parts)
    books: NDArray[np.float32]  # (parts, entries, numbers per part)


def navec_to_onnx(wheel: ZipFile, inside: str, out: Path, max_tokens: int) -> None:
    """Read the tar that lies at `inside` in a wheel and write model.onnx and a tokenizer to `out`."""
    navec = read_navec(wheel.read(inside))
    _write_tokenizer(navec.words, out, max_tokens)
    write_navec(navec, out / "model.onnx")


def read_navec(raw: bytes) -> Navec:
    """The words and vectors of a navec tar (protocol 1)."""
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        parts = {name: _member(tar, name) for name in ("meta.json", "vocab.bin", "pq.bin")}
    if json.loads(parts["meta.json"])["protocol"] != 1:
        raise ValueError("not the navec format this was written for")
    vocabulary = gzip.decompress(parts["vocab.bin"])
    (size,) = struct.unpack("<I", vocabulary[:4])
    counts = np.frombuffer(vocabulary, "<u4", size, 4)
    vectors, numbers, pieces, entries = struct.unpack("<4I", parts["pq.bin"][:16])
    codes = np.frombuffer(parts["pq.bin"], np.uint8, vectors * pieces, 16).reshape(vectors, pieces)
    books = np.frombuffer(parts["pq.bin"], "<f4", offset=16 + vectors * pieces)
    words = vocabulary[4 + 4 * size :].decode().splitlines()
    return Navec(words, counts, codes, books.reshape(pieces, entries, numbers // pieces))


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file")
    return file.read()


def _write_tokenizer(words: list[str], out: Path, max_tokens: int) -> None:
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{_UNKNOWN} $A",
        pair=f"{_UNKNOWN} $A $B",
        special_tokens=[(_UNKNOWN, vocabulary[_UNKNOWN])],
    )
    tokenizer.enable_padding(pad_id=vocabulary[_PAD], pad_token=_PAD)
    tokenizer.save(str(out / "tokenizer.json"))
    special = {"pad_token": _PAD, "unk_token": _UNKNOWN}
    (out / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    about = {"model_max_length": max_tokens, **special}
    (out / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    (out / "config.json").write_text(json.dumps({"pad_token_id": vocabulary[_PAD]}), encoding="utf-8")


def write_navec(navec: Navec, file: Path) -> None:
    """Write the graph: input_ids, attention_mask -> sentence_embedding (batch, numbers)."""
    weight = (_A / (_A + navec.counts / navec.counts.sum())).astype(np.float32)
    weight[navec.words.index(_PAD)], weight[navec.words.index(_UNKNOWN)] = 0, _FAINT
    parts, entries, each = navec.books.shape
    g = Graph()
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
