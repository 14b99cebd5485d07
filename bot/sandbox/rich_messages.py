"""Rich messages as the server takes them: exactly one form, and the limits of blocks, characters, depth and columns.

aiogram's models have checked the types before. The sandbox reads no markup: of the three forms it takes blocks alone.
Limits: https://core.telegram.org/bots/api#rich-message-limits; the wording of the errors is the sandbox's own.
"""

from collections.abc import Iterator
from typing import Any

from aiogram.types import InputRichMessage

from bot.sandbox.messages import LINK_SCHEMES, Json, bad_request

_MAX_CHARACTERS, _MAX_BLOCKS, _MAX_DEPTH, _MAX_COLUMNS = 32_768, 500, 16, 20


def prepare_rich_message(given: InputRichMessage, *, draft: bool = False) -> Json:
    """Check a rich message and convert it to the form that messages store; 400 for what Telegram refuses."""
    forms = [name for name in ("html", "markdown", "blocks") if getattr(given, name) is not None]
    if len(forms) != 1:
        raise bad_request("exactly one of html, markdown and blocks must be used in a rich message")
    if forms != ["blocks"]:
        raise bad_request("can't parse rich message: the sandbox reads no markup, send blocks")
    dumped: Json = given.model_dump(mode="json", exclude_none=True, include={"blocks", "is_rtl"})
    blocks = dumped["blocks"]
    if not blocks:
        raise bad_request("rich message is empty")
    parts = list(_walk(blocks, 0))
    objects = [part for part, _ in parts if isinstance(part, dict)]
    kinds = [part.get("type") for part in objects]
    if "thinking" in kinds and not draft:
        raise bad_request("a thinking block can be sent in a draft only")
    if sum(len(part) for part, _ in parts if isinstance(part, str)) > _MAX_CHARACTERS:
        raise bad_request("rich message is too long")
    rows = [row for part in objects for row in part.get("cells", ())]
    if any(len(row) > _MAX_COLUMNS for row in rows):
        raise bad_request("a table of the rich message has too many columns")
    nested = [block for part in objects for block in (*part.get("blocks", ()), *part.get("items", ()))]
    if len(blocks) + len(nested) + len(rows) > _MAX_BLOCKS:
        raise bad_request("rich message has too many blocks")
    if max(depth for _, depth in parts) > _MAX_DEPTH:
        raise bad_request("rich message is nested too deeply")
    names = {part["name"] for part in objects if part.get("type") == "reference"}
    if unknown := {part["reference_name"] for part in objects if part.get("type") == "reference_link"} - names:
        raise bad_request(f"rich message has no reference {unknown.pop()!r}")
    for part in objects:
        if part.get("type") == "url" and part["url"].partition("://")[0].lower() not in LINK_SCHEMES:
            raise bad_request(f"URL {part['url']!r} in the rich message is invalid")
    return dumped


_TEXTS = ("text", "credit", "caption", "summary")


def _walk(value: Any, depth: int) -> Iterator[tuple[Any, int]]:
    """All blocks, cells and pieces of text, with the number of objects around each."""
    if isinstance(value, list):
        for one in value:
            yield from _walk(one, depth)
        return
    yield value, depth
    if isinstance(value, dict):
        for name in (*_TEXTS, "blocks", "items", "cells"):
            yield from _walk(value.get(name, []), depth + 1)
