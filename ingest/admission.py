"""Which chats of an export may come in, under which id, and who may then read them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from pathlib import Path

from ingest.fields import ID_LIMIT, words
from ingest.survey import Chat
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Visibility

__all__ = ["Admitted", "ImportOptions", "admit", "chat_of"]

# Telegram Desktop's type -> the Bot API's kind and what stands before the bare id. Others are private.
_KINDS = {
    "public_channel": ("channel", "-100"),
    "private_channel": ("channel", "-100"),
    "public_supergroup": ("supergroup", "-100"),
    "private_supergroup": ("supergroup", "-100"),
    "private_group": ("group", "-"),
}
_PRIVATE = ("private", "")
_USERNAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{3,31}")
# What stands in a link before the bare id or the username, and behind it: https://core.telegram.org/api/links
_LINK = re.compile(r"(?:https?://)?(?:t|telegram)\.me/(?:c/|s/)?([A-Za-z0-9_]+)(?:[/?].*)?|@?(-?[A-Za-z0-9_]+)")
# Exports of 2019-21 write ids with the kind of the peer above 32 bits.
_BARE = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`username` has no @; `zone` is where an old export without Unix times was made; `visibility` overrides.

    `chat` is the channel of a messages.html, which does not name it: an id as Telegram or its links write it,
    or the @username of a channel that is known. `title` overrides the one in the export.
    """

    username: str | None = None
    allow_private: bool = False
    visibility: Visibility | None = None
    zone: tzinfo = UTC
    chat: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A chat that comes in. `decided`: who may read it is set even where the channel is known already."""

    chat: Chat
    channel: Channel
    decided: bool


def admit(
    file: Path, chats: Sequence[Chat], known: Mapping[int, Channel], options: ImportOptions
) -> tuple[list[Admitted | None], list[str]]:
    """Each chat as it may come in, or None, and sentences about the latter. Raises `ImportRefused` if none may."""
    ids = [_chat_id(chat) for chat in chats]
    wanted = chat_of(options.chat, known) if options.chat else None
    if wanted is not None and wanted not in ids:
        raise ImportRefused(f"{file} is of another chat than --chat says. Leave it out: the file says it itself.")
    private = [chat.type not in _KINDS and not options.allow_private for chat in chats]
    # The same chat twice in one file is nothing Telegram Desktop writes.
    nameless = [chat_id is None or chat_id in ids[:n] for n, chat_id in enumerate(ids)]
    may = [not (a or b) for a, b in zip(private, nameless, strict=True)]
    if not any(may):
        raise ImportRefused(_refusal(file, any(private)))
    username = _username(options.username)
    if (username or options.title) and sum(may) > 1:
        option = "--username" if username else "--title"
        raise ImportRefused(f"{file} holds {sum(may)} chats, so {option} cannot say which one it means.")
    notes = []
    if left_out := sum(private):
        notes.append(f"Left out {left_out} private conversations: --allow-private lets them in.")
    if left_out := sum(b and not a for a, b in zip(private, nameless, strict=True)):
        notes.append(f"Left out {left_out} chats without an id of their own.")
    admitted = [
        _admitted(chat_id, chat, known.get(chat_id), username, options) if allowed and chat_id else None
        for chat, chat_id, allowed in zip(chats, ids, may, strict=True)
    ]
    notes += [
        f"{entry.channel.title}: Telegram calls it public, but its username is not in the export. With --username "
        "its links open for everybody."
        for entry in admitted
        if entry and _called_public(entry.chat) and not entry.channel.username
    ]
    return admitted, notes


def chat_of(given: str, known: Mapping[int, Channel]) -> int | None:
    """The Bot API's id of a channel that is named by id, link or username; None for a username nobody knows.

    Raises `ImportRefused` for what names nothing.
    """
    found = _LINK.fullmatch(given.strip())
    name = (found[1] or found[2]) if found else ""
    if re.fullmatch(r"-?[0-9]{1,15}", name, re.ASCII):
        # an id without a sign is the one in links and in Telegram Desktop
        return int(name) if name.startswith("-") else int(f"-100{name}")
    if not _USERNAME.fullmatch(name):
        raise ImportRefused(f"“{given}” names no channel. Give --chat its @username, or its id, as -1001234567890.")
    same = (channel for channel in known.values() if (channel.username or "").casefold() == name.casefold())
    return next((channel.chat_id for channel in same), None)


def _refusal(file: Path, private: bool) -> str:
    if private:
        return (
            f"{file} holds private conversations only. "
            "Give --allow-private if they may be searched, by admins, like a channel."
        )
    return f"{file} does not say which chat it is from. Export the chat again with Telegram Desktop."


def _username(given: str | None) -> str | None:
    if given is None:
        return None
    name = given.strip().removeprefix("https://t.me/").removeprefix("@")
    if not _USERNAME.fullmatch(name):
        raise ImportRefused(f"“{given}” is no Telegram username. Give it as in https://t.me/username.")
    return name


def _chat_id(chat: Chat) -> int | None:
    bare = chat.id
    if type(bare) is not int or not 0 < bare < ID_LIMIT // 10:
        return None
    if chat.old and bare > _BARE:
        bare &= _BARE
    _, sign = _KINDS.get(str(chat.type), _PRIVATE)
    return int(f"{sign}{bare}")


def _admitted(
    chat_id: int, chat: Chat, known: Channel | None, username: str | None, options: ImportOptions
) -> Admitted:
    kind, _ = _KINDS.get(str(chat.type), _PRIVATE)
    named = username or (known.username if known else None)
    public = named is not None and _called_public(chat)
    # What an admin decided stays; a channel that was closed only because no username was known opens.
    waited = known is not None and known.username is None and known.visibility is Visibility.ADMINS
    if options.visibility:
        visibility = options.visibility
    elif known is not None and known.state == "removed":  # an admin took it away: who reads it is asked anew
        visibility = Visibility.ADMINS
    elif public and (known is None or waited):
        visibility = Visibility.PUBLIC
    else:
        visibility = known.visibility if known else Visibility.ADMINS
    title = options.title or words(chat.name) or (known.title if known else None) or str(chat.type or chat_id)
    # whoever imports a channel by hand has approved it
    state = known.state if known and known.state not in {"pending", "removed"} else "active"
    channel = known or Channel(chat_id, title)
    channel = replace(channel, title=title, username=named, kind=kind, visibility=visibility, state=state)
    return Admitted(chat, channel, decided=known is None or visibility != known.visibility)


def _called_public(chat: Chat) -> bool:
    return str(chat.type).startswith("public_")
