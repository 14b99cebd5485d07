"""Questions of two parts (tests/data/parts) over the sample channels.

What the agent shows, and direct beside it.

`pytest -s` prints the figures, by words and meaning where the offline models are there.
"""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import pytest_asyncio
from sample_sizes import FULL

from bot.evaluation.data import open_indexed_dataset, read_corpus
from rag_core import Question, RagSettings, answer_question

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ROOT = Path(__file__).parents[3]


def shows(answer, part, data):
    """Whether a sentence holds one of the part's answers and cites one of its posts."""

    def fold(text):
        return text.casefold().replace("ё", "е")

    return any(
        any(fold(one) in fold(sentence.text) for one in part["answers"])
        and any(data.id_of(citation.post) in part["relevant"] for citation in sentence.citations)
        for sentence in answer.sentences
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def data(offline_models, tmp_path_factory):
    """The sample channels, indexed once."""
    models = {"dir": offline_models.parent, "reranker": "none"}
    settings = RagSettings.model_validate({"data": {"dir": tmp_path_factory.mktemp("data")}, "models": models})
    async with open_indexed_dataset(read_corpus(ROOT / "bot" / "sandbox" / "channels"), settings) as data:
        yield data


async def test_six_in_ten_questions_of_two_parts_are_answered_whole(data):
    rows = [json.loads(line) for line in (ROOT / "tests/data/parts/queries.jsonl").read_text("utf-8").splitlines()]
    rows = rows if FULL else rows[2::3]  # the third in which a dropped part shows
    open_parts = sum(not all(part["answerable"] for part in row["parts"]) for row in rows)
    whole, named = {"direct": 0, "agent": 0}, 0
    for recipe in whole:
        rag = replace(data.rag, recipe=recipe)
        for row in rows:
            asked_at = datetime.fromisoformat(row["asked_at"])
            answer = await answer_question(Question(row["text"], row["lang"], asked_at, data.viewer), rag)
            answerable = [part for part in row["parts"] if part["answerable"]]
            whole[recipe] += all(shows(answer, part, data) for part in answerable)
            named += len(answerable) < len(row["parts"]) and bool(answer.missing)
    print(f"all answerable parts shown: {whole} of {len(rows)}; an open part named: {named} of twice {open_parts}")
    assert whole["agent"] >= 0.55 * len(rows)
    assert whole["agent"] > whole["direct"]
    assert named >= 0.6 * open_parts
