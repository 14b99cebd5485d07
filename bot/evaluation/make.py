"""Question set generation without a model: cloze questions from posts, with a number or a name left out.

Some posts are held back from the corpus: questions about them have no answer, and a refusal is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import Channel, Post, PostKey

__all__ = ["QuestionSet", "make_questions"]

_MIN_SENTENCE_CHARACTERS, _MAX_SENTENCE_CHARACTERS = 30, 220  # length of a sentence to ask about
_MIN_TERMS = 4  # besides the part left out
_HELD_BACK_SHARE = 0.2  # share of questions without an answer
_NUMBER_PATTERN = re.compile(
    r"(?<![\w.,:/@#-])\d{1,3}(?:[ \u00a0]\d{3})+(?![\w])|(?<![\w.,:/@#-])\d+(?:[.,:]\d+)?(?![\w/.-]\w)"
)
_NAME_PATTERN = re.compile(r"(?<=[\w,»”)] )[A-ZА-ЯЁ][\w-]{2,}(?: [A-ZА-ЯЁ][\w-]{2,})?")
_LINK_PATTERN = re.compile(r"https?://|t\.me/|@\w|#\w")
_QUESTION_TEMPLATES = {
    ("number", "en"): "What number is left out: {}",
    ("number", "ru"): "Какое число пропущено: {}",
    ("name", "en"): "Who or what is left out: {}",
    ("name", "ru"): "Кто или что пропущено: {}",
}


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Rows of queries.jsonl and corpus.jsonl."""

    queries: tuple[dict[str, object], ...]
    corpus: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class _Cloze:
    post: Post
    text: str
    answer: str
    lang: str


def make_questions(posts: Sequence[Post], known: dict[int, Channel], most: int, seed: int) -> QuestionSet:
    """Make at most `most` questions, one for each post, drawn with `seed`; a fifth of them has no answer."""
    generator = np.random.default_rng(seed)
    clozes: list[_Cloze] = []
    for n in generator.permutation(len(posts)):
        if len(clozes) == most:
            break
        if cloze := next(_make_clozes(posts[n]), None):
            clozes.append(cloze)
    held_back = {cloze.post.key for cloze in clozes[: int(len(clozes) * _HELD_BACK_SHARE)]}
    queries = tuple(_build_query_row(cloze, answerable=cloze.post.key not in held_back) for cloze in clozes)
    corpus = tuple(_build_document_row(post, known) for post in posts if post.key not in held_back)
    return QuestionSet(queries, corpus)


def _make_clozes(post: Post) -> Iterator[_Cloze]:
    """Make clozes: sentences with one number or name left out that the post does not repeat."""
    for start, end in split_sentences(post.text):
        text = " ".join(post.text[start:end].split())
        if not _MIN_SENTENCE_CHARACTERS <= len(text) <= _MAX_SENTENCE_CHARACTERS or _LINK_PATTERN.search(text):
            continue
        for kind, pattern in (("number", _NUMBER_PATTERN), ("name", _NAME_PATTERN)):
            match = next(iter(pattern.finditer(text)), None)
            if match is None or post.text.count(match[0]) > 1:
                continue
            rest = f"{text[: match.start()]}…{text[match.end() :]}".rstrip(" .!?")
            if len(set(tokenize(rest))) >= _MIN_TERMS:
                lang = detect_language(text)
                yield _Cloze(
                    post,
                    _QUESTION_TEMPLATES[kind, lang].format(f"«{rest}»" if lang == "ru" else f"“{rest}”"),
                    match[0],
                    lang,
                )


def _build_query_row(cloze: _Cloze, *, answerable: bool) -> dict[str, object]:
    name = _format_post_id(cloze.post.key)
    answered = {"relevant": [name], "answers": [cloze.answer]} if answerable else {"relevant": [], "answers": []}
    return {
        "id": f"q{name}",
        "text": cloze.text,
        "lang": cloze.lang,
        **answered,
        "answerable": answerable,
        "group": name,
    }


def _build_document_row(post: Post, known: dict[int, Channel]) -> dict[str, object]:
    channel = known.get(post.key.chat_id)
    return {
        "id": _format_post_id(post.key),
        "text": post.text,
        "title": channel.title if channel else "",
        "date": post.date.isoformat(),
    }


def _format_post_id(key: PostKey) -> str:
    return f"{key.chat_id}-{key.message_id}"
