from datetime import UTC, datetime, timedelta

import pytest

from rag_core.writing.extract import format_conflict

DAY = datetime(2025, 3, 3, tzinfo=UTC)
PRICE = "How much does a ferry ticket cost?"


@pytest.fixture
async def disagreeing(library, make_post):
    """The harbour says twelve euros in April, and fifteen at the end of May."""
    await library.keep(make_post(7, "A ferry ticket costs fifteen euros now.", chat=library.harbour, days=90))
    return library


async def test_both_are_given_with_their_days_the_further_one_word_for_word(disagreeing):
    found = await disagreeing.ask(PRICE)
    texts = [sentence.text for sentence in found.sentences]
    assert sum("twelve euros" in text for text in texts) == 1
    assert sum("fifteen euros" in text for text in texts) == 1
    assert "fifteen euros" in texts[0]
    assert texts[1].startswith("Earlier, on 10 April 2025: ")
    assert {citation.post.message_id for s in found.sentences for citation in s.citations} == {5, 7}
    (citation,) = found.sentences[1].citations
    assert texts[1].endswith(f": {citation.quote}")


@pytest.mark.parametrize("question", [PRICE, "When does the ferry to Owl Island leave?"])
async def test_where_nothing_disagrees_nothing_is_added(library, make_post, question):
    # what the asker may not read disagrees with nothing
    await library.keep(make_post(7, "A ferry ticket costs fifteen euros now.", chat=library.safe, days=90))
    found = await library.ask(question)
    assert found.sentences
    assert all(sentence.text == sentence.citations[0].quote for sentence in found.sentences)


@pytest.mark.parametrize(
    ("question", "one", "other"),
    [
        ("Which bus goes to the mill?", "Bus 41 goes to the mill.", "Bus 27 goes to the mill."),
        ("How much is a sauna day?", "A sauna day in 2025 costs 12 euros.", "A sauna day in 2026 costs 15 euros."),
        (
            "How much is a visit?",
            "A visit of the museum vault costs 12 euros.",
            "A visit of the dentist costs 40 euros.",
        ),
        ("How much is a day ticket?", "An adult day ticket costs 12 euros.", "A child day ticket costs 6 euros."),
        ("When does the boat leave?", "The boat leaves at 9:00 on weekdays.", "The boat leaves at 11:00 on weekends."),
        ("How many seats are there in the red hall?", "The red hall has 90 seats.", "The green hall has 120 seats."),
    ],
)
async def test_posts_of_other_things_or_years_do_not_disagree(library, make_post, question, one, other):
    await library.keep(
        make_post(7, one, chat=library.harbour, days=90), make_post(8, other, chat=library.kiln, days=300)
    )
    found = await library.ask(question)
    assert found.sentences
    assert not any("otherwise" in sentence.text for sentence in found.sentences)


def test_which_is_newer_is_said_in_both_languages():
    later, hours = DAY + timedelta(days=9), DAY + timedelta(hours=3)
    assert [format_conflict(*pair, "en") for pair in ((DAY, later), (later, DAY), (DAY, hours))] == [
        "But a newer post, of 12 March 2025, says otherwise:",
        "But an earlier post, of 3 March 2025, says otherwise:",
        "But another post of that day, of 3 March 2025, says otherwise:",
    ]
    assert format_conflict(DAY, later, "ru") == "Но более новый пост, от 12 марта 2025, говорит иначе:"
    assert format_conflict(later, DAY, "ru").startswith("Но более ранний пост, от 3 марта 2025")
