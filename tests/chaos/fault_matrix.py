"""Every fault in the midst of every activity: what is lost, twice or unanswered, and how soon all goes on.

python tests/chaos/fault_matrix.py [--cells FAULT/ACTIVITY,...] [--seconds 4] [--seed 1] [--models DIR]
"""

import argparse
import asyncio
import sys
import tempfile
from itertools import chain
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parents[1]  # run as a script
    sys.path[:1] = [str(here), str(here.parent)]

from chaos.bot_activities import ACTIVITIES
from chaos.bot_process import start_fork_server
from chaos.fault_run import Stage, run_fault
from chaos.faults import FAULTS, SERVERS
from chaos.offline_models import offline_models
from chaos.prepared_archive import OLD, make_expected_posts, prepare_archive
from chaos.slow_disk_and_clock import FaultInjection

_MANY, _FEW = 6000, 200  # posts there are before; few where vectors are made of them


def run_matrix(cells, folder, models, *, seconds=4.0, posts=_MANY, seed=1):
    """Play the cells in a new folder; faults last so many seconds, `posts` are there before.

    All activities at the same time, unless a fault of clock and disk is among them, which all bots share.
    """
    pairs = [(fault, work) for fault in FAULTS for work in ACTIVITIES if _wanted(fault, work, cells)]
    folder.mkdir(parents=True, exist_ok=True)
    weather, templates = FaultInjection(folder), {}
    few = {"few": _FEW} if any(fault.needs == "qdrant" for fault, _ in pairs) else {}
    for name, number in {"many": posts, **few}.items():
        templates[name] = folder / name, make_expected_posts(OLD, number, seed)
        prepare_archive(*templates[name])
    weather.begin()  # for the bots, not for this process
    stage = Stage(folder, weather, templates, models, _say, seconds, seed)
    at_once = not any(fault.needs in {"weather", "disk"} for fault, _ in pairs)
    found = asyncio.run(_all(stage, pairs, at_once))
    return sorted(found, key=lambda cell: [fault.name for fault in FAULTS].index(cell.fault))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="/", help="only these, by parts of their names, such as kill/import,/live")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a fault lasts")
    parser.add_argument("--posts", type=int, default=_MANY, help="posts there are before")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same posts and moments")
    parser.add_argument("--models", metavar="DIR", help="where the offline model is, for Qdrant; none: left out")
    asked = vars(parser.parse_args())
    folder = Path(tempfile.mkdtemp(prefix="citegram-chaos-"))
    cells = run_matrix(asked.pop("cells"), folder, offline_models(asked.pop("models")), **asked)
    print(table(cells))
    wrong = [f"{cell.fault}, {cell.activity}: {one}" for cell in cells for one in cell.wrong]
    print(*wrong[:100], f"Data and logs: {folder}", sep="\n")
    return 1 if wrong else 0


def _wanted(fault, work, cells):
    pairs = [pair.partition("/") for pair in cells.split(",")]
    return any(first.strip() in fault.name and second.strip() in work.name for first, _, second in pairs)


async def _all(stage, pairs, at_once):
    """What needs the same servers is played in the life of one bot; `at_once`: all these bots live at the same time."""
    await start_fork_server()
    rows = {}
    for fault, activity in pairs:
        rows.setdefault((fault.needs if fault.needs in SERVERS else "", activity), []).append(fault)
    free = asyncio.Semaphore(len(rows) if at_once else 1)

    async def play(needs, activity, faults):
        async with free:
            lived = await run_fault(stage, needs, faults, activity)
        print(f"{activity.name}, judged: {sum(len(cell.wrong) for cell in lived)} wrong", file=sys.stderr, flush=True)
        return lived

    return list(chain.from_iterable(await asyncio.gather(*(play(*row, faults) for row, faults in rows.items()))))


def _say(cell):
    told = "skipped" if cell.skipped else "NOT WELL" if cell.wrong else "well"
    seconds = f"answers {cell.answering_s} s, settled {cell.settled_s} s"
    print(f"{cell.fault:20}{cell.activity:12}{told:12}{seconds}", file=sys.stderr, flush=True)


def table(cells):
    """Markdown: a row for each fault, in each column the seconds until answers come again / until nothing waits."""
    activities = list(dict.fromkeys(cell.activity for cell in cells))
    rows = [["fault", *activities], ["---"] + ["---"] * len(activities)]
    for fault in dict.fromkeys(cell.fault for cell in cells):
        found = {cell.activity: cell for cell in cells if cell.fault == fault}
        rows.append([fault, *(_shown(found[name]) if name in found else "" for name in activities)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(cell):
    if cell.skipped:
        return f"not played: {cell.skipped}"
    gap = "" if cell.gap_told_s is None else f", gap told {cell.gap_told_s}"
    return f"{'NOT WELL ' if cell.wrong else ''}{cell.answering_s} / {cell.settled_s}{gap}"


if __name__ == "__main__":
    sys.exit(main())
