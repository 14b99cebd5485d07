"""Slots: a channel and a fortnight as one number, so that a filter by both is a filter by one.

The embedded engine gathers the points of one condition, and looks up the others for each of them: where
150,000 of a million points are of three channels and 250,000 of some months, that is 150,000 look-ups for the
37,500 that are both. An index over slots gives these 37,500, and the edges of the first and the last fortnight.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["slot", "slots"]

# A fortnight keeps the edges small and the numbers few: 20 channels and two years are 1,060.
_SPAN_S = 14 * 86_400
_SPANS = 2_048  # 78 years: 11 bits beside the 52 of a chat id. Two points may share a slot; filters are checked too.
_LARGEST = 2**63
_MOST = 1_000  # slots in a filter: 1 ms of the engine


def slot(chat: int, date: int) -> int:
    """The slot of a post of that Unix second."""
    return _numbered(chat, date // _SPAN_S)


def slots(
    channels: Iterable[int], since: int | None, until: int | None, now: int
) -> tuple[list[int], int | None] | None:
    """The slots of a filter, and the second from which on posts count without one; None where slots are no help.

    A period that ends after `now` is spelt out up to the end of the next fortnight: posts from the future are
    there only by mistake, but they have to be found.
    """
    horizon = (now // _SPAN_S + 2) * _SPAN_S
    open_ended = until is None or until > horizon
    end = horizon if until is None else min(until, horizon)
    if since is None or since >= end:
        return None
    spans, named = range(since // _SPAN_S, (end - 1) // _SPAN_S + 1), [*channels]
    if len(spans) * len(named) > _MOST:
        return None
    return [_numbered(chat, span) for chat in named for span in spans], horizon if open_ended else None


def _numbered(chat: int, span: int) -> int:
    return (chat * _SPANS + span) % _LARGEST
