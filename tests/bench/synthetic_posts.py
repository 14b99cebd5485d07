"""Invented channels that behave like real ones: same seed and size, same posts, on every machine.

Words are pronounceable nonsense, Russian and English, among real function words. How often each is used
follows Zipf's law with Mandelbrot's shift, how long posts are a log-normal law; both were fitted by eye to
Russian news channels (a post has 31 terms in the middle, 40 on average; the commonest word of content
stands in one post of six).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from rag_core.text.tokens import STOP_WORDS, stem
from rag_core.types import Channel, Origin, Post, PostKey, SearchFilter, Visibility

Ints = NDArray[np.int64]

_SHARES = np.array([24, 18, 13, 10, 8, 7, 6, 5, 4, 2, 2, 1]) / 100  # of posts, by channel; every third is English
CHANNELS = tuple(
    Channel(-1_001_000_000_000 - n, f"{title} {n}", f"bench_{n}", "channel", Visibility.PUBLIC)
    for n, title in enumerate(["Channel", "Канал", "Канал"] * 4)
)
_FROM, _DAYS = datetime(2024, 1, 1, tzinfo=UTC), 731
_MIDDLE, _SPREAD, _SHORTEST, _LONGEST = 42, 0.7, 3, 800  # words of a post
_STOPS = 0.26  # share of function words
_AGAIN = 0.12  # chance that a word repeats an earlier one of its post
_COPIES = 0.03
_VOCABULARY = 300  # words of one language, times the root of the number of posts (Heaps' law)
_SENTENCES = (9, 14, 7, 11, 17)  # words, over and over


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
    def make(cls, size, rng):
        """Invent them; the order is the order of how often they are used."""
        functions = [word for stops in (_STOPS_RU, _STOPS_EN) for word in rng.permutation(stops).tolist()]
        return cls([*_invented(*_RU, size, rng), *_invented(*_EN, size, rng), *functions], size)

    def drawn(self, chance, russian, function):
        """One word for each chance (0..1), in the language and of the kind asked for."""
        word = np.searchsorted(_law(self.size), chance).astype(np.int32)
        word[~russian] += self.size
        first = 2 * self.size
        for language, stops in ((russian, _STOPS_RU), (~russian, _STOPS_EN)):
            here = function & language
            word[here] = first + np.searchsorted(_law(len(stops)), chance[here])
            first += len(stops)
        return word


def _law(size):
    weights = (np.arange(1, size + 1) + _SHIFT) ** -_POWER
    share = np.cumsum(weights) / weights.sum()
    share[-1] = 1.0
    return share


def _invented(onsets, vowels, closing, endings, size, rng):
    """Different words, longer the rarer they are; some are numbers."""

    def some(parts):
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


@dataclass(frozen=True, slots=True)
class Window(SearchFilter):
    """A filter: 3 channels and half a year."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Query:
    """Some words of one post, their terms, and a filter that this post passes."""

    post: int
    words: tuple[str, ...]
    terms: tuple[str, ...]
    window: Window


@dataclass(frozen=True, slots=True)
class Frame:
    """Where and when posts were written: `channel` counts in CHANNELS, `date` is in Unix seconds and grows."""

    channel: NDArray[np.int16]
    date: Ints

    @classmethod
    def make(cls, size, seed=1):
        """Two years, a little more every month, quiet at night."""
        rng = np.random.default_rng([seed, size, 0])
        day = np.floor(rng.power(1.2, size) * _DAYS)
        hour = np.clip(rng.normal(15, 4.5, size), 0, 23.99)
        date = np.sort((_FROM.timestamp() + day * 86_400 + hour * 3600).astype(np.int64))
        return cls(rng.choice(len(_SHARES), size, p=_SHARES).astype(np.int16), date)

    def __len__(self):
        return len(self.channel)

    def key(self, post):
        """What the post is known by; message ids grow within a channel, with gaps."""
        return PostKey(CHANNELS[self.channel[post]].chat_id, post + 1)

    def when(self, post):
        return datetime.fromtimestamp(int(self.date[post]), UTC)

    def window(self, post, rng):
        others = rng.choice(len(CHANNELS), 2, replace=False).tolist()
        since = self.when(post) - timedelta(days=int(rng.integers(180)))
        channels = frozenset(CHANNELS[n].chat_id for n in (int(self.channel[post]), *others))
        return Window(channels, since, since + timedelta(days=181))

    def inside(self, only):
        mask = np.array([channel.chat_id in only.channels for channel in CHANNELS])[self.channel]
        if only.since and only.until:
            mask &= (self.date >= only.since.timestamp()) & (self.date < only.until.timestamp())
        return mask


@dataclass(frozen=True, slots=True)
class Corpus:
    """Posts as arrays: post i holds the words `flat[starts[i]:starts[i + 1]]`, numbers into `spelling`."""

    frame: Frame
    spelling: list[str]
    stems: list[str]  # empty for a function word
    flat: NDArray[np.int32]
    starts: Ints
    original: NDArray[np.int32]  # the post it copies, or -1

    def __len__(self):
        return len(self.frame)

    def words(self, post):
        return self.flat[self.starts[post] : self.starts[post + 1]].tolist()

    def terms(self, post):
        return [found for word in self.words(post) if (found := self.stems[word])]

    def text(self, post):
        said, lines, at = [self.spelling[word] for word in self.words(post)], [], 0
        while at < len(said):
            length = _SENTENCES[(len(said) + len(lines)) % len(_SENTENCES)]
            line = " ".join(said[at : at + length])
            lines.append(f"{line[0].upper()}{line[1:]}.")
            at += length
        return " ".join(lines)

    def posts(self, first, last):
        """Posts as the archive takes them; copies come as forwards."""
        for n in range(first, min(last, len(self))):
            source = int(self.original[n])
            title = CHANNELS[self.frame.channel[source]].title
            origin = None if source < 0 else Origin(title, *self.frame.key(source))
            yield Post(self.frame.key(n), self.frame.when(n), self.text(n), origin=origin)


def make_posts(size, seed=1):
    """A corpus of `size` posts: 1.5 s for 100,000."""
    rng, frame = np.random.default_rng([seed, size, 1]), Frame.make(size, seed)
    words, original = Words.make(int(_VOCABULARY * size**0.5), rng), _originals(size, rng)
    lengths = np.clip(rng.lognormal(np.log(_MIDDLE), _SPREAD, size), _SHORTEST, _LONGEST).astype(np.int64)
    lengths = np.where(original < 0, lengths, lengths[original])
    starts = np.r_[0, np.cumsum(lengths)]
    flat = _written(words, np.repeat(frame.channel % 3 > 0, lengths), starts, rng)
    for copy in np.flatnonzero(original >= 0):
        first = starts[original[copy]]
        flat[starts[copy] : starts[copy + 1]] = flat[first : first + lengths[copy]]
    return Corpus(frame, words.spelling, [stem(word) for word in words.spelling], flat, starts, original)


def _originals(size, rng):
    """For each post the earlier one it copies, or -1; what is copied is no copy itself."""
    copies = rng.random(size) < _COPIES
    copies[0] = False
    source = (rng.random(size) * np.arange(size)).astype(np.int32)
    return np.where(copies & ~copies[source], source, -1).astype(np.int32)


def _written(words, russian, starts, rng):
    total = len(russian)
    flat = words.drawn(rng.random(total), russian, rng.random(total) < _STOPS)
    place = np.arange(total) - np.repeat(starts[:-1], np.diff(starts))
    again = np.flatnonzero((rng.random(total) < _AGAIN) & (place > 0))
    flat[again] = flat[again - 1 - (rng.random(len(again)) * place[again]).astype(np.int64)]
    return flat


def draw_queries(corpus, count, seed=2):
    rng, queries = np.random.default_rng([seed, len(corpus)]), []
    while len(queries) < count:
        post = int(rng.integers(len(corpus)))
        said = {corpus.stems[word]: word for word in corpus.words(post) if corpus.spelling[word].isalpha()}
        said.pop("", None)
        if len(said) < 8:
            continue
        terms = rng.permutation(sorted(said))[: rng.integers(3, 7)].tolist()
        words = tuple(corpus.spelling[said[term]] for term in terms)
        queries.append(Query(post, words, tuple(terms), corpus.frame.window(post, rng)))
    return queries
