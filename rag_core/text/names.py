"""Names in text: find and match them, also in the other script (Тойота finds Toyota).

Names are found by their capital letters. Russian surnames are matched in all their case forms and both genders. Pure
functions. Names match across grammatical cases, scripts, partial forms and initials.

Transliteration goes letter by letter, with the spellings of passports and of brands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache

from rag_core.text.tokens import (
    CYRILLIC,
    LETTERS,
    WORD,
    is_dictionary_word,
    list_dictionary_forms,
    read_word,
    stem,
    tokenize,
)

_CAPITAL_LETTER = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
_WORD_REST = r"[\w'’-]*(?:\.[\w'’-]+)*"  # "U.S." is one word; the full stop of a sentence is not part of it
_CONNECTING_WORDS = r"(?:of(?:\s+the)?|the|de|von|van|and|for|и|на|по)"
# A run of capitalized words, with connecting words between them and numbers after them.
NAME_PATTERN = re.compile(
    rf"(?<!\w){_CAPITAL_LETTER}{_WORD_REST}(?:\s+(?:{_CONNECTING_WORDS}\s+)?{_CAPITAL_LETTER}{_WORD_REST}|\s+\d+(?!\w|[.,]\d))*"
)
_SURNAME_PATTERN = re.compile(r"(?P<base>[а-я]{2,}(?:ов|ев|ин|ын))(?:а|у|ым|ой|е|ы|ых|ыми)?")


def get_surname_base(word: str) -> str | None:
    """Common beginning of all forms of a Russian surname: "торосов" for "Торосовой". None for other words."""
    match = _SURNAME_PATTERN.fullmatch(word.lower().replace("ё", "е")) if word[:1].isupper() else None
    return match["base"] if match else None


def list_surname_stems(word: str) -> tuple[str, ...]:
    """List the stems of a Russian surname in all its forms: "торос" and "торосов". None for other words."""
    base = get_surname_base(word)
    return tuple(dict.fromkeys(stem for form in (word, base, f"{base}а") for stem in tokenize(form))) if base else ()


def build_surname_pattern(base: str) -> re.Pattern[str]:
    """Build a pattern of all forms of a surname, for lower-case text without ё."""
    return re.compile(rf"(?<!\w){base}(?:а|у|ым|ой|е|ы|ых|ыми)?(?!\w)")


_CASE_ENDINGS = re.compile(r"(?<=..)(?:ого|ому|[ыи]ми?|[оае]м|[ыи]х)$")
_VOWEL_ENDINGS = re.compile(r"(?<=..)[аеиоуыьэюяй]+$")
_FILE_SEPARATORS = re.compile(r"[\s_-]+")


def matches_name(said: str, written: str) -> bool:
    """Whether every word of `said` is in the written name: "Анны Смирновой" matches "Анна Смирнова, редактор"."""

    def list_bases(name: str) -> list[set[str]]:  # of each word, without its case ending; "Максим" has two
        words = set(WORD.findall(name.casefold().replace("ё", "е").replace("'s", "").replace("’s", "")))
        forms = ((word, (word, _CASE_ENDINGS.sub("", word)) if CYRILLIC.search(word) else ()) for word in words)
        return [{_VOWEL_ENDINGS.sub("", form) for form in both} or {word} for word, both in forms]

    wanted, known = list_bases(said), set[str]().union(*list_bases(written))
    return bool(wanted) and not any(one.isdisjoint(known) for one in wanted)


def matches_file_name(said: str, written: str) -> bool:
    """Whether two file names match; Telegram Desktop writes "_" for a space. `written` may list several."""
    names = (said, written, *written.split(", "))
    wanted, *there = (_FILE_SEPARATORS.sub("_", name.strip().casefold().replace("ё", "е")) for name in names)
    return wanted in there


_INFLECTION_ENDINGS = re.compile(
    r"(?:иями|иях|ями|ами|ого|его|ому|ему|ыми|ими|ией|иею|иям|ией|ых|их|ым|им|ом|ем|ой|ей|ою|ею|ах|ях|ам|ям|"
    r"ую|юю|ая|яя|ое|ее|ые|ие|ый|ий|ия|ии|ию|ье|ью|ья|а|я|о|е|у|ю|ы|и|ь|й)$"
)
_CYRILLIC_SOUNDS = dict(
    zip("абвгдезийклмнопрстуфхцчшщъыьэюя", "a b v g d e z i i k l m n o p r s t u f h ts ch sh sch  i  e iu ia".split(" "), strict=True)
) | {"ж": "zh", "ґ": "g", "і": "i", "ї": "i", "є": "e"}  # fmt: skip
_LATIN_SOUNDS = (
    ("shch", "sch"), ("kh", "h"), ("ph", "f"), ("ck", "k"), ("tch", "ch"), ("tz", "ts"), ("x", "ks"), ("w", "v"), ("qu", "kv"), ("q", "k"),
    ("yo", "e"), ("ye", "e"), ("ya", "ia"), ("yu", "iu"), ("j", "i"), ("y", "i"), ("th", "t"), ("oo", "u"), ("ee", "i"), ("sch", "sh"),
)  # fmt: skip
_SOFT_C = re.compile("c(?=[eiy])")
_HARD_C = re.compile("c(?!h)")
_DOUBLED_LETTER = re.compile(r"(.)\1")
_MIN_BASE_LENGTH, _MIN_SOUND_SIMILARITY = 3, 0.8
_MAX_SOUND_LENGTH = 64  # letters: longer names are compared for equality only; no real name is as long


@lru_cache(maxsize=10_000)
def strip_inflection(word: str) -> str:
    """Strip the inflection ending of a Russian word; other words stay as they are."""
    if not CYRILLIC.search(word):
        return word
    cut = _INFLECTION_ENDINGS.sub("", word)
    return cut if len(cut) >= _MIN_BASE_LENGTH else word[:_MIN_BASE_LENGTH] if len(word) > _MIN_BASE_LENGTH else word


@lru_cache(maxsize=10_000)
def build_phonetic_key(word: str) -> str:
    """Build a phonetic key in Latin letters: "schukin" for both "Щукин" and "Shchukin"."""
    if CYRILLIC.search(word):
        word = "".join(_CYRILLIC_SOUNDS.get(c, c) for c in word)
    for spelling, sound in _LATIN_SOUNDS:
        word = word.replace(spelling, sound)
    word = _HARD_C.sub("k", _SOFT_C.sub("ts", word))
    return _DOUBLED_LETTER.sub(r"\1", word).replace("ii", "i")


@lru_cache(maxsize=20_000)
def is_name_variant(one: str, other: str) -> bool:
    """Whether two folded words may be forms of one name: "москве" and "москва", "путин" and "putin"."""
    if one == other:
        return True
    if one[0] != other[0] and one[0].isascii() == other[0].isascii():
        return False
    russian = bool(CYRILLIC.search(one))
    if russian != bool(CYRILLIC.search(other)):
        return any(_sound_alike(a, b) for a in list_phonetic_keys(one) for b in list_phonetic_keys(other))
    if min(len(one), len(other)) < _MIN_BASE_LENGTH:
        return False
    short, long = sorted((strip_inflection(one), strip_inflection(other)), key=len)
    if not russian:
        return long.startswith(short) and long[len(short) :] in {"", "s", "es", "n", "an", "ian", "ish", "ese"}
    # "московск" of "москв", "российск" of "росс", "отц" of "отец"
    related = len(short) >= 4 and long.startswith(short[:-1])
    return short == long or (related and bool(_ADJECTIVE_ENDING.match(long[len(short) - 1 :])))


def list_phonetic_keys(word: str) -> set[str]:
    """Phonetic keys of a word: as it is, and without its Russian ending."""
    return {build_phonetic_key(word), build_phonetic_key(strip_inflection(word))}


def _sound_alike(first: str, second: str) -> bool:
    short, long = sorted((len(first), len(second)))
    if short < _MIN_BASE_LENGTH or first[0] != second[0] or 2 * short < _MIN_SOUND_SIMILARITY * (short + long):
        return False
    if long > _MAX_SOUND_LENGTH:  # SequenceMatcher takes quadratic time or worse
        return first == second
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _MIN_SOUND_SIMILARITY


_ADJECTIVE_ENDING = re.compile(r"^.?(?:и|ов)?(?:й?ск|ск)$")


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
_MAX_WORDS, _MIN_NAME_LENGTH = 40, 4  # words of a text that are read, and letters of a name: short ones meet by chance


def transliterate_word(word: str) -> tuple[str, ...]:
    """Transliterate a word to the other script, in all likely spellings; empty for a word of neither script.

    A Russian word may carry a case ending that the foreign one lacks: "Тойоту" gives "toyotu", "toyota", "toyot".
    """
    low = word.lower()
    if _CYRILLIC.search(low):
        base, spellings = stem(low) or low, dict[str, None]()
        forms: tuple[str, ...] = (low,)
        if base != low.replace("ё", "е"):
            forms = (low, f"{base}а", *list_dictionary_forms(low)[:_MAX_DICTIONARY_FORMS], base)
        for form in forms:
            passport = brand = "".join(_TO_LATIN.get(letter, letter) for letter in form)
            for spelt, other in _BRAND_SPELLINGS:
                brand = brand.replace(spelt, other)
            spellings |= {passport: None, brand: None}
        return tuple(spellings)
    plain = "".join(c for c in unicodedata.normalize("NFD", low.translate(_UMLAUTS)) if not unicodedata.combining(c))
    return (_LATIN_PATTERN.sub(lambda found: _FROM_LATIN[found[0]], plain),) if _LATIN_PATTERN.search(plain) else ()


def list_names_in_other_script(text: str, frequency: Callable[[str], int]) -> tuple[tuple[str, str], ...]:
    """List (term, term in the other script) of the names of a text: those spelt so that posts have them.

    A Russian word is a name where it is not in the dictionary, or is there as one: "most" is no bridge.
    """
    found = dict.fromkeys(
        (term, other)
        for word in LETTERS.findall(text)[:_MAX_WORDS]
        if len(word) >= _MIN_NAME_LENGTH and (term := stem(low := word.lower()))
        if not _CYRILLIC.search(low) or not is_dictionary_word(low) or read_word(low)[0].name
        for spelt in transliterate_word(word)
        if (other := stem(spelt)) and frequency(other)
    )
    return tuple(found)
