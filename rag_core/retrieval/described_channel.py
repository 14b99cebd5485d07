"""Described channel: "what is new at the bakery" asks for the posts of a channel that has another name."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rag_core.engine import Engine
from rag_core.storage.channels import load_channels
from rag_core.storage.visible_posts import list_first_texts
from rag_core.text.names import transliterate_word
from rag_core.text.query_terms import strip_combining_form
from rag_core.text.stem_similarity import find_similar_stems
from rag_core.text.tokens import stem, tokenize
from rag_core.types import Viewer

_MAX_DESCRIBED_CHANNELS, _MAX_DESCRIBING_TERMS = 200, 4
_MAX_COUNTED_CHANNELS = 16
_FIRST_POSTS = 3  # they say what a channel is, where the history begins with them
INTRODUCTION_PATTERN = re.compile(
    r"\b(?:канал\w*|чат\w*|сообществ\w+|привет\w*|здравствуй\w*|добро пожаловать|меня зовут|"
    r"channel|chat|this is|welcome|hello|hi|we|мы)\b|\bhere,",
    re.IGNORECASE,
)
_MIN_LIKENESS = 0.6  # of stems of one family: "шахматистов" and "шахматы"


async def find_described_channel(words: str, viewer: Viewer, rag: Engine) -> int | None:
    """Find the channel that words describe, of those that the viewer may read; None if none or several.

    Each of the words that posts know, or a word of its family, stands in the channel's title or in a first post that
    introduces the channel.
    """
    terms = list(dict.fromkeys(tokenize(words)))
    if not 0 < len(terms) <= _MAX_DESCRIBING_TERMS or len(viewer.channels) > _MAX_DESCRIBED_CHANNELS:
        return None
    known, first = await load_channels(rag.archive), await list_first_texts(rag.archive, viewer.channels, _FIRST_POSTS)
    introductions = {
        chat: frozenset(tokenize("\n".join([*names, *filter(INTRODUCTION_PATTERN.search, texts)]).replace("_", " ")))
        for chat, texts in first.items()
        if chat in known and (names := (known[chat].title, known[chat].username or ""))
    }
    return await asyncio.to_thread(_choose_described, terms, introductions, rag)


def _choose_described(terms: Sequence[str], introductions: Mapping[int, frozenset[str]], rag: Engine) -> int | None:
    frequency = rag.lexical.statistics(frozenset(introductions)).frequency
    # of the words of introductions alone: others, also of channels that the viewer may not read, change nothing
    family = find_similar_stems(terms, sorted(set().union(*introductions.values())))
    scores, possible = defaultdict[int, float](float), set(introductions)
    for term in terms:
        forms = {term, strip_combining_form(term) or term}
        forms |= {other for likeness, other in family[term] if likeness >= _MIN_LIKENESS}
        ways = forms | {stem(spelt) for spelt in transliterate_word(term)}
        introduced = {chat for chat, said in introductions.items() if not ways.isdisjoint(said)}
        if introduced or any(map(frequency, forms)):
            possible &= introduced  # a word that is nowhere describes nothing
        counts = {  # posts of a channel with one of the words: that which most of them have
            chat: max(map(rag.lexical.statistics(frozenset({chat})).frequency, ways))
            for chat in sorted(introduced)[:_MAX_COUNTED_CHANNELS]
        }
        for chat in introduced:
            scores[chat] += 1 / len(introduced) + counts.get(chat, 0) / max(1, sum(counts.values()))
    best = sorted(possible & scores.keys(), key=lambda chat: -scores[chat])[:2]
    if not best or (len(best) > 1 and scores[best[0]] == scores[best[1]]):
        return None
    return best[0]
