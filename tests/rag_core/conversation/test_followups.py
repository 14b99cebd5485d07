"""Follow-ups by rules: thirty dialogues that were written before the rules, and questions that are none."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import read_table

from bot.evaluation.data import read_json_lines
from rag_core.conversation.followups import is_followup, rewrite_by_rules
from rag_core.planning.plan import plan_by_rules
from rag_core.storage.readers import ConversationTurn
from rag_core.types import Question, Viewer

DIALOGUES = json.loads((Path(__file__).parents[1] / "dialogues.json").read_text("utf-8"))["dialogues"]
NOW = datetime.fromisoformat("2025-06-20T10:00:00+03:00")
MOST_WRONG = 3


def resolved(dialogue):
    """The follow-up as it stands alone; each turn before it is resolved in its order."""
    now, turns = datetime.fromisoformat(dialogue["asked_at"]), []
    for turn in dialogue["turns"]:
        turns.append(ConversationTurn(rewrite_by_rules(turn["question"], turns, now).text, tuple(turn["entities"])))
    return rewrite_by_rules(dialogue["follow_up"], turns, now).text


def holds(text, begins, *, whole):
    low, words = text.lower().replace("ё", "е"), begins.lower()
    ends = r"(?!\w)" if whole and len(words) < 5 else ""
    return bool(re.search(rf"(?<!\w){re.escape(words)}{ends}", low))


def wrong(dialogue):
    """What is wrong with the question that the rules make; nothing where it is right."""
    text, now = resolved(dialogue), datetime.fromisoformat(dialogue["asked_at"])
    said = [must for must in dialogue["must"] if not any(holds(text, m, whole=False) for m in must.split("|"))]
    said += [f"not {bad}" for bad in dialogue["must_not"] if holds(text, bad, whole=True)]
    plan = plan_by_rules(Question(text, dialogue["lang"], now, Viewer(1, frozenset({-1}))))
    if "kind" in dialogue and plan.kind != dialogue["kind"]:
        said.append(f"kind {plan.kind}")
    for bound in ("since", "until"):
        found = getattr(plan, bound)
        if bound in dialogue and (found is None or found.date().isoformat() != dialogue[bound]):
            said.append(f"{bound} {found}")
    return said


def test_at_least_27_of_30_dialogues_resolve_by_rules():
    faults = {d["id"]: (resolved(d), found) for d in DIALOGUES if (found := wrong(d))}
    assert len(DIALOGUES) == 30
    assert len(faults) <= MOST_WRONG, faults


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda d: d["id"])
def test_a_follow_up_without_an_earlier_question_stays_as_it_is(dialogue):
    assert rewrite_by_rules(dialogue["follow_up"], [], NOW).text == dialogue["follow_up"]


def test_a_change_of_topic_is_not_joined_with_the_question_before(root):
    rows = read_json_lines(root / "tests" / "data" / "dialogues" / "followups.jsonl")
    changes = [row["turns"] for row in rows if row["expect"] == row["turns"][-1]]
    assert len(changes) == 4
    assert [rewrite_by_rules(text, [ConversationTurn(before)], NOW).text for before, text in changes] == [
        text for _, text in changes
    ]


SPOKEN_OF = (
    ConversationTurn("Who founded SpaceX?", ("Elon Musk",)),
    ConversationTurn("Сколько постов про паром было в феврале?", ()),
)
STAND_ALONE = [row["q"] for row in json.loads((Path(__file__).parents[1] / "about_posts.json").read_text("utf-8"))]


def test_sixty_ordinary_questions_stay_as_they_are_in_a_talk():
    assert len(STAND_ALONE) == 60
    assert [q for q in STAND_ALONE if rewrite_by_rules(q, SPOKEN_OF, NOW).text != q] == []


def test_hardly_any_question_of_an_encyclopedia_is_taken_for_a_follow_up(shared_data):
    lines = (shared_data / "xquad" / "queries.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines]
    taken = [q for q in questions if rewrite_by_rules(q, SPOKEN_OF, NOW).text != q]
    assert len(taken) <= len(questions) * 0.01, taken


ALONE = (
    "Is it true that the bridge is closed?", "Правда ли, что мост закрыли?",
    "How long does it take to sail to Owl Island?",
    "Is there a ferry on Sunday?", "А кто построил Исаакиевский собор?", "And who built the Golden Gate Bridge?",
    "Когда Пушкин написал свой роман и где он жил?", "Сочи", "ferry", "Что они писали про Tesla?", "", "?", "   ", "а",
    "What's new?", "Что нового?", "Что случилось?", "Что там с мостом?",
    "did they fix the gate?",
    "Когда следующий паром на остров?", "and " * 300,
)  # fmt: skip


@pytest.mark.parametrize(
    "text", ["how do I reach him?", "what's the address?", "а адрес?", "did they win?", "а в итоге?"]
)
def test_whose_contacts_and_whose_outcome_the_question_before_says(text):
    assert is_followup(text, NOW)


@pytest.mark.parametrize("text", ALONE)
def test_what_stands_alone_is_left_alone(text):
    assert rewrite_by_rules(text, SPOKEN_OF, NOW).text == text


@pytest.mark.parametrize("row", read_table(__file__, "followups.txt"))
def test_a_follow_up_takes_what_it_leaves_out(row):
    before, text, alone, *names = row
    assert rewrite_by_rules(text, [ConversationTurn(before, tuple(names))], NOW).text == alone


@given(st.text(max_size=80), st.text(max_size=80), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_is_said_a_question_comes_out(text, before, names):
    said = rewrite_by_rules(text, [ConversationTurn(before, tuple(names))], NOW).text
    assert said == text or (said.endswith("?") and len(said) <= 601)


@pytest.mark.parametrize(
    ("before", "text", "spoken"),
    [("How much is the kit?", "and the arm?", True), ("When does bus 27 leave?", "how often does it go?", False),
     ("Сколько стоит вход?", "а детям?", False), ("Кто такой Рыжик?", "сколько ему лет?", False),
     ("Кто такой Рыжик?", "где он живёт?", True), ("Расскажи о мостике", "почему он горбатый?", False),
     ("Is Owl Hill being sold?", "more", False), ("Что с ёлкой во дворе?", "подробнее", False),
     ("When is the next night?", "and if it rains?", False), ("How do I get to the hill?", "who runs it?", True),
     ("How do I get to the hill?", "who is in charge there?", False), ("Is the pool open?", "how much is it?", False),
     ("last bus down from the hill", "how often does it go?", False),
     ("Where is Zaslonka?", "who works there?", False)],
)  # fmt: skip
def test_only_a_sentence_that_a_person_would_say_is_shown(before, text, spoken):
    assert rewrite_by_rules(text, [ConversationTurn(before)], NOW).spoken == spoken


def test_a_sentence_pasted_from_a_post_is_no_follow_up():
    assert not is_followup("but the kiln cools before noon. ab12c", NOW)
    assert is_followup("but for children?", NOW)
