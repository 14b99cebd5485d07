"""Run a module with little memory, little time and low priority: for what strangers wrote.

`python -m bot.confined MODULE ARGUMENTS...`. Limits are set before the module is read; it cannot lift them.
"""

from __future__ import annotations

import os
import resource
import runpy
import sys

__all__ = ["BYTES", "CPU_S", "confine"]

BYTES = 2**30  # of address space; an import needs a fifth of it
CPU_S = 300  # an export of 500 MB needs a quarter of it on a small machine
_NICE = 10  # the bot answers meanwhile


def confine() -> None:
    """Limit this process."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold posts
    os.nice(_NICE)
    # numpy reserves memory for every processor core, and an import computes nothing.
    os.putenv("OPENBLAS_NUM_THREADS", "1")


if __name__ == "__main__":
    confine()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
