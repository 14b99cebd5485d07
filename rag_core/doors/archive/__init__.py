"""The archive: posts, versions, updates and questions in one SQLite file, the source of truth."""

from __future__ import annotations

from rag_core.doors.archive import channels, posts, questions, updates
from rag_core.doors.archive.connection import Archive

__all__ = ["Archive", "channels", "posts", "questions", "updates"]
