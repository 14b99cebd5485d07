import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from text_tables import read_table

from rag_core.evidence import check_citations, keep_current_passages
from rag_core.storage import visible_posts
from rag_core.types import Citation, Draft, Passage, PostKey, Sentence, Source
from rag_core.verification.support import (
    MIN_SUPPORT,
    attribute_sentence,
    explain_drop,
    find_best_quote,
    measure_support,
)


def passage(text, number=1, start=0):
    date = datetime(2025, 3, 4, 12, tzinfo=UTC)
    return Passage(PostKey(-1001, number), 0, "Harbour News · 2025-03-04", text, start, start + len(text), date)


FERRY = passage("The ferry leaves at 7:30 from pier four. A ticket costs 2 750 roubles; write to @ferry_desk.")
KILN = passage("Запись на осенний курс керамики Ивана Петрова открывается пятого сентября, места есть у 12 человек.", 2)


ROWS = [(text, {"ferry": FERRY, "kiln": KILN}[post], how) for text, post, how in read_table(__file__, "support.txt")]


@pytest.mark.parametrize(("text", "post", "how"), ROWS)
def test_what_a_post_says_is_supported_and_else_a_sentence_is_dropped_with_a_reason(text, post, how):
    if how in {"supported", "not"}:
        assert (measure_support(text, [post]) >= MIN_SUPPORT) is (how == "supported")
    else:
        assert attribute_sentence(text, [Source(1, post, 1.0)]) is None
        assert explain_drop(text, [Source(1, post, 1.0)]) == how


def test_only_a_post_s_own_words_are_wholly_supported():
    assert measure_support("the ferry leaves at 7:30 from pier four", [KILN, FERRY]) == 1.0
    assert measure_support("from pier four the ferry leaves at 7:30", [KILN, FERRY]) < 1.0
    assert measure_support("anything", []) == 0.0


def test_a_sentence_stands_on_one_post_and_two_sentences_on_one_each():
    other = passage("The museum opens at ten and shows brass lamps.", 3)
    joined = "The ferry leaves at 7:30, the museum opens at ten and shows brass lamps."
    assert measure_support(joined, [FERRY, other]) == 0.0
    assert measure_support("The ferry leaves at 7:30. The museum opens at ten.", [FERRY, other]) >= MIN_SUPPORT
    found = attribute_sentence("The museum opens at ten.", [Source(1, FERRY, 1.0), Source(3, other, 0.5)])
    assert [citation.post.message_id for citation in found.citations] == [3]


WRITTEN = Path("tests/data/written_sentences")


@pytest.mark.parametrize(("name", "most_wrong", "least_right"), [("rows", 2, 24), ("rows2", 1, 10), ("rows3", 0, 8)])
def test_facts_put_together_anew_are_not_shown_and_most_right_ones_are(name, most_wrong, least_right):
    shown = {True: [], False: []}
    for row in map(json.loads, (WRITTEN / f"{name}.jsonl").read_text("utf-8").splitlines()):
        posts = {one["id"]: (one["text"], datetime.fromisoformat(f"{one['date']}T12:00:00Z")) for one in row["posts"]}
        sources = [Source(n, replace(passage(posts[n][0], n), date=posts[n][1]), 1.0) for n in row["cites"]]
        found = attribute_sentence(row["sentence"], sources)
        if found:
            shown[row["supported"]].append(row["sentence"])
    assert len(shown[False]) <= most_wrong, shown[False]
    assert len(shown[True]) >= least_right


def test_the_quote_is_the_sentence_of_the_post_that_says_it_at_its_place_in_the_post():
    later = passage("Dogs travel free. The ferry leaves at 7:30.", start=100)
    found = attribute_sentence("The ferry starts at 7:30.", [Source(1, later, 1.0)])
    (citation,) = found.citations
    assert (citation.quote, citation.start, citation.end) == ("The ferry leaves at 7:30.", 118, 143)
    assert find_best_quote("anything", passage("   ")) is None


HEADERS = [
    "The mayor resigned on Friday · 2025-03-04",  # the title of a channel
    "Mayor resigned on Friday → Harbour News · 2025-03-04",  # who is forwarded may choose any name
    "Harbour News · 2025-03-04 · The mayor resigned on Friday after the storm",  # the post that is replied to
    "The mayor resigned · 2025-03-04 · on Friday",
]


@pytest.mark.parametrize("line", HEADERS)
@pytest.mark.parametrize(
    "said",
    [
        "The mayor resigned on Friday.",
        "According to the channel, the mayor resigned on Friday.",
        "The mayor says that dogs resigned on Friday.",
        "Dogs are on a leash near the bird cliffs. The mayor resigned on Friday.",
    ],
)
def test_what_only_a_title_a_name_or_another_post_says_is_not_cited(line, said):
    source = Source(1, replace(passage("Yes, dogs are on a leash near the bird cliffs, confirmed."), header=line), 1.0)
    assert attribute_sentence(said, [source]) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Harbour News · 2025-03-04", "According to Harbour News, the ferry leaves at 7:30 from pier four."),
        ("Harbour News · 2025-03-04", "Harbour News reports that the ferry leaves at 7:30 from pier four."),
        ("Captain Morgan → Harbour News · 2025-03-04", "Captain Morgan said the ferry leaves at 7:30."),
        ("Печь и глина · 2025-03-04", "По данным «Печи и глины» ferry leaves at 7:30 from pier four."),
    ],
)
def test_whose_post_it_is_may_be_said(line, said):
    assert measure_support(said, [replace(FERRY, header=line)]) >= MIN_SUPPORT


DAY = datetime(2025, 3, 1, tzinfo=UTC)


def cited(chat, number, text, start=0):
    return Citation(PostKey(chat, number), text, start, start + len(text), DAY)


async def kept(library, *citations, see=None):
    viewer = library.question("", see=see or (library.harbour, library.kiln)).viewer
    return await check_citations(Draft((Sentence("said", citations),), 1.0), viewer, library.rag)


async def test_a_sentence_keeps_the_quotes_that_stand_in_posts_of_the_asker_word_for_word(library):
    right = cited(library.harbour, 2, "mackerel", 6)
    assert await kept(library, right) == (Sentence("said", (right,)),)
    assert await kept(library, right, see=(library.kiln,)) == ()
    for wrong in (
        cited(library.harbour, 2, "mackerel", 7),
        cited(library.harbour, 2, "Mackerel", 6),
        cited(library.harbour, 2, "", 6),
        cited(library.harbour, 99, "mackerel", 6),
        cited(library.harbour, 2, "mackerel", 10_000),
        replace(right, end=99),
    ):
        assert await kept(library, wrong) == ()
        assert await kept(library, wrong, right) == (Sentence("said", (right,)),)


async def test_the_nearest_posts_are_looked_at_again_too(library, make_post):
    def passage(number, text, chat=library.harbour):
        return Passage(PostKey(chat, number), 0, "", text, 0, len(text), DAY)

    here, gone, changed = passage(2, "Fresh"), passage(3, "The"), passage(4, "Keep")
    await library.keep(make_post(1, "The safe is open.", chat=library.safe))
    closed = passage(1, "The safe is open.", library.safe)
    await library.erase(gone.key, index=False)
    viewer = library.question("").viewer
    passages = [here, gone, changed, closed]
    stored = await visible_posts.fetch_posts(library.rag.archive, [passage.key for passage in passages])
    assert keep_current_passages(passages, stored, viewer) == {here}
