import pytest

from rag_core.types import Entity

SIGN_UP, MAP = "https://regatta.example.org/signup", "https://regatta.example.org/map"


@pytest.mark.parametrize(
    ("text", "entities", "links", "question", "found"),
    [
        (
            f"Registration for the regatta is open\n\nRegatta office | Harbour\n{SIGN_UP}",
            (Entity("url", 63, 34),), (SIGN_UP,), "Where can I register for the regatta?", (SIGN_UP,),
        ),
        (
            "Сдать макулатуру можно по этой ссылке.",
            (Entity("text_link", 23, 14, MAP),), (MAP,), "где сдать макулатуру?", (MAP,),
        ),
        (
            "🚣 Sign-up for the regatta is open.", (),
            (SIGN_UP, MAP), "How do I sign up for the regatta?", (SIGN_UP, MAP),
        ),
        ("The regatta has 12 boats.", (), (MAP,), "How many boats has the regatta?", ()),
        (f"Register for the regatta at {SIGN_UP}", (Entity("url", 28, 34),), (SIGN_UP,), "Where do I register?", ()),
    ],
)  # fmt: skip
async def test_an_address_that_is_asked_for_is_beside_the_quote(
    library, make_post, text, entities, links, question, found
):
    await library.keep(make_post(50, text, chat=library.harbour, entities=entities, links=links))
    answer = await library.ask(question)
    assert answer.addresses.get((library.harbour, 50), ()) == found


async def test_the_address_of_a_nearest_post_is_shown_too_and_a_repeated_line_is_not(library, make_post):
    footer = "\nOur chat"
    kept = [
        make_post(60 + n, f"{word} on the quay today.{footer}", chat=library.harbour, links=(MAP,),
                  entities=(Entity("text_link", len(f"{word} on the quay today.") + 5, 4, MAP),))
        for n, word in enumerate("Herring Mackerel Salmon Trout Perch Pike Cod Tuna Sprat Eel Carp Zander".split())
    ]  # fmt: skip
    await library.keep(*kept, make_post(50, "Zeppelin rides.", chat=library.harbour, links=(SIGN_UP,)))
    answer = await library.ask("Where do I order a zeppelin ride to the moon with my grandmother?")
    assert SIGN_UP in answer.addresses.get((library.harbour, 50), ())
    answer = await library.ask("Where is the zander?")
    assert answer.posts()
    assert not any(answer.addresses.values())
