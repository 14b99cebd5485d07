import json
import shutil
from pathlib import Path

import pytest
from driver import write_rows

from bot.evaluation.measures import JudgedSentence, compute_auc, compute_judge_metrics
from rag_core.errors import StageTimeout

CORPUS = [
    {"id": "march", "text": "The ferry sails again, the ferry to the lighthouse!", "date": "2025-03-10"},
    {"id": "may", "text": "The ferry was painted green.", "date": "2025-05-10"},
    {"id": "jam", "text": "Варенье из крыжовника стоит 300 рублей за банку.", "date": "2025-04-01"},
    {"id": "jam2", "text": "Крыжовник поспел.", "date": "2025-06-01"},
]
# What only a plan knows: that a period is meant, and that posts are to be counted.
HOW_MANY = {"id": "q2", "text": "How many posts mention the ferry?", "relevant": ["march", "may"], "answers": ["2"],
            "asked_at": "2025-07-01"}  # fmt: skip
JAM = {"id": "q3", "text": "Сколько стоит варенье из крыжовника?", "relevant": ["jam"], "answers": ["300"]}
MAYOR = {"id": "q4", "text": "Who is the mayor of Paris?", "relevant": [], "answerable": False}


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "tiny", HOW_MANY, JAM, MAYOR)


def written(folder, *queries):
    write_rows(folder / "corpus.jsonl", CORPUS)
    write_rows(folder / "queries.jsonl", queries)
    return folder


def figures():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", ["answers", "retrieval"])
def test_a_question_without_time_is_refused_and_the_next_is_asked(what, evaluate, data, monkeypatch):
    monkeypatch.setattr("bot.evaluation.measures.choose_recipe", run_out_of_time)
    monkeypatch.setattr("bot.evaluation.measures.answer_question", run_out_of_time)
    assert evaluate(what, data, "--json", "out.json").code == 0
    metrics = figures()["metrics"]["all"]
    assert metrics["abstained" if what == "answers" else "recall@1"] == (1.0 if what == "answers" else 0.0)


async def run_out_of_time(*_):
    raise StageTimeout("The search took too long.")


# In several ways.


def test_ways_are_measured_on_the_same_questions_beside_each_other(evaluate, data):
    said = evaluate("answers", data, "--compare", "plan-on, plan-off,rounds-2", "--all", "--json", "out.json")
    told = figures()
    assert {name: found["en"]["first_right"] for name, found in told["metrics"].items()} == {
        "plan-on": 1.0, "plan-off": 0.0, "rounds-2": 1.0,  # without a plan nothing is counted
    }  # fmt: skip
    assert [list(block) for block in told["metrics"].values()] == [["all", "en", "ru"]] * 3
    assert told["rows"] == 3
    ways = told["settings"]["compare"].values()
    assert [(way["plan"], way["rounds"]) for way in ways] == [("on", 1), ("off", 1), ("on", 2)]
    tables = [block.splitlines() for block in said.out.strip().split("\n\n")][:3]
    assert [table[0].split() for table in tables] == [
        [lang, "plan-on", "plan-off", "rounds-2", "/", "plan-on", "/", "plan-on"] for lang in ("all", "en", "ru")
    ]
    times = {line.split()[0]: line.split()[1:] for line in tables[0] if line.startswith("latency")}
    assert set(times) == {"latency_ms_p50", "latency_ms_p95"}
    for name, (first, second, _, *ratio) in times.items():
        assert float(ratio[1]) == pytest.approx(float(second) / float(first), rel=0.02)
        assert told["ratio"]["plan-off"]["all"][name] == pytest.approx(float(second) / float(first), rel=0.02)


def test_what_is_compared_changes_one_thing_of_what_else_was_asked_for(evaluate, data):
    assert evaluate("answers", data, "--plan", "off", "--compare", "rounds-1,rounds-2", "--json", "out.json").code == 0
    compared = figures()["settings"]["compare"]
    assert [(way["plan"], way["rounds"]) for way in compared.values()] == [("off", 1), ("off", 2)]
    assert figures()["metrics"]["rounds-2"]["en"]["first_right"] == 0.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["answers", ".", "--recipe", "oracle"], "invalid choice: 'oracle'"),
        (["answers", ".", "--compare", "direct,oracle"], "'oracle' cannot be compared: there are direct, agent"),
        (["answers", ".", "--compare", "plan-on"], "two are compared, such as plan-on,plan-off"),
        (["answers", ".", "--compare", "plan-on,plan-on"], "two are compared"),
        (["retrieval", ".", "--plan", "maybe"], "--plan"),
        (["retrieval", ".", "--seed", "-1"], "--seed"),
        (["verify", ".", "--plan", "on"], "unrecognized arguments"),
        (["verify"], "FILE|DIR"),
    ],
)
def test_what_cannot_be_measured_is_wrong_use(evaluate, words, said):
    found = evaluate(*words)
    assert found.code == 2
    assert found.err.startswith("usage: citegram")
    assert said in found.err.splitlines()[-1]


@pytest.mark.parametrize("words", [("--legs", "hybrid"), ("--compare", "lexical,hybrid"), ("--rerank", "on")])
def test_a_model_that_is_not_here_is_said_and_never_done_without(evaluate, data, words):
    said = evaluate("retrieval", data, *words)
    assert said.is_one_sentence()
    assert "citegram models pull" in said.err


def test_a_seed_draws_the_same_questions_again(evaluate, tmp_path):
    queries = [JAM | {"id": f"q{n}", "lang": f"l{n}"} for n in range(40)]
    data, drawn = written(tmp_path / "many", *queries), []
    for seed in ((), ("--seed", 1), ("--seed", 1), ("--seed", 2)):
        assert evaluate("retrieval", data, "--limit", 5, *seed, "--json", "out.json").code == 0
        drawn.append(set(figures()["metrics"]) - {"all"})
    assert drawn[0] == {f"l{n}" for n in range(5)}
    assert drawn[1] == drawn[2] != drawn[3]
    assert all(len(languages) == 5 for languages in drawn)


# Figures.


ANSWERS = {
    "truthfulness", "truthfulness_error",
    "first_right", "shown_right", "wrong", "abstained", "refused", "first_citation_right", "citation_precision",
    "citation_coverage", "latency_ms_p50", "latency_ms_p95", "calls", "tokens", "by_model",
    "first_sentence_ms_p50", "queries",
    "sure_share", "sure_right", "sure_wrong", "probable_right", "stale_first", "unanswerable_sure",
    "unanswerable_probable", "supported", "fell_back", "agent",
}  # fmt: skip
RETRIEVAL = {
    "recall@1", "recall@5", "recall@20", "across_recall@5", "across_recall@20", "all_relevant@20", "mrr@10", "ndcg@10",
    "latency_ms_p50", "latency_ms_p95", "queries",
}  # fmt: skip


@pytest.mark.parametrize(("what", "names", "rows"), [("answers", ANSWERS, 3), ("retrieval", RETRIEVAL, 2)])
def test_figures_are_printed_and_written_in_the_form_of_the_design(evaluate, data, what, names, rows):
    said = evaluate(what, data, "--json", "out.json")
    assert said.code == 0
    assert "Measured: 2. Too few for shares: take 30 or more." in said.out  # answerable ones
    table = evaluate(what, data, "--all").out.partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in table[1:]} == names
    written = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert list(written) == ["command", "data", "settings", "metrics", "rows"]
    assert (written["command"], written["data"], written["rows"]) == (what, "tiny", rows)
    assert list(written["metrics"]) == ["all", "en", "ru"]
    assert all(set(figures) == names for figures in written["metrics"].values())
    assert written["settings"] | {"bar": 0} == {
        "legs": "lexical", "rerank": "off", "plan": "on", "recipe": "direct", "rounds": 1, "model": None,
        "limit": None, "seed": None, "bar": 0, "distractors": [],
    }  # fmt: skip


def test_calibrating_keeps_a_bar_that_the_next_answers_use(evaluate, run_command, data):
    said = evaluate("calibrate", data, "--json", "out.json")
    assert said.code == 0
    assert "95 % interval" in said.out
    bar = json.loads(Path("data/calibration.json").read_text(encoding="utf-8"))["bar"]
    assert json.loads(Path("out.json").read_text())["metrics"]["all"]["bar"] == bar > 0
    assert f"bar for answers: {bar} (tiny)" in run_command("-v", "--data", "data", "doctor").out


def test_data_that_cannot_be_measured_is_one_sentence(evaluate, data):
    assert evaluate("answers", data / "none").is_one_sentence()
    assert evaluate("answers", data, "--distractors", data / "none.jsonl").is_one_sentence()
    talk = write_rows(data / "talk.jsonl", ())
    assert evaluate("talk", talk).err == "There is no row to measure: name a file with rows.\n"
    (data / "queries.jsonl").write_text("")
    assert evaluate("retrieval", data, "--json", "out.json").code == 0
    assert set(figures()["metrics"]["all"].values()) == {None}
    (data / "queries.jsonl").write_text('{"id": "q", "text": "Who?", "answerable": false}')
    assert evaluate("calibrate", data).is_one_sentence()
    assert not Path("data/calibration.json").exists()


@pytest.mark.parametrize("name", ["none/out.json", "."])
def test_a_place_that_cannot_be_written_is_said_before_anything_is_measured(evaluate, data, name):
    said = evaluate("answers", data, "--json", name)
    assert said.is_one_sentence()
    assert "--json" in said.err


TICKETS = (
    {"id": "a", "text": "A ferry ticket costs twelve euros.", "title": "Harbour"},
    {"id": "b", "text": "A ferry ticket for children costs five euros.", "title": "Harbour"},
)
TALK = (
    {"id": "t1", "text": "hello", "lang": "en"},
    {"id": "t2", "text": "привет", "lang": "en"},  # answered in another language than the row's
    {"id": "t3", "text": "how much is a ferry ticket", "lang": "en"},  # a question, and searched
    {"id": "q1", "text": "hi, how much is a ferry ticket?", "lang": "en", "search": True, "answers": ["twelve euros"]},
    {"id": "q2", "text": "thanks", "lang": "en", "search": True, "answers": ["twelve euros"]},
)
DIALOGUE = {
    "id": "d1", "lang": "en", "turns": ["How much is a ferry ticket?", "thanks", "and for children?"],
    "expect": "how much is a ferry ticket for children", "relevant": ["b"], "answers": ["five euros"], "corpus": "own",
}  # fmt: skip
LOST = {**DIALOGUE, "id": "d2", "turns": ["and for children?"], "relevant": [], "answers": ["seven"]}


def test_small_talk_is_handled_where_it_is_neither_searched_nor_refused(evaluate, tmp_path):
    write_rows(tmp_path / "talk.jsonl", TALK)
    write_rows(tmp_path / "corpus.jsonl", TICKETS)
    assert evaluate("talk", "talk.jsonl", "--json", "out.json").code == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["metrics"]["all"] == {"handled": 0.4, "talk_handled": 0.3333, "question_answered": 0.5}
    assert (found["rows"], found["failed"]) == (5, ["t2", "t3", "q2"])


def test_a_follow_up_is_understood_by_what_it_finds_or_says(evaluate, tmp_path):
    write_rows(tmp_path / "set" / "followups.jsonl", (DIALOGUE, LOST))
    write_rows(tmp_path / "set" / "own" / "corpus.jsonl", TICKETS)
    assert evaluate("followups", "set", "--json", "out.json").code == 0
    found = json.loads((tmp_path / "out.json").read_text())
    first, lost = found["judged"]
    assert first["reading"] == "How much is a ferry ticket (for children)?"
    assert (first["understood"], first["shown_right"], lost["understood"]) == (True, True, False)
    assert (found["metrics"]["all"]["understood"], found["metrics"]["all"]["shown_right"]) == (0.5, 0.5)


def test_the_figure_is_the_share_of_pairs_that_are_told_apart():
    assert compute_auc([3.0, 1.0, 2.0, 0.0], [True, True, False, False]) == 0.75
    assert compute_auc([1.0, 1.0], [True, False]) == 0.5
    assert compute_auc([1.0], [True]) is None
    rows = [JudgedSentence("en", True, 0.2, 2.0, 1.0), JudgedSentence("en", False, 0.9, -2.0, 3.0)]
    assert compute_judge_metrics(rows) == {"auc": 1.0, "confidence_auc": 0.0, "seconds": 2.0, "right": 0.5}


@pytest.mark.slow
def test_a_model_is_measured_over_a_question_set(evaluate, root, tmp_path, tiny_gguf, monkeypatch):
    monkeypatch.setenv("LLM__THREADS", "1")
    samples = shutil.copytree(root / "bot/sandbox/channels", tmp_path / "samples")
    shutil.copy(samples / "questions.jsonl", samples / "queries.jsonl")
    given = ("--model", tiny_gguf, "--limit", "8", "--seed", "3", "--json", "out.json")
    said = evaluate("judge", samples, *given)
    assert said.code == 0, said.err
    assert "sentences judged by" in said.out
    told = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert told["command"] == "judge" and told["rows"] == len(told["judged"]) > 0
    assert told["metrics"]["all"]["seconds"] > 0
