"""llama.cpp model: tokenizer with chat template, token sampler, cache of prompt states, and generation.

Loaded only in the LLM worker process; it imports llama_cpp and numpy, and nothing of Citegram.

States of prompt prefixes are cached: a planner, a writer and a judge share one context, each with a prefix of its
own. To evaluate a prefix again takes seconds each time, to restore its state milliseconds.
"""

from __future__ import annotations

import codecs
import ctypes
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import llama_cpp
import numpy as np
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

__all__ = ["ChatTokenizer", "LlamaModel", "PromptStateCache", "RequestRefused", "RequestStopped", "TokenSampler"]

_MAX_STATES, _MAX_STATE_BYTES = 4, 1 << 29
_MIN_STATE_TOKENS = 64  # tokens; fewer are read again faster than they are found


class PromptStateCache:
    """The states of a few beginnings, those last used."""

    def __init__(self, ctx: Any) -> None:
        """`ctx` is llama.cpp's context."""
        self._ctx = ctx
        self._kept: dict[tuple[int, ...], Any] = {}  # the first was not used for longest

    def keep(self, tokens: Sequence[int]) -> None:
        """The context holds exactly these tokens: remember its state."""
        if len(tokens) < _MIN_STATE_TOKENS or tuple(tokens) in self._kept:
            return
        size = llama_cpp.llama_state_seq_get_size(self._ctx, 0)
        if size > _MAX_STATE_BYTES:
            return
        state = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data(self._ctx, state, size, 0) != size:
            return
        self._kept[tuple(tokens)] = state
        while len(self._kept) > _MAX_STATES or sum(map(len, self._kept.values())) > _MAX_STATE_BYTES:
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


# Where a model's own template is missing or cannot be used. The second is for models that know no roles.
_CHATML_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
_PLAIN_TEMPLATE = (
    "{% for m in messages %}{{ {'user': 'Question: ', 'assistant': 'Answer: '}.get(m.role, '') }}{{ m.content }}\n\n"
    "{% endfor %}Answer:"
)
# Stands in the rendered template for the text with this number: letters, so that no filter of a template changes it.
_PLACEHOLDER = "CITEGRAMTEXT{}END"
_PLACEHOLDER_PATTERN = re.compile(r"CITEGRAMTEXT(\d+)END")
_SPECIAL_TOKEN_ATTRS = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_ADDED_TOKEN_ATTR = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_MARKUP_PATTERN = re.compile(r"[<\[{|].+[>\]}|]", re.DOTALL)

TemplatePart = int | str | tuple[int]  # a control token, a template's text, or which of the contents


class ChatTokenizer:
    """Texts to tokens and back."""

    def __init__(self, model: Any) -> None:
        """`model` is llama.cpp's."""
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.size: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._bos = llama_cpp.llama_vocab_bos(self._vocab)
        self._specials, added = self._named()
        self._split = _compile_alternatives(self._specials)
        # llama.cpp reads these in any text, as it does no control token: a space keeps them apart.
        self._markup = _compile_alternatives([text for text in added if _MARKUP_PATTERN.fullmatch(text)])
        own = llama_cpp.llama_model_chat_template(model, None)
        known = [_CHATML_TEMPLATE] if {"<|im_start|>", "<|im_end|>"} <= set(self._specials) else []
        self._templates = [*([own.decode("utf-8", "replace")] if own else []), *known, _PLAIN_TEMPLATE]
        self._skeletons: dict[tuple[bool, int], list[TemplatePart]] = {}

    @property
    def vocab(self) -> Any:
        """llama.cpp's vocabulary."""
        return self._vocab

    def _named(self) -> tuple[dict[str, int], list[str]]:
        """The tokens that stand for more than their text, and the texts of those that were added by a user."""
        specials: dict[str, int] = {}
        added = []
        for token in range(self.size):
            kind = llama_cpp.llama_vocab_get_attr(self._vocab, token)
            if kind & (_SPECIAL_TOKEN_ATTRS | _ADDED_TOKEN_ATTR):
                text = llama_cpp.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")
                if text:
                    specials[text] = token
                if kind & _ADDED_TOKEN_ATTR:
                    added.append(text)
        return specials, added

    def tokens(self, text: str) -> list[int]:
        """Tokens of a plain text: what looks like a control token is only text."""
        raw = text.encode("utf-8", "replace")
        count = -len(raw) - 1  # negative: so many would be needed
        while count < 0:
            room = (llama_cpp.llama_token * -count)()
            count = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), room, len(room), False, False)
        return list(room[:count])

    def prompt(self, system: str, shots: Sequence[Sequence[str]], ask: str, reply: str) -> list[int]:
        """The tokens of a conversation as this model has learnt to read it, up to where the reply goes on."""
        contents = [self._harmless(text).strip() for text in (system, *chain(*shots), ask)]
        found: list[int] = []
        run = ""  # text between two control tokens is one text for the tokenizer, whoever wrote which part
        for part in [*self._skeleton(bool(contents[0]), len(shots)), self._harmless(reply)]:
            if isinstance(part, int):
                found += [*(self.tokens(run) if run else ()), part]
                run = ""
            else:
                run += part if isinstance(part, str) else contents[part[0]]
        found += self.tokens(run) if run else []
        if llama_cpp.llama_vocab_get_add_bos(self._vocab) and found[:1] != [self._bos]:
            found.insert(0, self._bos)
        return found

    def _harmless(self, text: str) -> str:
        return self._markup.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _skeleton(self, system: bool, shots: int) -> list[TemplatePart]:
        """The template without its contents; rendered once, so that a template with a clock keeps its beginning."""
        key = system, shots
        if key not in self._skeletons:
            rendered = next(text for one in self._templates if (text := self._rendered(one, system, shots)))
            self._skeletons[key] = list(self._parts(rendered))
        return self._skeletons[key]

    def _rendered(self, template: str, system: bool, shots: int) -> str:
        """The template with a mark for each content, or "" where it does not show each once and in this order."""
        talk = [("user", "assistant")[n % 2] for n in range(2 * shots + 1)]
        marks = [_PLACEHOLDER.format(n) for n in range(1, len(talk) + 1)]
        messages = [{"role": role, "content": mark} for role, mark in zip(talk, marks, strict=True)]
        first = _PLACEHOLDER.format(0)
        tries: list[Any] = [messages]
        if system:  # some models have no such role: their first question begins with it
            joined = {"role": "user", "content": f"{first}\n\n{marks[0]}"}
            tries = [[{"role": "system", "content": first}, *messages], [joined, *messages[1:]]]
        wanted = [str(n) for n in range(0 if system else 1, len(talk) + 1)]
        for one in tries:
            try:
                text = Jinja2ChatFormatter(template, self._text("eos"), self._text("bos"))(
                    messages=one,
                    enable_thinking=False,
                ).prompt
            except Exception:  # noqa: S112 - a template is a program: it may fail in any way, and the next one is tried
                continue
            if _PLACEHOLDER_PATTERN.findall(text) == wanted:
                return text
        return ""

    def _text(self, which: str) -> str:
        token = getattr(llama_cpp, f"llama_vocab_{which}")(self._vocab)
        return "" if token < 0 else llama_cpp.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")

    def _parts(self, rendered: str) -> list[TemplatePart]:
        parts: list[TemplatePart] = []
        at = 0
        for mark in [*_PLACEHOLDER_PATTERN.finditer(rendered), None]:
            own = rendered[at : mark.start() if mark else len(rendered)]
            last = 0
            for special in self._split.finditer(own):
                parts += [own[last : special.start()], self._specials[special[0]]]
                last = special.end()
            parts.append(own[last:])
            if mark:
                parts.append((int(mark[1]),))
                at = mark.end()
        return parts

    def piece(self, token: int) -> bytes:
        """The bytes of a token, which may be a part of a character; nothing for a control token."""
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, room, 0, False)
            if size >= 0:
                return buffer.raw[:size]
            room = -size

    def ends(self, token: int) -> bool:
        """Whether a reply ends with this token."""
        return bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))


def _compile_alternatives(texts: Sequence[str] | dict[str, int]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


_CANDIDATE_DTYPE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_PENALTY_WINDOW = 64  # how far back a repetition is punished


class TokenSampler:
    """One generation's choices. Close it: it owns native memory."""

    def __init__(self, vocab: Any, size: int, how: dict[str, Any], grammar: str | None) -> None:
        """`how` are the fields of Decoding. Raises ValueError for a grammar that does not parse."""
        self._rows = np.zeros(size, _CANDIDATE_DTYPE)
        self._ids = np.arange(size, dtype=np.int32)
        self._grammar = self._chain = None
        if grammar is not None:
            # Used without this check, a grammar that does not parse ends the process.
            self._grammar = llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode("utf-8", "replace"), b"root")
            if not grammar.strip() or not self._grammar:  # an empty one is taken for none
                self.close()
                raise ValueError("the grammar does not parse")
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        for one in _make_sampler_chain(how, size):
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
        row = np.array([(token, 1.0, 0.0)], _CANDIDATE_DTYPE)
        array = _make_token_data_array(row)
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
        return _make_token_data_array(self._rows)

    def _picked(self, array: Any) -> int:
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    def close(self) -> None:
        """Give the memory back."""
        for one in (self._grammar, self._chain):
            if one:
                llama_cpp.llama_sampler_free(one)
        self._grammar = self._chain = None


def _make_token_data_array(rows: Any) -> Any:
    data = rows.ctypes.data_as(llama_cpp.llama_token_data_p)
    return llama_cpp.llama_token_data_array(data=data, size=len(rows), selected=-1, sorted=False)


def _make_sampler_chain(how: dict[str, Any], size: int) -> list[Any]:
    steps = []
    if how["repeat_penalty"] != 1.0:
        steps.append(llama_cpp.llama_sampler_init_penalties(size, _PENALTY_WINDOW, how["repeat_penalty"], 0.0, 0.0))
    if how["temperature"] <= 0:
        return [*steps, llama_cpp.llama_sampler_init_greedy()]
    return [
        *steps,
        llama_cpp.llama_sampler_init_top_k(how["top_k"]),
        llama_cpp.llama_sampler_init_top_p(how["top_p"], 1),
        llama_cpp.llama_sampler_init_temp(how["temperature"]),
        llama_cpp.llama_sampler_init_dist(how["seed"]),
    ]


_ALL_LAYERS = 0x7FFFFFFF
_DECODE_ABORTED, _DECODE_CONTEXT_FULL = 2, 1  # what llama_decode returns
_GGML_ERROR_LEVEL = 4  # of ggml's levels
_SPEED_PROMPT_TOKENS, _SPEED_REPLY_TOKENS, _SPEED_MAX_S = 256, 32, 10.0

WorkerMessage = dict[str, Any]


def _write_llama_error(level: int, text: bytes, _: object) -> None:
    """Errors of llama.cpp go to the log; the package's own filter takes them for details."""
    if level == _GGML_ERROR_LEVEL:
        os.write(2, text)


_LOG_CALLBACK = llama_cpp.llama_log_callback(_write_llama_error)  # llama.cpp calls it for as long as the program runs


def _count_common_tokens(some: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens both begin with."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(some), len(others)))


class RequestStopped(Exception):
    """It was told to stop."""


class RequestRefused(Exception):
    """It cannot be done; `kind` names why, the text is for people."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class LlamaModel:
    """One model with one context, which keeps what it has read. One thread at a time."""

    def __init__(self, path: str, options: dict[str, int]) -> None:
        """Load a GGUF. Raises RequestRefused where the file cannot be used."""
        llama_cpp.llama_log_set(_LOG_CALLBACK, None)
        llama_cpp.llama_backend_init()
        given = llama_cpp.llama_model_default_params()
        given.n_gpu_layers = _ALL_LAYERS if options["gpu_layers"] < 0 else options["gpu_layers"]
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), given)
        if not self._model:
            raise RequestRefused("load", "llama.cpp cannot load it")
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
            raise RequestRefused("memory", "there is not enough memory for its context")
        self._memory = llama_cpp.llama_get_memory(self._ctx)
        if not self._memory or not llama_cpp.llama_model_has_decoder(self._model):
            raise RequestRefused("kind", "it is not a model that writes text")
        self.context: int = llama_cpp.llama_n_ctx(self._ctx)
        self._words, self._states = ChatTokenizer(self._model), PromptStateCache(self._ctx)
        self._sampler = TokenSampler
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
        kept = _count_common_tokens(self._known, tokens[:-1])
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
            raise RequestStopped
        array = (llama_cpp.llama_token * len(some))(*some)
        code = llama_cpp.llama_decode(self._ctx, llama_cpp.llama_batch_get_one(array, len(some)))
        if code == 0:
            self._known += some
            return
        if llama_cpp.llama_model_is_recurrent(self._model) or llama_cpp.llama_model_is_hybrid(self._model):
            llama_cpp.llama_memory_clear(self._memory, True)  # nobody knows how far its state has gone
            self._known.clear()
        if code == _DECODE_ABORTED:
            raise RequestStopped
        raise RequestRefused(
            "failed", "the context is full" if code == _DECODE_CONTEXT_FULL else f"llama_decode returned {code}"
        )

    def _logits(self) -> Any:
        row = llama_cpp.llama_get_logits_ith(self._ctx, -1)
        logits = np.ctypeslib.as_array(row, shape=(self._words.size,))
        if np.isnan(logits).any():
            raise RequestRefused("failed", "the model's numbers make no sense: its file is damaged, fetch it again")
        return logits

    def _beginning(self, tokens: Sequence[int], ask: WorkerMessage) -> int:
        """How many of the tokens are those of the system's text and the shots: what any other question begins with."""
        return _count_common_tokens(tokens[:-1], self._words.prompt(ask["system"], ask["shots"], "", ""))

    def _fits(self, tokens: Sequence[int]) -> None:
        if len(tokens) >= self.context:
            raise RequestRefused("long", f"{len(tokens)}")

    def generate(self, ask: WorkerMessage, told: Callable[[], None]) -> Iterator[WorkerMessage]:
        """Pieces of `text`, then why and with what figures it ended."""
        tokens: list[int] = self._words.prompt(ask["system"], ask["shots"], ask["ask"], ask["reply"])
        self._fits(tokens)
        try:
            sampler = self._sampler(self._words.vocab, self._words.size, ask["how"], ask["grammar"])
        except ValueError as exc:
            raise RequestRefused("grammar", str(exc)) from exc
        try:
            evaluated = self._read(tokens, told, self._beginning(tokens, ask))
            yield from self._write(sampler, min(ask["how"]["max_tokens"], self.context - len(tokens)))
        except ValueError as exc:
            raise RequestRefused("grammar", str(exc)) from exc
        finally:
            sampler.close()
        yield {"prompt_tokens": len(tokens), "evaluated": evaluated}

    def _write(self, sampler: Any, most: int) -> Iterator[WorkerMessage]:
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

    def odds(self, ask: WorkerMessage, told: Callable[[], None]) -> Iterator[WorkerMessage]:
        """Log P(yes) - log P(no), where the two words part."""
        either = [self._words.prompt(ask["system"], ask["shots"], ask["ask"], ask["reply"] + w) for w in ask["words"]]
        at = next((n for n, (yes, no) in enumerate(zip(*either, strict=False)) if yes != no), None)
        if not at:
            raise RequestRefused("failed", "one of the two words begins with the other")
        self._fits(either[0][: at + 1])
        self._read(either[0][:at], told, self._beginning(either[0][:at], ask))
        logits = self._logits()
        odds = float(logits[either[0][at]]) - float(logits[either[1][at]])
        if not math.isfinite(odds):
            raise RequestRefused("failed", "the model gives both words no chance")
        yield {"odds": odds}

    def count(self, ask: WorkerMessage, told: Callable[[], None]) -> Iterator[WorkerMessage]:
        """Tokens of each text."""
        yield {"counts": [len(self._words.tokens(text)) for text in ask["texts"]]}

    def speed(self, ask: WorkerMessage, told: Callable[[], None]) -> Iterator[WorkerMessage]:
        """Tokens per second, by llama.cpp's own clock, and what this build can use."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self._known.clear()
        some = [token % self._words.size for token in range(1, min(_SPEED_PROMPT_TOKENS, self.context // 2) + 1)]
        llama_cpp.llama_perf_context_reset(self._ctx)
        self._read(some, told)
        began = time.monotonic()
        for token in some[:_SPEED_REPLY_TOKENS]:
            self._logits()
            self._decode([token])
            if time.monotonic() - began > _SPEED_MAX_S:
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
