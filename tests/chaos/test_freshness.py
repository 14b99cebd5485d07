"""A new post and an edit are found soon: the short form of `freshness.py`."""

import pytest
from chaos.freshness import Load, is_fresh, measure_freshness

from rag_core.retrieval.fusion import DENSE, LEXICAL

pytestmark = pytest.mark.alone

ROUNDS = 3  # what else the machine does is not counted: one that is in time will do


@pytest.mark.timeout(300)
async def test_posts_and_edits_are_found_in_time_by_words_and_by_meaning(tmp_path, offline_models):
    for number in range(ROUNDS):
        load = Load(seconds=3, posts=17, edits=3, seed=number)
        metrics = await measure_freshness(load, tmp_path / str(number), offline_models.parent)
        assert not metrics["never_found"]
        assert metrics["questions"]["asked"] == metrics["questions"]["found"] > 0
        for leg in (LEXICAL, DENSE):
            assert metrics["legs"][leg]["post"]["number"] >= 40
            assert metrics["legs"][leg]["edit"]["number"] >= 4
            assert metrics["legs"][leg]["album"]["number"] >= 2
        if is_fresh(metrics):
            return
    raise AssertionError(metrics)
