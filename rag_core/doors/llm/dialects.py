"""What the servers that speak OpenAI's protocol have of their own, and how a request to each looks.

llama-server and llama_cpp.server take GBNF (`grammar`), vLLM takes GBNF in `structured_outputs`, and JSON schemas in
`response_format` as OpenAI and most others do. Who is asked is seen once, from /v1/models and from the address that
counts tokens. A schema that a server does not know is ignored there: so replies are checked in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rag_core.doors.llm.contract import Decoding, Prompt

__all__ = ["TOP", "Dialect", "body", "choice", "constraint", "odds_in"]

# Texts that some model's tokenizer takes for control tokens, wherever they stand: a space makes them text again.
_CONTROL = re.compile(
    r"<(?=\||\uff5c|<SYS|</SYS|/?(?:s|bos|eos|unk|pad|mask|think|tool_call|start_of_turn|end_of_turn)>)"
    r"|\[(?=/?[A-Z_]{3,24}\])"
)
TOP = 20  # likeliest tokens: most of OpenAI's and vLLM's


class Dialect(StrEnum):
    """Whose server it is."""

    LLAMA_SERVER = "llama-server"
    LLAMA_PYTHON = "llama_cpp.server"
    VLLM = "vLLM"
    OTHER = "OpenAI"

    @property
    def gbnf(self) -> bool:
        """Whether it obeys GBNF to the letter: it is llama.cpp itself."""
        return self in (Dialect.LLAMA_SERVER, Dialect.LLAMA_PYTHON)


def _plain(text: str) -> str:
    # half a surrogate pair cannot be sent
    return _CONTROL.sub(lambda found: found[0] + " ", text.encode("utf-8", "replace").decode("utf-8"))


def body(dialect: Dialect, model: str, prompt: Prompt, decoding: Decoding) -> dict[str, Any]:
    """A request for a reply. How a reply begins (`prompt.reply`) only llama-server and vLLM can be told."""
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    for asked, replied in prompt.shots:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": replied}]
    messages.append({"role": "user", "content": prompt.ask})
    prefilled = bool(prompt.reply) and dialect in (Dialect.LLAMA_SERVER, Dialect.VLLM)
    if prefilled:
        messages.append({"role": "assistant", "content": prompt.reply})
    how = asdict(decoding)
    repeat, top_k = how.pop("repeat_penalty"), how.pop("top_k")
    how["max_tokens"] = max(1, decoding.max_tokens)
    if dialect is not Dialect.OTHER:  # the others may refuse what OpenAI does not know
        how |= {"top_k": top_k, "chat_template_kwargs": {"enable_thinking": False}}
        how["repetition_penalty" if dialect is Dialect.VLLM else "repeat_penalty"] = repeat
    if prefilled and dialect is Dialect.VLLM:
        how |= {"add_generation_prompt": False, "continue_final_message": True}
    named = {"model": model} if model else {}
    return {**named, "messages": [{**each, "content": _plain(each["content"])} for each in messages], **how}


def constraint(dialect: Dialect, grammar: str | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """What holds the reply to a grammar, or to a schema where there are no grammars."""
    if grammar and dialect.gbnf:
        return {"grammar": grammar}
    if schema:
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": dict(schema), "strict": True},
            }
        }
    return {"structured_outputs": {"grammar": grammar}} if grammar and dialect is Dialect.VLLM else {}


def choice(dialect: Dialect, *words: str) -> dict[str, Any]:
    """What holds the reply to one of a few plain words."""
    if dialect is Dialect.VLLM:
        return {"structured_outputs": {"choice": list(words)}}
    return constraint(dialect, "root ::= " + " | ".join(f'"{word}"' for word in words), None)


@dataclass(frozen=True, slots=True)
class _Among:
    token: str
    logprob: float


def odds_in(reply: Any, yes: str, no: str) -> float | None:
    """Log P(yes) - log P(no) by the first token's likeliest, None where the server gives none.

    A word that is not among them is at most as likely as the last of them; where neither is, neither is likelier.
    """
    top = _top(reply)
    if not top:
        return None
    least = min(each.logprob for each in top)
    return _of(top, yes, no, least) - _of(top, no, yes, least)


def _of(top: list[_Among], word: str, other: str, least: float) -> float:
    begins = [each.logprob for each in top if _begins(each.token, word) and not _begins(each.token, other)]
    return max(begins, default=least)


def _begins(token: str, word: str) -> bool:
    plain = token.replace("▁", " ").strip().casefold()
    return bool(plain) and word.casefold().startswith(plain)


def _top(reply: Any) -> list[_Among]:
    try:
        given = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return [_Among(str(each["token"]), float(each["logprob"])) for each in given]
    except (LookupError, TypeError, ValueError):
        return []
