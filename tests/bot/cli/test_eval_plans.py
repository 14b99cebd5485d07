import json
from pathlib import Path

import pytest
from driver import write_rows
from scripted_model import FakeLlm

from bot.evaluation.data import read_questions
from bot.evaluation.measures import compute_plan_metrics, measure_plan
from rag_core.errors import GenerationFailed, ImportRefused
from rag_core.planning.llm_planner import KnownEntities
from rag_core.run import Budgets


@pytest.fixture
def plans(evaluate, monkeypatch):
    monkeypatch.setenv("LLM__THREADS", "1")
    return lambda file, *given: evaluate("plans", file, "--seconds", "60", *given)


@pytest.fixture
def file(tmp_path):
    rows = [
        {"id": "1", "text": "Who painted the lighthouse on Owl Island?", "lang": "en"},
        {"id": "2", "text": "Кто покрасил маяк на острове?", "lang": "ru", "asked_at": "2025-07-01"},
        {"id": "3", "text": "???", "lang": "en"},
        {"id": "4", "text": "Where is fresh mackerel sold?", "lang": "en"},
    ]
    return write_rows(tmp_path / "queries.jsonl", rows)


def figures():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_a_model_is_measured(plans, file, tiny_gguf):
    said = plans(file, "--model", tiny_gguf, "--all", "--json", "out.json")
    assert said.code == 0, said.err
    assert "mean_queries" in said.out and "3 questions planned by" in said.out
    told = figures()
    assert (told["command"], told["rows"]) == ("plans", 3)
    everything = told["metrics"]["all"]
    assert set(told["metrics"]) == {"all", "en", "ru"}
    assert everything["usable"] == 1.0 and everything["mean_queries"] >= 3.2
    assert everything["tokens_per_s"] > 0 and everything["latency_ms_p50"] <= everything["latency_ms_p95"]


def test_without_a_model_one_sentence_says_what_to_do(plans, file, tmp_path):
    for more in ((), ("--model", tmp_path / "gone.gguf")):
        assert plans(file, *more).is_one_sentence()
    assert "--model PATH" in plans(file).err


WRONG = (None, "\n \n", '{"id": "1"}\n', '{"text": "x", "asked_at": "soon"}', "{broken")


@pytest.mark.parametrize("content", WRONG)
def test_a_file_without_questions_is_refused_in_one_sentence(plans, tmp_path, content):
    path = tmp_path / "odd.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ImportRefused, match=r"one question on each line\.$"):
        read_questions(path)
    assert plans(path).code == 1


def test_one_question_a_line_is_enough(tmp_path):
    path = tmp_path / "asked.txt"
    path.write_text("Who painted it?\n\n  Кто его покрасил?  \n", encoding="utf-8")
    found = read_questions(path)
    assert [(q.text, q.lang) for q in found] == [("Who painted it?", "en"), ("Кто его покрасил?", "ru")]


GOOD = json.dumps({
    "normalized_queries": ["lighthouse painter", "who painted the tower", "paint job island"], "must_phrases": [],
    "should_phrases": [], "metadata_filters": None, "k_per_query": 5, "fusion": "rrf",
})  # fmt: skip


async def test_what_counts_as_valid_and_as_usable(file):
    question, *_ = read_questions(file)
    cut, odd = GOOD[:60], GOOD.replace('"rrf"', '"sum"')
    rows = []
    for reply in (GOOD, cut, odd, "no", GenerationFailed("Gone.")):
        model = FakeLlm(reply, '["coat of paint"]')
        row = await measure_plan(question, KnownEntities(), model, Budgets())
        assert row is not None
        rows.append(row)
    assert [row.valid for row in rows] == [True, False, False, False, False]
    assert [row.usable for row in rows] == [True, True, True, False, False]
    assert all(row.queries >= 3 for row in rows)
    told = compute_plan_metrics(rows)
    assert (told["valid"], told["usable"], told["shortfalls"]) == (0.2, 0.6, 0.4)
