import pytest

from rag_core.llm.protocol import TokenRates
from rag_core.llm.rates import estimate_stages
from rag_core.run import Budgets


@pytest.mark.parametrize(
    ("prefill", "decode", "fits"),
    [(29, 7.4, "judge"), (8, 2, ""), (200, 18, "judge plan write"), (60, 12, "judge")],
)
def test_a_stage_fits_where_its_prompt_is_read_and_its_reply_written_in_time(prefill, decode, fits):
    stages = estimate_stages(TokenRates(prefill, decode), Budgets())
    assert [stage.stage for stage in stages if stage.fits] == fits.split()


def test_the_limits_are_the_budgets_but_nobody_waits_a_minute_for_a_written_answer():
    judge, plan, write = estimate_stages(TokenRates(29, 7.4), Budgets(judge=3, plan=40, write=60))
    assert (judge.limit, plan.limit, write.limit) == (3, 40, 20)
    assert (judge.fits, plan.fits, write.fits) == (False, True, False)
    assert round(judge.seconds, 1) == 3.2
    assert round(plan.seconds) == 36
