"""Who or what a name stands for: posts that say it, else the first that names it."""

import pytest

from rag_core.types import Certainty


def lines(answer):
    return [sentence.text for sentence in answer.sentences]


@pytest.fixture
async def named(library, make_post):
    texts = (
        "Pixel ate the rota again.",
        "Pixel is the harbour cat, eleven years old.",
        "Thank Pixel for the mice, all nine of them.",
        "Our new warden is Greta Holm.",
        "Знакомьтесь: Зинаида. Ржаная закваска, одиннадцать лет.",
        "Вчера Зинаида убежала из банки.",
        "Новое слово у пристани: «Чинильня». Раз в месяц чиним чайники.",
        "«Чинильня» вернулась.",
    )
    await library.keep(*(make_post(200 + n, text, chat=library.harbour, days=150 + n) for n, text in enumerate(texts)))
    await library.keep(make_post(300, "Pixel is a spy of the vault.", chat=library.safe, days=100))
    return library


CAT, LEAVEN = "Pixel is the harbour cat, eleven years old.", "Знакомьтесь: Зинаида. Ржаная закваска, одиннадцать лет."
MENDING = "Новое слово у пристани: «Чинильня». Раз в месяц чиним чайники."


@pytest.mark.parametrize(
    ("question", "line", "certainty"),
    [
        ("who is Pixel?", CAT, Certainty.SURE), ("who's pixel", CAT, Certainty.SURE),
        ("pixel это кто?", CAT, Certainty.SURE), ("кто такая Зинаида?", LEAVEN, None),
        ("who is greta holm", "Our new warden is Greta Holm.", Certainty.PROBABLE),  # a role
        ("что за чинильня", MENDING, Certainty.PROBABLE),  # a first mention
    ],
)  # fmt: skip
async def test_what_says_it_in_so_many_words_is_sure(named, question, line, certainty):
    answer = await named.ask(question)
    assert lines(answer)[0] == line
    assert certainty is None or answer.certainty is certainty


async def test_a_name_that_no_post_of_the_viewer_has_is_not_defined(named):
    assert (await named.ask("who is Barnabas Quill?")).refused
    answer = await named.ask("who is Pixel?", see=(named.kiln,))
    assert not any("Pixel" in line for line in lines(answer))


async def test_what_has_changed_since_comes_first_and_is_not_sure(named, make_post):
    told = (
        "Otto is our chairman, elected for two years.",
        "Sadly Otto is no longer chairman.",
        "We thank Otto for all.",
    )
    await named.keep(*(make_post(400 + n, text, chat=named.harbour, days=220 + n) for n, text in enumerate(told)))
    answer = await named.ask("who is Otto?")
    assert (lines(answer), answer.certainty) == ([told[1], told[0]], Certainty.PROBABLE)


async def test_a_common_word_is_a_question_like_any_other(named, make_post):
    await named.keep(make_post(410, "Coming (we hope) on Friday: the brass band.", chat=named.harbour, days=230))
    assert (await named.ask("who is coming")).certainty is not Certainty.SURE
