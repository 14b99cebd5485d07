"""`citegram reindex`: the indexes built anew from the archive, beside the ones in use."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bot.beside.client import Owner, alone_or_beside
from bot.commands.indexed import bar, embedded
from bot.plain import plain
from bot.reindexing import Reindexing, named
from bot.settings import Settings
from ingest.dense import DenseIndexer
from ingest.index import Indexer
from rag_core.doors.archive import Archive, channels, posts
from rag_core.errors import RebuildRefused
from rag_core.rag import Rag, open_rag
from rag_core.types import Channel

__all__ = ["declare", "run"]

_UNKNOWN = "There is no channel {name} here: check its @name, or use its id."


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("reindex", help="build the indexes anew; questions are answered from the old ones")
    parser.add_argument("--channel", metavar="@NAME|ID", help="only this channel (default: all)")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Rebuild, or have the bot that runs do it. Returns the exit code."""
    async with alone_or_beside(settings.data.dir) as owner:
        if owner:
            await _beside(owner, args, settings)
        else:
            await _alone(args, settings)
    return 0


async def _beside(owner: Owner, args: argparse.Namespace, settings: Settings) -> None:
    archive = await Archive.open(settings.data.dir)
    try:
        channel = await _meant(archive, args.channel)
        with bar("reindex") as moved:
            await owner.reindex(channel.chat_id if channel else None, moved)
        await _told(archive, channel)
    finally:
        await archive.close()


async def _alone(args: argparse.Namespace, settings: Settings) -> None:
    async with open_rag(settings.rag(), language=False) as rag:
        channel = await _meant(rag.archive, args.channel)
        await _rebuilt(rag, channel.chat_id if channel else None)
        await _told(rag.archive, channel)
        await embedded(rag)


async def _rebuilt(rag: Rag, chat_id: int | None) -> None:
    """Rebuild; what was interrupted comes first, so that nothing of it is lost."""
    dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder) if rag.dense else None
    reindexing = Reindexing(rag.archive, Indexer(rag.archive, rag.lexical), dense)
    try:
        left = await reindexing.resume()
        if left:
            print("A rebuild was interrupted: it goes on.", file=sys.stderr)
            await _watched(reindexing)
        if left is None or left.chat_id not in (None, chat_id):
            await reindexing.start(chat_id)
            await _watched(reindexing)
    finally:
        await reindexing.stop()


async def _watched(reindexing: Reindexing) -> None:
    with bar("reindex") as moved:
        async for done, total in reindexing.progress():
            moved(done, total)


async def _meant(archive: Archive, name: str | None) -> Channel | None:
    if name is None:
        return None
    channel = named(name, await channels.known(archive))
    if channel is None:
        raise RebuildRefused(_UNKNOWN.format(name=name))
    return channel


async def _told(archive: Archive, channel: Channel | None) -> None:
    count = await posts.count(archive, channel.chat_id if channel else None)
    print(f"{plain(channel.title) if channel else 'All channels'}: the index was built anew ({count} posts).")
