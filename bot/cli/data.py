"""`citegram import`, `reindex`, `history`, `backup`, `restore` and `trace`: the archive and its indexes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot import data_folder
from bot.control import hold_folder, hold_folder_or_connect
from bot.data_folder import open_archive, require_archive, require_channel, show_progress_bar
from bot.settings import Settings
from bot.views.text import dump_json, format_stages, strip_control_characters
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import open_engine
from rag_core.errors import BackupFailed, HistoryUnavailable
from rag_core.storage import Archive, channel_history, channels, media, posts, visible_posts
from rag_core.storage.backups import get_backup_time, make_backup, prune_backups, restore_backup, run_cancellable
from rag_core.types import Channel, Visibility

if TYPE_CHECKING:  # imported where they are used: each command of the two does without those of the other
    from bot.indexing import RebuildRunner
    from ingest.exports import ImportReport
    from ingest.json_export import ImportOptions
    from rag_core.engine import Engine

_ACTION_HELP = "what to do (default: list)"


def declare(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments to the parser of one of the commands."""
    run: Callable[[argparse.Namespace, Settings], Awaitable[int]]
    match name:
        case "import":
            run = _run_import
            parser.add_argument("path", type=Path, metavar="PATH", help="result.json, or its folder")
            parser.add_argument("--title", help="what to call it, if not as in the export")
            public = "the channel's public @name: exports do not hold it, and links need it"
            parser.add_argument("--username", help=public)
            who = "who may read it: public, members or admins (default: public with --username, else admins)"
            parser.add_argument("--visibility", choices=[v.value for v in Visibility], help=who)
            parser.add_argument("--allow-private", action="store_true", help="import personal chats too")
            parser.add_argument("--json", action="store_true", help="end with one line of counts as JSON")
            parser.set_defaults(stopped="Stopped. What was read so far is kept: the same command goes on from there.")
        case "reindex":
            run = _run_reindex
            parser.add_argument("--channel", metavar="CHANNEL", help="only this one: @name, link, id or title")
        case "history":
            run = _run_history
            actions = ("list", "estimate", "begin", *_STATE_BY_ACTION, "undo")
            parser.add_argument("action", nargs="?", default="list", choices=actions, help=_ACTION_HELP)
            which = "its @name, link, id or title; not for list"
            parser.add_argument("channel", nargs="?", metavar="CHANNEL", help=which)
            parser.add_argument("--since", type=date.fromisoformat, metavar="YYYY-MM-DD", help="begin: no older posts")
            parser.add_argument("--json", action="store_true", help="list: one JSON object for each channel")
        case "media":
            run, actions = _run_media, ("list", "read", "pause", "resume", "retry")
            parser.add_argument("action", nargs="?", default="list", choices=actions, help=_ACTION_HELP)
        case "restore":
            run, which = _run_restore, "the backup (default: the newest that is whole)"
            parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help=which)
        case "trace":
            run = _run_trace
            parser.add_argument("id", metavar="ID", help="trace_id of an answer")
            parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
        case "backup":
            run = _run_backup
    parser.set_defaults(run=run)


async def _run_import(args: argparse.Namespace, settings: Settings) -> int:
    from ingest.json_export import ImportOptions

    visibility = Visibility(args.visibility) if args.visibility else None
    name = args.username.lstrip("@") if args.username else None
    options = ImportOptions(name, args.allow_private, visibility, settings.bot.zone, args.title)
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:  # it owns the indexes: only the archive is written here
            async with open_archive(settings.data.dir) as archive:
                report, searched = await _import_export(archive, args.path, options)
            try:
                with show_progress_bar("index") as moved:
                    await owner.wake(moved)
            finally:  # the posts are stored even if the bot ended: it indexes them at its next start
                _print_report(report, searched, as_json=args.json)
        else:
            async with open_engine(settings.rag(), language=False) as rag:
                report, searched = await _import_export(rag.archive, args.path, options)
                await data_folder.catch_up_lexical_index(rag)
                _print_report(report, searched, as_json=args.json)
                await data_folder.catch_up_copies(rag)
                await data_folder.catch_up_vectors(rag)
                if not args.json and (lines := await _describe_media(rag.archive, settings, of_none=False)):
                    print(*lines, sep="\n")
                if settings.media.files != "off":
                    await read_media_files(rag, settings)
    return 0


async def _import_export(archive: Archive, path: Path, options: ImportOptions) -> tuple[ImportReport, list[str]]:
    """Import with a progress bar; the report, and of each channel how many posts are searched, where not all are."""
    from ingest.exports import import_export

    with show_progress_bar("import", "B") as moved:
        report = await import_export(archive, path, options, moved)
    lines = []
    for channel in report.channels:
        stored = await posts.count_posts(archive, channel.chat_id)
        searched = await visible_posts.count_searched_posts(archive, channel.chat_id)
        if searched < stored:
            why = "an album is one, and pictures or stickers without words are none."
            lines.append(f"{channel.title}: {searched} of {stored} posts are searched: {why}")
    return report, lines


def _print_report(report: ImportReport, searched: list[str], *, as_json: bool) -> None:
    if as_json:
        print(dump_json(asdict(report.tally)))
        return
    titles = ", ".join(strip_control_characters(channel.title) for channel in report.channels)
    tally = report.tally
    print(f"{titles}: {tally.new} new, {tally.edited} edited, {tally.unchanged} unchanged, "
          f"{tally.skipped} skipped, {tally.deleted} deleted.")  # fmt: skip
    for note in (*searched, *report.notes):
        print(strip_control_characters(note))


async def _run_reindex(args: argparse.Namespace, settings: Settings) -> int:
    """Rebuild in the running bot, or here: what was interrupted first, then the vectors of a model asked for."""
    require_archive(settings.data.dir)
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            async with open_archive(settings.data.dir) as archive:
                channel = await _find_given_channel(args, archive)
                with show_progress_bar("reindex") as moved:
                    await owner.reindex(channel.chat_id if channel else None, moved)
                await _print_result(archive, channel)
            return 0
        from bot.indexing import RebuildRunner
        from ingest.rebuild import EmbedderChange

        async with open_engine(settings.rag(), language=False) as rag:
            channel = await _find_given_channel(args, rag.archive)
            chat_id = channel.chat_id if channel else None
            dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder) if rag.dense else None
            reindexing = RebuildRunner(rag.archive, LexicalIndexer(rag.archive, rag.lexical), dense)
            try:
                left = await reindexing.resume()
                if left:
                    print("A rebuild was interrupted: it goes on.", file=sys.stderr)
                    await _show_rebuild_progress(reindexing)
                if left is None or left.chat_id not in (None, chat_id):
                    await reindexing.start(chat_id)
                    await _show_rebuild_progress(reindexing)
            finally:
                await reindexing.stop()
            await _print_result(rag.archive, channel)
            if dense:
                change = EmbedderChange(rag, dense)
                try:
                    with show_progress_bar(rag.next_embedder.name if rag.next_embedder else "embed") as moved:
                        await change.run(moved)
                finally:
                    await change.close()
            await data_folder.catch_up_vectors(rag)
    return 0


async def _find_given_channel(args: argparse.Namespace, archive: Archive) -> Channel | None:
    return await require_channel(archive, args.channel) if args.channel is not None else None


async def _show_rebuild_progress(reindexing: RebuildRunner) -> None:
    with show_progress_bar("reindex") as moved:
        async for done, total in reindexing.progress():
            moved(done, total)


async def _print_result(archive: Archive, channel: Channel | None) -> None:
    count = await posts.count_posts(archive, channel.chat_id if channel else None)
    title = strip_control_characters(channel.title) if channel else "All channels"
    print(f"{title}: the index was built anew ({count} posts).")


_FIRST_DAY = date(2013, 1, 1)  # Telegram is younger
_STATE_BY_ACTION = {
    "pause": ("paused", ("running",)),
    "resume": ("running", ("paused", "failed")),
    "cancel": ("cancelled", ("running", "paused", "failed")),
}


async def _run_history(args: argparse.Namespace, settings: Settings) -> int:
    require_archive(settings.data.dir)
    if args.action == "list":
        async with open_archive(settings.data.dir) as archive:
            await _print_list(archive, as_json=args.json)
        return 0
    if args.action in ("estimate", "begin", "resume") and not settings.history.api_id:
        raise HistoryUnavailable(
            "Set HISTORY__API_ID and HISTORY__API_HASH first: my.telegram.org gives them (see .env.example)."
        )
    async with hold_folder_or_connect(settings.data.dir) as owner:
        async with open_archive(settings.data.dir) as archive:
            channel = await require_channel(archive, args.channel or "")
            await _act(args, archive, channel, settings)
        if args.action in ("begin", "resume"):
            if owner:
                print("The running bot fetches the posts: citegram history shows how far it is.")
            else:
                from bot.jobs import open_history_client
                from ingest.history import BackfillRunner, PacedSource

                # Fetch the posts of one channel and index them; interrupted, the next run goes on.
                async with open_engine(settings.rag(), language=False) as rag, open_history_client(settings) as client:
                    assert client is not None
                    runner = BackfillRunner(rag.archive, PacedSource(client), lambda: None, only=channel.chat_id)
                    with show_progress_bar("history", "id") as moved:
                        while await runner.run_once():
                            job = (await channel_history.list_backfills(rag.archive))[channel.chat_id]
                            newest = job.newest_id or 0
                            moved(newest - (job.next_id or 0), newest)
                            await asyncio.sleep(0)
                    await data_folder.catch_up_indexes(rag)
                    await _print_list(rag.archive, as_json=False)
    return 0


async def _act(args: argparse.Namespace, archive: Archive, channel: Channel, settings: Settings) -> None:
    title, chat_id = strip_control_characters(channel.title), channel.chat_id
    if args.action == "begin":
        if channel.kind != "channel":
            said = f"{title} is a group: ask for its history in /channels, so that the group is told."
            raise HistoryUnavailable(said)
        first = args.since and max(args.since, _FIRST_DAY)
        since = datetime.combine(first, time(), settings.bot.zone) if first else None
        if not await channel_history.begin_backfill(archive, chat_id, since):
            raise HistoryUnavailable(f"{title} waits for approval: choose who may ask about it in /channels first.")
    elif args.action == "undo":
        print(f"{title}: {await channel_history.undo_deletions(archive, chat_id, datetime.now(UTC))} posts are back.")
    elif args.action == "estimate":
        from bot.jobs import open_history_client
        from ingest.history import PacedSource, estimate_minutes, estimate_size

        async with open_history_client(settings) as client:
            assert client is not None
            count = await estimate_size(archive, PacedSource(client), chat_id)
        print(f"{title}: at most {count} posts, about {estimate_minutes(count)} min.")
    else:
        state, among = _STATE_BY_ACTION[args.action]
        if not await channel_history.set_backfill_state(archive, chat_id, state, among=among):
            raise HistoryUnavailable(f"There is no backfill of {title} to {args.action}: see citegram history.")


async def _print_list(archive: Archive, *, as_json: bool) -> None:
    jobs = await channel_history.list_backfills(archive)
    counts = await channel_history.count_history(archive, datetime.now(UTC))
    for chat_id, channel in (await channels.load_channels(archive)).items():
        job, count = jobs.get(chat_id), counts.get(chat_id, channel_history.HistoryCounts(0, 0))
        line = {
            "chat_id": chat_id,
            "title": channel.title,
            "state": job.state if job else "none",
            "percent": int(100 * job.share) if job else 0,
            "posts": job.saved if job else 0,
            "since": job.since.date().isoformat() if job and job.since else None,
            "missing": count.missing,
            "deleted": count.deleted,
        }
        if as_json:
            print(dump_json(line))
            continue
        said = "not fetched"
        if job:
            said = f"{job.state}, {line['percent']} %, {job.saved} posts"
            said += f" since {job.since:%Y-%m-%d}" if job.since else ""
            said += f" ({job.problem})" if job.problem else ""
        if count.missing:
            said += f"; {count.missing} posts seem deleted and wait for a second look"
        if count.deleted:
            said += f"; {count.deleted} were taken out this week (citegram history undo {chat_id})"
        print(f"{strip_control_characters(channel.title)}: {said}")


async def _run_media(args: argparse.Namespace, settings: Settings) -> int:
    require_archive(settings.data.dir)
    async with hold_folder_or_connect(settings.data.dir) as owner, open_archive(settings.data.dir) as archive:
        if args.action == "retry":
            await media.retry_failed_files(archive)
        elif args.action != "list":
            await media.set_media_paused(archive, args.action == "pause")
    if args.action == "read" and owner is None:
        async with open_engine(settings.rag(), language=False) as rag:
            await read_media_files(rag, settings)
    async with open_archive(settings.data.dir) as archive:
        print(*await _describe_media(archive, settings), sep="\n")
    if args.action in ("read", "resume", "retry") and owner:
        print("The running bot reads them: citegram media shows how far it is.")
    return 0


async def _describe_media(archive: Archive, settings: Settings, *, of_none: bool = True) -> list[str]:
    """Describe the files of posts; without `of_none` no line says that there are none."""
    from bot.i18n import get_translator
    from bot.media import describe_media, load_media_status

    status = await load_media_status(archive)
    return await describe_media(status, archive, settings, get_translator("en")) if status or of_none else []


async def read_media_files(rag: Engine, settings: Settings) -> None:
    """Read the files that wait, with a progress bar, and index their text; interrupted, the next run goes on."""
    from bot.jobs import open_history_client
    from bot.media import load_media_status, open_media_reader
    from bot.telegram.files import HistoryFiles
    from ingest.media.reader import ExportFiles, FileSource

    waiting = sum(one.waiting for one in (await load_media_status(rag.archive)).values())
    async with open_history_client(settings) as client:
        sources: dict[str, FileSource] = {"path": ExportFiles()}
        if client:
            sources["mtproto"] = HistoryFiles(client)
        reader = open_media_reader(rag.archive, settings, sources)
        try:
            with show_progress_bar("read files", "file") as moved:
                await reader.catch_up(lambda done: moved(done, max(waiting, done)))
        finally:
            await reader.close()
    await data_folder.catch_up_indexes(rag)


async def _run_backup(args: argparse.Namespace, settings: Settings) -> int:
    backup = await run_cancellable(partial(make_backup, settings.data.dir))
    if settings.data.backups:
        prune_backups(settings.data.dir, settings.data.backups)
    print(f"{backup} ({_format_size(backup)})")
    return 0


async def _run_restore(args: argparse.Namespace, settings: Settings) -> int:
    folder = settings.data.dir
    if args.file and not args.file.is_file():
        raise BackupFailed(f"There is no file {args.file}.")
    if not (args.file or folder.exists()):
        raise BackupFailed(f"There is no folder {folder}: check --data (or DATA__DIR).")
    async with hold_folder(folder):
        backup, aside = await run_cancellable(lambda stop: restore_backup(folder, args.file, stop))
    print(f"The archive is that of {get_backup_time(backup):%Y-%m-%d %H:%M} UTC ({backup}, {_format_size(backup)}).")
    if aside:
        print(f"What was there before is kept as {aside}; delete it when all is well.")
    print("The indexes are built anew at the next start, and the bot tells which times its channels lack posts of.")
    return 0


def _format_size(file: Path) -> str:
    return f"{max(1, file.stat().st_size >> 20)} MB"


async def _run_trace(args: argparse.Namespace, settings: Settings) -> int:
    """Fetch a trace and print it; this only reads, so it also works while the bot runs. Returns the exit code."""
    from rag_core.storage.questions import fetch_trace

    settings = await data_folder.choose_folder_with_channels(settings)
    async with open_archive(settings.data.dir) as archive:
        trace = await fetch_trace(archive, args.id)
    if trace is None:
        hint = "citegram ask --json prints the id of an answer as trace_id; old ones are forgotten."
        print(f"There is no trace {args.id}: {hint}", file=sys.stderr)
        return 1
    if args.json:
        print(dump_json(asdict(trace) | {"ended_at": trace.ended_at.isoformat()}))
        return 0
    print(f"{trace.trace_id}  {trace.recipe}  {trace.ended_at:%Y-%m-%d %H:%M:%S} UTC")
    print("\n".join(format_stages(trace.spans)))
    if trace.without:
        print(f"without: {', '.join(trace.without)}")
    return 0
