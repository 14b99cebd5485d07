"""Archive: posts, versions, updates and questions in one SQLite file, the source of truth."""

from __future__ import annotations

from rag_core.storage.db import Archive

__all__ = ["Archive"]
