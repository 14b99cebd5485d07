"""What verification without a model is worth: edits that must be caught, paraphrases that must not be, and pairs."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from edited_posts import read_edits
from sample_sizes import choose_size

from bot.evaluation.data import read_claims
from bot.evaluation.measures import compute_label_metrics, judge_claim_pairs
from rag_core.types import Passage, PostKey
from rag_core.verification import Claim, Label
from rag_core.verification.stance import assess_by_words

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1]
STEP = choose_size(1, 2)  # every so many of the pairs


def assess(claim, text, lang):
    passage = Passage(PostKey(1, 1), 0, "", text, 0, len(text), datetime(2025, 3, 4, tzinfo=UTC))
    return assess_by_words(Claim(claim, lang), [passage])[0].label


@pytest.fixture(scope="module")
def edits(shared_data):
    return read_edits("minimal_edits/edits.jsonl", shared_data, choose_size("full", "brief"))


def test_of_posts_with_one_detail_changed_nineteen_in_twenty_are_caught(edits):
    assert len(edits) >= choose_size(400, 150)
    missed = [edit for edit in edits if assess(edit.after, edit.post, edit.lang) is Label.SUPPORTED]
    assert len(missed) <= 0.05 * len(edits), [(edit.kind, edit.after) for edit in missed]


def test_of_the_same_posts_as_they_are_nearly_all_are_supported(edits):
    said = [assess(edit.before, edit.post, edit.lang) for edit in edits[::4]]
    assert sum(label is not Label.SUPPORTED for label in said) <= 0.02 * len(said)


def test_of_true_paraphrases_at_most_one_in_ten_is_called_contradicted():
    rows = [json.loads(line) for line in (HERE / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert min(Counter(row["lang"] for row in rows).values()) >= 100
    assert len({row["claim"] for row in rows}) == len(rows)
    assert not any(row["claim"] in row["evidence"] for row in rows)
    wrong = [row for row in rows if assess(row["claim"], row["evidence"], row["lang"]) is Label.CONTRADICTED]
    assert len(wrong) <= 0.1 * len(rows)


@pytest.mark.parametrize(("name", "least"), [("terra_ru_nli", 0.55), ("fever_symmetric", 0.63)])
def test_pairs_are_told_apart_better_than_by_their_words_alone(shared_data, name, least):
    told = judge_claim_pairs(read_claims(shared_data / name)[::STEP])
    every, words = compute_label_metrics(told, "all"), compute_label_metrics(told, "coverage")
    assert every["balanced_accuracy"] is not None
    assert words["balanced_accuracy"] is not None
    assert every["balanced_accuracy"] >= least
    assert every["balanced_accuracy"] > words["balanced_accuracy"]
