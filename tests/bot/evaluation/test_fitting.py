"""A fusion of both searches that loses nothing is found for each language."""

from __future__ import annotations

from bot.evaluation.fitting import (
    Ranking,
    RetrieverRankings,
    choose_safest_fusions,
)
from rag_core.types import PassageRef, PostKey


def place(number: int) -> PassageRef:
    return PassageRef(PostKey(-1, number), 0, 0, 1)


NAMES = {place(n): str(n) for n in range(60)}


def legs(lang: str, right: int, lexical: list[int], dense: list[int]) -> RetrieverRankings:
    def ranked(numbers: list[int]) -> Ranking:
        return [(place(n), 1.0 - i / 50) for i, n in enumerate(numbers)]

    return RetrieverRankings(lang, frozenset({str(right)}), ranked(lexical), ranked(dense), NAMES)


def test_a_dense_leg_that_misleads_gets_no_weight() -> None:
    rows = [legs("ru", n, [n, 50, 51], [52, 53, 54]) for n in range(20)]
    assert choose_safest_fusions(rows)["ru"].dense == 0.0


def test_a_dense_leg_that_knows_better_gets_enough_to_put_it_first() -> None:
    rows = [legs("en", n, [50, n, 51], [n, 51, 52]) for n in range(20)]
    fusion = choose_safest_fusions(rows)["en"]
    order = fusion(rows[0].lexical, rows[0].dense, 50)
    assert order[0][0] == place(0)


def test_languages_are_judged_apart() -> None:
    rows = [legs("en", n, [50, n], [n, 51]) for n in range(10)]
    rows += [legs("ru", n, [n, 50], [51, 52]) for n in range(10)]
    found = choose_safest_fusions(rows)
    assert found["en"].dense > 0
    assert found["ru"].dense == 0
