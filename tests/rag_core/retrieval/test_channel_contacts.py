"""How to reach those who run a channel: the line that its posts repeat, else the newest that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_core.types import Answer, Certainty, Origin

SIGNED = "Harbour News · Breakwater Street 4 · @harbour_desk"


def lines(answer: Answer) -> list[str]:
    return [sentence.text for sentence in answer.sentences]


@pytest.fixture
async def signed(library: Any, make_post: Any) -> Any:
    """Harbour posts with a signature, one of the kiln that says where to write, and a closed channel."""
    await library.keep(
        *(make_post(100 + n, f"Tide table {n}.\n\n{SIGNED}", chat=library.harbour, days=200 + n) for n in range(6)),
        make_post(110, "Найден ключ с брелоком, пишите @tamara_b.", chat=library.kiln, days=210),
        make_post(111, "По вопросам обжига пишите @kiln_master.", chat=library.kiln, days=205),
        make_post(112, "Наш канал @pech_i_glina: пишите в комментариях.", chat=library.kiln, days=211),
        make_post(113, "Write to @secret_keeper about the vault.", chat=library.safe, days=212),
    )
    return library


async def test_one_channel_is_answered_surely_by_its_signature(signed: Any) -> None:
    for question in ("how do I contact you?", "where are you?"):
        answer = await signed.ask(question, see=(signed.harbour,))
        assert (lines(answer), answer.certainty) == ([SIGNED], Certainty.SURE)


async def test_of_several_channels_each_says_its_own_and_none_that_may_not_be_read(signed: Any) -> None:
    answer = await signed.ask("куда вам написать?")
    assert lines(answer) == [SIGNED, "По вопросам обжига пишите @kiln_master."]  # not the channel, nor who found a key
    assert answer.certainty is Certainty.PROBABLE
    named = await signed.ask("how do i send news to @harbour_news?")
    assert (lines(named), named.certainty) == ([SIGNED], Certainty.SURE)


async def test_a_line_that_is_no_signature_is_never_sure(signed: Any) -> None:
    answer = await signed.ask("куда вам написать?", see=(signed.kiln,))
    assert (lines(answer), answer.certainty) == (["По вопросам обжига пишите @kiln_master."], Certainty.PROBABLE)


async def test_the_signature_of_now_replaces_the_one_of_before_and_a_forward_has_its_own(
    signed: Any, make_post: Any
) -> None:
    moved = "Harbour News · Quay Street 9 · @new_desk"
    forwarded = make_post(140, "Write to @other_shop.", chat=signed.harbour, days=240)
    await signed.keep(
        *(make_post(120 + n, f"Tides {n}.\n\n{moved}", chat=signed.harbour, days=220 + n) for n in range(5)),
        replace(forwarded, origin=Origin("Other shop")),
    )
    assert lines(await signed.ask("what is your address?", see=(signed.harbour,))) == [moved]
    assert lines(await signed.ask("how do I contact you?", see=(signed.harbour,))) == [moved]


async def test_dates_prices_and_credits_are_no_contacts(library: Any, make_post: Any) -> None:
    texts = [
        "Questions about the 2025-03-12 tasting will be answered there.",
        "Заказ мебели на 1 500 000 рублей оформлен.",
        *(f"Photo: @anna_{n}" for n in range(6)),
        "Our next tasting is Saturday 12, all welcome.",
    ]
    await library.keep(*(make_post(200 + n, text, chat=library.kiln, days=200 + n) for n, text in enumerate(texts)))
    for question in ("what is your phone number?", "how do I contact you?", "where are you?"):
        answer = await library.ask(question, see=(library.kiln,))
        assert not any(text in line for text in texts for line in lines(answer)), question
