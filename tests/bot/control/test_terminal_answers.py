from datetime import UTC, timedelta

import pytest

from bot.control.answers import TerminalAnswerer
from bot.i18n import get_translator
from bot.views.text import format_answer_text
from rag_core.types import Entity, Origin


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("en", "Owl Gazette, forwarded by Harbour News, 1 March 2025 · edited 4 March 2025"),
        ("ru", "Owl Gazette, переслал канал Harbour News, 1 марта 2025 · изменён 4 марта 2025"),
    ],
)
async def test_on_the_terminal_too_a_forward_is_its_origins_word_and_an_edit_is_told(library, make_post, lang, line):
    text, origin = "The bakery on Mill Lane sells rye bread at 3 dollars.", Origin("Owl Gazette", -1007)
    post = make_post(50, text, chat=library.harbour, origin=origin)
    await library.keep(post, make_post(51, "Fresh rolls.", chat=library.harbour, origin=Origin("Us", library.harbour)))
    edited = make_post(50, f"{text}!", chat=library.harbour, origin=origin, edited=post.date + timedelta(days=3))
    await library.keep(edited)
    found = await TerminalAnswerer(library.rag, UTC).ask("How much is rye bread in Mill Lane?", trace=False)
    assert found
    assert f"[1] https://t.me/harbour_news/50  {line}" in format_answer_text(found, get_translator(lang), UTC)
    (citation, *_) = found["answer"]["sentences"][0]["citations"]
    assert (citation["origin"], citation["edited"]) == ("Owl Gazette", edited.edited.isoformat())


async def test_a_refusal_on_the_terminal_names_whose_words_were_nearest(library, make_post):
    post = make_post(50, "Zeppelins fly over Mill Lane.", chat=library.harbour, origin=Origin("Owl Gazette"))
    await library.keep(post)
    question = "Who bought both zeppelins at the auction yesterday, and for how much money?"
    found = await TerminalAnswerer(library.rag, UTC).ask(question, trace=False)
    assert found["answer"]["refused"]
    assert "Owl Gazette, forwarded by Harbour News" in format_answer_text(found, get_translator("en"), UTC)


@pytest.mark.parametrize("question", ["What is the code of the quiz?", "Which code of the quiz is 9 or 17 or neither?"])
async def test_on_the_terminal_what_a_post_hides_is_covered(library, make_post, question):
    text = "The secret code of the quiz is MARLIN."
    await library.keep(make_post(50, text, chat=library.harbour, entities=(Entity("spoiler", 31, 6),)))
    answerer = TerminalAnswerer(library.rag, UTC)
    found = await answerer.ask(question, trace=True)
    assert found
    shown = format_answer_text(found, get_translator("en"), UTC)
    assert "code of the quiz is ▒▒▒▒▒▒" in shown
    assert "MARLIN" not in str({**found, "trace": []})
    assert "MARLIN" not in str(await answerer.verify("The secret code of the quiz is not known.", trace=False))


async def test_an_address_that_is_asked_for_stands_below_its_source_on_the_terminal(library, make_post):
    link = "https://row.example.org/apply"
    await library.keep(make_post(50, "Apply for rowing.", chat=library.harbour, links=(link,)))
    found = await TerminalAnswerer(library.rag, UTC).ask("Where do I apply for rowing?", trace=False)
    assert found
    assert f"\n    {link}" in format_answer_text(found, get_translator("en"), UTC)
    assert found["answer"]["addresses"] == [link]
