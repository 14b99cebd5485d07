"""Date parser for questions: words about time to a range of days, Russian and English.

Examples: "в марте 2025", "last month", "с 3 по 9 июня". It serves a search of the past: a date without a year, and a
bare weekday, mean the latest one that has begun. What lies in the future is no filter for posts, and gives nothing.
"""

from __future__ import annotations

from rag_core.dates.parse import Period, parse_period

__all__ = ["Period", "parse_period"]
