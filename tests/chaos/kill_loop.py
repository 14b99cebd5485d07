"""Kills the bot with -9, again and again, while its channels live on; then looks for what is lost, twice or stale.

python tests/chaos/kill_loop.py [--kills 100] [--updates 20000] [--rate 50] [--seed 1] [--json OUT] [--models DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # run as a script

from chaos.kill_run import Chaos, Plan
from chaos.offline_models import offline_models


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Plan()
    parser.add_argument("--kills", type=int, default=usual.kills, help="kills with -9, 0 to 5 s after ready")
    parser.add_argument("--updates", type=int, default=usual.updates, help="at least so many updates")
    parser.add_argument("--rate", type=float, default=usual.rate, help="updates a second")
    parser.add_argument("--seed", type=int, default=usual.seed, help="the same seed, the same posts and kills")
    parser.add_argument("--patience", type=float, default=usual.patience, help="seconds to finish after the last kill")
    parser.add_argument("--models", metavar="DIR", help="where the offline model is; none: words alone")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the bot's data and log here")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print and write what came of it; 1 where anything is lost, twice or stale."""
    asked = _asked(argv)
    plan = Plan(asked.kills, asked.updates, asked.rate, asked.seed, asked.patience)
    models = offline_models(asked.models)
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(plan, asked.folder or Path(folder), models)
        chaos.home.log.parent.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        verdicts = asyncio.run(chaos.run())
        chaos.seconds["all"] = time.monotonic() - begun
        metrics = chaos.figures(verdicts)
    for name, value in metrics.items():
        print(f"{name:22}{value}")
    wrong = [f"{name}: {one}" for name, verdict in verdicts.items() for one in verdict.sentences()]
    for one in wrong[:50]:
        print(one)
    if asked.json:
        settings = asdict(plan) | {"dense": models is not None}
        told = {"command": "chaos-ingest", "data": None, "settings": settings, "metrics": {"all": metrics}}
        asked.json.write_text(json.dumps(told | {"rows": metrics["updates"]}, indent=2), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
