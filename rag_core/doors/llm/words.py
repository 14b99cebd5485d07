"""What a model's vocabulary and chat template make of texts. Runs in the child process; knows llama_cpp alone."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

__all__ = ["Words"]

# Where a model's own template is missing or cannot be used. The second is for models that know no roles.
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
_PLAIN = (
    "{% for m in messages %}{{ {'user': 'Question: ', 'assistant': 'Answer: '}.get(m.role, '') }}{{ m.content }}\n\n"
    "{% endfor %}Answer:"
)
# Stands in the rendered template for the text with this number: letters, so that no filter of a template changes it.
_MARK = "CITEGRAMTEXT{}END"
_MARKS = re.compile(r"CITEGRAMTEXT(\d+)END")
_SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_ADDED = llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
_MARKUP = re.compile(r"[<\[{|].+[>\]}|]", re.DOTALL)

Part = int | str | tuple[int]  # a control token, a template's text, or which of the contents


class Words:
    """Texts to tokens and back."""

    def __init__(self, model: Any) -> None:
        """`model` is llama.cpp's."""
        self._vocab = llama_cpp.llama_model_get_vocab(model)
        self.size: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._bos = llama_cpp.llama_vocab_bos(self._vocab)
        self._specials, added = self._named()
        self._split = _any_of(self._specials)
        # llama.cpp reads these in any text, as it does no control token: a space keeps them apart.
        self._markup = _any_of([text for text in added if _MARKUP.fullmatch(text)])
        own = llama_cpp.llama_model_chat_template(model, None)
        known = [_CHATML] if {"<|im_start|>", "<|im_end|>"} <= set(self._specials) else []
        self._templates = [*([own.decode("utf-8", "replace")] if own else []), *known, _PLAIN]
        self._skeletons: dict[tuple[bool, int], list[Part]] = {}

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
            if kind & (_SPECIAL | _ADDED):
                text = llama_cpp.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")
                if text:
                    specials[text] = token
                if kind & _ADDED:
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

    def _skeleton(self, system: bool, shots: int) -> list[Part]:
        """The template without its contents; rendered once, so that a template with a clock keeps its beginning."""
        key = system, shots
        if key not in self._skeletons:
            rendered = next(text for one in self._templates if (text := self._rendered(one, system, shots)))
            self._skeletons[key] = list(self._parts(rendered))
        return self._skeletons[key]

    def _rendered(self, template: str, system: bool, shots: int) -> str:
        """The template with a mark for each content, or "" where it does not show each once and in this order."""
        talk = [("user", "assistant")[n % 2] for n in range(2 * shots + 1)]
        marks = [_MARK.format(n) for n in range(1, len(talk) + 1)]
        messages = [{"role": role, "content": mark} for role, mark in zip(talk, marks, strict=True)]
        first = _MARK.format(0)
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
            if _MARKS.findall(text) == wanted:
                return text
        return ""

    def _text(self, which: str) -> str:
        token = getattr(llama_cpp, f"llama_vocab_{which}")(self._vocab)
        return "" if token < 0 else llama_cpp.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")

    def _parts(self, rendered: str) -> list[Part]:
        parts: list[Part] = []
        at = 0
        for mark in [*_MARKS.finditer(rendered), None]:
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


def _any_of(texts: Sequence[str] | dict[str, int]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
