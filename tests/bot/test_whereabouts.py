from __future__ import annotations

import pytest
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import CopyMessage

from bot.whereabouts import Whereabouts, whereabouts

CALL = CopyMessage(chat_id=1, from_chat_id=-1001, message_id=2)


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (None, Whereabouts.THERE),
        (TelegramBadRequest(CALL, "Bad Request: message to copy not found"), Whereabouts.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to forward not found"), Whereabouts.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to be replied not found"), Whereabouts.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to react not found"), Whereabouts.GONE),
        (
            TelegramBadRequest(CALL, "Bad Request: message has protected content and can't be forwarded"),
            Whereabouts.UNCOPIED,
        ),
        (TelegramBadRequest(CALL, "Bad Request: CHAT_FORWARDS_RESTRICTED"), Whereabouts.UNCOPIED),
        (TelegramBadRequest(CALL, "Bad Request: message can't be copied"), Whereabouts.UNCOPIED),
        (TelegramForbiddenError(CALL, "Forbidden: bot is not a member of the channel chat"), Whereabouts.CLOSED),
        (TelegramForbiddenError(CALL, "Forbidden: bot was kicked from the channel chat"), Whereabouts.CLOSED),
        (TelegramBadRequest(CALL, "Bad Request: chat not found"), Whereabouts.CLOSED),
        (TelegramBadRequest(CALL, "Bad Request: CHANNEL_PRIVATE"), Whereabouts.CLOSED),
        (TelegramForbiddenError(CALL, "Forbidden: bot was blocked by the user"), Whereabouts.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: MESSAGE_ID_INVALID"), Whereabouts.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: message thread not found"), Whereabouts.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: message to edit not found"), Whereabouts.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: a sentence of tomorrow"), Whereabouts.UNSURE),
        (TelegramRetryAfter(CALL, "Too Many Requests", retry_after=5), Whereabouts.UNSURE),
        (TelegramServerError(CALL, "Internal Server Error"), Whereabouts.UNSURE),
        (TelegramNetworkError(CALL, "message to copy not found? no: timeout"), Whereabouts.UNSURE),
        (ClientDecodeError("no JSON", ValueError("x"), "<html>message to copy not found</html>"), Whereabouts.UNSURE),
        (TimeoutError(), Whereabouts.UNSURE),
    ],
)
def test_only_telegrams_own_words_say_that_a_post_is_gone(failure: Exception | None, where: Whereabouts) -> None:
    assert whereabouts(failure) is where
