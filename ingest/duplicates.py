"""The same post in other words' dress: what two texts are compared by. Pure.

Exactly the same: the same words and numbers in the same order; case, ё/е, punctuation, links, @mentions, emoji
and a channel's footers (calls to subscribe, credits, rows of links) aside. Nearly the same: one holds every word
of the other in the same order and little more, and both state the same facts: numbers, dates, names, negations.
So a corrected price, a "не" or another name is another post.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from hashlib import blake2b

from rensa import RMinHash

from ingest.footers import body
from rag_core.analysis import stem
from rag_core.readable import readable

__all__ = ["BANDS", "RECIPE", "Words", "agree", "alike", "exact", "near", "words_of"]

SHORTEST = 5  # words: with fewer one more or less is another text
BANDS = 6
_ROWS = 3  # of each band: texts that share 4 of 5 words meet with 98.6 %, those that share 1 of 3 with 20 %
_SHARE = 0.8  # of the longer text's words that the shorter holds
_SEED = 7
_VERSION = 1  # to be raised with every change of what is compared

# What is in a text and not seen: soft hyphens, stress, zero-width marks; and digits that are emoji.
_UNSEEN = re.compile("[\u00ad\u0301\u200b-\u200f\u2060\ufeff]|[0-9#*]\ufe0f?\u20e3")
# A word; a number; a sign that says what is counted; a minus; what ends a sentence. Told apart by the first character.
_TOKEN = re.compile(
    r"[^\W\d_]+"
    r"|\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,:]\d+)*"
    r"|[%‰$€£₽₴¥]"
    r"|(?<![^\s(«\"])[-−–](?=\d)"
    r"|[.!?…\n]+"
)
_ENDS, _MINUS = frozenset(".!?…\n"), frozenset("-−–")

_DATES = """
январь января январе февраль февраля феврале март марта марте апрель апреля апреле май мая мае июнь июня июне июль июля
июле август августа августе сентябрь сентября сентябре октябрь октября октябре ноябрь ноября ноябре декабрь декабря
декабре зимой весной летом осенью утром днем вечером ночью полдень полудня полночь полуночи
january february march april may june july august september october november december morning afternoon evening night
"""
_RELATIVE = """
сегодня вчера завтра послезавтра позавчера накануне неделе неделю понедельник понедельника понедельнику вторник вторника
вторнику среда среду среды среде четверг четверга четвергу пятница пятницу пятницы пятнице суббота субботу субботы
субботе воскресенье воскресенья воскресенью today yesterday tomorrow tonight week monday tuesday wednesday thursday
friday saturday sunday
"""
_NUMBERS = """
ноль один одна одно одного одной два две двух двое три трех трое четыре четырех четверо пять пяти шесть шести семь семи
восемь восьми девять девяти десять десяти сто двести тысяча тысячи тысяч тыс миллион миллиона миллионов млн миллиард
миллиарда миллиардов млрд триллион триллионов трлн первый первая первое первого первой второй вторая второе второго
третий третья третье третьего половина половину половины треть трети четверть четверти полтора вдвое втрое дважды трижды
zero one two three four five six seven eight nine ten hundred thousand million billion trillion first second third half
twice
"""
# Nothing changes a text as much as these: what denies, limits, doubts, or takes it back.
_NEGATIONS = """
не ни нет нельзя без никто никого никому ничто ничего никогда никак нигде никакой никаких кроме вместо
not no nor never none nobody nothing neither without cannot except instead don doesn didn isn aren wasn weren won
wouldn shouldn couldn can hasn haven hadn
"""
_DOUBTS = """
якобы едва чуть почти лишь только возможно вероятно бывший бывшая экс фейк ложь неправда слухи опровергли опроверг
опровержение отменили отменен отменена обновлено обновление уточнение исправлено upd update updated corrected correction
fake false denied former allegedly almost only possibly cancelled canceled
"""
_FACTS = frozenset(f"{_DATES} {_RELATIVE} {_NUMBERS} {_DOUBTS}".split())
_DENYING = frozenset(_NEGATIONS.split())
_TOLD_FROM_TODAY = frozenset(_RELATIVE.split())


@dataclass(frozen=True, slots=True)
class Words:
    """A text as it is compared: all its words in lower case, and what it states, in order."""

    all: tuple[str, ...]
    facts: tuple[str, ...]

    @property
    def today(self) -> bool:
        """Whether it speaks of days as seen from its own ("tomorrow", "on Friday"): later it tells something else."""
        return not _TOLD_FROM_TODAY.isdisjoint(self.all)


def words_of(text: str) -> Words:
    """Read a text for comparison; one without words of its own has none."""
    said = body(readable(_UNSEEN.sub("", unicodedata.normalize("NFC", text))))
    tokens = [""]  # with nothing where a sentence begins or ends
    names: set[int] = set()  # places of words with a capital that no sentence begins with, and of ЦБ
    for token in _TOKEN.findall(said):
        first = token[0]
        if first in _ENDS:
            tokens.append("")
            continue
        if first.isupper() and (tokens[-1] or (len(token) > 1 and token.isupper())):
            names.add(len(tokens))
        tokens.append(_number(token) if first.isdigit() else "минус" if first in _MINUS else token)
    tokens.append("")
    low = "\0".join(tokens).lower().replace("ё", "е").split("\0")
    return Words(tuple(filter(None, low)), tuple(_facts(low, names)))


def _number(written: str) -> str:
    """One spelling for one number: "1 000,5" and "1000.5", "10:30" and "10.30"."""
    return written if written.isdigit() else re.sub(r"\s", "", written).replace(",", ".").replace(":", ".")


def _facts(tokens: list[str], names: set[int]) -> list[str]:
    """A number with the words beside it (before, beyond; roubles, days), a denial with what it denies."""
    found = []
    for at, token in enumerate(tokens):
        if token[:1].isdigit():
            found.append(" ".join(tokens[at - 1 : at + 2]))
        elif token in _DENYING:
            found.append(f"{token} {tokens[at + 1]}")
        elif at in names or token in _FACTS:
            found.append(token)
    return found


def exact(text: str | Words) -> bytes:
    """16 bytes that are the same for texts that are exactly the same; none for a text without words."""
    words = text if isinstance(text, Words) else words_of(text)
    return blake2b(" ".join(words.all).encode("utf-8", "surrogatepass"), digest_size=16).digest() if words.all else b""


def near(text: str | Words) -> tuple[int, ...]:
    """The bands of a text's MinHash signature, BANDS signed 64-bit numbers; none for a short text.

    Of two texts that are nearly the same at least one band is equal; texts of other facts share none.
    """
    words = text if isinstance(text, Words) else words_of(text)
    if len(words.all) < SHORTEST:
        return ()
    sketch = RMinHash(num_perm=BANDS * _ROWS, seed=_SEED)
    sketch.update([stem(word) or word for word in set(words.all)])
    rows = sketch.digest()
    facts = "\0".join(words.facts)
    return tuple(_hash(f"{at} {rows[at : at + _ROWS]} {facts}") for at in range(0, len(rows), _ROWS))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def _stems(words: Words) -> list[str]:
    return [stem(word) or word for word in words.all]


def agree(one: str | Words, other: str | Words) -> bool:
    """Whether two texts state the same numbers, dates, names and negations, in the same order."""
    a, b = (text if isinstance(text, Words) else words_of(text) for text in (one, other))
    return a.facts == b.facts


def alike(one: str | Words, other: str | Words) -> bool:
    """Whether two texts are the same post: exactly, or nearly and of the same facts. Texts without words never are."""
    a, b = (text if isinstance(text, Words) else words_of(text) for text in (one, other))
    shorter, longer = sorted((a, b), key=lambda words: len(words.all))
    if a.all == b.all or len(shorter.all) < SHORTEST:
        return a.all == b.all != ()
    if len(shorter.all) < _SHARE * len(longer.all) or not agree(a, b):
        return False
    rest = iter(_stems(longer))
    return all(word in rest for word in _stems(shorter))


def _recipe() -> str:
    """What this way of comparing is known by: its own version, and what the library makes of a few and many words."""
    many = " ".join(chr(97 + n % 26) * (1 + n // 26) for n in range(400))
    return f"{_VERSION} {exact(many).hex()} {near('a few words and no more')[0]} {near(many)[0]}"


# Signatures of another recipe cannot be compared with ours.
RECIPE = _recipe()
