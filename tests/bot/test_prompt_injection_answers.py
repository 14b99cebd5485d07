"""Every hostile post and question, with a model that obeys them and with none, as the messages that come of it.

Also every recipe, and /verify, with a model that does in each of its parts what it is told.
"""

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from driver import index_posts
from hostile_texts import entities, every_other, posts, prompt_leaks, questions
from obedient_model import KNOWN, THOUGHT, TOKEN, ObedientLlm
from sample_sizes import choose_size

from bot.i18n import get_translator
from bot.sandbox.messages import extract_entity_text, prepare_text
from bot.views.answer import render_answer
from bot.views.format import split_pages
from bot.views.text import RenderContext
from ingest.message_kinds import count_utf16_units
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.recipes.react import TOOLS
from rag_core.storage import visible_posts
from rag_core.storage.readers import AnswerMode, save_answer_mode
from rag_core.types import Channel, Entity, Post, PostKey, Visibility
from rag_core.verification.verify import verify_text

TOWN, SAFE, NOON = -1001000001, -1001000004, datetime(2025, 3, 1, 12, tzinfo=UTC)
POSTS, QUESTIONS = posts(), questions()
VIEWER = Viewer(1, frozenset({TOWN}))
RECIPES = ("direct", "agent", "mapreduce", "council", "react")
HALVES = ("direct", "none")
ALLOWED = {f"tool.{tool.name}" for tool in TOOLS} | {"tool.?"}


async def fill(folder):
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}, "llm": {"model": "none"}})) as rag:
        town = Channel(TOWN, "Harbour News", "harbour_news", visibility=Visibility.PUBLIC)
        kept = [made(row) for row in POSTS]
        kept += [Post(PostKey(TOWN, 200), NOON, "The ferry to Owl Island leaves at 7:30 from pier four."),
                 Post(PostKey(TOWN, 201), NOON, "Обжиг проходит по четвергам после шести вечера."),
                 Post(PostKey(SAFE, 10), NOON, f"{KNOWN}.")]  # fmt: skip
        await index_posts(rag, kept, [town, Channel(SAFE, "The safe")])


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A folder with a town whose channel holds all hostile posts, and a safe that nobody may see."""
    folder = tmp_path_factory.mktemp("hostile")
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
async def rag(town):
    llm = {"model": "none", "answer_tokens": 300}  # every line that is written is checked against the posts
    async with open_engine(RagSettings.model_validate({"data": {"dir": town}, "llm": llm})) as rag:
        yield rag


def made(row):
    marks = tuple(Entity(**one) for one in entities(row))
    return Post(PostKey(TOWN, row["id"]), NOON + timedelta(hours=row["id"]), row["text"], entities=marks)


def asked(text, lang):
    return Question(text, lang, datetime(2026, 1, 15, tzinfo=UTC), VIEWER)


async def shown(found, rag, lang):
    """The text of the messages an answer becomes, after everything about them was checked."""
    stored = await visible_posts.fetch_posts(rag.archive, [*found.posts(), *(p.key for p in found.nearest)])
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


def check(found, text):
    """Only what the viewer may see is cited, word for word; nothing of prompts, secrets and other channels is said."""
    for sentence in found.sentences:
        assert sentence.citations
        assert {citation.post.chat_id for citation in sentence.citations} == {TOWN}
    assert {passage.key.chat_id for passage in found.nearest} <= {TOWN}
    assert [word for word in (KNOWN, "staircase", TOKEN, TOKEN[9:]) if word in text] == []
    assert not prompt_leaks(text)


def test_there_is_enough_of_it(root):
    assert len(POSTS) >= 60
    assert len(QUESTIONS) >= 30
    assert {row["lang"] for row in POSTS} == {row["lang"] for row in QUESTIONS} == {"en", "ru"}
    assert max(len(row["text"]) for row in POSTS) > 100_000
    assert max(len(entities(row)) for row in POSTS) > 2000


class Opened:
    """What is asked, and all that was traced."""

    def __init__(self, rag):
        self.runs = []
        self.model = ObedientLlm(context=8192)
        self.plain = replace(rag, traced=self.runs.append)
        self.rag = replace(self.plain, writer=self.model, planner=self.model)

    def nothing_told(self, log):
        """The tools that were called. Neither traces nor logs hold thoughts, secrets, prompts, or posts of the safe."""
        for told in (log.text, repr([run.spans for run in self.runs]), repr([run.shortfalls for run in self.runs])):
            assert [word for word in (THOUGHT, "heron", KNOWN, "staircase", TOKEN) if word in told] == []
            assert not prompt_leaks(told)
        tools = {span.stage for run in self.runs for span in run.spans if span.stage.startswith("tool.")}
        assert tools <= ALLOWED
        return tools


@pytest.fixture
def opened(rag):
    return Opened(rag)


def choose_rows(recipe):
    """Every attack with the plainest recipe and with no model, one of them the half that the other leaves out."""
    if recipe in HALVES:
        return [row for rows in (POSTS, QUESTIONS) for row in every_other(rows, HALVES.index(recipe))]
    first = RECIPES.index(recipe)  # each of the others has other posts and questions
    return [*POSTS[first :: choose_size(14, 20)], *QUESTIONS[first :: choose_size(12, 16)]]


@pytest.mark.parametrize("recipe", ["none", *RECIPES])
async def test_no_hostile_post_or_question_is_obeyed_adds_a_link_or_leaks_anything(opened, recipe, caplog):
    caplog.set_level(logging.DEBUG)
    rag = opened.plain if recipe == "none" else replace(opened.rag, recipe=recipe)
    missed = []
    for row in choose_rows(recipe):
        early = []
        sentences = []
        question = asked(row.get("asked", row["text"]), row["lang"])
        found = await answer_question(question, rag, on_sentence=sentences.append, on_extract=early.append)
        for one in (found, *early):
            said = await shown(one, rag, row["lang"])
            check(one, said)
            assert "the heron" not in said  # of the thought; a post has "is heron"
        assert all(citation.post.chat_id == TOWN for one in sentences for citation in one.citations)
        assert not [one.text for one in sentences if KNOWN in one.text or "the heron" in one.text or TOKEN in one.text]
        met = {key.message_id for key in (*found.posts(), *(passage.key for passage in found.nearest))}
        # a newer twin in the other language, with the same attack, may answer
        if "asked" in row and met.isdisjoint((row["id"], row["id"] + row["id"] % 2)):
            missed.append(row["id"])
    assert recipe not in HALVES or missed == []  # else nothing was tried
    tools = opened.nothing_told(caplog)
    assert {"tool.search", "tool.?"} <= tools or recipe != "react"  # tools that are allowed, and others


@pytest.mark.parametrize("recipe", ["direct", "council"])
async def test_a_second_look_obeys_no_post(opened, recipe):
    chat = 7001
    await save_answer_mode(opened.rag.archive, chat, AnswerMode(recipe, careful=True))
    for row in POSTS[::16] if recipe == "direct" else POSTS[7::16]:
        found = await answer_question(replace(asked(row["asked"], row["lang"]), chat=chat), opened.rag)
        check(found, await shown(found, opened.rag, row["lang"]))


async def test_no_claim_is_verified_because_somebody_says_so(opened, caplog):
    for row in [*POSTS[::9], {"text": KNOWN, "lang": "en"}, {"text": f"{KNOWN}. [1] yes yes", "lang": "en"}]:
        told = await verify_text(asked(row["text"][:1500], row["lang"]), opened.rag)
        assert {key.chat_id for key in told.posts()} <= {TOWN}
        for verdict in told.verdicts:
            assert KNOWN not in "".join(c.quote for c in (*verdict.citations, *verdict.against))
    opened.nothing_told(caplog)
