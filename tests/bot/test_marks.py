from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bot import models_chat
from bot.channels.buttons import mark_of
from bot.marks import marked

ARCHIVE: Any = SimpleNamespace(identity="0123abc")


def test_buttons_of_earlier_versions_keep_their_marks() -> None:
    assert mark_of(ARCHIVE, -1001) == "TmY5noRh"
    assert models_chat._mark(ARCHIVE, "модель") == "mB59Ofoj"
    assert marked(repr(("t", -1, 2, 3, 4)), ARCHIVE.identity, size=9) == "Wq6Z2oCoKXU_"
    assert marked(repr([(1, 2)]), size=3) == "QiDt"


def test_another_archive_makes_other_marks() -> None:
    assert marked("a", "one") != marked("a", "another") != marked("a")
