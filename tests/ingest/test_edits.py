from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from edits import EDITS, HARMLESS, Changed, Corpus, edits, harmless, plain, read

_TOKENS = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[^\w\s]|_")


@pytest.fixture(scope="module")
def corpus(shared_data: Path) -> Corpus:
    return read(shared_data / "tg_ru_news")


@pytest.fixture(scope="module")
def edited(corpus: Corpus) -> list[Changed]:
    return edits(corpus)


@pytest.fixture(scope="module")
def changed(corpus: Corpus) -> list[Changed]:
    return harmless(corpus)


def replaced(change: Changed) -> tuple[list[str], list[str]]:
    """The tokens that are gone, and those that came."""
    before, after = _TOKENS.findall(change.before), _TOKENS.findall(change.after)
    marks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    told = [(before[a:b], after[c:d]) for kind, a, b, c, d in marks if kind != "equal"]
    return [t for gone, _ in told for t in gone], [t for _, came in told for t in came]


def test_there_are_enough_of_every_kind_and_no_post_is_used_twice(
    edited: list[Changed], changed: list[Changed]
) -> None:
    assert Counter(change.kind for change in edited) == dict.fromkeys(EDITS, 110)
    assert Counter(change.kind for change in changed) == dict.fromkeys(HARMLESS, 90)
    assert len({plain(change.before) for change in edited}) == len(edited)
    assert len({plain(change.before) for change in changed}) == len(changed)


def test_an_edit_changes_one_word_or_number_and_nothing_else(edited: list[Changed]) -> None:
    for change in edited:
        gone, came = replaced(change)
        if change.kind == "negation":
            assert (gone, came) in ((["не"], []), ([], ["не"])), change
        else:
            assert (len(gone), len(came)) == (1, 1), change
            assert gone != came


def test_edits_are_of_the_kind_they_say(edited: list[Changed]) -> None:
    for change in edited:
        gone, came = replaced(change)
        if change.kind == "name":
            assert gone[0][0].isupper(), change
            assert came[0][0].isupper(), change
        if change.kind == "number" and gone[0][0].isdigit():
            assert came[0][0].isdigit(), change


def test_no_edit_is_inside_a_link_a_mention_or_a_footer(edited: list[Changed]) -> None:
    links = re.compile(r"https?://\S+|[@#]\w+")
    for change in edited:
        assert links.findall(change.before) == links.findall(change.after), change
        for before, after in zip(change.before.split("\n"), change.after.split("\n"), strict=True):
            assert before == after or "Прислать новость" not in before, change


def test_a_harmless_change_keeps_every_line_of_the_body(changed: list[Changed]) -> None:
    """Words and numbers of the body, in order: what comes or goes is a footer or a link."""
    for change in changed:
        before, after = (re.sub(r"https?://[^\s)\]*]+", " ", text) for text in (change.before, change.after))
        lines = [re.findall(r"\w+", line) for line in before.split("\n")]
        kept = re.findall(r"\w+", after)
        missing = [line for line in lines if line and " ".join(line) not in " ".join(kept)]
        assert len(missing) <= (change.kind in {"footer", "removed"}), change


def test_the_same_seed_makes_the_same_changes(corpus: Corpus, edited: list[Changed], changed: list[Changed]) -> None:
    assert edits(corpus, seed=1, each=110) == edited
    assert harmless(corpus, seed=1, each=90) == changed
    assert edits(corpus, seed=2, each=5) != edits(corpus, seed=1, each=5)


def test_the_generator_does_not_know_what_it_measures() -> None:
    source = (Path(__file__).parent / "edits.py").read_text(encoding="utf-8")
    assert not re.search(r"^(?:import|from) (?:ingest|rag_core|bot)\b", source, re.MULTILINE)
