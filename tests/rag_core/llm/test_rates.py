"""What a model ends in time at its rates, and the writer that is recommended for a machine."""

import pytest

from rag_core.llm.protocol import TokenRates
from rag_core.llm.rates import estimate_stages, recommend_writer
from rag_core.run import Budgets

CODER, FOUR = "qwen2.5-coder-1.5b", "qwen3-4b-instruct"


@pytest.mark.parametrize(
    ("prefill", "decode", "fits"),
    [(29, 7.4, "judge"), (8, 2, ""), (200, 18, "judge plan write"), (60, 12, "judge plan")],
)
def test_a_stage_fits_where_its_prompt_is_read_and_its_reply_written_in_time(prefill, decode, fits):
    stages = estimate_stages(TokenRates(prefill, decode), Budgets())
    assert [stage.stage for stage in stages if stage.fits] == fits.split()


def test_the_limits_are_the_budgets_but_nobody_waits_a_minute_for_a_written_answer():
    judge, plan, write = estimate_stages(TokenRates(29, 7.4), Budgets(judge=3, plan=40, write=60))
    assert (judge.limit, plan.limit, write.limit) == (3, 40, 20)
    assert (judge.fits, plan.fits, write.fits) == (False, True, False)
    assert round(judge.seconds, 1) == 3.2
    assert round(plan.seconds) == 36  # the whole plan, where there is time for it
    assert round(estimate_stages(TokenRates(29, 7.4), Budgets())[1].seconds) == 15  # the short one


@pytest.mark.parametrize(
    ("free", "cores", "name"),
    [(1_500_000_000, 2, None), (2_000_000_000, 2, CODER), (16_000_000_000, 4, CODER), (16_000_000_000, 32, FOUR),
     (3_000_000_000, 32, CODER), (None, 2, CODER)],
)  # fmt: skip
def test_the_best_writer_is_recommended_that_fits_the_memory_and_writes_in_time(free, cores, name):
    row = recommend_writer(free, cores)
    assert (row and row.name) == name


def test_measured_rates_count_more_than_cores():
    quick, slow = TokenRates(3000, 120), TokenRates(2, 1)
    for rates, name in ((quick, FOUR), (slow, None)):
        row = recommend_writer(16_000_000_000, 2, (rates, 1_117_320_768))
        assert (row and row.name) == name
