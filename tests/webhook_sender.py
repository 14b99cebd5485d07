"""Sender of the sandbox's updates to a webhook, as Telegram's.

It keeps the order of updates within a chat and repeats a request until the answer is 2xx, like WebhookActor in
https://github.com/tdlib/telegram-bot-api; a method in the answer is not carried out.
"""

import asyncio
import json
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp

_MAX_PAUSE_SECONDS = 60.0  # in Telegram's seconds; Telegram waits 60 to 120
_MAX_RETRY_AFTER_SECONDS = 3600
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=60)
_IDLE_WAIT_SECONDS = 24 * 3600.0


class WebhookSender:
    """Sender of queued updates to the webhook. `behind` stands for the bot owners' reverse proxies."""

    def __init__(self, queue):
        self.behind = {}  # https://host -> http://127.0.0.1:port that the proxy forwards to
        self.unit = 1.0  # real seconds for one second of Telegram's pauses
        self._queue = queue
        self._lanes = set()  # chats with an update in delivery, one at a time
        self._tasks = set()

    async def run(self):
        """Deliver until the queue is closed."""
        queue = self._queue
        async with aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as http:
            while not queue.closed:
                for lane, number in self._select_updates().items():
                    self._lanes.add(lane)
                    task = asyncio.create_task(self._deliver(http, lane, number))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await queue.bell.until(lambda: queue.closed or bool(self._select_updates()), _IDLE_WAIT_SECONDS)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _select_updates(self):
        """Select the oldest update of each chat without one in delivery, as far as connections are free."""
        if not self._queue.webhook:
            return {}
        first = {}
        for number, (_, raw) in sorted(self._queue.kept.items()):
            first.setdefault(_get_delivery_lane(raw), number)
        free = [lane for lane in first if lane not in self._lanes]
        return {lane: first[lane] for lane in free[: max(0, self._queue.connections - len(self._lanes))]}

    async def _deliver(self, http, lane, number):
        """Deliver one update until it is accepted, too old, or the webhook changes."""
        queue, pause, fails = self._queue, 1.0, 0
        hook = queue.webhook, queue.secret
        try:
            while (queue.webhook, queue.secret) == hook and number in queue.kept:
                expires, raw = queue.kept[number]
                error, retry_after = await self._send_update(http, raw)
                if not error or expires <= queue.clock():
                    queue.kept.pop(number, None)
                    return
                queue.failed = queue.clock(), error
                pause = min(_MAX_PAUSE_SECONDS, 2 * pause) if fails else pause
                wait = retry_after or (pause if fails else 0.0)
                fails += 1
                await queue.bell.until(lambda: (queue.webhook, queue.secret) != hook, wait * self.unit)
        finally:
            self._lanes.discard(lane)
            queue.bell.ring()

    async def _send_update(self, http, raw):
        """Send one update; returns the error (empty: none) and the seconds that the bot asked to wait."""
        parts = urlsplit(self._queue.webhook)
        passed_to = self.behind.get(f"{parts.scheme}://{parts.netloc}")
        if passed_to is None:  # no request leaves this machine
            return "Failed to resolve host: Name or service not known", 0
        headers = {"Content-Type": "application/json"}
        if self._queue.secret:
            headers["X-Telegram-Bot-Api-Secret-Token"] = self._queue.secret
        body = BytesIO(json.dumps(raw).encode())
        try:
            async with http.post(passed_to + parts.path, data=body, headers=headers, allow_redirects=False) as answer:
                if 200 <= answer.status < 300:
                    return "", 0
                retry_after = answer.headers.get("Retry-After", "")
                wait = min(int(retry_after), _MAX_RETRY_AFTER_SECONDS) if retry_after.isdecimal() else 0
                return f"Wrong response from the webhook: {answer.status} {answer.reason}", wait
        except aiohttp.ClientConnectorError:
            return "Connection refused", 0
        except (aiohttp.ClientError, TimeoutError):
            return "Webhook connection closed", 0


def _get_delivery_lane(raw):
    for event in raw.values():
        if isinstance(event, dict):
            chat = event.get("chat") or event.get("from")
            return chat.get("id") if isinstance(chat, dict) else raw["update_id"]
    return raw["update_id"]
