"""Whether a name as it is said is one as it is written: in another case, in part, with other signs between. Pure."""

from __future__ import annotations

import re

__all__ = ["same_file", "same_name"]

_WORD = re.compile(r"[^\W_]+")
_CYRILLIC = re.compile(r"[а-я]")
_CASES = re.compile(r"(?<=..)(?:ого|ому|[ыи]ми?|[оае]м|[ыи]х)$")
_VOWELS = re.compile(r"(?<=..)[аеиоуыьэюяй]+$")
_BETWEEN = re.compile(r"[\s_-]+")


def same_name(said: str, written: str) -> bool:
    """Whether every word that is said is one of the name: "Анны Смирновой" is "Анна Смирнова, редактор"."""
    wanted, there = _words(said), _words(written)
    known = set().union(*there)
    return bool(wanted) and not any(one.isdisjoint(known) for one in wanted)


def _words(name: str) -> list[set[str]]:
    """For each word what it may be but for its ending: "Максим" may be one that ends, "Максима" tells."""
    plain = name.casefold().replace("ё", "е").replace("'s", "").replace("’s", "")
    return [_bases(word) for word in _WORD.findall(plain)]


def _bases(word: str) -> set[str]:
    return {_VOWELS.sub("", form) for form in (word, _CASES.sub("", word))} if _CYRILLIC.search(word) else {word}


def same_file(said: str, written: str) -> bool:
    """Whether a file name is said; Telegram Desktop writes "_" for a space. Several are written with commas between."""
    wanted = _plain(said)
    return wanted == _plain(written) or wanted in map(_plain, written.split(", "))


def _plain(name: str) -> str:
    return _BETWEEN.sub("_", name.strip().casefold().replace("ё", "е"))
