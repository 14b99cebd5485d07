"""/start and /help: what the bot is, what it reads for you, how to ask; and the menu of commands."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters import Command, CommandObject
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeChat,
    BotCommandScopeUnion,
    Message,
)
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.desk import Desk
from bot.render import link
from bot.titles import title_of
from bot.words import LANGUAGES, Words, words_for
from rag_core.types import Channel

__all__ = ["publish_menu", "routes", "titles"]

_PRIVATE = F.chat.type == "private"
_GROUP = F.chat.type.in_({"group", "supergroup"})
# More titles than this are a wall of text.
_MOST_TITLES = 10
_READERS = ("ask", "why", "start", "help")
_ADMINS = ("channels", "import", "delete", "check", "reindex", "stats")

log = logging.getLogger(__name__)


def titles(channels: Iterable[Channel], words: Words) -> Text:
    """The titles of channels, one per line, public ones as links; a long list ends in "and N more"."""
    listed = sorted(channels, key=lambda channel: channel.title.casefold())
    lines = [Text("• ", _title(channel, words)) for channel in listed[:_MOST_TITLES]]
    if (more := len(listed) - _MOST_TITLES) > 0:
        lines.append(Text(words("titles-more", more=more)))
    return as_list(*lines)


def _title(channel: Channel, words: Words) -> Text | str:
    title = title_of(channel, words)
    return link(title, f"https://t.me/{channel.username}") if channel.username else title


async def _on_start(message: Message, desk: Desk, words: Words) -> None:
    blocks = [Text(words("start-hello")), *await _reading(message, desk, words)]
    if not desk.admins and message.from_user:
        number = str(message.from_user.id)
        line = Code(f"BOT__ADMINS={number}")
        blocks.append(words.rich("start-no-admin", id=Code(number), line=line))
    await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs())


async def _reading(message: Message, desk: Desk, words: Words) -> list[Text]:
    """What may be read here, and how to ask; or what to do where nothing may."""
    reader, private = access.reader_of(message), message.chat.type == "private"
    channels = await access.readable(
        desk.archive, desk.admins, user_id=reader, chat_id=message.chat.id, private=private
    )
    if not channels:
        admin = access.is_admin(message, desk.admins)
        return [Text(await access.closed(desk.archive, words, admin=admin, private=private))]
    reads = as_list(words("start-reads", count=len(channels)), titles(channels.values(), words))
    how = words("start-how") if private else words("start-how-group", command="/ask")
    return [reads, Text(how)]


async def _on_help(message: Message, desk: Desk, words: Words) -> None:
    blocks = [words("help-private", ask="/ask", why="/why", start="/start")]
    if access.is_admin(message, desk.admins):
        blocks.append(
            words("help-admin", channels="/channels", importing="/import", bind="/bind", delete="/delete",
                  check="/check", reindex="/reindex", stats="/stats")
        )  # fmt: skip
    await message.answer("\n\n".join(blocks))


async def _on_group(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    """In groups only by name: /help@bot. A bare /help is meant for whichever bot is there."""
    if not command.mention:
        return
    blocks = await _reading(message, desk, words)
    if command.command.lower() == "help":
        blocks = [Text(words("help-group", ask="/ask"))]
    await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs())


def routes() -> Router:
    """Handlers of /start and /help."""
    router = Router(name="welcome")
    router.message.register(_on_start, Command("start", ignore_case=True), _PRIVATE)
    router.message.register(_on_help, Command("help", ignore_case=True), _PRIVATE)
    router.message.register(_on_group, Command("start", "help", ignore_case=True), _GROUP)
    return router


async def publish_menu(bot: Bot, admins: Sequence[int]) -> None:
    """Tell Telegram the commands, by language and scope. A menu is a convenience: failing is logged only."""
    scopes: list[tuple[BotCommandScopeUnion, tuple[str, ...]]] = [
        (BotCommandScopeAllPrivateChats(), _READERS),
        (BotCommandScopeAllGroupChats(), ("ask", "why", "help")),
        *((BotCommandScopeChat(chat_id=a), (*_READERS, *_ADMINS)) for a in admins),
    ]
    for scope, names in scopes:
        for lang in LANGUAGES:
            words = words_for(lang)
            commands = [BotCommand(command=name, description=_described(name, words)) for name in names]
            code = None if lang == "en" else lang  # English is what every other language sees
            try:
                await bot.set_my_commands(commands, scope=scope, language_code=code)
            except (TelegramAPIError, ClientDecodeError) as exc:  # an admin who never wrote to the bot
                log.info("the menu of commands was not set for %s: %s", scope, exc)


def _described(name: str, words: Words) -> str:
    return {
        "ask": words("menu-ask"),
        "start": words("menu-start"),
        "help": words("menu-help"),
        "channels": words("menu-channels"),
        "import": words("menu-import"),
        "why": words("menu-why"),
        "delete": words("menu-delete"),
        "check": words("menu-check"),
        "reindex": words("menu-reindex"),
        "stats": words("menu-stats"),
    }[name]
