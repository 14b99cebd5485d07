"""Memory, descriptors and waits under a mixed load: the short form of `soak.py`, and what its verdicts notice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chaos.prepared_archive import OLD, make_expected_posts, prepare_archive
from chaos.soak import Plan, Sample, compute_figures, judge, run_soak
from chaos.user_load import Load, Rates
from driven_sandbox import DrivenSandbox

SHORT = Plan(
    minutes=0.1,
    warm_up=0.03,
    every=0.2,
    posts=100,
    answers=10,
    rates=Rates(edits=5, think_s=0.4, reindex_s=3, posted=20),
)


@pytest.mark.timeout(300)  # it takes 15 s, and many times as long beside others
async def test_a_short_soak_answers_everybody_and_keeps_no_descriptor_open(tmp_path: Path) -> None:
    await asyncio.to_thread(prepare_archive, tmp_path / "data", make_expected_posts(OLD, SHORT.posts, SHORT.seed))
    load, samples = await run_soak(SHORT, tmp_path, None)
    log = (tmp_path / "bot.log").read_text(encoding="utf-8")
    found = compute_figures(SHORT, load, samples, log)
    assert found["unanswered"] == []
    assert found["tracebacks"] == 0, log[-5000:]
    assert load.done["ask"] > 0 < load.done["edit"]
    assert load.done["reindex"] > 0
    assert found["descriptors_growth"] < 6  # a connection more or less; one for each question would be far more
    assert samples[-1].rss > 50
    assert len(judge(found)) == 4


def minutes(number: float, **changing: float) -> list[Sample]:
    """Steady samples for so many minutes; what changes does so by this much an hour."""
    steady, descriptors = Sample(0, 200, 150, {}), changing.pop("descriptors", 0)
    rng = np.random.default_rng(3)
    found = []
    for at in np.arange(0, 60 * number, 3):
        grown = {name: getattr(steady, name) + by * at / 3600 for name, by in changing.items()}
        grown["rss"] = grown.get("rss", steady.rss) + float(rng.normal(0, 0.4))
        of = {1: int(20 + descriptors * at / 3600)} | ({int(at): 15} if at > 60 * number / 2 else {})  # one that ends
        found.append(replace(steady, at=float(at), descriptors=of, **grown))
    return found


def judged(samples: list[Sample], waits: list[float]) -> list[bool]:
    load = Load(DrivenSandbox(), Rates(), old=1, seed=1)
    load.waits = [(float(n), took) for n, took in enumerate(waits)]
    return list(judge(compute_figures(Plan(minutes=30, warm_up=0), load, samples)).values())


def test_what_is_steady_passes() -> None:
    assert judged(minutes(30), [0.1, 0.2] * 300) == [True, True, True, True]


@pytest.mark.parametrize(
    ("changing", "waits", "verdict"),
    [
        ({"rss": 30.0}, [0.1, 0.2] * 300, [False, True, True, True]),
        ({"rss": 6.0}, [0.1, 0.2] * 300, [False, True, True, True]),  # little, and yet it is sure to grow
        ({"descriptors": 40.0}, [0.1, 0.2] * 300, [True, False, True, True]),
        ({}, [0.1 + n / 1000 for n in range(600)], [True, True, False, True]),
    ],
)
def test_what_leaks_or_gets_slower_is_noticed(
    changing: dict[str, float], waits: list[float], verdict: list[bool]
) -> None:
    assert judged(minutes(30, **changing), waits) == verdict
