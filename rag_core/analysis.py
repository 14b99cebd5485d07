"""Text to terms: the one analysis that posts and questions share (Russian and English).

Lower case, ё as е, accents of Latin letters off, stop words out, Snowball stem by the token's own script.
Changing anything here changes every index: raise `ANALYSIS_VERSION`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from py_rust_stemmers import SnowballStemmer

__all__ = ["ANALYSIS_VERSION", "STOP_WORDS", "Term", "language_of", "stem", "terms", "terms_with_spans", "words"]

ANALYSIS_VERSION = 1

_WORD = re.compile(r"[^\W_]+")
_CYRILLIC = re.compile(r"[а-я]")
_RUSSIAN, _ENGLISH = SnowballStemmer("russian"), SnowballStemmer("english")

# Function words and question words: they say how a thing is asked, not what is asked about.
_STOP_RU = """
а без более больше будет будто бы был была были было быть в вам вас вдруг ведь во вот впрочем все всегда
всего всех всю вы где да даже для до другой его ее ей ему если есть еще ж же за зачем здесь и из или им
именно иногда их к как какая какие какими каких какого какой каком какому какую кем когда кого кому конечно
которая которого которое которой котором которые который которых кто куда ли лучше между меня мне много
может можно мой моя мы на над надо наконец нас насколько не него нее ней нельзя нет ни нибудь никогда ним
них ничего но ну о об один он она они оно опять от откуда перед по под после потом потому почему почти при
про раз разве с сам свое своего своей своим своих свою себе себя сейчас сколько со совсем так также такие
такое такой там тебя тем теперь то тогда того тоже только том тот три тут ты у уж уже хоть чего чей чем
через что чтоб чтобы чуть чье чьи чья эта эти этим этих это этого этой этом этот эту я является являлась
являлся являются
"""
_STOP_EN = """
a about after again all also am an and any are as at be because been before being between both but by can
could did do does doing down during each few for from further had has have having he her here hers him his
how i if in into is it its itself just me more most my no nor not now of off on once only or other our out
over own s same she should so some such t than that the their them then there these they this those through
to too under until up very was we were what when where which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset((_STOP_RU + _STOP_EN).split())

Term = tuple[str, int, int]  # stem, start, end (code points of the text it came from)


def _fold(word: str) -> str:
    """One spelling for one word: ё is е everywhere, é is e in Latin words."""
    word = word.replace("ё", "е")
    if word.isascii() or _CYRILLIC.search(word):
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """The Snowball stem of one lower-case word; the script decides the language. Empty for a stop word."""
    word = _fold(word)
    if word in STOP_WORDS:
        return ""
    if word.isascii():
        return word if word.isdigit() else _ENGLISH.stem_word(word)
    return _RUSSIAN.stem_word(word) if _CYRILLIC.search(word) else word


def terms(text: str) -> list[str]:
    """The terms of a text, in order, with repetitions."""
    return [s for word in _WORD.findall(text.lower()) if (s := stem(word))]


def terms_with_spans(text: str) -> list[Term]:
    """The terms of a text and where each stands."""
    # lower() may change the length of a text (İ), so that each word is lowered by itself
    return [(s, m.start(), m.end()) for m in _WORD.finditer(text) if (s := stem(m[0].lower()))]


def words(text: str) -> Iterator[re.Match[str]]:
    """Every word of a text, stop words too."""
    return _WORD.finditer(text)


def language_of(text: str) -> str:
    """ "ru" where a third of the letters is Cyrillic, otherwise "en": the language to answer in.

    A Russian question about the Golden Gate Quartet has more Latin letters than Cyrillic ones; an English
    question has hardly ever a Cyrillic word.
    """
    letters = [c for c in text.lower() if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" or c == "ё" for c in letters)
    return "ru" if letters and cyrillic * 3 >= len(letters) else "en"
