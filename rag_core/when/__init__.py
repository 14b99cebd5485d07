"""Words about time to a range of days: "в марте 2025", "last month", "с 3 по 9 июня". Russian and English.

This searches the past: what names no year, and a bare weekday, is the latest one that has begun. What lies
in the future is no filter for posts, and gives nothing.
"""

from __future__ import annotations

from rag_core.when.ranges import Period, period

__all__ = ["Period", "period"]
