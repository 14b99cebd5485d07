"""`citegram digest`: what is new in all channels, each event once; also while the bot runs."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta

from bot.cli.open_data_folder import choose_folder_with_channels, open_archive
from bot.control.socket_client import hold_folder_or_connect
from bot.settings import Settings
from bot.views.results import format_digest_quote
from bot.views.text import dump_json, strip_control_characters
from ingest.copies import CopyIndexer
from rag_core.retrieval.digests import build_period_digest
from rag_core.storage import channels
from rag_core.text.post_text import cover_spoilers, list_spoilers
from rag_core.types import format_channel_post_link


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `digest`."""
    parser.add_argument("--days", type=int, default=7, metavar="N", help="of the last N days (default: 7)")
    parser.add_argument("--json", action="store_true", help="the lines as one JSON object")
    parser.set_defaults(run=_run)


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    settings = await choose_folder_with_channels(settings)
    until = datetime.now(UTC)
    since = until - timedelta(days=max(1, args.days))
    async with hold_folder_or_connect(settings.data.dir) as owner, open_archive(settings.data.dir) as archive:
        if owner is None:
            await CopyIndexer(archive).catch_up()
        known = await channels.load_channels(archive)
        lines = await build_period_digest(archive, known.keys(), since, until)
    found = [
        {
            "quote": cover_spoilers(line.quote, list_spoilers([line.post])),
            "shown": cover_spoilers(format_digest_quote(line), list_spoilers([line.post])),
            "url": format_channel_post_link(line.post.key, known[line.post.key.chat_id], line.post.topic),
            "channel": strip_control_characters(known[line.post.key.chat_id].title),
            "date": line.post.date.isoformat(),
            "channels": line.channels,
            "related": len(line.related),
            "changed": line.changed,
        }
        for line in lines
    ]
    if args.json:
        print(dump_json({"since": since.isoformat(), "until": until.isoformat(), "lines": found}))
    elif found:
        print("\n\n".join(f"{one['shown']}\n  {one['channel']} · {one['url']}" for one in found))
    else:
        print("Nothing is new in this time: try --days 30.", file=sys.stderr)
    return 0
