"""Many readers ask the sample channels at the same moment: how long they wait, and is each answered.

python tests/chaos/readers_at_once.py [--readers 100] [--busy 10] [--models DIR] [--set NAME=VALUE]

Each has a question of his own. The bot has been up for half a minute (--up). With --busy so many processes keep the
cores busy from its start on. Waits are longer on a shared machine, the processor time of the bot for each question
hardly; it is measured where there is /proc.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).parents[1]  # run as a script
    sys.path[:1] = [str(here), str(here.parent)]

import numpy as np
from chaos.bot_process import BotHome, BotProcess, start_fork_server
from chaos.offline_models import offline_models
from driven_sandbox import DrivenSandbox

from bot.cli.demo import SAMPLE_CHANNELS_FOLDER, import_sample_channels
from rag_core.storage import Archive

_PATIENCE_S = 300.0
_FIRST_READER = 10_000


def read_questions(count):
    """So many questions over the sample channels, each with its language; asked once more in other words if need be."""
    rows = [json.loads(line) for line in (SAMPLE_CHANNELS_FOLDER / "questions.jsonl").read_text("utf-8").splitlines()]
    again = {"en": "Please tell me: {}", "ru": "Подскажите, {}"}
    texts = [(row["text"], row["lang"]) for row in rows]
    return (texts + [(again[lang].format(text), lang) for text, lang in texts])[:count]


@contextmanager
def busy_processes(count):
    some = [multiprocessing.get_context("spawn").Process(target=_compute, daemon=True) for _ in range(count)]
    for one in some:
        one.start()
    try:
        yield
    finally:
        for one in some:
            one.kill()


def _compute():
    while True:
        sum(range(10_000))


def measure_processor_s(group):
    """Processor time of the living processes of a group, in seconds; 0 without /proc."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            ticks += (int(fields[2]) == group) * sum(map(int, fields[11:13]))  # of user and system
    return ticks / os.sysconf("SC_CLK_TCK")


async def ask_at_once(home, readers, up):
    """Seconds until each reader had an answer (None: none came), and its text; the bot's processor time; its calls.

    `up`: seconds of the bot before.
    """
    await start_fork_server()
    archive = await Archive.open(home.data)
    sample = await import_sample_channels(archive)
    await archive.close()
    sandbox = DrivenSandbox()
    questions = read_questions(readers)
    for channel in sample:
        sandbox.world.add_channel(channel.chat_id, channel.title, channel.username)
    for n, (_, lang) in enumerate(questions):
        sandbox.world.add_person(_FIRST_READER + n, "R", lang=lang).started = True
    await sandbox.start()
    bot = BotProcess(home, sandbox)
    try:
        await bot.begin()
        await bot.ready()
        await sandbox.until(lambda: not home.has_unembedded(), 1800)
        await asyncio.sleep(up)
        before, called = measure_processor_s(bot.pid), len(sandbox.transcript)
        asking = (_ask(sandbox, _FIRST_READER + n, text) for n, (text, _) in enumerate(questions))
        found = await asyncio.gather(*asking)
        calls = Counter(line["method"] for line in sandbox.transcript[called:])
        return found, measure_processor_s(bot.pid) - before, calls
    finally:
        await bot.killed(engine=True)
        await sandbox.stop()


async def _ask(sandbox, reader, text):
    sent, asked = sandbox.world.sent.setdefault(reader, []), time.monotonic()
    await sandbox.say(reader, text)
    if not await sandbox.until(lambda: sent, _PATIENCE_S):
        return None, ""
    return time.monotonic() - asked, sandbox.world.room(reader).messages[sent[-1]].get("text", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--up", type=float, default=30.0, help="seconds of the bot before that")
    parser.add_argument("--busy", type=int, default=0, help="processes beside it that keep the cores busy")
    parser.add_argument("--models", metavar="DIR", help="where the models are; none: words alone")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the bot")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="where the answers are written, to be read")
    asked = parser.parse_args()
    settings = dict(one.split("=", 1) for one in asked.set)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, busy_processes(asked.busy):
        home = BotHome(Path(name), offline_models(asked.models), settings)
        found, processor_s, calls = asyncio.run(ask_at_once(home, asked.readers, asked.up))
        log = home.log.read_text("utf-8", "replace")
    waits = [took for took, _ in found if took is not None]
    figures = {
        "readers": len(found),
        "answered": len(waits),
        "median_s": round(float(np.median(waits)), 1) if waits else None,
        "last_s": round(max(waits), 1) if waits else None,
        "processor_ms_each": round(1000 * processor_s / len(found)),
        "calls_each": {method: round(count / len(found), 1) for method, count in calls.most_common(4)},
        "tracebacks": log.count("Traceback"),
        "warnings": log.count("WARNING"),
    }
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    warnings = [line for line in log.splitlines() if "WARNING" in line]
    print(*warnings[:3], sep="\n", end="\n" * bool(warnings), file=sys.stderr)
    if asked.texts:
        asked.texts.write_text("\n\n".join(text for _, text in found), "utf-8")
    return 0 if len(waits) == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
