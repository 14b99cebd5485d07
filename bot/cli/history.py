"""`citegram history`: how far the channels' histories are; begin, pause, resume, cancel, put deleted posts back.

Everything is written to the archive: a running bot goes on from there within seconds. Where no bot runs, `begin` and
`resume` fetch the posts themselves.
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, date, datetime, time

from bot.cli.open_data_folder import open_archive, require_archive, require_channel
from bot.cli.open_up_to_date_indexes import catch_up_indexes
from bot.cli.progress_bar import show_progress_bar
from bot.control.socket_client import hold_folder_or_connect
from bot.jobs import open_history_client
from bot.settings import Settings
from bot.views.text import dump_json, strip_control_characters
from ingest.history import BackfillRunner, PacedSource, estimate_minutes, estimate_size
from rag_core.engine import open_engine
from rag_core.errors import HistoryUnavailable
from rag_core.storage import Archive, channel_history, channels
from rag_core.storage.channel_history import Backfill
from rag_core.types import Channel

_STATE_BY_ACTION = {
    "pause": ("paused", ("running",)),
    "resume": ("running", ("paused", "failed")),
    "cancel": ("cancelled", ("running", "paused", "failed")),
}


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    actions = ("list", "estimate", "begin", *_STATE_BY_ACTION, "undo")
    parser.add_argument("action", nargs="?", default="list", choices=actions, help="what to do (default: list)")
    parser.add_argument("channel", nargs="?", metavar="CHANNEL", help="its @name, link, id or title; not for list")
    parser.add_argument("--since", type=date.fromisoformat, metavar="YYYY-MM-DD", help="begin: no older posts")
    parser.add_argument("--json", action="store_true", help="list: one JSON object for each channel")
    parser.set_defaults(run=_run_history)


async def _run_history(args: argparse.Namespace, settings: Settings) -> int:
    require_archive(settings.data.dir)
    if args.action == "list":
        async with open_archive(settings.data.dir) as archive:
            await _print_list(archive, as_json=args.json)
        return 0
    if not settings.history.api_id:
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
                    await catch_up_indexes(rag)
                    await _print_list(rag.archive, as_json=False)
    return 0


async def _act(args: argparse.Namespace, archive: Archive, channel: Channel, settings: Settings) -> None:
    title, chat_id = strip_control_characters(channel.title), channel.chat_id
    if args.action == "begin":
        if channel.kind != "channel":
            raise HistoryUnavailable(
                f"{title} is a group: ask for its history in /channels, so that the group is told."
            )
        since = datetime.combine(args.since, time(), settings.bot.zone) if args.since else None
        if not await channel_history.begin_backfill(archive, chat_id, since):
            raise HistoryUnavailable(f"{title} waits for approval: choose who may ask about it in /channels first.")
    elif args.action == "undo":
        print(f"{title}: {await channel_history.undo_deletions(archive, chat_id, datetime.now(UTC))} posts are back.")
    elif args.action == "estimate":
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
        print(dump_json(line) if as_json else _format_line(channel, job, count))


def _format_line(channel: Channel, job: Backfill | None, count: channel_history.HistoryCounts) -> str:
    said = "not fetched"
    if job:
        said = f"{job.state}, {int(100 * job.share)} %, {job.saved} posts"
        said += f" since {job.since:%Y-%m-%d}" if job.since else ""
        said += f" ({job.problem})" if job.problem else ""
    if count.missing:
        said += f"; {count.missing} posts seem deleted and wait for a second look"
    if count.deleted:
        said += f"; {count.deleted} were taken out this week (citegram history undo {channel.chat_id})"
    return f"{strip_control_characters(channel.title)}: {said}"
