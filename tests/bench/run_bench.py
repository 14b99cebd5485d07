"""The bench: our engines and their peers, side by side in one run. Prints tables, writes bench.json.

python tests/bench/run_bench.py [--quick] [--sizes 10k,100k,1m] [--legs lexical,dense,whole] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import dense_engines, lexical_engine_contract
from bench.format_results import check_goals, compute_ratios, format_table
from bench.measure_process import in_child

_CHILD = Path(__file__).with_name("measure_one_engine.py")
_ENGINES = {
    "lexical": [*lexical_engine_contract.ENGINES],
    "dense": [*dense_engines.ENGINES],
    "whole": ["citegram"],
}
_NEEDS = lexical_engine_contract.NEEDS | dense_engines.NEEDS
_MOST = {"qdrant-client local": 100_000}  # above it needs hours
_PACKAGES = ("rank-bm25", "tantivy", "qdrant-client", "qdrant-edge-py", "lancedb", "sqlite-vec", "numpy")
_SHORT_FORM: dict[int, dict[str, tuple[str, ...]]] = {  # size -> leg -> engines
    2000: {
        "lexical": ("citegram", "rank-bm25"),
        "dense": ("citegram", "sqlite-vec", "lancedb", "numpy scan"),
        "whole": ("citegram",),
    },
}


@dataclass
class Bench:
    """One run: what is measured, and what came of it."""

    sizes: Sequence[int]
    legs: Sequence[str] = (*_ENGINES,)
    queries: int = 200
    quick: bool = False
    metrics: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # size -> leg -> engine -> figures
    skipped: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Measure everything, smallest size first."""
        for size in self.sizes:
            legs: dict[str, dict[str, Any]] = {leg: {} for leg in _ENGINES}
            self.metrics[str(size)] = legs
            for leg, name in self._planned(size):
                if row := self._whole(size) if leg == "whole" else self._measured(leg, name, size):
                    legs[leg][name] = row

    def _planned(self, size: int) -> Iterator[tuple[str, str]]:
        for leg, engines in _ENGINES.items():
            for name in engines:
                needed = _NEEDS.get(name)
                if leg not in self.legs or (self.quick and name not in _SHORT_FORM[size].get(leg, ())):
                    continue
                if needed and find_spec(needed) is None:
                    self._skip(f"{name} is not installed: left out")
                elif size > _MOST.get(name, size):
                    self._skip(f"{name} is left out at {size:,} posts: it would take hours")
                else:
                    yield leg, name

    def _skip(self, line: str) -> None:
        if line not in self.skipped:
            print(line)
            self.skipped.append(line)

    def _measured(self, kind: str, name: str, size: int, folder: Path | None = None) -> dict[str, Any] | None:
        with tempfile.TemporaryDirectory(prefix="citegram-bench-") as own:
            print(f"{kind}, {size:,} posts, {name} ...", end=" ", flush=True)
            began = time.perf_counter()
            try:
                row = in_child(_CHILD, kind, name, str(size), str(folder or own), str(self.queries))
            except CalledProcessError as exc:
                print("failed")
                self._skip(f"{name} failed at {size:,} posts (exit code {exc.returncode})")
                return None
            print(f"{time.perf_counter() - began:.0f} s")
            return row

    def _whole(self, size: int) -> dict[str, Any] | None:
        with tempfile.TemporaryDirectory(prefix="citegram-bench-") as folder:
            filled = self._measured("fill", "citegram", size, Path(folder))
            asked = self._measured("ask", "citegram", size, Path(folder)) if filled else None
            return filled | asked if filled and asked else None

    def report(self) -> dict[str, Any]:
        """Everything as one object, as the other commands write it."""
        versions = {name: version(name) for name in _PACKAGES if find_spec(name.replace("-", "_").removesuffix("_py"))}
        load = round(os.getloadavg()[0], 2)  # above 1 something else was at work, too
        machine = {
            "system": platform.system(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": load,
        }
        settings = {"sizes": list(self.sizes), "queries": self.queries, "quick": self.quick, "machine": machine}
        told: dict[str, Any] = {"command": "bench", "settings": settings | {"versions": versions}}
        told |= {"metrics": self.metrics, "skipped": self.skipped}
        told |= compute_ratios(self.metrics)  # takes what was found out of the figures, and says how far it agrees
        return told | {"goals": check_goals(told)}


def parse_size(word: str) -> int:
    unit = {"k": 1000, "m": 1_000_000}.get(word[-1:].lower())
    return int(word[:-1]) * unit if unit else int(word)


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run_bench.py", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="the short form: 2,000 posts, few peers")
    parser.add_argument(
        "--sizes", default="10k,100k", help="numbers of posts (default: 10k,100k; 1m takes half an hour)"
    )
    parser.add_argument("--legs", default=",".join(_ENGINES), help="what to measure (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("data/bench"), help="folder of bench.json")
    args = parser.parse_args(argv)
    try:
        args.sizes = [parse_size(word) for word in args.sizes.split(",")]
    except ValueError:
        parser.error("--sizes takes numbers such as 10k,100k,1m")
    args.legs = args.legs.split(",")
    if set(args.legs) - _ENGINES.keys():
        parser.error(f"--legs takes {', '.join(_ENGINES)}")
    if min(args.sizes) < 1000:
        parser.error("--sizes: a bench of fewer than 1,000 posts says nothing")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write. Exit code 1 where an engine of ours failed."""
    args = _asked(argv)
    bench = Bench(list(_SHORT_FORM), queries=12, quick=True) if args.quick else Bench(args.sizes, args.legs)
    args.out.mkdir(parents=True, exist_ok=True)
    bench.run()
    told = bench.report()
    print(format_table(told))
    (args.out / "bench.json").write_text(json.dumps(told, ensure_ascii=False, indent=1), encoding="utf-8")
    return int(any(line.startswith("citegram failed") for line in bench.skipped))


if __name__ == "__main__":
    sys.exit(main())
