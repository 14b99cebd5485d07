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
from bot.handlers.small_talk import send_with_suggestions
from bot.i18n import LANGUAGES, Translator, get_translator
from bot.telegram.access_recheck import Basis, recheck_before_sending
from bot.views.answer import format_channel_title, make_link
from bot.views.message_text import neutralize_links
from rag_core.storage import channels, posts
from rag_core.types import Channel, Viewer

_MIN_HISTORY = 20  # posts: fewer answer next to nothing, and the history is worth an import
# More titles are too much to read.
_MAX_TITLES = 10
_READER_COMMANDS = ("ask", "search", "verify", "new", "help")
_ADMIN_COMMANDS = (
    "channels",
    "import",
    "unanswered",
    "synonyms",
    "plan",
    "delete",
    "check",
    "reindex",
    "models",
    "stats",
    "grant",
    "revoke",
)

log = logging.getLogger(__name__)


def list_channel_titles(readable: Iterable[Channel], words: Translator) -> Text:
    """List channel titles, one per line, public ones as links; a long list ends in "and N more"."""
    listed = sorted(readable, key=lambda channel: channel.title.casefold())
    lines = [Text("• ", _link_title(channel, words)) for channel in listed[:_MAX_TITLES]]
    if (more := len(listed) - _MAX_TITLES) > 0:
        lines.append(Text(words("titles-more", more=more)))
    return as_list(*lines)


def _link_title(channel: Channel, words: Translator) -> Text:
    title = format_channel_title(channel, words)
    return make_link(title, f"https://t.me/{channel.username}") if channel.username else neutralize_links(title)


async def _on_start(message: Message, bot: Bot, context: AppContext, words: Translator) -> None:
    """Greet a reader with questions that the posts answer, an admin with the next step of the set-up."""
    reader = access.get_reader(message)
    channels_here = await access.get_readable_channels(context.archive, context.admins, reader)
    admin = access.is_admin(message, context.admins)
    setup = await _describe_setup(bot, context, words) if admin else []
    blocks = [Text(words("start-hello")), *setup]
    if channels_here:
        titles = list_channel_titles(channels_here.values(), words)
        blocks += [as_list(words("start-reads", count=len(channels_here)), titles), Text(words("start-how"))]
    elif not setup:
        blocks.append(Text(await access.format_no_access(context.archive, words, admin=admin, private=True)))
    if not context.admins and message.from_user:
        number = str(message.from_user.id)
        line = Code(f"BOT__ADMINS={number}")
        blocks.append(words.rich("start-no-admin", id=Code(number), line=line))
    viewer = Viewer(reader.user_id, frozenset(channels_here))
    text = as_list(*blocks, sep="\n\n")
    await send_with_suggestions(message, text, viewer, context, words.lang, Basis(counted=viewer.channels))


async def _describe_setup(bot: Bot, context: AppContext, words: Translator) -> list[Text]:
    """Describe the steps of the set-up with the done ones ticked; nothing once all are done."""
    known = (await channels.load_channels(context.archive)).values()
    active = [channel for channel in known if channel.state != "pending"]
    done = (bool(known), bool(active), bool(active) and await posts.count_posts(context.archive) >= _MIN_HISTORY)
    if all(done):
        return []
    add = f"https://t.me/{(await bot.me()).username}?startchannel=true"
    steps = [
        words.rich("setup-add", link=make_link(words("setup-add-link"), add)),
        Text(words("setup-approve", channels="/channels")),
        Text(words("setup-history", importing="/import")),
        Text(words("setup-ask")),
    ]
    numbered = enumerate(zip((*done, False), steps, strict=True), 1)
    ticked = [Text("✓ " if ok else f"{number}. ", step) for number, (ok, step) in numbered]
    return [as_list(words("setup-title"), *ticked)]


async def _describe_group_channels(
    message: Message, context: AppContext, words: Translator
) -> tuple[Text, AbstractContextManager[None]]:
    """Describe what a group can ask and how, or how to get access; returns the context to send it in too."""
    reader = access.get_reader(message)
    readable = await access.get_readable_channels(context.archive, context.admins, reader)
    checked = recheck_before_sending(Basis(counted=frozenset(readable)), reader, context.archive, context.admins)
    if not readable:
        return Text(await access.format_no_access(context.archive, words, admin=False, private=False)), checked
    titles = list_channel_titles(readable.values(), words)
    reads = as_list(words("start-reads", count=len(readable)), titles)
    return as_list(reads, words("start-how-group", command="/ask"), sep="\n\n"), checked


async def _on_help(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    if command.command.lower() == "more" or (command.args or "").strip():
        blocks = [
            words("help-more", why="/why", sources="/sources", link="/link", mode="/mode", stop="/stop",
                  start="/start", privacy="/privacy", mydata="/mydata", forget="/forget")
        ]  # fmt: skip
    else:
        verifying = words("verify-help", verify="/verify")
        blocks = [words("help-private", search="/search", verifying=verifying, new="/new", more="/more")]
        if access.is_admin(message, context.admins):
            blocks.append(
                words("help-admin", channels="/channels", importing="/import", bind="/bind", delete="/delete",
                      check="/check", reindex="/reindex", models="/models", stats="/stats",
                      unanswered="/unanswered", synonyms="/synonyms", plan="/plan",
                      grant="/grant", revoke="/revoke")
            )  # fmt: skip
    await message.answer("\n\n".join(blocks))


async def _on_group_help(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """Answer /help@bot in groups."""
    text, checked = await _describe_group_channels(message, context, words)
    if command.command.lower() == "help":
        verifying = words("verify-help-group", verify="/verify")
        asking = words("help-group", ask="/ask", search="/search", verifying=verifying)
        text = as_list(asking, words("help-settings", settings="/settings"), sep="\n\n")
    with checked:
        await message.answer(**text.as_kwargs())


def routes() -> Router:
    """Router of /start and /help."""
    router = Router(name="welcome")
    router.message.register(_on_start, ChatCommand("start", chats=PRIVATE))
    router.message.register(_on_help, ChatCommand("help", "more", chats=PRIVATE))
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
        "unanswered": words("menu-unanswered"),
        "synonyms": words("menu-synonyms"),
        "plan": words("menu-plan"),
        "delete": words("menu-delete"),
        "check": words("menu-check"),
        "reindex": words("menu-reindex"),
        "models": words("menu-models"),
        "stats": words("menu-stats"),
        "grant": words("menu-grant"),
        "revoke": words("menu-revoke"),
        "settings": words("menu-settings"),
    }[name]
