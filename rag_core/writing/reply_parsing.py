"""Reply parsing: JSON objects, lines and cited sentences of what a model wrote, cleaned of reasoning and markup.

A model that ignores the grammar of an answer is parsed by the same rules as one that follows it; whatever breaks them
is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rag_core.text.character_folding import normalize_characters
from rag_core.writing.grammar import MAX_CITED_POSTS
from rag_core.writing.prompt_loading import load_prompt


def parse_json_object(text: str) -> dict[str, Any] | None:
    """Parse the JSON object between the first and the last brace of a text; None if there is no valid one."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_THOUGHT_BLOCK = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_OPEN_THOUGHT = re.compile(r"<think", re.I)
_TEMPLATE_TOKEN = re.compile(
    r"<\|[^<>|]{0,40}\|>|</?s>|\[/?(?:INST|SYS)\]|<</?SYS>>|</?(?:start|end)_of_turn>|</?think(?:ing)?>|"
    r"</?(?:post|question|draft)\b[^<>]{0,200}>",
    re.I,
)
# Markup and code that a model without a grammar may write; a "<" in a quote is kept if no tag follows.
_MARKUP_OR_CODE = re.compile(r"</?[a-z][^<>]{0,200}>|```.*?(?:```|$)|\{\s*\"[^{}]*\}?", re.I | re.S)
_REASONING_STEPS = re.compile(
    r"(?:^|[.!?…]\s+|\s)(?:thought|action|action input|observation|мысль|действие|наблюдение)\s?:|"
    r"^(?:system|user|assistant|human)\s?:",
    re.I,
)
_LEADING_LABEL = re.compile(r"^(?:[-*•]\s+|\d{1,2}[.)]\s+(?=\D)|(?:final answer|answer|ответ)\s?:\s*)+", re.I)
_MARKUP = re.compile(r"[*`#]+|(?<!\w)__?|__?(?!\w)")
_CITED_SENTENCE = re.compile(r"(?:\[\s*\d{1,4}\s*\]\s*[,;]?\s*)+")
_WORD = re.compile(r"[^\W_]+")
_SHINGLE_WORDS = 7  # words in a row: an equal run of this length is no coincidence


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """Sentence written by a model, cleaned, with the existing source numbers it cites, each once, in order.

    An empty text marks something that is no sentence of an answer (reasoning steps, words of the prompt).
    """

    text: str
    numbers: tuple[int, ...]


def clean_reply(text: str) -> str:
    """Remove reasoning blocks, template tokens and control characters from a model's free text."""
    text = _THOUGHT_BLOCK.sub(" ", text)
    if thinking := _OPEN_THOUGHT.search(text):
        text = text[: thinking.start()]
    return "\n".join(
        " ".join(line.split()) for line in normalize_characters(_TEMPLATE_TOKEN.sub(" ", text)).split("\n")
    ).strip()


class LineSplitter:
    """Incremental splitter of streamed text into lines; reasoning blocks between tags are dropped."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> Iterator[str]:
        """Add a piece of text; yield the lines it completes."""
        self._rest = _THOUGHT_BLOCK.sub("", self._rest + piece)
        thinking = _OPEN_THOUGHT.search(self._rest)
        ready, open_end = (self._rest[: thinking.start()], self._rest[thinking.start() :]) if thinking else (
            self._rest, "")  # fmt: skip
        *lines, last = ready.split("\n")
        self._rest = last + open_end
        yield from lines

    def end(self) -> str:
        """Return the rest after the last piece."""
        thinking = _OPEN_THOUGHT.search(self._rest)
        return self._rest[: thinking.start()] if thinking else self._rest


def parse_answer_line(line: str, known: Collection[int]) -> list[WrittenSentence]:
    """Parse the cited sentences of a line.

    A sentence without an existing source number gets an empty tuple of numbers; the caller decides whether to drop
    it.
    """
    line = normalize_characters(_MARKUP_OR_CODE.sub(" ", _TEMPLATE_TOKEN.sub(" ", line)))
    sentences, end = [], 0
    for match in _CITED_SENTENCE.finditer(line):
        given = dict.fromkeys(int(number) for number in re.findall(r"\d+", match[0]))
        bracket = max(line.rfind(sign, end, match.start()) for sign in "[]")
        text = line[max(end, bracket + 1) : match.start()]
        sentences.append((text, tuple(number for number in given if number in known)[:MAX_CITED_POSTS]))
        end = match.end()
    sentences.append((re.sub(r"\[[^\]]*\]?", " ", line[end:]), ()))
    return [WrittenSentence(_clean_sentence(text), numbers) for text, numbers in sentences if _WORD.search(text)]


def equals_phrase(line: str, words: str) -> bool:
    """Check whether a line consists of exactly these words, ignoring case and punctuation."""
    return _WORD.findall(line.casefold()) == _WORD.findall(words.casefold())


def _clean_sentence(text: str) -> str:
    """Clean one sentence; empty if it shows reasoning steps or repeats the prompt."""
    text = " ".join(_MARKUP.sub("", text.translate(_NO_BRACKETS)).split()).lstrip(".!?…,;: ")
    if _REASONING_STEPS.search(text):
        return ""
    text = _LEADING_LABEL.sub("", text).strip()
    return "" if not _WORD.search(text) or _build_shingles(text) & _build_prompt_shingles() else text


_NO_BRACKETS = str.maketrans("[]<>{}|\\", " " * 8)


def _build_shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = [word.lower() for word in _WORD.findall(text)]
    return frozenset(tuple(words[n : n + _SHINGLE_WORDS]) for n in range(len(words) - _SHINGLE_WORDS + 1))


@lru_cache(maxsize=1)
def _build_prompt_shingles() -> frozenset[tuple[str, ...]]:
    """Word shingles of the writer's prompt."""
    templates = [load_prompt("write", lang) for lang in ("ru", "en")]
    texts = [text for one in templates for text in (*one.system.split("\n"), one.parts["free"], one.parts["attribute"])]
    return frozenset().union(*map(_build_shingles, texts))
