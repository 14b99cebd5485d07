"""`citegram doctor`: what is set, what is there, what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator
from typing import Any

from bot.doctor.admission import admitted
from bot.doctor.contradictions import settings as contradictions
from bot.doctor.findings import Case, Check, Finding, examined, hidden
from bot.doctor.holdings import archive, backups, work
from bot.doctor.indexes import indexes
from bot.doctor.models import models
from bot.doctor.place import access, ground, room
from bot.doctor.rights import rights
from bot.doctor.servers import servers
from bot.doctor.telegram import clock, telegram
from bot.settings import Settings

__all__ = ["CHECKS", "declare", "run"]

_MARKS = {True: "ok  ", None: "    ", False: "BAD "}

# In the order of the report, each with the seconds it may take: what reads whole files takes longer.
CHECKS = (
    Check("disk", 10, room),
    Check("file system", 10, ground),
    Check("permissions", 10, access),
    Check("settings", 10, contradictions),
    Check("archive", 20, archive),
    Check("backups", 60, backups),
    Check("indexes", 20, indexes),
    Check("models", 60, models),
    Check("work", 10, work),
    Check("telegram", 30, telegram),
    Check("clock", 10, clock),
    Check("rights", 60, rights),
    Check("servers", 10, servers),
)


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("doctor", help="check everything, and say what to do; 1 where something must be done")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of sentences")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Check and print. Returns 1 where something must be done."""
    as_json = getattr(args, "json", False)
    found: list[dict[str, object]] = []
    async for name, (fine, what) in _report(settings):
        found.append({"check": name, "fine": fine, "what": what})
        if not as_json:
            print(_MARKS[fine], what, flush=True)
    well = all(finding["fine"] is not False for finding in found)
    if as_json:
        print(json.dumps({"fine": well, "findings": found}, ensure_ascii=False))
    return 0 if well else 1


async def _report(settings: Settings) -> AsyncIterator[tuple[str, Finding]]:
    async with admitted(Case(settings)) as (case, first):
        for fine, what in first:
            yield "start", Finding(fine, hidden(what, settings))
        async for named in examined(case, CHECKS):
            yield named
