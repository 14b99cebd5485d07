from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bot.handlers import admin
from bot.views.channel_card import make_channel_token
from bot.views.keyboards import make_callback_token

ARCHIVE: Any = SimpleNamespace(identity="0123abc")


def test_buttons_of_earlier_versions_keep_their_marks() -> None:
    assert make_channel_token(ARCHIVE, -1001) == "TmY5noRh"
    assert admin._make_model_token(ARCHIVE, "модель") == "mB59Ofoj"
    assert make_callback_token(repr(("t", -1, 2, 3, 4)), ARCHIVE.identity, size=9) == "Wq6Z2oCoKXU_"
    assert make_callback_token(repr([(1, 2)]), size=3) == "QiDt"


def test_another_archive_makes_other_marks() -> None:
    assert make_callback_token("a", "one") != make_callback_token("a", "another") != make_callback_token("a")
