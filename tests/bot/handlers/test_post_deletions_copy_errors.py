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

from bot.handlers.post_deletions import PostPresence, classify_copy_result

CALL = CopyMessage(chat_id=1, from_chat_id=-1001, message_id=2)


@pytest.mark.parametrize(
    ("failure", "where"),
    [
        (None, PostPresence.THERE),
        (TelegramBadRequest(CALL, "Bad Request: message to copy not found"), PostPresence.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to forward not found"), PostPresence.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to be replied not found"), PostPresence.GONE),
        (TelegramBadRequest(CALL, "Bad Request: message to react not found"), PostPresence.GONE),
        (
            TelegramBadRequest(CALL, "Bad Request: message has protected content and can't be forwarded"),
            PostPresence.UNCOPIED,
        ),
        (TelegramBadRequest(CALL, "Bad Request: CHAT_FORWARDS_RESTRICTED"), PostPresence.UNCOPIED),
        (TelegramBadRequest(CALL, "Bad Request: message can't be copied"), PostPresence.UNCOPIED),
        (TelegramForbiddenError(CALL, "Forbidden: bot is not a member of the channel chat"), PostPresence.CLOSED),
        (TelegramForbiddenError(CALL, "Forbidden: bot was kicked from the channel chat"), PostPresence.CLOSED),
        (TelegramBadRequest(CALL, "Bad Request: chat not found"), PostPresence.CLOSED),
        (TelegramBadRequest(CALL, "Bad Request: CHANNEL_PRIVATE"), PostPresence.CLOSED),
        (TelegramForbiddenError(CALL, "Forbidden: bot was blocked by the user"), PostPresence.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: MESSAGE_ID_INVALID"), PostPresence.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: message thread not found"), PostPresence.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: message to edit not found"), PostPresence.UNSURE),
        (TelegramBadRequest(CALL, "Bad Request: a sentence of tomorrow"), PostPresence.UNSURE),
        (TelegramRetryAfter(CALL, "Too Many Requests", retry_after=5), PostPresence.UNSURE),
        (TelegramServerError(CALL, "Internal Server Error"), PostPresence.UNSURE),
        (TelegramNetworkError(CALL, "message to copy not found? no: timeout"), PostPresence.UNSURE),
        (ClientDecodeError("no JSON", ValueError("x"), "<html>message to copy not found</html>"), PostPresence.UNSURE),
        (TimeoutError(), PostPresence.UNSURE),
    ],
)
def test_only_telegrams_own_words_say_that_a_post_is_gone(failure: Exception | None, where: PostPresence) -> None:
    assert classify_copy_result(failure) is where
