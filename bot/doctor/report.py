"""Check runner: run all checks, each with its own timeout; a failed check does not stop the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bot.control.facts import IndexFacts
from bot.logs import collect_secrets
from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.storage import Archive

__all__ = ["Check", "CheckContext", "Finding", "hide_secrets", "run_checks"]

_TIMEOUT_TEXT = (
    "The check of {name} was given up after {seconds:g} s: look whether the disk and the servers it asks answer."
)
_FAILED_TEXT = "The check of {name} failed ({kind}): run citegram -v doctor, and report what it says."

log = logging.getLogger(__name__)


class Finding(NamedTuple):
    """One line of the report; `fine` None is neither good nor bad."""

    fine: bool | None
    what: str


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is looked at. `archive` and `facts` are None where they could not be had; `runs`: a bot has the folder."""

    settings: Settings
    env_file: Path = Path(".env")
    archive: Archive | None = None
    facts: IndexFacts | None = None
    runs: bool = False


class Check(NamedTuple):
    """A check: what it is called, how many seconds it may take, and what looks."""

    name: str
    seconds: float
    look: Callable[[CheckContext], AsyncIterator[Finding]]


async def run_checks(case: CheckContext, checks: Sequence[Check]) -> AsyncIterator[tuple[str, Finding]]:
    """Everything that is found, with the name of its check; nothing of it holds a secret."""
    for check in checks:
        for fine, what in await _run_check(case, check):
            yield check.name, Finding(fine, hide_secrets(what, case.settings))


async def _run_check(case: CheckContext, check: Check) -> list[Finding]:
    found: list[Finding] = []
    try:
        async with asyncio.timeout(check.seconds):
            async for finding in check.look(case):
                found.append(finding)
    except TimeoutError:
        found.append(Finding(False, _TIMEOUT_TEXT.format(name=check.name, seconds=check.seconds)))
    except RagError as exc:
        found.append(Finding(False, exc.reason))
    except Exception as exc:  # whatever it is, the other checks go on
        log.info("the check of %s failed", check.name, exc_info=True)
        found.append(Finding(False, _FAILED_TEXT.format(name=check.name, kind=type(exc).__name__)))
    return found


def hide_secrets(what: str, settings: Settings) -> str:
    """The same text without any secret of the settings in it."""
    for secret in collect_secrets(settings):
        what = what.replace(secret, "…")
    return what
