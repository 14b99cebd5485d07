"""/media: the files of posts that are read, wait, or could not be read; pause, go on, try again."""

from aiogram import Router
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Bold, as_list

from bot.app_context import AppContext
from bot.i18n import Translator
from bot.media import describe_media
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.telegram.recheck import View
from bot.views.keyboards import Press, build_keyboard, on_press, redraw_message
from ingest.media.status import load_media_status
from rag_core.storage import media

router = Router()


@router.message(ChatCommand("media", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_media(message: Message, context: AppContext, words: Translator) -> None:
    view = await _render_media(context, words)
    await message.answer(**view.text.as_kwargs(), reply_markup=view.buttons)


@router.callback_query(on_press("media-pause", "media-resume", "media-retry"), flags=ADMINS_ONLY)
async def _press_media(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    if callback_data.to == "media-retry":
        await media.retry_failed_files(context.archive)
    else:
        await media.set_media_paused(context.archive, callback_data.to == "media-pause")
    await redraw_message(pressed, await _render_media(context, words))


async def _render_media(context: AppContext, words: Translator) -> View:
    """Counts by kind, what is missing to read one, and the buttons."""
    archive, rows = context.archive, list[list[tuple[str, Press]]]()
    status = await load_media_status(archive)
    if any(one.waiting for one in status.values()):
        action = "media-resume" if await media.is_media_paused(archive) else "media-pause"
        rows.append([(words(action), Press(to=action))])
    if any(one.failed for one in status.values()):
        rows.append([(words("media-retry"), Press(to="media-retry"))])
    lines = await describe_media(archive, context.settings, words)
    return View(as_list(Bold(words("media-title")), *lines), buttons=build_keyboard(*rows))
