"""What a model may write as an answer: the grammar of one answer, and reading what came of it, line by line.

Under the grammar only sentences with numbers that exist, or the fixed refusal, can be written. A model that obeys no
grammar is read by the same rules; whatever does not keep to them is thrown away.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rag_core.prompts import script
from rag_core.readable import readable
from rag_core.replies import LETTERS

__all__ = ["MOST_CITED", "Lines", "Written", "answer_grammar", "cleaned", "paragraph_grammar", "read_line", "says"]

MOST_CITED = 3  # posts for a sentence
_START = r'[0-9A-Za-z\u00C0-\u024F\u0400-\u04FF«"“„(@]'
_CHAR = f'"{LETTERS}'

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_THINKING = re.compile(r"<think", re.I)
_TEMPLATE = re.compile(
    r"<\|[^<>|]{0,40}\|>|</?s>|\[/?(?:INST|SYS)\]|<</?SYS>>|</?(?:start|end)_of_turn>|</?think(?:ing)?>|"
    r"</?(?:post|question|draft)\b[^<>]{0,200}>",
    re.I,
)
# Markup and code that a model without a grammar may write; a quote in a post keeps its "<" where no tag follows.
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>|```.*?(?:```|$)|\{\s*\"[^{}]*\}?", re.I | re.S)
_STEPS = re.compile(
    r"(?:^|[.!?…]\s+|\s)(?:thought|action|action input|observation|мысль|действие|наблюдение)\s?:|"
    r"^(?:system|user|assistant|human)\s?:",
    re.I,
)
_LABEL = re.compile(r"^(?:[-*•]\s+|\d{1,2}[.)]\s+(?=\D)|(?:final answer|answer|ответ)\s?:\s*)+", re.I)
_MARKUP = re.compile(r"[*`#]+|(?<!\w)__?|__?(?!\w)")
_CITED = re.compile(r"(?:\[\s*\d{1,4}\s*\]\s*[,;]?\s*)+")
_WORD = re.compile(r"[^\W_]+")
_SHINGLE = 7  # words in a row that are no chance


@dataclass(frozen=True, slots=True)
class Written:
    """A sentence as the model wrote it, cleaned, and the numbers it gave that exist, each once, in order.

    Empty text: it was no sentence of an answer (steps of thought, words of the prompt).
    """

    text: str
    numbers: tuple[int, ...]


def answer_grammar(numbers: Sequence[int], refusal: str, sentences: int, characters: int) -> str:
    """GBNF of one answer: up to `sentences` lines of at most `characters`, each with numbers out of `numbers`."""
    exist = " | ".join(f'"{number}"' for number in sorted(numbers))
    more = f' ("\\n" sentence){{0,{sentences - 1}}}' if sentences > 1 else ""
    return "\n".join(
        (
            f"root ::= refusal | sentence{more}",
            f'refusal ::= "{refusal}"',
            f"sentence ::= text cited{{1,{min(MOST_CITED, len(numbers))}}}",
            f"text ::= {_START} char{{1,{characters - 2}}} [ .!?…]",
            f"char ::= [{_CHAR}]",
            'cited ::= "[" number "]"',
            f"number ::= {exist}",
        )
    )


def paragraph_grammar(characters: int) -> str:
    """GBNF of one line of at most so many characters."""
    return f"root ::= {_START} char{{8,{characters - 1}}}\nchar ::= [{_CHAR}]"


def cleaned(text: str) -> str:
    """Free text of a model without what was never meant to be read: thoughts, template tokens, controls."""
    text = _THOUGHT.sub(" ", text)
    if thinking := _THINKING.search(text):
        text = text[: thinking.start()]
    return "\n".join(" ".join(line.split()) for line in readable(_TEMPLATE.sub(" ", text)).split("\n")).strip()


class Lines:
    """Pieces of text as they come, to whole lines; thoughts between tags are no lines."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> Iterator[str]:
        """The lines that this piece ends."""
        self._rest = _THOUGHT.sub("", self._rest + piece)
        thinking = _THINKING.search(self._rest)
        ready, open_end = (self._rest[: thinking.start()], self._rest[thinking.start() :]) if thinking else (
            self._rest, "")  # fmt: skip
        *lines, last = ready.split("\n")
        self._rest = last + open_end
        yield from lines

    def end(self) -> str:
        """What is left when nothing more will come."""
        thinking = _THINKING.search(self._rest)
        return self._rest[: thinking.start()] if thinking else self._rest


def read_line(line: str, known: Collection[int]) -> list[Written]:
    """The sentences of a line. One without a number that exists has none; it is for the caller to leave it out."""
    line = readable(_TAG.sub(" ", _TEMPLATE.sub(" ", line)))
    found, end = [], 0
    for match in _CITED.finditer(line):
        given = dict.fromkeys(int(number) for number in re.findall(r"\d+", match[0]))
        bracket = max(line.rfind(sign, end, match.start()) for sign in "[]")
        text = line[max(end, bracket + 1) : match.start()]
        found.append((text, tuple(number for number in given if number in known)[:MOST_CITED]))
        end = match.end()
    found.append((re.sub(r"\[[^\]]*\]?", " ", line[end:]), ()))
    return [Written(_sentence(text), numbers) for text, numbers in found if _WORD.search(text)]


def says(line: str, words: str) -> bool:
    """Whether a line is just these words, whatever stands around them."""
    return _WORD.findall(line.casefold()) == _WORD.findall(words.casefold())


def _sentence(text: str) -> str:
    """One tidy sentence; nothing where it shows steps of thought or repeats the prompt."""
    text = " ".join(_MARKUP.sub("", text.translate(_NO_BRACKETS)).split()).lstrip(".!?…,;: ")
    if _STEPS.search(text):
        return ""
    text = _LABEL.sub("", text).strip()
    return "" if not _WORD.search(text) or _shingles(text) & _of_the_prompts() else text


_NO_BRACKETS = str.maketrans("[]<>{}|\\", " " * 8)


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = [word.lower() for word in _WORD.findall(text)]
    return frozenset(tuple(words[n : n + _SHINGLE]) for n in range(len(words) - _SHINGLE + 1))


@lru_cache(maxsize=1)
def _of_the_prompts() -> frozenset[tuple[str, ...]]:
    """Rows of words that stand in what the writer is told."""
    told = [script("write", lang) for lang in ("ru", "en")]
    texts = [text for one in told for text in (*one.system.split("\n"), one.parts["free"], one.parts["attribute"])]
    return frozenset().union(*map(_shingles, texts))
