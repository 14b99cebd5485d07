"""LLM worker process: the program that owns a GGUF model, with its tokenizer, sampler and cache of prompt states.

Three ordinary mistakes crash llama.cpp's process, a damaged file may too, and a busy Python thread in the same process
makes it 5 to 12 times slower. So it runs in a process of its own, which imports as little as it can.

A request has a method name in `do`; `{"stop": true}` stops the one that runs. The last reply of a request has `over`;
only then the next request comes.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import hashlib
import json
import math
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from rag_core.processes import Message, open_parent_pipes, read_message, write_message

try:
    import llama_cpp
    import numpy as np
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter
except ImportError as exc:
    if __name__ != "__main__":
        raise
    write_message(open_parent_pipes()[1], {"refused": "missing", "said": str(exc)})
    sys.exit()

_MIN_TOKENS = 64  # fewer tokens are evaluated faster than their state is restored
_MAX_STATES, _MAX_FILES = 4, 12
_MAX_BYTES = 1 << 29  # of the states in memory together, and of the files together
_MAX_HEADER_BYTES = 1 << 20

Tokens = tuple[int, ...]


class PromptStates:
    """LRU cache of the context's states after a few prefixes; those of `store` are kept in files as well.

    A planner, a writer and a judge share one context, each with its own prefix. Evaluating a prefix again takes
    seconds, restoring its state milliseconds. Only prefixes without readers' or channels' texts are written to files:
    a line of JSON (`made_by`, `tokens`, `bytes`, `sha256`), then the state. Files that are damaged, or made by another
    model, llama.cpp or context, are deleted.
    """

    def __init__(self, ctx: Any, folder: str, made_by: str) -> None:
        """`ctx` is llama.cpp's context; without a `folder` nothing is written."""
        self._ctx, self._folder, self._made_by = ctx, Path(folder) if folder else None, made_by
        self._kept: dict[Tokens, Any] = {}  # least recently used first
        self._files: dict[Tokens, Path] = {}  # the oldest first
        paths = [path for path in self._folder.glob("prefix-*.state") if not path.is_symlink()] if self._folder else []
        for path in sorted(paths, key=lambda path: path.lstat().st_mtime_ns):
            if header := self._read_header(path):
                self._files[tuple(header["tokens"])] = path
            else:
                _delete_file(path)
        self._limit_files()

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
        """Restore the state in which the context held exactly these tokens; False where there is no sound one.

        llama.cpp may crash on a damaged state: a file is compared with its checksum first.
        """
        key = tuple(tokens)
        state = self._kept.get(key)
        if state is None and (path := self._files.get(key)):
            with contextlib.suppress(OSError):
                header, (_, _, raw) = self._read_header(path), path.read_bytes().partition(b"\n")
                if header and tuple(header["tokens"]) == key and hashlib.sha256(raw).hexdigest() == header["sha256"]:
                    state = (ctypes.c_uint8 * len(raw)).from_buffer_copy(raw)
        if state is None:
            self._drop_file(key)
            return False
        memory = llama_cpp.llama_get_memory(self._ctx)
        llama_cpp.llama_memory_clear(memory, True)
        if not llama_cpp.llama_state_seq_set_data(self._ctx, state, len(state), 0):
            llama_cpp.llama_memory_clear(memory, True)
            self._kept.pop(key, None)
            self._drop_file(key)
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
            _delete_file(unfinished)
            return
        self._files[key] = path
        self._limit_files()

    def _limit_files(self) -> None:
        while len(self._files) > _MAX_FILES or sum(path.stat().st_size for path in self._files.values()) > _MAX_BYTES:
            self._drop_file(next(iter(self._files)))

    def _drop_file(self, key: Tokens) -> None:
        if path := self._files.pop(key, None):
            _delete_file(path)

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


def _delete_file(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


# Used where a model's own template is missing or unusable. The second is for models without roles.
_CHATML_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
_PLAIN_TEMPLATE = (
    "{% for m in messages %}{{ {'user': 'Question: ', 'assistant': 'Answer: '}.get(m.role, '') }}{{ m.content }}\n\n"
    "{% endfor %}Answer:"
)
# Placeholder in the rendered template for the text of this number: only letters, which no template filter changes.
_PLACEHOLDER = "CITEGRAMTEXT{}END"
_PLACEHOLDER_PATTERN = re.compile(r"CITEGRAMTEXT(\d+)END")
_ADDED_TOKEN = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_SPECIAL_TOKEN = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN | _ADDED_TOKEN
_MARKUP_PATTERN = re.compile(r"[<\[{|].+[>\]}|]", re.DOTALL)

TemplatePart = int | str | tuple[int]  # a control token, text of the template, or the number of a content


class ChatTokenizer:
    """Tokenizer with the model's chat template."""

    def __init__(self, model: Any) -> None:
        """`model` is llama.cpp's model."""
        self.vocab = llama_cpp.llama_model_get_vocab(model)
        self.size: int = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self._bos = llama_cpp.llama_vocab_bos(self.vocab)
        self._specials: dict[str, int] = {}
        markup = []
        for token in range(self.size):
            kind = llama_cpp.llama_vocab_get_attr(self.vocab, token)
            if kind & _SPECIAL_TOKEN and (text := self._get_text(token)):
                self._specials[text] = token
                if kind & _ADDED_TOKEN and _MARKUP_PATTERN.fullmatch(text):
                    markup.append(text)
        self._special_pattern = _compile_alternatives(self._specials)
        # llama.cpp recognises these in any text, unlike control tokens: an added space prevents it.
        self._markup_pattern = _compile_alternatives(markup)
        own = llama_cpp.llama_model_chat_template(model, None)
        known = [_CHATML_TEMPLATE] if {"<|im_start|>", "<|im_end|>"} <= set(self._specials) else []
        self._templates = [*([own.decode("utf-8", "replace")] if own else []), *known, _PLAIN_TEMPLATE]
        self._skeletons: dict[tuple[bool, int], list[TemplatePart]] = {}

    def _get_text(self, token: int) -> str:
        return "" if token < 0 else llama_cpp.llama_vocab_get_text(self.vocab, token).decode("utf-8", "replace")

    def tokens(self, text: str) -> list[int]:
        """Tokenize a plain text: text that looks like a control token stays text."""
        raw = text.encode("utf-8", "replace")
        count = -len(raw) - 1  # negative: the needed size
        while count < 0:
            room = (llama_cpp.llama_token * -count)()
            count = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), room, len(room), False, False)
        return list(room[:count])

    def prompt(self, system: str, shots: Sequence[Sequence[str]], ask: str, reply: str) -> list[int]:
        """Tokenize a conversation with the model's chat template, up to where the reply continues."""
        *contents, reply = [
            self._markup_pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
            for text in (system, *chain(*shots), ask, reply)
        ]
        key = bool(contents[0].strip()), len(shots)
        if key not in self._skeletons:  # rendered once, so that a template with the time keeps a constant prefix
            self._skeletons[key] = next(parts for one in self._templates if (parts := self._render(one, *key)))
        tokens: list[int] = []
        run = ""  # all text between two control tokens is tokenized as one, whatever its parts are
        for part in [*self._skeletons[key], reply]:
            if isinstance(part, int):
                tokens += [*(self.tokens(run) if run else ()), part]
                run = ""
            else:
                run += part if isinstance(part, str) else contents[part[0]].strip()
        tokens += self.tokens(run) if run else []
        if llama_cpp.llama_vocab_get_add_bos(self.vocab) and tokens[:1] != [self._bos]:
            tokens.insert(0, self._bos)
        return tokens

    def _render(self, template: str, system: bool, shots: int) -> list[TemplatePart]:
        """Render a template without its contents; empty where not each of them appears once and in order."""
        talk = [("user", "assistant")[n % 2] for n in range(2 * shots + 1)]
        first, *marks = [_PLACEHOLDER.format(n) for n in range(len(talk) + 1)]
        messages = [{"role": role, "content": mark} for role, mark in zip(talk, marks, strict=True)]
        tries: list[Any] = [messages]
        if system:  # for models without a system role, the first question begins with its text
            joined = {"role": "user", "content": f"{first}\n\n{marks[0]}"}
            tries = [[{"role": "system", "content": first}, *messages], [joined, *messages[1:]]]
        wanted = [str(n) for n in range(0 if system else 1, len(talk) + 1)]
        eos, bos = (self._get_text(end(self.vocab)) for end in (llama_cpp.llama_vocab_eos, llama_cpp.llama_vocab_bos))
        for one in tries:
            try:
                text = Jinja2ChatFormatter(template, eos, bos)(messages=one, enable_thinking=False).prompt
            except Exception:  # noqa: S112 - a template is a program and may fail in any way: the next one is tried
                continue
            texts = _PLACEHOLDER_PATTERN.split(text)  # text of the template, the number of a content, and so on
            if texts[1::2] == wanted:
                parts: list[TemplatePart] = []
                for n, one in enumerate(texts):
                    pieces = self._special_pattern.split(one)
                    parts += [(int(one),)] if n % 2 else [self._specials.get(piece, piece) for piece in pieces]
                return parts
        return []

    def piece(self, token: int) -> bytes:
        """Bytes of a token, perhaps of a part of a character; empty for a control token."""
        size = -64  # negative: the needed size
        while size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[:size]

    def ends(self, token: int) -> bool:
        """Whether this token ends a reply."""
        return bool(llama_cpp.llama_vocab_is_eog(self.vocab, token))


def _compile_alternatives(texts: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")


_CANDIDATE_DTYPE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_PENALTY_WINDOW = 64  # last tokens to which the repeat penalty applies


class TokenSampler:
    """Token sampler of one generation. It owns native memory and must be closed."""

    def __init__(self, vocab: Any, size: int, how: dict[str, Any], grammar: str | None) -> None:
        """`how` has the fields of DecodingParams. Raises ValueError for a grammar that does not parse."""
        self._rows = np.zeros(size, _CANDIDATE_DTYPE)
        self._ids = np.arange(size, dtype=np.int32)
        self._grammar: Any = None
        if grammar is not None:
            # Without this check, a grammar that does not parse would end the process.
            rules = grammar.encode("utf-8", "replace")
            self._grammar = rules.strip() and llama_cpp.llama_sampler_init_grammar(vocab, rules, b"root")
            if not self._grammar:  # llama.cpp treats an empty one as none
                raise ValueError("the grammar does not parse")
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        steps = []
        if how["repeat_penalty"] != 1.0:
            steps.append(llama_cpp.llama_sampler_init_penalties(size, _PENALTY_WINDOW, how["repeat_penalty"], 0.0, 0.0))
        if how["temperature"] <= 0:
            steps.append(llama_cpp.llama_sampler_init_greedy())
        else:
            steps += [
                llama_cpp.llama_sampler_init_top_k(how["top_k"]),
                llama_cpp.llama_sampler_init_top_p(how["top_p"], 1),
                llama_cpp.llama_sampler_init_temp(how["temperature"]),
                llama_cpp.llama_sampler_init_dist(how["seed"]),
            ]
        for one in steps:
            llama_cpp.llama_sampler_chain_add(self._chain, one)

    def choose(self, logits: Any) -> int:
        """Choose the next token. Raises ValueError when the grammar allows none.

        The grammar first checks the one token that was chosen without it; only when it rejects that one are all
        tokens checked, which takes 15 to 45 ms with a vocabulary of 150,000.
        """
        token = self._pick(self._fill(logits))
        if self._grammar and not self.allows(token):
            every = self._fill(logits)
            llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(every))
            if not np.isfinite(self._rows["logit"]).any():
                raise ValueError("the grammar leads nowhere with this model's vocabulary")
            token = self._pick(every)
        for one in filter(None, (self._grammar, self._chain)):
            llama_cpp.llama_sampler_accept(one, token)
        return token

    def allows(self, token: int) -> bool:
        """Whether the grammar allows this token next."""
        row = np.array([(token, 1.0, 0.0)], _CANDIDATE_DTYPE)
        llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(_make_token_data_array(row)))
        return bool(np.isfinite(row["logit"][0]))

    def whole(self, ends: Callable[[int], bool]) -> bool:
        """Whether the grammar allows only the end: the text so far is complete."""
        if not self._grammar:
            return False
        llama_cpp.llama_sampler_apply(self._grammar, ctypes.byref(self._fill(1.0)))
        return all(ends(int(token)) for token in self._rows["id"][np.isfinite(self._rows["logit"])])

    def _fill(self, logits: Any) -> Any:
        self._rows["id"], self._rows["logit"], self._rows["p"] = self._ids, logits, 0.0
        return _make_token_data_array(self._rows)

    def _pick(self, array: Any) -> int:
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    def close(self) -> None:
        """Free the native memory."""
        for one in filter(None, (self._grammar, self._chain)):
            llama_cpp.llama_sampler_free(one)


def _make_token_data_array(rows: Any) -> Any:
    data = rows.ctypes.data_as(llama_cpp.llama_token_data_p)
    return llama_cpp.llama_token_data_array(data=data, size=len(rows), selected=-1, sorted=False)


_ALL_LAYERS = 0x7FFFFFFF
_DECODE_ABORTED, _DECODE_CONTEXT_FULL = 2, 1  # return codes of llama_decode
_GGML_ERROR_LEVEL = 4  # ggml's log level for errors
# Measurement of the rates: few tokens, and no further batch after so many seconds of each.
_SPEED_PROMPT_TOKENS, _SPEED_REPLY_TOKENS, _SPEED_BATCH, _SPEED_MAX_S = 96, 8, 32, 1.5
# Beginnings of requests that share a prefix: whatever comes next, its last token may be another one.
_PROBES = ("", "<", "A", "А")


def _write_llama_error(level: int, text: bytes, _: object) -> None:
    """Write errors of llama.cpp to the log; llama_cpp's own filter treats them as details."""
    if level == _GGML_ERROR_LEVEL:
        os.write(2, text)


_LOG_CALLBACK = llama_cpp.llama_log_callback(_write_llama_error)  # must live as long as the program


def _count_common_tokens(some: Sequence[int], others: Sequence[int]) -> int:
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


class RequestStopped(Exception):
    """Request was cancelled."""


class RequestRefused(Exception):
    """Request cannot be done; `kind` is the reason as a code, the text is for people."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class LlamaModel:
    """Model with one context, which keeps the tokens it has evaluated. For one thread at a time.

    A method that serves requests gets the request and a function to call after each batch; it yields the replies.
    """

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        """Load a GGUF; `options` as in `LocalModel`. Raises RequestRefused where the file cannot be used."""
        llama_cpp.llama_log_set(_LOG_CALLBACK, None)
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = _ALL_LAYERS if options["gpu_layers"] < 0 else options["gpu_layers"]
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self._model:
            raise RequestRefused("load", "llama.cpp cannot load it")
        trained = llama_cpp.llama_model_n_ctx_train(self._model)
        about = llama_cpp.llama_context_default_params()
        about.n_ctx = min(options["context"], trained) if trained > 0 else options["context"]
        self._batch = about.n_batch = about.n_ubatch = min(options["batch"], about.n_ctx)
        self._threads = about.n_threads = about.n_threads_batch = options["threads"]
        about.n_seq_max, about.no_perf = 1, False
        if options["gpu_layers"] == 0:
            about.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._ctx = llama_cpp.llama_init_from_model(self._model, about)
        if not self._ctx:
            raise RequestRefused("memory", "there is not enough memory for its context")
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        if not self._memory or not llama_cpp.llama_model_has_decoder(self._model):
            raise RequestRefused("kind", "it is not a model that writes text")
        self.context: int = llama_cpp.llama_n_ctx(self._ctx)
        self._words = ChatTokenizer(self._model)
        self._states = PromptStates(self._ctx, options["states"], options["made_by"])
        self._known: list[int] = []  # tokens that the context holds
        # A C function reads the stop flag from a buffer, so that checking it needs neither Python nor the GIL.
        self._flag = ctypes.create_string_buffer(2)
        self._asks = ctypes.cast(ctypes.CDLL(None).strlen, llama_cpp.ggml_abort_callback)
        llama_cpp.llama_set_abort_callback(self._ctx, self._asks, ctypes.cast(self._flag, ctypes.c_void_p))
        name = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_meta_val_str(self._model, b"general.name", name, len(name))
        self.name = name.value.decode("utf-8", "ignore")  # "" where the file has none

    def stop(self, yes: bool) -> None:
        """Set or clear the stop flag of the running request; thread-safe."""
        self._flag[0] = b"1" if yes else b"\0"

    def _read(self, tokens: Sequence[int], on_progress: Callable[[], None], beginning: int) -> int:
        """Bring these tokens into the context; the number of tokens evaluated, at least one.

        The state after the first `beginning` ones is cached, because later prompts begin with them too; of a request
        that is stopped before, the state after its last whole batch.
        """
        kept = _count_common_tokens(self._known, tokens[:-1])
        if len(cached := self._states.find(tokens[:-1])) > kept and self._states.restore(cached):
            self._known, kept = [*cached], len(cached)
        if not llama_cpp.llama_memory_seq_rm(self._memory, 0, kept, -1):  # the model cannot drop a part of its context
            llama_cpp.llama_memory_clear(self._memory, True)
            kept = 0
        del self._known[kept:]
        try:
            for end in (beginning, len(tokens)):
                for at in range(len(self._known), end, self._batch):
                    self._decode(tokens[at : min(end, at + self._batch)])
                    on_progress()
                if len(self._known) == beginning:
                    self._states.keep(self._known)
        except RequestStopped:
            if kept < len(self._known) < beginning:
                llama_cpp.llama_memory_seq_rm(self._memory, 0, len(self._known), -1)  # of the batch that was stopped
                self._states.keep(self._known)
            raise
        return len(tokens) - kept

    def _decode(self, some: Sequence[int]) -> None:
        if self._flag.value:
            raise RequestStopped
        array = (llama_cpp.llama_token * len(some))(*some)
        code = llama_cpp.llama_decode(self._ctx, llama_cpp.llama_batch_get_one(array, len(some)))
        if code == 0:
            self._known += some
            return
        if llama_cpp.llama_model_is_recurrent(self._model) or llama_cpp.llama_model_is_hybrid(self._model):
            llama_cpp.llama_memory_clear(self._memory, True)  # its state is unknown after a failure
            self._known.clear()
        if code == _DECODE_ABORTED:
            raise RequestStopped
        why = "the context is full" if code == _DECODE_CONTEXT_FULL else f"llama_decode returned {code}"
        raise RequestRefused("failed", why)

    def _logits(self) -> Any:
        row = llama_cpp.llama_get_logits_ith(self._ctx, -1)
        logits = np.ctypeslib.as_array(row, shape=(self._words.size,))
        if np.isnan(logits).any():
            raise RequestRefused("failed", "the model's numbers make no sense: its file is damaged, fetch it again")
        return logits

    def _tokenize(self, ask: Message, reply: str = "") -> list[int]:
        return self._words.prompt(ask["system"], ask["shots"], ask["ask"], reply)

    def _read_prompt(self, tokens: Sequence[int], ask: Message, on_progress: Callable[[], None]) -> int:
        """Read a prompt, whose system text and shots are the prefix that other requests share."""
        if len(tokens) >= self.context:
            raise RequestRefused("long", f"{len(tokens)}")
        prefix = self._words.prompt(ask["system"], ask["shots"], "", "")
        return self._read(tokens, on_progress, _count_common_tokens(tokens[:-1], prefix))

    def generate(self, ask: Message, on_progress: Callable[[], None]) -> Iterator[Message]:
        """Yield pieces of `text`, then the finish reason and the counts."""
        tokens = self._tokenize(ask)
        text = codecs.getincrementaldecoder("utf-8")("ignore")  # buffers incomplete characters
        written, finish = 0, "length"
        try:
            sampler = TokenSampler(self._words.vocab, self._words.size, ask["how"], ask["grammar"])
            with contextlib.closing(sampler):
                evaluated = self._read_prompt(tokens, ask, on_progress)
                most = min(ask["how"]["max_tokens"], self.context - len(tokens))
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
                    finish = "stop" if sampler.whole(self._words.ends) else "length"
        except ValueError as exc:
            raise RequestRefused("grammar", str(exc)) from exc
        yield {"finish": finish, "tokens": written, "prompt_tokens": len(tokens), "evaluated": evaluated}

    def odds(self, ask: Message, on_progress: Callable[[], None]) -> Iterator[Message]:
        """Log odds, log P(yes) - log P(no), at the first token where the two words differ.

        A word counts in both spellings, "Yes" and "yes", where their tokens differ there as well.
        """
        either = [self._tokenize(ask, word) for word in ask["words"]]
        at = next((n for n, (yes, no) in enumerate(zip(*either, strict=False)) if yes != no), None)
        if not at:
            raise RequestRefused("failed", "one of the two words begins with the other")
        tokens = either[0][:at]
        self._read_prompt(tokens, ask, on_progress)
        logits = self._logits()
        firsts = [{one[at]} for one in either]
        for first, word in zip(firsts, ask["words"], strict=True):
            other = self._tokenize(ask, word.capitalize() if word.islower() else word.lower())
            if other[:at] == tokens and len(other) > at:
                first.add(other[at])
        yes, no = (logits[sorted(one - other)] for one, other in (firsts, firsts[::-1]))
        odds = float(np.logaddexp.reduce(yes) - np.logaddexp.reduce(no))
        if not math.isfinite(odds):
            raise RequestRefused("failed", "the model gives both words no chance")
        yield {"odds": odds}

    def count(self, ask: Message, _: Callable[[], None]) -> Iterator[Message]:
        """Count the tokens of each text."""
        yield {"counts": [len(self._words.tokens(text)) for text in ask["texts"]]}

    def count_unread(self, ask: Message, _: Callable[[], None]) -> Iterator[Message]:
        """Count the tokens of each prompt that would be evaluated, if the prompts were read in this order."""
        known, counts = self._known, list[int]()
        for one in ask["prompts"]:
            tokens = self._tokenize(one)
            cached = len(self._states.find(tokens[:-1]))
            counts.append(len(tokens) - max(_count_common_tokens(known, tokens[:-1]), cached))
            known = tokens
        yield {"counts": counts}

    def warm(self, ask: Message, on_progress: Callable[[], None]) -> Iterator[Message]:
        """Evaluate the prefix of all prompts with this system text and these examples, and store its state."""
        probes = [self._words.prompt(ask["system"], ask["shots"], probe, "") for probe in _PROBES]
        prefix = probes[0][: min(_count_common_tokens(probes[0], other) for other in probes[1:])]
        if not self._states.is_stored(prefix) and len(prefix) < self.context:
            self._read(prefix, on_progress, len(prefix))
            self._states.store(prefix)
        yield {}

    def measure_speed(self, _: Message, on_progress: Callable[[], None]) -> Iterator[Message]:
        """Measure tokens per second by llama.cpp's own clock, and report the features of this build."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self._known.clear()
        most = min(_SPEED_PROMPT_TOKENS, self.context // 2)
        some = [token % self._words.size for token in range(1, most + 1)]
        self._decode(some[:_SPEED_REPLY_TOKENS])  # the first batch also reads the file
        llama_cpp.llama_perf_context_reset(self._ctx)
        began = time.monotonic()
        for at in range(_SPEED_REPLY_TOKENS, most, _SPEED_BATCH):
            if time.monotonic() - began < _SPEED_MAX_S:
                self._decode(some[at : at + _SPEED_BATCH])
                on_progress()
        began = time.monotonic()
        for token in some[:_SPEED_REPLY_TOKENS]:
            if time.monotonic() - began < _SPEED_MAX_S:
                self._logits()
                self._decode([token])
        self._logits()
        spent = llama_cpp.llama_perf_context(self._ctx)
        llama_cpp.llama_memory_clear(self._memory, True)
        self._known.clear()
        yield {
            "prefill": 1000 * spent.n_p_eval / max(spent.t_p_eval_ms, 1e-3),
            "decode": 1000 * spent.n_eval / max(spent.t_eval_ms, 1e-3),
            "gpu": bool(llama_cpp.llama_supports_gpu_offload()),
            "threads": self._threads,
            "parameters": llama_cpp.llama_model_n_params(self._model),
            "bytes": llama_cpp.llama_model_size(self._model),
        }


_SHUTDOWN_GRACE_S = 2.0  # for a graceful exit when the parent is gone


def main(path: str, options: dict[str, Any], requests: BinaryIO, replies: BinaryIO) -> None:
    """Load the model, report it as ready, and serve one request after another."""

    def say(**reply: Any) -> None:
        write_message(replies, reply)

    try:
        model = LlamaModel(path, options)
    except RequestRefused as exc:
        say(refused=exc.kind, said=str(exc))
        return
    say(ready=True, context=model.context, name=model.name)
    jobs: queue.Queue[Message | None] = queue.Queue()

    def listen() -> None:
        """Read on while a request runs, so that it can be stopped; exit soon after the parent is gone."""
        while received := read_message(requests):
            message, _ = received
            model.stop("stop" in message)  # the request before is over where another one comes
            if "stop" not in message:
                jobs.put(message)
        model.stop(True)
        jobs.put(None)
        time.sleep(_SHUTDOWN_GRACE_S)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while (job := jobs.get()) is not None:
            say(began=True)
            end: Message = {}
            try:
                for reply in getattr(model, job["do"])(job, say):
                    say(**reply)
            except RequestStopped:
                end = {"stopped": True}
            except RequestRefused as exc:
                end = {"refused": exc.kind, "said": str(exc)}
            except Exception as exc:  # a bug in one request must not end the worker
                end = {"refused": "failed", "said": f"{type(exc).__name__}: {exc}"[:300]}
            say(over=True, **end)
    os._exit(0)  # the listening thread may hold the input: an orderly exit would wait for it


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *open_parent_pipes())
