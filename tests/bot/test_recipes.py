import json
import sqlite3
from contextlib import closing
from functools import partial

from driver import OTTO, query_archive
from roles_server import serve_roles

from rag_core.answer import RECIPES
from rag_core.storage.readers import AnswerMode, save_answer_mode

FERRY = "When does the ferry to Owl Island leave?"
ZEPPELIN = "Which zeppelin sails to Bear Mountain on Christmas Eve?"
SAYS = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
FACT = {"relevant": True, "facts": [SAYS]}
STEP = {"Thought": "I look.", "tool": "search", "input": {"queries": ["ferry Owl Island"]}}
PLAN = {
    "normalized_queries": ["ferry Owl Island", "ferry leaves", "Owl Island time"],
    "must_phrases": [], "should_phrases": [], "metadata_filters": None, "k_per_query": 20, "fusion": "rrf",
}  # fmt: skip
PARTS = {
    "write": f"{SAYS} [1]",
    "map": json.dumps(FACT),
    "parts": json.dumps({"parts": [{"state": "FULLY", "ask": ""}]}),
    "judge": "yes",
    "react": json.dumps(STEP),
    "plan": json.dumps(PLAN),
    "hyde": "The ferry leaves in the morning.",
}
QUIET = PARTS | {"write": "The posts do not say.", "map": json.dumps({"relevant": False, "facts": []}), "judge": "no"}


def given(home):
    """Recipe and model of each answer, in the order they were asked for."""
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        rows = archive.execute("SELECT answer FROM questions WHERE answer IS NOT NULL ORDER BY id").fetchall()
    found = [json.loads(row[0]) for row in rows]
    return [(one["recipe"], one["model"]) for one in found]


async def asked_of_each(ask, home, text):
    """Ask in a chat that has pinned each recipe in turn."""
    replies = []
    for recipe in RECIPES:
        await query_archive(home, partial(save_answer_mode, chat_id=OTTO, mode=AnswerMode(recipe)))
        replies.append(await ask(OTTO, text))
    return replies


def cited_or_refused(reply):
    links = [entity["url"] for entity in reply.get("entities", ()) if entity["type"] == "text_link"]
    return "https://t.me/harbour_news/10" in links or "did not find a sure" in reply["text"]


async def test_every_recipe_answers_with_a_model_that_does_its_part(live, ask, home):
    async with serve_roles(PARTS) as model, live(sections={"llm": {"url": model.url}}):
        replies = await asked_of_each(ask, home, FERRY)
    assert all("7:30" in reply["text"] and cited_or_refused(reply) for reply in replies)
    assert [model for _, model in given(home)] == ["parts"] * len(RECIPES)
    assert [recipe for recipe, _ in given(home)] == list(RECIPES)


async def test_every_recipe_refuses_with_a_model_that_finds_nothing(live, ask, home):
    async with serve_roles(QUIET) as model, live(sections={"llm": {"url": model.url}}):
        replies = await asked_of_each(ask, home, ZEPPELIN)
    refusals = ("do not say it outright", "found nothing about this")  # with what comes nearest, or without
    assert all(any(words in reply["text"] for words in refusals) for reply in replies)


async def test_every_recipe_answers_without_a_model_itself_or_by_direct(live, ask, home):
    async with live():
        replies = await asked_of_each(ask, home, FERRY)
    assert all("7:30" in reply["text"] and cited_or_refused(reply) for reply in replies)
    assert [recipe for recipe, _ in given(home)] == [
        name if name in {"direct", "agent"} else "direct" for name in RECIPES
    ]
