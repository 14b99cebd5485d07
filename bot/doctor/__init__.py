"""Check runner of `citegram doctor`: one module of checks for each area, each check with its own timeout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bot.control.schemas import IndexFacts
from bot.logs import collect_secrets
from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.storage import Archive

log = logging.getLogger(__name__)


class Finding(NamedTuple):
    """One line of the report; `fine` is None for a neutral finding."""

    fine: bool | None
    what: str


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Subject of the checks. `archive` and `facts` are None if unavailable; `runs`: a bot holds the folder.

    `start`: what was found when they were opened.
    """

    settings: Settings
    env_file: Path = Path(".env")
    archive: Archive | None = None
    facts: IndexFacts | None = None
    runs: bool = False
    start: tuple[Finding, ...] = ()


class Check(NamedTuple):
    """A check: its name, its timeout in seconds, and its function."""

    name: str
    seconds: float
    look: Callable[[CheckContext], AsyncIterator[Finding]]


async def run_checks(case: CheckContext, checks: Sequence[Check]) -> AsyncIterator[tuple[str, Finding]]:
    """Run the checks and yield (name of the check, finding); secrets are masked."""
    for check in checks:
        findings: list[Finding] = []
        failure = ""
        try:
            async with asyncio.timeout(check.seconds):
                async for finding in check.look(case):
                    findings.append(finding)
        except TimeoutError:
            failure = (
                f"The check of {check.name} was given up after {check.seconds:g} s: look whether the disk and the "
                "servers it asks answer."
            )
        except RagError as exc:
            failure = exc.reason
        except Exception as exc:  # whatever the error, the other checks go on
            log.info("the check of %s failed", check.name, exc_info=True)
            kind = type(exc).__name__
            failure = f"The check of {check.name} failed ({kind}): run citegram -v doctor, and report what it says."
        findings += [Finding(False, failure)] if failure else []
        for fine, what in findings:
            for secret in collect_secrets(case.settings):
                what = what.replace(secret, "…")
            yield check.name, Finding(fine, what)
