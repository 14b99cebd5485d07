from __future__ import annotations

import pytest

from rag_core.text.names import build_surname_pattern, find_names, get_surname_base


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the ferry of Owl Island and of Bear Mountain", ["Owl Island", "Bear Mountain"]),
        ("Bank of the West", ["Bank of the West"]),
        ("версия Python 3 и iPhone 15", ["Python 3"]),
        ("в U.S. Bank. Паром ушёл", ["U.S", "Bank", "Паром"]),
        ("Ярослав Мудрый, Єва та Їжак, Ёж, Élan Öl Ωμέγα", ["Ярослав Мудрый", "Єва", "Їжак", "Ёж", "Élan Öl Ωμέγα"]),
        ("О’Хара и д’Артаньян", ["О’Хара", "Артаньян"]),
        ("просто слова, 2025", []),
        ("", []),
    ],
)
def test_names_are_runs_of_words_with_capital_letters(text: str, found: list[str]) -> None:
    assert [run[0] for run in find_names(text)] == found


@pytest.mark.parametrize("form", ["Торосов", "Торосова", "Торосову", "Торосовой", "Торосовым", "Торосовых"])
def test_all_forms_of_a_surname_are_one(form: str) -> None:
    base = get_surname_base(form)
    assert base == "торосов"
    assert build_surname_pattern(base).search(f"сказал {form.lower()}, и всё")


@pytest.mark.parametrize("word", ["торосова", "Торосовский", "Паром", "Smirnov", ""])
def test_other_words_are_no_surnames(word: str) -> None:
    assert get_surname_base(word) is None


def test_a_surname_is_not_found_inside_another_word() -> None:
    assert not build_surname_pattern("торосов").search("неторосов торосовский")
