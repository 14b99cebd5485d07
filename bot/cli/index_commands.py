"""`citegram import` and `reindex`: into indexes that this process opens, or by the bot where it runs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli.open_data_folder import open_archive, require_archive, require_channel
from bot.cli.open_up_to_date_indexes import catch_up_copies, catch_up_lexical_index, catch_up_vectors
from bot.cli.progress_bar import show_progress_bar
from bot.control.socket_client import hold_folder_or_connect
from bot.settings import Settings
from bot.views.text import dump_json, strip_control_characters
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.rebuild import EmbedderChange
from rag_core.engine import Engine, open_engine
from rag_core.storage import Archive, posts
from rag_core.types import Channel, Visibility

if TYPE_CHECKING:  # imported where they are used: each command of the two does without those of the other
    from bot.indexing import RebuildRunner
    from ingest.exports import ImportReport
    from ingest.json_export import ImportOptions


def declare_import(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("path", type=Path, metavar="PATH", help="result.json or messages.html, or the folder of one")
    which = "the channel of a messages.html, which does not say it: its id, or its @name if the bot knows it"
    parser.add_argument("--chat", metavar="ID", help=which)
    parser.add_argument("--title", help="what to call it, if not as in the export")
    parser.add_argument("--username", help="the channel's public @name: exports do not hold it, and links need it")
    who = "who may read it: public, members or admins (default: public with --username, else admins)"
    parser.add_argument("--visibility", choices=[v.value for v in Visibility], help=who)
    parser.add_argument("--allow-private", action="store_true", help="import personal chats too")
    parser.add_argument("--json", action="store_true", help="end with one line of counts as JSON")
    parser.set_defaults(run=_run_import)


async def _run_import(args: argparse.Namespace, settings: Settings) -> int:
    from ingest.json_export import ImportOptions

    visibility = Visibility(args.visibility) if args.visibility else None
    name = args.username.lstrip("@") if args.username else None
    options = ImportOptions(name, args.allow_private, visibility, settings.bot.zone, args.chat, args.title)
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:  # it owns the indexes: only the archive is written here
            async with open_archive(settings.data.dir) as archive:
                report = await _import_with_progress(archive, args.path, options)
            try:
                with show_progress_bar("index") as moved:
                    await owner.wake(moved)
            finally:  # the posts are stored even if the bot ended: it indexes them at its next start
                _print_report(report, as_json=args.json)
        else:
            async with open_engine(settings.rag(), language=False) as rag:
                report = await _import_with_progress(rag.archive, args.path, options)
                await catch_up_lexical_index(rag)
                _print_report(report, as_json=args.json)
                await catch_up_copies(rag)
                await catch_up_vectors(rag)
    return 0


async def _import_with_progress(archive: Archive, path: Path, options: ImportOptions) -> ImportReport:
    from ingest.exports import import_export

    with show_progress_bar("import", "B") as moved:
        return await import_export(archive, path, options, moved)


def _print_report(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print(dump_json(asdict(report.tally)))
        return
    titles = ", ".join(strip_control_characters(channel.title) for channel in report.channels)
    tally = report.tally
    print(f"{titles}: {tally.new} new, {tally.edited} edited, {tally.unchanged} unchanged, "
          f"{tally.skipped} skipped, {tally.deleted} deleted.")  # fmt: skip
    for note in report.notes:
        print(strip_control_characters(note))


def declare_reindex(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("--channel", metavar="CHANNEL", help="only this one: @name, link, id or title")
    parser.set_defaults(run=_run_reindex)


async def _run_reindex(args: argparse.Namespace, settings: Settings) -> int:
    require_archive(settings.data.dir)
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            async with open_archive(settings.data.dir) as archive:
                channel = await require_channel(archive, args.channel) if args.channel is not None else None
                with show_progress_bar("reindex") as moved:
                    await owner.reindex(channel.chat_id if channel else None, moved)
                await _print_result(archive, channel)
        else:
            async with open_engine(settings.rag(), language=False) as rag:
                channel = await require_channel(rag.archive, args.channel) if args.channel is not None else None
                await _rebuild(rag, channel.chat_id if channel else None)
                await _print_result(rag.archive, channel)
                await _change_embedder(rag)
                await catch_up_vectors(rag)
    return 0


async def _rebuild(rag: Engine, chat_id: int | None) -> None:
    """Rebuild; an interrupted rebuild is finished first, so that its work is not lost."""
    from bot.indexing import RebuildRunner

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


async def _change_embedder(rag: Engine) -> None:
    """Embed all posts with the model that was asked for, beside the vectors in use, and put them in their place."""
    if rag.dense is None:
        return
    change = EmbedderChange(rag, DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder))
    try:
        if rag.next_embedder is None:
            await change.run()
        else:
            with show_progress_bar(rag.next_embedder.name) as moved:
                await change.run(moved)
    finally:
        await change.close()


async def _show_rebuild_progress(reindexing: RebuildRunner) -> None:
    with show_progress_bar("reindex") as moved:
        async for done, total in reindexing.progress():
            moved(done, total)


async def _print_result(archive: Archive, channel: Channel | None) -> None:
    count = await posts.count_posts(archive, channel.chat_id if channel else None)
    title = strip_control_characters(channel.title) if channel else "All channels"
    print(f"{title}: the index was built anew ({count} posts).")
