"""Command menu of the bot, by language and scope: what readers, admins of groups and the bot's admins are offered."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllChatAdministrators,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeUnion,
)

from bot.i18n import LANGUAGES, get_translator

_READER_COMMANDS = ("ask", "search", "verify", "new", "help")
_ADMIN_COMMANDS = tuple(
    "channels import unanswered synonyms plan delete check reindex models stats grant revoke".split()
)

log = logging.getLogger(__name__)


async def publish_menu(bot: Bot, admins: Iterable[int], *, readers: bool = True) -> None:
    """Publish the command menu by language and scope; without `readers` only the admins' menu.

    The menu is a convenience and no authorisation: failures are only logged.
    """
    scopes: list[tuple[BotCommandScopeUnion, tuple[str, ...]]] = [
        (BotCommandScopeAllPrivateChats(), _READER_COMMANDS),
        (BotCommandScopeAllGroupChats(), _READER_COMMANDS),
        (BotCommandScopeAllChatAdministrators(), (*_READER_COMMANDS, "settings")),
    ] * readers
    scopes += [(BotCommandScopeChat(chat_id=a), (*_READER_COMMANDS, *_ADMIN_COMMANDS)) for a in admins]
    for scope, names in scopes:
        for lang in LANGUAGES:
            words = get_translator(lang)
            commands = [BotCommand(command=name, description=words("menu", command=name)) for name in names]
            code = None if lang == "en" else lang  # English is the default for all other languages
            try:
                await bot.set_my_commands(commands, scope=scope, language_code=code)
            except (TelegramAPIError, ClientDecodeError) as exc:  # an admin who never wrote to the bot
                log.info("the menu of commands was not set for %s: %s", scope, exc)


async def withdraw_menu(bot: Bot, user_id: int) -> None:
    """Withdraw an admin's menu: the readers' menu is shown again."""
    for lang in LANGUAGES:
        code = None if lang == "en" else lang
        try:
            await bot.delete_my_commands(scope=BotCommandScopeChat(chat_id=user_id), language_code=code)
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.info("the menu of user %d was not taken away: %s", user_id, exc)
