import json
from datetime import UTC, datetime

import pytest

from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.aggregate import answer_by_aggregation
from rag_core.storage.channels import load_channels
from rag_core.types import Kind, Question, Viewer

# The library's questions are asked on Thursday, 15 January 2026, and make_post counts days from 1 March 2025.
MONDAY = 317  # 12 January 2026


async def ask(library, text, **asked):
    question = library.question(text, **asked)
    plan = plan_by_rules(question, await load_channels(library.rag.archive))
    assert plan.kind is Kind.COMING
    return await answer_by_aggregation(question, plan, library.rag)


def lines(draft):
    return [sentence.text for sentence in draft.sentences]


@pytest.fixture
async def announced(library, make_post):
    texts = {
        20: "Regatta of model boats on 18 January, start at noon.",
        21: "On Saturday the choir sings in the old net shed.",
        22: "We open at nine every Saturday, as always.",
        23: "The tombola is on 17 January in the hall.",
        24: "Tombola postponed: the hall is flooded, new date 31 January.",
        25: "On Saturday nobody came to the swap meet. Last Saturday it rained. Rated 17.01 of 20.",
        30: "On Sunday we played Ashford and lost.",
        26: "Send your photos of the storm until 19 January.",
        28: "On Tuesday we are shut. The brass band plays on 18 January. Then there is soup.",
        27: "Lantern walk, 16 January 10-3, bring a jar.",
    }
    await library.keep(
        *(make_post(n, text, chat=library.harbour, days=MONDAY + (n > 23)) for n, text in texts.items()),
        make_post(90, "The vault party is on Saturday, nobody may know.", chat=library.safe, days=MONDAY),
    )
    return library


async def test_a_weekend_has_the_events_of_its_days_soonest_first(announced):
    draft = await ask(announced, "where to go this weekend?")
    assert lines(draft) == [
        "17 January 2026: On Saturday the choir sings in the old net shed.",
        "18 January 2026: On Tuesday we are shut. The brass band plays on 18 January. Then there is soup.",
        "18 January 2026: Regatta of model boats on 18 January, start at noon.",
    ]
    assert draft is not None and all(c.quote in s.text for s in draft.sentences for c in s.citations)


async def test_of_a_long_sentence_the_part_with_the_day_is_quoted(announced, make_post):
    text = f"Dates: on 22 January {'a walk along the quay with tea, ' * 5}and the new slipway opens on 23 January."
    await announced.keep(make_post(60, text, chat=announced.harbour, days=MONDAY))
    (shown,) = lines(await ask(announced, "what is planned for 23 January?"))
    assert shown.startswith("23 January 2026: ") and shown.endswith("on 23 January.") and len(shown) < 200


async def test_where_nothing_else_is_announced_deadlines_are_told(announced):
    shown = lines(await ask(announced, "что запланировано на 19 января?"))
    assert shown == ["19 января 2026: Send your photos of the storm until 19 January."]


async def test_hours_after_a_day_are_no_year_and_tomorrow_is_a_day(announced):
    assert lines(await ask(announced, "что будет завтра?")) == [
        "16 января 2026: Lantern walk, 16 January 10-3, bring a jar."
    ]


async def test_without_a_period_four_weeks_count_and_a_moved_event_has_its_new_day(announced):
    shown = lines(await ask(announced, "ближайшие мероприятия"))
    assert [line for line in shown if "ombola" in line] == [
        "31 января 2026: Tombola postponed: the hall is flooded, new date 31 January."
    ]
    assert not any("every Saturday" in line or "nobody came" in line for line in shown)


async def test_events_of_a_channel_by_its_title_and_of_none_that_may_not_be_read(announced):
    assert lines(await ask(announced, "what's on at the harbour on saturday?"))
    assert not lines(await ask(announced, "what is planned in @pech_i_glina?"))
    assert len(lines(await ask(announced, "anything on in the hall?"))) == 1  # the tombola with its new date
    assert await ask(announced, "anything on at the bandstand?") is None
    everywhere = lines(await ask(announced, "anything on saturday?"))
    assert everywhere and not any("vault" in line for line in everywhere)
    assert not lines(await ask(announced, "anything on saturday?", see=(announced.kiln,)))


@pytest.mark.parametrize(("name", "least"), [("*_events/*", 0.98), ("*_events2", 0.94)])
def test_what_is_to_come_is_asked_for_without_a_thing(root, name, least):
    """Ordinary questions and requests for posts are in `planning/test_everyday_requests.py`."""
    files = list((root / "tests" / "data").glob(f"{name}/queries.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    assert len(rows) in {32, 40}
    coming = 0
    for row in rows:
        asked = Question(row["text"], row["lang"], datetime.fromisoformat(row["asked_at"]), Viewer(1, frozenset({-1})))
        coming += plan_by_rules(asked).kind is Kind.COMING
    assert coming >= least * len(rows)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("is the library open on Saturday", Kind.FACT), ("где встреча завтра", Kind.FACT),
        ("is he coming tomorrow", Kind.FACT), ("can we go to the museum on Saturday", Kind.FACT),
        ("what happened last weekend", Kind.POSTED), ("what is new in October", Kind.POSTED),
    ],
)  # fmt: skip
def test_a_day_in_a_question_does_not_mean_what_is_to_come(text, kind):
    asked_at = datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert plan_by_rules(Question(text, "en", asked_at, Viewer(1, frozenset({-1})))).kind is kind
