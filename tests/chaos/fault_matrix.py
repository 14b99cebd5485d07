"""Every fault in the midst of every activity: what is lost, twice or unanswered, and how soon all goes on.

python tests/chaos/fault_matrix.py [--cells FAULT/ACTIVITY,...] [--seconds 4] [--seed 1] [--json OUT] [--models DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parents[1]  # run as a script
    sys.path[:1] = [str(here), str(here.parent)]

from chaos.bot_activities import ACTIVITIES, Activity
from chaos.bot_process import PAUSE_S, start_fork_server
from chaos.fault_run import WITHIN_S, FaultRun, Stage, run_fault
from chaos.faults import FAULTS, SERVERS, Fault
from chaos.offline_models import offline_models
from chaos.prepared_archive import OLD, make_expected_posts, prepare_archive
from chaos.slow_disk_and_clock import FaultInjection

_MANY, _FEW = 6000, 200  # posts there are before; few where vectors are made of them


def main(argv: Sequence[str] | None = None) -> int:
    """Play the cells, print and write what came of them; 1 where one is not well."""
    asked = _asked(argv)
    pairs = [(fault, work) for fault in FAULTS for work in ACTIVITIES if _wanted(fault, work, asked.cells)]
    qdrant = any(fault.needs == "qdrant" for fault, _ in pairs)
    if asked.at_once and any(fault.needs in {"weather", "disk"} for fault, _ in pairs):
        raise SystemExit("--at-once: these faults of clock and disk would strike the other bots too")
    models = offline_models(asked.models) if qdrant else None
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="citegram-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    weather, templates = FaultInjection(folder), {}
    for name, number in {"many": asked.posts, **({"few": _FEW} if qdrant else {})}.items():
        templates[name] = folder / name, make_expected_posts(OLD, number, asked.seed)
        prepare_archive(*templates[name])
    weather.begin()  # for the bots, not for this process
    begun = time.monotonic()
    stage = Stage(folder, weather, templates, models, _say, asked.seconds, asked.seed)
    cells = asyncio.run(_all(stage, pairs, asked.at_once))
    cells.sort(key=lambda cell: [fault.name for fault in FAULTS].index(cell.fault))
    print(table(cells))
    wrong = [f"{cell.fault}, {cell.activity}: {one}" for cell in cells for one in cell.wrong]
    print("\n".join(wrong[:100]))
    if asked.json:
        _write(asked, cells, time.monotonic() - begun)
    if not wrong and not asked.folder:
        shutil.rmtree(folder)
    return 1 if wrong else 0


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="/", help="only these, by parts of their names, such as kill/import,/live")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a fault lasts")
    parser.add_argument("--posts", type=int, default=_MANY, help="posts there are before")
    together = "play all activities at the same time; not for faults of clock and disk, which all bots share"
    parser.add_argument("--at-once", action="store_true", help=together)
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same posts and moments")
    parser.add_argument("--models", metavar="DIR", help="where the offline model is, for Qdrant; none: left out")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep data and logs here")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    return parser.parse_args(argv)


def _wanted(fault: Fault, work: Activity, cells: str) -> bool:
    pairs = [pair.partition("/") for pair in cells.split(",")]
    return any(first.strip() in fault.name and second.strip() in work.name for first, _, second in pairs)


async def _all(stage: Stage, pairs: Iterable[tuple[Fault, Activity]], at_once: bool) -> list[FaultRun]:
    """What needs the same servers is played in the life of one bot; `at_once`: all these bots live at the same time."""
    await start_fork_server()
    rows: dict[tuple[str, Activity], list[Fault]] = {}
    for fault, activity in pairs:
        rows.setdefault((fault.needs if fault.needs in SERVERS else "", activity), []).append(fault)
    free = asyncio.Semaphore(len(rows) if at_once else 1)

    async def play(needs: str, activity: Activity, faults: list[Fault]) -> list[FaultRun]:
        async with free:
            lived = await run_fault(stage, needs, faults, activity)
        print(f"{activity.name}, judged: {sum(len(cell.wrong) for cell in lived)} wrong", file=sys.stderr, flush=True)
        return lived

    return list(chain.from_iterable(await asyncio.gather(*(play(*row, faults) for row, faults in rows.items()))))


def _say(cell: FaultRun) -> None:
    print(_line(cell), file=sys.stderr, flush=True)


def _line(cell: FaultRun) -> str:
    return f"{cell.fault:20}{cell.activity:12}{_told(cell):12}answers {cell.answering_s} s, settled {cell.settled_s} s"


def _told(cell: FaultRun) -> str:
    return "skipped" if cell.skipped else "well" if cell.well else "NOT WELL"


def table(cells: Sequence[FaultRun]) -> str:
    """Markdown: a row for each fault, in each column the seconds until answers come again / until nothing waits."""
    activities = list(dict.fromkeys(cell.activity for cell in cells))
    rows = [["fault", *activities], ["---"] + ["---"] * len(activities)]
    for fault in dict.fromkeys(cell.fault for cell in cells):
        found = {cell.activity: cell for cell in cells if cell.fault == fault}
        rows.append([fault, *(_shown(found[name]) if name in found else "" for name in activities)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(cell: FaultRun) -> str:
    if cell.skipped:
        return f"not played: {cell.skipped}"
    gap = "" if cell.gap_told_s is None else f", gap told {cell.gap_told_s}"
    return f"{'' if cell.well else 'NOT WELL '}{cell.answering_s} / {cell.settled_s}{gap}"


def _write(asked: argparse.Namespace, cells: Sequence[FaultRun], took: float) -> None:
    settings = {"seconds": asked.seconds, "posts": asked.posts, "seed": asked.seed, "pause_s": PAUSE_S}
    metrics = {"cells": len(cells), "well": sum(cell.well and not cell.skipped for cell in cells)}
    metrics |= {"skipped": sum(bool(cell.skipped) for cell in cells), "within_s": WITHIN_S, "took_s": round(took, 1)}
    told = {"command": "chaos", "data": None, "settings": settings, "metrics": {"all": metrics}, "rows": len(cells)}
    told |= {"machine": platform.platform(), "each": [cell.row() for cell in cells]}
    asked.json.write_text(json.dumps(told, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
