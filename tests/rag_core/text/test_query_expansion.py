"""Query expansion: dictionary forms, other names and spellings of words, and corrected spelling."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_core.index.bm25_postings import NO_VARIANTS, PostingsBM25
from rag_core.text.query_terms import QueryTerms
from rag_core.text.spelling_correction import correct_spelling
from rag_core.text.tokens import tokenize


@pytest.mark.parametrize(
    ("one", "other"),
    [("скамеек", "скамейка"), ("людей", "человек"), ("пришёл", "прийти"), ("детям", "ребёнок"), ("окон", "окнами")],
)
def test_forms_of_one_word_share_a_term(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other)


def test_of_the_variants_of_a_word_only_the_best_counts_and_none_more_than_the_word() -> None:
    index = PostingsBM25([["bus", "x"], ["coach", "x"], ["coach", "shuttl"], ["tree", "x"]])
    variants = {"bus": {"coach": 0.5, "shuttl": 0.5}}
    found = index.best(["bus"], 9, index.snapshot(), variants=variants)
    scores = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert set(scores) == {0, 1, 2}
    assert scores[0] > scores[1]
    assert scores[2] < scores[0]
    plain = index.best(["bus"], 9, index.snapshot(), variants=NO_VARIANTS)
    assert plain[1][0] == pytest.approx(scores[0])


def test_a_word_counts_as_met_by_its_other_name_and_matters_as_much_as_that() -> None:
    posts = {"хлеб": 1.0, "доставк": 2.0}
    names = [("bread", "хлеб"), ("deliveri", "доставк")]
    asked = QueryTerms.of("bread delivery", lambda term: posts.get(term, 7.0), names)
    assert 0.5 < asked.matched_share(frozenset({"хлеб", "доставк"})) < 1
    assert asked.share["bread"] == pytest.approx(1 / 3)
    assert asked.matched_share(frozenset()) == 0


POSTS = {
    "библиотек": 3,
    "librari": 2,
    "подписк": 1,
    "road": 4,
    "borisov": 0,
    "communiti": 2,
    "postgresql": 1,
    "come": 9,
}


ENGLISH = frozenset("where is open call which".split())


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("где библеотека", "где библиотека"), ("the raod", "the road"), ("is the libary open", "is the library open"),
        ("ghbdtn", "привет"), ("хлебная потписка", "хлебная подписка"), ("Where is Borislov", "Where is Borislov"),
        ("the comunity call", "the community call"), ("which postgres", "which postgresql"),
        ("кот на дереве", "кот на дереве"), ("1.0 и 27-й", "1.0 и 27-й"),
    ],
)  # fmt: skip
def test_a_misspelt_word_is_read_as_a_near_word_of_posts_that_the_asker_may_read(typed: str, read: str) -> None:
    count = lambda term: POSTS.get(term, 0)  # noqa: E731
    text, read_as = correct_spelling(typed, lambda: list(POSTS), count, is_english_word=ENGLISH.__contains__)
    assert text == read
    assert bool(read_as) == (typed != read)


def test_an_english_word_is_corrected_only_where_a_vocabulary_says_that_it_is_none() -> None:
    def correct(is_english_word: Callable[[str], bool] | None) -> str:
        count = lambda term: POSTS.get(term, 0)  # noqa: E731
        return correct_spelling("libary", lambda: list(POSTS), count, is_english_word=is_english_word)[0]

    assert [correct(None), correct(lambda word: True), correct(lambda word: False)] == ["libary", "libary", "library"]


@pytest.mark.parametrize(
    ("typed", "said"), [("the 11th", "11"), ("1 July", "1st"), ("12 мая", "12th"), ("on the 23rd", "23")]
)
def test_a_day_of_the_month_is_met_as_a_number_and_as_an_ordinal(typed: str, said: str) -> None:
    asked = QueryTerms.of(typed, lambda term: 1.0)
    assert max(asked.match(term, frozenset({said})) for term in asked.share) == 1
    assert not QueryTerms.of("32 132nd 0", lambda term: 1.0).variants


def test_a_compound_that_no_post_has_is_met_by_its_second_part() -> None:
    posts = {"врач": 1.0, "билет": 2.0}
    asked = QueryTerms.of("главврач авиабилет микроклимат", lambda term: posts.get(term, 7.0))
    assert asked.match("главврач", frozenset({"врач"})) == asked.match("авиабилет", frozenset({"билет"})) == 0.5
    assert not asked.variants.get("микроклимат")
