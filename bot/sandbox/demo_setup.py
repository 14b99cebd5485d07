"""Demo setup: a sandbox with people, the sample channels and a group, and settings for a bot in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from pydantic import SecretStr

from bot.app import run_bot
from bot.cli.index_commands import catch_up_lexical_index, catch_up_vectors
from bot.control.client import hold_folder
from bot.sandbox.chats import SAMPLE_CHANNELS_FOLDER, Json, Membership
from bot.sandbox.server import Sandbox
from bot.sandbox.state import SuggestedQuestion
from bot.settings import Settings, WebhookSettings
from ingest.exports.desktop_export import ImportOptions, import_export
from rag_core.engine import open_engine
from rag_core.errors import SettingsWrong
from rag_core.storage import Archive, channels, posts
from rag_core.types import Channel, Post, Visibility


class LoopbackSession(AiohttpSession):
    """aiogram session over plain HTTP."""

    def __init__(self, url: str) -> None:
        super().__init__(api=TelegramAPIServer.from_base(url))

    async def close(self) -> None:
        """Close at once: aiogram waits a quarter of a second for TLS, which is not used here."""
        if self._session is not None and not self._session.closed:
            await self._session.close()


def make_local_bot(url: str, token: str) -> Bot:
    """Make a bot that uses the Bot API server at `url`. Use as `async with`, or close its session."""
    return Bot(token, session=LoopbackSession(url))


ADMIN_ID, READER_ID, GROUP_ID = 1001, 1002, -1_009_000_000_001
_ADMINS = {1004: ("Nora", "en"), ADMIN_ID: ("Вера", "ru")}  # a reader and an admin in each language of the page
_READERS = {READER_ID: ("Alex", "en"), 1003: ("Митя", "ru")}

_MAX_CHANGES = 1_000_000  # more than a demo's archive will ever hold


@asynccontextmanager
async def open_demo_sandbox(settings: Settings, *ports: int) -> AsyncIterator[tuple[Sandbox, Settings]]:
    """Start the sandbox on the first free port of 127.0.0.1, and build the settings of the bot in it.

    The sample channels are imported into `settings.data.dir` (once only); posts made in an earlier demo are still
    there. Raises SettingsWrong if all ports are taken, FolderLocked if a demo runs in the folder.
    """
    sandbox = Sandbox()  # its token is random and stays in this process
    async with hold_folder(settings.data.dir), open_engine(settings.rag(), language=False) as rag:
        sample_channels = await import_sample_channels(rag.archive)
        await catch_up_lexical_index(rag)
        await catch_up_vectors(rag)
        await _add_people_and_channels(sandbox, rag.archive, sample_channels)
    try:
        await sandbox.start(*ports)
    except OSError as exc:
        raise SettingsWrong(
            f"Port {ports[-1]} cannot be used ({exc.strerror}): choose another one with --port."
        ) from exc
    try:
        yield sandbox, _build_demo_settings(settings, sandbox)
    finally:
        await sandbox.stop()


def _build_demo_settings(settings: Settings, sandbox: Sandbox) -> Settings:
    values = {"token": SecretStr(sandbox.token), "admins": tuple(_ADMINS), "api": sandbox.url, "proxy": SecretStr("")}
    # The webhook's address and port belong to the real bot, not to the demo's.
    return settings.model_copy(update={"bot": settings.bot.model_copy(update=values), "webhook": WebhookSettings()})


async def import_sample_channels(archive: Archive) -> list[Channel]:
    """Import the sample channels into an archive; channels that already have posts are left unchanged."""
    sample_channels = []
    for row in _load_channel_rows():
        channel = Channel(row["chat_id"], row["title"], row["username"], visibility=Visibility(row["visibility"]))
        if not await posts.count_posts(archive, channel.chat_id):
            options = ImportOptions(channel.username, visibility=channel.visibility)
            await import_export(archive, SAMPLE_CHANNELS_FOLDER / row["folder"], options)
        sample_channels.append(channel)
    return sample_channels


async def _add_people_and_channels(sandbox: Sandbox, archive: Archive, sample_channels: list[Channel]) -> None:
    """Add the people, a group, the channels with all their posts in the archive, and questions that they answer."""
    world = sandbox.world
    for user_id, (name, lang) in (_READERS | _ADMINS).items():
        world.add_person(user_id, name, lang=lang)
    world.add_group(GROUP_ID, "Соседи · Neighbours", members=_ADMINS | _READERS, bot="member")
    posts_by_channel: dict[int, list[Post]] = {channel.chat_id: [] for channel in sample_channels}
    for change in await posts.list_post_changes(archive, 0, _MAX_CHANGES):
        if change.post and change.key.chat_id in posts_by_channel:
            posts_by_channel[change.key.chat_id].append(change.post)
    for channel in sample_channels:
        public = channel.visibility is Visibility.PUBLIC
        members = _ADMINS | _READERS if public else _ADMINS
        room = world.add_channel(channel.chat_id, channel.title, channel.username, members=members, bot=True)
        room.members |= dict.fromkeys(_ADMINS, Membership("administrator"))
        history: list[Post] = sorted(posts_by_channel[channel.chat_id], key=lambda post: post.key.message_id)
        world.add_history(channel.chat_id, history)
        if public:
            await channels.bind_channel(archive, GROUP_ID, channel.chat_id)
    chats = {row["folder"]: int(row["chat_id"]) for row in _load_channel_rows()}
    for line in (SAMPLE_CHANNELS_FOLDER / "suggested.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sources = frozenset(chats[source.partition("/")[0]] for source in row["relevant"])
        world.suggestions.append(SuggestedQuestion(row["text"], row["lang"], sources))


def _load_channel_rows() -> list[Json]:
    rows: list[Json] = json.loads((SAMPLE_CHANNELS_FOLDER / "channels.json").read_text(encoding="utf-8"))
    return rows


@asynccontextmanager
async def run_demo_bot(settings: Settings) -> AsyncIterator[None]:
    """Run the bot; it reads updates when the block begins, and is stopped cleanly at its end."""
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run_bot(settings, stop=stop, ready=ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if task.done():
            await task  # it failed to start: raise its error
        yield
    finally:
        stop.set()
        await task
