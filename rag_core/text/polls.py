"""Polls: a question with options, which states nothing and is evidence of nothing.

Ingest writes a poll as its question and a line "— option" for each option, after a description and before an
explanation (`ingest/messages.py`).
"""

from __future__ import annotations

import re

from rag_core.text.language_detection import detect_language
from rag_core.text.sentences import TextSpan
from rag_core.types import Passage, Post

POLL_LABELS = {"ru": "Опрос:", "en": "Poll:"}
_QUESTION_AND_OPTIONS = re.compile(r"(?:^(?!— )[^\n]+\n)?^— [^\n]*(?:\n— [^\n]*)*", re.MULTILINE)


def find_poll(post: Post | Passage) -> TextSpan | None:
    """Find the question and the options of a poll in the text of a post or passage; None where it is no poll.

    A text of nothing but a question with its mark and several options is a poll whatever its media are.
    """
    media, text = post.media if isinstance(post, Passage) else post.media and post.media.kind, post.text.rstrip()
    found = _QUESTION_AND_OPTIONS.search(text)
    if found is None:
        return None
    question, *options = found[0].split("\n")
    asks = found.span() == (0, len(text)) and question.endswith("?") and len(options) > 1
    return found.span() if media == "poll" or asks else None


def label_poll(post: Post | Passage) -> str:
    """Text of a post or passage, in which "Poll:" in its language stands before the question of a poll."""
    if (span := find_poll(post)) is None:
        return post.text
    return f"{post.text[: span[0]]}{POLL_LABELS[detect_language(post.text)]} {post.text[span[0] :]}"
