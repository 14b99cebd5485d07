import asyncio

import pytest
from chaos.prepared_archive import OLD, make_expected_posts, prepare_archive
from chaos.soak import Plan, compute_figures, judge, run_soak
from chaos.user_load import Rates

SHORT = Plan(
    minutes=0.1,
    warm_up=0.03,
    every=0.2,
    posts=100,
    answers=10,
    rates=Rates(edits=5, think_s=0.4, reindex_s=3, posted=20, picture_s=2),
)


@pytest.mark.timeout(300)  # it takes 15 s, and many times as long beside others
async def test_a_short_soak_answers_everybody_and_keeps_no_descriptor_open(tmp_path):
    await asyncio.to_thread(prepare_archive, tmp_path / "data", make_expected_posts(OLD, SHORT.posts, SHORT.seed))
    load, samples = await run_soak(SHORT, tmp_path, None)
    log = (tmp_path / "bot.log").read_text(encoding="utf-8")
    found = compute_figures(SHORT, load, samples, log)
    assert found["unanswered"] == []
    assert found["tracebacks"] == 0, log[-5000:]
    assert load.done["ask"] > 0 < load.done["edit"]
    assert load.done["reindex"] > 0 < load.done["picture"]
    assert found["descriptors_growth"] < 6  # a connection more or less; one for each question would be far more
    assert samples[-1].rss > 50
    assert len(judge(found)) == 4
