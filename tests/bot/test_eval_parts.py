"""The parts of the evaluation: ways, turns, tables, dateparser alone, and what a picture shows."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.evaluation.datasets import EvaluationQuery, draw_sample
from bot.evaluation.date_accuracy import read_with_dateparser
from bot.evaluation.index import RECIPES, VARIANTS, Variant, build_variant_settings
from bot.evaluation.runs import run_interleaved
from bot.evaluation.scoring import JudgedAnswer, RankedQuery
from bot.evaluation.tables import compute_ratios, format_comparison, format_table
from rag_core import Engine
from rag_core.errors import ModelUnavailable
from rag_core.planning.router import HYBRID
from rag_core.settings import RagSettings

# Ways.


@pytest.fixture
def rag(library: Any) -> Engine:
    """As if both models were open: a way only passes them on."""
    return replace(library.rag, dense=object(), reranker=object())


def test_a_way_uses_the_same_doors(rag: Engine) -> None:
    other = Variant(plan="off", legs="lexical", rerank="off", rounds=2).over(rag)
    assert (other.archive, other.lexical) == (rag.archive, rag.lexical)
    assert (other.dense, other.reranker, other.settings.retrieval.rounds) == (None, None, 2)
    assert rag.settings.retrieval.rounds == 1
    same = Variant().over(rag)
    assert (same.dense, same.reranker, same.settings) == (rag.dense, rag.reranker, rag.settings)


def test_without_a_plan_the_question_is_the_one_query_of_both_legs(library: Any, rag: Engine) -> None:
    question = library.question("When did Harbour News write about the ferry to Owl Island in March 2025?")
    with_plan, without = (Variant(plan=plan).over(rag).plan(question, {}) for plan in ("on", "off"))
    assert with_plan.since and len(with_plan.queries) > 2
    assert (without.queries, without.since, without.until, without.channels) == ((question.text,), None, None, None)
    assert without.legs == HYBRID


def test_meaning_alone_asks_no_further_queries(library: Any, rag: Engine) -> None:
    question = library.question("When did Harbour News write about the ferry to Owl Island in March 2025?")
    alone = Variant(legs="dense").over(rag)
    assert alone.settings.retrieval.dense == 1.0
    plan = alone.plan(question, {})
    assert (plan.queries, plan.legs) == (rag.plan(question, {}).queries[:1], HYBRID)
    assert plan.since  # the filters stay


@pytest.mark.parametrize("changed", [{"dense": None}, {"reranker": None}])
def test_a_way_that_needs_what_could_not_be_opened_is_refused(rag: Engine, changed: dict[str, None]) -> None:
    with pytest.raises(ModelUnavailable, match="models pull"):
        Variant(legs="hybrid", rerank="on").over(replace(rag, **changed))  # type: ignore[arg-type]


def test_every_name_changes_one_thing(rag: Engine) -> None:
    assert all(Variant().named(name).over(rag) for name in VARIANTS)
    assert set(RECIPES) <= set(VARIANTS)
    assert Variant(plan="off").named("lexical") == Variant(plan="off", legs="lexical")


def test_only_what_a_way_needs_is_opened() -> None:
    settings = RagSettings()
    opened = build_variant_settings(settings, [Variant(legs="lexical"), Variant(rerank="off", legs="lexical")])
    assert (opened.models.embedder, opened.models.reranker) == ("none", "auto")
    opened = build_variant_settings(settings, [Variant(legs="lexical"), Variant()])
    assert opened.models.embedder == "auto"


# Questions.


async def test_ways_take_turns_in_being_first() -> None:
    asked: list[tuple[str, Any]] = []
    queries = [EvaluationQuery(f"q{n}", "", "en", frozenset(), (), True, "", None) for n in range(6)]

    async def ask(query: EvaluationQuery, data: Any) -> str:
        asked.append((query.id, data))
        return f"{query.id} {data}"

    rows = await run_interleaved(queries, ask, {"a": "A", "b": "B", "c": "C"})  # type: ignore[dict-item]
    assert rows == {name: [f"q{n} {name.upper()}" for n in range(6)] for name in "abc"}
    assert [data for _, data in asked[::3]] == ["A", "B", "C", "A", "B", "C"]
    assert [query for query, _ in asked[::3]] == [f"q{n}" for n in range(6)]


def test_rows_are_the_first_or_those_that_a_seed_draws_in_their_order() -> None:
    rows = tuple(range(100))
    assert draw_sample(rows, None) == draw_sample(rows, None, 7) == rows
    assert draw_sample(rows, 3) == (0, 1, 2)
    chosen = draw_sample(rows, 10, 7)
    assert chosen == tuple(sorted(chosen)) == draw_sample(rows, 10, 7)
    assert len(set(chosen)) == 10
    assert chosen != draw_sample(rows, 10, 8)
    assert draw_sample(rows, 500, 7) == rows


# Tables.


def test_a_table_has_a_column_per_language() -> None:
    found = format_table(
        {"all": {"right": 0.5, "rows": 1234, "none": None}, "ru": {"right": 1.0, "rows": 3, "none": None}}
    )
    assert [line.split() for line in found.splitlines()] == [
        ["all", "ru"], ["right", "0.500", "1.000"], ["rows", "1234", "3"], ["none", "-", "-"],
    ]  # fmt: skip


def test_ways_stand_beside_each_other_with_the_ratio_of_their_times() -> None:
    found = {
        "slow-way": {"all": {"right": 0.5, "latency_ms_p50": 10.0, "latency_ms_p95": None}},
        "other": {"all": {"right": 1.0, "latency_ms_p50": 25.0, "latency_ms_p95": 2.0}},
    }
    assert compute_ratios(found) == {"other": {"all": {"latency_ms_p50": 2.5, "latency_ms_p95": None}}}
    assert [line.split() for line in format_comparison(found).splitlines()] == [
        ["all", "slow-way", "other", "/", "slow-way"], ["right", "0.500", "1.000"],
        ["latency_ms_p50", "10.000", "25.000", "×", "2.5"], ["latency_ms_p95", "-", "2.000"],
    ]  # fmt: skip


# dateparser alone.


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("вчера", date(2025, 3, 4), date(2025, 3, 5)),
        ("last month", date(2025, 2, 1), date(2025, 3, 1)),
        ("2 years ago", date(2023, 1, 1), date(2024, 1, 1)),
        ("март 2019", date(2019, 3, 1), date(2019, 4, 1)),
        ("что писали 5 мая 2024 года?", date(2024, 5, 5), date(2024, 5, 6)),  # found in a sentence
        ("31 декабря", date(2024, 12, 31), date(2025, 1, 1)),  # the past is preferred
        ("31.12.9999", date(9999, 12, 31), None),
    ],
)
def test_dateparser_is_asked_as_its_users_ask_it(text: str, since: date, until: date | None) -> None:
    found = read_with_dateparser(text, datetime(2025, 3, 5, 10, tzinfo=UTC))
    assert found and found.since
    assert (found.since.date(), found.until and found.until.date()) == (since, until)


@pytest.mark.parametrize("text", ["", "ferry", "паром"])
def test_dateparser_finds_nothing_where_there_is_nothing(text: str) -> None:
    assert read_with_dateparser(text, datetime(2025, 3, 5, tzinfo=UTC)) is None


# What a picture shows.

BLUE, LIGHT, GREY, RED = "0b6bcb", "7db3e8", "d5dae3", "d1495b"


def picture(file: Path) -> Any:
    """The pixels of a PNG as rows of 0xRRGGBB."""
    image = pytest.importorskip("matplotlib.image")
    pixels = (image.imread(file)[..., :3] * 255).round().astype(int)
    return pixels[..., 0] * 65536 + pixels[..., 1] * 256 + pixels[..., 2]


def widths(pixels: Any) -> list[dict[str, float]]:
    """The shares of the colours in each bar: of the rows of pixels that hold most of them."""
    shares = []
    for row in pixels:
        counts = {name: int((row == int(name, 16)).sum()) for name in (BLUE, LIGHT, GREY, RED)}
        if sum(counts.values()) > 300:
            shares.append({name: count / sum(counts.values()) for name, count in counts.items()})
    return shares


def judged(n: int, lang: str = "en", **fields: bool) -> list[JudgedAnswer]:
    values = {"answerable": True, "refused": False, "first_right": False, "shown_right": False} | fields
    return [
        JudgedAnswer(lang, "g", **values, cited_right=(), covered_sentences=(), length=1, took_ms=1.0, confidence=0.5)
    ] * n


def test_bars_are_as_long_as_what_became_of_the_questions(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import PlotCaption, draw_outcomes

    rows = judged(50, first_right=True, shown_right=True) + judged(20, shown_right=True)
    rows += judged(20, refused=True) + judged(10)
    draw_outcomes({"": rows}, PlotCaption("Ten, $20_% and so on", "a line"), tmp_path / "out.png")
    bar = widths(picture(tmp_path / "out.png"))
    middle = bar[len(bar) // 5]  # above the figures that stand in the bar
    assert middle == pytest.approx({BLUE: 0.5, LIGHT: 0.2, GREY: 0.2, RED: 0.1}, abs=0.01)


def test_answering_what_the_posts_do_not_say_is_red(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import PlotCaption, draw_outcomes

    rows = judged(30, answerable=False, refused=True) + judged(10, answerable=False)
    draw_outcomes({"": rows}, PlotCaption("t", "s"), tmp_path / "out.png")
    bar = widths(picture(tmp_path / "out.png"))
    assert bar[len(bar) // 5] == pytest.approx({BLUE: 0.75, LIGHT: 0, GREY: 0, RED: 0.25}, abs=0.01)


def test_the_line_that_finds_more_is_higher_and_each_language_has_a_panel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import PlotCaption, draw_recall

    def ranked(place: int, lang: str) -> list[RankedQuery]:
        return [RankedQuery(lang, (*(False,) * place, True), 1, 1.0)] * 5 + [RankedQuery(lang, (True,), 1, 1.0)] * 5

    found = {"a": ranked(0, "en"), "b": ranked(6, "en")}
    draw_recall(found, PlotCaption("t", "s"), tmp_path / "one.png")
    pixels = picture(tmp_path / "one.png")
    top = pixels[: int(len(pixels) * 0.7)]
    blue, red = ((top == int(colour, 16)).nonzero()[0] for colour in (BLUE, RED))
    assert blue.mean() < red.mean()
    assert len(blue) and len(red)
    both = {name: [*rows, *[replace(row, lang="ru") for row in rows]] for name, rows in found.items()}
    draw_recall(both, PlotCaption("t", "s"), tmp_path / "two.png")
    assert picture(tmp_path / "two.png").shape[1] > 1.5 * pixels.shape[1]


def test_matplotlib_is_known_to_one_file_and_loaded_only_where_something_is_drawn(root: Path) -> None:
    for file in (root / "bot").rglob("*.py"):
        at_start = {
            node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert "bot.evaluation.plots" not in at_start, file
        assert file.name == "plots.py" or not any(name.startswith("matplotlib") for name in at_start), file
