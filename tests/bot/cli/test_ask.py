import argparse
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import pytest
from driver import ADMIN, CREW, HARBOUR, KILN, OTTO, save

from bot.cli import ask as ask_command
from bot.data_folder import lock_data_folder, open_archive
from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.storage.readers import change_channel_sets
from rag_core.types import Post, PostKey


@pytest.fixture
def citegram(nowhere, monkeypatch, run_command):
    """The command in a folder of its own, without settings and without a model."""
    monkeypatch.setenv("LLM__MODEL", "none")
    return partial(run_command, "--data", "data")


QUESTION = "Where does Tawny get its firmware?"


def asked(citegram, *words):
    code, out, _ = citegram("ask", QUESTION, "--json", *words)
    assert code == 0
    return dict(json.loads(out))


def test_a_recipe_can_be_asked_for(imported, citegram):
    assert asked(citegram, "--recipe", "agent")["recipe"] == "agent"
    fallen = asked(citegram, "--recipe", "council")  # it needs a model
    assert (fallen["recipe"], fallen["without"]) == ("direct", ["recipe"])
    _, out, _ = citegram("ask", QUESTION, "--recipe", "council")
    assert out.endswith("\n\nI could not finish the thorough answer, so here is the quick one.\n")
    assert citegram("ask", "Who?", "--recipe", "oracle")[0] == 2


def test_the_trace_of_an_answer_can_be_seen_later(imported, citegram):
    given = asked(citegram)
    code, out, _ = citegram("trace", given["trace_id"])
    assert (code, out.splitlines()[0].split()[:2]) == (0, [given["trace_id"], "direct"])
    assert any(line.startswith("lexical ") for line in out.splitlines())
    assert f"length={len(QUESTION)}" in next(line for line in out.splitlines() if line.startswith("choose "))
    assert "Tawny" not in out
    code, out, _ = citegram("trace", given["trace_id"], "--json")
    assert {span["stage"] for span in json.loads(out)["spans"]} >= {"choose", "plan", "lexical", "cite"}
    assert citegram("trace", "nothing")[::2] == (
        1, "There is no trace nothing: citegram ask --json prints the id of an answer as trace_id; "
        "old ones are forgotten.\n",
    )  # fmt: skip


def test_questions_are_made_of_ones_own_channels_and_recipes_compared_on_them(imported, citegram, tmp_path):
    code, out, _ = citegram("eval", "make", "mine", "--limit", "5")
    assert (code, out.startswith("Questions: 5. Next: citegram eval answers mine\nPosts with text to search: 80;")) == (
        0,
        True,
    )
    rows = [json.loads(line) for line in (tmp_path / "mine" / "queries.jsonl").read_text("utf-8").splitlines()]
    corpus = {
        row["id"]: row["text"]
        for row in map(json.loads, (tmp_path / "mine" / "corpus.jsonl").read_text("utf-8").splitlines())
    }
    answerable = [row for row in rows if row["answerable"]]
    assert (len(rows), len(answerable)) == (5, 4)
    assert all(row["answers"][0] in corpus[row["relevant"][0]] for row in answerable)
    assert all(row["answers"][0] not in row["text"] for row in answerable)
    assert not {row["group"] for row in rows if not row["answerable"]} & corpus.keys()
    assert citegram("eval", "make", "mine")[2].startswith("mine holds questions already")
    assert citegram("eval", "answers", "mine", "--compare", "direct,agent", "--json", "out.json")[0] == 0
    found = json.loads((tmp_path / "out.json").read_text())["metrics"]
    assert found["direct"]["all"]["shown_right"] >= 0.5
    assert found["agent"]["all"]["shown_right"] >= found["direct"]["all"]["shown_right"]


def test_of_posts_without_values_no_question_is_made_and_few_are_called_few(imported, citegram, tmp_path):
    priced = "The ticket to Heron Point costs 4 euros."
    with closing(sqlite3.connect(imported / "citegram.db")) as archive:
        archive.execute("UPDATE posts SET text = 'Yesterday the heron carried a fish over the pier.'")
        archive.commit()
        code, _, err = citegram("eval", "make", "none")
        assert (code, "states a price" in err) == (1, True)
        archive.execute("UPDATE posts SET text = ? WHERE rowid = (SELECT max(rowid) FROM posts)", (priced,))
        archive.commit()
    code, out, _ = citegram("eval", "make", "mine")
    assert (code, "Questions: 1." in out, "Fewer than 50: no more of" in out) == (0, True, True)


FERRY = "The ferry to Owl Island leaves at 7:30 every morning."
LATE = "The ferry to Owl Island leaves at 9:15 every morning."
SECRET = "The treasurer hid the silver trophy under the staircase."


@pytest.fixture
def run(home, capsys):
    async def command(*words, code=0):
        parser = argparse.ArgumentParser()
        ask_command.declare(parser, "verify")
        given = {"data": {"dir": home}, "models": {"embedder": "none"}, "bot": {"admins": f"{ADMIN}"}}
        settings = Settings.model_validate(given)
        capsys.readouterr()
        assert await ask_command.run_verify(parser.parse_args(words), settings) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return command


def without_ids(said):
    return json.loads(said) | {"trace_id": ""}


async def test_the_terminal_reads_every_channel_and_says_which_post_decides(run):
    assert (await run(FERRY)).startswith(f"“{FERRY}”\nThe posts say so\n  “The ferry to Owl Island leaves at 7:30")
    late = await run(LATE)
    assert "The posts say otherwise" in late
    assert "https://t.me/harbour_news/10  Harbour News, 12 March 2024" in late
    only = await run(SECRET)
    assert "https://t.me/c/1000004/10" in only and "source" not in only  # of one post its quote says it all
    assert (await run("A zeppelin flies to Bear Mountain.")).endswith("The posts do not say this\n")


async def test_a_text_that_is_a_post_is_named_as_that_post(run, home):
    text = "The harbour kiosk sells hot soup for four euros a bowl."
    await save(home, Post(PostKey(HARBOUR, 200), datetime(2024, 5, 1, tzinfo=UTC), text))
    said = await run(text)
    assert said.startswith(
        "This is the post of 1 May 2024 in Harbour News. I found no later post that changes it.\n"
        "  https://t.me/harbour_news/200\n"
    )
    assert said.count(text) == 1  # the claim, which no quote of the same words repeats
    same = json.loads(await run(text, "--json"))["same"]
    assert (same["link"], same["title"], same["state"]) == ("https://t.me/harbour_news/200", "Harbour News", "holds")
    assert json.loads(await run("The harbour kiosk sells hot soup.", "--json"))["same"] is None


async def test_json_is_one_object_and_the_trace_is_asked_for(run):
    many = " ".join(f"The ferry number {n} to Owl Island carries {n + 40} dogs." for n in range(11))
    assert (await run(many)).endswith("I did not check 3 more statements. Send them separately.\n")
    plain, traced = json.loads(await run(LATE, "--json")), json.loads(await run(LATE, "--json", "--trace"))
    (only,) = plain["verdicts"]
    assert (only["claim"], only["label"], only["citations"], only["superseded"]) == (LATE, "contradicted", [], None)
    assert only["against"][0]["link"] == "https://t.me/harbour_news/10"
    assert (plain["left"], plain["without"], "trace" in plain) == (0, [], False)
    assert {"plan", "lexical", "verify"} <= {span["stage"] for span in traced["trace"]}
    assert any(" ms " in line for line in (await run(LATE, "--trace")).splitlines())


async def test_beside_a_running_bot_the_verdicts_are_the_same(run, live, home):
    texts = [FERRY, LATE, SECRET, f"{FERRY} {SECRET}"]
    alone = [without_ids(await run(text, "--json")) for text in texts]
    async with live():
        with pytest.raises(RagError), lock_data_folder(home):
            pass
        beside = [without_ids(await run(text, "--json")) for text in texts]
    assert beside == alone


async def test_an_admins_set_of_channels_narrows_the_terminal_as_the_chat(run, live, home):
    async with open_archive(home) as archive:
        await change_channel_sets(archive, ADMIN, lambda sets: sets.update({"crew": [CREW], "boats": [HARBOUR, KILN]}))
        await change_channel_sets(archive, OTTO, lambda sets: sets.update({"mine": [CREW]}))

    async def see_sets():
        assert "The posts say so" in await run(f"Boats: {FERRY}")
        assert (await run(f"in crew: {FERRY}")).endswith("The posts do not say this\n")
        assert "The posts say so" in await run(f"mine: {FERRY}")  # a reader's set: words like others

    await see_sets()
    async with live():
        await see_sets()
