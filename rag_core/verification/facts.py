"""Facts of a sentence: its words, numbers, dates, times, names and links, and what it denies or leaves open.

A scope is the words after a "not", a "may" or a "plans", as far as its clause goes. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

from rag_core.dates.moments import Moment, parse_moments
from rag_core.text.names import is_name_variant, list_phonetic_keys
from rag_core.text.numbers import Number, parse_numbers
from rag_core.text.sentences import split_between_words, split_sentences
from rag_core.text.tokens import (
    CYRILLIC,
    SIGN_AFTER_NAME,
    STOP_BEFORE_NAME,
    fold_case,
    measure_stem_similarity,
    normalize_characters,
    stem,
)

SAME_WORD = 0.7  # similarity from which two words count as the same
Key = tuple[str, object]  # by which similar or opposite words are looked up
_WORD = re.compile(rf"{STOP_BEFORE_NAME}[^\W_](?:[\w\u0300-\u036f]|(?<=[^\W\d_])['’ʼ](?=[^\W\d_]))*{SIGN_AFTER_NAME}")
_SENTENCE_OPENING = re.compile(r"(?:^|[.!?…:\n])[\s\"'«“„(\[—–\-*•]*$")
_MOST_MARKS = 40  # quotes, brackets and spaces between two sentences
_REMOVED_MARKS = str.maketrans("", "", "'’‘`ʼʿʾ\u0300\u0301\u0302\u0304\u0306\u0308\u0323")
_LONG_VOWELS = str.maketrans("āīūēōḥṣḍṭẓ", "aiueohsdtz")


@dataclass(frozen=True, slots=True)
class Word:
    """Word with its position; `stem` is empty for a stop word, `opens` marks the first word of a sentence."""

    low: str
    stem: str
    start: int
    end: int
    capital: bool
    opens: bool


def fold_text(text: str) -> str:
    """Fold a text to lower case, ё to е, accented letters to plain ones; the length and all offsets stay the same."""
    return fold_case(text if text.isascii() else normalize_characters(text))


@lru_cache(maxsize=1024)
def split_words(text: str) -> tuple[Word, ...]:
    """Split a text into words, in order. "America's" becomes "america", "Muʿāwiyah" becomes "muawiyah"."""
    low = fold_text(text)
    found = []
    for match in _WORD.finditer(low):
        folded = re.sub(r"['’]s$", "", match[0])
        folded = folded if re.search(r"n['’]t$", folded) else folded.translate(_LONG_VOWELS).translate(_REMOVED_MARKS)
        capital = text[match.start()].isupper()
        opens = capital and bool(_SENTENCE_OPENING.search(text, max(0, match.start() - _MOST_MARKS), match.start()))
        bare = "" if folded.endswith(("n't", "n’t")) or folded == "cannot" else stem(folded)
        found.append(Word(folded, bare, match.start(), match.end(), capital, opens))
    return tuple(found)


_ANTONYMS_FILE = Path(__file__).with_name("antonyms.txt")
_NEGATING_PREFIX = re.compile(r"^(?:не|без|бес)(?=[а-я]{4})|^(?:un|in|im|ir|il|dis|non|mis)(?=[a-z]{4})")
_NEGATING_SUFFIX = re.compile(r"(?<=[a-z]{3})less$")
_OPPOSITE_PREFIXES = [
    ("при", "у"), ("в", "вы"), ("за", "вы"), ("за", "от"), ("за", "рас"), ("до", "не"), ("под", "от"), ("по", "с"), ("с", "раз"), ("под", "с"),
    ("над", "под"), ("о", "рас"), ("пере", "недо"), ("pre", "post"), ("over", "under"), ("in", "out"), ("up", "down"), ("ex", "in"), ("as", "des"), ("in", "de"),
]  # fmt: skip
_LEAST_REST, _STEMMED_REST = 4, 6  # letters after a prefix: at least, and to compare only their stem


@cache  # built with the first comparison: stemming the words takes 0.05 s
def _index_sides() -> dict[str, frozenset[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    for n, row in enumerate(_ANTONYMS_FILE.read_text("utf-8").splitlines()[1:]):
        for side, words in enumerate(row.split(" / ")):
            for word in words.split():
                found.setdefault(stem(word) or word, set()).add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


@lru_cache(maxsize=20_000)
def list_sides(word: str) -> frozenset[tuple[int, int]]:
    """List the antonym rows and sides of a folded word: words of one side, "вырос" and "увеличился", are synonyms."""
    return _index_sides().get(stem(word) or word, frozenset())


@lru_cache(maxsize=20_000)
def mark_opposition(word: str) -> Mapping[Key, object]:
    """Marks of a folded word, by row of antonyms and by root: of two antonyms one mark differs.

    A root is marked as negated or not ("legal", "illegal"), or with its prefix ("приехал", "уехал").
    """
    root = stem(word) or word
    marks: dict[Key, object] = {("pair", row): side for row, side in list_sides(word)}
    marks["negated", root] = False
    for pattern in (_NEGATING_PREFIX, _NEGATING_SUFFIX):
        marks.setdefault(("negated", pattern.sub("", root)), True)
    for pair in _OPPOSITE_PREFIXES:
        for prefix in pair:
            rest = word[len(prefix) :]
            if word.startswith(prefix) and len(rest) >= _LEAST_REST:
                key = (stem(rest) or rest) if len(rest) >= _STEMMED_REST else rest
                marks["prefixed", (pair, key)] = prefix
    return marks


def are_opposites(one: str, other: str) -> bool:
    """Check whether two folded words are antonyms: "вырос" and "снизился", "legal" and "illegal"."""
    if list_sides(one) & list_sides(other):
        return False
    marks = mark_opposition(other)
    return any(marks.get(key, mark) != mark for key, mark in mark_opposition(one).items())


_FLEETING_VOWEL = re.compile(r"(?<=[а-я]{2})[ое](?=[кцн]$)")  # "лодок" is a form of "лодка"
_MOST_COMPARED = 10  # distinct words per key; of sentences of ordinary prose one in 200 has more
_NAME, _ALIKE = 0.95, 0.9
_KIN = 0.7  # stem similarity below which words count as different
_PREFIX, _STEM = 3, 4  # leading letters shared by forms of one word, and by related stems


@lru_cache(maxsize=20_000)
def likeness(one: str, stem: str, other: str, other_stem: str) -> float:
    """Similarity of two words, 0..1; both given as folded and as stemmed."""
    if stem == other_stem or _FLEETING_VOWEL.sub("", stem) == _FLEETING_VOWEL.sub("", other_stem):
        return 1.0
    if is_name_variant(one, other):
        return _NAME
    if list_sides(one) & list_sides(other):
        return _ALIKE
    return found if (found := measure_stem_similarity(stem, (other_stem,))) >= _KIN else 0.0


@lru_cache(maxsize=20_000)
def _make_keys(low: str, stem: str, *, sought: bool) -> frozenset[Key]:
    """Lookup keys of a word: shared with each similar word that it is `sought` among."""
    keys: set[Key] = {("stem", stem), ("form", low[:_PREFIX]), ("kin", stem[:_STEM])}
    keys |= {("side", side) for side in list_sides(low)}
    keys |= {("sound", (skeleton[:1], bool(CYRILLIC.search(low)) != sought)) for skeleton in list_phonetic_keys(low)}
    return frozenset(keys)


_MAX_KNOWN_WORDS = 200


class Vocabulary(tuple[Word, ...]):
    """Words in the order of their text, with an index of similar words, built on first use."""

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the words."""
        return frozenset(word.stem for word in self)

    @cached_property
    def _found(self) -> dict[tuple[str, str], tuple[float, Word | None]]:
        return {}

    def nearest(self, word: Word) -> tuple[float, Word | None]:
        """Find the most similar word and its similarity, 0..1; of equal ones the first."""
        known = self._found
        if (found := known.get((word.low, word.stem))) is None:
            if len(known) >= _MAX_KNOWN_WORDS:  # a sentence of a post is compared with claim after claim
                known.clear()
            alike = ((likeness(word.low, word.stem, o.low, o.stem), o) for o in self.candidates(word))
            best = max(alike, key=lambda one: one[0], default=(0.0, None))
            known[word.low, word.stem] = found = best if best[0] else (0.0, None)
        return found

    def has(self, word: Word) -> bool:
        """Check whether the word is among these: in any form, or by a synonym."""
        return self.nearest(word)[0] >= SAME_WORD

    @cached_property
    def candidates(self) -> Callable[[Word], list[Word]]:
        """Look up the words that may be similar to one, each once, in order."""
        look_up = index_words(self, lambda word: _make_keys(word.low, word.stem, sought=False), _MOST_COMPARED)
        return lambda word: look_up(_make_keys(word.low, word.stem, sought=True))


def index_words(
    words: Sequence[Word], make_keys: Callable[[Word], Iterable[Key]], most: int
) -> Callable[[Iterable[Key]], list[Word]]:
    """Index distinct words, by folded form and capitalisation, by their keys: the first `most` of each.

    It returns the look-up of the words that have any of some keys, each once, in order.
    """
    index: dict[Key, list[int]] = {}
    distinct = {(word.low, word.capital): place for place, word in reversed(list(enumerate(words)))}
    for place in sorted(distinct.values()):
        for key in make_keys(words[place]):
            listed = index.setdefault(key, [])
            if len(listed) < most:
                listed.append(place)
    return lambda keys: [words[place] for place in sorted({place for key in keys for place in index.get(key, ())})]


def is_same_name(word: Word, other: Word) -> bool:
    """Check whether two words name the same: inflected, short ("Tim" of "Timothy"), or in another script."""
    if word.low == other.low or (other.stem and word.stem == other.stem):
        return True
    if not other.stem:
        return False
    short, long = sorted((word.low, other.low), key=len)
    shortened = other.capital and len(short) >= 3 and short.isascii() and len(long) - len(short) <= 5
    return (shortened and long.startswith(short)) or is_name_variant(word.low, other.low)


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
_MODAL_WORDS = (("may", _POSSIBILITY_WORDS), ("plans", _INTENTION_WORDS))
_CLAUSE_END, _LIST_END = re.compile(r"[.,;:!?…()—–\n]"), re.compile(r"[.;:!?…()—–\n]")
_AUXILIARIES = frozenset(
    "буду будут будем будете смог смогла смогли смогут сможет стал стала стали станет станут удалось able".split()
)
_SCOPE_REACH, _SCOPE_REACH_BACK = 6, 3  # content words
_MOST_WALKED = 40  # words of any kind searched for them


@dataclass(frozen=True, slots=True)
class Scope:
    """Scope of a negation or modal at offset `at`: its `first` word, None for none, and `wide`, all it may apply to."""

    kind: str
    at: int
    first: Word | None
    wide: frozenset[str]


def find_denials(low: str, words: Sequence[Word]) -> list[Scope]:
    """Find negations with their scopes; "никогда не" is one negation, "не только" none."""
    found = []
    for n, word in enumerate(words):
        rest = low[word.start : word.start + 30]
        said = word.low in _DENIAL_WORDS or word.low in _NEGATIVE_PRONOUNS or bool(re.search(r"n['’]t$", word.low))
        if word.low in _DENYING_VERBS:
            denies = bool(re.match(r"\w+\s+(?:to\b|\w+ть(?:ся)?\b)", rest))
        else:
            denies = bool(_DENIAL_PHRASES.match(rest)) or (said and not _NOT_A_DENIAL.match(rest))
        found += [n] if denies else []
    plain = [n for n in found if words[n].low not in _NEGATIVE_PRONOUNS]
    found = plain if len(plain) < len(found) and any(words[n].low == "не" for n in plain) else found
    return [_build_scope("not", low, words, n) for n in found]


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
    """Checkable facts of a sentence. `words` are its content words without numbers and dates, `all_words` all words."""

    text: str
    start: int
    all_words: Vocabulary
    words: Vocabulary
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]
    names: tuple[Name, ...]
    denied: tuple[Scope, ...]
    modal: tuple[Scope, ...]
    lang: str


def extract_links(text: str) -> frozenset[str]:
    """Extract every address, @name and #tag of a text, whole."""
    return frozenset(link[0].rstrip(".,;:!?…)»\"”'") for link in _LINK.finditer(fold_text(text)))


def remove_links(text: str) -> str:
    """Replace each address, @name and #tag with a space."""
    return _LINK.sub(" ", text)


@lru_cache(maxsize=256)  # 3 to 10 kB each; ten posts of a claim have a hundred sentences
def extract_facts(text: str, lang: str, start: int = 0) -> SentenceFacts:
    """Extract the facts of one sentence at offset `start` of a post: of its first `LONGEST_STATED` characters."""
    text = text[:LONGEST_STATED]
    low = fold_text(text)
    everything = Vocabulary(split_words(text))
    links = [link.span() for link in _LINK.finditer(low)]
    plain = _blank_spans(low, links, " ")
    moments = tuple(parse_moments(plain, text))
    rest = _blank_spans(plain, [(moment.start, moment.end) for moment in moments], "·")
    numbers = tuple(parse_numbers(rest, lang))
    taken = [*((m.start, m.end) for m in moments), *((n.start, n.end) for n in numbers if not n.weak)]
    free_text = _blank_spans(low, [*taken, *links], "\0")
    free = [word for word in everything if free_text[word.start] != "\0"]
    words = Vocabulary(word for word in free if word.stem and not word.stem.isdigit() and not _UNIT.match(word.low))
    capitals = sum(word.capital for word in everything)
    shouted = len(everything) > 3 and capitals > _HEADING_CAPITALS_SHARE * len(everything)
    followed = {a.start for a, b in pairwise(everything) if b.capital and b.start - a.end == 1}
    capitalised = (word for word in free if word.capital and word.stem and word.end - word.start > 1)
    names = tuple(Name(word, shouted or (word.opens and word.start not in followed)) for word in capitalised)
    modal = tuple(
        _build_scope(kind, low, everything, n)
        for n, word in enumerate(everything)
        for kind, modals in _MODAL_WORDS
        if word.low in modals and not (word.low == "may" and word.capital and not word.opens)
    )
    denied = tuple(find_denials(low, everything))
    return SentenceFacts(text, start, everything, words, numbers, moments, names, denied, modal, lang)


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


@lru_cache(maxsize=512)
def extract_facts_by_sentence(text: str, lang: str) -> tuple[SentenceFacts, ...]:
    """Extract the facts of a post, sentence by sentence."""
    return tuple(
        extract_facts(text[start:end], lang, start)
        for span in split_sentences(text)
        for start, end in split_between_words(text, span, LONGEST_STATED, overlapping=True)
    )


_RUSSIAN_VERB_ENDING = re.compile(
    r"(?:[аяеиыоу]л(?:а|о|и|ся|ась|ось|ись)?|[аеиуюя]т(?:ся)?|[ёеи]шь|[еи]те|[её]м|им|ен[аоы]?|[ая]н[аоы]|ыт[аоы]?|ят[аоы]?)$"
)
_COPULAS = frozenset(
    "есть нет был была было были будет будут стал стала стали стоит нельзя можно нужно надо должен должна должны может могут "
    "is are was were am be been has have had will would can could may might must shall should does do did cost costs".split()
)
_ENGLISH_VERB_ENDING = re.compile(r"(?:ed|[a-z]{2}[^s\W]s)$")
_IRREGULAR_VERBS = frozenset(
    "became began bought broke brought built came chose cut drew drove fell flew found fought gave got grew held hit kept knew led left lost made met "
    "paid put ran rose said sang saw sent set shot shut sold spent spoke stood swam taught thought told took went won wore wrote".split()
)


def is_verb(word: Word) -> bool:
    """Check whether a word looks like a verb, by its ending."""
    if word.low in _COPULAS or word.low in _IRREGULAR_VERBS:
        return True
    if word.capital and not word.opens:
        return False
    if word.low.isascii():
        return bool(_ENGLISH_VERB_ENDING.search(word.low)) and len(word.low) > 3
    return bool(_RUSSIAN_VERB_ENDING.search(word.low)) and len(word.low) > 4
