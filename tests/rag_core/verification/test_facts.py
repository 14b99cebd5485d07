import pytest

from rag_core.text.names import is_name_variant
from rag_core.verification.facts import (
    are_opposites,
    extract_facts,
    extract_facts_by_sentence,
    extract_links,
    fold_text,
    list_sides,
    parse_moments,
    split_words,
)

# Ways of writing, and the moments that each of them is.
MOMENTS = {
    "12.08|12 августа|двенадцатого августа|August 12|12th of August": [{"month": 8, "day": 12}],
    "12.08.2024|2024-08-12|August 12, 2024": [{"year": 2024, "decade": 202, "month": 8, "day": 12}],
    "7:30 pm|19:30|7:30 вечера|в 19.30": [{"minute": 1170}],
    "7 вечера|7 pm|19:00|в семь вечера|seven in the evening|seven p.m.": [{"minute": 1140}],
    "noon|полдень|12:00|к полудню": [{"minute": 720}],
    "в половине седьмого вечера|18:30|полседьмого вечера": [{"minute": 1110}],
    "без четверти восемь утра|quarter to eight in the morning|7:45": [{"minute": 465}],
    "twenty past nine in the evening|21:20|двадцать минут десятого вечера": [{"minute": 1280}],
    "1970s|1970-х|1970's": [{"decade": 197}],
    "в понедельник|on Monday|по понедельникам|Mondays": [{"weekday": 0}],
    "в мае|in May": [{"month": 5}],
    "с 3 по 9 июня": [{"month": 6, "day": 3}, {"month": 6, "day": 9}],
    "с 13 до 17.": [{"minute": 780}, {"minute": 1020}],
    "с понедельника по пятницу|пн-пт|по будням|Mon–Fri|weekdays|Monday to Friday": [{"weekday": n} for n in range(5)],
    "по выходным|сб, вс|weekends|at the weekend|Sat and Sun": [{"weekday": 5}, {"weekday": 6}],
    "с пятницы по понедельник|Fri-Mon": [{"weekday": n} for n in (0, 4, 5, 6)],
    "they may march|12.5 %|2000 рублей|в версии 1.10.3|2000 pounds|выходной|he sat in the sun|from 5 to 10 people": [],
}


@pytest.mark.parametrize("texts", MOMENTS)
def test_a_date_or_time_is_one_however_it_is_written(texts):
    for text in texts.split("|"):
        found = [one.fields() for one in parse_moments(fold_text(text), text)]
        assert sorted(found, key=lambda fields: fields.get("weekday", 0)) == MOMENTS[texts], text


NAMES = "москве москва|путина putin|щукин shchukin|хрущев khrushchev|петрова петров|london лондоне|muawiyah муавия"
OTHERS = "иран ирак|австрия австралия|петр петров|putin пушкин|london лиссабоне"


def test_a_name_is_the_same_inflected_and_in_another_script():
    for names, same in (NAMES, True), (OTHERS, False):
        for one, other in (pair.split() for pair in names.split("|")):
            assert is_name_variant(one, other) is is_name_variant(other, one) is same, (one, other)


def test_opposites_are_told_from_words_alike():
    for pair in ("вырос снизился", "legal illegal", "приехал уехал", "законный незаконный", "вчера завтра"):
        one, other = pair.split()
        assert are_opposites(one, other) and are_opposites(other, one), pair
    assert list_sides("вырос") & list_sides("увеличился")
    assert not are_opposites("вырос", "увеличился") and not are_opposites("мост", "паром")


def test_a_denial_reaches_to_the_end_of_its_clause_and_not_only_is_none():
    (scope,) = extract_facts("Мост не закрыли на ремонт, паром ходит.", "ru").denied
    assert scope.first.low == "закрыли"
    assert "пар" not in {stem[:3] for stem in scope.wide}
    assert not extract_facts("Не только мост, но и паром закрыли.", "ru").denied
    assert len(extract_facts("Никто ничего не видел.", "ru").denied) == 1
    assert len(extract_facts("The bridge isn't open.", "en").denied) == 1
    assert [scope.kind for scope in extract_facts("The bridge may be closed.", "en").modal] == ["may"]
    assert not extract_facts("The bridge opens in May.", "en").modal


def test_names_are_capitals_inside_a_sentence_and_those_at_its_beginning_are_weak():
    found = {name.word.low: name.weak for name in extract_facts("Мост открыл Иван Петров из Казани.", "ru").names}
    assert found == {"мост": True, "иван": False, "петров": False, "казани": False}
    assert all(name.weak for name in extract_facts("THE BRIDGE IS CLOSED TODAY", "en").names)


def test_places_stay_true_in_dressed_letters_and_across_sentences():
    text = "𝗠𝗼𝘀𝘁 открыт. İstanbul ждёт 5 человек."
    for word in split_words(text):
        assert (
            fold_text(text)[word.start : word.end] == text[word.start : word.end].lower()
            or not text[word.start].isascii()
        )
    for one in extract_facts_by_sentence(text, "ru"):
        assert text[one.start :].startswith(one.text)


@pytest.mark.parametrize(
    "link", ["https://a.example/b", "tg://resolve?domain=evil", "ftp://x", "@evil", "#evil", "t.me/a"]
)
def test_a_link_of_any_scheme_is_one_and_whole(link):
    assert extract_links(f"See {link.upper()}!") == {link}


def test_a_sentence_that_is_compared_with_ever_new_words_does_not_grow():
    """Sentences of posts stay in a cache for as long as they are asked about: for months."""
    kept = extract_facts("The ferry to Kronstadt leaves at nine in the morning.", "en").words
    for n in range(1000):
        (word,) = split_words(f"word{n}")
        kept.nearest(word)
    assert len(kept._found) <= 200
    assert kept.nearest(split_words("ferries")[0])[1] == kept[0]
