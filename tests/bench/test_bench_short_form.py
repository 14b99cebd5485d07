import io
import json
import runpy
import sys
import time
from contextlib import redirect_stdout

import numpy as np
import pytest
from bench import lexical_engine_contract as lexical_engines
from bench import run_bench, synthetic_posts
from bench.format_results import format_table
from bench.measure_process import in_child

SIZE = 10_000


@pytest.fixture(scope="module")
def posts():
    return synthetic_posts.make_posts(SIZE)


@pytest.fixture(scope="module")
def engines(posts, tmp_path_factory):
    documents = [posts.terms(n) for n in range(SIZE)]
    made = {
        name: lexical_engines.ENGINES[name](posts, tmp_path_factory.mktemp(name)) for name in ("citegram", "rank-bm25")
    }
    for engine in made.values():
        engine.build(documents)
    return made


@pytest.mark.alone
def test_a_query_takes_a_twentieth_of_what_rank_bm25_takes(posts, engines):
    queries, took = synthetic_posts.draw_queries(posts, 15), {name: np.full(15, np.inf) for name in engines}
    for _ in range(3):  # turn and turn about, the best of each, in processor time
        for name, engine in engines.items():
            for n, query in enumerate(queries):
                begun = time.process_time()
                engine.search(query)
                took[name][n] = min(took[name][n], 1000 * (time.process_time() - begun))
    ours, theirs = (float(np.percentile(took[name], 95)) for name in ("citegram", "rank-bm25"))
    assert theirs / ours >= 20, f"{theirs:.2f} ms against {ours:.2f} ms"


def run_here(script, *words):
    """Run a measurement in this process: most of one of its own is the import of the bot."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", [str(script), *words, repr(time.monotonic())])
        patch.setattr(sys, "path", [*sys.path])
        runpy.run_path(str(script), run_name="__main__")
    return dict(json.loads(said.getvalue().splitlines()[-1]))


def test_the_short_form_measures_every_leg(monkeypatch):
    monkeypatch.setattr(
        run_bench, "in_child", lambda *words: (run_here if words[1] in {"fill", "ask"} else in_child)(*words)
    )
    told = run_bench.run_bench([2000], 12)
    assert set(told["metrics"]["2000"]["lexical"]) == {"citegram", "rank-bm25"}
    assert told["ratios"]["2000"]["lexical"]["rank-bm25"] > 5
    assert told["agreement"]["2000"]["lexical"]["score_difference"] < 1e-9
    whole = told["metrics"]["2000"]["whole"]["citegram"]
    assert whole["right"] >= 0.8
    assert whole["exec_to_ready_s"] > whole["imports_to_ready_s"] > 0
    assert "rank-bm25" in format_table(told)
    assert all(row["same_nearest"] >= 0.99 for row in told["metrics"]["2000"]["dense"].values())
