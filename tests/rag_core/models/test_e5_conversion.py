"""multilingual-e5-small out of its package: the format on a small file of the same kind, vectors on the real one."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_e5 import PIECES, build_file
from tokenizers import Tokenizer

from rag_core.models.catalog import find_models
from rag_core.models.onnx_conversion import E5File, build_tokenizer, convert_e5_file
from rag_core.models.onnx_models import Embedder, open_embedder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e5")
    (folder / "weights").write_bytes(build_file())
    convert_e5_file(folder / "weights", folder, 16)
    return folder


def test_pieces_of_other_scripts_are_left_out_and_the_others_stay(converted: Path) -> None:
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
def test_another_format_is_an_error_and_no_model(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(raw)
    with pytest.raises((ValueError, struct.error)):
        convert_e5_file(tmp_path / "weights", tmp_path, 16)


# The real one.


@pytest.fixture(scope="module")
def embedder(offline_models: Path) -> Iterator[Embedder]:
    (row,) = find_models("e5-small-centred")
    opened = asyncio.run(open_embedder(row, offline_models, threads=2))
    yield opened
    asyncio.run(opened.close())


async def test_a_question_finds_the_post_of_the_other_language(embedder: Embedder) -> None:
    posts = ["Паром на Совиный остров уходит в 7:30 от четвёртого причала.", "The library is closed on Mondays.",
             "Абонемент в бассейн стоит 2 400 рублей.", "Clay must dry for a week before it is fired."]  # fmt: skip
    vectors = await embedder.passages(posts)
    for question, right in (("When does the boat to the island leave?", 0), ("в какие дни закрыта библиотека?", 1),
                            ("How much is the swimming pool pass?", 2), ("сколько сохнет глина?", 3)):  # fmt: skip
        cosines = vectors @ await embedder.query(question)
        assert int(cosines.argmax()) == right, (question, cosines)


@pytest.fixture(scope="module")
def xquad(embedder: Embedder, shared_data: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name in ("corpus", "queries"):
        with (shared_data / "xquad" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            rows[name] = [json.loads(line) for line in lines]
    return rows | {"vectors": asyncio.run(embedder.passages([row["text"] for row in rows["corpus"]]))}


# Without centring posts of the question's own language come first.
@pytest.mark.parametrize(("wanted", "least", "first"), [("relevant", 0.95, 0.75), ("relevant_crosslang", 0.9, 0)])
async def test_questions_find_their_paragraphs_and_those_of_the_other_language(
    embedder: Embedder, xquad: dict[str, Any], wanted: str, least: float, first: float
) -> None:
    asked = [row for row in xquad["queries"] if row["lang"] == "ru" and row[wanted]][:60]
    ids = [row["id"] for row in xquad["corpus"]]
    found = []
    for row in asked:
        best = np.argsort(-(xquad["vectors"] @ await embedder.query(row["text"])))[:5]
        found.append([ids[n] in row[wanted] for n in best])
    assert np.mean([any(right) for right in found]) >= least
    assert np.mean([right[0] for right in found]) >= first


@pytest.mark.alone
async def test_the_event_loop_is_never_late_by_50_ms(
    embedder: Embedder, free_loop: Callable[[Callable[[], Awaitable[object]]], Awaitable[float]]
) -> None:
    texts = [f"Паром номер {n} отходит в {n % 24}:30 от четвёртого причала, говорит начальник." for n in range(100)]
    assert await free_loop(lambda: embedder.passages(texts)) <= 0.05
