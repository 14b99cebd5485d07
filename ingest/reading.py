"""The messages of one exported chat as posts, with account of what became no post."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from ingest.fields import ID_LIMIT, box
from ingest.post import Malformed, from_export
from rag_core.types import Channel, Post

__all__ = ["Reading"]


@dataclass(slots=True)
class Reading:
    """One chat while it is read. Not frozen: it is a notebook.

    `seen` holds the ids of all its entries, `first` and `last` are the dates of its oldest and newest post.
    """

    channel: Channel
    zone: tzinfo
    seen: array[int] = field(default_factory=lambda: array("q"))
    entries: int = 0
    services: int = 0
    migrated: int = 0
    broken: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def posts(self, messages: Iterator[object]) -> Iterator[Post]:
        """The posts among the messages, in their order; the rest is counted."""
        for message in messages:
            self.entries += 1
            entry = box(message)
            message_id = entry.get("id")
            if type(message_id) is int and -ID_LIMIT < message_id < 0:
                # From before a group became a supergroup: shifted by -1,000,000,000, no link leads there.
                self.migrated += 1
                continue
            if type(message_id) is int and 0 < message_id <= ID_LIMIT:
                self.seen.append(message_id)
            try:
                post = self._post(entry)
            except Malformed:
                self.broken += 1
                continue
            if post is None:
                self.services += 1
            else:
                self.first = min(self.first or post.date, post.date)
                self.last = max(self.last or post.date, post.date)
                yield post

    def _post(self, entry: Mapping[str, Any]) -> Post | None:
        channel = self.channel
        return from_export(entry, channel.chat_id, zone=self.zone, broadcast=channel.kind == "channel")

    def skipped(self) -> int:
        """How many entries became no post."""
        return self.services + self.migrated + self.broken

    def notes(self) -> Iterator[str]:
        """What a person should know of it, in sentences."""
        title = self.channel.title
        if not self.entries:
            yield f"{title}: the export holds no messages."
        if self.migrated:
            yield f"{title}: left out {self.migrated} messages older than the supergroup, no link leads to them."
        if self.broken:
            yield f"{title}: left out {self.broken} entries that could not be read."
