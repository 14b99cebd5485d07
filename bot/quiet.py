"""aiogram says that updates cannot be fetched every few seconds, twice; once an hour is enough."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.clock import elapsed

__all__ = ["quiet"]

_SAY_AGAIN_S = 3600.0


class _Repeats(logging.Filter):
    """Lets a failure through that was not said within the last hour, and that it is over."""

    def __init__(self) -> None:
        super().__init__()
        self._said, self._at = "", 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """False for what is said again."""
        template = str(record.msg)
        if template.startswith("Sleep for"):
            return False
        if template.startswith("Connection established"):
            self._said = ""
        if not template.startswith("Failed to fetch updates"):
            return True
        text = record.getMessage()
        if text == self._said and elapsed() - self._at < _SAY_AGAIN_S:
            return False
        self._said, self._at = text, elapsed()
        return True


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, a failure to fetch updates is said once an hour."""
    logger, repeats = logging.getLogger("aiogram.dispatcher"), _Repeats()
    logger.addFilter(repeats)
    try:
        yield
    finally:
        logger.removeFilter(repeats)
