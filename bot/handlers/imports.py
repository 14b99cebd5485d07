"""/import: an admin sends an export as a document, and a child process reads it beside the running bot.

The document comes with the command or with the replied message. One import runs at a time. One message shows its
progress, can stop it, and reports the result at the end. The document lies in data/incoming, and is removed with it.
What that message says if the bot is killed lies there as well: the next start says it.
"""

import asyncio
import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from aiogram import Bot, F, Router
from aiogram.types import CallbackQuery, Document, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Code, Text, as_list

from bot.access import is_admin
from bot.app_context import AppContext
from bot.background import cancel_tasks
from bot.handlers import errors
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, IN_PRIVATE, PRIVATE, ChatCommand
from bot.settings import Settings
from bot.telegram.files import TELEGRAM_ERRORS, FileNotFetched, download_file
from bot.views.answer import format_one_line, link_channel_title
from bot.views.channel_card import build_approval_keyboard
from bot.views.format import split_pages
from bot.views.keyboards import Press, build_keyboard, make_row, on_press
from bot.views.text import cut_lines, strip_control_characters
from ingest.exports import DocumentRefused, run_import
from rag_core.errors import RagError
from rag_core.storage import Archive, channels
from rag_core.types import Channel, Visibility

router = Router()

log = logging.getLogger(__name__)

MAX_DOCUMENT_BYTES = 20 * 2**20  # that bots may download: https://core.telegram.org/bots/api#getfile
_FETCH_REFUSALS = {"too-big": "import-too-big", "far": "import-far"}
# Telegram's limits for edits are not published; readers look every few seconds.
_EDIT_INTERVAL_SECONDS, _EDIT_TIMEOUT_SECONDS = 3.0, 5.0
_MAX_TITLES, _MAX_ASKED_CHANNELS = 5, 3
_INTERRUPTED_FILE = "interrupted.json"


def translate_note(code: str, parameters: Mapping[str, str | int], words: Translator) -> str:
    """Translate a note on an import."""
    values = {name: format_one_line(text) if isinstance(text, str) else text for name, text in parameters.items()}
    return words(code, **values, command="/import")


async def _edit_progress(
    message: Message, text: Text, buttons: InlineKeyboardMarkup | None = None, *, patient: bool = False
) -> None:
    """Edit the message; `patient`: as long as Telegram asks to wait, as nothing is said after it."""
    try:
        async with asyncio.timeout(None if patient else _EDIT_TIMEOUT_SECONDS):
            await message.edit_text(**split_pages(text)[0].as_kwargs(), reply_markup=buttons)
    except (*TELEGRAM_ERRORS, TimeoutError) as exc:
        log.warning("an import could not be told of: %s", type(exc).__name__)


@dataclass(frozen=True, slots=True)
class ImportOrder:
    """Import order: the document, and the id and the @username of the channel that it must be of, where known.

    Exports do not contain usernames. `message` is the one to reply to.
    """

    document: Document
    message: Message
    words: Translator
    chat_id: int | None = None
    username: str | None = None

    @property
    def file(self) -> str:
        """Name of the document as the reader sees it."""
        return format_one_line(self.document.file_name or "") or self.words("import-file")


class ImportRunner:
    """Runs one import at a time. `wake` makes the indexers look at the archive."""

    def __init__(self, bot: Bot, settings: Settings, archive: Archive, wake: Callable[[], None]) -> None:
        self._bot, self._settings, self._archive, self._wake = bot, settings, archive, wake
        self._folder = settings.data.dir / "incoming"
        self._task: asyncio.Task[None] | None = None
        self._run_id, self._stopped = "", False
        self._interrupted: dict[str, Any] | None = None  # what a bot that was killed has left to say
        with suppress(OSError, ValueError):
            self._interrupted = json.loads((self._folder / _INTERRUPTED_FILE).read_bytes())
        shutil.rmtree(self._folder, ignore_errors=True)

    async def report_interrupted(self) -> None:
        """Say in the message of an import that ended with the last process that it did."""
        if self._interrupted:
            with suppress(*TELEGRAM_ERRORS):  # the message is gone
                await self._bot.edit_message_text(**self._interrupted)

    def begin(self, order: ImportOrder) -> bool:
        """Start in the background; False where an import is already running."""
        if self._task and not self._task.done():
            return False
        self._run_id, self._stopped = token_urlsafe(9), False
        self._task = asyncio.create_task(self._run_order(order))
        return True

    def cancel(self, run: str) -> bool:
        """Stop the import with this button; False where it has ended."""
        if run != self._run_id or self._task is None or self._task.done() or self._stopped:
            return False
        self._stopped = True
        self._task.cancel()
        return True

    async def stop(self) -> None:
        """Stop the import because the bot stops, and report it."""
        if self._task:
            await cancel_tasks([self._task])

    async def _run_order(self, order: ImportOrder) -> None:
        words, closed, interrupted = order.words, list[Channel](), False
        stop = build_keyboard(make_row(words("button-stop"), "import-stop", self._run_id))
        try:
            shown = await order.message.reply(words("import-fetching", file=order.file), reply_markup=stop)
        except TELEGRAM_ERRORS as exc:
            log.error("an import was not begun, as its admin cannot be told: %s", exc)
            return
        try:
            said, closed = await self._import(order, shown, stop)
        except asyncio.CancelledError:
            interrupted = not self._stopped
            said = Text(words("import-interrupted" if interrupted else "import-stopped", file=order.file))
        except DocumentRefused as exc:
            values = {n: strip_control_characters(v) if isinstance(v, str) else v for n, v in exc.values.items()}
            said = Text(words(exc.sentence, **values | {"file": order.file}))
        except OSError as exc:
            log.error("an import failed: %s", exc.strerror)
            said = Text(words("import-disk"))
        except Exception as exc:
            if not isinstance(exc, RagError):
                log.error("an import failed", exc_info=exc)
            said = Text(errors.format_error(exc, words, admin=True))
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        await _edit_progress(shown, said, patient=not interrupted)
        # offer to open channels that are new here, which only admins can read so far
        try:
            if len(closed) > _MAX_ASKED_CHANNELS:
                await order.message.answer(words("import-who-many", count=len(closed)))
                return
            for channel in closed:
                asked = words.rich("import-who", title=link_channel_title(channel, words)).as_kwargs()
                readers = build_approval_keyboard(self._archive, channel.chat_id, words)
                await order.message.answer(**asked, reply_markup=readers)
        except TELEGRAM_ERRORS as exc:
            log.warning("an admin could not be asked who may read what was imported: %s", exc)

    async def _import(
        self, order: ImportOrder, shown: Message, stop: InlineKeyboardMarkup | None
    ) -> tuple[Text, list[Channel]]:
        """Run the import; returns its report, and the new channels that only admins read until somebody opens them."""
        before, words = await channels.load_channels(self._archive), order.words
        data, file = self._settings.data.dir.resolve(), self._folder.resolve() / "result.json"
        interrupted = words("import-interrupted", file=order.file)
        await asyncio.to_thread(self._make_folder, chat_id=shown.chat.id, message_id=shown.message_id, text=interrupted)
        try:
            await download_file(self._bot, order.document.file_id, file, MAX_DOCUMENT_BYTES)
        except FileNotFetched as exc:
            raise DocumentRefused(_FETCH_REFUSALS.get(str(exc), "import-not-fetched")) from exc
        edited_at, end = time.monotonic(), None
        task = {"file": str(file), "data": str(data), "chat": order.chat_id, "zone": self._settings.bot.timezone}
        async with aclosing(run_import(task)) as lines:
            async for line in lines:
                if "at" in line and time.monotonic() - edited_at >= _EDIT_INTERVAL_SECONDS:
                    done, total = line["at"]
                    percent = min(99, 100 * done // max(total, 1))
                    await _edit_progress(shown, Text(words("import-at", file=order.file, percent=percent)), stop)
                    edited_at = time.monotonic()
                elif "refused" in line:
                    raise DocumentRefused(line["refused"][0], **line["refused"][1])
                elif "end" in line:
                    end = line["end"]
        if end is None:
            raise RuntimeError("the child that imports ended without a word")  # the child's traceback is on stderr
        known = await channels.load_channels(self._archive)
        found = [known[chat_id] for chat_id in end["channels"]]
        if order.username and len(found) == 1 and not found[0].username:
            found = [replace(found[0], username=order.username)]
            await channels.save_channel(self._archive, found[0])
        self._wake()
        names = cut_lines([link_channel_title(channel, words) for channel in found], _MAX_TITLES, words)
        n = end["tally"]
        counts = words("import-counts", new=n["new"], edited=n["edited"], unchanged=n["unchanged"],
                       skipped=n["skipped"], deleted=n["deleted"])  # fmt: skip
        notes = [translate_note(code, values, words) for code, values in end["notes"]]
        if end["more"]:
            notes.append(words("import-notes-more", count=int(end["more"])))
        report = as_list(words("import-done", file=order.file), as_list(*names, counts), *notes, sep="\n\n")
        return report, [c for c in found if c.chat_id not in before and c.visibility is Visibility.ADMINS]

    def _make_folder(self, **interrupted: str | int) -> None:
        """Make the folder, empty but for what is to be said if the bot is killed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        (self._folder / _INTERRUPTED_FILE).write_text(json.dumps(interrupted), "utf-8")


# An id, a username, or a link with one: https://core.telegram.org/api/links
_CHANNEL_PATTERN = re.compile(
    r"@?(?:(?:https?://)?(?:t|telegram)\.me/(?:c/|s/)?)?(?:(?P<id>-?\d{1,15})|(?P<name>[A-Za-z]\w{3,31}))(?:[/?].*)?",
    re.ASCII,
)
_LOOKUP_TIMEOUT_SECONDS = 3.0


async def _is_export_from_admin(message: Message, context: AppContext) -> bool:
    """Filter: an admin sent a document that looks like an export, without a caption."""
    name = (message.document.file_name if message.document else None) or ""
    export = Path(name).suffix.lower() in (".json", ".html", ".htm", ".zip")
    return export and not message.caption and is_admin(message, context.admins)


@router.message(ChatCommand("import", chats=PRIVATE), flags=ADMINS_ONLY)
@router.message(IN_PRIVATE, F.document, _is_export_from_admin)
async def _on_import(
    message: Message, bot: Bot, context: AppContext, imports: ImportRunner, words: Translator,
    given: str | None = None,
) -> None:  # fmt: skip
    """Begin an import; without the command, or without a document, say how that is done."""
    document = message.document or (message.reply_to_message.document if message.reply_to_message else None)
    if document is None or given is None:
        await message.reply(**words.rich("import-how", example=Code("/import")).as_kwargs())
        return
    order, named = ImportOrder(document, message, words), _CHANNEL_PATTERN.fullmatch(given)
    if given and not named:
        await message.reply(words("import-other-chat", file=order.file))
        return
    if named and named["id"]:  # ids in links and in Telegram Desktop have no sign
        order = replace(order, chat_id=int(named["id"] if named["id"].startswith("-") else f"-100{named['id']}"))
    elif named:
        order = replace(order, username=named["name"])
        if known := channels.find_channel(f"@{named['name']}", await channels.load_channels(context.archive)):
            order = replace(order, chat_id=known.chat_id)
        else:
            with suppress(*TELEGRAM_ERRORS, TimeoutError):
                async with asyncio.timeout(_LOOKUP_TIMEOUT_SECONDS):
                    found = await bot.get_chat(f"@{named['name']}")
                if found.type in ("channel", "supergroup"):
                    order = replace(order, chat_id=found.id, username=found.username)
    if (document.file_size or 0) > MAX_DOCUMENT_BYTES:
        await message.reply(words("import-too-big", file=order.file))
    elif not imports.begin(order):
        await message.reply(words("import-busy"))


@router.callback_query(on_press("import-stop"), flags=ADMINS_ONLY)
async def _press_stop(pressed: CallbackQuery, callback_data: Press, imports: ImportRunner, words: Translator) -> None:
    stopped = imports.cancel(callback_data.token)
    await pressed.answer(words("import-stopping" if stopped else "import-over"))
