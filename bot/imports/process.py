"""Import process launcher: run a module with limited memory, CPU time and priority, and read its output.

For data that strangers wrote. The limits are set before the module is loaded, and it cannot lift them. The child
process is always ended, also when its limits or the timeout are reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

from bot.imports.unpack import DocumentRefused

__all__ = ["read_child_messages"]

_MAX_SECONDS = 900.0
_MAX_LINE_BYTES = 2**20
_CHILD_ARGUMENTS = ("-m", "bot.imports.limits", "bot.imports.child")


async def read_child_messages(order: Mapping[str, object]) -> AsyncGenerator[dict[str, Any], None]:
    """Run the import child and yield its messages, line by line (format: worker.py).

    Close it with `aclosing`, which ends the child. Raises DocumentRefused if the limits or the timeout end the child.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *_CHILD_ARGUMENTS,
        json.dumps(order),
        stdin=asyncio.subprocess.PIPE,  # closed when this process dies, which the child notices
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl+C goes to the bot, which then ends the child
        limit=_MAX_LINE_BYTES,
    )
    assert process.stdout is not None
    ends = asyncio.get_running_loop().time() + _MAX_SECONDS
    try:
        while raw := await _wait_until(process.stdout.readline(), ends):
            yield json.loads(raw)
        if await _wait_until(process.wait(), ends) < 0:
            raise DocumentRefused("import-too-heavy")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _wait_until(work: Any, ends: float) -> Any:
    try:
        async with asyncio.timeout_at(ends):
            return await work
    except TimeoutError:
        raise DocumentRefused("import-too-long") from None
