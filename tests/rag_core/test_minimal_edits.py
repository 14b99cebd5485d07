from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from minimal_edits import KINDS, Edit, figures, folded, minimal_edits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def edits(shared_data: Path) -> list[Edit]:
    return minimal_edits(shared_data)


def test_there_are_four_hundred_of_every_kind_in_both_languages(edits: list[Edit]) -> None:
    counted = Counter((edit.lang, edit.kind) for edit in edits)
    assert len(edits) >= 400
    assert all(counted[lang, kind] >= 45 for lang in ("ru", "en") for kind in KINDS), counted
    assert len({(edit.claim, edit.evidence) for edit in edits}) == len(edits)


def test_the_post_says_the_original_and_one_thing_is_changed(edits: list[Edit]) -> None:
    for edit in edits:
        assert edit.original in edit.evidence
        assert edit.claim != edit.original
        blocks = SequenceMatcher(None, edit.original, edit.claim, autojunk=False).get_opcodes()
        changed = [(a, b) for tag, a, b, _, _ in blocks if tag != "equal"]
        assert changed[-1][1] - changed[0][0] <= max(len(edit.old), len(edit.new)), edit
        at = next(m.start() for m in re.finditer(re.escape(edit.old), edit.original)
                  if edit.original[: m.start()] + edit.new + edit.original[m.end() :] == edit.claim)  # fmt: skip
        assert at >= 0


def test_the_new_value_stands_nowhere_in_the_post(edits: list[Edit]) -> None:
    for edit in edits:
        if edit.kind == "negation":
            continue
        if edit.new.isdigit():
            assert edit.new not in figures(edit.evidence), edit
        assert not re.search(rf"(?<!\w){re.escape(folded(edit.new))}(?!\w)", folded(edit.evidence)), edit


def test_a_changed_negation_is_a_negation_or_an_opposite(edits: list[Edit]) -> None:
    for edit in edits:
        if edit.kind == "negation":
            counted = [len(re.findall(r"\bне\b|\bnot\b|n[’']t\b|cannot", text)) for text in (edit.original, edit.claim)]
            assert counted[0] != counted[1] or re.fullmatch(r"[a-zа-яё]+", edit.new), edit


def test_nothing_changed_is_a_link_a_hashtag_a_phone_or_a_list_marker(edits: list[Edit]) -> None:
    for edit in edits:
        assert not re.search(r"https?:|t\.me|[@#]|\d-\d\d-\d\d|^\W*\d+[.)]\s", edit.original), edit


def test_the_same_seed_gives_the_same_edits_and_the_sample_channels_suffice_for_some() -> None:
    first = minimal_edits(None)
    assert first == minimal_edits.__wrapped__(None)
    assert first != minimal_edits(None, seed=8)
    assert {edit.kind for edit in first} == set(KINDS)
    assert len(first) >= 150
