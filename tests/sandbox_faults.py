"""Fault injection into the sandbox's Bot API: errors, proxies' pages, dropped connections and delays."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from aiohttp import web

from bot.sandbox.messages import BotApiError, bad_request
from bot.sandbox.state import OTHER_POLLER_TEXT

PROXY_ERROR_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"

FaultKind = Literal[
    "429", "500", "502html", "409", "400", "403", "404", "moved", "garbled", "drop", "lost", "stall", "late"
]  # fmt: skip


MOVED_TO = -1_009_999  # the supergroup of "moved"
_REFUSALS = {
    "400": bad_request("not enough rights to send text messages to the chat"),
    "403": BotApiError(403, "bot was blocked by the user"),
    "404": BotApiError(404, "method not found"),
    "409": BotApiError(409, OTHER_POLLER_TEXT),
    "500": BotApiError(500),
    "moved": bad_request("group chat was upgraded to a supergroup chat"),
}
_REFUSALS["moved"].parameters["migrate_to_chat_id"] = MOVED_TO


@dataclass(slots=True)
class Fault:
    """A pending fault: the next `times` calls of `method` meet it ("*": any but getUpdates; "file": a download).

    "drop" closes the connection before the call is read, "lost" after it is carried out; "stall" waits `seconds` and
    then carries it out, "late" waits after it; "409" reports another poller with the same token; "garbled" answers
    truncated JSON; "moved" says that the group has become the supergroup `MOVED_TO`.
    """

    method: str
    kind: FaultKind
    times: int
    retry_after: int
    seconds: float


@dataclass(slots=True)
class FaultInjector:
    waiting: list[Fault] = field(default_factory=list)
    _storm: tuple[float, Fault, Random] | None = None

    def fail_next(self, method, kind="429", *, times=1, retry_after=1, seconds=10):
        """Make the next `times` calls of a method fail."""
        self.waiting.append(Fault(method.lower(), kind, times, retry_after, seconds))

    def storm(self, kind, share, *, retry_after=1, seconds=10, seed=0):
        """Make this share (0..1) of all calls but getUpdates fail, until `clear`. The same seed selects the same."""
        self._storm = share, Fault("*", kind, 1, retry_after, seconds), Random(seed)

    def clear(self):
        self.waiting.clear()
        self._storm = None

    def meet(self, method):
        """Take the fault for this call, if any."""
        name = method.lower()
        for fault in self.waiting:
            if fault.method == name or (fault.method == "*" and name != "getupdates"):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        if self._storm and name != "getupdates" and self._storm[2].random() < self._storm[0]:
            return self._storm[1]
        return None


async def apply_fault(fault, request):
    """Raise the error of the fault, or give its answer; None where the call is carried out."""
    if fault.kind == "429":
        raise BotApiError(429, f"retry after {fault.retry_after}", retry_after=fault.retry_after)
    if fault.kind in _REFUSALS:
        raise _REFUSALS[fault.kind]
    if fault.kind == "garbled":
        return web.Response(text='{"ok":true,"result":[{"upd', content_type="application/json")
    if fault.kind == "502html":
        return web.Response(status=502, text=PROXY_ERROR_PAGE, content_type="text/html")
    if fault.kind == "drop":
        return close_connection(request)
    if fault.kind == "stall":
        await asyncio.sleep(fault.seconds)
    return None


def close_connection(request):
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
