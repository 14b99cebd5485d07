"""`citegram reindex`: rebuild the indexes from the archive, beside the ones in use."""

from __future__ import annotations

import argparse
import sys

from bot.cli.open_index import catch_up_vectors, show_progress_bar
from bot.control.client import hold_folder_or_connect
from bot.indexing import RebuildRunner, find_channel_by_name
from bot.settings import Settings
from bot.views.post_phrases import strip_control_characters
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.errors import RebuildRefused
from rag_core.storage import Archive, channels, posts
from rag_core.types import Channel

_UNKNOWN_CHANNEL_TEXT = "There is no channel {name} here: check its @name, or use its id."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("--channel", metavar="@NAME|ID", help="only this channel (default: all)")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Rebuild the indexes, or have the running bot do it. Returns the exit code."""
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            archive = await Archive.open(settings.data.dir)
            try:
                channel = await _resolve_channel(archive, args.channel)
                with show_progress_bar("reindex") as moved:
                    await owner.reindex(channel.chat_id if channel else None, moved)
                await _print_result(archive, channel)
            finally:
                await archive.close()
        else:
            await _reindex_alone(args, settings)
    return 0


async def _reindex_alone(args: argparse.Namespace, settings: Settings) -> None:
    async with open_engine(settings.rag(), language=False) as rag:
        channel = await _resolve_channel(rag.archive, args.channel)
        await _rebuild_indexes(rag, channel.chat_id if channel else None)
        await _print_result(rag.archive, channel)
        await catch_up_vectors(rag)


async def _rebuild_indexes(rag: Engine, chat_id: int | None) -> None:
    """Rebuild; an interrupted rebuild is finished first, so that its work is not lost."""
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


async def _show_rebuild_progress(reindexing: RebuildRunner) -> None:
    with show_progress_bar("reindex") as moved:
        async for done, total in reindexing.progress():
            moved(done, total)


async def _resolve_channel(archive: Archive, name: str | None) -> Channel | None:
    if name is None:
        return None
    channel = find_channel_by_name(name, await channels.load_channels(archive))
    if channel is None:
        raise RebuildRefused(_UNKNOWN_CHANNEL_TEXT.format(name=name))
    return channel


async def _print_result(archive: Archive, channel: Channel | None) -> None:
    count = await posts.count_posts(archive, channel.chat_id if channel else None)
    print(
        f"{strip_control_characters(channel.title) if channel else 'All channels'}: "
        f"the index was built anew ({count} posts)."
    )
