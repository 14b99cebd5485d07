"""Environment checks: disk space, file system, permissions, model files, memory, and the Qdrant server.

The server of a language model is measured together with the models, in `bot.control.doctor_facts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from bot.data_folder import is_open_to_others, measure_disk_usage
from bot.doctor import CheckContext, Finding
from rag_core.errors import ModelUnavailable
from rag_core.llm.local import check_gguf_file, estimate_memory, measure_free_memory
from rag_core.models.active_models import (
    find_embedder_offer,
    find_live_model,
    get_models_folder,
    is_gguf_path,
    list_models_in_use,
)
from rag_core.models.catalog import MODELS
from rag_core.models.model_files import measure_folder_size, verify_model_checksums
from rag_core.storage import monitoring_stats
from rag_core.storage.readers import load_choices

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
        yield Finding(True, f"{folder}: {used.free / 1e9:.1f} GB free")
        return
    yield Finding(
        False,
        f"{folder} has {used.free / 1e9:.1f} GB free, and a backup and a rebuild of the indexes need "
        f"{need / 1e9:.1f} GB: make room, or move the folder and set DATA__DIR.",
    )


async def check_file_system(case: CheckContext) -> AsyncIterator[Finding]:
    """Check that SQLite is safe on the file system of the data folder."""
    folder = case.settings.data.dir.resolve()
    kind = await asyncio.to_thread(_get_file_system, folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        yield Finding(
            False,
            f"{folder} lies on a network file system ({kind}), where SQLite is not safe: move it to a local disk, and "
            "set DATA__DIR.",
        )
    if case.archive is not None and (mode := await monitoring_stats.get_journal_mode(case.archive)) != "wal":
        yield Finding(
            False,
            f"The archive cannot keep its log beside it, its journal mode is {mode}: move {folder} to a local disk, "
            "and set DATA__DIR.",
        )


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
            yield Finding(False, f"{path} can be read by other users of this machine: run chmod {mode} {path}.")


async def check_models(case: CheckContext) -> AsyncIterator[Finding]:
    """Check each model in use once: its checksums, read in full, and its memory, unless a running bot has it loaded."""
    if case.archive is None:
        return
    rag_settings = case.settings.rag()
    live = await find_live_model(rag_settings, case.archive)
    used = list_models_in_use(rag_settings, await load_choices(case.archive), live)
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
            yield Finding(
                False,
                f"The model {name} needs about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: choose "
                "a smaller one with citegram models use, or end what else runs.",
            )
        else:
            yield Finding(True, f"{name}: its files are what they were when they came")
    if offer := await find_embedder_offer(rag_settings, case.archive):
        yield Finding(None, str(offer))


def _check_model_files(name: str, folder: Path) -> int | None:
    """Verify a model's files and return the memory it needs in bytes; None if it has no local files. Blocking.

    Raises ModelUnavailable.
    """
    if is_gguf_path(name):
        check_gguf_file(Path(name).expanduser())
        return estimate_memory(Path(name).expanduser().stat().st_size)
    row = next((row for row in MODELS if row.name == name), None)
    if row is None:
        return None
    verify_model_checksums(row, folder / row.name)
    return row.memory or measure_folder_size(folder / row.name)


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
            ClientSession(timeout=ClientTimeout(total=8.0), headers=headers) as session,
            session.get(f"{url.rstrip('/')}/collections") as answer,
        ):
            status = answer.status
    except (ClientError, OSError, TimeoutError, ValueError):
        return Finding(False, f"The Qdrant server {place} does not answer: start it, or correct QDRANT__URL.")
    if status in (401, 403):
        return Finding(False, f"The Qdrant server {place} refuses the key: correct QDRANT__KEY.")
    if status != 200:
        return Finding(False, f"The Qdrant server {place} answers with the error {status}: look at its log.")
    return Finding(True, f"the Qdrant server {place} answers")
