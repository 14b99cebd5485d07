"""The bench: our engines, rank-bm25 and a numpy scan, side by side in one run. Prints tables.

python tests/bench/run_bench.py [--sizes 10k,100k,1m] [--queries 200]
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from subprocess import CalledProcessError

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import dense_engines, lexical_engine_contract
from bench.format_results import compute_ratios, format_table
from bench.measure_process import in_child

_CHILD = Path(__file__).with_name("measure_one_engine.py")
_ENGINES = {"lexical": [*lexical_engine_contract.ENGINES], "dense": [*dense_engines.ENGINES], "whole": ["citegram"]}


def run_bench(sizes, queries):
    """Measure everything, smallest size first: `metrics` by size, leg and engine, `ratios`, `agreement`, `skipped`."""
    metrics = {}
    skipped = []
    for size in sizes:
        for leg, engines in _ENGINES.items():
            rows = metrics.setdefault(str(size), {}).setdefault(leg, {})
            for name in engines:
                try:
                    rows[name] = _measure(leg, name, size, queries)
                except CalledProcessError as exc:
                    skipped.append(f"{name} failed at {size:,} posts (exit code {exc.returncode})")
    return {"metrics": metrics, "skipped": skipped} | compute_ratios(metrics)


def _measure(leg, name, size, queries):
    row = {}
    with tempfile.TemporaryDirectory(prefix="citegram-bench-") as folder:
        for kind in ("fill", "ask") if leg == "whole" else (leg,):
            print(f"{kind}, {size:,} posts, {name} ...", end=" ", flush=True)
            began = time.perf_counter()
            row |= in_child(_CHILD, kind, name, str(size), folder, str(queries))
            print(f"{time.perf_counter() - began:.0f} s")
    return row


def parse_size(word):
    unit = {"k": 1000, "m": 1_000_000}.get(word[-1:].lower())
    return int(word[:-1]) * unit if unit else int(word)


def main():
    """Run and print. Exit code 1 where an engine of ours failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k,100k", help="numbers of posts; 1m takes half an hour")
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    load = os.getloadavg()[0]  # above 1 something else was at work, too
    print(f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} processors, load {load:.2f}")
    told = run_bench([parse_size(word) for word in args.sizes.split(",")], args.queries)
    print(*told["skipped"], format_table(told), sep="\n")
    return int(any(line.startswith("citegram failed") for line in told["skipped"]))


if __name__ == "__main__":
    sys.exit(main())
