"""Every hostile post and question, with a model that obeys them and with none, as the messages that come of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hostile_texts import entities, posts, prompt_leaks, questions
from obedient_model import KNOWN, TOKEN, ObedientLlm

from bot.i18n import get_translator
from bot.sandbox.message_text import count_utf16_units, extract_entity_text, prepare_text
from bot.views.answer import render_answer
from bot.views.message_formatting import split_pages
from bot.views.post_formatting import RenderContext
from ingest.indexer import LexicalIndexer
from rag_core import Answer, Engine, Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.storage import channels
from rag_core.storage import posts as archived
from rag_core.types import Channel, Entity, Post, PostKey, Visibility

TOWN, SAFE, NOON = -1001000001, -1001000004, datetime(2025, 3, 1, 12, tzinfo=UTC)
POSTS, QUESTIONS = posts(), questions()
VIEWER = Viewer(1, frozenset({TOWN}))


async def fill(folder: Path) -> None:
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}, "llm": {"model": "none"}})) as rag:
        await channels.save_channel(
            rag.archive, Channel(TOWN, "Harbour News", "harbour_news", visibility=Visibility.PUBLIC)
        )
        await channels.save_channel(rag.archive, Channel(SAFE, "The safe"))
        kept = [made(row) for row in POSTS]
        kept += [Post(PostKey(TOWN, 200), NOON, "The ferry to Owl Island leaves at 7:30 from pier four."),
                 Post(PostKey(TOWN, 201), NOON, "Обжиг проходит по четвергам после шести вечера."),
                 Post(PostKey(SAFE, 10), NOON, f"{KNOWN}.")]  # fmt: skip
        await archived.save_posts(rag.archive, kept, source="test")
        indexer = LexicalIndexer(rag.archive, rag.lexical)
        await indexer.catch_up()
        await indexer.save()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a town whose channel holds all hostile posts, and a safe that nobody may see."""
    folder = tmp_path_factory.mktemp("hostile")
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
async def rag(town: Path) -> AsyncIterator[Engine]:
    async with open_engine(RagSettings.model_validate({"data": {"dir": town}, "llm": {"model": "none"}})) as rag:
        yield rag


def made(row: dict[str, Any]) -> Post:
    marks = tuple(Entity(**one) for one in entities(row))
    return Post(PostKey(TOWN, row["id"]), NOON + timedelta(hours=row["id"]), row["text"], entities=marks)


def asked(text: str, lang: str) -> Question:
    return Question(text, lang, datetime(2026, 1, 15, tzinfo=UTC), VIEWER)


async def shown(found: Answer, rag: Engine, lang: str) -> str:
    """The text of the messages an answer becomes, after everything about them was checked."""
    stored = await archived.fetch_posts(rag.archive, [*found.posts(), *(p.key for p in found.nearest)])
    own = {found.link(key) for key in stored}
    said = []
    for page in split_pages(render_answer(found, stored, RenderContext(get_translator(lang), UTC))):
        marks = [mark.model_dump(exclude_none=True, mode="json") for mark in page.entities]
        text, kept = prepare_text(page.text, marks)  # raises for what Telegram would refuse
        assert count_utf16_units(text) <= 4096
        for mark in kept:
            piece = extract_entity_text(text, mark["offset"], mark["length"])
            assert mark["type"] not in {"url", "email", "mention", "text_mention", "bot_command"}, piece
            if mark["type"] == "text_link":
                assert mark["url"] in own, piece
        said.append(text)
    return "\n".join(said)


def check(found: Answer, text: str) -> None:
    """Only what the viewer may see is cited, word for word; nothing of prompts, secrets and other channels is said."""
    for sentence in found.sentences:
        assert sentence.citations
        assert {citation.post.chat_id for citation in sentence.citations} == {TOWN}
    assert {passage.key.chat_id for passage in found.nearest} <= {TOWN}
    assert [word for word in (KNOWN, "staircase", TOKEN, TOKEN[9:]) if word in text] == []
    assert not prompt_leaks(text)


@pytest.mark.parametrize("model", ["obedient", "none"])
async def test_no_hostile_post_adds_a_link_or_leaks_anything(rag: Engine, model: str) -> None:
    tray, met = of(rag, model), 0
    for row in POSTS:
        found = await answer_question(asked(row["asked"], row["lang"]), tray)
        met += any(key.message_id == row["id"] for key in (*found.posts(), *(p.key for p in found.nearest)))
        check(found, await shown(found, rag, row["lang"]))
    assert met >= len(POSTS) - 4  # else nothing was tried


@pytest.mark.parametrize("model", ["obedient", "none"])
async def test_no_hostile_question_adds_a_link_or_leaks_anything(rag: Engine, model: str) -> None:
    tray = of(rag, model)
    for row in QUESTIONS:
        found = await answer_question(asked(row["text"], row["lang"]), tray)
        check(found, await shown(found, rag, row["lang"]))


def of(rag: Engine, model: str) -> Engine:
    return replace(rag, writer=ObedientLlm(context=8192), planner=ObedientLlm()) if model == "obedient" else rag


def test_there_is_enough_of_it(root: Path) -> None:
    assert len(POSTS) >= 60
    assert len(QUESTIONS) >= 30
    assert {row["lang"] for row in POSTS} == {row["lang"] for row in QUESTIONS} == {"en", "ru"}
    assert max(len(row["text"]) for row in POSTS) > 100_000
    assert max(len(entities(row)) for row in POSTS) > 2000
