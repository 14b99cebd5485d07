"""Environment checks: disk space, file system, permissions, model files, memory, and the Qdrant server.

The server of a language model is measured together with the models, in `bot.control.doctor_facts`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from bot.data_folder_lock import is_open_to_others, measure_disk_usage
from bot.doctor import CheckContext, Finding
from bot.settings import Settings
from rag_core.errors import ModelUnavailable
from rag_core.llm.local import check_gguf_file, measure_free_memory
from rag_core.models.active_models import UNDECIDED_VALUES, get_models_folder, is_gguf_path, list_models_in_use
from rag_core.models.catalog import MODELS, measure_folder_size, verify_model_checksums
from rag_core.storage import monitoring_stats, user_data

_MIN_FREE_BYTES = 1 << 30  # for logs, imports and models
_MOUNTS_FILE = Path("/proc/mounts")
# SQLite's write-ahead log needs shared memory and file locks, which these file systems do not provide reliably:
# https://www.sqlite.org/wal.html, https://www.sqlite.org/faq.html#q5
_NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph glusterfs lustre fuse.sshfs fuse.s3fs fuse.glusterfs fuse.rclone".split()
)

_DISK_FULL_TEXT = (
    "{folder} has {free:.1f} GB free, and a backup and a rebuild of the indexes need {need:.1f} GB: make room, or "
    "move the folder and set DATA__DIR."
)
_NETWORK_FILE_SYSTEM_TEXT = (
    "{folder} lies on a network file system ({kind}), where SQLite is not safe: move it to a local disk, and set "
    "DATA__DIR."
)
_NO_WAL_TEXT = (
    "The archive cannot keep its log beside it, its journal mode is {mode}: move {folder} to a local disk, and set "
    "DATA__DIR."
)
_OPEN_PERMISSIONS_TEXT = "{path} can be read by other users of this machine: run chmod {mode} {path}."


async def check_free_space(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that the disk has room for the next backup and rebuild, which are made beside the existing files."""
    folder = case.settings.data.dir.resolve()
    used = await asyncio.to_thread(measure_disk_usage, folder)
    need = max(_MIN_FREE_BYTES, used.archive + used.indexes)
    if used.free < need:
        yield Finding(False, _DISK_FULL_TEXT.format(folder=folder, free=used.free / 1e9, need=need / 1e9))
    else:
        yield Finding(True, f"{folder}: {used.free / 1e9:.1f} GB free")


async def check_file_system(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that SQLite is safe on the file system of the data folder."""
    folder = case.settings.data.dir.resolve()
    kind = await asyncio.to_thread(_get_file_system, folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        yield Finding(False, _NETWORK_FILE_SYSTEM_TEXT.format(folder=folder, kind=kind))
    if case.archive is not None:
        mode = await monitoring_stats.get_journal_mode(case.archive)
        if mode != "wal":
            yield Finding(False, _NO_WAL_TEXT.format(folder=folder, mode=mode))


def _get_file_system(folder: Path) -> str:
    """Get the kernel's name of the folder's file system; "" if unknown."""
    try:
        lines = [line.split() for line in _MOUNTS_FILE.read_text("utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    kinds = {line[1].replace("\\040", " "): line[2] for line in lines if len(line) > 2}
    above = (str(mount) for mount in (folder, *folder.parents))
    return next((kinds[mount] for mount in above if mount in kinds), "")


async def check_permissions(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that other users cannot read the token or the posts."""
    for path, mode in ((case.env_file, "600"), (case.settings.data.dir, "700")):
        if is_open_to_others(path):
            yield Finding(False, _OPEN_PERMISSIONS_TEXT.format(path=path, mode=mode))


_MEMORY_TEXT = (
    "The model {name} needs about {need:.1f} GB of memory, and {free:.1f} GB are free: choose a smaller one with "
    "citegram models use, or end what else runs."
)


async def check_models(case: CheckContext) -> AsyncIterator[Finding]:
    """Check each model in use once: its checksums, read in full, and its memory, unless a running bot has it loaded."""
    if case.archive is None:
        return
    rag_settings = case.settings.rag()
    used = list_models_in_use(rag_settings, await user_data.load_choices(case.archive))
    for name in dict.fromkeys(used.values()):
        try:
            need = await asyncio.to_thread(_check_model_files, name, get_models_folder(rag_settings))
        except ModelUnavailable as exc:
            yield Finding(False, exc.reason)
            continue
        if need is None:  # a remote model, or none
            continue
        free = measure_free_memory()
        if not case.runs and free is not None and need > free:
            yield Finding(False, _MEMORY_TEXT.format(name=name, need=need / 1e9, free=free / 1e9))
        else:
            yield Finding(True, f"{name}: its files are what they were when they came")


def _check_model_files(name: str, folder: Path) -> int | None:
    """Verify a model's files and return the memory it needs in bytes; None if it has no local files. Blocking.

    Raises ModelUnavailable.
    """
    if is_gguf_path(name):
        check_gguf_file(Path(name).expanduser())
        return Path(name).expanduser().stat().st_size
    row = next((row for row in MODELS if row.name == name), None)
    if row is None:
        return None
    verify_model_checksums(row, folder / row.name)
    return row.memory or measure_folder_size(folder / row.name)


_SERVER_TIMEOUT_SECONDS = 8.0

_SERVER_SILENT_TEXT = "The Qdrant server {place} does not answer: start it, or correct QDRANT__URL."
_KEY_REFUSED_TEXT = "The Qdrant server {place} refuses the key: correct QDRANT__KEY."
_SERVER_ERROR_TEXT = "The Qdrant server {place} answers with the error {status}: look at its log."


async def check_servers(case: CheckContext) -> AsyncIterator[Finding]:
    """Check the Qdrant server, or each node of the cluster, if one is configured."""
    qdrant = case.settings.qdrant
    key = qdrant.key.get_secret_value()
    for url in qdrant.urls:
        yield await _check_qdrant_node(url, {"api-key": key} if key else {})


async def _check_qdrant_node(url: str, headers: dict[str, str]) -> Finding:
    place = urlsplit(url).netloc.rpartition("@")[2]
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=_SERVER_TIMEOUT_SECONDS), headers=headers) as session,
            session.get(f"{url.rstrip('/')}/collections") as answer,
        ):
            status = answer.status
    except (ClientError, OSError, TimeoutError, ValueError):
        return Finding(False, _SERVER_SILENT_TEXT.format(place=place))
    if status in (401, 403):
        return Finding(False, _KEY_REFUSED_TEXT.format(place=place))
    if status != 200:
        return Finding(False, _SERVER_ERROR_TEXT.format(place=place, status=status))
    return Finding(True, f"the Qdrant server {place} answers")


_LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "::1"}

_URL_AND_MODEL_TEXT = "LLM__URL and LLM__MODEL={model} are both set, and the server writes: take one of them out."
_ALONE_TEXT = "{name} is set without {needed}, and does nothing: set {needed} too, or take it out."
_CONTEXT_TEXT = (
    "LLM__EVIDENCE_TOKENS and LLM__ANSWER_TOKENS need {sum} tokens, and LLM__CONTEXT has {context}: raise it, or "
    "lower them."
)
_THREADS_TEXT = "{name} is {threads}, and this machine has {cores} processors: lower it to {cores}."
_DENSE_WEIGHT_TEXT = (
    "RETRIEVAL__DENSE is set, and MODELS__EMBEDDER=none: there is no search by meaning to weigh; take one out."
)
_UNENCRYPTED_TEXT = "{name} sends its key unencrypted to another machine: use https."
_NO_ADMINS_TEXT = (
    "BOT__ADMINS is empty, so nobody can approve a channel: send /start to the bot, it tells you the line for .env."
)


async def check_settings(case: CheckContext) -> AsyncIterator[Finding]:
    """Report all contradictory settings."""
    settings, contradiction_found = case.settings, False
    for contradiction in (
        *_check_llm_settings(settings),
        *_check_search_settings(settings),
        *_check_encryption(settings),
    ):
        contradiction_found = True
        yield Finding(False, contradiction)
    if not settings.bot.admins:
        yield Finding(False if settings.bot.token.get_secret_value() else None, _NO_ADMINS_TEXT)
    elif not contradiction_found:
        yield Finding(True, "settings: none contradicts another")


def _check_llm_settings(settings: Settings) -> Iterator[str]:
    llm, cores = settings.llm, os.cpu_count() or 1
    if llm.url and llm.model not in (*UNDECIDED_VALUES, "none"):
        yield _URL_AND_MODEL_TEXT.format(model=llm.model)
    for name, value in (("LLM__KEY", llm.key.get_secret_value()), ("LLM__NAME", llm.name)):
        if value and not llm.url:
            yield _ALONE_TEXT.format(name=name, needed="LLM__URL")
    if (needed := llm.evidence_tokens + llm.answer_tokens) >= llm.context:
        yield _CONTEXT_TEXT.format(sum=needed, context=llm.context)
    for name, threads in (("LLM__THREADS", llm.threads), ("MODELS__THREADS", settings.models.threads)):
        if threads > cores:
            yield _THREADS_TEXT.format(name=name, threads=threads, cores=cores)


def _check_search_settings(settings: Settings) -> Iterator[str]:
    if settings.qdrant.key.get_secret_value() and not settings.qdrant.url:
        yield _ALONE_TEXT.format(name="QDRANT__KEY", needed="QDRANT__URL")
    if settings.retrieval.dense and settings.models.embedder == "none":
        yield _DENSE_WEIGHT_TEXT


def _check_encryption(settings: Settings) -> Iterator[str]:
    sent = (
        ("BOT__API", [settings.bot.api], settings.bot.token),
        ("LLM__URL", [settings.llm.url], settings.llm.key),
        ("QDRANT__URL", settings.qdrant.urls, settings.qdrant.key),
    )
    for name, urls, secret in sent:
        addresses = map(urlsplit, urls)
        if secret.get_secret_value() and any(
            address.scheme == "http" and address.hostname not in _LOOPBACK_HOSTS for address in addresses
        ):
            yield _UNENCRYPTED_TEXT.format(name=name)
