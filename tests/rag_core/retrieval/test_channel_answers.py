import pytest

from rag_core.types import Certainty

ABOUT = "This is the channel of the harbour: tides, fish, lost gloves."
OWNERS = "Пишем вдвоём, Рита и Паша."


def lines(answer):
    return [sentence.text for sentence in answer.sentences]


@pytest.fixture
async def introduced(empty_library, make_post):
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


async def test_a_named_channel_says_surely_what_it_is_about(introduced):
    for question in ("what is harbour news about?", "tell me about the harbour news channel"):
        answer = await introduced.ask(question)
        assert (lines(answer)[0][: len(ABOUT)], answer.certainty) == (ABOUT, Certainty.SURE)


async def test_who_runs_a_channel_is_who_took_over_then_who_speaks_in_its_first_posts(introduced):
    answer = await introduced.ask("who runs harbour news?")
    assert lines(answer) == ["Our new editor is Otto Lind, welcome him.", "Vera here, harbour master."]
    assert answer.certainty is Certainty.PROBABLE


async def test_of_several_channels_each_names_its_own_people_and_none_that_may_not_be_read(introduced):
    for question in ("кто тут админ?", "who's behind this page?", "кто ведёт этот канал"):
        answer = await introduced.ask(question)
        named = {"Harbour News: Our new editor is Otto Lind, welcome him.", f"Печь и глина: {OWNERS}"}
        assert set(lines(answer)) == named


async def test_without_an_introduction_nothing_is_said(library):
    for question in ("who runs this channel?", "what is the harbour news channel about?"):
        assert (await library.ask(question, see=(library.harbour,))).refused


async def test_who_runs_something_else_is_a_question_for_posts(introduced, make_post):
    await introduced.keep(make_post(160, "The glaze class is run by Maria.", chat=introduced.kiln, days=210))
    answer = await introduced.ask("who runs the glaze class?")
    assert lines(answer)[0] == "The glaze class is run by Maria."
