"""Sample sizes: a part of each large sample by default, all of it with SAMPLES=full (`make test SAMPLES=full`)."""

from __future__ import annotations

import os

FULL = os.environ.get("SAMPLES") == "full"


def choose_size(full: int, brief: int) -> int:
    """How many examples to draw."""
    return full if FULL else brief
