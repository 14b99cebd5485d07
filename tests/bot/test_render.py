from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from aiogram.types import MessageEntity
from aiogram.utils.formatting import Text

from bot.render import Shown, link, plain, render
from bot.words import words_for
from rag_core.types import Answer, Channel, Citation, Origin, Passage, Post, PostKey, Sentence, Shortfall

DAY = datetime(2024, 3, 12, 10, tzinfo=UTC)
LATER = datetime(2024, 3, 14, 10, tzinfo=UTC)
PUBLIC, PRIVATE = -1001234, -1005678
CHANNELS = {PUBLIC: Channel(PUBLIC, "Гавань", "harbour"), PRIVATE: Channel(PRIVATE, "Owl Hill")}
RU, EN = Shown(words_for("ru"), UTC), Shown(words_for("en"), UTC)


def cited(text: str, *keys: PostKey, quote: str | None = None) -> Sentence:
    said = quote or text
    return Sentence(text, tuple(Citation(key, said, 0, len(said), DAY) for key in keys))


def answered(*sentences: Sentence, **more: object) -> Answer:
    return Answer(sentences, 0.9, "direct", channels=CHANNELS, **more)  # type: ignore[arg-type]


def nearest(text: str, chat_id: int = PUBLIC, message_id: int = 4) -> Passage:
    return Passage(PostKey(chat_id, message_id), 0, "header", text, 0, len(text), DAY)


def links(content: Text) -> list[tuple[str, str]]:
    text, entities = content.render()
    return [(e.extract_from(text), e.url) for e in entities if e.type == "text_link" and e.url]


def of_type(entities: Sequence[MessageEntity], kind: str, text: str) -> list[str]:
    return [e.extract_from(text) for e in entities if e.type == kind]


def test_a_sentence_is_followed_by_numbers_that_open_its_posts() -> None:
    one, two = PostKey(PUBLIC, 1), PostKey(PRIVATE, 2)
    content = render(answered(cited("Занятие стоит 500 ₽.", one), cited("С мая 600 ₽.", two, one)), {}, RU)
    text, _ = content.render()
    assert text.startswith("Занятие стоит 500 ₽. [1]\n\nС мая 600 ₽. [2] [1]\n\nИсточники\n1. Гавань · 12 марта 2024\n")
    assert links(content) == [
        ("[1]", "https://t.me/harbour/1"),
        ("[2]", "https://t.me/c/5678/2"),
        ("[1]", "https://t.me/harbour/1"),
        ("Гавань", "https://t.me/harbour/1"),
        ("Owl Hill", "https://t.me/c/5678/2"),
    ]


def test_a_source_tells_of_edits_origins_and_copies() -> None:
    key = PostKey(PUBLIC, 1)
    post = Post(key, DAY, "x", edited=LATER, origin=Origin("Студия"))
    copies = {key: (PostKey(PRIVATE, 7), PostKey(PRIVATE, 8), PostKey(-1009, 9), PostKey(PUBLIC, 3))}
    text, _ = render(answered(cited("Да.", key), copies=copies), {key: post}, RU).render()
    assert "12 марта 2024 · изменён 14 марта 2024 · переслано из «Студия» · ещё в 2 каналах" in text
    text, _ = render(answered(cited("Yes.", key), copies=copies), {key: post}, EN).render()
    assert "12 March 2024 · edited 14 March 2024 · forwarded from “Студия” · also in 2 channels" in text


def test_a_long_list_of_sources_folds_and_a_short_one_does_not() -> None:
    for count, kind in ((3, "blockquote"), (4, "expandable_blockquote")):
        sentences = [cited(f"Sentence {n}.", PostKey(PUBLIC, n)) for n in range(1, count + 1)]
        text, entities = render(answered(*sentences), {}, EN).render()
        (folded,) = of_type(entities, kind, text)
        assert folded.count("\n") == count - 1


@pytest.mark.parametrize(
    ("answer", "footer"),
    [
        (answered(cited("As it stands.", PostKey(PUBLIC, 1))), "Word for word from the posts, no model"),
        (
            answered(cited("2 posts.", PostKey(PUBLIC, 1), quote="As it stands.")),
            "Worked out from the dates and counts of the posts, no model",
        ),
        (
            answered(cited("As it stands.", PostKey(PUBLIC, 1)), model="qwen-1.5b"),
            "Written by the model qwen-1.5b from these posts",
        ),
    ],
)
def test_the_reader_sees_what_wrote_the_answer(answer: Answer, footer: str) -> None:
    text, entities = render(answer, {}, EN).render()
    assert text.endswith(f"\n\n{footer}")
    assert of_type(entities, "italic", text) == [footer]


def test_a_model_writes_a_paragraph() -> None:
    one = PostKey(PUBLIC, 1)
    text, _ = render(answered(cited("One.", one), cited("Two.", one), model="m"), {}, EN).render()
    assert text.startswith("One. [1] Two. [1]\n\nSource\n")


def test_a_refusal_offers_the_nearest_posts() -> None:
    refused = answered(nearest=(nearest("слово " * 60), nearest("", PRIVATE, 9)))
    content = render(refused, {}, RU)
    text, _ = content.render()
    head, _, _, first, snippet, _, second = text.split("\n")
    assert head == "В каналах, которые вам открыты, этого нет."
    assert (first, second) == ("1. Гавань · 12 марта 2024", "2. Owl Hill · 12 марта 2024")
    assert snippet.endswith("слово…")
    assert len(snippet) < 150
    assert links(content) == [("Гавань", "https://t.me/harbour/4"), ("Owl Hill", "https://t.me/c/5678/9")]


def test_a_refusal_in_a_group_speaks_of_its_channels() -> None:
    text, _ = render(answered(), {}, Shown(words_for("en"), UTC, group=True)).render()
    assert text == "This is not in the channels bound to this group."


def test_not_found_is_never_said_when_a_part_of_the_search_failed() -> None:
    text, _ = render(answered(shortfalls=(Shortfall("search", "the dense leg is down"),)), {}, EN).render()
    assert "not in the channels" not in text
    assert "could not search everything" in text


def test_each_shortfall_is_said_once_in_plain_words() -> None:
    fell_short = (Shortfall("search", "a"), Shortfall("search", "b"), Shortfall("unheard-of", "c"))
    text, _ = render(answered(cited("Yes.", PostKey(PUBLIC, 1)), shortfalls=fell_short), {}, EN).render()
    assert text.count("A part of the search did not answer") == 1
    assert "One step of the search was left out" in text


def test_only_https_becomes_a_link() -> None:
    for url in ("javascript:alert(1)", "http://t.me/x/1", "tg://resolve?domain=x"):
        assert links(link("x", url)) == []


def test_a_channel_nobody_knows_any_more_still_has_its_link() -> None:
    content = render(answered(cited("Yes.", PostKey(-1009999, 5))), {}, EN)
    assert ("channel", "https://t.me/c/9999/5") in links(content)


def test_marks_that_turn_the_writing_direction_are_taken_out() -> None:
    assert plain("a\u202eb\u2066c\x00d\te\nf") == "abc d e\nf"
    assert plain("שלום 👩‍👩‍👧") == "שלום 👩‍👩‍👧"
