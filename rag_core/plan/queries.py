"""The queries of a plan: the question itself, its clauses, its names, as a statement, names in the other script.

Each finds posts that the whole question does not; none may push aside what the question itself finds first
(further.py). Limits are those of the specification: 3 to 6 queries of at most 12 words and 48 characters; 1 or 2
where the question has fewer than three terms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest

from rag_core.analysis import terms
from rag_core.asked import is_asking
from rag_core.names import names, surname
from rag_core.plan.script import other_script
from rag_core.readable import readable
from rag_core.wants import names_in

__all__ = [
    "LEAST_QUERIES",
    "LEAST_TERMS",
    "LONGEST",
    "MOST_PHRASES",
    "MOST_QUERIES",
    "MOST_WORDS",
    "must_and_should",
    "names_otherwise",
    "parts_of",
    "rewrite",
    "sanitised",
    "short",
    "variants",
]

MOST_QUERIES, LEAST_QUERIES = 6, 3
MOST_WORDS, LONGEST = 12, 48
LEAST_TERMS = 3  # of a question that has more than its own words to search with
_LONGEST_QUESTION = 4000
MOST_PHRASES = 8  # that must or should stand in a post

_CLAUSES = re.compile(
    r"\b(?:which|that|who|whom|whose|where|when|what|котор\w+|где|когда|чей|чья|чьи|кто|что|если|потому)\b|[,;:]", re.I
)
_ASKING = re.compile(
    r"^(?:what|which|who|whom|whose|when|where|why|how(?: many| much| long| often)?|is|are|was|were|did|does|do|has|have|"
    r"can|could|will|кто|что|кого|кому|чего|чему|какой|какая|какое|какие|каком|какого|какую|каким|где|куда|откуда|когда|"
    r"почему|зачем|сколько|как|чей|чья|правда ли|верно ли)\s+",
    re.I,
)
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"[«\"“„]([^»\"”“]{2,80})[»\"”]")
_TAG = re.compile(r"(?<!\w)[#@]\w{2,}")
_NUMBER = re.compile(r"(?<![\w.,])\d{2,}(?!\w|[.,]\d)")
_DROPPED = frozenset({"Cf", "Cs", "Co", "Cn"})  # invisible, halves of letters, private, not assigned
# What tries to be a program or an order to a model is no query. Statements are, words are not: one may ask
# what DROP TABLE does, or where to select a wine from the list.
_EACH = r"(?:(?:all|any|of|the|these)\s+){0,3}"
_THOSE = r"(?:(?:your|my|previous|above|prior|earlier|preceding|system)\s+)"
_RULES = r"(?:instructions?|prompts?|rules|messages|context|directions)\b"
_ALL = r"(?:(?:все|всё|эти|твои|свои|мои|любые|предыдущ\w+|прошл\w+|прежн\w+|системн\w+)\s+){0,4}"
_ORDER = r"(?:ignore|disregard|forget|override)\s+"
_AT_FIRST = r"(?:^|(?<=[.!?;:>\]])|(?<=[.!?;:>\]] ))"
_CODE = re.compile(
    r"(?:^|[;'\")(]|union(?:\s+all)?)\s*select\s+[^;]{1,200}?\s+from\s+[\w.\"]+(?:\s+where\s+[^\s;]+)?|"
    r"\bselect\s+\*\s+from\s+[\w.\"]+(?:\s+where\s+[^\s;]+)?|\bunion\s+(?:all\s+)?select\b[^;?]{0,100}|"
    r"\binsert\s+into\s+\w+\s*(?:\(|values\b)[^;?]{0,100}|\b(?:drop|truncate|alter)\s+table\s+(?:if\s+exists\s+)?\w+|"
    r"(?:^|[;'\")(])\s*(?:delete\s+from|update)\s+\w+\s+(?:where|set)\b[^;?]{0,100}|"
    r"\b(?:where|or|and)\s+'?(?P<same>\w{1,20})'?\s*=\s*'?(?P=same)\b'?|"
    r"</?[a-z!][^<>]{0,80}>|<\|[^<>|]{0,40}\|>|\[/?inst\]|"
    rf"\b{_ORDER}{_EACH}{_THOSE}{{1,3}}{_RULES}|{_AT_FIRST}{_ORDER}{_EACH}{_THOSE}{{0,3}}{_RULES}|"
    rf"{_AT_FIRST}{_ORDER}(?:everything|all)\s+(?:above|before)\b|"
    r"\b(?:(?:игнорируй|проигнорируй|забудь|отмени)(?:те)?|не\s+обращай(?:те)?\s+внимания\s+на)\s+"
    rf"{_ALL}(?:инструкци\w+|указани\w+|правила|промпт\w*|команды)(?:\s+выше)?\b|"
    rf"{_AT_FIRST}(?:system|assistant|user)\s*:",
    re.I,
)


def sanitised(text: str) -> str:
    """The question on one line, without control and bidi characters and without what is no question."""
    seen = "".join(c for c in text[:_LONGEST_QUESTION] if unicodedata.category(c) not in _DROPPED)
    plain = " ".join(unicodedata.normalize("NFC", readable(seen)).split())
    return " ".join(_CODE.sub(" ", plain).split())


def variants(text: str) -> tuple[str, ...]:
    """Further queries, distinct in their terms."""
    own = frozenset(terms(text))
    if not own:
        return ()
    few = len(own) < LEAST_TERMS
    found, most = {own: text}, 2 if few else MOST_QUERIES
    for piece in _other_script(_names(text) or text.split()[:1]) if few else _pieces(text):
        _put(found, piece)
        if len(found) == most:
            break
    # A question of one clause without names still gives three: with a word less each.
    for piece in () if few else _fewer(text):
        if len(found) >= LEAST_QUERIES:
            break
        _put(found, piece)
    return tuple(found.values())[1:]


def _put(found: dict[frozenset[str], str], piece: str) -> None:
    query = short(piece)
    if mark := frozenset(terms(query)):
        found.setdefault(mark, query)


def short(query: str) -> str:
    """As many of its first words as a query may have."""
    words = query.split()[:MOST_WORDS]
    while words and len(" ".join(words)) > LONGEST:
        words.pop()
    return " ".join(words)


def _pieces(text: str) -> Iterator[str]:
    said = _names(text)
    return chain(_clauses(text), said, _forms(text), _other_script(said), (rewrite(text), _key_terms(text)))


def _clauses(text: str) -> list[str]:
    return [piece.strip(" ?!.,") for piece in _CLAUSES.split(text) if len(set(terms(piece))) > 1]


def _names(text: str) -> list[str]:
    """Names without the question word before them; a single first word of the question is none."""
    found = []
    for run in names(text):
        words = run[0].split()
        while words and not terms(words[0]):
            words.pop(0)
        if len(words) > 1 or (words and (run.start() or words[0] != run[0])):
            found.append(" ".join(words))
    return found


def _forms(text: str) -> Iterator[str]:
    """Surnames in their two genders: they have stems of their own."""
    bases = dict.fromkeys(filter(None, map(surname, _WORD.findall(text))))
    if bases:
        yield " ".join(f"{base} {base}а" for base in bases)


def _other_script(said: Iterable[str]) -> Iterator[str]:
    """The names in the other script: first the likeliest spelling of each."""
    words = (word for name in said for word in _WORD.findall(name) if word[0].isupper() and terms(word))
    spelt = zip_longest(*map(other_script, dict.fromkeys(words)), fillvalue="")
    if query := " ".join(filter(None, chain.from_iterable(spelt))):
        yield query


def names_otherwise(text: str) -> str:
    """The names of a text in the other script, as one query; empty where it has none."""
    return short(next(_other_script(_names(text)), ""))


def _key_terms(text: str) -> str:
    """The words that carry names and numbers, else the longest ones."""
    content, named = _content(text), names_in(text)
    telling = [w for w in content if set(terms(w)) & named or w.isdecimal()]
    if len(telling) > 1:
        return " ".join(telling)
    longest = set(sorted(content, key=len)[-3:])
    return " ".join(w for w in content if w in longest)


def _fewer(text: str) -> Iterator[str]:
    """The first words that say something, each time without one of them: the shortest tells least."""
    words = [word[:LONGEST] for word in _content(text)[: MOST_WORDS + 2]]
    for left_out in sorted(words, key=len):
        yield " ".join(word for word in words if word != left_out)


def _content(text: str) -> list[str]:
    """The words that have a term, each term once."""
    said: dict[tuple[str, ...], str] = {}
    for word in _WORD.findall(text):
        if found := tuple(terms(word)):
            said.setdefault(found, word)
    return list(said.values())


def rewrite(text: str) -> str:
    """The question as a statement: without its question word and the words that say what kind of thing is wanted."""
    said = _ASKING.sub("", text).strip(" ?!.")
    return " ".join(word for word in said.split() if not is_asking(word)) or text


def must_and_should(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is quoted or tagged must stand in a post; names and numbers should."""
    quoted = (found.strip() for found in _QUOTED.findall(text) if terms(found))
    must = dict.fromkeys((*quoted, *_TAG.findall(text)))
    should = dict.fromkeys((*_names(text), *_NUMBER.findall(text)))
    return tuple(must)[:MOST_PHRASES], tuple(piece for piece in should if terms(piece))[:MOST_PHRASES]


def parts_of(text: str) -> int:
    """How many things a question joins: clauses with terms of their own, and names after the first."""
    return max(1, len(_clauses(text)), len(set(_names(text))))
