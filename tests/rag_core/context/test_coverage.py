from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_core.calibration import Calibration, CoverageFeatures
from rag_core.context.coverage import measure_coverage
from rag_core.context.evidence import compose_evidence
from rag_core.planning.rule_planner import plan_by_rules
from rag_core.retrieval.search import search_passages
from rag_core.stage_runner import Run
from rag_core.text.query_terms import QueryTerms
from rag_core.types import Certainty
from rag_core.writing.extract import select_best_pieces


async def measured(library: Any, text: str, *see: int, foreign: bool = False) -> CoverageFeatures:
    question = library.question(text, see=see) if see else library.question(text)
    run = Run(library.rag.settings.budgets, "direct")
    evidence = compose_evidence(await search_passages(plan_by_rules(question), question, library.rag, run))
    statistics = library.rag.lexical.statistics(question.viewer.channels)
    asked = QueryTerms.of(text, statistics.weight)
    pieces = select_best_pieces(asked, evidence, 1, 0)
    return measure_coverage(asked, pieces[0] if pieces else None, statistics, foreign=foreign)


async def test_nothing_found_is_no_coverage(library: Any) -> None:
    assert await measured(library, "Кто мэр Парижа?") == CoverageFeatures()
    assert CoverageFeatures().likely < 0.001


async def test_a_question_whose_words_are_all_there_is_covered(library: Any) -> None:
    found = await measured(library, "When does the ferry to Owl Island leave?")
    assert (found.names, found.count, found.kin, found.known) == (1, 1, 0, pytest.approx(1))
    assert found.likely > 0.9


async def test_what_no_post_says_takes_coverage_away(library: Any) -> None:
    whole = await measured(library, "When does the ferry to Owl Island leave?")
    part = await measured(library, "When does the ferry to Bear Mountain leave?")
    assert part.likely < 0.5 < whole.likely
    assert part.names == 0
    assert part.partial
    assert not whole.partial


async def test_a_word_that_no_post_has_makes_the_match_partial(library: Any) -> None:
    assert (await measured(library, "When does the ferry to Owl Island hibernate?")).partial


async def test_the_words_of_posts_that_the_asker_may_not_read_are_unknown(library: Any, make_post: Any) -> None:
    await library.keep(make_post(1, "The trophy hides under the staircase.", chat=library.safe))
    asked = "Which ferry has a staircase?"
    closed, opened = await measured(library, asked), await measured(library, asked, library.harbour, library.safe)
    assert closed.known < opened.known


@pytest.mark.parametrize("posts", [1, 2, 3])
async def test_an_archive_of_a_few_posts_covers_as_a_large_one_does(
    empty_library: Any, make_post: Any, posts: int
) -> None:
    texts = "The ferry leaves at seven.", "Mackerel is sold on Fridays.", "The museum is open."
    await empty_library.keep(*(make_post(n, texts[n], chat=empty_library.harbour) for n in range(posts)))
    found = await measured(empty_library, "When does the ferry leave?")
    assert found.strength > 0.5
    assert found.likely > 0.5


def test_coverage_is_a_share_whatever_the_features() -> None:
    assert 0 <= CoverageFeatures(strength=-1e9).likely < 0.001
    assert 0.999 < CoverageFeatures(strength=1e9).likely <= 1


def test_a_written_out_question_that_lacks_most_of_its_terms_gets_no_lower_threshold() -> None:
    brief = CoverageFeatures(length=1.3, count=0.4, known=1.0, names=0.5, words=4)
    assert brief.lenient
    assert not replace(brief, words=10).lenient
    assert replace(brief, words=10, count=0.7).lenient


def test_a_question_whose_telling_words_no_post_has_gets_no_lower_threshold() -> None:
    assert not CoverageFeatures(length=1.3, count=0.7, known=0.4, names=0.5, words=4).lenient


async def test_a_name_is_not_met_by_a_common_word_of_the_same_stem(library: Any, make_post: Any) -> None:
    await library.keep(make_post(901, "Сначала пекарня, с 1 марта и бассейн работают до девяти.", chat=library.kiln))
    assert (await measured(library, "Где стоит Марта?")).names == 0
    await library.keep(make_post(902, "У плиты стоит Марта.", chat=library.kiln))
    assert (await measured(library, "Где стоит Марта?")).names == 1


async def test_of_many_terms_some_are_met_by_translations_by_chance(library: Any, make_post: Any) -> None:
    await library.keep(make_post(904, "Школа и вокзал стоят у реки.", chat=library.kiln))
    asked = "which old school teachers near the river station sang folk songs during winter holidays"
    assert not (await measured(library, asked, foreign=True)).translated


def test_a_post_of_the_other_language_has_a_lower_bar_where_the_posts_lack_the_words_of_the_question() -> None:
    unheard = CoverageFeatures(length=1.3, count=0.5, heard=0.3, names=0.5, translated=True)
    assert unheard.lenient
    assert not replace(unheard, heard=0.9).lenient
    assert not replace(unheard, names=0.0).lenient
    assert not replace(unheard, held=0.0).lenient
    graded = [
        Calibration().grade(0.5, brief=True, lenient=one.lenient, foreign=True)
        for one in (unheard, replace(unheard, heard=0.9))
    ]
    assert graded == [Certainty.PROBABLE, Certainty.NONE]
