"""The sandbox as tests drive it: what people do, waits for the bot, a webhook's sender, and all calls.

Faults are injected on the way (`sandbox_faults.py`).
"""

import asyncio
from contextlib import asynccontextmanager
from secrets import token_urlsafe

from aiohttp import web
from sandbox_faults import FaultInjector, apply_fault, close_connection
from webhook_sender import WebhookSender

from bot.sandbox import Sandbox, execute_call, find_method, page_api, read_call_parameters
from bot.sandbox.messages import MAX_CAPTION_CHARACTERS, BotApiError, prepare_text
from bot.sandbox.page_api import UserMessage
from bot.sandbox.state import UploadedFile


def compose(world, text, *, reply_to=None, origin=None, album=None, extra=None):
    """A message to write. `origin`: (chat id, message id), a hidden name, or a raw MessageOrigin.

    `album` makes it a photo of that media group, with the text as its caption.
    """
    fields, forward_of = {}, origin if isinstance(origin, tuple) else None
    if isinstance(origin, str):
        origin = {"type": "hidden_user", "sender_user_name": origin, "date": int(world.clock())}
    if origin and not forward_of:
        fields["forward_origin"] = origin
    if album:
        name = token_urlsafe(6)
        photo = {"file_id": f"photo-{name}", "file_unique_id": f"u-photo-{name}", "width": 800, "height": 600}
        caption, entities = prepare_text(text, empty=True)
        fields |= {"photo": [photo], "media_group_id": album, "caption": caption, "caption_entities": entities}
        text = ""
    return UserMessage(text, reply_to, None, forward_of, fields | (extra or {}))


class DrivenSandbox(Sandbox):
    """Sandbox whose `faults` are injected on demand; `transcript` has a line for each call.

    `hooks` sends updates to a webhook.
    """

    def __init__(self, **more):
        super().__init__(**more)
        self.faults = FaultInjector()
        self.hooks = WebhookSender(self.world.queue)
        self.transcript = []
        self._read_counts = {}
        self._webhook_task = None

    async def start(self, *ports):
        await super().start(*ports)
        self._webhook_task = asyncio.create_task(self.hooks.run())

    async def stop(self):
        self.world.queue.closed = True
        self.world.queue.bell.ring()
        if self._webhook_task is not None:
            await self._webhook_task
        await super().stop()

    async def say(self, user_id, text, *, chat_id=None, reply_to=None, thread=None, forward_of=None):
        """Write a message as a person, to the bot or in `chat_id`. `forward_of`: (chat id, message id)."""
        message = UserMessage(text, reply_to, thread, forward_of)
        return page_api.send_as_person(self.world, user_id, user_id if chat_id is None else chat_id, message)

    async def post(self, chat_id, text, *, album=None, origin=None, reply_to=None, extra=None):
        """Write a post as a channel, as `compose` explains."""
        message = compose(self.world, text, album=album, origin=origin, reply_to=reply_to, extra=extra)
        return page_api.post_as_channel(self.world, chat_id, message)

    async def send_file(self, user_id, name, data, caption="", *, mime="application/octet-stream"):
        return send_file_as_person(self.world, user_id, UploadedFile(token_urlsafe(12), name, mime, data), caption)

    async def edit(self, chat_id, message_id, text):
        return page_api.edit_as_author(self.world, chat_id, message_id, text)

    async def delete(self, chat_id, message_id):
        """Delete a person's or channel's message; the bot gets no update."""
        page_api.delete_as_author(self.world, chat_id, message_id)

    async def press(self, user_id, chat_id, message_id, data):
        """Press a button and wait for the bot's answer: {"id", "answer"}; the answer is None without one."""
        query_id = page_api.press_button(self.world, user_id, chat_id, message_id, data)
        query = self.world.queries[query_id]
        await self.until(lambda: query.answer is not None)
        return {"id": query_id, "answer": query.answer}

    def push(self, update):
        self.world.queue.push_raw(update)

    async def replies(self, chat_id, count=1, timeout=30):  # noqa: ASYNC109
        """Wait for the next `count` messages of the bot in a chat, in their current state. Raises TimeoutError."""
        sent = self.world.sent.setdefault(chat_id, [])
        start = self._read_counts.get(chat_id, 0)
        if not await self.until(lambda: len(sent) >= start + count, timeout):
            raise TimeoutError(f"{len(sent) - start} of {count} messages came within {timeout} s")
        self._read_counts[chat_id] = start + count
        room = self.world.room(chat_id)
        return [room.messages[i] for i in sent[start : start + count] if i in room.messages]

    async def until(self, true, timeout=30):  # noqa: ASYNC109
        """Wait for a condition, checked again after each change of the sandbox, and at least ten times a second.

        Returns its last value. What a bot writes into its archive is no change of the sandbox.
        """
        end = asyncio.get_running_loop().time() + timeout
        while (left := end - asyncio.get_running_loop().time()) > 0:
            if await self.world.bell.until(true, min(left, 0.1)):
                return True
        return true()

    async def _on_call(self, request):
        name = request.match_info["method"]
        line = {"n": len(self.transcript) + 1, "at": self.world.clock(), "method": name}
        line |= {"params": {}, "ok": False, "error": "not answered"}
        self.transcript.append(line)
        fault = self.faults.meet(name)
        try:
            if fault and (broken := await apply_fault(fault, request)) is not None:
                return broken
            if not self._has_valid_token(request):
                raise BotApiError(401)
            method = find_method(name)
            line["method"] = method.__api_method__
            parameters = await read_call_parameters(request, self.world)
            line["params"] = parameters
            result = await execute_call(method, parameters, self.world)
        except BotApiError as exc:
            line["error"] = exc.description
            return web.json_response(exc.body(), status=exc.code)
        line["ok"], line["error"] = True, None
        if fault and fault.kind == "lost":
            return close_connection(request)
        if fault and fault.kind == "late":
            await asyncio.sleep(fault.seconds)
        return web.json_response({"ok": True, "result": result})

    async def _on_file(self, request):
        """Serve the content of a file; its faults have the method "file"."""
        fault = self.faults.meet("file")
        try:
            if fault and (broken := await apply_fault(fault, request)) is not None:
                return broken
        except BotApiError as exc:
            return web.json_response(exc.body(), status=exc.code)
        return await super()._on_file(request)


@asynccontextmanager
async def running_bot(settings, watch=None):
    """The real bot in this event loop, once it is ready; it ends as it does on SIGTERM."""
    from bot.app import run_bot  # it takes seconds to import

    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run_bot(settings, stop=stop, ready=ready, watch=watch))
    told = asyncio.create_task(ready.wait())
    await asyncio.wait({running, told}, return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    try:
        if not running.done():
            yield
    finally:
        stop.set()
        await running


def send_file_as_person(world, user_id, upload, caption="", chat_id=None):
    """Send a file to the bot in private, or into a group."""
    world.files[upload.file_id] = upload
    clean, entities = prepare_text(caption, None, MAX_CAPTION_CHARACTERS, empty=True)
    fields = {"text": None, "document": upload.wire(), "caption": clean, "caption_entities": entities}
    return page_api.send_as_person(world, user_id, user_id if chat_id is None else chat_id, UserMessage(extra=fields))
