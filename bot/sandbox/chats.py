"""Sandbox users and chats as the Bot API shows them, and a notifier that wakes tasks on every change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiogram.types import AcceptedGiftTypes, ChatMember, ChatMemberAdministrator, ChatMemberRestricted

SAMPLE_CHANNELS_FOLDER = Path(__file__).parent / "channels"


class ChangeNotifier:
    """Condition for tasks of one event loop: one ring wakes all that wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait up to `seconds` for `true()`, checked again after each ring; returns its last value."""
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    await self._event.wait()
        except TimeoutError:
            return true()
        return True


Json = dict[str, Any]


def _list_rights(member: type[ChatMember]) -> list[str]:
    """List the rights that every membership of this type names."""
    return [name for name, field in member.model_fields.items() if name.startswith("can_") and field.is_required()]


def _drop_empty_fields(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def remove_nested_reply(message: Json) -> Json:
    """Copy a message for embedding in another one: without the message that it replies to."""
    return {name: value for name, value in message.items() if name != "reply_to_message"}


@dataclass(slots=True)
class SandboxUser:
    """A user or the bot. `started`: has opened the private chat; `blocked`: has blocked the bot."""

    id: int
    first_name: str
    username: str | None = None
    lang: str | None = "en"
    is_bot: bool = False
    started: bool = False
    blocked: bool = False

    def wire(self) -> Json:
        """Convert to a Bot API `User`."""
        return _drop_empty_fields(
            id=self.id, is_bot=self.is_bot, first_name=self.first_name, username=self.username, language_code=self.lang
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership in a chat; `status` is the Bot API's, `is_member` matters for `restricted` only."""

    status: str
    is_member: bool = True

    @property
    def inside(self) -> bool:
        """Whether the member can read the chat's messages."""
        if self.status == "restricted":
            return self.is_member
        return self.status in {"creator", "administrator", "member"}

    @property
    def leads(self) -> bool:
        """Whether the member is the owner or an administrator."""
        return self.status in {"creator", "administrator"}

    def wire(self, person: SandboxUser, kind: str) -> Json:
        """Convert to a Bot API `ChatMember` in a chat of this kind."""
        fields: Json = {"status": self.status, "user": person.wire()}
        if self.status == "creator":
            return fields | {"is_anonymous": False}
        if self.status == "administrator":
            more_rights = ("can_post_messages", "can_edit_messages") if kind == "channel" else ("can_pin_messages",)
            rights = dict.fromkeys((*_list_rights(ChatMemberAdministrator), *more_rights), True)
            return fields | {"is_anonymous": False} | rights | {"can_be_edited": False}
        if self.status == "restricted":
            rights = dict.fromkeys(_list_rights(ChatMemberRestricted), False)
            return fields | {"is_member": self.is_member, "until_date": 0} | rights
        return fields | ({"until_date": 0} if self.status == "kicked" else {})


@dataclass(slots=True)
class SandboxChat:
    """A chat with its members and messages, newest last. A private chat has its user's id."""

    id: int
    kind: str
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    forum: bool = False
    linked: int | None = None
    protected: bool = False
    bot_spoke: bool = False
    last_id: int = 0
    members: dict[int, Membership] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)

    def wire(self) -> Json:
        """Convert to a Bot API `Chat`."""
        return _drop_empty_fields(
            id=self.id,
            type=self.kind,
            title=self.title,
            username=self.username,
            first_name=self.first_name,
            is_forum=True if self.forum else None,
        )

    def full(self) -> Json:
        """Convert to a Bot API `ChatFullInfo`."""
        more = _drop_empty_fields(
            linked_chat_id=self.linked,
            has_protected_content=True if self.protected else None,
            active_usernames=[self.username] if self.username else None,
        )
        fixed = {
            "accent_color_id": abs(self.id) % 7,
            "max_reaction_count": 11,
            "accepted_gift_types": dict.fromkeys(AcceptedGiftTypes.model_fields, False),
        }
        return self.wire() | more | fixed

    def member(self, user_id: int) -> Membership:
        """Get a user's membership; `left` for strangers."""
        return self.members.get(user_id, Membership("left"))
