from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from near_duplicate_edits import FACTS, HARMLESS, Corpus, make_edits, read_posts

import ingest.copies
from ingest.copies import BANDS, compute_minhash_bands, hash_exact_text, parse_compared_text

pytestmark = pytest.mark.slow

PRICE = "Мастерская на Лесной открыта до 20 часов, занятие по пятницам стоит 500 рублей с человека."


def are_duplicates(one: str, other: str) -> bool:
    return ingest.copies.are_duplicates(parse_compared_text(one), parse_compared_text(other))


@pytest.fixture(scope="module")
def corpus(shared_data: Path) -> Corpus:
    return read_posts(shared_data / "tg_ru_news")


def test_of_440_edits_of_one_fact_hardly_one_is_the_same_post(corpus: Corpus) -> None:
    changed = make_edits(FACTS, corpus, 110)
    joined = [change for change in changed if are_duplicates(change.before, change.after)]
    assert len(changed) == 440
    assert len(joined) <= 0.01 * len(changed), joined
    for change in changed:
        before, after = parse_compared_text(change.before), parse_compared_text(change.after)
        assert before.facts != after.facts or not before.all, change  # without words of its own it is no copy


def test_of_450_harmless_changes_nearly_all_are_the_same_post(corpus: Corpus) -> None:
    changed = make_edits(HARMLESS, corpus, 90)
    lost = [change for change in changed if not are_duplicates(change.before, change.after)]
    assert len(changed) == 450
    assert len(lost) <= 0.05 * len(changed), Counter(change.kind for change in lost)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PRICE, PRICE.upper()),
        ("Всё ещё идёт приём заявок у Алёны.", "Все еще идет прием заявок у Алены!"),
        (PRICE, f"❗️{PRICE.removesuffix('.')} 🔥"),
        (PRICE, f"{PRICE} https://example.org/a?b=1"),
        (PRICE, f"{PRICE} @master_na_lesnoy"),
        ("Мост [закрыт](https://t.me/a/1) до мая", "Мост [закрыт](https://t.me/b/2) до мая"),
        ("Мост **закрыт** до мая", "Мост закрыт до мая"),
        ("Цена 12 500 ₽ за курс", "Цена 12\u00a0500 ₽ за курс"),
        ("Обжиг за́ 1,5 часа", "Обжиг за 1.5 часа"),
        ("Сбор в 10:30 у входа", "Сбор в 10.30 у входа"),
        ("𝗙𝗲𝗿𝗿𝘆 to Owl Island", "Ferry to Owl Island"),
        ("1️⃣ Купить глину", "Купить глину"),
        ("Fer\u200bry at seven", "Ferry at seven"),
    ],
)
def test_the_same_in_another_dress_is_exactly_the_same(one: str, other: str) -> None:
    assert hash_exact_text(parse_compared_text(one)) == hash_exact_text(parse_compared_text(other)) != b""
    assert are_duplicates(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("500", "550"),
        ("500", "5,00"),
        ("500", "50"),
        ("20", "21"),
        ("500 рублей", "500 долларов"),
        ("пятницам", "субботам"),
        ("пятницам", "пятницам 5 мая"),
        ("Лесной", "Полевой"),
        ("открыта", "не открыта"),
        ("открыта", "закрыта"),
        ("открыта", "якобы открыта"),
        ("стоит 500", "стоит от 500"),
        ("Мастерская на Лесной", "Галерея на Лесной"),
        ("Мастерская на Лесной", "Фейк: мастерская на Лесной"),
        ("по пятницам", "по пятницам Анны"),
    ],
)
def test_one_fact_more_less_or_different_makes_another_post(one: str, other: str) -> None:
    assert one in PRICE
    changed = PRICE.replace(one, other)
    assert not are_duplicates(PRICE, changed)
    assert not are_duplicates(changed, PRICE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ночью до -5 градусов, днём до 2", "Ночью до 5 градусов, днём до 2"),
        ("Акции выросли на 5% за день торгов", "Акции выросли на 5 за день торгов"),
        ("Билет стоит $100 в обе стороны", "Билет стоит €100 в обе стороны"),
        ("Он не пришёл, но позвонил маме", "Он пришёл, но не позвонил маме"),
        ("The ferry does run on Sundays from pier four", "The ferry doesn't run on Sundays from pier four"),
        ("Спартак обыграл Зенит в гостях со счётом 2:1", "Зенит обыграл Спартак в гостях со счётом 2:1"),
        ("Доллар выше 108 рублей на бирже", "Евро выше 108 рублей на бирже"),
        ("Курс вырос, а цены на хлеб упали", "Курс упал, а цены на хлеб выросли"),
    ],
)
def test_small_marks_and_word_order_carry_facts(one: str, other: str) -> None:
    assert not are_duplicates(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Ferry tickets are sold at pier four from early June",
            "Ferry tickets are now sold at pier four from early June",
        ),
        (
            "По всему Звенигороду отключили свет и воду, сообщают жители города.",
            "По всему Звенигороду отключили свет и воду, сообщают жители города. Причины уточняются.",
        ),
        (
            "Число пострадавших при взрыве газа в доме возросло до 7",
            "Число пострадавших при взрыве газа в доме возросло до 7. Уточняется.",
        ),
        ("Драка произошла из-за шумного поведения гостей", "Драка произошла из-за шумного поведение гостей"),
    ],
)
def test_a_few_more_words_and_other_endings_are_nearly_the_same(one: str, other: str) -> None:
    assert hash_exact_text(parse_compared_text(one)) != hash_exact_text(parse_compared_text(other))
    assert are_duplicates(one, other)
    assert are_duplicates(other, one)
    assert set(compute_minhash_bands(parse_compared_text(one))) & set(compute_minhash_bands(parse_compared_text(other)))


@pytest.mark.parametrize("text", ["", " \n", "🔥🔥", "https://t.me/a/1", "@harbour", "Подписаться | Прислать новость"])
def test_posts_without_words_of_their_own_are_copies_of_nothing(text: str) -> None:
    assert hash_exact_text(parse_compared_text(text)) == b""
    assert compute_minhash_bands(parse_compared_text(text)) == ()
    assert not are_duplicates(text, text)


def test_very_short_texts_are_compared_exactly_only() -> None:
    assert compute_minhash_bands(parse_compared_text("Мост снова открыт")) == ()
    assert are_duplicates("Мост снова открыт", "мост снова открыт!")
    assert not are_duplicates("Мост снова открыт", "Мост открыт")
    assert not are_duplicates(PRICE, f"{PRICE} Приносите фартук и хорошее настроение, глину и инструменты выдадим.")
    assert len(compute_minhash_bands(parse_compared_text(PRICE))) == BANDS


def test_what_is_told_as_seen_from_its_day_is_noticed() -> None:
    assert parse_compared_text("Завтра мастерская закрыта").today
    assert parse_compared_text("The shop is closed on Friday").today
    assert not parse_compared_text("5 мая мастерская закрыта").today


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_texts_can_be_compared_and_the_order_does_not_matter(one: str, other: str) -> None:
    assert are_duplicates(one, other) == are_duplicates(other, one)
    a, b = parse_compared_text(one), parse_compared_text(other)
    assert are_duplicates(one, one) == bool(hash_exact_text(a))
    if hash_exact_text(a) == hash_exact_text(b) != b"":
        assert compute_minhash_bands(a) == compute_minhash_bands(b) or a.facts != b.facts
    assert all(-(2**63) <= band < 2**63 for band in compute_minhash_bands(a))
