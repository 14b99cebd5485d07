import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.text.tokens import STOP_WORDS, UNUSUAL, detect_language, read_word, stem, tokenize


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ёлка", "елка"),
        ("самолёты", "самолет"),
        ("ferries", "ferry"),
        ("Café", "cafe"),
        ("за́мок", "замок"),
        (unicodedata.normalize("NFD", "Район чайной"), "район чайной"),
        ("𝗕𝗼𝗹𝗱 𝗦𝗮𝗹𝗲", "bold sale"),
        ("Ｗｉｄｅ", "wide"),
        ("тариф\u200b\u202e", "тариф"),
        ("ISTANBUL", "istanbul"),
        ("1İ23İ4", "1i23i4"),  # its small letter has two characters
        ("Элек\xadтрич\u2060ка", "электричка"),
        ("green\u200dhouse\ufeff", "greenhouse"),
        ("Cкидкa", "скидка"),
        ("sаunа", "sauna"),
        ("ﬁshing", "fishing"),
        ("🅂🄰🄻🄴 🅢🅐🅛🅔 ⓢⓐⓛⓔ ꜱᴀʟᴇ", "sale sale sale sale"),
        ("1С А+ С++", "1C A+ C++"),
        ("1 050", "1050"),
        ("1’050", "1050"),
        ("1\u2009050", "1050"),
        ("1.050,00", "1050"),
        ("15т.р.", "15000 р"),
        ("£2k", "2000"),
    ],
)
def test_one_word_has_one_term_however_it_is_written(one, other):
    assert tokenize(one) == tokenize(other) != []


def test_characters_that_are_not_normalized_would_give_the_same_terms():
    usual = [char for char in map(chr, range(0x20000)) if not UNUSUAL.search(char)]
    assert len(usual) > 5000
    for char in usual:
        for text in (f"a{char}b", f"и{char}1", f"{char}e"):
            assert tokenize(text) == tokenize(f"{text} \u0301"), hex(ord(char))  # with the accent all is normalized


def test_a_sign_of_a_short_name_belongs_to_it():
    assert tokenize("C, C++, C#, F#, .NET, net") == ["c", "c++", "c#", "f#", ".net", "net"]
    assert tokenize("a+b 2+2 end .How") == ["b", "2", "2", "end"]


def test_each_word_is_stemmed_by_its_own_script():
    assert tokenize("Обжиги cups 2750") == [stem("обжиг"), "cup", "2750"]


@pytest.mark.parametrize("text", ["", "   ", "🔥🔥🔥", "?!…", "и в на что это", "what is it of the"])
def test_texts_without_a_telling_word_have_no_terms(text):
    assert tokenize(text) == []


def test_stop_words_are_written_as_they_are_looked_up():
    assert [word for word in STOP_WORDS if stem(word)] == []


@given(st.text(max_size=300))
def test_any_text_has_terms_without_spaces_and_the_same_ones_again(text):
    found = tokenize(text)
    assert all(term and not term.isspace() for term in found)
    assert tokenize(text) == found


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("Где паром?", "ru"), ("Where is the ferry?", "en"), ("Кто такие Golden Gate Quartet?", "ru"),
        ("What does Чинильня repair?", "en"), ("Tawny 1.0 Кирпичики", "ru"), ("ferry", "en"), ("", "en"),
        ("123 🔥", "en"), ("ё", "ru"),
    ],
)  # fmt: skip
def test_the_language_to_answer_in(text, lang):
    assert detect_language(text) == lang


def test_readings_of_any_two_words_can_be_compared():
    one, other = read_word("мостик")[0], read_word("3д")[0]
    assert (one.part, other.part) == ("NOUN", "") != (other.part, one.part)
    assert all(mine != theirs for mine, theirs in zip(one[1:4], other[1:4], strict=True))
