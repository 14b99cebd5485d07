"""Whether a post is still in its channel, told from how copying it (or replying to it) went. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError

__all__ = ["Whereabouts", "whereabouts"]


class Whereabouts(StrEnum):
    """What one call told of a post. Only GONE makes a post suspected, only THERE clears it."""

    THERE = "there"
    GONE = "gone"
    UNCOPIED = "uncopied"
    CLOSED = "closed"
    UNSURE = "unsure"


# The sentences of https://github.com/tdlib/telegram-bot-api; MESSAGE_ID_INVALID is not among them, because
# Telegram says it of posts that are there as well, where what was asked for cannot be done with them.
_SIGNS = (
    (Whereabouts.UNCOPIED, r"protected content|forwards_restricted|message can't be (copied|forwarded)"),
    (Whereabouts.GONE, r"message to (copy|forward|be replied|react) not found|(replied|reply) message not found"),
    (
        Whereabouts.CLOSED,
        r"bot (is not a member|was kicked)|chat not found|channel_private|not enough rights|need administrator rights"
        r"|chat_admin_required|have no rights",
    ),
)


def whereabouts(failure: Exception | None) -> Whereabouts:
    """What a call about the post tells: it went well (None), or failed like this.

    Whatever is not said in so many words is UNSURE: the network, a limit, a sentence of tomorrow.
    """
    if failure is None:
        return Whereabouts.THERE
    if not isinstance(failure, TelegramBadRequest | TelegramForbiddenError):
        return Whereabouts.UNSURE
    said = failure.message.lower().replace("’", "'")
    return next((where for where, sign in _SIGNS if re.search(sign, said)), Whereabouts.UNSURE)
