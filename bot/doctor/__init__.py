"""Checks that bot/cli/doctor.py runs: what all share, and the checks of the machine and of the settings."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from bot.control import IndexFacts
from bot.data_folder import is_open_to_others, measure_disk_usage
from bot.logs import collect_secrets
from bot.settings import Settings
from rag_core.errors import ModelUnavailable, RagError
from rag_core.llm.local import check_gguf_file, estimate_memory, measure_free_memory
from rag_core.models import active_models
from rag_core.models.catalog import MODELS, verify_model_checksums
from rag_core.processes import format_install_command
from rag_core.safe_files import measure_size
from rag_core.storage import Archive, index_state
from rag_core.storage.readers import load_choices

log = logging.getLogger(__name__)


class Finding(NamedTuple):
    """One line of the report; `fine` is None for a neutral finding."""

    fine: bool | None
    what: str


fine, note, bad = (partial(Finding, state) for state in (True, None, False))


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Subject of the checks. `archive` and `facts` are None if unavailable; `runs`: a bot holds the folder.

    `start`: what was found when they were opened; `verbose`: notes for developers are wanted too.
    """

    settings: Settings
    archive: Archive | None = None
    facts: IndexFacts | None = None
    runs: bool = False
    start: tuple[Finding, ...] = ()
    verbose: bool = False


class Check(NamedTuple):
    """A check: its name, its timeout in seconds, and its function, which may need the archive that is open."""

    name: str
    seconds: float
    look: Callable[..., AsyncIterator[Finding]]
    of_archive: bool = False


async def run_checks(case: CheckContext, checks: Sequence[Check]) -> AsyncIterator[tuple[str, Finding]]:
    """Run the checks and yield (name of the check, finding); secrets are masked."""
    for check in checks:
        if check.of_archive and case.archive is None:
            continue
        given = (case, case.archive) if check.of_archive else (case,)
        findings: list[Finding] = []
        failure = ""
        try:
            async with asyncio.timeout(check.seconds):
                async for finding in check.look(*given):
                    findings.append(finding)
        except TimeoutError:
            failure = (
                f"The check of {check.name} was given up after {check.seconds:g} s: look whether the disk and the "
                "servers it asks answer."
            )
        except RagError as exc:
            failure = exc.reason
        except Exception as exc:  # whatever the error, the other checks go on
            log.info("the check of %s failed", check.name, exc_info=True)
            kind = type(exc).__name__
            failure = f"The check of {check.name} failed ({kind}): run citegram -v doctor, and report what it says."
        findings += [bad(failure)] if failure else []
        for state, what in findings:
            for secret in collect_secrets(case.settings):
                what = what.replace(secret, "…")
            yield check.name, Finding(state, what)


_MIN_FREE_BYTES = 1 << 30  # for logs, imports and models
_MOUNTS_FILE = Path("/proc/mounts")
# SQLite's write-ahead log needs shared memory and file locks, which these file systems do not provide reliably:
# https://www.sqlite.org/wal.html, https://www.sqlite.org/faq.html#q5
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph glusterfs lustre fuse.sshfs fuse.s3fs fuse.glusterfs fuse.rclone".split()
)


async def check_free_space(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that the disk has room for the next backup and rebuild, which are made beside the existing files."""
    folder = case.settings.data.dir.resolve()
    used = await asyncio.to_thread(measure_disk_usage, folder)
    need = max(_MIN_FREE_BYTES, used.archive + used.indexes)
    if used.free >= need:
        yield fine(f"{folder}: {used.free / 1e9:.1f} GB free")
    else:
        yield bad(
            f"{folder} has {used.free / 1e9:.1f} GB free, and a backup and a rebuild of the indexes need "
            f"{need / 1e9:.1f} GB: make room, or move the folder and set DATA__DIR."
        )


async def check_file_system(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that SQLite is safe on the file system of the data folder."""
    folder = case.settings.data.dir.resolve()
    mounts = list[list[str]]()
    with suppress(OSError):
        mounts = [line.split() for line in _MOUNTS_FILE.read_text("utf-8", errors="replace").splitlines()]
    kinds = {mount[1].replace("\\040", " "): mount[2] for mount in mounts if len(mount) > 2}
    kind = next((kinds[str(above)] for above in (folder, *folder.parents) if str(above) in kinds), "")
    if kind in _NETWORK_FILE_SYSTEMS:
        yield bad(
            f"{folder} lies on a network file system ({kind}), where SQLite is not safe: move it to a local disk, and "
            "set DATA__DIR."
        )
    if case.archive is not None and (mode := await index_state.get_journal_mode(case.archive)) != "wal":
        yield bad(
            f"The archive cannot keep its log beside it, its journal mode is {mode}: move {folder} to a local disk, "
            "and set DATA__DIR."
        )


async def check_permissions(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that other users cannot read the token or the posts."""
    for path, mode in ((Path(".env"), "600"), (case.settings.data.dir, "700")):
        if is_open_to_others(path):
            yield bad(f"{path} can be read by other users of this machine: run chmod {mode} {path}.")


async def check_models(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Check each model in use once: its checksums, read in full, and its memory, unless a running bot has it loaded."""
    rag_settings = case.settings.rag()
    live = await active_models.find_live_model(archive)
    used = active_models.list_models_in_use(rag_settings, await load_choices(archive), live)
    for name in dict.fromkeys(used.values()):
        try:
            need = await asyncio.to_thread(_check_model_files, name, active_models.get_models_folder(rag_settings))
        except ModelUnavailable as exc:
            yield bad(exc.reason)
            continue
        if need is None:  # a remote model, or none
            continue
        free = measure_free_memory()
        if not case.runs and free is not None and need > free:
            yield bad(
                f"The model {name} needs about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: choose "
                "a smaller one with citegram models use, or end what else runs."
            )
        else:
            yield fine(f"{name}: its files are what they were when they came")
    if progress := await active_models.find_embedder_progress(rag_settings, archive):
        yield note(str(progress))


def _check_model_files(name: str, folder: Path) -> int | None:
    """Verify a model's files. Returns the bytes of memory it needs, None without local files.

    Blocking. Raises ModelUnavailable.
    """
    if active_models.is_gguf_path(name):
        check_gguf_file(Path(name).expanduser())
        return estimate_memory(Path(name).expanduser().stat().st_size)
    for row in MODELS:
        if row.name == name:
            verify_model_checksums(row, folder / row.name)
            return row.memory or measure_size(folder / row.name)
    return None


async def check_servers(case: CheckContext) -> AsyncIterator[Finding]:
    """Check the Qdrant server, or each node of the cluster, if one is configured."""
    key = case.settings.qdrant.key.get_secret_value()
    headers = {"api-key": key} if key else {}
    for url in case.settings.qdrant.urls:
        server = f"The Qdrant server {urlsplit(url).netloc.rpartition('@')[2]}"
        try:
            async with (
                ClientSession(timeout=ClientTimeout(total=8.0), headers=headers) as session,
                session.get(f"{url.rstrip('/')}/collections") as answer,
            ):
                status = answer.status
        except (ClientError, OSError, TimeoutError, ValueError):
            yield bad(f"{server} does not answer: start it, or correct QDRANT__URL.")
            continue
        if status in (401, 403):
            yield bad(f"{server} refuses the key: correct QDRANT__KEY.")
        elif status != 200:
            yield bad(f"{server} answers with the error {status}: look at its log.")
        else:
            yield fine(f"the{server[3:]} answers")


async def check_settings(case: CheckContext) -> AsyncIterator[Finding]:
    """Report all contradictory settings."""
    contradictions = list(_find_contradictions(case.settings))
    for contradiction in contradictions:
        yield bad(contradiction)
    if not case.settings.bot.admins:
        yield Finding(
            False if case.settings.bot.token.get_secret_value() else None,
            "BOT__ADMINS is empty, so nobody can approve a channel: send /start to the bot, it tells you the line for "
            ".env.",
        )
    elif not contradictions:
        yield fine("settings: none contradicts another")


def _find_contradictions(settings: Settings) -> Iterator[str]:
    llm, qdrant = settings.llm, settings.qdrant
    if llm.url and llm.model not in ("auto", "none"):
        yield f"LLM__URL and LLM__MODEL={llm.model} are both set, and the server writes: take one of them out."
    for name, value, needed, url in (
        ("LLM__KEY", llm.key.get_secret_value(), "LLM__URL", llm.url),
        ("LLM__NAME", llm.name, "LLM__URL", llm.url),
        ("QDRANT__KEY", qdrant.key.get_secret_value(), "QDRANT__URL", qdrant.url),
    ):
        if value and not url:
            yield f"{name} is set without {needed}, and does nothing: set {needed} too, or take it out."
    if settings.mcp.listen and find_spec("mcp") is None:
        yield f"MCP__LISTEN needs more packages: {format_install_command('citegram[mcp]')}"
    for name, urls, secret in (
        ("BOT__API", [settings.bot.api], settings.bot.token),
        ("LLM__URL", [llm.url], llm.key),
        ("QDRANT__URL", qdrant.urls, qdrant.key),
    ):
        unencrypted = {url.hostname for url in map(urlsplit, urls) if url.scheme == "http"}
        if secret.get_secret_value() and unencrypted - {"localhost", "127.0.0.1", "::1"}:
            yield f"{name} sends its key unencrypted to another machine: use https."
