"""The sample channels' town: a sandbox with people, channels and a group, and settings for a bot that lives in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from bot.app import run_bot
from bot.beside.client import alone
from bot.commands.indexed import caught_up, embedded
from bot.sandbox.server import Sandbox
from bot.settings import Settings, WebhookSettings
from ingest.desktop_export import ImportOptions, import_export
from rag_core.doors.archive import Archive, channels, posts
from rag_core.errors import SettingsWrong
from rag_core.rag import open_rag
from rag_core.types import Channel, Post, Visibility

__all__ = ["ADMIN", "GROUP", "READER", "furnished", "imported", "running"]

ADMIN, READER, GROUP = 1001, 1002, -1_009_000_000_001

_SAMPLES = Path(__file__).parent / "channels"
_ALL = 1_000_000  # changes: more than a demo's archive will ever hold


@asynccontextmanager
async def furnished(settings: Settings, port: int) -> AsyncIterator[tuple[Sandbox, Settings]]:
    """The sandbox on 127.0.0.1, and the settings of the bot in it. Raises SettingsWrong where the port is taken,
    FolderHeld where a demo runs in the folder.

    The sample channels are imported into `settings.data.dir` (again is no work); posts made in an earlier
    demo are still there.
    """
    sandbox = Sandbox()  # its token is random and stays in this process
    async with alone(settings.data.dir), open_rag(settings.rag(), language=False) as rag:
        found = await imported(rag.archive)
        await caught_up(rag)
        await embedded(rag)
        await _settle(sandbox, rag.archive, found)
    try:
        await sandbox.start(port)
    except OSError as exc:
        raise SettingsWrong(f"Port {port} cannot be used ({exc.strerror}): choose another one with --port.") from exc
    try:
        yield sandbox, _inhabitant(settings, sandbox)
    finally:
        await sandbox.stop()


def _inhabitant(given: Settings, sandbox: Sandbox) -> Settings:
    values = {"token": SecretStr(sandbox.token), "admins": (ADMIN,), "api": sandbox.url, "proxy": SecretStr("")}
    # The webhook is the real bot's: its address and its port are not for the one of the demo.
    return given.model_copy(update={"bot": given.bot.model_copy(update=values), "webhook": WebhookSettings()})


async def imported(archive: Archive) -> list[Channel]:
    """Read the sample channels into an archive; those that have posts already are left as they are."""
    found = []
    for row in json.loads((_SAMPLES / "channels.json").read_text(encoding="utf-8")):
        channel = Channel(row["chat_id"], row["title"], row["username"], visibility=Visibility(row["visibility"]))
        if not await posts.count(archive, channel.chat_id):
            options = ImportOptions(channel.username, visibility=channel.visibility)
            await import_export(archive, _SAMPLES / row["folder"], options)
        found.append(channel)
    return found


async def _settle(sandbox: Sandbox, archive: Archive, found: list[Channel]) -> None:
    """Two people, a group, and the channels with everything the archive has of them."""
    world = sandbox.world
    world.add_person(ADMIN, "Вера", lang="ru")
    world.add_person(READER, "Alex", lang="en")
    world.add_group(GROUP, "Соседи · Neighbours", members=[ADMIN, READER], bot="member")
    told: dict[int, list[Post]] = {channel.chat_id: [] for channel in found}
    for change in await posts.changes(archive, 0, _ALL):
        if change.post and change.key.chat_id in told:
            told[change.key.chat_id].append(change.post)
    for channel in found:
        public = channel.visibility is Visibility.PUBLIC
        members = [ADMIN, READER] if public else [ADMIN]
        world.add_channel(channel.chat_id, channel.title, channel.username, members=members, bot=True)
        history: list[Post] = sorted(told[channel.chat_id], key=_number)
        world.add_history(channel.chat_id, history)
        if public:
            await channels.bind(archive, GROUP, channel.chat_id)


def _number(post: Post) -> int:
    return post.key.message_id


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[None]:
    """The bot, reading updates from the first line inside on; stopped cleanly at the end."""
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run_bot(settings, stop=stop, ready=ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if task.done():
            await task  # it did not begin: its reason
        yield
    finally:
        stop.set()
        await task
