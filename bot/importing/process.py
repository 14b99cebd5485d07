"""The child process that reads an export, from outside: started, listened to, and ended whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

from bot.importing.refusal import Refusal

__all__ = ["child_lines"]

_LONGEST_S = 900.0
_LONGEST_LINE = 2**20  # bytes
_COMMAND = ("-m", "bot.confined", "bot.importing.child")


async def child_lines(order: Mapping[str, object]) -> AsyncGenerator[dict[str, Any], None]:
    """What the child says (child.py), line by line. Raises `Refusal` where its limits or our patience end it.

    To be closed (`aclosing`), which ends the child.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *_COMMAND,
        json.dumps(order),
        stdin=asyncio.subprocess.PIPE,  # closed when we die, which the child notices
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl+C is for the bot, which then ends the child
        limit=_LONGEST_LINE,
    )
    assert process.stdout is not None
    ends = asyncio.get_running_loop().time() + _LONGEST_S
    try:
        while raw := await _within(process.stdout.readline(), ends):
            yield json.loads(raw)
        if await _within(process.wait(), ends) < 0:
            raise Refusal("import-too-heavy")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _within(work: Any, ends: float) -> Any:
    try:
        async with asyncio.timeout_at(ends):
            return await work
    except TimeoutError:
        raise Refusal("import-too-long") from None
