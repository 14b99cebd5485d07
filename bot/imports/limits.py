"""Process limits: run a module with limited memory, CPU time and priority, for data that strangers wrote.

`python -m bot.imports.limits MODULE ARGUMENTS...`. Limits are set before the module is loaded; it cannot lift them.
"""

from __future__ import annotations

import os
import resource
import runpy
import sys

__all__ = ["MAX_CPU_SECONDS", "MAX_MEMORY_BYTES", "limit_process"]

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


if __name__ == "__main__":
    limit_process()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
