"""Whether two words name the same: in another case, in another script, as initials. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

__all__ = ["initials", "is_cyrillic", "same_word", "skeleton", "skeletons"]

_ENDINGS = re.compile(
    r"(?:иями|иях|ями|ами|ого|его|ому|ему|ыми|ими|ией|иею|иям|ией|ых|их|ым|им|ом|ем|ой|ей|ою|ею|ах|ях|ам|ям|"
    r"ую|юю|ая|яя|ое|ее|ые|ие|ый|ий|ия|ии|ию|ье|ью|ья|а|я|о|е|у|ю|ы|и|ь|й)$"
)
_CYRILLIC = re.compile("[а-я]")
_SOUNDS = dict(
    zip("абвгдезийклмнопрстуфхцчшщъыьэюя", "a b v g d e z i i k l m n o p r s t u f h ts ch sh sch  i  e iu ia".split(" "), strict=True)
) | {"ж": "zh", "ґ": "g", "і": "i", "ї": "i", "є": "e"}  # fmt: skip
_LATIN = (
    ("shch", "sch"), ("kh", "h"), ("ph", "f"), ("ck", "k"), ("tch", "ch"), ("tz", "ts"), ("x", "ks"), ("w", "v"), ("qu", "kv"), ("q", "k"),
    ("yo", "e"), ("ye", "e"), ("ya", "ia"), ("yu", "iu"), ("j", "i"), ("y", "i"), ("th", "t"), ("oo", "u"), ("ee", "i"), ("sch", "sh"),
)  # fmt: skip
_SOFT_C = re.compile("c(?=[eiy])")
_HARD_C = re.compile("c(?!h)")
_TWICE = re.compile(r"(.)\1")
_LEAST_SAME, _LIKE = 3, 0.8
_LONGEST_SOUND = 64  # letters of a name whose sound is compared; none is as long


@lru_cache(maxsize=10_000)
def bare(word: str) -> str:
    """A Russian word without its ending, an English one without its plural."""
    if not _CYRILLIC.search(word):
        return word
    cut = _ENDINGS.sub("", word)
    return cut if len(cut) >= _LEAST_SAME else word[:_LEAST_SAME] if len(word) > _LEAST_SAME else word


@lru_cache(maxsize=10_000)
def skeleton(word: str) -> str:
    """How a word sounds, in Latin letters: "schukin" of "Щукин" and of "Shchukin"."""
    if _CYRILLIC.search(word):
        word = "".join(_SOUNDS.get(c, c) for c in word)
    for written, said in _LATIN:
        word = word.replace(written, said)
    word = _HARD_C.sub("k", _SOFT_C.sub("ts", word))
    return _TWICE.sub(r"\1", word).replace("ii", "i")


@lru_cache(maxsize=20_000)
def same_word(one: str, other: str) -> bool:
    """Whether two folded words may be forms of one name: "москве" and "москва", "путин" and "putin"."""
    if one == other:
        return True
    if one[0] != other[0] and one[0].isascii() == other[0].isascii():
        return False
    if bool(_CYRILLIC.search(one)) == bool(_CYRILLIC.search(other)):
        return len(one) >= _LEAST_SAME and len(other) >= _LEAST_SAME and _same_script(one, other)
    return any(_sound_alike(a, b) for a in skeletons(one) for b in skeletons(other))


def is_cyrillic(word: str) -> bool:
    """Whether a folded word has Cyrillic letters."""
    return bool(_CYRILLIC.search(word))


def skeletons(word: str) -> set[str]:
    """How a word sounds as it is and, in Russian, without its ending."""
    return {skeleton(word), skeleton(bare(word))}


def _sound_alike(first: str, second: str) -> bool:
    short, long = sorted((len(first), len(second)))
    if short < _LEAST_SAME or first[0] != second[0] or 2 * short < _LIKE * (short + long):
        return False
    if long > _LONGEST_SOUND:  # comparing takes time in the square of the length or worse
        return first == second
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _LIKE


def _same_script(one: str, other: str) -> bool:
    first, second = bare(one), bare(other)
    if first == second:
        return True
    if not _CYRILLIC.search(one):
        short, long = sorted((one, other), key=len)
        return long.startswith(short) and long[len(short) :] in {"s", "es", "n", "an", "ian", "ish", "ese"}
    short, long = sorted((first, second), key=len)
    # "московск" of "москв", "российск" of "росс", "отц" of "отец"
    return (
        len(short) >= 4
        and long[: len(short) - 1] == short[:-1]
        and bool(re.match(r"^.?(?:и|ов)?(?:й?ск|ск)$", long[len(short) - 1 :]))
    )


def initials(word: str, row: str) -> bool:
    """Whether a short word is made of the first letters of words that follow one another: "оон"."""
    return 2 <= len(word) <= 6 and word in row
