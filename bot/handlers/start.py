"""Handlers of /start and /help: what the bot is, which channels it reads for you, how to ask; and the command menu."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager

from aiogram import Bot, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters import CommandObject
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllChatAdministrators,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeUnion,
    Message,
)
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.context import AppContext
from bot.filters import GROUPS, PRIVATE, ChatCommand
from bot.i18n import LANGUAGES, Translator, get_translator
from bot.recheck import Basis, recheck_before_sending
from bot.views.answer import format_channel_title, make_link
from bot.views.message_text import neutralize_links
from rag_core.types import Channel

__all__ = ["list_channel_titles", "publish_menu", "routes", "withdraw_menu"]

# More titles are too much to read.
_MAX_TITLES = 10
_READER_COMMANDS = ("ask", "search", "verify", "new", "help")
_ADMIN_COMMANDS = ("channels", "import", "delete", "check", "reindex", "models", "stats", "grant", "revoke")

log = logging.getLogger(__name__)


def list_channel_titles(channels: Iterable[Channel], words: Translator) -> Text:
    """List channel titles, one per line, public ones as links; a long list ends in "and N more"."""
    listed = sorted(channels, key=lambda channel: channel.title.casefold())
    lines = [Text("• ", _link_title(channel, words)) for channel in listed[:_MAX_TITLES]]
    if (more := len(listed) - _MAX_TITLES) > 0:
        lines.append(Text(words("titles-more", more=more)))
    return as_list(*lines)


def _link_title(channel: Channel, words: Translator) -> Text:
    title = format_channel_title(channel, words)
    return make_link(title, f"https://t.me/{channel.username}") if channel.username else neutralize_links(title)


async def _on_start(message: Message, context: AppContext, words: Translator) -> None:
    reads, checked = await _describe_readable_channels(message, context, words)
    blocks = [Text(words("start-hello")), *reads]
    if not context.admins and message.from_user:
        number = str(message.from_user.id)
        line = Code(f"BOT__ADMINS={number}")
        blocks.append(words.rich("start-no-admin", id=Code(number), line=line))
    with checked:
        await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs())


async def _describe_readable_channels(
    message: Message, context: AppContext, words: Translator
) -> tuple[list[Text], AbstractContextManager[None]]:
    """Describe what can be read here and how to ask, or how to get access; returns the context to send it in too."""
    reader = access.get_reader(message)
    channels = await access.get_readable_channels(context.archive, context.admins, reader)
    checked = recheck_before_sending(Basis(counted=frozenset(channels)), reader, context.archive, context.admins)
    if not channels:
        admin = access.is_admin(message, context.admins)
        return [
            Text(await access.format_no_access(context.archive, words, admin=admin, private=reader.private))
        ], checked
    reads = as_list(words("start-reads", count=len(channels)), list_channel_titles(channels.values(), words))
    how = words("start-how") if reader.private else words("start-how-group", command="/ask")
    return [reads, Text(how)], checked


async def _on_help(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    if (command.args or "").strip():
        blocks = [
            words("help-more", why="/why", sources="/sources", link="/link", mode="/mode", stop="/stop",
                  start="/start", privacy="/privacy", mydata="/mydata", forget="/forget")
        ]  # fmt: skip
    else:
        verifying = words("verify-help", verify="/verify")
        blocks = [words("help-private", search="/search", verifying=verifying, new="/new", help="/help")]
        if access.is_admin(message, context.admins):
            blocks.append(
                words("help-admin", channels="/channels", importing="/import", bind="/bind", delete="/delete",
                      check="/check", reindex="/reindex", models="/models", stats="/stats",
                      grant="/grant", revoke="/revoke")
            )  # fmt: skip
    await message.answer("\n\n".join(blocks))


async def _on_group_help(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """Answer /help@bot in groups."""
    blocks, checked = await _describe_readable_channels(message, context, words)
    if command.command.lower() == "help":
        verifying = words("verify-help-group", verify="/verify")
        blocks = [
            Text(words("help-group", ask="/ask", search="/search", verifying=verifying)),
            Text(words("help-settings", settings="/settings")),
        ]
    with checked:
        await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs())


def routes() -> Router:
    """Router of /start and /help."""
    router = Router(name="welcome")
    router.message.register(_on_start, ChatCommand("start", chats=PRIVATE))
    router.message.register(_on_help, ChatCommand("help", chats=PRIVATE))
    router.message.register(_on_group_help, ChatCommand("start", "help", chats=GROUPS, addressed_only=True))
    return router


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
            commands = [BotCommand(command=name, description=_describe_command(name, words)) for name in names]
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


def _describe_command(name: str, words: Translator) -> str:
    return {
        "ask": words("menu-ask"),
        "help": words("menu-help"),
        "channels": words("menu-channels"),
        "import": words("menu-import"),
        "new": words("menu-new"),
        "search": words("menu-search"),
        "verify": words("menu-verify"),
        "delete": words("menu-delete"),
        "check": words("menu-check"),
        "reindex": words("menu-reindex"),
        "models": words("menu-models"),
        "stats": words("menu-stats"),
        "grant": words("menu-grant"),
        "revoke": words("menu-revoke"),
        "settings": words("menu-settings"),
    }[name]
