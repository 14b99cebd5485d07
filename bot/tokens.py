"""Bot tokens stay out of every log line."""

from __future__ import annotations

import logging
import re
import traceback

__all__ = ["TokenFilter"]

# Bot tokens as @BotFather writes them: https://core.telegram.org/bots/features#authentication
_TOKEN = re.compile(r"\d+:[\w-]{30,}")


class TokenFilter(logging.Filter):
    """For every log handler: hides bot tokens, which Telegram's addresses contain, in texts and tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record without tokens; always True."""
        record.msg, record.args = _TOKEN.sub("<token>", record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if record.exc_text:
            record.exc_text = _TOKEN.sub("<token>", record.exc_text)
        return True
