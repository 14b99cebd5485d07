"""One's turn with a model on a server: a request for each generation, closed as soon as nobody wants its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from rag_core.doors.llm.contract import Decoding, Figures, Finish, Generated, Prompt
from rag_core.doors.llm.dialects import TOP, Dialect, body, choice, constraint, odds_in
from rag_core.doors.llm.server import Outage, Refused, Server
from rag_core.errors import GenerationFailed

__all__ = ["CHAT", "Met", "RemoteSeat", "counted"]

CHAT = "/v1/chat/completions"
# A bare word says which is likelier and not by how much: e^2, seven to one.
_BARE = 2.0
_CHARS_PER_TOKEN = 3  # between English (4 to 5) and Russian (2 to 3) with today's vocabularies


class Met:
    """What is known of a server: who it is, which model is asked, and what it turned out not to do."""

    def __init__(self, dialect: Dialect, model: str, context: int) -> None:
        self.dialect, self.model, self.context = dialect, model, context
        self.bare_verdicts = False


class RemoteSeat:
    """See Seat. Nothing can be asked after the turn."""

    def __init__(self, server: Server, met: Met) -> None:
        self._server, self._met = server, met
        self._running: set[AsyncGenerator[dict[str, Any], None]] = set()
        self._left = False

    async def leave(self) -> None:
        """The turn is over: what still runs is closed."""
        self._left = True
        for messages in list(self._running):
            await messages.aclose()

    async def stream(
        self,
        prompt: Prompt,
        decoding: Decoding,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generated]:
        """Pieces as they come, and `Generated` last."""
        assert not self._left, "the turn is over"
        how = {"stream": True, "stream_options": {"include_usage": True}}
        wanted = {**body(self._met.dialect, self._met.model, prompt, decoding), **how}
        heard = _Heard()
        messages = self._server.stream(CHAT, wanted | constraint(self._met.dialect, grammar, schema))
        self._running.add(messages)
        try:
            async with aclosing(messages):
                async for message in messages:
                    if piece := heard.take(message):
                        yield piece
        finally:
            self._running.discard(messages)
        yield heard.end(self._server.place)

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """From the first token's likeliest; where the server tells none, a bare word is +-2 (`bare_verdicts`)."""
        assert not self._left, "the turn is over"
        met = self._met
        if not met.bare_verdicts:
            one = body(met.dialect, met.model, prompt, Decoding(1, temperature=0.0))
            try:
                reply = await self._server.ask(CHAT, one | {"logprobs": True, "top_logprobs": TOP})
            except Refused as exc:
                if "logprobs" not in exc.said:
                    raise
            else:
                found = odds_in(reply, yes, no)
                if found is not None:
                    return found
            met.bare_verdicts = True
        return await self._bare(prompt, yes, no)

    async def _bare(self, prompt: Prompt, yes: str, no: str) -> float:
        met = self._met
        asked = body(met.dialect, met.model, prompt, Decoding(8, temperature=0.0)) | choice(met.dialect, yes, no)
        reply = await self._server.ask(CHAT, asked)
        try:
            said = str(reply["choices"][0]["message"]["content"]).strip().casefold()
        except (LookupError, TypeError):
            said = ""
        for word, odds in ((yes, _BARE), (no, -_BARE)):
            if said.startswith(word.casefold()):
                return odds
        raise GenerationFailed(f"The model of {self._server.place} says neither yes nor no: use one that can judge.")

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, by the server's own count where it has one; else a third of its characters."""
        assert not self._left, "the turn is over"
        try:
            return list(await asyncio.gather(*(counted(self._server, self._met, text) for text in texts)))
        except Refused:
            return [math.ceil(len(text) / _CHARS_PER_TOKEN) for text in texts]


async def counted(server: Server, met: Met, text: str) -> int:
    """Tokens of a text. Raises Refused for a server that does not count, and GenerationFailed."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    named = {"model": met.model} if met.model else {}
    asked: dict[Dialect, tuple[str, dict[str, Any]]] = {
        Dialect.LLAMA_SERVER: ("/tokenize", {"content": plain}),
        Dialect.LLAMA_PYTHON: ("/extras/tokenize/count", {"input": plain}),
        Dialect.VLLM: ("/tokenize", {**named, "prompt": plain, "add_special_tokens": False}),
    }
    if met.dialect not in asked:
        raise Refused(f"The server {server.place} does not count tokens.", 404, "")
    reply = await server.ask(*asked[met.dialect])
    try:
        return int(reply["count"]) if "count" in reply else len(reply["tokens"])
    except (LookupError, TypeError, ValueError):
        raise Refused(f"The server {server.place} does not count tokens.", 200, "") from None


class _Heard:
    """What has come of a reply."""

    def __init__(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._began, self._first = self._now(), 0.0
        self._pieces: list[str] = []
        self._finish = ""
        self._usage: dict[str, Any] = {}

    def take(self, message: dict[str, Any]) -> str:
        """The text of a message. Thoughts, where a server sends them apart, are not looked at."""
        self._usage |= {key: message[key] for key in ("usage", "timings") if isinstance(message.get(key), dict)}
        try:
            first: dict[str, Any] = next(iter(message.get("choices") or ()), {})
            self._finish = first.get("finish_reason") or self._finish
            piece = (first.get("delta") or {}).get("content") or ""
        except (AttributeError, TypeError):
            return ""
        if not isinstance(piece, str):
            return ""
        if piece:
            self._first = self._first or self._now()
            self._pieces.append(piece)
        return piece

    def end(self, place: str) -> Generated:
        """The whole. Raises Outage where it has no end."""
        if not self._finish:
            raise Outage(f"The language model's server {place} broke off: ask again.")
        took = self._now() - self._began
        first = (self._first - self._began) if self._first else took
        finish = Finish.LENGTH if self._finish == "length" else Finish.STOP
        return Generated("".join(self._pieces), finish, self._figures(1000 * first, 1000 * took))

    def _figures(self, first_ms: float, took_ms: float) -> Figures:
        usage, timings = self._usage.get("usage", {}), self._usage.get("timings", {})
        known = _number(usage.get("prompt_tokens_details"), "cached_tokens")
        prompt = _number(usage, "prompt_tokens")
        evaluated = _number(timings, "prompt_n") or max(0, prompt - known)
        tokens = _number(usage, "completion_tokens") or len(self._pieces)
        return Figures(prompt, evaluated, tokens, first_ms, took_ms)


def _number(given: Any, name: str) -> int:
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, int) else 0
