"""Tokenizer: text to stemmed terms, the one analysis for posts and questions (Russian and English).

Steps: characters folded (`character_folding`), lower case, numbers in digits alone, ё to е, accents off, stop words
out, Snowball stem by the script of each token; a Russian form that Snowball splits from its dictionary form ("батареек"
from "батарейка", "людей" from "человек") gets the stem of that.
Any change here changes every index: raise `ANALYSIS_VERSION`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from py_rust_stemmers import SnowballStemmer

from rag_core.text.character_folding import UNUSUAL, fold_forms, fold_short_name, fold_word
from rag_core.text.morphology import list_dictionary_forms
from rag_core.text.numerals import write_numbers_in_digits

# Compiles a pattern with its first use: a question needs a third of them, and to compile all takes a third of a second.
compile_pattern = cache(re.compile)


def read_phrases(file: Path) -> dict[str, str]:
    """Read a file of phrases: the alternatives of each section, as one regular expression."""
    sections: dict[str, list[str]] = {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return {name: "|".join(lines) for name, lines in sections.items()}


ANALYSIS_VERSION = 8  # from 6 on an index knows which terms of a passage only its header has
# Versions whose terms are much the same: their indexes answer until they are rebuilt.
READABLE_ANALYSES = frozenset({3, 4, 5, 6, 7, ANALYSIS_VERSION})

WORD = re.compile(r"[^\W_]+")
# A sign at the end of a name of one or two letters, or a full stop before a short one, belongs to it: C++, F#, A+, .NET.
_SIGN_AFTER = re.compile(r"[+#](?<=[^\W\d_].)")
_SIGN_BEFORE = re.compile(r"\.(?<![\w.]\.)[a-zа-я]")
# Both as patterns around that of a word, of lower-case text.
STOP_BEFORE_NAME = r"(?:\.(?<![\w.]\.)(?=[a-zа-я]{2,4}(?![\w.])))?"
SIGN_AFTER_NAME = r"(?:(?<=[^\W\d_])(?<![^\W_]{3})(?:\+\+(?![^\W\d_+])|[+#](?![\w+#])))?"
_SIGNED_WORD = re.compile(rf"{STOP_BEFORE_NAME}[^\W_]+{SIGN_AFTER_NAME}")
_CYRILLIC = re.compile(r"[а-я]")
# Marks left after NFC composition: the stress mark of "за́мок" is no part of the word.
_COMBINING_MARKS = re.compile("[\u0300-\u036f]")
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
    word = fold_word(word).replace("ё", "е")
    if not word.isascii() and not _CYRILLIC.search(word):
        word = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return word if word.isalpha() or word[:1] == "." else fold_short_name(word)


def stem_dictionary_form(word: str) -> str:
    """Stem a lower-case word without ё that is known to be a dictionary form: `stem`, without its look-up."""
    if word.isascii():
        return word if word.isdigit() else _ENGLISH_STEMMER.stem_word(word)
    if word in _HUNDRED:
        return "100"
    return _RUSSIAN_STEMMER.stem_word(word) if _CYRILLIC.search(word) else word


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Stem one lower-case word with Snowball; its script decides the language. Empty for a stop word."""
    word = _fold_spelling(word)
    if word in STOP_WORDS or (word[:1] == "." and word[1:] in STOP_WORDS):
        return ""
    if not word.isalnum():
        return word  # "c++", ".net"
    if word.isascii() or not _CYRILLIC.search(word):
        return stem_dictionary_form(word)
    own = stem_dictionary_form(word)
    stems = [stem_dictionary_form(_fold_spelling(form)) for form in list_dictionary_forms(word)]
    # Where one reading agrees, the stem stays: "стали" may be steel, and "мыла" soap.
    return own if own in stems or not stems else stems[0]


def tokenize(text: str) -> list[str]:
    """Split a text into stemmed terms, in order, with repetitions and without stop words."""
    if UNUSUAL.search(text):
        text = _COMBINING_MARKS.sub("", fold_forms(text))
    low = write_numbers_in_digits(text.lower())
    return [s for s in map(stem, (_SIGNED_WORD if _may_hold_signs(low) else WORD).findall(low)) if s]


def _may_hold_signs(low: str) -> bool:
    after = ("+" in low or "#" in low) and _SIGN_AFTER.search(low)
    return bool(after or _SIGN_BEFORE.search(low))


def tokenize_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Tokenize parts of a text, (start, end) of each: `tokenize` of every part, the text being read once."""
    low = text.lower()
    if UNUSUAL.search(text) or _may_hold_signs(low) or write_numbers_in_digits(low) != low:
        return [tuple(tokenize(text[start:end])) for start, end in spans]
    return [tuple([s for s in map(stem, WORD.findall(low, start, end)) if s]) for start, end in spans]


def fold_case(text: str) -> str:
    """Fold to lower case without ё, keeping the length, so that offsets stay valid."""
    low = text.lower()
    if len(low) != len(text):  # the lower case of "İ" has two characters
        low = "".join(one if len(one := letter.lower()) == 1 else letter for letter in text)
    return low.replace("ё", "е")
