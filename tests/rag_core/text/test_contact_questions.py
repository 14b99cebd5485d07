"""Questions for the contacts of those who run a channel."""

from __future__ import annotations

import pytest

from rag_core.text.contact_questions import ContactKind, detect_contact_kind


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ("как с вами связаться?", ContactKind.WRITE),
        ("куда вам новость скинуть?", ContactKind.WRITE),
        ("how do i contact you", ContactKind.WRITE),
        ("is there an email i can write to you at?", ContactKind.WRITE),
        ("какой у вас номер телефона", ContactKind.PHONE),
        ("who do i call", ContactKind.PHONE),
        ("вы где находитесь?", ContactKind.PLACE),
        ("where are you?", ContactKind.PLACE),
    ],
)
def test_what_is_asked_of_those_who_run_a_channel(asked: str, kind: ContactKind) -> None:
    assert detect_contact_kind(asked) is kind


@pytest.mark.parametrize(
    "asked",
    [
        "где можно оставить машину",
        "where is the fish market?",
        "who do i call about the ferry?",
        "did anyone find the phone?",
        "у вас есть номера?",
        "how many people write for you?",
        "как с ним связаться?",  # of whom the talk is
        "what is their address?",
        "where is the entrance?",
        "где вы " + "были " * 40,
    ],
)
def test_a_question_about_another_thing_or_person_is_none(asked: str) -> None:
    assert detect_contact_kind(asked) is None
