"""Admin notifications: gaps, repaired indexes, failing jobs, logged errors; in private, in the admin's language.

Errors are collected, because one cause often fails many things; the same error, but for its numbers, is told again
after six hours at the earliest.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import InlineKeyboardMarkup, User
from aiogram.utils.formatting import Bold, Text, as_list

from bot.app_context import AppContext
from bot.background import run_in_background
from bot.i18n import Translator, choose_interface_language, get_translator
from bot.logs import PrivacyFilter
from bot.telegram.session import PERMANENT_ERRORS, get_backoff, send_in_background
from bot.views.answer import link_channel_title
from bot.views.channel_card import format_gap
from bot.views.text import cut_lines, strip_control_characters
from ingest import outages
from rag_core.storage import Archive, readers

_GATHER_SECONDS = 30.0  # one cause often makes many things fail
_REPEAT_SECONDS = 6 * 3600.0  # until the same error is sent again
_MIN_INTERVAL_SECONDS = 600.0  # between any two messages
_MAX_KINDS = 1000  # kinds of errors remembered
_MAX_LINE_LENGTH = 200  # characters per line
_MAX_TRYING_SECONDS = 120.0  # a notice

_OWN_LOGGERS = ("bot.", "ingest.", "rag_core.")
# Failures of jobs are sent separately (bot/jobs.py), or shown in /stats.
_JOB_LOGGER = "bot.jobs"
_NUMBER_PATTERN = re.compile(r"\d+")


class _ErrorCollector(logging.Handler):
    """Log handler that counts errors, from any thread. Errors that differ only in numbers count as the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.ERROR)
        self.addFilter(PrivacyFilter())
        self.rung = asyncio.Event()
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, str] = {}
        self._sent_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Count an error, unless it comes from other code or was sent recently."""
        if not record.name.startswith(_OWN_LOGGERS) or record.name == _JOB_LOGGER:
            return
        line = record.getMessage().split("\n", 1)[0][:_MAX_LINE_LENGTH]
        with suppress(RuntimeError):  # the loop has ended: no admin can be notified any more
            self._loop.call_soon_threadsafe(self._count, line)

    def _count(self, line: str) -> None:
        kind = _NUMBER_PATTERN.sub("#", line)
        if outages.get_monotonic_time() - self._sent_at.get(kind, float("-inf")) < _REPEAT_SECONDS:
            return
        if kind in self._lines or len(self._lines) < _MAX_KINDS:
            self._lines.setdefault(kind, line)
            self._counts[kind] += 1
            self.rung.set()

    def waiting(self) -> outages.ErrorsLogged:
        """Collected errors, most frequent first."""
        counted = self._counts.most_common()
        return outages.ErrorsLogged(tuple((self._lines[kind], times) for kind, times in counted))

    def mark_sent(self) -> None:
        """Mark the collected errors as sent: the same ones are not sent again for some hours."""
        now = outages.get_monotonic_time()
        self._sent_at = {kind: at for kind, at in self._sent_at.items() if now - at < _REPEAT_SECONDS}
        self._sent_at |= dict.fromkeys(self._counts, now)
        self._counts.clear()
        self._lines.clear()
        self.rung.clear()


@asynccontextmanager
async def notify_of_errors(tell: outages.NotifyAdmins) -> AsyncIterator[None]:
    """Notify the admins of errors while the block lasts. Where no admin is reached, it is tried again later."""
    collector, root = _ErrorCollector(asyncio.get_running_loop()), logging.getLogger()

    async def send_digests() -> None:
        while True:
            await collector.rung.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            try:
                if await tell(collector.waiting()):
                    collector.mark_sent()
            except Exception as exc:  # the loop must go on, and must not report its own failure
                log.warning("admins could not be told of errors: %s", exc)
            await asyncio.sleep(_MIN_INTERVAL_SECONDS)

    root.addHandler(collector)
    try:
        async with run_in_background(send_digests()):
            yield
    finally:
        root.removeHandler(collector)


_MAX_LINES = 10

log = logging.getLogger(__name__)


async def get_user_translator(archive: Archive, user_id: int, default: str) -> Translator:
    """Translator for a user who did not write just now: Telegram reports no languages, their last question has one."""
    return get_translator(await readers.get_user_language(archive, user_id) or default)


async def send_notice(bot: Bot, user_id: int, text: Text, buttons: InlineKeyboardMarkup | None = None) -> bool:
    """Send a user a notice, trying for two minutes; False where they never wrote to the bot, or blocked it."""
    end = outages.get_monotonic_time() + _MAX_TRYING_SECONDS
    while True:
        try:
            with send_in_background():
                await bot.send_message(user_id, **text.as_kwargs(), reply_markup=buttons)
            return True
        except (TelegramAPIError, ClientDecodeError) as exc:
            wait = get_backoff(bot).get_wait(user_id)
            if isinstance(exc, PERMANENT_ERRORS) or outages.get_monotonic_time() + wait > end:
                log.info("user %d could not be told: %s", user_id, exc)
                return False
        await asyncio.sleep(wait)


async def send_to_admins(
    bot: Bot,
    context: AppContext,
    format_notice: Callable[[Translator], Text],
    buttons: Callable[[Translator], InlineKeyboardMarkup | None] | None = None,
    actor: User | None = None,
) -> bool:
    """Send a notice to all admins side by side; True where one was reached.

    The admin who is the `actor` reads it in the language of their Telegram, the others in that of their questions.
    """
    default = context.settings.bot.language
    admins = {admin: await get_user_translator(context.archive, admin, default) for admin in context.admins}
    if actor is not None and actor.id in admins:
        admins[actor.id] = get_translator(choose_interface_language(actor.language_code, default))
    sending = [
        send_notice(bot, admin, format_notice(words), buttons(words) if buttons else None)
        for admin, words in admins.items()
    ]
    return any(await asyncio.gather(*sending))


async def notify_admins(notice: outages.AdminNotice, *, bot: Bot, context: AppContext) -> bool:
    """Send a notice to the admins; True where one was reached; whom it does not reach is logged."""
    return await send_to_admins(bot, context, partial(_format_notice, notice, context))


def _format_notice(notice: outages.AdminNotice, context: AppContext, words: Translator) -> Text:
    match notice:
        case outages.GapsFound(gaps):
            advice = "gaps-fetch" if context.history else "gaps-fill"
            zone = context.settings.bot.zone
            lines = [Text(link_channel_title(one, words), ": ", format_gap(gap, words, zone)) for one, gap in gaps]
            found = as_list(*cut_lines(lines, _MAX_LINES, words))
            return as_list(words("gaps-found", count=len(gaps)), found, words.rich(advice), sep="\n\n")
        case outages.PostsMissing(channel, count):
            return words.rich("posts-missing", title=link_channel_title(channel, words), count=count)
        case outages.IndexesRepaired(again, out):
            return Text(words("mended", again=again, out=out))
        case outages.ErrorsLogged():
            head = Bold(words("errors-told", count=sum(times for _, times in notice.lines)))
            counted = [words("errors-times", line=strip_control_characters(x), times=n) for x, n in notice.lines]
            shown = (f"• {line}" for line in cut_lines(counted, _MAX_LINES, words))
            return as_list(head, *shown, "", words("errors-more"))
        case outages.JobFailing(job, reason):
            return words.rich("job-failing", job=Bold(words("job", name=job)), reason=reason)
