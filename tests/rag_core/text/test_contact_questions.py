"""Questions for the contacts of a channel."""

from __future__ import annotations

import pytest

from rag_core.text.contact_questions import ContactKind, parse_contact_question


@pytest.mark.parametrize(
    ("asked", "kind", "topic"),
    [
        ("как с вами связаться?", ContactKind.WRITE, ""),
        ("куда вам новость скинуть?", ContactKind.WRITE, ""),
        ("how do i contact you", ContactKind.WRITE, ""),
        ("how do i send news to the harbour channel?", ContactKind.WRITE, "harbour"),
        ("какой у вас номер телефона", ContactKind.PHONE, ""),
        ("who do i call", ContactKind.PHONE, ""),
        ("вы где находитесь?", ContactKind.PLACE, ""),
        ("where are you guys?", ContactKind.PLACE, ""),
        ("what is the address of the bakery", ContactKind.PLACE, "bakery"),
    ],
)
def test_what_is_asked_for_and_of_whom(asked: str, kind: ContactKind, topic: str) -> None:
    assert parse_contact_question(asked) == (kind, topic)


@pytest.mark.parametrize(
    "asked",
    [
        "где можно оставить машину",
        "сколько стоит абонемент",
        "where do i leave the car near the hill",
        "how do i get a refund for a lost parcel of clay",
        "кому сообщить о пропавшей серой кошке с улицы ленина",
        "где вы " + "были " * 40,
    ],
)
def test_a_question_about_another_thing_is_none(asked: str) -> None:
    assert parse_contact_question(asked) is None
