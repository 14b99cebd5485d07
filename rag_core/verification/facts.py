"""Checkable facts of a sentence: numbers, dates, times, names, links, negation and modality with their scopes.

A scope is the words after a "not", a "may" or a "must", as far as its clause goes. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from rag_core.text.numbers import Number, parse_numbers
from rag_core.text.sentences import split_sentences, windows
from rag_core.verification.date_time_parsing import Moment, parse_moments
from rag_core.verification.word_comparison import Vocabulary, Word, fold_text, split_words

_DENIAL_WORDS = frozenset(
    "не нет без нельзя not no never neither nor none nobody nothing without cannot unable incapable rarely hardly barely seldom "
    "scarcely невозможно вряд отсутствует отсутствуют отсутствие отсутствием lack lacks lacked lacking".split()
)
_NEGATIVE_PRONOUNS = frozenset(
    "ни никогда никто никого никому никем ничего ничто ничем ничему никакой никакая никакие никаких никакого никуда нигде".split()
)
_DENYING_VERBS = frozenset(
    "fail fails failed refuse refuses refused decline declines declined forget forgot отказался отказалась отказались".split()
)
_NOT_A_DENIAL = re.compile(
    r"^(?:не (?:только|менее|меньше|более|больше|раз\b|столько|просто|лишь|исключено|так|очень|слишком)|not (?:only|just|merely|necessarily|so|very|as)|no (?:less|fewer|more) than|no other|нет друг\w+|"
    r"no (?:doubt|wonder|matter)|нет (?:сомнени\w+))"
)
_DENIAL_PHRASES = re.compile(
    r"^(?:anything but|(?:something )?other than|(?:has|have|had|is|are|was|were) yet to|far from|вряд ли|едва ли|не вправе)"
)
_POSSIBILITY_WORDS = frozenset(
    "может могут мог могла могло могли возможно вероятно якобы предположительно будто бы may might could possibly perhaps probably allegedly "
    "reportedly likely supposedly".split()
)
_INTENTION_WORDS = frozenset(
    "планирует планируют планировал планировали собирался собиралась собирались намерен намерена намерены собирается собираются хочет хотят хотел обещает обещают обещал ожидается "
    "ожидают предлагает предлагают предложил предложили рассматривает рассматривают plans planned plan intends intend expected expects proposes "
    "proposed wants want hopes hope considering considers promises promised would offer offers offered aims aim target quote "
    "обещала обещаем просит просят попросил попросили надеются надеемся хотим хочу предложено планируется запланирован запланирована "
    "запланировано планы план проект".split()
)
_OBLIGATION_WORDS = frozenset(
    "должен должна должно должны обязан обязана обязаны обязано необходимо нужно надо следует must should shall obliged required ought".split()
)
_CLAUSE_END, _LIST_END = re.compile(r"[.,;:!?…()—–\n]"), re.compile(r"[.;:!?…()—–\n]")
_AUXILIARIES = frozenset(
    "буду будут будем будете смог смогла смогли смогут сможет стал стала стали станет станут удалось able".split()
)
_SCOPE_REACH, _SCOPE_REACH_BACK = 6, 3  # content words
_MOST_WALKED = 40  # words of any kind searched for them


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a negation or modal.

    `first` is the word it applies to (None if none follows), `wide` the words it may apply to, `at` its offset.
    """

    kind: str
    at: int
    first: Word | None
    wide: frozenset[str]


def find_denials(low: str, words: Sequence[Word]) -> list[Scope]:
    """Find negations with their scopes; "никогда не" is one negation, "не только" none."""
    found = [n for n, word in enumerate(words) if _is_denial(low, words, n)]
    plain = [n for n in found if words[n].low not in _NEGATIVE_PRONOUNS]
    found = plain if plain and len(plain) < len(found) and any(words[n].low == "не" for n in plain) else found
    return [_build_scope("not", low, words, n) for n in found]


def _is_denial(low: str, words: Sequence[Word], n: int) -> bool:
    said, rest = words[n].low, low[words[n].start : words[n].start + 30]
    if said in _DENYING_VERBS:
        return bool(re.match(r"\w+\s+(?:to\b|\w+ть(?:ся)?\b)", rest))
    if _DENIAL_PHRASES.match(rest):
        return True
    return (
        said in _DENIAL_WORDS or said in _NEGATIVE_PRONOUNS or bool(re.search(r"n['’]t$", said))
    ) and not _NOT_A_DENIAL.match(rest)


def find_modals(low: str, words: Sequence[Word]) -> list[Scope]:
    """Find modal words with their scopes: possibility, plan, obligation."""
    kinds = {"may": _POSSIBILITY_WORDS, "plans": _INTENTION_WORDS, "must": _OBLIGATION_WORDS}
    return [
        _build_scope(kind, low, words, n)
        for n, word in enumerate(words)
        for kind, modals in kinds.items()
        if word.low in modals and not (word.low == "may" and word.capital and not word.opens)
    ]


def _build_scope(kind: str, low: str, words: Sequence[Word], n: int) -> Scope:
    ends = _LIST_END if words[n].low in {"без", "without"} else _CLAUSE_END
    behind = _take_content_words(low, words[n : n + _MOST_WALKED], ends, _SCOPE_REACH)
    before = _take_content_words(low, words[max(0, n - _MOST_WALKED) : n + 1][::-1], _CLAUSE_END, _SCOPE_REACH_BACK)
    first = next((word for word in behind if word.low not in _AUXILIARIES), None)
    return Scope(kind, words[n].start, first, frozenset(word.stem for word in (*behind, *before)))


def _take_content_words(low: str, row: Sequence[Word], ends: re.Pattern[str], most: int) -> list[Word]:
    """First `most` content words after the first of a row, up to a mark that ends the clause."""
    found: list[Word] = []
    for one, word in pairwise(row):
        between = low[one.end : word.start] if one.start < word.start else low[word.end : one.start]
        if ends.search(between) or len(found) == most:
            break
        if word.stem:
            found.append(word)
    return found


# Any scheme; real ones have at most twenty letters. A label of a host name has at most 63 letters (RFC 1035); without
# this limit a long text of dots would take quadratic time.
_LINK = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,19}://|@)\S+|(?<![\w@])[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[a-zа-я]{2,}(?:/\S*)?|#\w+", re.I
)
_UNIT = re.compile(
    r"(?:тыс|тысяч\w*|млн|миллион\w*|млрд|миллиард\w*|трлн|триллион\w*|thousands?|millions?|billions?|trillions?|hundreds?|процент\w*|percent\w*|"
    r"проц|руб\w*|год(?:а|у|ом)?|г|year|years)$"
)
# Characters of a sentence compared with a claim at once. A longer sentence is split into windows that overlap by
# half, so that the cost of every check, although it compares words pairwise, stays proportional to the text.
LONGEST_STATED = 600
MOST_FIGURES = 40  # numbers and dates per claim: more is a table
_HEADING_CAPITALS_SHARE = 0.75  # share of capitalised words: a heading, whose capitals tell nothing


@dataclass(frozen=True, slots=True)
class Name:
    """Capitalised word; `weak` if it may be no name: it begins the sentence, or all words are capitalised."""

    word: Word
    weak: bool


@dataclass(frozen=True, slots=True)
class SentenceFacts:
    """Checkable facts of a sentence.

    `words` are its content words without numbers and dates, `all_words` all words, `initials` the first letters of
    the words that are no stop words.
    """

    text: str
    start: int
    all_words: Vocabulary
    words: Vocabulary
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]
    names: tuple[Name, ...]
    denied: tuple[Scope, ...]
    modal: tuple[Scope, ...]
    links: frozenset[str]
    initials: str = ""
    lang: str = ""


def extract_links(text: str) -> frozenset[str]:
    """Extract every address, @name and #tag of a text, whole."""
    return _clean_links(_LINK.finditer(fold_text(text)))


def remove_links(text: str) -> str:
    """Replace each address, @name and #tag with a space."""
    return _LINK.sub(" ", text)


def _clean_links(links: Iterable[re.Match[str]]) -> frozenset[str]:
    return frozenset(link[0].rstrip(".,;:!?…)»\"”'") for link in links)


@lru_cache(maxsize=1024)  # 3 to 10 kB each
def extract_facts(text: str, lang: str, start: int = 0) -> SentenceFacts:
    """Extract the facts of one sentence; `start` is its offset in the post.

    Of a longer text the first `LONGEST_STATED` characters are read.
    """
    text = text[:LONGEST_STATED]
    low = fold_text(text)
    everything = Vocabulary(split_words(text))
    links = list(_LINK.finditer(low))
    plain = _blank_spans(low, [link.span() for link in links], " ")
    moments = tuple(parse_moments(plain, text))
    rest = _blank_spans(plain, [(moment.start, moment.end) for moment in moments], "·")
    numbers = tuple(parse_numbers(rest, lang))
    taken = [*((m.start, m.end) for m in moments), *((n.start, n.end) for n in numbers if not n.weak)]
    free_text = _blank_spans(low, [*taken, *(link.span() for link in links)], "\0")
    free = [word for word in everything if free_text[word.start] != "\0"]
    words = Vocabulary(word for word in free if word.stem and not word.stem.isdigit() and not _UNIT.match(word.low))
    return SentenceFacts(
        text, start, everything, words, numbers, moments, _find_names(free, everything), tuple(find_denials(low, everything)),
        tuple(find_modals(low, everything)), _clean_links(links), "".join(word.low[0] for word in everything if word.stem), lang,
    )  # fmt: skip


def join_facts(sentences: Sequence[SentenceFacts]) -> SentenceFacts:
    """Join neighbouring sentences of a post into one; offsets stay those of the post."""
    text, start = "", sentences[0].start
    for one in sentences:
        text = text.ljust(one.start - start) + one.text
    return extract_facts(text, sentences[0].lang, start)


def _blank_spans(text: str, spans: Iterable[tuple[int, int]], blank: str) -> str:
    letters = list(text)
    for start, end in spans:
        letters[start:end] = blank * (end - start)
    return "".join(letters)


def _find_names(free: list[Word], everything: Sequence[Word]) -> tuple[Name, ...]:
    capitals = sum(word.capital for word in everything)
    shouted = len(everything) > 3 and capitals > _HEADING_CAPITALS_SHARE * len(everything)
    followed = {a.start for a, b in pairwise(everything) if b.capital and b.start - a.end == 1}
    return tuple(
        Name(word, shouted or (word.opens and word.start not in followed))
        for word in free
        if word.capital and word.stem and word.end - word.start > 1
    )


@lru_cache(maxsize=512)
def extract_facts_by_sentence(text: str, lang: str) -> tuple[SentenceFacts, ...]:
    """Extract the facts of a post, sentence by sentence."""
    parts = (part for span in split_sentences(text) for part in windows(text, span, LONGEST_STATED))
    return tuple(extract_facts(text[start:end], lang, start) for start, end in parts)
