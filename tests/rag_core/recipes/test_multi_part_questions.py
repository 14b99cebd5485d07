from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rag_core.recipes.agent import complete_parts
from rag_core.retrieval.search import add_neighbours, search_passages
from rag_core.run import Run
from rag_core.types import Plan, Viewer

NOW = datetime(2026, 1, 15, tzinfo=UTC)


async def asked(library, text, recipe="agent", **changes):
    library.rag = replace(library.rag, recipe=recipe)
    return await library.ask(text, **changes)


async def test_each_part_has_its_line_and_its_post(library):
    answer = await asked(library, "When does the ferry leave and what does the lighthouse museum show?")
    assert ["7:30" in answer.sentences[0].text, "brass lamps" in answer.sentences[1].text] == [True, True]
    assert [post.message_id for post in answer.posts()] == [1, 3]
    assert answer.missing == ()
    assert answer.recipe == "agent"


async def test_the_part_that_the_posts_do_not_answer_is_named(library):
    answer = await asked(library, "When does the ferry to Owl Island leave and who painted the zeppelin?")
    assert "7:30" in answer.sentences[0].text
    assert answer.missing == ("who painted the zeppelin",)


async def test_a_question_whose_parts_are_all_unknown_is_refused(library):
    answer = await asked(library, "Who painted the zeppelin and where did the walrus sleep?")
    assert (answer.refused, answer.missing) == (True, ())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("When does the ferry leave and what does a ticket cost?",
         ["When does the ferry leave?", "what does a ticket cost (the ferry leave)?"]),
        ("Когда уходит паром и сколько на неё ждать?", ["Когда уходит паром?", "сколько на неё ждать (уходит паром)?"]),
        ("Когда уходит паром и сколько стоит билет?", ["Когда уходит паром?", "сколько стоит билет (уходит паром)?"]),
        ("Where is the museum? How much is it?", ["Where is the museum?", "How much is it (the museum)?"]),
        ("кто ведёт кружок, а где он проходит?", ["кто ведёт кружок?", "где он проходит (ведёт кружок)?"]),
        ("штоллен когда заказывать и почём", ["штоллен когда заказывать?", "почём (штоллен когда заказывать)?"]),
        ("What do Anna and Boris sell?", ["What do Anna and Boris sell?"]),
        ("Правда ли, что паром утонул?", ["Правда ли, что паром утонул?"]),
        ("В какой день отдают хлеб тем, кто заплатил вперёд?", ["В какой день отдают хлеб тем, кто заплатил вперёд?"]),
        ("паром и причал", ["паром и причал"]),
        ("", [""]),
    ],
)  # fmt: skip
def test_the_parts_of_a_question_stand_alone(text, parts):
    assert [alone for _, alone in complete_parts(text, NOW)] == parts


async def test_a_part_met_by_words_of_the_part_before_alone_is_named(library):
    answer = await asked(library, "When does the ferry to Owl Island leave and how many walruses does it carry?")
    assert "7:30" in answer.sentences[0].text
    assert len(answer.sentences) == 1
    assert answer.missing == ("how many walruses does it carry",)


async def test_a_price_that_is_shown_is_not_said_to_be_missing(empty_library, make_post):
    texts = {1: "The upgrade arm is back on Friday: 2,300 ₽, not 3,200.", 2: "The kiln opens at nine."}
    await empty_library.keep(*(make_post(n, text, chat=empty_library.harbour) for n, text in texts.items()))
    answer = await asked(empty_library, "When is the upgrade arm back and how much does it cost?")
    assert ("2,300" in answer.sentences[0].text, answer.missing) == (True, ())
    answer = await asked(empty_library, "When is the kiln open and how much does it cost?")
    assert ("nine" in answer.sentences[0].text, answer.missing) == (True, ("how much does it cost",))


async def test_the_posts_around_the_first_hits_are_read(empty_library, make_post):
    own, far = empty_library.harbour, empty_library.kiln
    texts = {
        1: "Far before.",
        2: "Before.",
        3: "When does the Gannet sail?",
        4: "After.",
        5: "Far after.",
        6: "At noon.",
    }
    posts = {n: make_post(n, text, chat=own) for n, text in texts.items()}
    await empty_library.keep(*(replace(post, reply_to=3) if n == 6 else post for n, post in posts.items()))
    await empty_library.keep(make_post(4, "Another channel.", chat=far))
    question = empty_library.question("When does the Gannet sail?")
    rag, plan = empty_library.rag, Plan((question.text,))

    async def read(hits, plan=plan, viewer=question.viewer):
        return [hit.passage.key.message_id for hit in await add_neighbours(hits, 1, plan, viewer, rag)]

    (hit, *_) = await search_passages(plan, question, rag, Run(rag.budgets, "agent"))
    assert hit.passage.key.message_id == 3
    assert await read((hit,)) == [3, 2, 4, 6]
    (reply,) = [
        one for one in await add_neighbours((hit,), 1, plan, question.viewer, rag) if "noon" in one.passage.text
    ]
    assert (await read((reply,)))[:2] == [6, 3]  # the post that it answers
    assert await read((hit,), replace(plan, until=posts[1].date)) == [3]  # what the filters leave out stays out
    assert await read((hit,), viewer=Viewer(1, frozenset({far}))) == [3]
    emptied = "UPDATE posts SET text = '' WHERE chat_id = ? AND message_id = 4"
    await rag.archive.execute(emptied, (posts[4].key.chat_id,))
    assert await read((hit,)) == [3, 2, 5, 6]


async def test_a_closed_channel_gives_no_name_and_no_part(library, make_post):
    text = "When does the ferry leave and who painted the zeppelin?"
    before = await asked(library, text)
    await library.keep(make_post(1, "Olga Petrova painted the zeppelin for the ferry.", chat=library.safe))
    after = await asked(library, text)
    assert (after.sentences, after.missing) == (before.sentences, before.missing)
