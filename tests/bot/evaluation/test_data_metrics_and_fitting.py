import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from math import log2
from pathlib import Path

import pytest
from driver import write_rows

from bot.evaluation.data import EvaluationQuery, open_indexed_dataset, read_dataset
from bot.evaluation.judging import holds_answer
from bot.evaluation.measures import answer_query, run_interleaved, search_query
from bot.evaluation.metrics import (
    JudgedAnswer,
    RankedQuery,
    RetrieverRankings,
    choose_safest_fusions,
    compute_answer_metrics,
    compute_by_language,
    compute_metrics_by_kind,
    compute_retrieval_metrics,
    fit_calibration,
    judge_answer,
)
from rag_core.settings import RagSettings
from rag_core.types import Answer, Certainty, Citation, PassageRef, PostKey, Sentence

DAY = datetime(2025, 3, 1, tzinfo=UTC)
CORPUS = [
    {"id": "d1", "text": "The ferry to Owl Island leaves at 7:30 from pier four.", "title": "Harbour",
     "date": "2025-03-01"},
    {"id": "d2", "text": "Fresh mackerel is sold on the quay on Fridays.", "title": "Harbour",
     "date": "2025-03-02T10:00:00"},
    {"id": "d3", "text": "Абонемент в мастерскую стоит 2 750 рублей в месяц.", "channel": "Печь", "lang": "ru"},
]  # fmt: skip
QUERIES = [
    {"id": "q1", "text": "When does the ferry to Owl Island leave?", "lang": "en", "relevant": ["d1"],
     "answers": ["7:30"]},
    {"id": "q2", "text": "Сколько стоит абонемент в мастерскую?", "lang": "ru", "relevant": ["d3"],
     "answers": ["2750"]},
    {"id": "q3", "text": "Who is the mayor of Paris?", "lang": "en", "relevant": [], "answerable": False},
]  # fmt: skip
DATA = Path(__file__).parents[2] / "data" / "evaluation"


async def search_all(data):
    return [await search_query(query, data) for query in data.dataset.queries if query.relevant]


@pytest.fixture
def written(tmp_path):
    def write(name="data", **files):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for stem, rows in files.items():
            if isinstance(rows, str):
                (folder / f"{stem}.jsonl").write_text(rows, encoding="utf-8")
            else:
                write_rows(folder / f"{stem}.jsonl", rows)
        return folder

    return write


@pytest.fixture
def settings(tmp_path):
    return RagSettings.model_validate({"data": {"dir": tmp_path / "installation"}})


# What is read.


def test_documents_become_posts_of_one_channel_per_source(written):
    dataset = read_dataset(written(corpus=CORPUS, queries=QUERIES))
    made = [(channel.title, [(post.text, post.date) for post in posts]) for channel, posts in dataset.posts()]
    assert [title for title, _ in made] == ["Harbour", "Печь"]
    assert [date for _, date in made[0][1]] == [DAY, datetime(2025, 3, 2, 10, tzinfo=UTC)]
    assert sorted(dataset.ids.values()) == ["d1", "d2", "d3"]
    assert dataset.name == "data"


def test_questions_are_read_with_what_is_left_out(written):
    rows = [
        {"id": 7, "text": "Где паром?", "relevant": "d1", "answers": "у причала", "asked_at": "2025-03-01"},
        {"id": "b", "text": "x", "lang": "en", "group": "g", "answerable": False, "answers": None},
    ]
    first, second = read_dataset(written(corpus=CORPUS, questions=rows)).queries
    assert first == EvaluationQuery("7", "Где паром?", "ru", frozenset({"d1"}), ("у причала",), True, "7", DAY)
    assert (second.group, second.answerable, second.answers, second.asked_at) == ("g", False, (), None)


def test_distractors_are_added_and_a_limit_counts_questions(written, tmp_path):
    more = tmp_path / "more.jsonl.gz"
    more.write_bytes(gzip.compress(b'{"id": "x1", "text": "noise"}\n\n{"id": "x2", "text": "noise"}\n', mtime=0))
    dataset = read_dataset(written(corpus=CORPUS, queries=QUERIES), [more], 2)
    assert len(dataset.documents) == 5
    assert len(dataset.queries) == 2


# What counts as right.


def test_what_an_answer_holds():
    """Whole words, in any case; a date in any of its usual formats."""
    for row in map(json.loads, (DATA / "holds_answer.jsonl").read_text("utf-8").splitlines()):
        assert holds_answer(row["text"], row["answers"]) is row["right"], row


def reply(*texts, posts=(1,)):
    cited = tuple(Citation(PostKey(-1, n), "x", 0, 1, DAY) for n in posts)
    return Answer(tuple(Sentence(text, cited) for text in texts), 0.9, "direct")


@pytest.mark.parametrize(
    ("texts", "first", "shown"),
    [
        (("It is 7:30.", "Fish."), True, True),
        (("Fish.", "It is 7:30."), False, True),
        (("Fish.",), False, False),
        ((), False, False),
        (("7:30 " + "x" * 295,), True, True),  # 300 characters
        (("7:30 " + "x" * 296,), False, False),
        (("7:30 " + "x" * 295, "y" * 300), True, True),  # 600 together
        (("7:30 " + "x" * 295, "y" * 300, "z"), False, False),
        (("7:30", "y" * 301), False, False),
    ],
)
def test_a_long_answer_is_no_answer(texts, first, shown):
    query = EvaluationQuery("q", "When?", "en", frozenset({"d1"}), ("7:30",), True, "q", None)
    row = judge_answer(query, reply(*texts), ["d1"], 1.0)
    assert (row.first_right, row.shown_right) == (first, shown)
    lines = reply("7:30 " + "x" * 200 + "\n" + "y" * 300, "z" * 300)  # a list may be long, in short lines
    assert [judge_answer(replace(query, kind=kind), lines, [], 1.0).shown_right for kind in ("list", "price")] == [
        True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "stale"),
    [(("It costs 160.", "Now 185."), True), (("185, it was 160.",), False), (("Bread.", "160."), False), ((), False)],
)
def test_an_old_value_shown_first_is_counted(texts, stale):
    query = EvaluationQuery("q", "Price?", "en", frozenset(), ("185",), True, "q", None, "price", ("160",), typo=True)
    judged = judge_answer(query, replace(reply(*texts), recipe="agent"), [], 1.0)
    found = compute_metrics_by_kind([judged])
    assert judged.stale_first is stale
    assert [(kind, figures["rows"], figures["stale_first"], figures["agent"]) for kind, figures in found.items()] == [
        ("price", 1, float(stale), 1.0),
        ("typo", 1, float(stale), 1.0),
    ]


def row(**changed):
    values = {
        "lang": "en", "group": "g", "answerable": True, "refused": False, "first_right": True, "shown_right": True,
        "cited_right": (True,), "covered_sentences": (True,), "took_ms": 10.0, "confidence": 0.9,
    }  # fmt: skip
    return JudgedAnswer(**values | changed)


def test_the_figures_of_answers():
    nothing = {"refused": True, "first_right": False, "shown_right": False, "cited_right": (), "covered_sentences": ()}
    rows = [
        row(took_ms=10.0, cited_right=(True, False)),
        row(took_ms=20.0, first_right=False, cited_right=(False, True), covered_sentences=(True, False)),
        row(took_ms=30.0, first_right=False, shown_right=False, cited_right=(False,)),
        row(took_ms=40.0, **nothing),
        row(answerable=False, **nothing, took_ms=50.0),
        row(answerable=False, first_right=False, shown_right=False, took_ms=60.0, certainty=Certainty.PROBABLE),
    ]
    assert compute_answer_metrics(rows) == {
        # two right, one only wrong, one refused; of the unanswerable one rightly refused and one answered
        "truthfulness": 0.1667, "truthfulness_error": 0.7182,
        "supported": None, "fell_back": 0.0, "agent": 0.0,
        "first_right": 0.25, "shown_right": 0.5, "wrong": 0.25, "abstained": 0.25, "refused": 0.5,
        "sure_share": 0.75, "sure_right": 0.5, "sure_wrong": 0.3333, "probable_right": 0.0,
        "unanswerable_sure": 0.0, "unanswerable_probable": 0.5, "stale_first": None,
        "first_citation_right": 0.3333, "citation_precision": 0.4, "citation_coverage": 0.8,
        "latency_ms_p50": 35.0, "latency_ms_p95": 57.5, "calls": 0.0, "tokens": 0.0,
        "by_model": 0.0, "first_sentence_ms_p50": None, "queries": None,
    }  # fmt: skip


def test_the_figures_of_retrieval():
    rows = [
        RankedQuery("en", (True, False, False), 1, 1.0),
        RankedQuery("en", (False, True, True), 2, 2.0, queries=3),
        RankedQuery("ru", (False,) * 10 + (True,), 1, 3.0, across=True),
        RankedQuery("ru", (), 1, 4.0),
    ]
    second = (1 / log2(3) + 1 / log2(4)) / (1 / log2(2) + 1 / log2(3))
    assert compute_retrieval_metrics(rows) == {
        "recall@1": 0.25, "recall@5": 0.5, "recall@20": 0.75, "across_recall@5": 0.0, "across_recall@20": 1.0,
        "all_relevant@20": 0.75, "mrr@10": 0.375, "ndcg@10": round((1 + second) / 4, 4), "latency_ms_p50": 2.5,
        "latency_ms_p95": 3.85, "queries": 0.75,
    }  # fmt: skip


def test_figures_stand_for_all_and_for_each_language_and_nothing_is_no_figure():
    rows = [RankedQuery("en", (True,), 1, 1.0), RankedQuery("ru", (False,), 1, 1.0)]
    found = compute_by_language(rows, compute_retrieval_metrics)
    assert {lang: figures["recall@1"] for lang, figures in found.items()} == {"all": 0.5, "en": 1.0, "ru": 0.0}
    assert set(compute_answer_metrics([]).values()) - {0.0} <= {None}
    assert compute_by_language([], compute_retrieval_metrics)["all"]["mrr@10"] is None


# The bar.


def test_the_bar_refuses_at_most_the_target_of_each_language():
    rows = [row(confidence=n / 100, group=f"g{n % 10}") for n in range(1, 101)]
    rows += [row(confidence=n / 200, group=f"g{n % 10}", lang="ru") for n in range(1, 101)]
    rows += [row(confidence=0.02, answerable=False, group=f"g{n % 10}") for n in range(10)]
    fitted = fit_calibration(rows, "by hand")
    assert fitted.calibration.bar == 0.035  # the seventh of a hundred Russian questions: six are below
    assert (fitted.calibration.data, fitted.refused[0]) == ("by hand", 1.0)
    share, low, high = fitted.abstained
    assert low < share < high
    assert share <= 0.07


def test_questions_about_one_document_are_never_on_both_sides_of_a_fold():
    """One document's questions are hopeless: fitted without it, the bar refuses them all."""
    rows = [row(confidence=0.9, group=f"g{n}") for n in range(40)]
    rows += [row(confidence=0.1, group="hopeless") for _ in range(10)]
    fitted = fit_calibration(rows, "by hand")
    assert fitted.calibration.bar == 0.1
    assert fitted.abstained[0] == 0.2


def test_the_interval_is_wilson_s():
    rows = [row(confidence=0.9, group=f"g{n}") for n in range(100)]
    rows += [row(confidence=0.1 if n < 5 else 0.95, answerable=False, group=f"u{n}") for n in range(10)]
    assert fit_calibration(rows, "").refused == (0.5, 0.2366, 0.7634)


# The fusion of both legs.

NAMES = {PassageRef(PostKey(-1, n), 0, 0, 1): str(n) for n in range(60)}


def legs(lang, right, *rankings):
    lexical, dense = ([(list(NAMES)[n], 1.0 - i / 50) for i, n in enumerate(ranking)] for ranking in rankings)
    return RetrieverRankings(lang, frozenset({str(right)}), lexical, dense, NAMES)


def test_a_leg_by_meaning_gets_weight_only_in_a_language_where_it_knows_better():
    rows = [legs("en", n, [50, n, 51], [n, 51, 52]) for n in range(20)]
    rows += [legs("ru", n, [n, 50, 51], [52, 53, 54]) for n in range(20)]
    found = choose_safest_fusions(rows)
    assert found["ru"].dense == 0.0
    assert found["en"](rows[0].lexical, rows[0].dense, 50)[0][0] == next(iter(NAMES))


# All of it, over a real archive and index.


async def test_every_question_is_asked_as_by_the_bot_and_the_figures_are_the_same_again(written, settings):
    found = []
    for _ in range(2):
        dataset = read_dataset(written(corpus=CORPUS, queries=QUERIES))
        async with open_indexed_dataset(dataset, settings) as data:
            ranked = await search_all(data)
            given = (await run_interleaved(dataset.queries, answer_query, {"": data}))[""]
            english = next(query for query in dataset.queries if query.lang == "en")
            across = await search_query(replace(english, relevant=frozenset({"d3"})), data)
        metrics = compute_answer_metrics(given) | compute_retrieval_metrics(ranked)
        found.append({k: v for k, v in metrics.items() if not k.startswith("latency")})
    assert found[0] == found[1]
    assert [(r.hits[0], r.relevant) for r in ranked] == [(True, 1), (True, 1)]
    assert [r.across for r in (*ranked, across)] == [False, False, True]
    assert {name: metrics[name] for name in ("first_right", "abstained", "refused", "citation_precision")} == {
        "first_right": 1.0, "abstained": 0.0, "refused": 1.0, "citation_precision": 1.0,
    }  # fmt: skip
    assert not settings.data.dir.exists()  # what is measured leaves the installation alone
