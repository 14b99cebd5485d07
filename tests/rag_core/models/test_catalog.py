from __future__ import annotations

import re

import pytest

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import MODELS, HubSource, ModelRole, ModelTier, PackageSource, find_models

EVERY = [*MODELS, *(part for row in MODELS for part in row.parts)]


def test_every_model_has_a_name_of_its_own_that_can_be_a_folder() -> None:
    names = [row.name for row in EVERY]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)


def test_no_model_is_called_like_a_tier() -> None:
    assert not {row.name for row in MODELS} & {tier.value for tier in ModelTier}


def test_every_model_but_the_small_rerankers_knows_russian() -> None:
    # the offline reranker is made of the English half; questions in Russian keep the fused order
    assert [row.name for row in MODELS if "ru" not in row.languages] == ["minilm-maxsim", "msmarco-minilm-l6"]


def test_the_compact_reranker_comes_between_the_offline_one_and_the_multilingual_one() -> None:
    small = {row.role: row for row in find_models(ModelTier.SMALL)}
    assert set(small) == {ModelRole.RERANKER, ModelRole.WRITER}
    rerankers = [row for row in MODELS if row.role is ModelRole.RERANKER]
    assert rerankers.index(small[ModelRole.RERANKER]) == 1
    assert small[ModelRole.RERANKER].bytes < 30_000_000


@pytest.mark.parametrize("tier", [ModelTier.DEFAULT, ModelTier.QUALITY])
def test_a_hub_tier_has_one_model_for_each_role(tier: ModelTier) -> None:
    assert sorted(row.role for row in find_models(tier)) == sorted(ModelRole)


def test_licences_allow_any_use() -> None:
    # the one of 1.2B has conditions: it is in no tier with others, and the list of models shows its licence
    free = {"MIT", "Apache-2.0", "Apache-2.0, MIT"}
    assert {row.name for row in EVERY if row.licence not in free} == {"vikhr-llama-3.2-1b"}
    assert [row.name for row in find_models(ModelTier.COMPACT)] == ["vikhr-llama-3.2-1b"]


def test_rows_that_nobody_downloaded_do_not_claim_checksums() -> None:
    for row in EVERY:
        if isinstance(row.source, HubSource):
            assert not row.checked
            assert all(file.sha256 is None for file in row.source.files)
        elif isinstance(row.source, PackageSource):
            assert row.checked
            assert re.fullmatch("[0-9a-f]{64}", row.source.sha256)


def test_an_embedder_of_parts_is_as_wide_as_they_are_together() -> None:
    (row,) = find_models("minilm-navec")
    assert row.dimension == sum(part.dimension for part in row.parts) == 684
    assert row.languages == frozenset().union(*(part.languages for part in row.parts))
    assert row.bytes == sum(part.bytes for part in row.parts)


def test_the_weak_russian_leg_weighs_little_and_the_english_one_more() -> None:
    (row,) = find_models("minilm-navec")
    assert row.weight("ru") <= 0.3 < row.weight("en")
    assert row.weight("fi") == row.dense_weight


def test_a_name_nobody_knows_gets_one_sentence() -> None:
    with pytest.raises(ModelUnavailable, match=r"no model and no tier called 'e5'.*models list"):
        find_models("e5")
    assert find_models("none") == ()
