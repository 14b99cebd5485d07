"""Recipes on the terminal: ask with one, see how it went, compare them, make questions of one's own channels."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driver import Cli


@pytest.fixture
def citegram(nowhere: Path, monkeypatch: pytest.MonkeyPatch, run_command: Cli) -> Cli:
    """The command in a folder of its own, without settings and without a model."""
    monkeypatch.setenv("LLM__MODEL", "none")
    return partial(run_command, "--data", "data")


def asked(citegram: Cli, *words: str) -> dict[str, Any]:
    code, out, _ = citegram("ask", "Where does Tawny get its firmware?", "--json", *words)
    assert code == 0
    return dict(json.loads(out))


def test_a_recipe_can_be_asked_for(imported: Path, citegram: Cli) -> None:
    assert asked(citegram, "--recipe", "agent")["recipe"] == "agent"
    fallen = asked(citegram, "--recipe", "council")  # it needs a model
    assert (fallen["recipe"], fallen["without"]) == ("direct", ["recipe"])
    assert citegram("ask", "Who?", "--recipe", "oracle")[0] == 2


def test_the_trace_of_an_answer_can_be_seen_later(imported: Path, citegram: Cli) -> None:
    given = asked(citegram)
    code, out, _ = citegram("trace", given["trace_id"])
    assert (code, out.splitlines()[0].split()[:2]) == (0, [given["trace_id"], "direct"])
    assert any(line.startswith("lexical ") for line in out.splitlines())
    assert "Tawny" not in out
    code, out, _ = citegram("trace", given["trace_id"], "--json")
    assert {span["stage"] for span in json.loads(out)["spans"]} >= {"choose", "plan", "lexical", "cite"}
    assert citegram("trace", "nothing")[::2] == (
        1, "There is no trace nothing: citegram ask --json prints the id of an answer as trace_id; "
        "old ones are forgotten.\n",
    )  # fmt: skip


def test_questions_are_made_of_ones_own_channels_and_recipes_compared_on_them(
    imported: Path, citegram: Cli, tmp_path: Path
) -> None:
    code, out, _ = citegram("eval", "make", "mine", "--limit", "5")
    assert (code, out.split()[:2]) == (0, ["5", "questions"])
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
    recorded = ("--record", "replies.jsonl")  # in one process, which is cheaper than two
    assert citegram("eval", "answers", "mine", "--compare", "direct,agent", *recorded, "--json", "out.json")[0] == 0
    found = json.loads((tmp_path / "out.json").read_text())["metrics"]
    assert found["direct"]["all"]["shown_right"] >= 0.5
    assert found["agent"]["all"]["shown_right"] >= found["direct"]["all"]["shown_right"]


def test_posts_without_values_are_asked_about_in_their_words_and_few_are_called_few(
    imported: Path, citegram: Cli, tmp_path: Path
) -> None:
    endings = "dok fel mar nit sop gul bez kaf lim pum".split()
    texts = [f"Yesterday bran{end} carried klem{end} over tors{end} beside vill{end}." for end in endings]
    with closing(sqlite3.connect(imported / "citegram.db")) as archive:
        rowids = archive.execute("SELECT rowid FROM posts ORDER BY rowid LIMIT ?", (len(texts),)).fetchall()
        archive.execute("UPDATE posts SET text = ''")
        pairs = [(text, *rowid) for text, rowid in zip(texts, rowids, strict=True)]
        archive.executemany("UPDATE posts SET text = ? WHERE rowid = ?", pairs)
        archive.commit()
    code, out, _ = citegram("eval", "make", "mine")
    rows = [json.loads(line) for line in (tmp_path / "mine" / "queries.jsonl").read_text("utf-8").splitlines()]
    assert (code, {row["kind"] for row in rows}) == (0, {"about"})
    assert len(rows) == len(endings)
    assert all(row["text"].startswith("what is known about ") for row in rows)
    assert f"{len(rows)} of them ask in words of the post" in out
    assert "Fewer than 50: of" in out


def test_without_posts_no_questions_are_made(citegram: Cli, imported: Path) -> None:
    with closing(sqlite3.connect(imported / "citegram.db")) as archive:
        archive.execute("UPDATE posts SET text = ''")
        archive.commit()
    assert citegram("eval", "make", "mine")[2].startswith("No post of yours has a sentence to ask about")
