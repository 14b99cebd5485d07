"""What tests share: the evaluation data beside the checkout, and posts in a few words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag_core.types import Post, PostKey

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the evaluation data (shared/data beside the checkout) is not here")
    return SHARED


MakePost = Callable[..., Post]


@pytest.fixture
def make_post() -> MakePost:
    """make_post(7, "text", days=3): post 7 of the first channel, on the fourth day."""

    def make(number: int, text: str, *, chat: int = -1001, days: int = 0, **fields: object) -> Post:
        date = datetime(2025, 3, 1, 12, tzinfo=UTC) + timedelta(days=days)
        return Post(PostKey(chat, number), date, text, **fields)  # type: ignore[arg-type]

    return make
