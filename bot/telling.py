"""Tells admins what nobody watches: gaps, repairs of the indexes, jobs that fail. In private, in their language."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.utils.formatting import Bold, Text, as_list

from bot.plain import plain
from bot.settings import BotSettings
from bot.titles import titled
from bot.words import Words, words_for
from ingest.notices import Errors, Failing, GapsFound, Mended, Notice
from rag_core.doors.archive import Archive, figures
from rag_core.doors.archive.gaps import Gap
from rag_core.types import Channel

__all__ = ["Telling", "gap_between"]

_MOST_LINES = 10

log = logging.getLogger(__name__)


class Telling:
    """Called with a notice, it reaches the admins; True where one of them was reached."""

    def __init__(self, bot: Bot, settings: BotSettings, archive: Archive, admins: Collection[int]) -> None:
        self._bot = bot
        self._settings = settings
        self._archive = archive
        self._admins = admins

    async def __call__(self, notice: Notice) -> bool:
        """Send the notice to every admin. Whom it does not reach (blocked, never written to) is in the log."""
        reached = False
        for admin in self._admins:
            # Telegram tells nobody's language unasked; the language of their last question is a good guess.
            lang = await figures.language_of(self._archive, admin) or self._settings.language
            said = self._said(notice, words_for(lang))
            try:
                await self._bot.send_message(admin, **said.as_kwargs())
                reached = True
            except (TelegramAPIError, ClientDecodeError) as exc:
                log.info("admin %d could not be told: %s", admin, exc)
        return reached

    def _said(self, notice: Notice, words: Words) -> Text:
        match notice:
            case GapsFound(gaps):
                lines = as_list(*self._lines(gaps, words))
                return as_list(words("gaps-found", count=len(gaps)), lines, words.rich("gaps-fill"), sep="\n\n")
            case Mended(again, out):
                return Text(words("mended", again=again, out=out))
            case Errors():
                return self._errors(notice, words)
            case Failing(job, reason):
                return words.rich("job-failing", job=Bold(words("job", name=job)), reason=reason)

    def _errors(self, errors: Errors, words: Words) -> Text:
        head = Bold(words("errors-told", count=sum(times for _, times in errors.lines)))
        lines = [words("errors-times", line=plain(line), times=times) for line, times in errors.lines[:_MOST_LINES]]
        if (more := len(errors.lines) - _MOST_LINES) > 0:
            lines.append(words("titles-more", more=more))
        return as_list(head, *(f"• {line}" for line in lines), "", words("errors-more"))

    def _lines(self, gaps: tuple[tuple[Channel, Gap], ...], words: Words) -> Iterator[Text]:
        for channel, gap in gaps[:_MOST_LINES]:
            yield Text(titled(channel, words), ": ", gap_between(gap, words, self._settings))
        if (more := len(gaps) - _MOST_LINES) > 0:
            yield Text(words("titles-more", more=more))


def gap_between(gap: Gap, words: Words, settings: BotSettings) -> str:
    """From when to when posts may be missing."""
    until = words.date(gap.until, settings.zone)
    if gap.since is None:
        return words("gap-before", until=until)
    return words("gap-between", since=words.date(gap.since, settings.zone), until=until)
