import pytest


@pytest.mark.parametrize(
    ("question", "start", "quoted"),
    [
        ("Is it true that the ferry to Owl Island leaves at 7:30?", "Yes: ", "7:30"),
        ("Is it true that a ferry ticket costs nine euros?", "No: ", "twelve euros"),
    ],
)
async def test_a_claim_that_is_asked_gets_a_yes_or_a_no(library, question, start, quoted):
    found = await library.ask(question)
    first = found.sentences[0]
    assert first.text.startswith(start)
    assert quoted in first.text
    assert first.text.endswith(first.citations[0].quote)


async def test_a_claim_that_no_post_speaks_of_is_searched_like_a_question(library):
    found = await library.ask("Is it true that elephants sleep standing?")
    assert not any(sentence.text.startswith(("Yes: ", "No: ")) for sentence in found.sentences)


async def test_channels_that_disagree_are_both_quoted(library, make_post):
    await library.keep(make_post(7, "A ferry ticket costs fifteen euros now.", chat=library.harbour, days=90))
    found = await library.ask("Is it true that a ferry ticket costs twelve euros?")
    assert found.sentences[0].text == "No: A ferry ticket costs fifteen euros now."
