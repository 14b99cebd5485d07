"""Filters of searches in plain values, as the vector and sparse stores take them."""

from __future__ import annotations

import math
from typing import TypedDict

from rag_core.errors import VectorsUnavailable
from rag_core.types import PostKeySet, SearchFilter

MAX_FILTER_POSTS = 50_000  # most posts that a filter may name: 10 ms of the embedded store, more of a server


def get_date_bounds(only: SearchFilter) -> tuple[int | None, int | None]:
    """Bounds of a filter in Unix seconds, rounded up: Telegram's dates have no fractions."""
    since = None if only.since is None else math.ceil(only.since.timestamp())
    until = None if only.until is None else math.ceil(only.until.timestamp())
    return since, until


class StoreFilter(TypedDict):
    """Filter in plain values, as the stores use it in their queries; dates in whole Unix seconds.

    `posts`: for a filter by single posts, pairs of a channel (one of `channels`) and its message ids.
    """

    channels: list[int]
    posts: list[tuple[int, list[int]]] | None
    since: int | None
    until: int | None
    lang: str | None


def make_store_filter(only: SearchFilter, lang: str | None) -> StoreFilter:
    """Convert a search filter for the stores. Raises VectorsUnavailable for more than `MAX_FILTER_POSTS` posts."""
    since, until = get_date_bounds(only)
    return {
        "channels": sorted(only.channels),
        "posts": None if only.keys is None else _list_filter_posts(only.keys, only.channels),
        "since": since,
        "until": until,
        "lang": lang,
    }


def _list_filter_posts(keys: PostKeySet, channels: frozenset[int]) -> list[tuple[int, list[int]]]:
    named = [(chat, ids.tolist()) for chat, ids in sorted(keys.by_chat.items()) if chat in channels and len(ids)]
    if sum(len(ids) for _, ids in named) > MAX_FILTER_POSTS:
        raise VectorsUnavailable(
            f"More than {MAX_FILTER_POSTS:,} posts fit the filter: they were searched by words only. "
            "Ask about one channel to search by meaning too."
        )
    return named
