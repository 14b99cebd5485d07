"""Character folding: what only looks another way is written one way (compatibility forms, look-alikes, invisible signs).

`fold_characters` is for search, claims and questions; `normalize_characters` does the same keeping the length, so that
offsets stay those of the text. Sources: Unicode's NFKC, character names and Default_Ignorable_Code_Point; look-alikes of
Latin, Cyrillic and Greek as in confusables.txt of UTS 39.
"""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Default_Ignorable_Code_Point without the Hangul fillers, which are letters
_IGNORABLE = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0d\ufeff\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_MARKS = "\u0300-\u036f"  # left after NFC composition: the stress mark of "за́мок" is no part of the word
_IGNORABLE_IN_WORD = re.compile(rf"(?<=[\w{_MARKS}])[{_IGNORABLE}]+(?=\w)")
_ANY_IGNORABLE = re.compile(f"[{_IGNORABLE}]")
_WORD_WITH_IGNORABLE = re.compile(rf"(?<![^\W_])[^\W_]++(?:[{_IGNORABLE}]++[^\W_]++)++")
_KEYCAP = re.compile(r"\ufe0f?\u20e3(?![^\W\d])")  # "1️⃣5️⃣:3️⃣0️⃣"
# What may need folding before its words are told: all but ASCII, Western European and Cyrillic letters, and signs and
# pictures, which are no part of a word in any form. Looking for it takes a tenth of the time of folding.
UNUSUAL = re.compile(
    "[^\\t\\n\\r -~\xa0-\xac\xae-\xff\u0400-\u045f\u2000-\u200a\u2010-\u2027\u202f-\u205f\u2070-\u20d0\u2190-\u245f\u2500-\u2bff"
    "\ufe0e\ufe0f\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff]"
)
# Styled letters and digits ("𝗕𝗼𝗹𝗱", "Ｗｉｄｅ", "ⓐ", "㎏"), ligatures and Roman numerals. Superscript and subscript
# digits stay: 10² is not 102.
_STYLES = ("<font>", "<wide>", "<narrow>", "<noBreak>", "<circle>", "<square>")
_STYLED_LETTER_NAME = re.compile(
    r"(?:CROSSED )?NEGATIVE (?:SQUARED|CIRCLED) (LATIN) CAPITAL LETTER ([A-Z])|(LATIN|GREEK|CYRILLIC) LETTER SMALL CAPITAL (\w+)"
)


class _CharacterTable(dict[int, str]):
    """Table for `str.translate`; each code point is folded when it first occurs. With `same_length` to one character."""

    def __init__(self, *, same_length: bool) -> None:
        self.same_length = same_length

    def __missing__(self, code: int) -> str:
        folded = chr(code)
        # a raised small capital is a small capital first, and a letter then
        while len(folded) == 1 and (further := _fold_character(folded)) != folded:
            if self.same_length and len(further) != 1:
                break
            folded = further
        self[code] = folded
        return folded


def _fold_character(char: str) -> str:
    if char == "\n":
        return char
    category, decomposition = unicodedata.category(char), unicodedata.decomposition(char)
    if category in _INVISIBLE_CATEGORIES:
        return " "
    plain = unicodedata.normalize("NFKC", char)
    letters = category[0] == "L" or category == "Nl"
    if decomposition.startswith(_STYLES) and (len(plain) == 1 or plain.isalnum()):
        return plain
    if decomposition.startswith("<compat>"):  # "№" and "…" are signs of their own
        if letters:
            return plain
        return plain[1:-1] if plain[0] == "(" and len(plain) == 3 else char  # "⒜"
    if decomposition.startswith("<super>") and category == "Lm":
        return plain
    if named := _STYLED_LETTER_NAME.fullmatch(unicodedata.name(char, "")):
        script, letter = filter(None, named.groups())
        try:
            return unicodedata.lookup(f"{script} SMALL LETTER {letter}")
        except KeyError:
            return char
    return char


_FOLDED, _FOLDED_TO_ONE = _CharacterTable(same_length=False), _CharacterTable(same_length=True)

# Lower-case letters that look alike in one case at least: Latin, Cyrillic, Greek ("-" for none).
_LOOK_ALIKES = "aаα bвβ cс- eеε hнη iіι jј- kкκ mмμ oоο pрρ sѕ- tтτ xхχ yуυ z-ζ n-ν".split()
_SCRIPTS = re.compile("[a-z]"), re.compile("[\u0400-\u052f]"), re.compile("[\u0370-\u03ff]")
_TABLES = [
    {row[other]: row[own] for row in _LOOK_ALIKES for other in range(3) if other != own and "-" not in row[own] + row[other]}
    for own in range(3)
]  # fmt: skip
_LATIN, _CYRILLIC = 0, 1
_LATIN_IN_CYRILLIC = re.compile("[A-Za-z](?:[\u0400-\u052f]|(?<=[\u0400-\u052f].))")
_GREEK_IN_OTHERS = re.compile("[\u0370-\u03ff](?:[A-Za-z\u0400-\u052f]|(?<=[A-Za-z\u0400-\u052f].))")
_WORD = re.compile(r"[^\W\d_]+")


def fold_mixed_script(word: str) -> str:
    """Fold the look-alikes of a word of two scripts to the script of its majority, where that leaves one script."""
    low = word.lower()
    counts = [len(script.findall(low)) for script in _SCRIPTS]
    if word.isascii() or sum(map(bool, counts)) < 2 or len(low) != len(word):
        return word
    for own in sorted(range(3), key=lambda n: (-counts[n], n != _CYRILLIC)):
        if counts[own] and all(char in _TABLES[own] or _SCRIPTS[own].match(char) for char in low if char.isalpha()):
            folded = (_TABLES[own].get(char, char) for char in low)
            return "".join(new.upper() if old.isupper() else new for old, new in zip(word, folded, strict=True))
    return word


def fold_short_name(word: str) -> str:
    """Fold a short name with a digit or a sign, all of whose letters look Latin, to Latin: "1С", "С++", "А4"."""
    table = _TABLES[_LATIN]
    return "".join(table.get(char, char) for char in word) if all(c in table or c < "\x80" for c in word) else word


def _fold_words(text: str) -> str:
    if _LATIN_IN_CYRILLIC.search(text) or _GREEK_IN_OTHERS.search(text):
        return _WORD.sub(lambda found: fold_mixed_script(found[0]), text)
    return text


def fold_forms(text: str) -> str:
    """Fold compatibility forms and invisible signs, not words of two scripts; the length may change."""
    if UNUSUAL.search(text):
        text = unicodedata.normalize("NFC", text)
        text = _IGNORABLE_IN_WORD.sub("", text) if _ANY_IGNORABLE.search(text) else text
        text = (_KEYCAP.sub("", text) if "\u20e3" in text else text).translate(_FOLDED)
    return text


def fold_characters(text: str) -> str:
    """Fold all characters; the length may change. Invisible signs inside a word join its halves, others become spaces."""
    return _fold_words(fold_forms(text))


def normalize_characters(text: str) -> str:
    """Fold characters, keeping the length: what is invisible inside a word becomes spaces behind the word."""
    if text.isascii() and text.isprintable():
        return text
    if _ANY_IGNORABLE.search(text):
        text = _WORD_WITH_IGNORABLE.sub(lambda found: "".join(filter(str.isalnum, found[0])).ljust(len(found[0])), text)
    return _fold_words(text.translate(_FOLDED_TO_ONE))


def fold_word(word: str) -> str:
    """Fold a lower-case word by itself: compatibility forms, and letters of another script."""
    return word if word.isascii() else fold_mixed_script(word.translate(_FOLDED).lower())
