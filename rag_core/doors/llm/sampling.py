"""How the next token is chosen, with or without a grammar. Runs in the child process; knows llama_cpp alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llama_cpp
import numpy as np

__all__ = ["Sampler"]

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_LAST_N = 64  # how far back a repetition is punished


class Sampler:
    """One generation's choices. Close it: it owns native memory."""

    def __init__(self, vocab: Any, size: int, how: dict[str, Any], grammar: str | None) -> None:
        """`how` are the fields of Decoding. Raises ValueError for a grammar that does not parse."""
        self._rows = np.zeros(size, _CANDIDATE)
        self._ids = np.arange(size, dtype=np.int32)
        self._grammar = self._chain = None
        if grammar is not None:
            # Used without this check, a grammar that does not parse ends the process.
            self._grammar = llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode("utf-8", "replace"), b"root")
            if not grammar.strip() or not self._grammar:  # an empty one is taken for none
                self.close()
                raise ValueError("the grammar does not parse")
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        for one in _steps(how, size):
            llama_cpp.llama_sampler_chain_add(self._chain, one)

    def choose(self, logits: Any) -> int:
        """The next token. Raises ValueError when the grammar allows none.

        The grammar is asked about the one token that was chosen without it; only when it refuses that one are all
        tokens held against it, which costs 15 to 45 ms with a vocabulary of 150,000.
        """
        token = self._picked(self._filled(logits))
        if self._grammar is not None and not self.allows(token):
            every = self._filled(logits)
            llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(every))
            if not np.isfinite(self._rows["logit"]).any():
                raise ValueError("the grammar leads nowhere with this model's vocabulary")
            token = self._picked(every)
        for one in (self._grammar, self._chain):
            if one is not None:
                llama_cpp.llama_sampler_accept(one, token)
        return token

    def allows(self, token: int) -> bool:
        """Whether the grammar allows this token next."""
        row = np.array([(token, 1.0, 0.0)], _CANDIDATE)
        array = _array(row)
        llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(array))
        return bool(np.isfinite(row["logit"][0]))

    def whole(self, ends: Callable[[int], bool]) -> bool:
        """Whether the grammar allows nothing but an end: what was written is a whole sentence of it."""
        if self._grammar is None:
            return False
        every = self._filled(1.0)
        llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(every))
        return all(ends(int(token)) for token in self._rows["id"][np.isfinite(self._rows["logit"])])

    def _filled(self, logits: Any) -> Any:
        self._rows["id"], self._rows["logit"], self._rows["p"] = self._ids, logits, 0.0
        return _array(self._rows)

    def _picked(self, array: Any) -> int:
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    def close(self) -> None:
        """Give the memory back."""
        for one in (self._grammar, self._chain):
            if one:
                llama_cpp.llama_sampler_free(one)
        self._grammar = self._chain = None


def _array(rows: Any) -> Any:
    data = rows.ctypes.data_as(llama_cpp.llama_token_data_p)
    return llama_cpp.llama_token_data_array(data=data, size=len(rows), selected=-1, sorted=False)


def _steps(how: dict[str, Any], size: int) -> list[Any]:
    steps = []
    if how["repeat_penalty"] != 1.0:
        steps.append(llama_cpp.llama_sampler_init_penalties(size, _LAST_N, how["repeat_penalty"], 0.0, 0.0))
    if how["temperature"] <= 0:
        return [*steps, llama_cpp.llama_sampler_init_greedy()]
    return [
        *steps,
        llama_cpp.llama_sampler_init_top_k(how["top_k"]),
        llama_cpp.llama_sampler_init_top_p(how["top_p"], 1),
        llama_cpp.llama_sampler_init_temp(how["temperature"]),
        llama_cpp.llama_sampler_init_dist(how["seed"]),
    ]
