"""Beginnings of prompts that the model has read, kept beside its context. Runs in the child process.

A planner, a writer and a judge take turns with one context, each with a beginning of its own. To read that again
takes seconds each time, to put its state back milliseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp

__all__ = ["States"]

_MOST, _MOST_BYTES = 4, 1 << 29
_WORTH = 64  # tokens; fewer are read again faster than they are found


class States:
    """The states of a few beginnings, those last used."""

    def __init__(self, ctx: Any) -> None:
        """`ctx` is llama.cpp's context."""
        self._ctx = ctx
        self._kept: dict[tuple[int, ...], Any] = {}  # the first was not used for longest

    def keep(self, tokens: Sequence[int]) -> None:
        """The context holds exactly these tokens: remember its state."""
        if len(tokens) < _WORTH or tuple(tokens) in self._kept:
            return
        size = llama_cpp.llama_state_seq_get_size(self._ctx, 0)
        if size > _MOST_BYTES:
            return
        state = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._ctx, state, size, 0) != size:
            return
        self._kept[tuple(tokens)] = state
        while len(self._kept) > _MOST or sum(map(len, self._kept.values())) > _MOST_BYTES:
            del self._kept[next(iter(self._kept))]

    def restore(self, tokens: Sequence[int]) -> bool:
        """Bring the context back to where it held exactly these tokens, if that is remembered."""
        state = self._kept.pop(tuple(tokens), None)
        if state is None:
            return False
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._ctx), True)
        if not llama_cpp.llama_state_seq_set_data(self._ctx, state, len(state), 0):
            llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._ctx), True)
            return False
        self._kept[tuple(tokens)] = state
        return True
