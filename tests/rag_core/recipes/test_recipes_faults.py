"""Each recipe with each stage failing, late, silent, talking nonsense: it ends all the same, and says no untruth."""

import asyncio
import time
from dataclasses import replace

import pytest
from scripted_roles import SLOW, RoleLlm, detect_purpose

from rag_core.answer import run_recipe
from rag_core.errors import GenerationFailed, IndexUnavailable, ModelUnavailable
from rag_core.llm.protocol import TokenRates
from rag_core.planning.plan import plan_by_rules
from rag_core.recipe_steps import Round
from rag_core.run import Budgets, Run, Stage
from rag_core.storage.readers import AnswerMode, save_answer_mode
from rag_core.types import Citation, Draft, Plan, Post, PostKey, Sentence

pytestmark = pytest.mark.slow

OWN = ("direct", "agent", "mapreduce", "council")
QUESTION = "When does the ferry to Owl Island leave?"
SAYS = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
WRITTEN = f"{SAYS} [1]"
FACT = '{"relevant": true, "facts": ["The ferry to Owl Island leaves at 7:30 every morning."]}'
NO_FACT = '{"relevant": false, "facts": []}'
DONE = '{"parts": [{"state": "FULLY", "ask": ""}]}'
GONE = GenerationFailed("The model went away.")
UNTRUE = "The ferry to Bear Mountain leaves at midnight from pier nine. [1]"
BABBLE = "}}{{ [99] ◊◊◊ Thought: I must \x00 obey <|im_end|> 12345"
GOOD = {"write": WRITTEN, "map": [FACT, NO_FACT], "parts": DONE, "hyde": "A ferry leaves.", "other": "{}"}
BUDGETS = Budgets(map=0.3, judge=0.3, write=0.3, rewrite=0.2, plan=0.3, question=3)


@pytest.fixture(scope="module")
def warm(tmp_path_factory, open_library):
    """Load what is loaded with the first answer: it takes longer than a stage has here."""

    async def ask():
        async with open_library(tmp_path_factory.mktemp("warm")) as library:
            await library.keep(Post(PostKey(library.harbour, 1), library.now, SAYS))
            library.rag = replace(library.rag, writer=RoleLlm(GOOD), recipe="direct")
            await library.ask(QUESTION)

    asyncio.run(ask())


@pytest.fixture
async def quick(warm, tmp_path, open_library, make_post):
    """A few posts, and little time for every stage."""
    async with open_library(tmp_path / "quick", budgets=BUDGETS) as library:
        await library.keep(
            make_post(1, f"{SAYS} Dogs travel free of charge.", chat=library.harbour),
            make_post(2, "Fresh mackerel is sold on the quay on Fridays.", chat=library.harbour),
            make_post(5, "A ferry ticket costs twelve euros; children sail for nothing.", chat=library.harbour),
        )
        yield library


async def answered(library, recipe, model=None, text=QUESTION, **doors):
    library.rag = replace(library.rag, writer=model, recipe=recipe, **doors)
    started = time.monotonic()
    reply = await library.ask(text)
    assert time.monotonic() - started < BUDGETS.question + 1
    assert all(sentence.citations for sentence in reply.sentences)
    assert "Bear Mountain" not in shown(reply)
    return reply


def shown(reply):
    return " ".join(sentence.text for sentence in reply.sentences)


def lacks(reply):
    return {shortfall.stage for shortfall in reply.shortfalls}


BADLY = {"gone": GONE, "slow": SLOW, "silent": "", "babble": BABBLE, "untrue": UNTRUE,
         "untrue fact": '{"relevant": true, "facts": ["The ferry sails to Bear Mountain."]}'}  # fmt: skip
# recipe, who plays badly, what it does, which recipe answers in the end, what is said to be missing
ROWS = [
    *(
        (recipe, "write", does, recipe, {"write"})
        for recipe in ("agent", "mapreduce", "council")
        for does in list(BADLY)[:5]
    ),
    *(("mapreduce", "map", does, "direct", {"recipe"}) for does in ("gone", "slow")),
    *(("mapreduce", "map", does, "mapreduce", set()) for does in ("silent", "babble")),
    ("mapreduce", "map", "untrue fact", "mapreduce", {"write"}),
    *(("council", "judge", does, "council", {"judge"}) for does in ("gone", "slow")),
    *(("council", "parts", does, "council", {"parts"}) for does in ("gone", "slow", "silent", "babble")),
]


@pytest.mark.parametrize(("recipe", "who", "does", "ends", "without"), ROWS)
async def test_a_stage_that_fails_has_a_stand_in(quick, recipe, who, does, ends, without):
    play = BADLY[does]
    model = RoleLlm(GOOD, odds=play) if who == "judge" else RoleLlm(GOOD | {who: play})
    reply = await answered(quick, recipe, model)
    assert (reply.recipe, lacks(reply), "7:30" in shown(reply)) == (ends, without, True)


@pytest.mark.parametrize("recipe", OWN)
async def test_a_planner_that_fails_is_done_without(quick, recipe):
    for does in (GONE, SLOW, "", BABBLE):
        reply = await answered(quick, recipe, RoleLlm(GOOD), planner=RoleLlm({"other": does, "hyde": "x"}))
        assert (reply.recipe, "7:30" in shown(reply)) == (recipe, True)


@pytest.mark.parametrize("recipe", OWN)
async def test_a_reranker_that_fails_is_done_without(quick, recipe):
    class Broken:
        languages, pair_s = frozenset({"en"}), 0.001

        async def scores(self, question, texts):
            raise ModelUnavailable("The reranker broke.")

    reply = await answered(quick, recipe, RoleLlm(GOOD), reranker=Broken())
    assert (reply.recipe, "7:30" in shown(reply)) == (recipe, True)


@pytest.mark.parametrize("recipe", OWN)
async def test_an_index_that_is_down_is_never_nothing_found(quick, recipe, monkeypatch):
    def down(*_):
        raise IndexUnavailable("The index is down.")

    monkeypatch.setattr(quick.rag.lexical, "search", down)
    with pytest.raises(IndexUnavailable):
        await answered(quick, recipe, RoleLlm(GOOD))


async def lazy(question, plan, rag, run):
    await asyncio.sleep(60)
    return Round(Plan(()), Draft())


async def test_a_recipe_that_passes_its_deadline_falls_to_direct_in_the_time_kept_back(quick, monkeypatch):
    monkeypatch.setattr("rag_core.answer.load_recipe", lambda name: lazy)
    reply = await answered(quick, "lazy")
    assert (reply.recipe, lacks(reply), "7:30" in shown(reply)) == ("direct", {"recipe"}, True)
    (span,) = [span for span in quick.runs[-1].spans if span.stage == "lazy"]
    assert (span.error, span.took_ms > 1900) == ("StageTimeout", True)


@pytest.mark.parametrize(("hurried", "recipe"), [(False, "empty"), (True, "direct")])
async def test_a_recipe_that_finds_nothing_is_followed_by_direct_only_where_it_had_no_time(
    quick, monkeypatch, hurried, recipe
):
    async def empty(question, plan, rag, run):
        if hurried:
            await asyncio.sleep(run.left - run.after)
        return Round(Plan(()), Draft())

    monkeypatch.setattr("rag_core.answer.load_recipe", lambda name: empty)
    reply = await answered(quick, "empty")
    assert (reply.recipe, lacks(reply), "7:30" in shown(reply)) == (recipe, {"recipe"} if hurried else set(), hurried)


async def test_a_sixth_recipe_is_one_file_and_one_line(quick, monkeypatch):
    async def oracle(question, plan, rag, run):
        key, start = PostKey(quick.harbour, 1), quick.now
        quote = Citation(key, SAYS, 0, len(SAYS), start)
        return Round(Plan(()), Draft((Sentence(SAYS, (quote,)), Sentence("It never sails.", (quote,), 0.9)), 1.0))

    monkeypatch.setattr("rag_core.answer.load_recipe", lambda name: oracle)
    reply = await answered(quick, "oracle")
    assert (reply.recipe, shown(reply)) == ("oracle", SAYS)
    assert lacks(reply) == {"support"}  # what its post does not say went no further than the common tail


async def test_the_stages_of_a_recipe_end_before_it_does(quick):
    """So that a stand-in is still of use."""
    long = replace(quick.rag.budgets, write=60.0, question=3.0)
    rag = replace(quick.rag, budgets=long, writer=RoleLlm({"write": SLOW}))
    notebook, started = Run(long, "direct"), time.monotonic()
    question = quick.question(QUESTION)
    draft = (await run_recipe("direct", question, plan_by_rules(question), rag, notebook)).draft
    assert (draft.model, "7:30" in draft.sentences[0].text) == (None, True)
    assert time.monotonic() - started < 3.0
    assert "ANSWER__SECONDS" in notebook.shortfalls[0].reason


async def test_waiting_for_the_model_is_part_of_the_deadline_and_not_of_a_stage(quick):
    notebook = Run(quick.rag.budgets, "direct")

    class Queued(RoleLlm):
        def turn(self, reader, on_place=None):
            inner = super().turn(reader, on_place)

            class Turn:
                async def __aenter__(self):
                    await asyncio.sleep(seconds)
                    return await inner.__aenter__()

                async def __aexit__(self, *exc):
                    return await inner.__aexit__(*exc)

            return Turn()

    async def ask():
        async with notebook.open_session(Queued({}), 1):
            return "written"

    seconds = 0.6
    async with notebook.within(2.0):
        assert await notebook.attempt(Stage.WRITE, ask(), "extract") == "written"  # the stage has 0.3 s of its own
        assert notebook.left < 1.5
        seconds = 60
        assert await notebook.attempt(Stage.WRITE, ask(), "extract") == "extract"
        assert 0.5 < notebook.left < 1.0  # half of what was left


async def test_a_careful_chat_has_its_answers_looked_over_once_more(quick):
    await save_answer_mode(quick.rag.archive, 0, AnswerMode("agent", careful=True))
    reply = await answered(quick, "auto", RoleLlm(GOOD | {"other": '{"score": 5, "missing": "", "unsupported": []}'}))
    assert (reply.recipe, "7:30" in shown(reply)) == ("agent", True)
    stages = [span.stage for span in quick.runs[-1].spans]
    assert stages.index("write") < stages.index("reflect") < stages.index("cite")


async def test_the_council_asks_again_for_what_is_left_open(quick):
    open_part = '{"parts": [{"state": "FULLY", "ask": ""}, {"state": "NOT", "ask": "What does a ferry ticket cost?"}]}'
    model = RoleLlm(GOOD | {"parts": open_part, "write": [WRITTEN] * 2 + ["A ferry ticket costs twelve euros. [2]"]},
                 odds=(2.0, -3.0))  # fmt: skip
    reply = await answered(quick, "council", model)
    assert "7:30" in shown(reply)
    assert "twelve euros" in shown(reply)
    assert len(reply.posts()) == 2


async def test_the_council_asks_again_only_where_the_question_looks(quick, make_post):
    await quick.keep(make_post(7, "A sauna ticket costs ninety roubles.", chat=quick.kiln))
    open_part = '{"parts": [{"state": "NOT", "ask": "What does a sauna ticket cost?"}]}'

    def plan(question, known):
        bounds = {"channels": frozenset({quick.harbour})} if question.text == QUESTION else {}
        return replace(plan_by_rules(question, known), **bounds)

    model = RoleLlm(GOOD | {"parts": open_part, "write": [WRITTEN] * 2 + ["A sauna ticket costs ninety roubles. [2]"]},
                 odds=(2.0, -3.0))  # fmt: skip
    reply = await answered(quick, "council", model, plan=plan)
    assert "7:30" in shown(reply)
    assert {key.chat_id for key in reply.posts()} == {quick.harbour}


class Slow(RoleLlm):
    """One that takes its time over each post."""

    begun = 0

    async def choose_reply(self, prompt, *given):
        if detect_purpose(prompt) == "map":
            self.begun += 1
            await asyncio.sleep(0.8)
        return await super().choose_reply(prompt, *given)


async def test_no_further_post_is_read_where_the_question_has_no_time_for_it(quick):
    model, long = Slow(GOOD), replace(quick.rag.budgets, map=60.0, question=1.5)
    await answered(quick, "mapreduce", model, budgets=long)
    assert model.begun == 1


async def test_a_reader_who_does_not_wait_says_nothing_about_a_recipe(quick, monkeypatch):
    begun = asyncio.Event()

    async def endless(question, plan, rag, run):
        begun.set()
        return await lazy(question, plan, rag, run)

    monkeypatch.setattr("rag_core.answer.load_recipe", lambda name: endless)
    quick.rag = replace(quick.rag, recipe="endless")
    asking = asyncio.create_task(quick.ask(QUESTION))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (span,) = [span for span in quick.runs[-1].spans if span.stage == "endless"]
    assert span.error == "CancelledError"


async def test_the_council_keeps_what_its_judge_puts_above_the_bar(quick):
    await answered(quick, "council", RoleLlm(GOOD, odds=(3.0, -3.0)))
    (judged,) = [span.counts for span in quick.runs[-1].spans if span.stage == "judge"]
    assert (judged["judged"], judged["kept"], judged["bar"]) == (2, 1, -1.5)


async def test_facts_are_all_that_the_reducing_model_reads(quick):
    model = RoleLlm(GOOD)
    await answered(quick, "mapreduce", model)
    (reduced,) = [prompt for prompt in model.asked if detect_purpose(prompt) == "write"]
    assert "leaves at 7:30 every morning." in reduced.ask
    assert "Dogs travel" not in reduced.ask
    assert model.calls.count("map") <= 5


async def test_a_slow_model_is_not_asked_to_put_the_facts_in_other_words(quick):
    model = RoleLlm(GOOD)
    model.rates = TokenRates(prefill=29, decode=7.4)  # a model of 1.5 B on one core, measured
    quick.rag = replace(quick.rag, budgets=Budgets(map=300, question=600))
    reply = await answered(quick, "mapreduce", model)
    assert "write" not in model.calls and model.calls.count("map") >= 1
    assert shown(reply) == "The ferry to Owl Island leaves at 7:30 every morning."
    assert (reply.recipe, lacks(reply)) == ("mapreduce", set())


async def test_an_answer_about_something_else_is_flagged(quick):
    fact = '{"relevant": true, "facts": ["Fresh mackerel is sold on the quay on Fridays."]}'
    model = RoleLlm(GOOD | {"map": fact, "write": "Fresh mackerel is sold on the quay on Fridays. [1]"})
    far = "Does the quay of Zanzibar exhibit silver zeppelins, golden elephants and marble pyramids?"
    assert "overlap" in lacks(await answered(quick, "mapreduce", model, far))
    near = await answered(quick, "mapreduce", model, "Is fresh mackerel sold on the quay on Fridays?")
    assert (near.confidence, lacks(near)) == (1.0, set())


async def test_the_agent_looks_twice_where_it_found_little_and_at_most_twice(quick, monkeypatch):
    far = "Which zeppelin sails to Bear Mountain on Christmas Eve?"
    for text, rounds in ((QUESTION, 1), (far, 2)):
        await answered(quick, "agent", None, text)
        assert [span.stage for span in quick.runs[-1].spans].count("extract") == rounds


async def test_what_the_agents_first_round_found_stands_where_the_second_fails(quick, monkeypatch):
    far, real, calls = "Which zeppelin sails to Bear Mountain on Christmas Eve?", quick.rag.lexical.search, 0
    enough = 10**6

    def search(*given):
        nonlocal calls
        calls += 1
        if calls > enough:
            raise IndexUnavailable("The index is down.")
        return real(*given)

    monkeypatch.setattr(quick.rag.lexical, "search", search)
    await answered(quick, "direct", None, far)  # searches as the agent's first round does
    enough, calls = calls, 0
    reply = await answered(quick, "agent", None, far)
    assert (reply.recipe, reply.refused) == ("agent", True)
    assert lacks(reply) & {"again", "queries", "further", "lexical"}
