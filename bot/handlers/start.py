"""Handlers of /start and /help, and of /link with the deep links that it makes."""

from aiogram import Bot, Router
from aiogram.dispatcher.event.bases import SkipHandler
from aiogram.filters import CommandObject, CommandStart
from aiogram.types import Message, Update
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.handlers.answers import find_asked_answer, reply_in_pages
from bot.handlers.questions import create_question_link, decode_payload, send_with_suggestion, submit_question
from bot.i18n import Translator
from bot.middlewares import GROUPS, IN_PRIVATE, MAX_QUESTION_LENGTH, PRIVATE, ChatCommand
from bot.telegram.recheck import ShownContent, View
from bot.views.answer import make_link
from bot.views.channel_card import list_channel_titles
from bot.views.format import neutralize_links
from rag_core.storage import channels, posts, questions

router = Router()

_MIN_HISTORY = 20  # posts: fewer answer next to nothing, and the history is worth an import


@router.message(CommandStart(deep_link=True, ignore_case=True), IN_PRIVATE)
async def _on_start_link(
    message: Message, command: CommandObject, event_update: Update, context: AppContext, words: Translator
) -> None:
    text = await decode_payload(command.args or "", context.archive)
    if text is None or len(text) > MAX_QUESTION_LENGTH:
        raise SkipHandler  # handled as a plain /start
    await message.answer(**words.rich("link-asks", question=neutralize_links(text)).as_kwargs())
    await submit_question(message, text, event_update.update_id, context, words)


@router.message(ChatCommand("start", chats=PRIVATE))
async def _on_start(message: Message, bot: Bot, context: AppContext, words: Translator) -> None:
    """Greet a reader with questions that the posts answer, an admin with the next step of the set-up."""
    reader = access.get_reader(message)
    found = await access.resolve_channel_access(context.admins, reader)
    channels_here, viewer = found.open, found.build_viewer(reader.user_id)
    setup = await _describe_setup(bot, context, words) if access.is_admin(message, context.admins) else []
    blocks = [Text(words("start-hello")), *setup]
    if channels_here:
        titles = list_channel_titles(channels_here.values(), words)
        blocks += [as_list(words("start-reads", count=len(channels_here)), titles)]
        blocks += [Text(missed)] if (missed := access.describe_shortfalls(viewer, words)) else []
        blocks.append(Text(words("start-how")))
    elif not setup:
        blocks.append(Text(await access.format_no_access(context.admins, words, reader, viewer)))
    if not context.admins and message.from_user:
        number = str(message.from_user.id)
        blocks.append(words.rich("start-no-admin", id=Code(number), line=Code(f"BOT__ADMINS={number}")))
    text, content = as_list(*blocks, sep="\n\n"), ShownContent(counted=viewer.channels)
    if await questions.fetch_last_answered(context.archive, bot.id, message.chat.id, reader.user_id, None):
        await View(text, content).send(message.answer, reader, context.admins)
    else:
        await send_with_suggestion(message, text, viewer, context, words.lang, content)


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
        Text(words("setup-approve")),
        Text(words("setup-history")),
        Text(words("setup-ask")),
    ]
    numbered = enumerate(zip((*done, False), steps, strict=True), 1)
    ticked = [Text("✓ " if ok else f"{number}. ", step) for number, (ok, step) in numbered]
    return [as_list(words("setup-title"), *ticked)]


@router.message(ChatCommand("help", "more", chats=PRIVATE))
@router.message(ChatCommand("help", chats=GROUPS, addressed_only=True))
async def _on_help(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    text = words("help-private")
    if message.chat.type != "private":
        text = words("help-group")
    elif command.command.lower() == "more" or (command.args or "").strip():
        text = words("help-more")
    elif access.is_admin(message, context.admins):
        text = f"{text}\n\n{words('help-admin')}"
    await message.answer(text)


@router.message(ChatCommand("start", chats=GROUPS, addressed_only=True))
async def _on_group_start(message: Message, context: AppContext, words: Translator) -> None:
    reader = access.get_reader(message)
    readable = await access.get_readable_channels(context.admins, reader)
    if readable:
        reads = as_list(words("start-reads", count=len(readable)), list_channel_titles(readable.values(), words))
        text = as_list(reads, words("start-how-group"), sep="\n\n")
    else:
        text = Text(words("none-visible-group"))
    await View(text, ShownContent(counted=frozenset(readable))).send(message.answer, reader, context.admins)


@router.message(ChatCommand("link"))
async def _on_link(message: Message, addressed: bool, bot: Bot, context: AppContext, words: Translator) -> None:
    asked = await find_asked_answer(message, bot, context.archive, words, "/link", addressed=addressed)
    text = await create_question_link(asked.text, asked.user_id, bot, context.archive, words)
    await reply_in_pages(message, View(text), access.get_reader(message), context, words.lang)
