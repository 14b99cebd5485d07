import re
from pathlib import Path

import pytest

from rag_core.planning.queries import correct_spelling
from rag_core.text import query_terms
from rag_core.text.query_terms import AnswerType, QueryTerms, annotate_answer_kinds, expand_words, is_table_word
from rag_core.text.tokens import STOP_WORDS, stem, stem_dictionary_form, tokenize


@pytest.mark.parametrize(
    ("one", "other"),
    [("скамеек", "скамейка"), ("людей", "человек"), ("пришёл", "прийти"), ("детям", "ребёнок"), ("окон", "окнами")],
)
def test_forms_of_one_word_share_a_term(one, other):
    assert tokenize(one) == tokenize(other)


@pytest.mark.parametrize(
    ("question", "post"),
    [
        ("маршрутка до вокзала", "автобус"), ("is the swimming pool open", "бассейн"), ("где велик", "bicycle"),
        ("how much is it", "<money>"), ("почём вход", "<money>"), ("во сколько сбор", "<clock>"),
        ("телефон врача", "doctor"), ("сто раз", "hundred"),
    ],
)  # fmt: skip
def test_everyday_words_are_expanded_within_and_across_languages(question, post):
    term = post if post.startswith("<") else stem(post)
    assert any(term in found for found in expand_words(question).values())


@pytest.mark.slow
def test_every_word_of_the_table_is_found_under_the_term_that_posts_have():
    table = Path(query_terms.__file__).with_name("synonyms.txt").read_text(encoding="utf-8").lower().replace("ё", "е")
    entries = (
        entry.strip()
        for line in table.splitlines()
        if line and line[0] not in "#="
        for entry in re.split("[,|]", line.lstrip("~"))
    )
    single = {entry for entry in entries if re.fullmatch(r"[^\W_]+", entry)} - STOP_WORDS
    assert len(single) > 4000
    assert not {word for word in single if stem(word) != stem_dictionary_form(word)}
    assert not {word for word in single if not is_table_word(word)}  # entries are looked up by their first letters


def test_a_typo_is_read_as_an_everyday_word_where_it_is_no_word_itself():
    def correct(is_english_word):
        return correct_spelling("compnay", list, lambda term: 0, is_english_word=is_english_word)[0]

    assert [correct(None), correct(lambda word: True), correct(lambda word: False)] == ["compnay", "compnay", "company"]


def test_of_a_long_question_translations_are_searched_and_synonyms_are_not():
    asked = QueryTerms.of("which bakery sells fresh warm bread near the old railway station", lambda term: 1.0)
    found = asked.weigh_variants()
    assert (
        0
        < found["bread"][stem("хлеб")]
        < QueryTerms.of("bread", lambda term: 1.0).weigh_variants()["bread"][stem("хлеб")]
    )
    assert all(variant.isascii() != term.isascii() for term, variants in found.items() for variant in variants)
    priced = QueryTerms.of("сколько стоит свежий тыквенный хлеб возле старого вокзала города", lambda term: 1.0)
    assert not any(variant.startswith("<") for variants in priced.weigh_variants().values() for variant in variants)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Хлеб 90 ₽", ["<money>"]), ("A loaf is €3.50", ["<money>"]), ("Ждём вас в 9:30", ["<clock>"]),
        ("Doors 7 pm", ["<clock>"]),
        ("Звоните: 8 912 345-67-89", ["<phone>"]), ("Счёт 2:1, 15 домов, версия 1.4", []),
    ],
)  # fmt: skip
def test_posts_are_annotated_with_the_answers_they_hold(text, kinds):
    assert annotate_answer_kinds(text) == kinds


def test_a_word_counts_as_met_by_its_variant_and_matters_as_much_as_that():
    posts = {"хлеб": 1.0, "доставк": 2.0}
    asked = QueryTerms.of("bread delivery", lambda term: posts.get(term, 7.0))
    assert 0.5 < asked.matched_share(frozenset({"хлеб", "доставк"})) < 1
    assert asked.share["bread"] == pytest.approx(1 / 3)
    assert asked.matched_share(frozenset()) == 0


POSTS = {"библиотек": 3, "librari": 2, "подписк": 1, "road": 4, "communiti": 2, "postgresql": 1, "come": 9}
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
def test_a_misspelt_word_is_read_as_a_near_word_of_posts_that_the_asker_may_read(typed, read):
    count = lambda term: POSTS.get(term, 0)  # noqa: E731
    text, read_as = correct_spelling(typed, lambda: list(POSTS), count, is_english_word=ENGLISH.__contains__)
    assert text == read
    assert bool(read_as) == (typed != read)


def test_a_day_of_the_month_is_met_as_a_number_and_as_an_ordinal():
    assert expand_words("the 11th")["11th"] == {"11": 1.0}
    assert [expand_words(day)[day] for day in ("1", "12", "23")] == [{"1st": 1.0}, {"12th": 1.0}, {"23rd": 1.0}]
    assert not expand_words("32 132nd 0")


def test_a_stop_word_is_not_expanded_as_a_word_with_its_stem():
    assert not expand_words("за и на по it do").keys() & {"за", "и", "на", "по", "it", "do"}
    assert "кред" in expand_words("займ").get("за", {})


def test_a_compound_that_no_post_has_is_met_by_its_second_part():
    posts = {"врач": 1.0, "билет": 2.0}
    for compound, part in {"главврач": "врач", "авиабилет": "билет"}.items():
        asked = QueryTerms.of(compound, lambda term: posts.get(term, 7.0))
        assert asked.matched_share(frozenset({part})) == 0.5
    assert not QueryTerms.of("микроклимат", lambda term: posts.get(term, 7.0)).variants.get("микроклимат")


def equally(term):
    return 1.0


def test_the_shares_of_a_question_add_up_to_one():
    asked = QueryTerms.of("Сколько стоит паром до Совиного острова? Паром!", equally)
    assert sum(asked.share.values()) == pytest.approx(1)
    assert asked.order.count(stem("паром")) == 2
    assert asked.want is AnswerType.PRICE


def test_met_and_kin_divide_the_question_between_them():
    asked = QueryTerms.of("мозаика моста", equally)
    found = frozenset(tokenize("мозаичный мост"))
    assert asked.matched_share(found) == pytest.approx(0.5)
    assert 0 < asked.similar_share(found) < 0.5
