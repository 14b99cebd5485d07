"""Prompts and replies: templates with quoted texts escaped (protection against prompt injection), grammars, parsing."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rag_core.llm.protocol import Prompt, TokenRates
from rag_core.run import Budgets, Stage
from rag_core.text.tokens import WORD, normalize_characters

# Characters allowed in generated text, for square brackets in GBNF: both scripts with their accents; round brackets
# only, no markup, no character that ends a JSON string, no control characters.
LETTERS = r""" !%&'()+,./0-9:;=?@A-Z_a-z~°№«»–—“”„’…€£$₽À-ɏЀ-ӿ-"""
_MAX_CITED_POSTS = 3  # per sentence
_SENTENCE_START = r'[0-9A-Za-z\u00C0-\u024F\u0400-\u04FF«"“„(@]'
_SENTENCE_CHARACTERS = f'"{LETTERS}'


def build_answer_grammar(numbers: Sequence[int], refusal: str, sentences: int, characters: int) -> str:
    """Build the GBNF of an answer: up to `sentences` lines of at most `characters`, each citing some of `numbers`."""
    exist = " | ".join(f'"{number}"' for number in sorted(numbers))
    more = f' ("\\n" sentence){{0,{sentences - 1}}}' if sentences > 1 else ""
    return "\n".join(
        (
            f"root ::= refusal | sentence{more}",
            f'refusal ::= "{refusal}"',
            f"sentence ::= text cited{{1,{min(_MAX_CITED_POSTS, len(numbers))}}}",
            f"text ::= {_SENTENCE_START} char{{1,{characters - 2}}} [ .!?…]",
            f"char ::= [{_SENTENCE_CHARACTERS}]",
            'cited ::= "[" number "]"',
            f"number ::= {exist}",
        )
    )


def build_paragraph_grammar(characters: int) -> str:
    """Build the GBNF of one line of at most `characters` characters."""
    return f"root ::= {_SENTENCE_START} char{{8,{characters - 1}}}\nchar ::= [{_SENTENCE_CHARACTERS}]"


# Includes the small, fullwidth and vertical variants, which a tokenizer may normalise to ASCII brackets.
_BRACKETS = str.maketrans("<>[]{}﹤﹥﹇﹈﹛﹜︷︸＜＞［］｛｝", "‹›()()‹›()()()‹›()()")
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r"\s*\n\s*")


def escape_prompt_text(text: str) -> str:
    """Escape a text for a prompt: no control characters, no brackets but round ones."""
    plain = _BLANKS.sub(" ", normalize_characters(text).translate(_BRACKETS))
    return _LINE_BREAKS.sub("\n", plain).strip()


def quote_post(text: str, number: int | None = None, header: str = "") -> str:
    """Quote a post between its markers; its number and header go into the opening marker."""
    name = "post" if number is None else f"post {number}"
    about = " ".join(escape_prompt_text(header).split())
    return f"<{name}{' | ' if about else ''}{about}>\n{escape_prompt_text(text)}\n</{name}>"


def quote_question(text: str) -> str:
    """Quote the question between its markers."""
    return f"<question>\n{escape_prompt_text(text)}\n</question>"


_PART_HEADING = re.compile(r"^=== (\w+)\n", re.M)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Parsed prompt file; `parts` holds everything but `system` and the examples."""

    system: str
    shots: tuple[tuple[str, str], ...]
    parts: Mapping[str, str]


@cache
def load_prompt(name: str, lang: str) -> PromptTemplate:
    """Load the prompt file `name.lang.txt`; `lang` is "ru" or "en"."""
    text = files("rag_core.writing").joinpath("templates", f"{name}.{lang}.txt").read_text(encoding="utf-8")
    pieces = _PART_HEADING.split(text)[1:]
    sections = [(part, body.strip()) for part, body in zip(pieces[::2], pieces[1::2], strict=True)]
    asks, replies = ([body for part, body in sections if part == wanted] for wanted in ("ask", "reply"))
    others = {part: body for part, body in sections if part not in {"ask", "reply"}}
    return PromptTemplate(others.pop("system"), tuple(zip(asks, replies, strict=True)), others)


# Template and its languages, stage, and tokens that are read after the prefix and written at least.
_PREFIXES = (
    ("support", ("ru", "en"), Stage.VERIFY, 150, 0),
    ("write", ("ru", "en"), Stage.WRITE, 300, 48),
    ("plan", ("all",), Stage.PLAN, 120, 128),
    ("followup", ("ru", "en"), Stage.FOLLOWUP, 80, 40),
    ("hyde", ("ru", "en"), Stage.HYDE, 40, 60),
)


def list_prompt_prefixes(rates: TokenRates) -> list[Prompt]:
    """List the prefixes of the stages that have time for the rest of their prompt and a reply, the cheapest first."""
    return [
        Prompt(template.system, "", template.shots)
        for name, languages, stage, read, written in _PREFIXES
        if rates.estimate_seconds(read, written) <= getattr(Budgets(), stage.budget)
        for template in (load_prompt(name, lang) for lang in languages)
    ]


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


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """Sentence written by a model, cleaned, with the existing source numbers it cites, each once, in order.

    An empty text marks something that is no sentence of an answer, such as reasoning steps.
    """

    text: str
    numbers: tuple[int, ...]


def clean_reply(text: str) -> str:
    """Remove reasoning blocks, template tokens and control characters from a model's free text."""
    text = _OPEN_THOUGHT.split(_THOUGHT_BLOCK.sub(" ", text), maxsplit=1)[0]
    lines = normalize_characters(_TEMPLATE_TOKEN.sub(" ", text)).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines).strip()


class LineSplitter:
    """Incremental splitter of streamed text into lines; reasoning blocks between tags are dropped."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> Iterator[str]:
        """Add a piece of text; yield the lines it completes."""
        self._rest = _THOUGHT_BLOCK.sub("", self._rest + piece)
        thinking = _OPEN_THOUGHT.search(self._rest)
        end = thinking.start() if thinking else len(self._rest)
        *lines, last = self._rest[:end].split("\n")
        self._rest = last + self._rest[end:]
        yield from lines

    def end(self) -> str:
        """Return the rest after the last piece."""
        return _OPEN_THOUGHT.split(self._rest, maxsplit=1)[0]


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
        sentences.append((text, tuple(number for number in given if number in known)[:_MAX_CITED_POSTS]))
        end = match.end()
    sentences.append((re.sub(r"\[[^\]]*\]?", " ", line[end:]), ()))
    written = []
    for text, numbers in sentences:
        if not WORD.search(text):
            continue
        clean = " ".join(_MARKUP.sub("", text.translate(_NO_BRACKETS)).split()).lstrip(".!?…,;: ")
        steps, clean = _REASONING_STEPS.search(clean), _LEADING_LABEL.sub("", clean).strip()
        written.append(WrittenSentence("" if steps or not WORD.search(clean) else clean, numbers))
    return written


def equals_phrase(line: str, words: str) -> bool:
    """Check whether a line consists of exactly these words, ignoring case and punctuation."""
    return WORD.findall(line.casefold()) == WORD.findall(words.casefold())


_NO_BRACKETS = str.maketrans("[]<>{}|\\", " " * 8)
