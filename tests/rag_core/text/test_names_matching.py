from __future__ import annotations

import pytest

from rag_core.text.names import matches_file_name, matches_name


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Анны Смирновой", "Анна Смирнова, редактор"),
        ("смирновой", "Анна Смирнова"),
        ("Петрова", "Иван Петров"),
        ("Петровым", "Петров И."),
        ("Сергея", "Сергей"),
        ("Максима", "Максим"),
        ("Максим", "Максима"),
        ("Артема", "Артём"),
        ("Марии", "Мария ✍"),
        ("Достоевского", "Ф. Достоевский"),
        ("Медузы", "Медуза — LIVE"),
        ("Kate's", "Kate O'Hara"),
        ("BELL", "The Bell"),
    ],
)
def test_a_name_is_known_in_another_case_and_in_part(said: str, written: str) -> None:
    assert matches_name(said, written)


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Ивана", "Пётр Иванов"),
        ("Анны Петровой", "Анна Смирнова"),
        ("Марины", "Мария"),
        ("Kate", "Katherine"),
        ("Bell", "Campbell"),
        ("", "Анна"),
        ("...", "Анна"),
        ("Анна", ""),
    ],
)
def test_another_name_is_another(said: str, written: str) -> None:
    assert not matches_name(said, written)


def test_a_file_is_known_whatever_stands_between_its_words() -> None:
    for written in ("Прайс лист.PDF", "прайс_лист.pdf", "отчёт.pdf, прайс-лист.pdf"):
        assert matches_file_name("прайс лист.pdf", written)
    assert matches_file_name("отчет.pdf", "Отчёт.pdf")
    for other in ("лист.pdf", "прайс лист.pdf.zip", "прайслист.pdf"):
        assert not matches_file_name("прайс лист.pdf", other)
