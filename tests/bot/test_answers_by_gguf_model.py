"""A GGUF behind the whole product: the demo in the sandbox, the terminal, and the figures of `eval answers`.

The model is random, so that nothing it writes stands: what is held is that each answer is cited or refused.
"""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from scripted_model import FakeLlm

from bot.__main__ import main
from bot.control.answers import TerminalAnswerer
from bot.i18n import Translator
from bot.views.answer import render_answer
from bot.views.text import RenderContext, format_answer_text, format_answer_trace
from ingest.indexer import LexicalIndexer
from rag_core.engine import open_engine
from rag_core.settings import RagSettings
from rag_core.storage import channels, posts
from rag_core.types import Answer, Channel, Citation, Post, PostKey, Sentence, Shortfall


@pytest.fixture
def citegram(tmp_path, tiny_gguf, monkeypatch, capsys):
    """The command with a model and an empty folder; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("LLM__MODEL", tiny_gguf), ("LLM__THREADS", 1), ("MODELS__EMBEDDER", "none")):
        monkeypatch.setenv(name, str(value))
    for name in ("BOT__TOKEN", "BOT__ADMINS", "DATA__DIR", "ANSWER__COVERAGE", "LLM__URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        capsys.readouterr()
        assert main(["--data", "data", *map(str, words)]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("question", ["When does the ferry to Owl Island leave?", "Сколько стоит абонемент?"])
def test_the_demo_answers_with_a_model_cited_or_refused(citegram, question):
    said = citegram("demo", "--once", question)
    sources = {int(n) for n in re.findall(r"^(\d+)\. ", said, re.M)}
    cited = {int(n) for n in re.findall(r"\[(\d+)\]", said)}
    assert said.strip()
    assert cited <= sources
    assert "<https://t.me/" in said or "I did not find" in said or "I found nothing" in said or "не наш" in said


def test_a_model_that_is_not_there_is_told_and_the_demo_answers_word_for_word(citegram, monkeypatch):
    monkeypatch.setenv("LLM__MODEL", "no/such.gguf")
    said = citegram("demo", "--once", "What is the earliest mention of Ilse Brandt?")
    assert "<https://t.me/owl_hill_observers/84>" in said


def test_the_terminal_shows_what_the_model_took(citegram, root, tmp_path):
    shutil.copytree(root / "bot" / "sandbox" / "channels" / "owl-hill", tmp_path / "export")
    citegram("import", tmp_path / "export", "--username", "owl_hill")
    found = json.loads(citegram("ask", "What does Tawny eat?", "--trace", "--json"))
    spans = {span["stage"]: span["counts"] for span in found["trace"]}
    if not found["refused"]:
        assert all(sentence["citations"] for sentence in found["sentences"])
    if "write" in spans:
        assert spans["write"]["calls"] == 1
        assert spans["write"]["tokens"] > 0


def test_the_figures_of_answers_have_those_of_the_model(citegram, tmp_path, tiny_gguf):
    data = tmp_path / "set"
    data.mkdir()
    corpus = [{"id": "a", "text": "The ferry to the island costs twelve euros.", "date": "2025-03-10"}]
    asked = [{"id": "q", "text": "How much is the ferry to the island?", "relevant": ["a"], "answers": ["twelve"]}]
    for name, rows in (("corpus", corpus), ("queries", asked)):
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    citegram("eval", "answers", data, "--json", "out.json")
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert found["settings"]["model"] == "tiny-random"
    figures = found["metrics"]["all"]
    assert figures["calls"] >= 1
    assert figures["tokens"] > 0
    assert (figures["by_model"], figures["first_right"]) == (0.0, 1.0)


async def test_the_terminal_says_who_wrote_and_the_trace_when_the_first_sentence_stood(tmp_path):
    async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path}})) as rag:
        await channels.save_channel(rag.archive, Channel(-1001, "Harbour", "harbour"))
        text = "A ferry ticket costs twelve euros; children under six sail for nothing."
        await posts.save_posts(
            rag.archive, [Post(PostKey(-1001, 1), datetime(2025, 3, 1, tzinfo=UTC), text)], source="live"
        )
        await LexicalIndexer(rag.archive, rag.lexical).catch_up()
        model = FakeLlm("A ticket for the ferry costs twelve euros. [1]")
        answerer = TerminalAnswerer(replace(rag, writer=model), ZoneInfo("UTC"))
        found = await answerer.ask("How much does a ferry ticket cost?", trace=True)
    assert found["answer"]["model"] == "scripted"
    (line,) = [line for line in format_answer_trace(found) if line.startswith("write")]
    assert "calls=1" in line
    assert "first_sentence_ms=" in line
    assert "scripted" in format_answer_text(found, Translator("en"), ZoneInfo("UTC"))


def test_a_reader_sees_which_of_the_two_wrote_and_that_something_was_left_out():
    key, date = PostKey(-1001, 1), datetime(2025, 3, 1, tzinfo=UTC)
    citation = Citation(key, "twelve euros", 0, 12, date)
    answer = Answer((Sentence("It costs twelve euros.", (citation,), 0.9),), 0.9, "direct", model="Tiny <b>",
                    shortfalls=(Shortfall("support", "1 sentence was left out."),))  # fmt: skip
    for lang, wrote, left in (("en", "Written by Tiny", "left out"), ("ru", "написала модель Tiny", "Убрал фразы")):
        said, _ = render_answer(answer, {}, RenderContext(Translator(lang), ZoneInfo("UTC"))).render()
        assert wrote in said
        assert left in said


def test_a_refusal_is_whole_where_only_the_writing_failed():
    shown = RenderContext(Translator("en"), ZoneInfo("UTC"))
    refused = Answer((), 0.6, "direct", shortfalls=(Shortfall("write", "The model went away."),))
    assert "could not look everywhere" not in render_answer(refused, {}, shown).render()[0]
    partly = replace(refused, shortfalls=(Shortfall("dense", "It does not answer."),))
    assert "could not look everywhere" in render_answer(partly, {}, shown).render()[0]
