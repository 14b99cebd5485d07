"""Methods about the bot itself: who it is, how it gets updates, its commands and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from aiogram.methods import (
    DeleteMyCommands,
    DeleteWebhook,
    GetMe,
    GetMyCommands,
    GetMyDescription,
    GetMyName,
    GetMyShortDescription,
    GetUpdates,
    GetWebhookInfo,
    SetMyCommands,
    SetMyDescription,
    SetMyName,
    SetMyShortDescription,
    SetWebhook,
)

from bot.sandbox.refused import bad
from bot.sandbox.rooms import Json
from bot.sandbox.world import World

__all__ = ["HANDLERS"]

_LONGEST_POLL = 50  # seconds
_HOOK_PORTS = {None, 80, 88, 443, 8443}
_HOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{0,256}")
_CONNECTIONS = 40
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")


def get_me(call: GetMe, world: World) -> Json:
    """The bot."""
    off = ("guest_queries", "inline_queries")
    flags = (*(f"supports_{name}" for name in off), "can_connect_to_business", "has_main_web_app")
    mine = {"can_join_groups": True, "can_read_all_group_messages": world.reads_groups}
    return world.bot.wire() | mine | dict.fromkeys((*flags, "has_topics_enabled"), False)


def get_updates(call: GetUpdates, world: World) -> Awaitable[list[Json]]:
    """Long polling."""
    world.queue.allow(call.allowed_updates)
    limit = min(max(call.limit or 100, 1), 100)
    return world.queue.poll(call.offset or 0, limit, min(max(call.timeout or 0, 0), _LONGEST_POLL))


def set_webhook(call: SetWebhook, world: World) -> bool:
    """Remember a webhook: updates are brought to it from now on."""
    if call.url and not call.url.startswith("https://"):
        raise bad("bad webhook: An HTTPS URL must be provided for webhook")
    if call.url and urlsplit(call.url).port not in _HOOK_PORTS:
        raise bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
    if not _HOOK_SECRET.fullmatch(call.secret_token or ""):
        raise bad("secret token contains unallowed characters")
    world.queue.allow(call.allowed_updates)
    _drop(world, call.drop_pending_updates)
    world.queue.hook(call.url, call.secret_token or "", call.max_connections or _CONNECTIONS)
    return True


def delete_webhook(call: DeleteWebhook, world: World) -> bool:
    """Forget the webhook."""
    _drop(world, call.drop_pending_updates)
    world.queue.hook("")
    return True


def _drop(world: World, wanted: bool | None) -> None:
    if wanted:
        world.queue.kept.clear()


def get_webhook_info(call: GetWebhookInfo, world: World) -> Json:
    """The webhook and how many updates wait."""
    queue = world.queue
    shown: Json = {"url": queue.webhook, "has_custom_certificate": False, "pending_update_count": len(queue.kept)}
    if queue.webhook:
        shown["max_connections"] = queue.connections
    if queue.failed:
        shown |= {"last_error_date": int(queue.failed[0]), "last_error_message": queue.failed[1]}
    return shown | {"allowed_updates": sorted(queue.allowed)}


def set_my_commands(call: SetMyCommands, world: World) -> bool:
    """Commands for a scope and a language."""
    if len(call.commands) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in call.commands:
        if not _COMMAND.fullmatch(command.command.removeprefix("/")):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(command.description) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    shown = [command.model_dump(exclude_none=True) for command in call.commands]
    world.commands[_scope(call.scope), call.language_code or ""] = shown
    world.changed()
    return True


def get_my_commands(call: GetMyCommands, world: World) -> list[Json]:
    """Exactly what was set for this scope and language."""
    return world.commands.get((_scope(call.scope), call.language_code or ""), [])


def delete_my_commands(call: DeleteMyCommands, world: World) -> bool:
    """No commands of its own for this scope and language."""
    world.commands.pop((_scope(call.scope), call.language_code or ""), None)
    world.changed()
    return True


def _scope(scope: Any) -> str:
    return json.dumps(scope.model_dump(exclude_none=True) if scope else {"type": "default"}, sort_keys=True)


def _setter(field: str, most: int) -> Callable[[Any, World], bool]:
    def keep(call: Any, world: World) -> bool:
        text = getattr(call, field) or ""
        if len(text) > most:
            raise bad(f"{field} is too long")
        world.profile[field, call.language_code or ""] = text
        world.changed()
        return True

    return keep


def _getter(field: str) -> Callable[[Any, World], Json]:
    def show(call: Any, world: World) -> Json:
        plain = world.profile.get((field, ""), world.bot.first_name if field == "name" else "")
        return {field: world.profile.get((field, call.language_code or "")) or plain}

    return show


HANDLERS: dict[Any, Callable[..., Any]] = {
    DeleteMyCommands: delete_my_commands,
    DeleteWebhook: delete_webhook,
    GetMe: get_me,
    GetMyCommands: get_my_commands,
    GetMyDescription: _getter("description"),
    GetMyName: _getter("name"),
    GetMyShortDescription: _getter("short_description"),
    GetUpdates: get_updates,
    GetWebhookInfo: get_webhook_info,
    SetMyCommands: set_my_commands,
    SetMyDescription: _setter("description", 512),
    SetMyName: _setter("name", 64),
    SetMyShortDescription: _setter("short_description", 120),
    SetWebhook: set_webhook,
}
