"""An answer as a reader sees it: sentences with numbers that open posts, then the sources, then how it was made.

Built from text and entities only. Links come from the archive, never out of a text, and are https.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, TextLink, as_list

from bot.words import Words
from rag_core.types import Answer, Passage, Post, PostKey, Sentence

__all__ = ["Shown", "link", "plain", "render"]

# A longer list of sources folds; a tap opens it.
_FOLDED_FROM = 4
# About two lines on a phone.
_SNIPPET = 140
# Embeddings, overrides and isolates of writing direction: they could turn our own words around.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Shown:
    """How things are said to this reader: the sentences of a language, a time zone, and whether in a group."""

    words: Words
    zone: tzinfo
    group: bool = False


def render(answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    """The answer as one formatted text; `posts` are those it cites, for their edits and origins.

    A post missing from `posts` keeps its line, without these marks.
    """
    blocks = _refusal(answer, shown) if answer.refused else _answered(answer, posts, shown)
    notes = dict.fromkeys(shown.words("shortfall", stage=s.stage) for s in answer.shortfalls)
    if not answer.refused:
        notes[_footer(answer, shown.words)] = None
    if notes:
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


def link(label: str, url: str) -> Text:
    """The label as a link, or plain where the address is not https."""
    return TextLink(label, url=url) if url.startswith("https://") else Text(label)


def plain(text: str) -> str:
    """A text from outside without control characters and turns of writing direction; lines are kept."""
    kept = (c if c == "\n" or unicodedata.category(c) != "Cc" else " " for c in _TURNS.sub("", text))
    return "".join(kept).strip()


def _answered(answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> list[Text]:
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    said = [_sentence(s, answer, numbers) for s in answer.sentences]
    # A model writes a paragraph; quotes of different posts stand apart.
    blocks = [as_list(*said, sep=" " if answer.model else "\n\n")]
    if numbers:
        lines = [_source(key, n, answer, posts.get(key), shown) for key, n in numbers.items()]
        fold = ExpandableBlockQuote if len(lines) >= _FOLDED_FROM else BlockQuote
        blocks.append(Text(Bold(shown.words("sources", count=len(lines))), "\n", fold(as_list(*lines))))
    return blocks


def _sentence(sentence: Sentence, answer: Answer, numbers: Mapping[PostKey, int]) -> Text:
    cited = dict.fromkeys(c.post for c in sentence.citations)
    marks = [piece for key in cited for piece in (" ", link(f"[{numbers[key]}]", answer.link(key)))]
    return Text(plain(sentence.text), *marks)


def _source(key: PostKey, number: int, answer: Answer, post: Post | None, shown: Shown) -> Text:
    cited = next(c for s in answer.sentences for c in s.citations if c.post == key)
    words, marks = shown.words, [shown.words.date(cited.date, shown.zone)]
    if post and post.edited:
        marks.append(words("source-edited", date=words.date(post.edited, shown.zone)))
    if post and post.origin:
        marks.append(words("source-forwarded", origin=plain(post.origin.name)))
    if channels := {copy.chat_id for copy in answer.copies.get(key, ())} - {key.chat_id}:
        marks.append(words("source-copies", count=len(channels)))
    return Text(f"{number}. ", _titled(key, answer, words), " · ", " · ".join(marks))


def _titled(key: PostKey, answer: Answer, words: Words) -> Text:
    channel = answer.channels.get(key.chat_id)
    title = plain(channel.title).replace("\n", " ") if channel else ""
    return link(title or words("unnamed-channel"), answer.link(key))


def _refusal(answer: Answer, shown: Shown) -> list[Text]:
    # Where a part of the search failed, "it is not there" would be a claim we cannot make.
    said = "refused-partly" if answer.shortfalls else "refused-group" if shown.group else "refused"
    blocks = [Text(shown.words(said))]
    if answer.nearest:
        found = list(_nearest(answer, shown))
        quoted = BlockQuote(as_list(*found, sep="\n\n"))
        blocks.append(Text(shown.words("nearest", count=len(found)), "\n", quoted))
    return blocks


def _nearest(answer: Answer, shown: Shown) -> Iterator[Text]:
    for number, passage in enumerate(answer.nearest, 1):
        date = shown.words.date(passage.date, shown.zone)
        line = Text(f"{number}. ", _titled(passage.key, answer, shown.words), f" · {date}")
        yield Text(line, "\n", _snippet(passage)) if passage.text.strip() else line


def _snippet(passage: Passage) -> str:
    text = " ".join(plain(passage.text).split())
    if len(text) <= _SNIPPET:
        return text
    head = text[:_SNIPPET].rsplit(" ", 1)[0]
    return head.rstrip(" ,.;:–—-") + "…"


def _footer(answer: Answer, words: Words) -> str:
    if answer.model:
        return words("footer-model", model=plain(answer.model))
    verbatim = all(any(c.quote.strip() == s.text.strip() for c in s.citations) for s in answer.sentences)
    return words("footer-verbatim" if verbatim else "footer-counted")
