"""Requests for news, for posts, and about a channel, as people word them (`tests/data/intents`)."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.planning.intents import detect_channel_question
from rag_core.planning.plan import plan_by_rules
from rag_core.types import Channel, Kind, Question, Viewer

SETS = Path(__file__).parents[2] / "data" / "intents"
TITLES = (SETS / "intents3_titles.txt").read_text("utf-8").split("\n")
KNOWN = {-n: Channel(-n, title, "") for n, title in enumerate(TITLES, 1) if title.strip()}
VIEWER = Viewer(0, frozenset(KNOWN))
NOW = datetime(2026, 11, 20, tzinfo=UTC)

INTENTS = {Kind.POSTED: "digest", Kind.SUMMARY: "digest", Kind.NEWS: "posts", Kind.COMING: "coming"}
# Least numbers of rows that are understood; `intents2` was held out: its rows were never looked at.
LEAST = {
    "intents1": {"digest": 39, "posts": 39, "about_channel": 24, "owner": 28, "other": 64},
    "intents2": {"digest": 15, "posts": 20, "about_channel": 9, "owner": 16, "other": 48},
    "intents3": {"digest": 62, "posts": 77, "about_channel": 38, "owner": 38, "other": 95},
}


def understand(text, lang, kind):
    """What a message is taken for. Of a channel that is not here (`intents2`) the wording counts."""
    plan = plan_by_rules(Question(text, lang, NOW, VIEWER), KNOWN)
    found = detect_channel_question(text.lower().replace("ё", "е"))
    if found and (plan.kind is Kind.INTRODUCTION or (kind in {"about_channel", "owner"} and found.name)):
        return {"about": "about_channel", "owner": "owner"}[found.aspect]
    return INTENTS.get(plan.kind, "other")


@pytest.mark.parametrize("name", LEAST)
def test_requests_are_understood(name):
    rows = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    right = Counter(row["kind"] for row in rows if understand(row["text"], row["lang"], row["kind"]) == row["kind"])
    assert {kind: right[kind] for kind, least in LEAST[name].items() if right[kind] < least} == {}


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("найди пост про кота", "кота"),
        ("where was the post about the lost eyepiece", "lost eyepiece"),
        ("everything you have on bus 42", "bus 42"),
    ],
)
def test_a_request_and_its_topic(text, topic):
    plan = plan_by_rules(Question(text, "en", NOW, VIEWER), KNOWN)
    assert (plan.kind, plan.topic) == (Kind.NEWS, topic)
