"""An invented vocabulary, Russian and English: nonsense that can be said aloud and stemmed, and real function words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_core.text.tokens import STOP_WORDS

_EVERY = 25  # word of each language is a number
_SHIFT, _POWER = 12.0, 1.05  # of Zipf's law
_STOPS_RU = sorted(word for word in STOP_WORDS if not word.isascii())
_STOPS_EN = sorted(word for word in STOP_WORDS if word.isascii())
# What a syllable begins with, its vowel, what the last one begins with, how the word ends.
_RU = (
    "б в г д ж з к л м н п р с т ф х ц ч ш б в г д к л м н п р с т в к л м н р с т бр гр др кр пр ск ст тр".split(),
    "а а а е е е и и о о о о у ы я".split(),
    "б в г д ж з к л м н п р с т ч ш".split(),
    "а ы ой ов ам ами ный ного ная ать ала ация ации ение ения ский ского ость ости ам ах ник ники".split(),
)
_EN = (
    "b c d f g h j k l m n p r s t v w b c d f g l m n p r s t d l m n r s t br ch cr gr pl pr sh st th tr".split(),
    "a a a e e e i i i o o u ai ea ee ou".split(),
    "b d f g k l m n p r s t v".split(),
    "e e es ed ing er ers ly ion ions ment able al ity ive ism".split(),
)


@dataclass(frozen=True, slots=True)
class Words:
    """`spelling` holds `size` Russian content words, as many English ones, then the function words of both."""

    spelling: list[str]
    size: int

    @classmethod
    def make(cls, size: int, rng: np.random.Generator) -> Words:
        """Invent them; the order is the order of how often they are used."""
        functions = [word for stops in (_STOPS_RU, _STOPS_EN) for word in rng.permutation(stops).tolist()]
        return cls([*_invented(*_RU, size, rng), *_invented(*_EN, size, rng), *functions], size)

    def drawn(
        self, chance: NDArray[np.float64], russian: NDArray[np.bool_], function: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """One word for each chance (0..1), in the language and of the kind asked for."""
        word = np.searchsorted(_law(self.size), chance).astype(np.int32)
        word[~russian] += self.size
        first = 2 * self.size
        for language, stops in ((russian, _STOPS_RU), (~russian, _STOPS_EN)):
            here = function & language
            word[here] = first + np.searchsorted(_law(len(stops)), chance[here])
            first += len(stops)
        return word


def _law(size: int) -> NDArray[np.float64]:
    weights = (np.arange(1, size + 1) + _SHIFT) ** -_POWER
    share: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    share[-1] = 1.0
    return share


def _invented(
    onsets: list[str], vowels: list[str], closing: list[str], endings: list[str], size: int, rng: np.random.Generator
) -> list[str]:
    """Different words, longer the rarer they are; some are numbers."""

    def some(parts: list[str]) -> NDArray[np.object_]:
        return rng.choice(parts, room).astype(object)

    room = 2 * size + 4000
    rare = np.linspace(0.1, 1.5, room)
    middle = np.where(rng.random(room) < rare, some(onsets) + some(vowels), "")
    further = np.where(rng.random(room) < rare - 0.9, some(onsets) + some(vowels), "")
    made = dict.fromkeys(some(onsets) + some(vowels) + middle + further + some(closing) + some(endings))
    words = [word for word in made if word not in STOP_WORDS][:size]
    numbers = dict.fromkeys(map(str, rng.lognormal(5, 2.5, size).astype(int).tolist()))
    for at, number in zip(range(7, size, _EVERY), numbers, strict=False):
        words[at] = number
    return words
