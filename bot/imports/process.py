"""Import process launcher: run a module with limited memory, CPU time and priority, and read its output.

For data that strangers wrote: `python -m bot.imports.process MODULE ARGUMENTS...` sets the limits before the module is
loaded, and it cannot lift them. The child process is always ended, also when its limits or the timeout are reached.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import runpy
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Any

from bot.imports.unpack import DocumentRefused

__all__ = ["MAX_CPU_SECONDS", "MAX_MEMORY_BYTES", "limit_process", "read_child_messages"]

MAX_MEMORY_BYTES = 2**30  # of address space; an import needs a fifth of it
MAX_CPU_SECONDS = 300  # an export of 500 MB needs a quarter of it on a small machine
_NICENESS = 10  # the bot keeps answering meanwhile


def limit_process() -> None:
    """Limit memory, CPU time, core files and priority of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold posts
    os.nice(_NICENESS)
    # numpy reserves memory for every processor core, and an import does not compute with it.
    os.putenv("OPENBLAS_NUM_THREADS", "1")


_MAX_SECONDS = 900.0
_MAX_LINE_BYTES = 2**20
_CHILD_ARGUMENTS = ("-m", "bot.imports.process", "bot.imports.child")


async def read_child_messages(order: Mapping[str, object]) -> AsyncGenerator[dict[str, Any], None]:
    """Run the import child and yield its messages, line by line (format: child.py).

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


if __name__ == "__main__":
    limit_process()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
