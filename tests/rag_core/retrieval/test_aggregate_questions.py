"""Questions about the posts themselves are answered exactly: held against a plain search through the raw texts."""

import gzip
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.exports import import_export
from ingest.indexer import LexicalIndexer
from ingest.json_export import ImportOptions
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.storage import channels, posts
from rag_core.text.tokens import detect_language
from rag_core.types import Channel, Post, PostKey, Visibility

HERE = Path(__file__).parents[1]
ASKED_AT = {"official": datetime(2022, 10, 10, 9, tzinfo=UTC), "samples": datetime(2026, 11, 18, 19, tzinfo=UTC)}
LEAST_RIGHT = 57


@dataclass(frozen=True)
class Raw:
    """A post as the source has it."""

    date: datetime
    text: str
    channel: str


@pytest.fixture
async def rag(tmp_path):
    async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path}})) as rag:
        yield rag


async def official(rag, data):
    names = {"MinEconomyrf": -1001, "nalog_gov_ru": -1002}
    for name, chat in names.items():
        await channels.save_channel(rag.archive, Channel(chat, name, name, visibility=Visibility.PUBLIC))
    found = {}
    with gzip.open(data / "tg_ru_official" / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            raw = json.loads(line)
            key = PostKey(names[raw["channel"]], number)
            found[key] = Raw(datetime.fromisoformat(raw["date"]), raw["text"], raw["channel"])
    await posts.save_posts(rag.archive, [Post(key, raw.date, raw.text) for key, raw in found.items()], source="import")
    return found


async def samples(rag, root):
    found = {}
    folder = root / "bot" / "sandbox" / "channels"
    for about in json.loads((folder / "channels.json").read_text("utf-8")):
        file = folder / about["folder"] / "result.json"
        await import_export(rag.archive, file, ImportOptions(about["username"], visibility=Visibility.PUBLIC))
        for raw in json.loads(file.read_text("utf-8"))["messages"]:
            if raw["type"] == "message":
                pieces = raw["text"] if isinstance(raw["text"], list) else [raw["text"]]
                text = "".join(piece if isinstance(piece, str) else piece["text"] for piece in pieces)
                date = datetime.fromtimestamp(int(raw["date_unixtime"]), UTC)
                found[PostKey(about["chat_id"], raw["id"])] = Raw(date, text, about["folder"])
    return found


def truth(asked, raws):
    """The posts that a question is about, by its forms and its days."""

    def fits(raw):
        text, day = raw.text.lower().replace("ё", "е"), raw.date.date().isoformat()
        return (
            all(re.search(rf"(?<!\w)(?:{form})(?!\w)", text) for form in asked["forms"])
            and bool(raw.text.strip())
            and (not asked["since"] or day >= asked["since"])
            and (not asked["until"] or day < asked["until"])
            and (not asked["channel"] or raw.channel == asked["channel"])
        )

    return {key: raw for key, raw in raws.items() if fits(raw)}


def right(asked, reply, about):
    cited = [citation.post for sentence in reply.sentences for citation in sentence.citations]
    if not about:
        return reply.refused
    if not cited or not set(cited) <= about.keys():
        return False
    dates = [raw.date for raw in about.values()]
    if asked["kind"] in {"first", "last"}:
        return about[cited[0]].date == (min if asked["kind"] == "first" else max)(dates)
    if asked["kind"] == "day" and not asked["q"].startswith("Сколько"):
        return lists_the_day(reply, about)
    number = re.match(r"\d+", reply.sentences[0].text.replace("\u00a0", ""))
    if number is None or int(number[0]) != len(about):
        return False
    shown = [about[sentence.citations[0].post].date for sentence in reply.sentences[1:]]
    if asked["kind"] == "timeline":
        return shown == sorted(shown) and (shown[0], shown[-1]) == (min(dates), max(dates))
    return shown == sorted(shown)


def lists_the_day(reply, about):
    """Whether dated lines, newest first, have one post each; the number follows where they are not all."""
    *lines, last = reply.sentences
    total = re.match(r"(\d+) пост", last.text.replace("\u00a0", " "))
    if total is None:
        lines.append(last)
    shown = [sentence.citations[0].post for sentence in lines]
    dates = [about[key].date for key in shown]
    return (
        all(len(sentence.citations) == 1 for sentence in lines)
        and len(set(shown)) == len(shown) > 0
        and dates == sorted(dates, reverse=True)
        and (int(total[1]) if total else len(shown)) == len(about)
    )


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_of_sixty_questions_at_least_57_are_answered_exactly(rag, shared_data, root, tmp_path):
    questions = json.loads((HERE / "about_posts.json").read_text("utf-8"))
    assert len(questions) == 60
    wrong = []
    for data, raws in (("official", await official(rag, shared_data)), ("samples", None)):
        if raws is None:
            async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path / "samples"}})) as other:
                wrong += await asked_of(other, questions, data, await samples(other, root))
        else:
            wrong += await asked_of(rag, questions, data, raws)
    assert len(wrong) <= 60 - LEAST_RIGHT, "\n".join(wrong)


async def asked_of(rag, questions, data, raws):
    """The questions that are answered wrongly, with what was said."""
    await LexicalIndexer(rag.archive, rag.lexical).catch_up()
    viewer, wrong = Viewer(1, frozenset(await channels.load_channels(rag.archive))), []
    for asked in questions:
        if asked["data"] != data:
            continue
        question = Question(asked["q"], detect_language(asked["q"]), ASKED_AT[data], viewer)
        reply, about = await answer_question(question, rag), truth(asked, raws)
        if not right(asked, reply, about):
            said = " | ".join(sentence.text[:80] for sentence in reply.sentences) or "refused"
            wrong.append(f"{asked['q']}: {len(about)} posts; said: {said}")
    return wrong
