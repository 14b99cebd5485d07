"""Transliteration between Cyrillic and Latin: Тойота finds Toyota.

Letter by letter, with the spellings of passports and of brands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from rag_core.text.tokens import is_dictionary_word, list_dictionary_forms, read_word, stem

_TO_LATIN = dict(zip("абвгдезийклмнопрстуфыэ", "abvgdeziyklmnoprstufye", strict=True)) | {
    "ё": "e", "ж": "zh", "х": "kh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "", "ь": "", "ю": "yu", "я": "ya",
}  # fmt: skip
_BRAND_SPELLINGS = (("kh", "h"), ("ks", "x"), ("dzh", "j"))  # Honda, Yandex, Jack
_FROM_LATIN = {
    "shch": "щ", "sch": "ш", "zh": "ж", "kh": "х", "ts": "ц", "ch": "ч", "sh": "ш", "yu": "ю", "ya": "я",
    "yo": "йо", "ye": "е", "ph": "ф", "th": "т", "ck": "к", "qu": "кв", "oo": "у", "ee": "и", "a": "а",
    "b": "б", "c": "к", "d": "д", "e": "е", "f": "ф", "g": "г", "h": "х", "i": "и", "j": "дж", "k": "к",
    "l": "л", "m": "м", "n": "н", "o": "о", "p": "п", "q": "к", "r": "р", "s": "с", "t": "т", "u": "у",
    "v": "в", "w": "в", "x": "кс", "y": "и", "z": "з",
}  # fmt: skip
_LATIN_PATTERN = re.compile("|".join(_FROM_LATIN))  # longest alternatives first
_UMLAUTS = str.maketrans("äö", "ee") | {ord("ü"): "yu"}
_CYRILLIC = re.compile("[а-яё]")
_MAX_DICTIONARY_FORMS = 2
_WORD = re.compile(r"[^\W\d_]+")
_MAX_WORDS, _MIN_NAME_LENGTH = 40, 4  # words of a text that are read, and letters of a name: short ones meet by chance


def transliterate_word(word: str) -> tuple[str, ...]:
    """Transliterate a word to the other script, in all likely spellings; empty for a word of neither script.

    A Russian word may carry a case ending that the foreign one lacks: "Тойоту" gives "toyotu", "toyota", "toyot".
    """
    low = word.lower()
    if _CYRILLIC.search(low):
        return tuple(dict.fromkeys(spelt for form in _list_word_forms(low) for spelt in _romanize_form(form)))
    plain = "".join(c for c in unicodedata.normalize("NFD", low.translate(_UMLAUTS)) if not unicodedata.combining(c))
    return (_LATIN_PATTERN.sub(lambda found: _FROM_LATIN[found[0]], plain),) if _LATIN_PATTERN.search(plain) else ()


def list_names_in_other_script(text: str, frequency: Callable[[str], int]) -> tuple[tuple[str, str], ...]:
    """List (term, term in the other script) of the names of a text: those spelt so that posts have them.

    A Russian word is a name where it is not in the dictionary, or is there as one: "most" is no bridge.
    """
    found = dict.fromkeys(
        (term, other)
        for word in _WORD.findall(text)[:_MAX_WORDS]
        if len(word) >= _MIN_NAME_LENGTH and (term := stem(word.lower())) and _may_be_name(word.lower())
        for spelt in transliterate_word(word)
        if (other := stem(spelt)) and frequency(other)
    )
    return tuple(found)


def _may_be_name(low: str) -> bool:
    return not _CYRILLIC.search(low) or not is_dictionary_word(low) or read_word(low)[0].name


def _list_word_forms(low: str) -> tuple[str, ...]:
    base, forms = stem(low) or low, list_dictionary_forms(low)[:_MAX_DICTIONARY_FORMS]
    return tuple(dict.fromkeys((low, f"{base}а", *forms, base))) if base != low.replace("ё", "е") else (low,)


def _romanize_form(form: str) -> tuple[str, str]:
    """The passport spelling and the brand spelling."""
    plain = "".join(_TO_LATIN.get(letter, letter) for letter in form)
    brand = plain
    for passport, other in _BRAND_SPELLINGS:
        brand = brand.replace(passport, other)
    return plain, brand
