"""Tokenizer: text to stemmed terms, the one analysis for posts and questions (Russian and English).

Steps: characters folded, lower case, numbers in digits alone, ё to е, accents off, stop words
out, Snowball stem by the script of each token; a Russian form that Snowball splits from its dictionary form ("батареек"
from "батарейка", "людей" from "человек") gets the stem of that.
Any change here changes every index: raise `ANALYSIS_VERSION`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from math import ceil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from py_rust_stemmers import SnowballStemmer

from rag_core.text.numbers import write_numbers_in_digits

if TYPE_CHECKING:
    from pymorphy3 import MorphAnalyzer

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
        with suppress(KeyError):
            return unicodedata.lookup(f"{script} SMALL LETTER {letter}")
    return char


_FOLDED, _FOLDED_TO_ONE = _CharacterTable(same_length=False), _CharacterTable(same_length=True)

# Lower-case letters that look alike in one case at least: Latin, Cyrillic, Greek ("-" for none).
_LOOK_ALIKES = "aаα bвβ cс- eеε hнη iіι jј- kкκ mмμ oоο pрρ sѕ- tтτ xхχ yуυ z-ζ n-ν".split()
_SCRIPTS = re.compile("[a-z]"), re.compile("[\u0400-\u052f]"), re.compile("[\u0370-\u03ff]")
_TABLES = [
    {row[other]: row[own] for row in _LOOK_ALIKES for other in range(3) if other != own and "-" not in row[own] + row[other]}
    for own in range(3)
]  # fmt: skip
_LATIN, _RUSSIAN = 0, 1
_LATIN_IN_CYRILLIC = re.compile("[A-Za-z](?:[\u0400-\u052f]|(?<=[\u0400-\u052f].))")
_GREEK_IN_OTHERS = re.compile("[\u0370-\u03ff](?:[A-Za-z\u0400-\u052f]|(?<=[A-Za-z\u0400-\u052f].))")
LETTERS = re.compile(r"[^\W\d_]+")


def fold_mixed_script(word: str) -> str:
    """Fold the look-alikes of a word of two scripts to the script of its majority, where that leaves one script."""
    low = word.lower()
    counts = [len(script.findall(low)) for script in _SCRIPTS]
    if word.isascii() or sum(map(bool, counts)) < 2 or len(low) != len(word):
        return word
    for own in sorted(range(3), key=lambda n: (-counts[n], n != _RUSSIAN)):
        if counts[own] and all(char in _TABLES[own] or _SCRIPTS[own].match(char) for char in low if char.isalpha()):
            folded = (_TABLES[own].get(char, char) for char in low)
            return "".join(new.upper() if old.isupper() else new for old, new in zip(word, folded, strict=True))
    return word


def _fold_words(text: str) -> str:
    if _LATIN_IN_CYRILLIC.search(text) or _GREEK_IN_OTHERS.search(text):
        return LETTERS.sub(lambda found: fold_mixed_script(found[0]), text)
    return text


def fold_characters(text: str, *, words: bool = True) -> str:
    """Fold all characters; the length may change. Invisible signs inside a word join its halves, others become spaces.

    `words`: also look-alikes in words of two scripts.
    """
    if UNUSUAL.search(text):
        text = unicodedata.normalize("NFC", text)
        text = _IGNORABLE_IN_WORD.sub("", text) if _ANY_IGNORABLE.search(text) else text
        text = (_KEYCAP.sub("", text) if "\u20e3" in text else text).translate(_FOLDED)
    return _fold_words(text) if words else text


def normalize_characters(text: str) -> str:
    """Fold characters, keeping the length: what is invisible inside a word becomes spaces behind the word."""
    if text.isascii() and text.isprintable():
        return text
    if _ANY_IGNORABLE.search(text):
        text = _WORD_WITH_IGNORABLE.sub(lambda found: "".join(filter(str.isalnum, found[0])).ljust(len(found[0])), text)
    return _fold_words(text.translate(_FOLDED_TO_ONE))


def detect_language(text: str) -> str:
    """Detect the language, "ru" or "en", by function words, else by letters: a third of them Cyrillic is Russian.

    Function words come first: a Russian question about the Golden Gate Quartet has more Latin letters than
    Cyrillic ones, an English one about Кирпичики more Cyrillic ones.
    """
    low = text.lower().replace("ё", "е")
    words = WORD.findall(low)
    russian, english = (sum(word in stops for word in words) for stops in (RUSSIAN_STOP_WORDS, ENGLISH_STOP_WORDS))
    if russian != english:
        return "ru" if russian > english else "en"
    letters = [c for c in low if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" for c in letters)
    return "ru" if letters and cyrillic * 3 >= len(letters) else "en"


def read_phrases(file: Path) -> dict[str, str]:
    """Read a file of phrases: the alternatives of each section, as one regular expression."""
    sections: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return {name: "|".join(lines) for name, lines in sections.items()}


ANALYSIS_VERSION = 8  # an index of another version is built anew

WORD = re.compile(r"[^\W_]+")
# A sign at the end of a name of one or two letters, or a full stop before a short one, belongs to it: C++, F#, A+, .NET.
_SIGN_AFTER = re.compile(r"[+#](?<=[^\W\d_].)")
_SIGN_BEFORE = re.compile(r"\.(?<![\w.]\.)[a-zа-я]")
# Both as patterns around that of a word, of lower-case text.
STOP_BEFORE_NAME = r"(?:\.(?<![\w.]\.)(?=[a-zа-я]{2,4}(?![\w.])))?"
SIGN_AFTER_NAME = r"(?:(?<=[^\W\d_])(?<![^\W_]{3})(?:\+\+(?![^\W\d_+])|[+#](?![\w+#])))?"
_SIGNED_WORD = re.compile(rf"{STOP_BEFORE_NAME}[^\W_]+{SIGN_AFTER_NAME}")
CYRILLIC = re.compile(r"[а-я]")
_COMBINING_MARKS = re.compile(f"[{_MARKS}]")
_RUSSIAN_STEMMER, _ENGLISH_STEMMER = SnowballStemmer("russian"), SnowballStemmer("english")

# Function words and question words: they shape the question and say nothing of its topic.
_STOP_WORDS_RU = """
а без более больше будет будто бы был была были было быть в вам вас вдруг ведь во вот впрочем все всегда
всего всех всю вы где да даже для до другой его ее ей ему если есть еще ж же за зачем здесь и из или им
именно иногда их к как какая какие какими каких какого какой каком какому какую кем когда кого кому конечно
которая которого которое которой котором которые который которых кто куда ли лучше между меня мне много
может можно мой моя мы на над надо наконец нас насколько не него нее ней нельзя нет ни нибудь никогда ним
них ничего но ну о об один он она они оно опять от откуда перед по под после потом потому почему почти при
про раз разве с сам свое своего своей своим своих свою себе себя сейчас сколько со совсем так также такие
такое такой там тебя тем теперь то тогда того тоже только том тот три тут ты у уж уже хоть чего чей чем
через что чтоб чтобы чуть чье чьи чья эта эти этим этих это этого этой этом этот эту я является являлась
являлся являются пожалуйста плиз пж подскажи подскажите скажи скажите чё че што эт ваще вообще типа короче кто-нибудь
привет здравствуйте какова каков каково нужно ли
щас счас ща щаз тока ето плз пжл пжлст хз кароч чет чета чо шо када кагда нада мона можна
скока скоко скок сколька
"""
_STOP_WORDS_EN = """
a about after again all also am an and any are as at be because been before being between both but by can
could did do does doing down during each few for from further had has have having he her here hers him his
how i if in into is it its itself just many me more most much my no nor not now of off on once only or other our out
over own s same she should so some such t than that the their them then there these they this those through
to too under until up very was we were what when where which while who whom whose why will with would you your
whats thats whos wheres whens hows theres dont doesnt didnt isnt arent wasnt cant couldnt wont im ive u ur pls plz
please hi hey hello anyone someone anything something ok okay really actually
wanna gonna gotta lemme gimme btw theyre youre hes shes wen wat wot
"""
RUSSIAN_STOP_WORDS, ENGLISH_STOP_WORDS = frozenset(_STOP_WORDS_RU.split()), frozenset(_STOP_WORDS_EN.split())
STOP_WORDS = RUSSIAN_STOP_WORDS | ENGLISH_STOP_WORDS


_HUNDRED = frozenset({"сто", "ста"})  # Snowball gives the numeral the stem of "стоит"


def _fold_spelling(word: str) -> str:
    """Fold spelling variants: forms and scripts of letters, ё to е everywhere, é to e in Latin words."""
    if not word.isascii():
        word = fold_mixed_script(word.translate(_FOLDED).lower()).replace("ё", "е")
    if not word.isascii() and not CYRILLIC.search(word):
        word = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    if word.isalpha() or word[:1] == ".":
        return word
    # a short name with a digit or a sign, all of whose letters look Latin: "1С", "С++", "А4"
    latin = _TABLES[_LATIN]
    return "".join(latin.get(char, char) for char in word) if all(c in latin or c < "\x80" for c in word) else word


def stem_dictionary_form(word: str) -> str:
    """Stem a lower-case word without ё that is known to be a dictionary form: `stem`, without its look-up."""
    if word.isascii():
        return word if word.isdigit() else _ENGLISH_STEMMER.stem_word(word)
    if word in _HUNDRED:
        return "100"
    return _RUSSIAN_STEMMER.stem_word(word) if CYRILLIC.search(word) else word


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Stem one lower-case word with Snowball; its script decides the language. Empty for a stop word."""
    word = _fold_spelling(word)
    if word in STOP_WORDS or (word[:1] == "." and word[1:] in STOP_WORDS):
        return ""
    if not word.isalnum():
        return word  # "c++", ".net"
    if word.isascii() or not CYRILLIC.search(word):
        return stem_dictionary_form(word)
    own = stem_dictionary_form(word)
    stems = [stem_dictionary_form(_fold_spelling(form)) for form in list_dictionary_forms(word)]
    # Where one reading agrees, the stem stays: "стали" may be steel, and "мыла" soap.
    return own if own in stems or not stems else stems[0]


def tokenize(text: str) -> list[str]:
    """Split a text into stemmed terms, in order, with repetitions and without stop words."""
    if UNUSUAL.search(text):
        text = _COMBINING_MARKS.sub("", fold_characters(text, words=False))
    low = write_numbers_in_digits(text.lower().replace("i\u0307", "i"))  # "İstanbul" is one word
    signed = (("+" in low or "#" in low) and _SIGN_AFTER.search(low)) or _SIGN_BEFORE.search(low)
    return [s for s in map(stem, (_SIGNED_WORD if signed else WORD).findall(low)) if s]


def fold_case(text: str) -> str:
    """Fold to lower case without ё, keeping the length, so that offsets stay valid."""
    low = text.lower()
    if len(low) != len(text):  # the lower case of "İ" has two characters
        low = "".join(one if len(one := letter.lower()) == 1 else letter for letter in text)
    return low.replace("ё", "е")


_LOADING = Lock()  # threads that come first would each load it


def load_dictionary() -> MorphAnalyzer:
    """Load the dictionary, once: early, so that no question waits for it."""
    with _LOADING:
        return _create_analyzer()


@cache
def _create_analyzer() -> MorphAnalyzer:
    from pymorphy3 import MorphAnalyzer

    return MorphAnalyzer()


def list_dictionary_forms(word: str) -> tuple[str, ...]:
    """List the dictionary forms of a lower-case word, the likeliest first; none for a word not in the dictionary."""
    if word.isascii() or not (dictionary := load_dictionary()).word_is_known(word):
        return ()
    return tuple(dict.fromkeys(parse.normal_form for parse in dictionary.parse(word)))


def put_in_nominative(word: str) -> str:
    """Put a Russian word into the nominative ("Кирпичной" is "Кирпичная"), unless it may be in it already."""
    if word.isascii() or not word.isalpha():
        return word
    parses = load_dictionary().parse(word.lower())
    if any("nomn" in parse.tag for parse in parses) or (nominative := parses[0].inflect({"nomn"})) is None:
        return word
    return nominative.word.capitalize() if word[0].isupper() else str(nominative.word)


def is_dictionary_word(word: str) -> bool:
    """Whether the dictionary holds a lower-case word, in any form; it has none of Latin letters."""
    return not word.isascii() and load_dictionary().word_is_known(word)


class WordReading(NamedTuple):
    """Grammatical reading of a word form, by the tags of OpenCorpora ("NOUN", "nomn", "masc"); "" where one has none."""

    lemma: str
    part: str = ""
    case: str = ""
    gender: str = ""
    number: str = ""
    person: str = ""
    tense: str = ""
    name: bool = False


@lru_cache(maxsize=20_000)
def read_word(word: str) -> tuple[WordReading, ...]:
    """Read a lower-case Russian word, the likeliest reading first; words not in the dictionary by their endings."""
    try:
        parses = load_dictionary().parse(word)
    except ValueError:  # pymorphy3 asks for the name of each letter, and some letters have none
        return (WordReading(word),)
    # pymorphy3's own strings raise ValueError where they are compared with others, the empty one too
    readings = []
    for parse, tag in ((parse, parse.tag) for parse in parses):
        forms = (tag.POS, tag.case, tag.gender, tag.number, tag.person, tag.tense)
        name = bool({"Name", "Surn", "Patr"} & tag.grammemes)
        readings.append(WordReading._make((parse.normal_form, *(str(one or "") for one in forms), name)))
    return tuple(readings)


_MIN_COMMON_PREFIX = 4  # common first letters: fewer is chance


def measure_stem_similarity(term: str, others: Iterable[str]) -> float:
    """Measure similarity to the closest other stem by common beginning, 0..1: "учител" and "учительниц" are similar."""
    best, start = 0.0, term[:_MIN_COMMON_PREFIX]
    for other in others:
        if other[:_MIN_COMMON_PREFIX] != start:
            continue  # most stems: nothing is measured
        least, most = sorted((len(term), len(other)))
        enough = max(_MIN_COMMON_PREFIX, ceil(0.6 * most))
        if enough <= least and other[:enough] == term[:enough]:
            same = next((n for n in range(enough, least) if term[n] != other[n]), least)
            if same > _MIN_COMMON_PREFIX or same == least:  # "bread" and "break" only begin alike
                best = max(best, same / most)
    return best


_MIN_MISSPELT = 5  # letters


@lru_cache(maxsize=20_000)
def is_misspelt(one: str, other: str) -> bool:
    """Check whether one of two folded Russian words is the other with one letter wrong; of two known words neither is."""
    if one.isascii() or other.isascii():
        return False
    if max(len(one), len(other)) < _MIN_MISSPELT or abs(len(one) - len(other)) > 1 or one[0] != other[0]:
        return False
    from rapidfuzz.distance import OSA

    if OSA.distance(one, other, score_cutoff=1) > 1:
        return False
    return not (is_dictionary_word(one) and is_dictionary_word(other))


# Limits: candidates compared per common beginning, and similar stems kept per term.
_MAX_COMPARED_STEMS, _MAX_SIMILAR_STEMS = 64, 8


def find_similar_stems(asked: Iterable[str], others: Iterable[str]) -> dict[str, list[tuple[float, str]]]:
    """Map each asked stem to its similar stems, most similar first, at most `_MAX_SIMILAR_STEMS`, itself left out."""
    by_start = defaultdict[str, list[str]](list)
    for other in dict.fromkeys(others):
        by_start[other[:_MIN_COMMON_PREFIX]].append(other)
    similar = {}
    for term in asked:
        near = (one for one in by_start.get(term[:_MIN_COMMON_PREFIX], ())[:_MAX_COMPARED_STEMS] if one != term)
        scored = ((measure_stem_similarity(term, (other,)), other) for other in near)
        similar[term] = sorted((one for one in scored if one[0]), key=lambda one: -one[0])[:_MAX_SIMILAR_STEMS]
    return similar
