"""Admin commands: /stats on one screen; /media, the files of posts; /models switches and downloads models; /reindex
rebuilds the search index; /synonyms, words that mean the same for all who read a channel; /token, the access of
programs (bot/api): shown once, to who made it, and told to the person whose rights it has.

A button of a model carries a token that only this archive can make of its name; the presser is checked every time.
The progress of a rebuild is one message, edited every three seconds at most, also after a restart.
"""

import asyncio
import json
import logging
import time
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import groupby

from aiogram import Bot, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Code, Pre, Text, as_list

from bot import access, data_folder
from bot.admin_notifications import get_user_translator, send_notice
from bot.app_context import AppContext
from bot.i18n import Translator, get_translator
from bot.indexing import RebuildRunner
from bot.media import describe_media, load_media_status
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.settings import parse_person_id
from bot.telegram.recheck import ShownContent, View
from bot.views import keyboards
from bot.views.answer import format_channel_title
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, edit_message, make_row, on_press, redraw_message
from bot.views.text import join_lines, shorten
from rag_core.engine import switch_model
from rag_core.errors import IndexUnavailable, ModelUnavailable, RagError, RebuildRefused
from rag_core.models import active_models
from rag_core.models.catalog import MODELS, ModelRole, ModelTier, find_models, is_model_present
from rag_core.models.download import pull_model
from rag_core.processes import format_install_command
from rag_core.storage import Archive, channel_history, channels, media, posts, questions, raw_updates, readers
from rag_core.storage.backups import get_backup_time, list_backups
from rag_core.storage.index_state import ProgressMessage, Rebuild, count_unembedded_changes
from rag_core.text.tokens import tokenize

router = Router()

log = logging.getLogger(__name__)

_MAX_REASONS = 3  # reasons for quarantined updates that are listed
_MAX_ERROR_LENGTH = 200  # characters of an error message
_RECENT_FAILURE_AGE = timedelta(days=1)  # a failure that has passed is listed this long


@router.message(ChatCommand("stats", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_stats(message: Message, context: AppContext, words: Translator) -> None:
    archive, rag, now = context.archive, context.rag, datetime.now(context.settings.bot.zone)
    known, count = await channels.load_channels(archive), await posts.count_posts(archive)
    title = Bold(words("channel-count", count=len(known)), " · ", words("channel-posts", count=count))
    contents: list[str | Text] = [title]
    if (behind := await posts.get_last_seq(archive) - rag.lexical.watermark) > 0:
        contents.append(words("stats-words", waiting=behind))
    if rag.dense:
        try:
            await rag.dense.vectors.count()
            if waiting := await count_unembedded_changes(archive, rag.dense.vectors.about.identity):
                contents.append(words("stats-vectors", waiting=waiting))
        except IndexUnavailable as exc:
            contents.append(words("stats-vectors-fail", reason=words.error(exc)))

    asking, week = [], now - timedelta(days=7)
    for name, since in (("stats-today", now.replace(hour=0, minute=0, second=0, microsecond=0)), ("stats-week", week)):
        asked = await questions.count_questions_since(archive, since)
        done = {"sure": asked.sure, "unsure": asked.unsure, "refused": asked.refused, "failed": asked.failed}
        asking.append(words(name, count=asked.asked, waiting=asked.asked - sum(done.values()), **done))
    votes = await questions.count_votes(archive, since=week)
    if votes.good or votes.bad:
        wrong, outdated, other, source = votes.reasons
        asking.append(words("stats-votes", good=votes.good, bad=votes.bad, wrong=wrong, outdated=outdated, other=other,
                            source=source))  # fmt: skip

    backlog = []
    if aside := (await raw_updates.count_updates_by_state(archive))["poison"]:
        backlog.append(words("stats-inbox", aside=aside))
        for update_id, error in await raw_updates.list_poison_updates(archive, _MAX_REASONS):
            backlog.append(f"• {update_id}: {shorten(join_lines(error), _MAX_ERROR_LENGTH)}")
    for backfill in (await channel_history.list_backfills(archive)).values():
        if backfill.state in ("running", "paused", "failed"):
            backlog.append(words("stats-history", state=backfill.state, percent=int(100 * backfill.share)))
    if unread := sum(one.waiting for one in (await load_media_status(archive)).values()):
        backlog.append(words("stats-media", waiting=unread))
    if number := sum(map(len, (await channel_history.list_open_gaps(archive)).values())):
        backlog.append(words("stats-gaps", count=number))

    jobs = []
    for _, job in sorted(context.indexing.job_log.jobs.items()):
        if job.failed_at and (job.failing or datetime.now(UTC) - job.failed_at < _RECENT_FAILURE_AGE):
            sentence = "stats-job-fails" if job.failing else "stats-job-failed"
            moment, reason = format_age(job.failed_at, words), shorten(join_lines(job.error or ""), _MAX_ERROR_LENGTH)
            jobs.append(words(sentence, job=words("job", name=job.name), ago=moment, count=job.failures, reason=reason))

    disk = await asyncio.to_thread(data_folder.measure_disk_usage, archive.folder)
    archived, indexes = _format_size(disk.archive, words), _format_size(disk.indexes, words)
    kept, free = _format_size(disk.backups, words), _format_size(disk.free, words)
    machine = [words("stats-disk", archive=archived, indexes=indexes, backups=kept, free=free)]
    if backups := await asyncio.to_thread(list_backups, archive.folder):
        machine.append(words("stats-backup", ago=format_age(get_backup_time(backups[0]), words), count=len(backups)))
    else:
        machine.append(words("stats-no-backup" if context.settings.data.backups else "stats-backups-off"))
    blocks = [as_list(*lines) for lines in (contents, asking, backlog, jobs, machine) if lines]
    await View(as_list(*blocks, sep="\n\n")).send(message.answer, access.get_reader(message), context.admins)


def format_age(moment: datetime, words: Translator) -> str:
    """Format the age of a moment in the largest useful unit; a future moment counts as now."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return words("ago", unit=unit, number=seconds // size)
    return words("ago", unit="s", number=seconds)


def _format_size(size: int, words: Translator) -> str:
    if size >= 1 << 30:
        return words("size", unit="gb", number=words.number(size / (1 << 30), 1))
    return words("size", unit="mb", number=str(max(1, size >> 20)))


@router.message(ChatCommand("media", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_media(message: Message, context: AppContext, words: Translator) -> None:
    await message.answer(**(await _render_media(context, words)).as_kwargs())


@router.callback_query(on_press("media-pause", "media-resume", "media-retry"), flags=ADMINS_ONLY)
async def _press_media(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    if callback_data.to == "media-retry":
        await media.retry_failed_files(context.archive)
    else:
        await media.set_media_paused(context.archive, callback_data.to == "media-pause")
    await redraw_message(pressed, await _render_media(context, words))


async def _render_media(context: AppContext, words: Translator) -> View:
    archive, rows = context.archive, []
    status = await load_media_status(archive)
    if any(one.waiting for one in status.values()):
        action = "media-resume" if await media.is_media_paused(archive) else "media-pause"
        rows.append(make_row(words(action), action))
    if any(one.failed for one in status.values()):
        rows.append(make_row(words("media-retry"), "media-retry"))
    lines = await describe_media(status, archive, context.settings, words)
    return View(as_list(Bold(words("media-title")), *lines), buttons=build_keyboard(*rows))


_NO_MODEL = "none"  # to work without a writer
(_WRITER_TO_PULL,) = find_models(ModelTier.OFFLINE_WRITER)
_UPDATE_INTERVAL_SECONDS = 3.0  # between edits of a message; Telegram allows twenty a minute in a chat


@router.message(ChatCommand("models", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_models(message: Message, context: AppContext, words: Translator) -> None:
    await message.answer(**(await _render_models(context, words)).as_kwargs())


@router.callback_query(on_press("model"), flags=ADMINS_ONLY)
async def _press_model(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    offered = {f"model {name}": (name, use) for name, use in await _list_offered_models(context)}
    found = keyboards.find_by_token(callback_data.token, offered, context.archive.identity)
    if found is None:
        raise access.Refusal(words("models-gone"))
    name, use = found
    values = {"name": words("models-nobody") if name == _NO_MODEL else name, "use": words("model-use", use=use)}
    await pressed.answer()  # before loading: a large model takes minutes, and a callback expires within seconds
    await edit_message(pressed, Text(words("models-loading", name=values["name"])))
    try:
        done = await asyncio.shield(switch_model(context.rag, name, use))
        result = words("models-now" if done.now else "models-beside" if done.beside else "models-next", **values)
    except ModelUnavailable as exc:
        result = words("models-refused", reason=words.error(exc))
    await edit_message(pressed, await _render_models(context, words, result))


@router.callback_query(on_press("model-pull"), flags=ADMINS_ONLY)
async def _press_pull(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    settings, name, percent = context.rag.settings, _WRITER_TO_PULL.name, 0
    if callback_data.token != keyboards.make_callback_token(f"model pull {name}", context.archive.identity):
        raise access.Refusal(words("models-gone"))
    if find_spec("llama_cpp") is None:
        raise access.Refusal(words("models-need-llama", command=format_install_command("citegram[local]")))
    await pressed.answer()

    def count_percent(done: int, total: int) -> None:
        nonlocal percent
        percent = 100 * done // max(total, 1)

    folder, hub = active_models.get_models_folder(settings), settings.models.hub
    pulling = asyncio.create_task(pull_model(_WRITER_TO_PULL, folder, hub=hub, progress=count_percent))
    try:
        while not pulling.done():
            await edit_message(pressed, Text(words("models-pulling", name=name, percent=percent)))
            await asyncio.wait([pulling], timeout=_UPDATE_INTERVAL_SECONDS)
        await pulling
        await asyncio.shield(switch_model(context.rag, name, ModelRole.WRITER))
        result = words("models-now", use=words("model-use", use="writer"), name=name)
    except ModelUnavailable as exc:
        result = words("models-refused", reason=words.error(exc))
    finally:
        pulling.cancel()
    await edit_message(pressed, await _render_models(context, words, result))


async def _list_offered_models(context: AppContext) -> list[tuple[str, str]]:
    folder = active_models.get_models_folder(context.rag.settings)
    rows = await asyncio.to_thread(lambda: [row for row in MODELS if is_model_present(row, folder / row.name)])
    nothing = [(_NO_MODEL, ModelRole.WRITER.value)] if any(row.role is ModelRole.WRITER for row in rows) else []
    return [*((row.name, row.role.value) for row in rows), *nothing]


async def _render_models(context: AppContext, words: Translator, result: str = "") -> View:
    offered, key = await _list_offered_models(context), context.archive.identity
    live = await active_models.find_live_model(context.archive)
    used = active_models.list_models_in_use(context.rag.settings, await readers.load_choices(context.archive), live)
    lines = [f"{words('model-use', use=use)}: {name}" for use, name in used.items()]
    text = "\n".join([words("models-used") if lines else words("models-unused"), *lines])
    if one := await active_models.find_embedder_progress(context.rag.settings, context.archive):
        told = words("models-embedding", name=one.name, live=one.live, done=one.done, total=one.total)
        text = f"{text}\n\n{told}"
    rows = []
    for name, use in offered:
        tick = "✓ " if used.get(use, _NO_MODEL) == name else ""
        said = words("models-nobody") if name == _NO_MODEL else name
        label = f"{tick}{words('model-use', use=use)}: {said}"
        rows.append(make_row(label, "model", keyboards.make_callback_token(f"model {name}", key)))
    settings, pull = context.rag.settings, _WRITER_TO_PULL
    chosen_here = active_models.get_model_setting(settings, "writer") == "auto" and not settings.llm.url
    if chosen_here and (pull.name, pull.role.value) not in offered:
        label = words("models-pull", name=pull.name, gigabytes=f"{pull.bytes / 1e9:.1f}")
        rows.append(make_row(label, "model-pull", keyboards.make_callback_token(f"model pull {pull.name}", key)))
    hint = words("models-press") if offered else words("models-none", pull="citegram models pull offline")
    return View(Text("\n\n".join(filter(None, (result, text, hint)))), buttons=build_keyboard(*rows))


def _build_stop_keyboard(rebuild: int, words: Translator) -> InlineKeyboardMarkup | None:
    """Keyboard that cancels this rebuild, and no later one."""
    return build_keyboard(make_row(words("button-stop-work"), "reindex-stop", number=rebuild))


@router.message(ChatCommand("reindex", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_reindex(message: Message, words: Translator) -> None:
    yes, no = make_row(words("button-rebuild"), "reindex"), make_row(words("button-cancel"), "reindex-no")
    await message.answer(words("reindex-ask"), reply_markup=build_keyboard(yes, no))


@router.callback_query(on_press("reindex", "reindex-no", "reindex-stop"), flags=ADMINS_ONLY)
async def _press_reindex(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    """Start a rebuild, which `report_rebuilds` shows in the message, or stop one."""
    shown, rebuilds = pressed.message, context.reindexing
    if callback_data.to == "reindex-stop":
        stopped = await rebuilds.cancel(callback_data.number)
        await pressed.answer(None if stopped else words("reindex-over"))
    elif callback_data.to == "reindex-no":
        await redraw_message(pressed, Text(words("reindex-nothing")))
    else:
        tell = ProgressMessage(shown.chat.id, shown.message_id, words.lang) if shown else None
        try:
            await rebuilds.start(tell=tell)
            await pressed.answer()
        except RebuildRefused:
            stop = _build_stop_keyboard(rebuilds.current.id if rebuilds.current else 0, words)
            await redraw_message(pressed, View(Text(words("reindex-busy")), buttons=stop))


async def report_rebuilds(bot: Bot, reindexing: RebuildRunner, archive: Archive) -> None:
    """Report the progress of every rebuild that has a message, one after the other. Never ends."""
    last = 0
    while True:
        last = (await reindexing.wait_until_begun(last)).id
        try:
            shown = -_UPDATE_INTERVAL_SECONDS
            async for rebuild in reindexing.states():
                over = rebuild.state != "running"
                if rebuild.tell and (over or time.monotonic() - shown >= _UPDATE_INTERVAL_SECONDS):
                    words = get_translator(rebuild.tell.lang)
                    text = await _format_rebuild(rebuild, reindexing.failure, archive, words)
                    await _edit_progress(bot, rebuild, rebuild.tell, text, words)
                    shown = time.monotonic()
        except RagError as exc:  # archive error: the rebuild goes on without being reported
            log.warning("the progress of rebuild %d is not told: %s", last, exc.reason)


async def _edit_progress(bot: Bot, rebuild: Rebuild, tell: ProgressMessage, text: str, words: Translator) -> None:
    """Edit the progress message; where it is gone or too old, the end is sent in a new one."""
    over = rebuild.state != "running"
    buttons = None if over else _build_stop_keyboard(rebuild.id, words)
    try:
        try:
            await bot.edit_message_text(text, chat_id=tell.chat_id, message_id=tell.message_id, reply_markup=buttons)
        except TelegramBadRequest as exc:
            if over and "not modified" not in exc.message:
                await bot.send_message(tell.chat_id, text)
    except (TelegramAPIError, ClientDecodeError) as exc:  # blocked, or unreachable for longer than the session retries
        log.warning("the progress of rebuild %d was not told: %s", rebuild.id, exc)


async def _format_rebuild(rebuild: Rebuild, failure: RagError | None, archive: Archive, words: Translator) -> str:
    if rebuild.state == "cancelled":
        return words("reindex-cancelled")
    if rebuild.state == "failed":
        return words("reindex-failed", reason=words.error(failure) if failure else rebuild.reason)
    if rebuild.state == "running":
        lines = [words("reindex-running")]
        if not rebuild.total:
            return "\n".join([*lines, words("reindex-preparing")])
        percent = 100 * rebuild.done // rebuild.total
        lines.append(words("reindex-progress", done=rebuild.done, total=rebuild.total, percent=percent))
        if rebuild.left_s is not None and rebuild.done < rebuild.total:
            lines.append(words("reindex-left", minutes=round(rebuild.left_s / 60)))
    else:
        lines = [words("reindex-done", count=await posts.count_posts(archive))]
        lines += [words("reindex-renewed", count=rebuild.renewed)] if rebuild.renewed else []
    return "\n".join(lines)


_MAX_WORD, _MAX_LISTED_PAIRS = 60, 100  # of synonyms
_MINUS = ("-", "−", "–")


@router.message(ChatCommand("synonyms", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_synonyms(message: Message, given: str, context: AppContext, words: Translator) -> None:
    """List the pairs, add one, or after a minus remove one: in the channel that is named first, or in all."""
    reader = access.get_reader(message)
    known = await access.get_readable_channels(context.admins, reader)
    how = words.rich("synonyms-how", example=Code(f"/synonyms {words('synonyms-example')}"))
    if not given:
        stored = await channels.list_synonyms(context.archive, known)
        lines = []
        for (word, meaning), rows in groupby(stored, key=lambda synonym: (synonym.word, synonym.meaning)):
            holding = [known[row.chat_id] for row in rows]
            of = "" if len(holding) == len(known) else ", ".join(format_channel_title(one, words) for one in holding)
            lines.append(Text("• ", neutralize_links(f"{word} = {meaning}" + (f" ({of})" if of else ""))))
        text = as_list(words("synonyms-title", count=len(lines)), *lines[:_MAX_LISTED_PAIRS], "", how)
    else:
        name = given.split()[0] if given.startswith("@") else ""
        chosen = [one for one in known if not name or (known[one].username or "").casefold() == name[1:].casefold()]
        removes = given.removeprefix(name).strip().startswith(_MINUS)
        pair = [" ".join(side.casefold().split()) for side in given.removeprefix(name).lstrip("-−– ").split("=")]
        if not chosen:
            text = words.rich("reindex-unknown", name=neutralize_links(name))
        elif len(pair) != 2 or pair[0] == pair[1] or not all(tokenize(one) and len(one) <= _MAX_WORD for one in pair):
            text = how
        else:
            sides = (pair, pair[::-1]) if removes else (pair,)
            pairs = [channels.Synonym(chat_id, *one) for chat_id in chosen for one in sides]
            if removes:
                changed = [await channels.remove_synonym(context.archive, one) for one in pairs]
            else:
                changed = [await channels.add_synonym(context.archive, one, reader.user_id) for one in pairs]
            if any(changed):
                context.rag.caches.forget()
            done = ("synonyms-removed", "synonyms-unknown") if removes else ("synonyms-added", "synonyms-known")
            text = words.rich(done[0] if any(changed) else done[1], pair=neutralize_links(" = ".join(pair)))
    await View(text, ShownContent(counted=frozenset(known))).send(message.answer, reader, context.admins)


_MAX_TOKEN_NAME_LENGTH = 40


@router.message(ChatCommand("token", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_token(message: Message, given: str, bot: Bot, context: AppContext, words: Translator) -> None:
    """Make a token for the named program, with the rights of its admin or of the person whose id comes last."""
    maker, settings = message.chat.id, context.settings.mcp
    name, _, last = join_lines(given).rpartition(" ")
    who = parse_person_id(last) if name else None
    name, who = (name, who) if who else (f"{name} {last}".strip(), maker)
    if not settings.listen:
        raise access.Refusal(words("token-off"))
    if not name:
        await message.answer(**(await _render_tokens(context, words)).as_kwargs())
        return
    if len(name) > _MAX_TOKEN_NAME_LENGTH:
        raise access.Refusal(words("token-name", limit=_MAX_TOKEN_NAME_LENGTH))
    secret = await readers.create_token(context.archive, name, user_id=who, made_by=maker)
    if secret is None:
        raise access.Refusal(words("token-full", count=readers.MAX_TOKENS))
    log.info("admin %d made a token for a program that reads as %d", maker, who)
    server = {"type": "http", "url": f"http://{settings.listen}/mcp", "headers": {"Authorization": f"Bearer {secret}"}}
    entry = Pre(json.dumps({"mcpServers": {"citegram": server}}, indent=2), language="json")
    head, use = words("token-made", name=name), words.rich("token-use", who=Code(str(who)))
    await message.answer(**as_list(neutralize_links(head), entry, use, sep="\n\n").as_kwargs())
    if who != maker:
        spoken = await get_user_translator(context.archive, who, context.settings.bot.language)
        await send_notice(bot, who, neutralize_links(spoken("token-made-told", name=name)))


async def _render_tokens(context: AppContext, words: Translator) -> View:
    zone, lines, rows = context.settings.bot.zone, [], []
    for one in await readers.list_tokens(context.archive):
        who, by, made = Code(str(one.user_id)), Code(str(one.made_by)), words.date(one.made_at, zone)
        used = words.date(one.used_at, zone) if one.used_at else "never"
        lines.append(words.rich("token-line", name=one.name, who=who, by=by, date=made, used=used))
        rows.append(make_row(words("token-revoke", name=one.name), "token-revoke", one.handle))
    how = words.rich("token-how", own=Code("/token Claude"), other=Code("/token Claude 123456789"))
    return View(as_list(how, *lines, sep="\n\n"), buttons=build_keyboard(*rows))


@router.callback_query(on_press("token-revoke"), flags=ADMINS_ONLY)
async def _press_revoke(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    revoked = await readers.revoke_token(context.archive, callback_data.token)
    log.info("admin %d revoked a token: %s", pressed.from_user.id, "done" if revoked else "it was gone")
    done = words("token-revoked" if revoked else "token-gone")
    await redraw_message(pressed, await _render_tokens(context, words), done)
