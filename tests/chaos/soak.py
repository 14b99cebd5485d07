"""The bot under a mixed load for an hour: does its memory grow, does it keep descriptors open, does it get slower.

python tests/chaos/soak.py [--minutes 60] [--warm-up 5] [--every 3] [--models DIR] [--set NAME=VALUE]
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parents[1]  # run as a script
    sys.path[:1] = [str(here), str(here.parent)]

import numpy as np
from chaos.bot_process import BotHome, fork_bot
from chaos.offline_models import offline_models
from chaos.prepared_archive import OLD, make_expected_posts, prepare_archive
from chaos.user_load import ADMIN, Load, Rates
from driven_sandbox import DrivenSandbox

GOALS = {"memory_mb_per_hour": 8.0, "descriptors": 1.0, "p95_drift": 0.10}
_READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look. Memory in MB: what is in use of the bot's and its children's; `own` is what no file backs."""

    at: float  # seconds since the begin
    rss: float
    own: float
    descriptors: dict[int, int]  # by process


def sample_processes(pid, at):
    """Look at a running process and its children. Raises ProcessLookupError where it has ended."""
    if not _status(pid):
        raise ProcessLookupError(pid)
    family = [pid, *_descendants(pid)]
    rss, own = (sum(_status(one).get(name, 0) for one in family) / 1024 for name in ("VmRSS", "RssAnon"))
    return Sample(round(at, 2), round(rss, 2), round(own, 2), {one: _descriptors(one) for one in family})


def _status(pid):
    """The numbers of /proc/PID/status, memory in kB; empty where the process has ended."""
    found = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if value.split() and value.split()[0].isdecimal():
                found[name] = int(value.split()[0])
    return found


def _descendants(pid):
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (parent := _status(int(folder.name)).get("PPid")):
            parents.setdefault(parent, []).append(int(folder.name))
    found, left = [], [pid]
    while left:
        young = parents.get(left.pop(), [])
        found += young
        left += young
    return found


def _descriptors(pid):
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def slope(seconds, values, parts=20):
    """Theil and Sen's slope, per hour, with its interval of 95 % (Sen 1968): the median of the slopes of all pairs.

    Of parts of equal length the medians are taken: looks that follow each other are alike.
    """
    pieces = [np.array_split(np.asarray(row, float), min(len(seconds), parts)) for row in (seconds, values)]
    hours, amounts = (np.array([np.median(piece) for piece in row]) for row in pieces)
    first, second = np.triu_indices(n := len(hours), 1)
    slopes = np.sort((amounts[second] - amounts[first]) * 3600 / (hours[second] - hours[first]))
    apart = 1.96 * np.sqrt(n * (n - 1) * (2 * n + 5) / 18) / 2  # of the ranks
    ranks = np.clip((len(slopes) - 1) / 2 + np.array([0, -apart, apart]), 0, len(slopes) - 1).round().astype(int)
    found, least, most = slopes[ranks].round(2).tolist()
    return found, least, most


def growth(values):
    """By how much the least of the last third is above that of the first: what is kept is there at every look."""
    third = max(1, len(values) // 3)
    return float(min(values[-third:]) - min(values[:third]))


def drift(values, percentile=95):
    """By which share that percentile of the last third is above that of the first; 0.1 is ten in a hundred."""
    third = max(1, len(values) // 3)
    before, after = (float(np.percentile(part, percentile)) for part in (values[:third], values[-third:]))
    return after / before - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, of which how much is not judged, how often it is looked, posts there are before. Minutes, seconds.

    The warm-up lasts until all is posted. With `answers` it also lasts until so many came and an index was rebuilt, and
    the rest until as many came again: on a busy machine little may be done in some seconds.
    """

    minutes: float = 60.0
    warm_up: float = 5.0
    every: float = 3.0
    posts: int = 2000
    answers: int = 0
    seed: int = 1
    rates: Rates = field(default_factory=Rates)


_LEAST_JUDGED = 3  # samples: a slope needs two, and a busy machine may take as long for one as for all answers


async def run_soak(plan, folder, models, settings=None):
    """Run the bot, with further `settings`, under the load; what was done, and all samples.

    Raises RuntimeError where the bot ends.
    """
    sandbox = DrivenSandbox()
    load = Load(sandbox, plan.rates, plan.posts, plan.seed)
    await sandbox.start()
    more = {"BOT__ADMINS": str(ADMIN), "BOT__READER_LIMIT": "1000000"} | dict(settings or {})
    home = BotHome(folder, models, more)
    samples = []
    try:
        async with _bot(home, sandbox) as process:
            begun = time.monotonic()
            running = asyncio.create_task(load.run(lambda: _reindexed(home, sandbox)))
            enough = plan.answers
            while (
                (at := time.monotonic() - begun) < 60 * plan.minutes
                or load.done["ask"] < enough
                or not load.warm_s
                or sum(one.at >= load.warm_s for one in samples) < _LEAST_JUDGED
            ):
                if not load.warm_s and at >= 60 * plan.warm_up and load.is_warm(plan.answers):
                    load.warm_s, enough = at, load.done["ask"] + plan.answers
                if process.exitcode is not None or running.done():
                    raise RuntimeError(f"it ended by itself: see {home.log}")
                samples.append(await asyncio.to_thread(sample_processes, process.pid, at))
                await asyncio.sleep(plan.every)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    finally:
        await sandbox.stop()
    return load, samples


@asynccontextmanager
async def _bot(home, sandbox):
    process = fork_bot(home.environment(sandbox), home.log)
    await asyncio.to_thread(process.start)
    try:
        until = time.monotonic() + _READY_S
        while not any(line["method"].lower() == "getupdates" for line in sandbox.transcript):
            if process.exitcode is not None or time.monotonic() > until:
                raise RuntimeError(f"the bot does not start: see {home.log}")
            await asyncio.sleep(0.1)
        yield process
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


async def _reindexed(home, sandbox):
    nowhere = asyncio.subprocess.DEVNULL
    process = await home.start_command(sandbox, "-m", "bot.__main__", "reindex", stdout=nowhere, stderr=nowhere)
    try:
        await process.wait()
    finally:  # the load may end in the midst of it
        if process.returncode is None:
            process.kill()
            await process.wait()


def compute_figures(plan, load, samples, log=""):
    judged = [one for one in samples if one.at >= load.warm_s]
    at = [one.at for one in judged]
    waits = [took for asked, took in load.waits if asked >= load.warm_s]
    # A process that ends gives all back, as that of a rebuild does; its pipes are descriptors of the bot.
    lasting = set.intersection(*(set(one.descriptors) for one in judged))
    descriptors = [sum(one.descriptors[pid] for pid in lasting) for one in judged]
    return {
        "minutes": round((at[-1] - at[0]) / 60, 1),
        "samples": len(judged),
        "memory_mb_per_hour": slope(at, [one.rss for one in judged]),  # and its interval
        "own_mb_per_hour": slope(at, [one.own for one in judged]),
        "descriptors_growth": growth(descriptors),
        "questions": len(waits),
        "p50_s": round(float(np.percentile(waits, 50)), 3),
        "p95_s": round(float(np.percentile(waits, 95)), 3),
        "p50_drift": round(drift(waits, 50), 3),
        "p95_drift": round(drift(waits, 95), 3),
        "first_and_last_mb": [judged[0].rss, judged[-1].rss],
        "done": dict(load.done),
        "unanswered": load.unanswered[:20],
        "tracebacks": log.count("Traceback"),
    }


def judge(found):
    memory, least, most = found["memory_mb_per_hour"]
    grows = (
        f"memory grows by less than {GOALS['memory_mb_per_hour']:.0f} MB/h: {memory:+.2f} ({least:+.2f} to {most:+.2f})"
    )
    return {
        grows: memory < GOALS["memory_mb_per_hour"],
        f"no descriptor is kept: {found['descriptors_growth']:+.1f}": found["descriptors_growth"]
        < GOALS["descriptors"],
        f"p95 drifts by less than a tenth: {found['p95_drift']:+.1%}": found["p95_drift"] < GOALS["p95_drift"],
        f"every question is answered: {len(found['unanswered'])} were not": not found["unanswered"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Plan()
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="how long in all")
    parser.add_argument("--warm-up", type=float, help="minutes that are not judged (default: a twelfth, 2 at least)")
    parser.add_argument("--every", type=float, default=usual.every, help="seconds between two looks")
    parser.add_argument("--seed", type=int, default=usual.seed, help="the same seed, the same load")
    parser.add_argument("--models", metavar="DIR", help="where the offline model is; none: words alone")
    parser.add_argument("--think", type=float, default=usual.rates.think_s, help="seconds a reader thinks, on average")
    parser.add_argument("--pictures", type=float, default=0.0, help="seconds between two pictures to read; 0: none")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the bot")
    asked = parser.parse_args()
    warm_up = asked.warm_up if asked.warm_up is not None else max(2.0, asked.minutes / 12)
    rates, models = Rates(think_s=asked.think, picture_s=asked.pictures), offline_models(asked.models)
    plan = Plan(asked.minutes, warm_up, asked.every, seed=asked.seed, rates=rates)
    folder = Path(tempfile.mkdtemp(prefix="citegram-soak-"))
    prepare_archive(folder / "data", make_expected_posts(OLD, plan.posts, plan.seed))
    settings = dict(one.split("=", 1) for one in asked.set)
    load, samples = asyncio.run(run_soak(plan, folder, models, settings))
    (folder / "samples.json").write_text(json.dumps([asdict(one) for one in samples]), "utf-8")
    print(f"Samples, log and archive: {folder}")
    found = compute_figures(plan, load, samples, (folder / "bot.log").read_text("utf-8", "replace"))
    goals = judge(found)
    print(json.dumps(found, indent=2, ensure_ascii=False))
    print(*(f"{'met    ' if met else 'NOT MET'} {said}" for said, met in goals.items()), sep="\n")
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
