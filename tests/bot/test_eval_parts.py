"""The parts of the evaluation: ways, turns, tables, dateparser alone, and what a picture shows."""

from __future__ import annotations

import ast
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.evaluation.datasets import Query, drawn
from bot.evaluation.peers import dateparser_alone
from bot.evaluation.report import beside, ratios, table
from bot.evaluation.runs import in_turn
from bot.evaluation.scoring import Judged, Ranked
from bot.evaluation.ways import RECIPES, WAYS, Way, opening
from rag_core import Rag
from rag_core.errors import ModelUnavailable
from rag_core.route import HYBRID
from rag_core.settings import RagSettings

# Ways.


@pytest.fixture
def rag(library: Any) -> Rag:
    """As if both models were open: a way only passes them on."""
    return replace(library.rag, dense=object(), reranker=object())


def test_a_way_uses_the_same_doors(rag: Rag) -> None:
    other = Way(plan="off", legs="lexical", rerank="off", rounds=2).over(rag)
    assert (other.archive, other.lexical) == (rag.archive, rag.lexical)
    assert (other.dense, other.reranker, other.settings.retrieval.rounds) == (None, None, 2)
    assert rag.settings.retrieval.rounds == 1
    same = Way().over(rag)
    assert (same.dense, same.reranker, same.settings) == (rag.dense, rag.reranker, rag.settings)


def test_without_a_plan_the_question_is_the_one_query_of_both_legs(library: Any, rag: Rag) -> None:
    question = library.question("When did Harbour News write about the ferry to Owl Island in March 2025?")
    with_plan, without = (Way(plan=plan).over(rag).plan(question, {}) for plan in ("on", "off"))
    assert with_plan.since and len(with_plan.queries) > 2
    assert (without.queries, without.since, without.until, without.channels) == ((question.text,), None, None, None)
    assert without.legs == HYBRID


def test_meaning_alone_asks_no_further_queries(library: Any, rag: Rag) -> None:
    question = library.question("When did Harbour News write about the ferry to Owl Island in March 2025?")
    alone = Way(legs="dense").over(rag)
    assert alone.settings.retrieval.dense == 1.0
    plan = alone.plan(question, {})
    assert (plan.queries, plan.legs) == (rag.plan(question, {}).queries[:1], HYBRID)
    assert plan.since  # the filters stay


@pytest.mark.parametrize("changed", [{"dense": None}, {"reranker": None}])
def test_a_way_that_needs_what_could_not_be_opened_is_refused(rag: Rag, changed: dict[str, None]) -> None:
    with pytest.raises(ModelUnavailable, match="models pull"):
        Way(legs="hybrid", rerank="on").over(replace(rag, **changed))  # type: ignore[arg-type]


def test_every_name_changes_one_thing(rag: Rag) -> None:
    assert all(Way().named(name).over(rag) for name in WAYS)
    assert set(RECIPES) <= set(WAYS)
    assert Way(plan="off").named("lexical") == Way(plan="off", legs="lexical")


def test_only_what_a_way_needs_is_opened() -> None:
    settings = RagSettings()
    opened = opening(settings, [Way(legs="lexical"), Way(rerank="off", legs="lexical")])
    assert (opened.models.embedder, opened.models.reranker) == ("none", "auto")
    opened = opening(settings, [Way(legs="lexical"), Way()])
    assert opened.models.embedder == "auto"


# Questions.


async def test_ways_take_turns_in_being_first() -> None:
    asked: list[tuple[str, Any]] = []
    queries = [Query(f"q{n}", "", "en", frozenset(), (), True, "", None) for n in range(6)]

    async def ask(query: Query, data: Any) -> str:
        asked.append((query.id, data))
        return f"{query.id} {data}"

    rows = await in_turn(queries, ask, {"a": "A", "b": "B", "c": "C"})  # type: ignore[dict-item]
    assert rows == {name: [f"q{n} {name.upper()}" for n in range(6)] for name in "abc"}
    assert [data for _, data in asked[::3]] == ["A", "B", "C", "A", "B", "C"]
    assert [query for query, _ in asked[::3]] == [f"q{n}" for n in range(6)]


def test_rows_are_the_first_or_those_that_a_seed_draws_in_their_order() -> None:
    rows = tuple(range(100))
    assert drawn(rows, None) == drawn(rows, None, 7) == rows
    assert drawn(rows, 3) == (0, 1, 2)
    chosen = drawn(rows, 10, 7)
    assert chosen == tuple(sorted(chosen)) == drawn(rows, 10, 7)
    assert len(set(chosen)) == 10
    assert chosen != drawn(rows, 10, 8)
    assert drawn(rows, 500, 7) == rows


# Tables.


def test_a_table_has_a_column_per_language() -> None:
    found = table({"all": {"right": 0.5, "rows": 1234, "none": None}, "ru": {"right": 1.0, "rows": 3, "none": None}})
    assert [line.split() for line in found.splitlines()] == [
        ["all", "ru"], ["right", "0.500", "1.000"], ["rows", "1234", "3"], ["none", "-", "-"],
    ]  # fmt: skip


def test_ways_stand_beside_each_other_with_the_ratio_of_their_times() -> None:
    found = {
        "slow-way": {"all": {"right": 0.5, "latency_ms_p50": 10.0, "latency_ms_p95": None}},
        "other": {"all": {"right": 1.0, "latency_ms_p50": 25.0, "latency_ms_p95": 2.0}},
    }
    assert ratios(found) == {"other": {"all": {"latency_ms_p50": 2.5, "latency_ms_p95": None}}}
    assert [line.split() for line in beside(found).splitlines()] == [
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
    found = dateparser_alone(text, datetime(2025, 3, 5, 10, tzinfo=UTC))
    assert found and found.since
    assert (found.since.date(), found.until and found.until.date()) == (since, until)


@pytest.mark.parametrize("text", ["", "ferry", "паром"])
def test_dateparser_finds_nothing_where_there_is_nothing(text: str) -> None:
    assert dateparser_alone(text, datetime(2025, 3, 5, tzinfo=UTC)) is None


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


def judged(n: int, lang: str = "en", **fields: bool) -> list[Judged]:
    values = {"answerable": True, "refused": False, "first_right": False, "shown_right": False} | fields
    return [
        Judged(lang, "g", **values, cited_right=(), covered_sentences=(), length=1, took_ms=1.0, confidence=0.5)
    ] * n


def test_bars_are_as_long_as_what_became_of_the_questions(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import Caption, draw_outcomes

    rows = judged(50, first_right=True, shown_right=True) + judged(20, shown_right=True)
    rows += judged(20, refused=True) + judged(10)
    draw_outcomes({"": rows}, Caption("Ten, $20_% and so on", "a line"), tmp_path / "out.png")
    bar = widths(picture(tmp_path / "out.png"))
    middle = bar[len(bar) // 5]  # above the figures that stand in the bar
    assert middle == pytest.approx({BLUE: 0.5, LIGHT: 0.2, GREY: 0.2, RED: 0.1}, abs=0.01)


def test_answering_what_the_posts_do_not_say_is_red(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import Caption, draw_outcomes

    rows = judged(30, answerable=False, refused=True) + judged(10, answerable=False)
    draw_outcomes({"": rows}, Caption("t", "s"), tmp_path / "out.png")
    bar = widths(picture(tmp_path / "out.png"))
    assert bar[len(bar) // 5] == pytest.approx({BLUE: 0.75, LIGHT: 0, GREY: 0, RED: 0.25}, abs=0.01)


def test_the_line_that_finds_more_is_higher_and_each_language_has_a_panel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bot.evaluation.plots import Caption, draw_recall

    def ranked(place: int, lang: str) -> list[Ranked]:
        return [Ranked(lang, (*(False,) * place, True), 1, 1.0)] * 5 + [Ranked(lang, (True,), 1, 1.0)] * 5

    found = {"a": ranked(0, "en"), "b": ranked(6, "en")}
    draw_recall(found, Caption("t", "s"), tmp_path / "one.png")
    pixels = picture(tmp_path / "one.png")
    top = pixels[: int(len(pixels) * 0.7)]
    blue, red = ((top == int(colour, 16)).nonzero()[0] for colour in (BLUE, RED))
    assert blue.mean() < red.mean()
    assert len(blue) and len(red)
    both = {name: [*rows, *[replace(row, lang="ru") for row in rows]] for name, rows in found.items()}
    draw_recall(both, Caption("t", "s"), tmp_path / "two.png")
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
