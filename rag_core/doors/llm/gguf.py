"""What can be said of a GGUF before it is loaded, and what is said when it cannot be."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rag_core.errors import ModelUnavailable

__all__ = ["check_file", "check_memory", "free_memory", "why_not"]

_MAGIC = b"GGUF"
_SMALLEST = 24  # bytes: magic, version, two counts
_GB = 1e9
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def check_file(path: Path) -> None:
    """Raises ModelUnavailable where this is no GGUF that can be read."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except IsADirectoryError:
        raise ModelUnavailable(f"{path} is a folder: give the path of the .gguf file in it.") from None
    except FileNotFoundError:
        raise ModelUnavailable(f"There is no model at {path}: check the path, or pull one.") from None
    except OSError as exc:
        raise ModelUnavailable(f"The model {path} cannot be read: {exc.strerror}.") from exc
    if size < _SMALLEST or magic != _MAGIC:
        raise ModelUnavailable(f"{path} is not a GGUF model, or only the beginning of one: fetch it again.")


def free_memory() -> int | None:
    """Bytes that may be taken; None where nobody says. In a container its limit counts too."""
    found = []
    with suppress(OSError, ValueError):
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    with suppress(OSError, ValueError):
        found.append(int(_CGROUP.read_text()))
    return min(found, default=None)


def check_memory(path: Path, free: int | None) -> None:
    """Raises ModelUnavailable where the file is larger than the memory that is free."""
    size = path.stat().st_size
    if free is not None and size > free:
        raise ModelUnavailable(
            f"The model {path.name} needs {size / _GB:.1f} GB of memory and {free / _GB:.1f} GB are free: "
            "choose a smaller one, or put layers on a GPU with LLM__GPU_LAYERS."
        )


def why_not(path: Path, kind: str, said: str) -> str:
    """The sentence for a model that llama.cpp would not load; `said` are its own words."""
    said = said.removeprefix("llama_model_load: error loading model: ")
    if kind == "missing":
        return f"llama.cpp is not installed ({said}): pip install 'citegram[local]'."
    if kind == "kind":
        return f"{path.name} is not a model that writes text: choose an instruct model."
    if "unknown model architecture" in said:
        return f"{path.name} needs a newer llama.cpp ({said}): pip install -U 'citegram[local]', or choose another."
    if kind == "memory":
        return f"There is not enough memory for {path.name}: choose a smaller model, or lower LLM__CONTEXT."
    return f"{path.name} cannot be loaded, it may be damaged ({said}): fetch it again, or choose another."
