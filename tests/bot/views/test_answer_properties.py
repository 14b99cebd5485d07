"""Any answer at all: what is rendered and cut is taken by Telegram as it is, and every link is still whole."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from sample_sizes import choose_size

from bot.i18n import get_translator
from bot.sandbox.messages import count_utf16_units, prepare_text
from bot.views.answer import render_answer, render_sentences
from bot.views.format import split_pages
from bot.views.text import RenderContext
from rag_core.types import Answer, Channel, Citation, PostKey, Sentence, Shortfall

DAY = datetime(2024, 3, 12, 10, tzinfo=UTC)
# Latin, Cyrillic, Hebrew, Arabic, emoji in pairs of UTF-16 units, joiners, turns of direction, blanks, markup.
LETTERS = [*"abzжщ ыи של مرحبا 😀 \n .é<>&_*[]()`\u202e\u200f\u0007\r", "👩‍👧", "🇷🇺", "https://t.me/x"]
MOST = 10_000  # characters of one answer


def words(random: Random, most: int) -> str:
    return "".join(random.choices(LETTERS, k=random.randint(1, most)))


def made(random: Random) -> Answer:
    """Up to 10,000 characters in up to 12 sentences, with up to 20 cited posts in three channels."""
    channels = {-1001 - n: Channel(0, words(random, 80), random.choice([None, "harbour_news"])) for n in range(3)}
    keys = [PostKey(-1001 - n % 3, n + 1) for n in range(random.randint(1, 20))]
    sentences, count = [], random.randint(1, 12)
    for _ in range(count):
        text = words(random, random.choice([20, 200, MOST]) // count)[: MOST // count]
        cited = random.sample(keys, random.randint(1, len(keys)))
        sentences.append(Sentence(text, tuple(Citation(key, text, 0, len(text), DAY) for key in cited)))
    stages = random.sample(["dense", "stopped", "write", "search"], random.randint(0, 3))
    shortfalls = tuple(Shortfall(stage, "") for stage in stages)
    model = random.choice([None, "a model"])
    return Answer(tuple(sentences), random.random(), "direct", model, shortfalls, channels=channels)


def test_any_answer_renders_to_messages_that_telegram_takes_with_all_links_intact():
    random = Random(0)
    for _ in range(choose_size(300, 60)):
        check(made(random), random.choice(["ru", "en"]))


def check(answer: Answer, lang: str) -> None:
    whole = render_answer(answer, {}, RenderContext(get_translator(lang), UTC))
    cut = split_pages(whole)
    assert cut
    found = []
    for page in cut:
        given_marks = [entity.model_dump(exclude_none=True, mode="json") for entity in page.entities]
        text, marks = prepare_text(page.text, given_marks)  # raises for whatever Telegram would refuse
        assert count_utf16_units(text) <= 4096
        links = [mark for mark in marks if mark["type"] == "text_link"]
        assert len(links) == sum(entity.type == "text_link" for entity in page.entities)
        found += [mark["url"] for mark in links]
    marked, sources = [answer.link(c) for s in answer.sentences for c in _posts(s)], map(answer.link, answer.posts())
    assert _once(found) == _once([*marked, *sources])
    assert split_pages(render_sentences(answer))


def _posts(sentence: Sentence) -> list[PostKey]:
    return [citation.post for citation in sentence.citations]


def _once(urls: list[str]) -> list[str]:
    """Without repeats next to each other: a title longer than a message is linked in each of its parts."""
    return [url for place, url in enumerate(urls) if place == 0 or urls[place - 1] != url]
