"""Questions about a channel itself: how to reach those who run it, what it is about, and who they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag_core.types import Answer, Certainty, Origin

SIGNED = "Harbour News · Breakwater Street 4 · @harbour_desk"
ABOUT = "This is the channel of the harbour: tides, fish, lost gloves."
OWNERS = "Пишем вдвоём, Рита и Паша."


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


async def test_of_several_channels_each_says_its_own_contact_and_none_that_may_not_be_read(signed: Any) -> None:
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


@pytest.fixture
async def introduced(empty_library: Any, make_post: Any) -> Any:
    """Harbour and kiln with first posts that introduce them, a new editor of the harbour, and a closed channel."""
    library = empty_library
    await library.keep(
        make_post(1, f"Hello! {ABOUT} Vera here, harbour master.", chat=library.harbour),
        *(make_post(2 + n, f"Tide table number {n} is on the wall.", chat=library.harbour, days=n) for n in range(8)),
        make_post(1, f"Это канал мастерской на Глиняной. {OWNERS}", chat=library.kiln),
        make_post(1, "Hello! This is the vault's channel. Run by Sir Humphrey.", chat=library.safe),
        make_post(150, "Our new editor is Otto Lind, welcome him.", chat=library.harbour, days=200),
        make_post(151, "The editor of the Herald, Max Frost, was rude.", chat=library.harbour, days=201),
        make_post(152, "The new manager of our supermarket is Bob Smith.", chat=library.harbour, days=202),
    )
    return library


async def test_a_named_channel_says_surely_what_it_is_about(introduced: Any) -> None:
    for question in ("what is harbour news about?", "tell me about the harbour news channel"):
        answer = await introduced.ask(question)
        assert (lines(answer)[0][: len(ABOUT)], answer.certainty) == (ABOUT, Certainty.SURE)


async def test_who_runs_a_channel_is_who_took_over_then_who_speaks_in_its_first_posts(introduced: Any) -> None:
    answer = await introduced.ask("who runs harbour news?")
    assert lines(answer) == ["Our new editor is Otto Lind, welcome him.", "Vera here, harbour master."]
    assert answer.certainty is Certainty.PROBABLE


async def test_of_several_channels_each_names_its_own_people_and_none_that_may_not_be_read(introduced: Any) -> None:
    for question in ("кто тут админ?", "who's behind this page?", "кто ведёт этот канал"):
        answer = await introduced.ask(question)
        assert sorted(lines(answer)) == ["Our new editor is Otto Lind, welcome him.", OWNERS]


async def test_without_an_introduction_nothing_is_said(library: Any) -> None:
    for question in ("who runs this channel?", "what is the harbour news channel about?"):
        assert (await library.ask(question, see=(library.harbour,))).refused


async def test_who_runs_something_else_is_a_question_for_posts(introduced: Any, make_post: Any) -> None:
    await introduced.keep(make_post(160, "The glaze class is run by Maria.", chat=introduced.kiln, days=210))
    answer = await introduced.ask("who runs the glaze class?")
    assert lines(answer)[0] == "The glaze class is run by Maria."
