"""`citegram eval` over several recipes: one table, processes of their own, and recordings that repeat to the digit."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driver import write_rows
from scripted_model import FakeLlm

from bot.__main__ import build_parser
from bot.evaluation.data import Variant, open_indexed_dataset, read_dataset
from bot.evaluation.measures import answer_query, run_interleaved
from bot.evaluation.metrics import RECIPE_FIGURES, JudgedAnswer, compute_answer_metrics, format_recipes
from bot.evaluation.recorded_replies import Recording
from rag_core.engine import Engine
from rag_core.errors import ImportRefused
from rag_core.recipes import RECIPES
from rag_core.run import Budgets
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
def data(tmp_path: Path) -> Path:
    write_rows(tmp_path / "tiny" / "corpus.jsonl", CORPUS)
    return write_rows(tmp_path / "tiny" / "queries.jsonl", QUERIES).parent


class Replying(FakeLlm):
    """A model that never runs out of replies: what it says depends on what it is asked for. `seconds`: of each."""

    seconds = 0.0

    async def choose_reply(self, prompt: Any, grammar: Any, schema: Any) -> str:
        await asyncio.sleep(self.seconds)
        form = grammar or ""
        if "keywords" in form:
            return '{"keywords": ["ferry", "ticket"], "filters": null}'
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


async def measure(
    data: Path, recording: Recording | None, model: FakeLlm | None, budgets: Budgets | None = None
) -> dict[str, Any]:
    settings = RagSettings(models=ModelSettings(embedder="none", reranker="none"))
    variants = {name: Variant(name) for name in RECIPES}
    if model and recording:
        wrap = recording.wrap

        def with_model(rag: Engine) -> Engine:
            return wrap(replace(rag, writer=model, planner=model, budgets=budgets or rag.budgets))

        recording.wrap = with_model  # type: ignore[method-assign]
    dataset = read_dataset(data)
    async with open_indexed_dataset(dataset, settings, recording) as opened:
        ways = {name: opened.select_variant(way) for name, way in variants.items()}
        rows: dict[str, list[JudgedAnswer]] = await run_interleaved(dataset.queries, answer_query, ways)
    return {name: {"all": compute_answer_metrics(given)} for name, given in rows.items()}


async def test_a_replayed_measurement_gives_the_same_tables_to_the_digit(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    recorded = await measure(data, Recording(file, replaying=False), Replying())
    for _ in range(2):
        replayed = await measure(data, Recording(file, replaying=True), None)
        assert format_recipes(replayed, RECIPE_FIGURES) == format_recipes(recorded, RECIPE_FIGURES)
        assert replayed == recorded
    assert recorded["direct"]["all"]["by_model"] and recorded["direct"]["all"]["calls"] > 0
    assert recorded["mapreduce"]["all"]["calls"] <= 2 + 5
    assert all(0 <= found["all"]["supported"] <= 1 for found in recorded.values())
    assert all(found["all"]["under_10_s"] == 1.0 for found in recorded.values())
    assert "ferry ticket cost?" not in file.read_text(encoding="utf-8")  # no prompts


async def test_a_slow_model_seldom_passes_a_timeout(data: Path, tmp_path: Path) -> None:
    model = Replying()
    model.seconds = 0.05
    found = await measure(data, Recording(tmp_path / "replies.jsonl", replaying=False), model)
    assert all(0 <= metrics["all"]["tool_timeout_rate"] < 0.01 for metrics in found.values()), found
    assert "tool_timeout_rate" in format_recipes(found, RECIPE_FIGURES)
    assert found["react"]["all"]["calls"] > 1


async def test_a_model_that_does_not_come_back_leaves_the_posts_own_words(data: Path, tmp_path: Path) -> None:
    """Every stage that waits for it ends at its timeout; what was found until then is the answer."""
    model, seconds = Replying(), 2.0
    model.seconds = 600.0
    budgets = Budgets(plan=0.1, rewrite=0.1, judge=0.1, map=0.1, write=0.1, question=seconds)
    found = await measure(data, Recording(tmp_path / "replies.jsonl", replaying=False), model, budgets)
    for name, metrics in found.items():
        figures = metrics["all"]
        assert (figures["shown_right"], figures["wrong"], figures["by_model"]) == (1.0, 0.0, 0.0), name
        assert figures["tool_timeout_rate"] > 0.01, name
        assert figures["latency_ms_p95"] < 1000 * seconds, name


async def test_what_was_not_recorded_is_a_shortfall_and_no_invention(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    await measure(data, Recording(file, replaying=False), Replying())
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if '"text"' not in line]
    file.write_text("\n".join(kept) + "\n", encoding="utf-8")
    replayed = await measure(data, Recording(file, replaying=True), None)
    assert not replayed["direct"]["all"]["by_model"]


@pytest.mark.parametrize("text", ["", "[]", '{"now": 1}', "{"])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text, encoding="utf-8")
    with pytest.raises(ImportRefused, match="is no recording"):
        Recording(tmp_path / "x", replaying=True)


def test_recipes_are_measured_in_one_table_in_processes_of_their_own(evaluate: Any, data: Path) -> None:
    said = evaluate("answers", data, "--recipe", "direct,council", "--json", "out.json")
    assert said.code == 0, said.err
    head, *lines = said.out.strip().splitlines()
    assert {"shown_right", "supported", "calls", "tokens", "seconds", "memory_mb"} <= set(head.split())
    assert [line.split()[0] for line in lines[:2]] == ["direct", "council"]
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))["metrics"]
    # there is no model: what needs one falls back, and the table says so
    assert (found["direct"]["all"]["fell_back"], found["council"]["all"]["fell_back"]) == (0.0, 1.0)
    assert all(metrics["all"]["memory_mb"] > 0 for metrics in found.values())


def test_all_stands_for_every_recipe() -> None:
    words = ("eval", "answers", ".", "--recipe", "all")
    assert build_parser(words).parse_args(words).recipe == tuple(RECIPES)
