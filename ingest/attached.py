"""What people read of a poll, a checklist, a place or a contact, flattened to text: live and exported alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.fields import box, words
from ingest.rich import flatten

__all__ = ["attached", "attached_in_export"]


def attached(message: Mapping[str, Any]) -> str:
    """The text of what is attached to a live message; a poll's description is not among it."""
    if poll := box(message.get("poll")):
        return _lines(_listed(poll), words(poll.get("explanation")))
    if checklist := box(message.get("checklist")):
        return _listed(checklist)
    if venue := box(message.get("venue")):
        return _lines(words(venue.get("title")), words(venue.get("address")))
    return _contact(box(message.get("contact")))


def attached_in_export(message: Mapping[str, Any]) -> str:
    """The same of an exported message, which has a poll's description as its text, and no explanations."""
    if listed := box(message.get("poll") or message.get("todo_list")):
        return _listed(listed)
    if place := words(message.get("place_name")):
        return _lines(place, words(message.get("address")))
    return _contact(box(message.get("contact_information")))


def _lines(*texts: str | None) -> str:
    return "\n".join(filter(None, texts))


def _listed(value: Mapping[str, Any]) -> str:
    """A poll or checklist: what it asks, then one line "— option" for each."""
    head, _ = flatten(value.get("question") or value.get("title"))
    lists = (value.get(key) for key in ("options", "answers", "tasks"))
    options = next((found for found in lists if isinstance(found, list)), ())
    lines = [f"— {flatten(box(option).get('text'))[0]}" for option in options]
    return "\n".join([head, *lines])


def _contact(value: Mapping[str, Any]) -> str:
    """Name, then number as +digits: Telegram Desktop groups them, the Bot API may leave the + out."""
    name = " ".join(filter(None, (words(value.get(key)) for key in ("first_name", "last_name"))))
    number = "".join(filter(str.isdecimal, words(value.get("phone_number")) or ""))
    return _lines(name, number and f"+{number}")
