"""Something fails or takes too long: the answer does without it and says so; never is "nothing found" said of it."""

import asyncio
import sqlite3
import time
from dataclasses import replace

import pytest
from faulty_indexes import Meaning, with_meaning

from rag_core.errors import ArchiveUnavailable, IndexUnavailable, ModelUnavailable, StageTimeout
from rag_core.index.lexical_index import LexicalIndex
from rag_core.retrieval.post_search import list_posts
from rag_core.run import Budgets
from rag_core.storage import index_state
from rag_core.text.tokens import tokenize
from rag_core.types import PassageRef, Plan, PostKey

pytestmark = pytest.mark.slow

ASKED = "When does the morning ferry to Owl Island leave from pier four?"
RIGHT = "7:30"
SHORT_S, LONG_S = 0.2, 0.4  # a budget, and what passes it


def within(library, **budgets):
    library.rag = replace(library.rag, budgets=Budgets(**budgets))


def missing(answer):
    return [shortfall.stage for shortfall in answer.shortfalls]


class Odd(LexicalIndex):
    """The index of a library, in which some searches fail or take their time."""

    trouble: Exception | None = None  # None: too slow

    @classmethod
    def over(cls, library, trouble):
        odd = cls()
        odd._now, odd.watermark, odd.trouble = library.rag.lexical._now, library.rag.lexical.watermark, trouble
        library.rag = replace(library.rag, lexical=odd)

    def touches(self, terms, n):
        raise NotImplementedError

    def search(self, terms, only, n=50, *_):
        if self.touches(terms, n):
            if self.trouble:
                raise self.trouble
            time.sleep(LONG_S)
        return super().search_each([terms], only, n)[0]

    def search_each(self, queries, only, n=50):
        return [self.search(terms, only, n) for terms in queries]


class Down(Odd):
    def touches(self, terms, n):
        return True


class NoFurther(Odd):
    def touches(self, terms, n):
        return len(terms) < len(tokenize(ASKED)) and n >= 20


class NoFollowing(Odd):
    def touches(self, found, n):
        return len(found) > len(tokenize(ASKED)) and n >= 20  # the search for successors wants fewer


def the_post(library):
    text = "The ferry to Owl Island leaves at 7:30 every morning from pier four. Dogs travel free of charge."
    return PassageRef(PostKey(library.harbour, 1), 0, 0, len(text))


def broken_planner(question, known):
    raise ModelUnavailable("The planner cannot be reached.")


def slow_planner(question, known):
    time.sleep(LONG_S)
    return Plan(())


@pytest.mark.parametrize("planner", [broken_planner, slow_planner])
async def test_without_a_plan_the_question_is_searched_as_it_stands(library, planner):
    within(library, plan=SHORT_S)
    library.rag = replace(library.rag, plan=planner)
    answer = await library.ask(ASKED)
    assert RIGHT in answer.sentences[0].text
    assert missing(answer) == ["plan"]
    written = next(span for span in library.runs[-1].spans if span.stage == "extract")
    assert written.counts["queries"] == 1


async def test_a_bug_of_a_planner_is_not_hidden(library):
    def wrong(question, known):
        raise ZeroDivisionError

    library.rag = replace(library.rag, plan=wrong)
    with pytest.raises(ZeroDivisionError):
        await library.ask(ASKED)


@pytest.mark.parametrize("trouble", [IndexUnavailable("The index cannot be read."), None])
@pytest.mark.parametrize(("index", "stage"), [(NoFurther, "queries"), (NoFollowing, "further")])
async def test_without_further_queries_the_question_s_own_answer_stands(library, index, stage, trouble):
    within(library, search=SHORT_S)
    index.over(library, trouble)
    answer = await library.ask(ASKED)
    assert RIGHT in answer.sentences[0].text
    assert missing(answer) == [stage]


@pytest.mark.parametrize("trouble", [IndexUnavailable("The index cannot be read."), None])
@pytest.mark.parametrize("question", [ASKED, "Owl Island ferry?"])  # of the second only words were to be looked for
async def test_the_dense_leg_stands_in_for_the_lexical_one(library, question, trouble):
    within(library, search=SHORT_S)
    Down.over(library, trouble)
    with_meaning(library, Meaning(the_post(library)))
    answer = await library.ask(question)
    assert question != ASKED or RIGHT in answer.sentences[0].text
    assert answer.found[0].leg == "dense"
    assert missing(answer) == ["lexical" if trouble else "lexical-late"]
    assert "further" not in [span.stage for span in library.runs[-1].spans]  # it would be a search by words, too


async def test_a_refusal_says_that_many_posts_have_no_vector_to_those_who_may_read_them(library):
    with_meaning(library, Meaning(the_post(library)))
    waiting = [PostKey(library.safe, number) for number in range(1000, 1300)]
    await index_state.queue_posts(library.rag.archive, waiting)
    assert missing(await library.ask("Who painted the zeppelin?")) == []  # of a closed channel
    await index_state.queue_posts(library.rag.archive, [PostKey(library.harbour, n) for n in range(1000, 1255)])
    assert missing(await library.ask("Who painted the airship?")) == []
    await index_state.queue_posts(library.rag.archive, [PostKey(library.harbour, 1255)])
    refused = await library.ask("Who painted the balloon?")
    assert (refused.refused, missing(refused)) == (True, ["unembedded"])
    assert missing(await library.ask(ASKED)) == []  # an answer does not say it
    for words, said in (("ferry", ["unembedded"]), ("in 2025", [])):  # filters alone need no vectors
        listing = await list_posts(library.question(words), library.rag)
        assert [shortfall.stage for shortfall in listing.shortfalls] == said


@pytest.mark.parametrize(
    ("meaning", "said"), [(Meaning(fails="search"), "dense"), (Meaning(pause=LONG_S), "dense-late")]
)
async def test_the_lexical_leg_stands_in_for_the_dense_one_and_that_is_said_once(library, meaning, said):
    within(library, search=SHORT_S)
    with_meaning(library, meaning)
    answer = await library.ask(ASKED)
    assert RIGHT in answer.sentences[0].text
    assert missing(answer) == [said]  # late is not down
    assert sum(span.stage == "dense" for span in library.runs[-1].spans) == 1  # it is not waited for again


@pytest.mark.parametrize(
    ("trouble", "meaning", "error"),
    [
        (IndexUnavailable("The index cannot be read."), None, IndexUnavailable),
        (IndexUnavailable("The index cannot be read."), Meaning(fails="search"), IndexUnavailable),
        (IndexUnavailable("The index cannot be read."), Meaning(pause=LONG_S), IndexUnavailable),
        (IndexUnavailable("The index cannot be read."), Meaning(), IndexUnavailable),  # it finds nothing alone
        (None, None, StageTimeout),
        (None, Meaning(fails="search"), StageTimeout),
        (None, Meaning(pause=LONG_S), StageTimeout),
    ],
)
@pytest.mark.parametrize("question", [ASKED, "Owl Island ferry?", "What does a zeppelin ride over the old town cost?"])
async def test_with_both_legs_down_there_is_an_error_and_no_refusal(library, trouble, meaning, error, question):
    within(library, search=SHORT_S)
    Down.over(library, trouble)
    if meaning:
        with_meaning(library, meaning)
    with pytest.raises(error):
        await library.ask(question)


async def test_without_the_stored_vectors_nothing_is_left_out_for_likeness(library):
    with_meaning(library, Meaning(the_post(library), fails="vectors"))
    answer = await library.ask(ASKED)
    assert RIGHT in answer.sentences[0].text
    assert missing(answer) == ["diverse"]


class Slow:
    """The wire of a reranker that takes its time."""

    name, languages, pair_s = "slow", frozenset({"en"}), 0.001

    async def scores(self, question, texts):
        await asyncio.sleep(LONG_S)
        return [0.0 for _ in texts]


async def test_a_reranker_that_takes_too_long_leaves_the_order_as_it_was(library):
    within(library, rerank=SHORT_S)
    unranked = await library.ask("ferry")  # several posts score alike: the first is not decisive
    library.rag = replace(library.rag, reranker=Slow())
    answer = await library.ask("ferry")
    assert answer.sentences == unranked.sentences
    assert missing(answer) == ["rerank"]


def unreadable(archive, table, monkeypatch):
    """The disk gives an error wherever SQLite reads this table."""
    connection = archive._reader._conn

    class Broken:
        def execute(self, sql, values=()):
            if f" {table} " in f"{sql} ":
                broken = sqlite3.OperationalError("disk I/O error")
                broken.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise broken
            return connection.execute(sql, values)

        def __getattr__(self, name):
            return getattr(connection, name)

    monkeypatch.setattr(archive._reader, "_connection", Broken())


async def test_without_what_is_known_of_copies_the_posts_themselves_are_cited(library, monkeypatch):
    unreadable(library.rag.archive, "copies", monkeypatch)
    answer = await library.ask(ASKED)
    assert RIGHT in answer.sentences[0].text
    assert missing(answer) == ["copies"]


@pytest.mark.parametrize("table", ["posts", "channels"])
@pytest.mark.parametrize("question", [ASKED, "How many posts mention the ferry?", "What was posted in March 2025?"])
async def test_an_archive_that_cannot_be_read_is_an_error_and_no_refusal(library, question, table, monkeypatch):
    unreadable(library.rag.archive, table, monkeypatch)
    with pytest.raises(ArchiveUnavailable):
        await library.ask(question)


async def test_an_archive_that_takes_too_long_is_an_error_and_no_refusal(library):
    within(library, fetch=1e-5)
    with pytest.raises(StageTimeout):
        await library.ask(ASKED)


class Uncountable(LexicalIndex):
    def matching(self, terms, only, *others):
        raise IndexUnavailable("The index cannot be counted.")

    def mentioning(self, terms, only):
        raise IndexUnavailable("The index cannot be counted.")


async def test_what_cannot_be_counted_is_searched_and_that_is_said(library):
    counting = Uncountable()
    counting.adopt(library.rag.lexical)
    library.rag = replace(library.rag, lexical=counting)
    answer = await library.ask("How many posts mention the ferry ticket for children?")
    assert "ferry ticket" in answer.sentences[0].text
    assert missing(answer) == ["chronicle"]


async def test_a_second_round_says_once_what_both_did_without(tmp_path, open_library, make_post):
    async with open_library(tmp_path / "data") as library:
        library.rag.rounds = 2
        await library.keep(make_post(1, "The ferry to Owl Island leaves at 7:30.", chat=library.harbour))
        with_meaning(library, Meaning(fails="search"))
        answer = await library.ask("Which ferry sails from Bear Mountain to the moon on Christmas Eve?")
    assert answer.refused
    assert sum(span.stage == "extract" for span in library.runs[-1].spans) == 2
    assert missing(answer) == ["dense"]
