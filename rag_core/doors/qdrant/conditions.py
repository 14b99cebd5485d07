"""The conditions of a filter, as the server takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qdrant_client import models

__all__ = ["INTEGER", "any_of", "bounds"]

# Looked up one by one, and never by a range.
INTEGER = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)


def any_of(key: str, values: Sequence[int]) -> models.FieldCondition:
    """Points whose `key` is one of these numbers, or holds one."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def bounds(since: int | None, until: int | None) -> Iterator[models.FieldCondition]:
    """Points of that time, in Unix seconds; `since` is inclusive, `until` exclusive."""
    if since is not None or until is not None:
        yield models.FieldCondition(key="date", range=models.Range(gte=since, lt=until))
