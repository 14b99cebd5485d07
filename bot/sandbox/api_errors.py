"""Bot API errors, as the server words them.

The wording follows the real server (https://github.com/tdlib/telegram-bot-api) as far as it is known; it was not
compared with live Telegram. Errors about an entity or a draft have a wording of their own.
"""

from __future__ import annotations

from typing import Any


class BotApiError(Exception):
    """Failed call, answered with `{"ok": false}`: HTTP status, description, and `parameters` if any."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        """Build the JSON object of the response."""
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return answer | ({"parameters": self.parameters} if self.parameters else {})


def bad_request(what: str) -> BotApiError:
    """Build a 400 error: the request itself is wrong."""
    return BotApiError(400, f"Bad Request: {what}")


def forbidden(what: str) -> BotApiError:
    """Build a 403 error: the bot lacks the permission."""
    return BotApiError(403, f"Forbidden: {what}")


def not_found(what: str) -> BotApiError:
    """Build a 404 error: there is no such method or file."""
    return BotApiError(404, f"Not Found: {what}")


def conflict(what: str) -> BotApiError:
    """Build a 409 error: another program already receives the updates."""
    return BotApiError(409, f"Conflict: {what}")
