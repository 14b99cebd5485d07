"""Brings updates to a webhook as Telegram does: a chat's in order, again and again until the answer is 2xx.

Source: https://github.com/tdlib/telegram-bot-api, WebhookActor. A method in the answer is not carried out.
"""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp

from bot.sandbox.rooms import Json
from bot.sandbox.updates import Queue

__all__ = ["Hooks"]

_LONGEST_PAUSE = 60.0  # of Telegram's seconds; there it is 60 to 120
_LONGEST_ASKED = 3600
_PATIENCE = aiohttp.ClientTimeout(total=60)
_FOR_EVER = 24 * 3600.0


class Hooks:
    """Takes updates from the queue to its webhook. `behind` stands for the proxies of the bots' owners."""

    def __init__(self, queue: Queue) -> None:
        self.behind: dict[str, str] = {}  # https://host -> http://127.0.0.1:port, where the proxy passes it on to
        self.unit = 1.0  # seconds that one second of Telegram's pauses takes
        self._queue = queue
        self._lanes: set[object] = set()  # one update of a chat is on its way at a time
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Deliver until the queue is closed."""
        queue = self._queue
        async with aiohttp.ClientSession(timeout=_PATIENCE) as http:
            while not queue.closed:
                for lane, number in self._next().items():
                    self._lanes.add(lane)
                    task = asyncio.create_task(self._deliver(http, lane, number))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await queue.bell.until(lambda: queue.closed or bool(self._next()), _FOR_EVER)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _next(self) -> dict[object, int]:
        """What may be sent now: the oldest update of each chat that waits for no other, as far as lines are free."""
        if not self._queue.webhook:
            return {}
        first: dict[object, int] = {}
        for number, (_, raw) in sorted(self._queue.kept.items()):
            first.setdefault(_lane(raw), number)
        free = [lane for lane in first if lane not in self._lanes]
        return {lane: first[lane] for lane in free[: max(0, self._queue.connections - len(self._lanes))]}

    async def _deliver(self, http: aiohttp.ClientSession, lane: object, number: int) -> None:
        """Bring one update until it is taken or too old, or the webhook is another."""
        queue, pause, fails = self._queue, 1.0, 0
        hook = queue.webhook, queue.secret
        try:
            while (queue.webhook, queue.secret) == hook and number in queue.kept:
                expires, raw = queue.kept[number]
                error, asked = await self._brought(http, raw)
                if not error or expires <= queue.clock():
                    queue.kept.pop(number, None)
                    return
                queue.failed = queue.clock(), error
                pause = min(_LONGEST_PAUSE, 2 * pause) if fails else pause
                wait = asked or (pause if fails else 0.0)
                fails += 1
                await queue.bell.until(lambda: (queue.webhook, queue.secret) != hook, wait * self.unit)
        finally:
            self._lanes.discard(lane)
            queue.bell.ring()

    async def _brought(self, http: aiohttp.ClientSession, raw: Json) -> tuple[str, float]:
        """What went wrong (nothing: empty), and for how many seconds the bot asked Telegram to wait."""
        parts = urlsplit(self._queue.webhook)
        passed_to = self.behind.get(f"{parts.scheme}://{parts.netloc}")
        if passed_to is None:  # nothing leaves this machine
            return "Failed to resolve host: Name or service not known", 0
        headers = {"Content-Type": "application/json"}
        if self._queue.secret:
            headers["X-Telegram-Bot-Api-Secret-Token"] = self._queue.secret
        body = BytesIO(json.dumps(raw).encode())
        try:
            async with http.post(passed_to + parts.path, data=body, headers=headers, allow_redirects=False) as answer:
                if 200 <= answer.status < 300:
                    return "", 0
                asked = answer.headers.get("Retry-After", "")
                wait = min(int(asked), _LONGEST_ASKED) if asked.isdecimal() else 0
                return f"Wrong response from the webhook: {answer.status} {answer.reason}", wait
        except aiohttp.ClientConnectorError:
            return "Connection refused", 0
        except (aiohttp.ClientError, TimeoutError):
            return "Webhook connection closed", 0


def _lane(raw: Json) -> object:
    """The chat of an update; updates of no chat wait for nobody."""
    for event in raw.values():
        if isinstance(event, dict):
            chat = event.get("chat") or event.get("from")
            return chat.get("id") if isinstance(chat, dict) else raw["update_id"]
    return raw["update_id"]
