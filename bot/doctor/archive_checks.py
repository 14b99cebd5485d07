"""Archive checks: channels, inbox, failed jobs, backups, and the state of the indexes.

The doctor changes nothing: an archive of an earlier version is left to the bot, which makes a backup before it
migrates the archive.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec

from bot.control import DenseFacts, IndexFacts, RunningBot, hold_folder_or_connect
from bot.data_folder import open_archive
from bot.doctor import CheckContext, Finding, bad, fine, note
from bot.media import load_media_status
from bot.settings import Settings
from bot.views.text import strip_control_characters
from ingest.indexer import DenseIndexer
from ingest.integrity import compare_indexes
from ingest.media import find_missing_readers
from rag_core.engine import Engine, open_engine
from rag_core.errors import GenerationFailed, ModelUnavailable, RagError
from rag_core.llm.local import LocalModel
from rag_core.llm.openai_client import RemoteModel
from rag_core.llm.protocol import LanguageModel
from rag_core.models.active_models import find_speech_model
from rag_core.processes import format_install_command
from rag_core.storage import Archive, channels, index_state, posts, raw_updates
from rag_core.storage.backups import get_backup_time, list_backups, read_archive_version, run_cancellable
from rag_core.storage.db import needs_migration
from rag_core.types import Visibility

_FACTS_TIMEOUT_SECONDS = 120.0  # models are loaded and measured
_MAX_BACKUP_AGE = timedelta(days=2)  # one nightly backup may be missed


@asynccontextmanager
async def open_check_context(settings: Settings, *, verbose: bool) -> AsyncIterator[CheckContext]:
    """Open the archive and collect the index facts for the checks."""
    case, folder, text = CheckContext(settings, verbose=verbose), settings.data.dir, ""
    if not folder.exists():  # looking must not make a folder whose name was mistyped
        text = f"There is no folder {folder.resolve()} yet: the first start makes it. Is --data (or DATA__DIR) right?"
    elif await asyncio.to_thread(needs_migration, folder):
        text = (
            "The archive is that of an earlier version of Citegram: start the bot, which makes a backup and brings it "
            "up to date, and look again."
        )
    if text:
        yield replace(case, start=(note(text),))
        return
    case = await _collect_index_facts(case)
    async with AsyncExitStack() as stack:
        try:
            case = replace(case, archive=await stack.enter_async_context(open_archive(folder)))
        except RagError as exc:
            if all(exc.reason != finding.what for finding in case.start):
                case = replace(case, start=(*case.start, bad(exc.reason)))
        yield case


async def _collect_index_facts(case: CheckContext) -> CheckContext:
    """Add the index facts, from the bot that holds the folder or from an engine opened here, and what came of it."""
    owner: RunningBot | None = None
    try:
        async with asyncio.timeout(_FACTS_TIMEOUT_SECONDS), hold_folder_or_connect(case.settings.data.dir) as owner:
            if owner is not None:
                facts, seconds = await owner.doctor()
                hours, minutes = divmod(seconds // 60, 60)
                runs = f"for {hours} h {minutes} min" if seconds >= 60 else f"for {seconds} s"
                text = f"a bot runs here: process {owner.process}, {runs}"
                return replace(case, facts=facts, runs=True, start=(fine(text),))
            async with open_engine(case.settings.rag()) as rag:
                return replace(case, facts=await collect_index_facts(rag))
    except RagError as exc:
        text = exc.reason
    except TimeoutError:
        text = (
            f"The indexes and models could not be looked at within {_FACTS_TIMEOUT_SECONDS:g} s: look whether the disk "
            "and LLM__URL answer."
        )
    return replace(case, runs=owner is not None, start=(bad(text),))


async def report_start(case: CheckContext) -> AsyncIterator[Finding]:
    """Report what was found when the archive and the indexes were opened."""
    for finding in case.start:
        yield finding


async def check_channels(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Report every channel in a line, and the inbox."""
    channels_by_id = await channels.load_channels(archive)
    if not channels_by_id:
        yield note("no channels yet: citegram import result.json, or make the bot admin of a channel")
    for channel in channels_by_id.values():
        count = await posts.count_posts(archive, channel.chat_id)
        closed = " (admins only: publish it with /channels)" if channel.visibility is Visibility.ADMINS else ""
        title = strip_control_characters(channel.title)
        yield note(f"{title}: {count} posts, {channel.state}, {channel.visibility.value}{closed}")
    inbox = await raw_updates.count_updates_by_state(archive)
    yield fine(f"inbox: {inbox['pending']} waiting")
    if inbox["poison"]:
        yield bad(
            f"{inbox['poison']} updates could not be read and are in quarantine: update Citegram, and report the lines "
            "of the log that name them."
        )


_READERS = {
    "extra": "run make media",
    "tesseract": "run sudo apt-get install tesseract-ocr tesseract-ocr-rus tesseract-ocr-eng",
    "speech": "run citegram models pull whisper-base",
}


async def check_media(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Check that the files of posts can be read, where there are any."""
    if case.settings.media.files == "off":
        return
    status = await load_media_status(archive)
    speech_model = await find_speech_model(case.settings.rag(), archive)
    missing = await asyncio.to_thread(find_missing_readers, speech_model)
    for kind, one in status.items():
        if kind in missing and one.waiting:
            yield bad(f"files of posts ({kind}): {one.waiting} cannot be read: {_READERS[missing[kind]]}.")
    if kinds := [kind for kind in missing if kind not in status]:
        remedies = "; ".join(dict.fromkeys(_READERS[missing[kind]] for kind in kinds))
        yield note(f"no post has a {' or a '.join(kinds)} so far. To read one that comes: {remedies}")


async def check_jobs(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Report the running rebuild and the scheduled jobs."""
    if (rebuild := await index_state.find_running_rebuild(archive)) is not None:
        now = "is being rebuilt" if case.runs else "is half rebuilt (it goes on when the bot runs)"
        yield note(f"the index {now}: {rebuild.done} of {rebuild.total} posts")
    all_jobs = await index_state.load_jobs(archive)
    failing = [job for job in all_jobs if job.failing]
    for job in failing:
        yield bad(f"the job {job.name} failed ({job.failed_at:%Y-%m-%d %H:%M} UTC): {job.error}")
    if all_jobs and not failing:
        yield fine(f"scheduled jobs: {', '.join(job.name for job in all_jobs)}; each ended well")


async def check_backups(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Check the age of the newest backup, and that it can be restored."""
    if not (count := await posts.count_posts(archive)):
        return
    backups, now = list_backups(archive.folder), datetime.now(UTC)
    if not backups:
        since = await channels.get_first_channel_date(archive)
        if since is not None and now - since < _MAX_BACKUP_AGE:
            yield note("no backup yet: the first is made at night, or with citegram backup")
        else:
            yield bad(f"There is no backup of {count} posts: run citegram backup, and leave the bot running at night.")
        return
    newest, age = backups[0], now - get_backup_time(backups[0])
    if age > _MAX_BACKUP_AGE:
        yield bad(f"The last backup is {age.days} days old: run citegram backup, and leave the bot running at night.")
    if not await run_cancellable(partial(read_archive_version, newest)):
        yield bad(f"The backup {newest} cannot be put back: look at the disk, delete the file and run citegram backup.")
    elif age <= _MAX_BACKUP_AGE:
        yield fine(f"backups: {len(backups)}, the last of {get_backup_time(newest):%Y-%m-%d %H:%M} UTC can be put back")
    if not case.settings.data.backups:
        yield note("DATA__BACKUPS is 0: no backup is made at night")


async def check_indexes(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Check both indexes against the archive, and report the models that use them."""
    archive_size, facts = f"archive: {await posts.count_posts(archive)} posts", case.facts
    if facts is None:
        yield note(archive_size)
        return
    if facts["behind"] < 0:
        yield bad(
            f"The index knows of {-facts['behind']} changes that the archive does not have, as after a restore under a "
            "running bot: restart the bot, which builds it anew."
        )
    else:
        when = "the bot takes them in" if case.runs else "taken in at the next start"
        late = f"{facts['behind']} changes behind ({when})" if facts["behind"] else "up to date"
        text = f"{archive_size}; lexical index: {facts['passages']} passages, {late}"
        yield note(text) if facts["behind"] else fine(text)
    for reason in facts["without"]:
        yield bad(f"search by meaning is off: {reason}")
    if dense := facts["dense"]:
        index_size, minutes = f"{dense['model']}: {dense['vectors']} vectors", max(1, round(dense["seconds"] / 60))
        later = f"{dense['waiting']} posts to come: about {minutes} min of work while the bot runs"
        yield note(f"{index_size}, {later}") if dense["waiting"] else fine(f"{index_size}, up to date")
    elif not facts["without"]:
        yield note("search by words alone: citegram models pull offline adds search by meaning")
    if compared := facts["compared"]:
        looked = compared["posts"]
        for leg, wrong in (("lexical index", compared["words"]), ("vectors", compared["vectors"])):
            if wrong:
                text = f"{wrong} of {looked} posts that were compared stand differently in the {leg}"
                yield bad(f"{text}: run citegram reindex.")
        if looked and not (compared["words"] or compared["vectors"]):
            yield fine(f"indexes and archive agree: {looked} posts by number, {compared['some']} by words")
    for state, text in facts["language"]:
        yield Finding(state, text)
    if case.verbose:
        yield note(f"bar for answers: {facts['bar']}")


_WORD_FOR_WORD_TEXT = "answers are word for word from the posts"


async def _collect_language_facts(rag: Engine) -> list[tuple[bool | None, str]]:
    """Describe the language models: (True, False or None for neutral, a sentence) for each."""
    facts: list[tuple[bool | None, str]] = [
        (False, f"no writer, {_WORD_FOR_WORD_TEXT}: {one.reason}") for one in rag.without if one.stage == "write"
    ]
    if rag.writer:
        facts.append(await _describe_model("writer", rag.writer))
    elif not facts:
        facts.append((None, f"no writer, {_WORD_FOR_WORD_TEXT}: citegram models pull default, or set LLM__URL"))
    if find_spec("llama_cpp") is None and not isinstance(rag.writer, RemoteModel):
        command = format_install_command("citegram[local]")
        facts.append((None, f"llama.cpp is not installed, a GGUF needs it. To compile it, some minutes: {command}"))
    return facts


async def _describe_model(use: str, model: LanguageModel) -> tuple[bool | None, str]:
    if not isinstance(model, RemoteModel | LocalModel):
        return None, f"{use}: {model.name}"
    try:
        if isinstance(model, RemoteModel):  # takes a turn and some seconds
            speed = await model.measure_speed()
            form = "replies are held to a grammar" if model.grammars else "replies are checked, grammars not trusted"
            read = f"reads {speed.prefill:,.0f} and writes {speed.decode:,.1f} tokens/s as seen from here"
            return True, f"{use}: {model.name} on {model.place} ({model.dialect}) {read}; {form}"
        await model.load()
    except (GenerationFailed, ModelUnavailable) as exc:
        return False, f"{use}: {exc.reason}"
    if (local := model.speed) is None or (rates := model.rates) is None:
        return False, f"{use}: {model.name} could not be measured: start the bot again"
    size = f"{local.parameters / 1e9:.1f} B parameters, {local.bytes / 1e9:.1f} GB"
    gpu = "can use a GPU" if local.gpu else "can use no GPU"
    read = f"reads {rates.prefill:,.0f} and writes {rates.decode:,.1f} tokens/s"
    return True, f"{use}: {model.name} ({size}) {read} with {local.threads} threads; this llama.cpp {gpu}"


_SAMPLE_COUNT = 16  # texts embedded to estimate the time for a backlog
_SAMPLE_TEXT = "Паром уходит в половине восьмого. The ferry leaves at half past seven, and comes back before dark. " * 2


async def collect_index_facts(rag: Engine) -> IndexFacts:
    """Collect the facts from an open engine. Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable."""
    last, dense = await posts.get_last_seq(rag.archive), None
    if rag.dense is not None:
        model, vectors, embedder = rag.dense.model.name, rag.dense.vectors, rag.dense.embedder
        waiting, seconds = await DenseIndexer(rag.archive, vectors, embedder).waiting(), 0.0
        if waiting:
            started = time.perf_counter()
            await embedder.passages([_SAMPLE_TEXT] * _SAMPLE_COUNT)
            seconds = (time.perf_counter() - started) / _SAMPLE_COUNT * waiting
        dense = DenseFacts(model=model, vectors=await vectors.count(), waiting=waiting, seconds=seconds)
    late = rag.lexical.watermark > last or bool(await posts.list_post_changes(rag.archive, rag.lexical.watermark, 1))
    comparison = await compare_indexes(rag) if not (late or (dense and dense["waiting"])) else None
    return IndexFacts(
        passages=len(rag.lexical),
        behind=last - rag.lexical.watermark if late else 0,
        dense=dense,
        compared=comparison,
        without=[shortfall.reason for shortfall in rag.without if shortfall.stage != "write"],
        language=await _collect_language_facts(rag),
        bar=f"{rag.calibration.bar} ({rag.calibration.data})",
    )
