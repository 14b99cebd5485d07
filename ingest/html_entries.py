"""A message of a page of Telegram Desktop as the entry result.json has for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from ingest.html_text import Text

__all__ = ["MEDIA", "Draft", "Entry", "entry_of", "person", "written_at"]

Entry = dict[str, Any]

_REPLY = re.compile(r"#go_to_message([0-9]{1,16})\Z")
_DATE = re.compile(r"(\d\d)\.(\d\d)\.(\d{4}) (\d\d):(\d\d):(\d\d)( UTC(?:([+-]\d\d):?(\d\d))?)?", re.ASCII)
_VIA = re.compile(r" via @\w+\Z")
_NOBODY = "Deleted Account"
_NO_FILE = "(File not included.)"

# class -> `media_type` of result.json
_TYPES = {
    "sticker_wrap": "sticker",
    "animated_wrap": "animation",
    "video_file_wrap": "video_file",
    "media_video": "video_file",
    "media_voice_message": "voice_message",
    "media_audio_file": "audio_file",
}
# class -> the key of result.json that says as much
_KEYS = {
    "photo_wrap": "photo",
    "media_photo": "photo",
    "media_file": "file",
    "media_contact": "contact_information",
    "media_location": "location_information",
    "media_live_location": "location_information",
    "media_venue": "place_name",
    "media_game": "game_title",
    "media_invoice": "invoice_information",
    "media_giveaway": "giveaway_information",
    "media_poll": "poll",
    "media_call": "call",
}
MEDIA = frozenset({*_TYPES, *_KEYS})
# What shares its class with photos and videos.
_TITLED = {"Sticker": "sticker", "Animation": "animation", "Video message": "video_message"}
_NAMELESS = frozenset({"", "File", "Audio file"})
# Between performer and title of a piece of music that has both.
_PERFORMED = " – "


@dataclass(slots=True)
class Draft:
    """A message while it is read. `blocks`: class -> texts; `broken`: its tags do not fit together."""

    id: int
    service: bool
    date: str = ""
    forwarded: bool = False
    media: str = ""
    href: str = ""
    blocks: dict[str, list[Text]] = field(default_factory=dict)
    broken: bool = False

    def one(self, name: str) -> str:
        """The first text of this class, trimmed."""
        texts = self.blocks.get(name)
        return texts[0].plain().strip() if texts else ""


def written_at(title: str) -> datetime | None:
    """The date in a title attribute; without a zone where the title has none, as in exports before 2022."""
    found = _DATE.fullmatch(title)
    if not found:
        return None
    day, month, year, hour, minute, second = map(int, found.groups()[:6])
    try:
        date = datetime(year, month, day, hour, minute, second)
        return date.replace(tzinfo=_zone(found[8] or "+00", found[9] or "00")) if found[7] else date
    except ValueError:
        return None


def _zone(hours: str, minutes: str) -> timezone:
    offset = timedelta(hours=int(hours[1:]), minutes=int(minutes))
    return timezone(-offset if hours.startswith("-") else offset)


def person(name: str) -> str | None:
    """Who a name line names."""
    name = _VIA.sub("", name).rstrip()
    return None if name in ("", _NOBODY) else name


def entry_of(draft: Draft, sender: str | None, origin: str | None) -> Entry:
    """The entry; one that cannot be read where the message is broken. `rich_message` says that formatting was dropped.

    `sender` and `origin` are who wrote it and where it is forwarded from: in joined messages other ones say so.
    """
    if draft.service or draft.media == "media_call":
        return {"id": draft.id, "type": "service"}
    if draft.broken:
        return {"id": draft.id, "type": "message"}
    text = next(iter(draft.blocks.get("text", ())), None)
    entry = {
        "id": draft.id,
        "type": "message",
        "from": sender,
        "author": draft.one("signature"),
        "text_entities": text.parts() if text else [],
    }
    if text and text.rich:
        entry["rich_message"] = True
    if draft.forwarded:
        entry["forwarded_from"] = origin
        entry["forwarded_date"] = next((name.date for name in draft.blocks.get("origin", ())), "")
    return entry | _date(draft) | _reply(draft) | _media(draft)


def _date(draft: Draft) -> Entry:
    date = written_at(draft.date)
    if date is None:
        return {}
    return {"date_unixtime": str(int(date.timestamp()))} if date.tzinfo else {"date": date.isoformat()}


def _reply(draft: Draft) -> Entry:
    links = [link for text in draft.blocks.get("reply_to", ()) for link in text.links()]
    found = next(filter(None, map(_REPLY.search, links)), None)
    return {"reply_to_message_id": int(found[1])} if found else {}


def _media(draft: Draft) -> Entry:
    if not draft.media:
        return {}
    title, file = draft.one("title"), draft.href or _NO_FILE
    kind = _TITLED.get(title) if draft.media in ("media_photo", "media_video") else None
    kind = kind or _TYPES.get(draft.media)
    if kind or draft.media == "media_file":
        entry = {"file": file} | ({"media_type": kind} if kind else {})
        named = title not in _NAMELESS and (draft.media == "media_file" or _PERFORMED not in title)
        return entry | ({"file_name": title} if named and draft.media in ("media_file", "media_audio_file") else {})
    if draft.media == "media_poll":
        return _listed(draft)
    if draft.media == "media_contact":
        # the number, then " - vCard" where there is one
        return {"contact_information": {"first_name": title, "phone_number": draft.one("details")}}
    if draft.media == "media_venue":
        return {"place_name": title, "address": draft.one("description")}
    if draft.media == "media_invoice" and not title:
        return {"paid_stars_amount": draft.one("details")}
    return {_KEYS[draft.media]: title or file}


def _listed(draft: Draft) -> Entry:
    answers = [{"text": text.plain().removeprefix("- ").rstrip()} for text in draft.blocks.get("answer", ())]
    questions = draft.blocks.get("question")
    listed = {"question": questions[0].plain() if questions else "", "answers": answers}
    return {"todo_list" if draft.one("details") == "To-do List" else "poll": listed}
