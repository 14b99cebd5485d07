"""Filters and flags: which commands a handler takes, and that what is for admins is registered as such."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from aiogram import Bot
from aiogram.types import Chat, Message, User

from bot.app import build_dispatcher
from bot.middlewares import GROUPS, PRIVATE, ChatCommand, DeduplicationMiddleware
from bot.settings import Settings
from bot.telegram.session import _ADMIN_COMMANDS


class NamedBot(Bot):
    async def me(self):
        return User(id=1, is_bot=True, first_name="Citegram", username="citegram_bot")


@pytest.mark.parametrize(
    ("kind", "text", "only", "taken", "addressed"),
    [
        ("private", "/WHY", False, True, True),
        ("group", "/why", False, True, False),
        ("supergroup", "/why@Citegram_bot", False, True, True),
        ("group", "/why@other_bot", False, False, None),
        ("group", "/why", True, False, None),
        ("private", "/why", True, True, True),
        ("channel", "/why", False, False, None),
    ],
)
async def test_a_bare_command_in_a_group_may_be_another_bots(kind, text, only, taken, addressed):
    message = Message(message_id=1, date=datetime.now(UTC), chat=Chat(id=-5, type=kind), text=text)
    found = await ChatCommand("why", chats=PRIVATE | GROUPS, addressed_only=only)(message, NamedBot("1:x"))
    assert bool(found) is taken
    assert not taken or found["addressed"] is addressed


def test_every_command_of_admins_is_for_admins_only():
    settings = Settings.model_construct(bot=Settings().bot)
    context = SimpleNamespace(settings=settings, archive=None, admins=())
    dispatcher = build_dispatcher(context, DeduplicationMiddleware(context.archive))
    seen = set()
    for handler in dispatcher.message.handlers:
        for one in handler.filters or ():
            if isinstance(one.callback, ChatCommand):
                names = {str(name) for name in one.callback.commands}
                seen |= names
                wanted = bool(names & {*_ADMIN_COMMANDS, "bind", "unbind"})
                assert handler.flags.get("admins_only", False) is wanted, names
    assert {*_ADMIN_COMMANDS, "ask", "settings"} <= seen
