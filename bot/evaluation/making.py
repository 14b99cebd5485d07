"""A question set out of one's own channels, without a model: sentences of posts with their number or name left out.

Some posts are held back from the corpus: what they alone say cannot be answered, and an honest bot refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rag_core.analysis import language_of, terms
from rag_core.sentences import sentences
from rag_core.types import Channel, Post, PostKey

__all__ = ["Made", "made_questions"]

_SHORTEST, _LONGEST = 30, 220  # characters of a sentence that is asked about
_TERMS = 4  # a sentence must have beside what is left out
_HELD_BACK = 0.2  # of the questions have no answer
_NUMBER = re.compile(
    r"(?<![\w.,:/@#-])\d{1,3}(?:[ \u00a0]\d{3})+(?![\w])|(?<![\w.,:/@#-])\d+(?:[.,:]\d+)?(?![\w/.-]\w)"
)
_NAME = re.compile(r"(?<=[\w,»”)] )[A-ZА-ЯЁ][\w-]{2,}(?: [A-ZА-ЯЁ][\w-]{2,})?")
_LINKED = re.compile(r"https?://|t\.me/|@\w|#\w")
_ASK = {
    ("number", "en"): "What number is left out: {}",
    ("number", "ru"): "Какое число пропущено: {}",
    ("name", "en"): "Who or what is left out: {}",
    ("name", "ru"): "Кто или что пропущено: {}",
}


@dataclass(frozen=True, slots=True)
class Made:
    """The rows of queries.jsonl and corpus.jsonl."""

    queries: tuple[dict[str, object], ...]
    corpus: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class _Cloze:
    post: Post
    text: str
    answer: str
    lang: str


def made_questions(posts: Sequence[Post], known: dict[int, Channel], most: int, seed: int) -> Made:
    """At most `most` questions about these posts, one for each, drawn by `seed`; a fifth without an answer."""
    drawn = np.random.default_rng(seed)
    found: list[_Cloze] = []
    for n in drawn.permutation(len(posts)):
        if len(found) == most:
            break
        if cloze := next(_clozes(posts[n]), None):
            found.append(cloze)
    back = {cloze.post.key for cloze in found[: int(len(found) * _HELD_BACK)]}
    queries = tuple(_query(cloze, answerable=cloze.post.key not in back) for cloze in found)
    corpus = tuple(_document(post, known) for post in posts if post.key not in back)
    return Made(queries, corpus)


def _clozes(post: Post) -> Iterator[_Cloze]:
    """Sentences with exactly one thing left out that the rest of the post does not say."""
    for start, end in sentences(post.text):
        text = " ".join(post.text[start:end].split())
        if not _SHORTEST <= len(text) <= _LONGEST or _LINKED.search(text):
            continue
        for kind, pattern in (("number", _NUMBER), ("name", _NAME)):
            match = next(iter(pattern.finditer(text)), None)
            if match is None or post.text.count(match[0]) > 1:
                continue
            rest = f"{text[: match.start()]}…{text[match.end() :]}".rstrip(" .!?")
            if len(set(terms(rest))) >= _TERMS:
                lang = language_of(text)
                yield _Cloze(
                    post, _ASK[kind, lang].format(f"«{rest}»" if lang == "ru" else f"“{rest}”"), match[0], lang
                )


def _query(cloze: _Cloze, *, answerable: bool) -> dict[str, object]:
    name = _name(cloze.post.key)
    answered = {"relevant": [name], "answers": [cloze.answer]} if answerable else {"relevant": [], "answers": []}
    return {
        "id": f"q{name}",
        "text": cloze.text,
        "lang": cloze.lang,
        **answered,
        "answerable": answerable,
        "group": name,
    }


def _document(post: Post, known: dict[int, Channel]) -> dict[str, object]:
    channel = known.get(post.key.chat_id)
    return {
        "id": _name(post.key),
        "text": post.text,
        "title": channel.title if channel else "",
        "date": post.date.isoformat(),
    }


def _name(key: PostKey) -> str:
    return f"{key.chat_id}-{key.message_id}"
