from datetime import UTC, datetime

import pytest

from rag_core.dates import format_day
from rag_core.text.sentences import MAX_SENTENCE_LENGTH
from rag_core.types import Citation, PostKey, Question, Sentence, Viewer
from rag_core.writing.extract import (
    MAX_FRAMED_QUOTE_LENGTH,
    format_dated_line,
    format_post_count,
    frame_quote,
)

MARCH = datetime(2025, 3, 3, tzinfo=UTC)
MAY = datetime(2025, 5, 9, tzinfo=UTC)


def test_a_day_in_words():
    assert [format_day(MARCH, lang) for lang in ("ru", "en")] == ["3 марта 2025", "3 March 2025"]


def test_a_dated_line_that_was_cut_within_a_sentence_ends_with_an_ellipsis():
    assert format_dated_line(MARCH, "And we build Tawny,\n", "en") == "3 March 2025: And we build Tawny…"
    assert format_dated_line(MARCH, "Марта пекла:", "ru") == "3 марта 2025: Марта пекла…"
    assert format_dated_line(MARCH, "We build it.", "en") == "3 March 2025: We build it."


@pytest.mark.parametrize("lang", ["ru", "en"])
def test_a_phrase_with_its_quote_is_one_short_sentence(lang):
    for day in (datetime(2025, month, 28, tzinfo=UTC) for month in range(1, 13)):
        longest = "a" * MAX_FRAMED_QUOTE_LENGTH
        quote = Sentence(longest, (Citation(PostKey(-1, 1), longest, 0, len(longest), day),))
        question = Question("", lang, day, Viewer(1, frozenset()))
        said = (frame_quote(quote, frame, question).text for frame in ("first", "last", "posted"))
        assert max(map(len, said)) <= MAX_SENTENCE_LENGTH


@pytest.mark.parametrize(
    ("number", "form"),
    [(1, "1 пост "), (2, "2 поста "), (5, "5 постов "), (11, "11 постов "), (21, "21 пост "), (104, "104 поста ")],
)
def test_russian_numbers_agree_with_their_noun(number, form):
    assert format_post_count(number, (MARCH, MAY), "ru", ["мост"]).startswith(form)


def test_a_count_says_what_was_counted_and_between_which_days():
    said = "2 posts with the words “Owl”, “ferry”, from 3 March 2025 to 9 May 2025."
    assert format_post_count(2, (MARCH, MAY), "en", ["Owl", "ferry"]) == said
    assert format_post_count(1, (MARCH, MARCH), "ru", ["мост"]) == "1 пост со словом «мост»: 3 марта 2025."
