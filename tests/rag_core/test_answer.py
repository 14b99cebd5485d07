import time

import pytest

from rag_core.types import PostKey


def text(answer):
    return " | ".join(sentence.text for sentence in answer.sentences).replace("\u202f", " ")


async def test_what_the_posts_do_not_say_is_refused_with_the_nearest_posts_as_links(library):
    answer = await library.ask("Which ferry goes to Bear Mountain on Christmas Eve?")
    assert answer.refused
    assert {passage.key.message_id for passage in answer.nearest} == {1, 6}
    assert answer.link(answer.nearest[0].key).startswith("https://t.me/harbour_news/")
    elsewhere = await library.ask("What does Harbour think of quantum chromodynamics?")  # met in titles alone
    assert elsewhere.found
    assert (elsewhere.refused, elsewhere.nearest) == (True, ())
    nothing = await library.ask("Кто мэр Парижа?")
    assert nothing.refused
    assert nothing.nearest == ()


@pytest.mark.parametrize(
    "question",
    ["", "   \n\t", "что это такое и почему?", "what is it?", "🔥🔥🔥", "?!…",
     "\x00\x01\x1b[", "\u202e\u200b\ufeff", "«»"],
)  # fmt: skip
async def test_a_question_without_a_word_to_search_for_is_refused(library, question):
    answer = await library.ask(question)
    assert answer.refused
    assert (answer.nearest, answer.shortfalls) == ((), ())
    assert answer.confidence < 0.01


async def test_control_characters_in_a_question_change_nothing(library):
    plain = await library.ask("Сколько стоит абонемент в мастерскую?")
    odd = await library.ask("\u202eСколько\x00стоит\x1b абонемент\u200b в\tмастерскую?\x7f")
    assert odd.sentences == plain.sentences


@pytest.mark.parametrize(
    "filler",
    [
        "ferry island morning pier dogs ", "паром остров причал ", "a. ", "Ferry «", "7:30 ",
        " ".join(f"ferry{n} island{n}" for n in range(400)),
    ],
)  # fmt: skip
async def test_a_question_of_4000_characters_is_answered_in_time(library, filler):
    started = time.process_time()
    await library.ask(("When does the ferry leave? " + filler * 4000)[:4000])
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "question", ["When does the ferry leave?", "When does the ferry to Owl Island leave?", "ferry"]
)
async def test_an_archive_of_one_post_answers(empty_library, make_post, question):
    await empty_library.keep(make_post(1, "The ferry to Owl Island leaves at 7:30.", chat=empty_library.harbour))
    assert text(await empty_library.ask(question)) == "The ferry to Owl Island leaves at 7:30."
    assert (await empty_library.ask("Which ferry goes to Bear Mountain on Christmas Eve?")).refused
    assert (await empty_library.ask("Who is the mayor of Paris?")).refused


async def test_an_archive_without_posts_refuses(empty_library):
    answer = await empty_library.ask("When does the ferry leave?")
    assert (answer.refused, answer.nearest, answer.shortfalls) == (True, (), ())


async def test_a_later_post_of_a_channel_comes_before_an_equally_good_earlier_one(library, make_post):
    for number, price, days in ((60, "three", 5), (61, "four", 90), (62, "two", 1)):
        words = f"Renting a kayak for an hour costs {price} coins."
        await library.keep(make_post(number, words, chat=library.harbour, days=days))
    answer = await library.ask("What does renting a kayak for an hour cost?")
    assert "four" in answer.sentences[0].text


async def test_what_changed_twice_is_followed_to_the_last_change(empty_library, make_post):
    changes = (
        "The chess club meets on Tuesdays in the blue boathouse.",
        "The chess players now sit in the old mill instead of the blue boathouse on Tuesdays.",
        "No chess in the old mill on Tuesdays any more: players now sit in the library instead.",
    )
    for number, words in enumerate(changes, 1):
        await empty_library.keep(make_post(number, words, chat=empty_library.harbour, days=30 * number))
    answer = await empty_library.ask("Where does the chess club meet?")
    first, *rest = (sentence.text for sentence in answer.sentences)
    assert "in the library" in first
    assert [line for line in rest if "old mill" in line or "boathouse" in line] == [
        line for line in rest if line.startswith("Earlier")
    ]


async def test_at_most_so_many_sentences_as_the_settings_say(open_library, tmp_path, make_post):
    posts = [f"Ferry number {n} leaves from pier {n} in the morning." for n in range(8)]
    for most in (1, 3):
        async with open_library(tmp_path / str(most), answer={"sentences": most}) as library:
            await library.keep(*(make_post(n, words, chat=library.harbour) for n, words in enumerate(posts, 1)))
            answer = await library.ask("Which ferry leaves from which pier in the morning?")
            assert 1 <= len(answer.sentences) <= most
            assert sum(len(sentence.text) for sentence in answer.sentences) <= 600


async def test_links_use_the_name_a_channel_has_now(library):
    answer = await library.ask("What does the lighthouse museum show?")
    assert answer.link(answer.posts()[0]) == "https://t.me/harbour_news/3"
    assert answer.link(PostKey(-1002222, 5)) == "https://t.me/c/2222/5"


async def test_a_similar_post_is_shown_without_the_signature_of_its_channel(empty_library, make_post):
    lines = [f"Boat {n} was painted in the old harbour." for n in range(12)]
    kept = [make_post(n, f"{line}\n\nHarbour · pier 4", chat=empty_library.harbour) for n, line in enumerate(lines, 1)]
    await empty_library.keep(*kept)
    answer = await empty_library.ask("Who painted the zeppelin in the old harbour with my grandmother?")
    assert answer.refused
    assert answer.nearest
    for one in answer.nearest:
        assert one.text in lines
        assert kept[one.key.message_id - 1].text[one.start : one.end] == one.text
