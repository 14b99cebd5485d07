"""The loaded model and what it is asked to do. Runs in the child process; knows llama_cpp alone."""

from __future__ import annotations

import codecs
import ctypes
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import llama_cpp
import numpy as np

__all__ = ["Native", "Refused", "Stopped"]

_EVERY_LAYER = 0x7FFFFFFF
_ABORTED, _FULL = 2, 1  # what llama_decode returns
_ERROR = 4  # of ggml's levels
_SPEED_PROMPT, _SPEED_REPLY, _SPEED_S = 256, 32, 10.0

Message = dict[str, Any]


def _log(level: int, text: bytes, _: object) -> None:
    """Errors of llama.cpp go to the log; the package's own filter takes them for details."""
    if level == _ERROR:
        os.write(2, text)


_LOG = llama_cpp.llama_log_callback(_log)  # llama.cpp calls it for as long as the program runs


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens both begin with."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


class Stopped(Exception):
    """It was told to stop."""


class Refused(Exception):
    """It cannot be done; `kind` names why, the text is for people."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class Native:
    """One model with one context, which keeps what it has read. One thread at a time."""

    def __init__(self, path: str, options: dict[str, int], parts: Mapping[str, Any]) -> None:
        """`parts` are the classes Words, Sampler and States. Raises Refused where the file cannot be used."""
        llama_cpp.llama_log_set(_LOG, None)
        llama_cpp.llama_backend_init()
        given = llama_cpp.llama_model_default_params()
        given.n_gpu_layers = _EVERY_LAYER if options["gpu_layers"] < 0 else options["gpu_layers"]
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), given)
        if not self._model:
            raise Refused("load", "llama.cpp cannot load it")
        learnt = llama_cpp.llama_model_n_ctx_train(self._model)
        about = llama_cpp.llama_context_default_params()
        about.n_ctx = min(options["context"], learnt) if learnt > 0 else options["context"]
        self._batch = about.n_batch = about.n_ubatch = min(options["batch"], about.n_ctx)
        self._threads = about.n_threads = about.n_threads_batch = options["threads"]
        about.n_seq_max, about.no_perf = 1, False
        if options["gpu_layers"] == 0:
            about.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._ctx = llama_cpp.llama_init_from_model(self._model, about)
        if not self._ctx:
            raise Refused("memory", "there is not enough memory for its context")
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        if not self._memory or not llama_cpp.llama_model_has_decoder(self._model):
            raise Refused("kind", "it is not a model that writes text")
        self.context: int = llama_cpp.llama_n_ctx(self._ctx)
        self._words, self._states = parts["Words"](self._model), parts["States"](self._ctx)
        self._sampler = parts["Sampler"]
        self._known: list[int] = []  # what the context holds
        # A C function that reads a buffer, so that asking whether to stop needs no Python and no lock of it.
        self._flag = ctypes.create_string_buffer(2)
        self._asks = ctypes.cast(ctypes.CDLL(None).strlen, llama_cpp.ggml_abort_callback)
        llama_cpp.llama_set_abort_callback(self._ctx, self._asks, ctypes.cast(self._flag, ctypes.c_void_p))

    def stop(self, yes: bool) -> None:
        """Whether to stop what runs; any thread may say so."""
        self._flag[0] = b"1" if yes else b"\0"

    @property
    def name(self) -> str:
        """What the file calls its model; "" where it says nothing."""
        room = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_meta_val_str(self._model, b"general.name", room, len(room))
        return room.value.decode("utf-8", "ignore")

    def _read(self, tokens: Sequence[int], told: Callable[[], None], beginning: int = 0) -> int:
        """Make the context hold these tokens, and tell how many were not in it; at least one is read anew.

        The first `beginning` ones will come again, maybe after something else.
        """
        kept = _common(self._known, tokens[:-1])
        if kept < beginning < len(tokens) and self._states.restore(tokens[:beginning]):
            self._known, kept = [*tokens[:beginning]], beginning
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, kept, -1):  # a model that cannot go back half-way
            llama_cpp.llama_memory_clear(self._memory, True)
            kept = 0
        del self._known[kept:]
        for end in (beginning, len(tokens)):
            for at in range(len(self._known), end, self._batch):
                self._decode(tokens[at : min(end, at + self._batch)])
                told()
            if len(self._known) == beginning:
                self._states.keep(self._known)
        return len(tokens) - kept

    def _decode(self, some: Sequence[int]) -> None:
        if self._flag.value:
            raise Stopped
        array = (llama_cpp.llama_token * len(some))(*some)
        code = llama_cpp.llama_decode(self._ctx, llama_cpp.llama_batch_get_one(array, len(some)))
        if code == 0:
            self._known += some
            return
        if llama_cpp.llama_model_is_recurrent(self._model) or llama_cpp.llama_model_is_hybrid(self._model):
            llama_cpp.llama_memory_clear(self._memory, True)  # nobody knows how far its state has gone
            self._known.clear()
        if code == _ABORTED:
            raise Stopped
        raise Refused("failed", "the context is full" if code == _FULL else f"llama_decode returned {code}")

    def _logits(self) -> Any:
        row = llama_cpp.llama_get_logits_ith(self._ctx, -1)
        logits = np.ctypeslib.as_array(row, shape=(self._words.size,))
        if np.isnan(logits).any():
            raise Refused("failed", "the model's numbers make no sense: its file is damaged, fetch it again")
        return logits

    def _beginning(self, tokens: Sequence[int], ask: Message) -> int:
        """How many of the tokens are those of the system's text and the shots: what any other question begins with."""
        return _common(tokens[:-1], self._words.prompt(ask["system"], ask["shots"], "", ""))

    def _fits(self, tokens: Sequence[int]) -> None:
        if len(tokens) >= self.context:
            raise Refused("long", f"{len(tokens)}")

    def generate(self, ask: Message, told: Callable[[], None]) -> Iterator[Message]:
        """Pieces of `text`, then why and with what figures it ended."""
        tokens: list[int] = self._words.prompt(ask["system"], ask["shots"], ask["ask"], ask["reply"])
        self._fits(tokens)
        try:
            sampler = self._sampler(self._words.vocab, self._words.size, ask["how"], ask["grammar"])
        except ValueError as exc:
            raise Refused("grammar", str(exc)) from exc
        try:
            evaluated = self._read(tokens, told, self._beginning(tokens, ask))
            yield from self._write(sampler, min(ask["how"]["max_tokens"], self.context - len(tokens)))
        except ValueError as exc:
            raise Refused("grammar", str(exc)) from exc
        finally:
            sampler.close()
        yield {"prompt_tokens": len(tokens), "evaluated": evaluated}

    def _write(self, sampler: Any, most: int) -> Iterator[Message]:
        text = codecs.getincrementaldecoder("utf-8")("ignore")  # half a character waits for its other half
        written, finish = 0, "length"
        while written < most:
            token = sampler.choose(self._logits())
            if self._words.ends(token):
                finish = "stop"
                break
            written += 1
            yield {"text": text.decode(self._words.piece(token))}
            if written < most:
                self._decode([token])
        else:
            if sampler.whole(self._words.ends):
                finish = "stop"
        yield {"finish": finish, "tokens": written}

    def odds(self, ask: Message, told: Callable[[], None]) -> Iterator[Message]:
        """Log P(yes) - log P(no), where the two words part."""
        either = [self._words.prompt(ask["system"], ask["shots"], ask["ask"], ask["reply"] + w) for w in ask["words"]]
        at = next((n for n, (yes, no) in enumerate(zip(*either, strict=False)) if yes != no), None)
        if not at:
            raise Refused("failed", "one of the two words begins with the other")
        self._fits(either[0][: at + 1])
        self._read(either[0][:at], told, self._beginning(either[0][:at], ask))
        logits = self._logits()
        odds = float(logits[either[0][at]]) - float(logits[either[1][at]])
        if not math.isfinite(odds):
            raise Refused("failed", "the model gives both words no chance")
        yield {"odds": odds}

    def count(self, ask: Message, told: Callable[[], None]) -> Iterator[Message]:
        """Tokens of each text."""
        yield {"counts": [len(self._words.tokens(text)) for text in ask["texts"]]}

    def speed(self, ask: Message, told: Callable[[], None]) -> Iterator[Message]:
        """Tokens per second, by llama.cpp's own clock, and what this build can use."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self._known.clear()
        some = [token % self._words.size for token in range(1, min(_SPEED_PROMPT, self.context // 2) + 1)]
        llama_cpp.llama_perf_context_reset(self._ctx)
        self._read(some, told)
        began = time.monotonic()
        for token in some[:_SPEED_REPLY]:
            self._logits()
            self._decode([token])
            if time.monotonic() - began > _SPEED_S:
                break
        self._logits()
        spent = llama_cpp.llama_perf_context(self._ctx)
        yield {
            "prefill": 1000 * spent.n_p_eval / max(spent.t_p_eval_ms, 1e-3),
            "decode": 1000 * spent.n_eval / max(spent.t_eval_ms, 1e-3),
            "gpu": bool(llama_cpp.llama_supports_gpu_offload()),
            "threads": self._threads,
            "parameters": llama_cpp.llama_model_n_params(self._model),
            "bytes": llama_cpp.llama_model_size(self._model),
            "build": " ".join(llama_cpp.llama_print_system_info().decode("utf-8", "replace").split()),
            "version": llama_cpp.__version__,
        }
