"""A slow disk and a clock that jumps, for real processes: a small library that is compiled here and preloaded.

Root could slow a device or set the machine's clock; this does it to the bot alone, and needs a C compiler only.
"""

import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
_NUMBERS = struct.Struct("=qqq")


class FaultInjection:
    """Two clocks, in seconds off the right time, and what every fsync takes more, in seconds.

    `wall` is the time of day, `slept` the clock that counts a machine's sleep. `lacking` says why there is none.
    """

    def __init__(self, folder):
        self.lacking = ""
        self._file, self._library = folder / "weather", folder / "weather.so"
        self._file.write_bytes(bytes(_NUMBERS.size))
        with self._file.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _NUMBERS.size)
        compiler = shutil.which("cc")
        if sys.platform != "linux" or compiler is None:
            self.lacking = "a clock and a disk of its own need Linux and a C compiler"
            return
        words = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE)]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        if made.returncode:
            self.lacking = f"cc failed: {made.stderr.strip().splitlines()[-1]}"

    def begin(self):
        """Have the processes that are started from now on live in it."""
        if not self.lacking:
            os.environ |= {"LD_PRELOAD": str(self._library), "CHAOS_WEATHER": str(self._file)}

    def set(self, *, wall=0, slept=0, sync=0.0):
        """Change it at once, for all; without a word all is as usual."""
        self._shared[:] = _NUMBERS.pack(wall, slept, int(sync * 1e6))
