"""How to reach those who run a channel: the line that its posts repeat, else the newest that says so."""

from __future__ import annotations

from typing import Any

import pytest

from rag_core.types import Answer, Certainty


def lines(answer: Answer) -> list[str]:
    return [sentence.text for sentence in answer.sentences]


@pytest.fixture
async def signed(library: Any, make_post: Any) -> Any:
    """Harbour posts with a signature, one of the kiln that says where to write, and a closed channel."""
    signature = "Harbour News · Breakwater Street 4 · @harbour_desk"
    await library.keep(
        *(make_post(100 + n, f"Tide table {n}.\n\n{signature}", chat=library.harbour, days=200 + n) for n in range(6)),
        make_post(110, "Найден ключ с брелоком, спросите @tamara_b.", chat=library.kiln, days=210),
        make_post(111, "По вопросам обжига пишите @kiln_master.", chat=library.kiln, days=205),
        make_post(112, "Наш канал @pech_i_glina: пишите в комментариях.", chat=library.kiln, days=211),
        make_post(113, "Write to @secret_keeper about the vault.", chat=library.safe, days=212),
    )
    return library


async def test_one_channel_is_answered_surely_by_its_signature(signed: Any) -> None:
    answer = await signed.ask("how do I contact you?", see=(signed.harbour,))
    assert lines(answer) == ["Harbour News · Breakwater Street 4 · @harbour_desk"]
    assert answer.certainty is Certainty.SURE
    where = await signed.ask("where are you guys?", see=(signed.harbour,))
    assert lines(where) == ["Harbour News · Breakwater Street 4 · @harbour_desk"]


async def test_of_several_channels_each_says_its_own_and_none_that_may_not_be_read(signed: Any) -> None:
    answer = await signed.ask("куда вам написать?")
    assert lines(answer) == [
        "Harbour News · Breakwater Street 4 · @harbour_desk",
        "По вопросам обжига пишите @kiln_master.",  # neither the channel itself nor who lost a key
    ]
    assert answer.certainty is Certainty.PROBABLE
    assert not any("secret_keeper" in line for line in lines(answer))


async def test_a_channel_is_named_by_what_it_is(signed: Any) -> None:
    answer = await signed.ask("how do i send news to the harbour channel?")
    assert lines(answer) == ["Harbour News · Breakwater Street 4 · @harbour_desk"]
    assert answer.certainty is Certainty.SURE


async def test_what_no_post_says_is_searched_like_any_other(signed: Any) -> None:
    assert not (await signed.ask("what is your phone number?", see=(signed.kiln,))).sentences
    later = signed.question("how do I contact you?", see=(signed.harbour,))
    assert later.asked_at > signed.now.replace(year=2025)
