"""Recipes measured side by side with a language model: what they cost, and what is left of them without it."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from driver import write_rows
from scripted_model import FakeLlm

from bot.evaluation.data import Variant, open_indexed_dataset, read_dataset
from bot.evaluation.measures import answer_query, run_interleaved
from bot.evaluation.metrics import compute_answer_metrics
from rag_core.answer import RECIPES
from rag_core.settings import ModelSettings, RagSettings

CORPUS = [
    {"id": "march", "text": "The ferry to Owl Island leaves at 7:30 from the new pier.", "date": "2025-03-10"},
    {"id": "may", "text": "A ferry ticket costs twelve euros.", "date": "2025-05-10"},
    {"id": "jam", "text": "Варенье из крыжовника стоит 300 рублей за банку.", "date": "2025-04-01"},
]
QUERIES = [
    {"id": "q1", "text": "How much does a ferry ticket cost?", "relevant": ["may"], "answers": ["twelve euros"]},
    {"id": "q2", "text": "Сколько стоит банка варенья из крыжовника?", "relevant": ["jam"], "answers": ["300"]},
    {"id": "q3", "text": "Who is the mayor of Paris?", "relevant": [], "answerable": False},
]


@pytest.fixture
def data(tmp_path):
    write_rows(tmp_path / "tiny" / "corpus.jsonl", CORPUS)
    return write_rows(tmp_path / "tiny" / "queries.jsonl", QUERIES).parent


class Replying(FakeLlm):
    """A model that never runs out of replies: what it says depends on what it is asked for. `seconds`: of each."""

    seconds = 0.0

    async def choose_reply(self, prompt, grammar, schema):
        await asyncio.sleep(self.seconds)
        form = grammar or ""
        if "normalized_queries" in form:
            return json.dumps(
                {"normalized_queries": ["ferry fare", "price of the boat", "ticket for the crossing"],
                 "must_phrases": [], "should_phrases": [], "metadata_filters": None, "k_per_query": 7, "fusion": "mmr"}
            )  # fmt: skip
        if "relevant" in form:
            return '{"relevant": true, "facts": ["A ferry ticket costs twelve euros."]}'
        if "Thought" in form:
            return '{"Thought": "x", "tool": "answer", "input": {}}'
        return "A ferry ticket costs twelve euros.[1]"


async def measure(data, seconds):
    model, dataset = Replying(), read_dataset(data)
    model.seconds = seconds
    settings = RagSettings(models=ModelSettings(embedder="none", reranker="none"))
    async with open_indexed_dataset(dataset, settings) as opened:
        opened.rag = replace(opened.rag, writer=model, planner=model)
        ways = {name: opened.select_variant(Variant(name)) for name in RECIPES}
        rows = await run_interleaved(dataset.queries, answer_query, ways)
    return {name: compute_answer_metrics(given) for name, given in rows.items()}


async def test_the_calls_of_a_model_are_counted(data):
    found = await measure(data, 0.05)
    assert all(0 <= metrics["supported"] <= 1 for metrics in found.values())
    assert found["direct"]["by_model"] and found["direct"]["calls"] > 0
    assert found["mapreduce"]["calls"] <= 2 + 5
    assert found["react"]["calls"] > 1


def test_a_recipe_that_needs_a_model_falls_back_and_is_said_to(evaluate, data):
    assert evaluate("answers", data, "--compare", "direct,council", "--json", "out.json").code == 0
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))["metrics"]
    assert (found["direct"]["all"]["fell_back"], found["council"]["all"]["fell_back"]) == (0.0, 1.0)
