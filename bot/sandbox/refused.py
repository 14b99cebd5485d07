"""What Telegram says when it does not do what it was asked: codes and sentences.

The wording follows the real server (https://github.com/tdlib/telegram-bot-api) as far as we know it;
it was not compared with live Telegram. What is wrong with an entity or a draft is said in our own words.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Refused", "bad", "conflict", "forbidden", "missing"]


class Refused(Exception):
    """A call that ends with `{"ok": false}`: HTTP status, sentence, and `parameters` if any."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        """The JSON object of the answer."""
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return answer | ({"parameters": self.parameters} if self.parameters else {})


def bad(what: str) -> Refused:
    """400: the request itself is wrong."""
    return Refused(400, f"Bad Request: {what}")


def forbidden(what: str) -> Refused:
    """403: the bot may not."""
    return Refused(403, f"Forbidden: {what}")


def missing(what: str) -> Refused:
    """404: there is no such method or file."""
    return Refused(404, f"Not Found: {what}")


def conflict(what: str) -> Refused:
    """409: somebody else already receives the updates."""
    return Refused(409, f"Conflict: {what}")
