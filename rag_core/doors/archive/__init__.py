"""The archive: posts, versions, updates and questions in one SQLite file, the source of truth."""

from __future__ import annotations

from rag_core.doors.archive import backlog, channels, copies, posts, questions, rebuilds, updates
from rag_core.doors.archive.connection import Archive

__all__ = ["Archive", "backlog", "channels", "copies", "posts", "questions", "rebuilds", "updates"]
