import json
from collections import Counter
from pathlib import Path

import pytest
from edited_posts import read_edits
from hypothesis import given
from hypothesis import strategies as st

import ingest.copies
from ingest.copies import BANDS, compute_minhash_bands, hash_exact_text, parse_compared_text

pytestmark = pytest.mark.slow

COPIES = Path(__file__).parents[1] / "data" / "copies"

PRICE = "Мастерская на Лесной открыта до 20 часов, занятие по пятницам стоит 500 рублей с человека."


def are_duplicates(one, other):
    return ingest.copies.are_duplicates(parse_compared_text(one), parse_compared_text(other))


def test_of_440_edits_of_one_fact_hardly_one_is_the_same_post(shared_data):
    changed = read_edits("copies/edits.jsonl", shared_data, "fact")
    joined = [change for change in changed if are_duplicates(change.before, change.after)]
    assert len(changed) == 440
    assert len(joined) <= 0.01 * len(changed), joined
    for change in changed:
        before, after = parse_compared_text(change.before), parse_compared_text(change.after)
        assert before.facts != after.facts or not before.all, change  # without words of its own it is no copy


def test_of_450_harmless_changes_nearly_all_are_the_same_post(shared_data):
    changed = read_edits("copies/edits.jsonl", shared_data, "harmless")
    lost = [change for change in changed if not are_duplicates(change.before, change.after)]
    assert len(changed) == 450
    assert len(lost) <= 0.05 * len(changed), Counter(change.kind for change in lost)


PAIRS = [json.loads(line) for line in (COPIES / "pairs.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["other"][:40])
def test_what_is_the_same_post_and_what_one_fact_makes_another(pair):
    one, other = parse_compared_text(pair["one"]), parse_compared_text(pair["other"])
    assert (hash_exact_text(one) == hash_exact_text(other) != b"") is (pair["same"] == "exactly")
    assert are_duplicates(pair["one"], pair["other"]) is (pair["same"] != "no")
    assert are_duplicates(pair["other"], pair["one"]) is (pair["same"] != "no")
    if pair["same"] == "nearly":
        assert set(compute_minhash_bands(one)) & set(compute_minhash_bands(other))


@pytest.mark.parametrize("text", ["", " \n", "🔥🔥", "https://t.me/a/1", "@harbour", "Подписаться | Прислать новость"])
def test_posts_without_words_of_their_own_are_copies_of_nothing(text):
    assert hash_exact_text(parse_compared_text(text)) == b""
    assert compute_minhash_bands(parse_compared_text(text)) == ()
    assert not are_duplicates(text, text)


def test_very_short_texts_are_compared_exactly_only():
    assert compute_minhash_bands(parse_compared_text("Мост снова открыт")) == ()
    assert are_duplicates("Мост снова открыт", "мост снова открыт!")
    assert not are_duplicates("Мост снова открыт", "Мост открыт")
    assert not are_duplicates(PRICE, f"{PRICE} Приносите фартук и хорошее настроение, глину и инструменты выдадим.")
    assert len(compute_minhash_bands(parse_compared_text(PRICE))) == BANDS


def test_what_is_told_as_seen_from_its_day_is_noticed():
    assert parse_compared_text("Завтра мастерская закрыта").today
    assert parse_compared_text("The shop is closed on Friday").today
    assert not parse_compared_text("5 мая мастерская закрыта").today


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_texts_can_be_compared_and_the_order_does_not_matter(one, other):
    assert are_duplicates(one, other) == are_duplicates(other, one)
    a, b = parse_compared_text(one), parse_compared_text(other)
    assert are_duplicates(one, one) == bool(hash_exact_text(a))
    if hash_exact_text(a) == hash_exact_text(b) != b"":
        assert compute_minhash_bands(a) == compute_minhash_bands(b) or a.facts != b.facts
    assert all(-(2**63) <= band < 2**63 for band in compute_minhash_bands(a))
