"""Admin notifications: gaps, repaired indexes, failing jobs, logged errors; in private, in the admin's language.

Errors are collected for 30 s, because one cause often fails many things, and sent in one message, at most every ten
minutes. Errors that differ only in numbers are the same error, which is repeated after six hours at the earliest.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.utils.formatting import Bold, Text, as_list

from bot.i18n import Translator, get_translator
from bot.logs import SecretFilter, TextFilter
from bot.settings import BotSettings
from bot.views.answer import link_channel_title
from bot.views.post_phrases import strip_control_characters
from ingest.heartbeat import (
    AdminNotice,
    ErrorsLogged,
    GapsFound,
    IndexesRepaired,
    JobFailing,
    NotifyAdmins,
    PostsMissing,
    get_monotonic_time,
)
from rag_core.storage import Archive, monitoring_stats
from rag_core.storage.gaps import Gap
from rag_core.types import Channel

_GATHER_SECONDS = 30.0  # one cause often makes many things fail
_REPEAT_SECONDS = 6 * 3600.0  # until the same error is sent again
_MIN_INTERVAL_SECONDS = 600.0  # between any two messages
_MAX_KINDS = 1000  # kinds of errors remembered
_MAX_LINE_LENGTH = 200  # characters per line

_OWN_LOGGERS = ("bot.", "ingest.", "rag_core.")
# Failures of jobs are sent separately (ingest/job_log.py), or shown in /stats.
_LEDGER_LOGGER = "ingest.job_log"
_NUMBER_PATTERN = re.compile(r"\d+")


class _ErrorCollector(logging.Handler):
    """Log handler that counts errors, from any thread. Errors that differ only in numbers count as the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.ERROR)
        self.addFilter(TextFilter())  # before the other filter: it needs the arguments of the message
        self.addFilter(SecretFilter())
        self.rung = asyncio.Event()
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, str] = {}
        self._sent_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Count an error, unless it comes from other code or was sent recently."""
        if not record.name.startswith(_OWN_LOGGERS) or record.name == _LEDGER_LOGGER:
            return
        line = record.getMessage().split("\n", 1)[0][:_MAX_LINE_LENGTH]
        with suppress(RuntimeError):  # the loop has ended: no admin can be notified any more
            self._loop.call_soon_threadsafe(self._count, line)

    def _count(self, line: str) -> None:
        kind = _NUMBER_PATTERN.sub("#", line)
        if get_monotonic_time() - self._sent_at.get(kind, float("-inf")) < _REPEAT_SECONDS:
            return
        if kind in self._lines or len(self._lines) < _MAX_KINDS:
            self._lines.setdefault(kind, line)
            self._counts[kind] += 1
            self.rung.set()

    def waiting(self) -> ErrorsLogged:
        """Collected errors, most frequent first."""
        counted = self._counts.most_common()
        return ErrorsLogged(tuple((self._lines[kind], times) for kind, times in counted))

    def mark_sent(self) -> None:
        """Mark the collected errors as sent: the same ones are not sent again for some hours."""
        now = get_monotonic_time()
        self._sent_at = {kind: at for kind, at in self._sent_at.items() if now - at < _REPEAT_SECONDS}
        self._sent_at |= dict.fromkeys(self._counts, now)
        self._counts.clear()
        self._lines.clear()
        self.rung.clear()


@asynccontextmanager
async def notify_of_errors(tell: NotifyAdmins) -> AsyncIterator[None]:
    """Notify the admins of errors while the block lasts. Where no admin is reached, it is tried again later."""
    collector, root = _ErrorCollector(asyncio.get_running_loop()), logging.getLogger()
    root.addHandler(collector)
    sender = asyncio.create_task(_send_error_digests(collector, tell))
    try:
        yield
    finally:
        root.removeHandler(collector)
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)


async def _send_error_digests(collector: _ErrorCollector, tell: NotifyAdmins) -> None:
    while True:
        await collector.rung.wait()
        await asyncio.sleep(_GATHER_SECONDS)
        try:
            if await tell(collector.waiting()):
                collector.mark_sent()
        except Exception as exc:  # the loop must go on, and must not report its own failure
            logging.getLogger(__name__).warning("admins could not be told of errors: %s", exc)
        await asyncio.sleep(_MIN_INTERVAL_SECONDS)


_MAX_LINES = 10

log = logging.getLogger(__name__)


class AdminNotifier:
    """Admin notification: calling it sends a notice to the admins; True where at least one was reached."""

    def __init__(
        self, bot: Bot, settings: BotSettings, archive: Archive, admins: Collection[int], *, fetches: bool = False
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._archive = archive
        self._admins = admins
        self._gap_advice = "gaps-fetch" if fetches else "gaps-fill"

    async def __call__(self, notice: AdminNotice) -> bool:
        """Send a notice to every admin. Failures (blocked, never wrote to the bot) are logged."""
        reached = False
        for admin in self._admins:
            # Telegram does not report a user's language unasked; the language of their last question is a good guess.
            lang = await monitoring_stats.get_user_language(self._archive, admin) or self._settings.language
            text = self._format_notice(notice, get_translator(lang))
            try:
                await self._bot.send_message(admin, **text.as_kwargs())
                reached = True
            except (TelegramAPIError, ClientDecodeError) as exc:
                log.info("admin %d could not be told: %s", admin, exc)
        return reached

    def _format_notice(self, notice: AdminNotice, words: Translator) -> Text:
        match notice:
            case GapsFound(gaps):
                lines = as_list(*self._format_gaps(gaps, words))
                return as_list(words("gaps-found", count=len(gaps)), lines, words.rich(self._gap_advice), sep="\n\n")
            case PostsMissing(channel, count):
                return words.rich("posts-missing", title=link_channel_title(channel, words), count=count)
            case IndexesRepaired(again, out):
                return Text(words("mended", again=again, out=out))
            case ErrorsLogged():
                return self._format_errors(notice, words)
            case JobFailing(job, reason):
                return words.rich("job-failing", job=Bold(words("job", name=job)), reason=reason)

    def _format_errors(self, errors: ErrorsLogged, words: Translator) -> Text:
        head = Bold(words("errors-told", count=sum(times for _, times in errors.lines)))
        lines = [
            words("errors-times", line=strip_control_characters(line), times=times)
            for line, times in errors.lines[:_MAX_LINES]
        ]
        if (more := len(errors.lines) - _MAX_LINES) > 0:
            lines.append(words("titles-more", more=more))
        return as_list(head, *(f"• {line}" for line in lines), "", words("errors-more"))

    def _format_gaps(self, gaps: tuple[tuple[Channel, Gap], ...], words: Translator) -> Iterator[Text]:
        for channel, gap in gaps[:_MAX_LINES]:
            yield Text(link_channel_title(channel, words), ": ", format_gap(gap, words, self._settings))
        if (more := len(gaps) - _MAX_LINES) > 0:
            yield Text(words("titles-more", more=more))


def format_gap(gap: Gap, words: Translator, settings: BotSettings) -> str:
    """Format the period in which posts may be missing."""
    until = words.date(gap.until, settings.zone)
    if gap.since is None:
        return words("gap-before", until=until)
    return words("gap-between", since=words.date(gap.since, settings.zone), until=until)
