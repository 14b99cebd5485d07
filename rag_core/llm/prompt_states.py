"""Prompt states: states of llama.cpp's context after prefixes of prompts, in memory and in files beside the model.

A planner, a writer and a judge share one context, each with its own prefix. Evaluating a prefix again takes seconds,
restoring its state milliseconds. Only prefixes without readers' or channels' texts are written to files.

Loaded only in the LLM worker process; it imports nothing of Citegram.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp

_MIN_TOKENS = 64  # fewer tokens are evaluated faster than their state is restored
_MAX_STATES, _MAX_FILES = 4, 12
_MAX_BYTES = 1 << 29  # of the states in memory together, and of the files together
_MAX_HEADER_BYTES = 1 << 20
_FILES = "prefix-*.state"

Tokens = tuple[int, ...]


class PromptStates:
    """LRU cache of the context's states after a few prefixes; those of `store` are kept in files as well.

    A file is a line of JSON (`made_by`, `tokens`, `bytes`, `sha256`), then the state. Files that are damaged, or made
    by another model, llama.cpp or context, are deleted.
    """

    def __init__(self, ctx: Any, folder: str = "", made_by: str = "") -> None:
        """`ctx` is llama.cpp's context; without a `folder` nothing is written."""
        self._ctx, self._folder, self._made_by = ctx, Path(folder) if folder else None, made_by
        self._kept: dict[Tokens, Any] = {}  # least recently used first
        self._files = self._list_files()

    def find(self, tokens: Sequence[int]) -> Tokens:
        """Longest prefix of these tokens that has a state; empty without one."""
        start = tuple(tokens)
        return max((key for key in {*self._kept, *self._files} if start[: len(key)] == key), key=len, default=())

    def keep(self, tokens: Sequence[int]) -> None:
        """Keep the state of the context, which holds exactly these tokens; shorter prefixes of them are dropped."""
        key = tuple(tokens)
        if len(key) < _MIN_TOKENS or key in self._kept:
            return
        size = llama_cpp.llama_state_seq_get_size(self._ctx, 0)
        if size > _MAX_BYTES:
            return
        state = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._ctx, state, size, 0) == size:
            self._add(key, state)

    def _add(self, key: Tokens, state: Any) -> None:
        self._kept = {other: kept for other, kept in self._kept.items() if key[: len(other)] != other}
        self._kept[key] = state
        while len(self._kept) > _MAX_STATES or sum(map(len, self._kept.values())) > _MAX_BYTES:
            del self._kept[next(iter(self._kept))]

    def restore(self, tokens: Sequence[int]) -> bool:
        """Restore the state in which the context held exactly these tokens; False where there is none."""
        key = tuple(tokens)
        state = self._kept[key] if key in self._kept else self._read_file(key)
        if state is None:
            return False
        memory = llama_cpp.llama_get_memory(self._ctx)
        llama_cpp.llama_memory_clear(memory, True)
        if not llama_cpp.llama_state_seq_set_data(self._ctx, state, len(state), 0):
            llama_cpp.llama_memory_clear(memory, True)
            self._kept.pop(key, None)
            self._delete_file(key)
            return False
        self._add(key, state)
        return True

    def is_stored(self, tokens: Sequence[int]) -> bool:
        """Whether a file holds the state after these tokens, or nothing is to be written for them."""
        return self._folder is None or len(tokens) < _MIN_TOKENS or tuple(tokens) in self._files

    def store(self, tokens: Sequence[int]) -> None:
        """Write the kept state after these tokens to a file; a disk that takes nothing is no error."""
        key = tuple(tokens)
        if self._folder is None or (state := self._kept.get(key)) is None:
            return
        sha256 = hashlib.sha256(state).hexdigest()
        header = {"made_by": self._made_by, "tokens": key, "bytes": len(state), "sha256": sha256}
        name = hashlib.sha256(f"{self._made_by} {key}".encode()).hexdigest()[:16]
        path = self._folder / f"prefix-{name}.state"
        unfinished = path.with_suffix(f".{os.getpid()}~")
        try:
            with unfinished.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.write(state)
            unfinished.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            return
        self._files[key] = path
        self._limit_files()

    def _list_files(self) -> dict[Tokens, Path]:
        """Files of this model by their tokens, the oldest first; others are deleted."""
        found: dict[Tokens, Path] = {}
        self._files = found
        paths = [path for path in self._folder.glob(_FILES) if not path.is_symlink()] if self._folder else []
        for path in sorted(paths, key=lambda path: path.lstat().st_mtime_ns):
            header = self._read_header(path)
            if header is None:
                with contextlib.suppress(OSError):
                    path.unlink()
            else:
                found[tuple(header["tokens"])] = path
        self._limit_files()
        return found

    def _limit_files(self) -> None:
        while self._files and (
            len(self._files) > _MAX_FILES or sum(path.stat().st_size for path in self._files.values()) > _MAX_BYTES
        ):
            self._delete_file(next(iter(self._files)))

    def _delete_file(self, key: Tokens) -> None:
        if path := self._files.pop(key, None):
            with contextlib.suppress(OSError):
                path.unlink()

    def _read_header(self, path: Path) -> dict[str, Any] | None:
        """Header of a whole file of this model, llama.cpp and context."""
        try:
            with path.open("rb") as file:
                line = file.readline(_MAX_HEADER_BYTES)
                header: dict[str, Any] = json.loads(line)
                whole = path.stat().st_size == len(line) + header["bytes"] <= _MAX_BYTES
            return header if whole and header["made_by"] == self._made_by and len(header["tokens"]) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _read_file(self, key: Tokens) -> Any:
        """State from the file of these tokens; None without a sound one. llama.cpp may crash on a damaged state."""
        path = self._files.get(key)
        if path is None:
            return None
        with contextlib.suppress(OSError):
            header, (_, _, raw) = self._read_header(path), path.read_bytes().partition(b"\n")
            if header and tuple(header["tokens"]) == key and hashlib.sha256(raw).hexdigest() == header["sha256"]:
                return (ctypes.c_uint8 * len(raw)).from_buffer_copy(raw)
        self._delete_file(key)
        return None
