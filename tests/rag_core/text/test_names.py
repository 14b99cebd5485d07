import pytest

from rag_core.storage.channels import Synonym, add_synonym, list_synonyms, remove_synonym
from rag_core.text.names import (
    NAME_PATTERN,
    build_surname_pattern,
    get_surname_base,
    list_names_in_other_script,
    matches_file_name,
    matches_name,
)


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
def test_names_are_runs_of_words_with_capital_letters(text, found):
    assert [run[0] for run in NAME_PATTERN.finditer(text)] == found


@pytest.mark.parametrize("form", ["Торосов", "Торосова", "Торосову", "Торосовой", "Торосовым", "Торосовых"])
def test_all_forms_of_a_surname_are_one(form):
    base = get_surname_base(form)
    assert base == "торосов"
    assert build_surname_pattern(base).search(f"сказал {form.lower()}, и всё")


NAMES = {
    True: "Анны Смирновой=Анна Смирнова, редактор|смирновой=Анна Смирнова|Петрова=Иван Петров|Петровым=Петров И.|"
    "Сергея=Сергей|Максима=Максим|Максим=Максима|Артема=Артём|Марии=Мария ✍|Достоевского=Ф. Достоевский|"
    "Медузы=Медуза — LIVE|Kate's=Kate O'Hara|BELL=The Bell",
    False: "Ивана=Пётр Иванов|Анны Петровой=Анна Смирнова|Марины=Мария|Kate=Katherine|Bell=Campbell|=Анна|Анна=",
}


@pytest.mark.parametrize("same", NAMES)
def test_a_name_is_known_in_another_case_and_in_part(same):
    pairs = [pair.split("=") for pair in NAMES[same].split("|")]
    assert [pair for pair in pairs if matches_name(*pair) is not same] == []


def test_a_file_is_known_whatever_stands_between_its_words():
    for written in ("Прайс лист.PDF", "прайс_лист.pdf", "отчёт.pdf, прайс-лист.pdf"):
        assert matches_file_name("прайс лист.pdf", written)
    assert matches_file_name("отчет.pdf", "Отчёт.pdf")
    for other in ("лист.pdf", "прайс лист.pdf.zip", "прайслист.pdf"):
        assert not matches_file_name("прайс лист.pdf", other)


POSTS = {"timur", "lazarev", "most", "sport", "ворон"}


def find(text):
    return {other for _, other in list_names_in_other_script(text, lambda term: int(term in POSTS))}


def test_a_name_is_found_in_the_spelling_that_posts_have():
    assert find("кто такой тимур лазарев") == {"timur", "lazarev"}
    assert find("who is Voron") == {"ворон"}


def test_a_common_russian_word_is_no_name():
    assert not find("где мост и спорт")


async def test_own_synonyms_find_posts_that_lack_the_word(library):
    archive = library.rag.archive
    own = Synonym(library.harbour, "nosh", "mackerel")
    assert await add_synonym(archive, own, 1)
    assert not await add_synonym(archive, own, 1)
    assert await list_synonyms(archive, {library.harbour}) == [own]
    assert not await list_synonyms(archive, set())
    answer = await library.ask("when is the nosh sold")
    assert 2 in {source.passage.key.message_id for source in answer.found}
    assert ("nosh", "mackerel") in answer.aliases
    assert await remove_synonym(archive, own)
    assert not await remove_synonym(archive, own)
