"""Files of a model hub by plain HTTPS: goes on where it stopped, keeps nothing that fails its checksum.

Content is compared with the sha256 of the model table, else with the one that an earlier pull kept in the model's
folder, else with what the hub says before the download (the ETag beside a large file's redirect is its sha256, that of
a small file git's sha1). A file of which nobody names a checksum is refused, unless it may come unverified. Never
called unasked. Source of the protocol: https://huggingface.co/docs/huggingface_hub/package_reference/file_download
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

import aiohttp

from rag_core.doors.model_folder import (
    Progress,
    enough_room,
    keep_list,
    kept_checksums,
    sha256_of,
    silent,
    staged,
)
from rag_core.errors import ModelUnavailable, raised_as
from rag_core.models import HubFile, HubSource, ModelRow

__all__ = ["HUB", "pull_from_folder", "pull_from_hub"]

HUB = "https://huggingface.co"

_PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds before an interrupted download is taken up again
_PIECE = 1 << 18
_REDIRECTS = 5
_TIMES = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=60)
_INTERRUPTED = (aiohttp.ClientPayloadError, aiohttp.ClientConnectionError, TimeoutError)
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_AS_IT_IS = {"Accept-Encoding": "identity"}
_SHA256, _GIT_SHA1 = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{40}")
_CHANGED = "The file {place} is not the one that came first: delete {folder} if another one is meant to be used."
_UNSIZED = 1 << 26  # bytes that a file of unnamed size may have, or twice of what the table says


@dataclass(frozen=True, slots=True)
class _Remote:
    """What the hub says of a file, and the checksum that it must have.

    `etag` is its sha256, or git's sha1 where it is small, or anything else. `checksum` is a sha256 or git's sha1, empty
    where nobody names one; `kept`: it is that of an earlier pull.
    """

    file: HubFile
    url: str
    size: int
    etag: str
    commit: str
    checksum: str
    kept: bool

    @property
    def limit(self) -> int:
        """Bytes that are taken at most: a hub may send without end."""
        return self.size or max(_UNSIZED, 2 * self.file.bytes)


async def pull_from_hub(
    row: ModelRow,
    folder: Path,
    *,
    hub: str = HUB,
    unverified: bool = False,
    progress: Progress = silent,
    pauses: Sequence[float] = _PAUSES,
) -> None:
    """Download a row's files into `folder`; `unverified`: also those of which nobody names a checksum.

    Raises ModelUnavailable; what came until then waits in `.partial` beside the folder for the next time.
    """
    source = row.source
    assert isinstance(source, HubSource)
    partial = folder.parent / ".partial" / folder.name
    host = urlsplit(hub).hostname or hub
    reach = f"The model hub {host} cannot be reached ({{}}): check the network, or name a mirror of it."
    disk = f"The model {row.name} cannot be written ({{}}): check the disk and the permissions of its folder."
    # trust_env: the proxies of the environment, as with every other downloader
    async with aiohttp.ClientSession(timeout=_TIMES, trust_env=True, auto_decompress=False) as session:
        with raised_as(ModelUnavailable, OSError, say=disk), raised_as(
            ModelUnavailable, aiohttp.ClientError, TimeoutError, say=reach
        ):  # fmt: skip
            kept = kept_checksums(folder)
            remote = [
                await _asked(session, hub.rstrip("/"), source, file, kept.get(file.name, "")) for file in source.files
            ]
            for one in remote:
                _check_named(one, host, folder, unverified=unverified)
            partial.mkdir(parents=True, exist_ok=True)
            enough_room(partial, sum(one.limit - _begun(one, partial / one.file.name) for one in remote), row.name)
            await _fetched(session, remote, partial, folder, progress, pauses)
    with staged(folder, row.name) as fresh:
        for one in remote:
            (partial / one.file.name).replace(fresh / one.file.name)
        about = {"model": row.name, "repo": source.repo, "commit": remote[0].commit}
        if taken := ", ".join(one.file.name for one in remote if not one.checksum):
            about["unverified"] = taken
        await asyncio.to_thread(keep_list, fresh, **about)
    shutil.rmtree(partial, ignore_errors=True)


async def pull_from_folder(row: ModelRow, folder: Path, origin: Path) -> None:
    """Copy a row's files from a folder that has them as the hub has: REPOSITORY/PATH, PATH, or just the name.

    The admin brought them, so the first time they need no checksum.
    """
    source = row.source
    assert isinstance(source, HubSource)
    found: list[Path] = []
    for file in source.files:
        places = [origin / source.repo / file.path, origin / file.path, origin / Path(file.path).name]
        place = next((p for p in places if p.is_file()), None)
        if place is None:
            raise ModelUnavailable(f"The folder {origin} has no {file.path} of the model {row.name}.")
        found.append(place)
    enough_room(folder, sum(place.stat().st_size for place in found), row.name)
    kept = kept_checksums(folder)
    with staged(folder, row.name) as fresh:
        for file, place in zip(source.files, found, strict=True):
            await asyncio.to_thread(shutil.copyfile, place, fresh / file.name)
            known = file.sha256 or kept.get(file.name, "")
            if known and await asyncio.to_thread(sha256_of, fresh / file.name) != known:
                if not file.sha256:
                    raise ModelUnavailable(_CHANGED.format(place=place, folder=folder))
                raise ModelUnavailable(f"The file {place} is damaged or another one: fetch it again.")
        await asyncio.to_thread(keep_list, fresh, model=row.name, repo=source.repo, commit="")


async def _asked(session: aiohttp.ClientSession, hub: str, source: HubSource, file: HubFile, kept: str) -> _Remote:
    """Size, checksum and commit of a file; a repository that moved is followed within its hub.

    `kept` is the sha256 of an earlier pull.
    """
    url = f"{hub}/{source.repo}/resolve/{quote(source.revision, safe='')}/{quote(file.path)}"
    for _ in range(_REDIRECTS):
        async with session.head(url, allow_redirects=False, headers=_AS_IT_IS) as answer:
            _given(answer, file)
            heads = answer.headers
            if "X-Linked-Etag" not in heads and (to := _within_hub(url, heads.get("Location", ""))):
                url = to
                continue
            etag = _plain(heads.get("X-Linked-Etag") or heads.get("ETag")).removeprefix("W/").strip('"')
            size = _plain(heads.get("X-Linked-Size") or heads.get("Content-Length"))
            named = etag if _SHA256.fullmatch(etag) or _GIT_SHA1.fullmatch(etag) else ""
            return _Remote(
                file,
                url,
                int(size) if re.fullmatch("[0-9]{1,18}", size) else 0,
                etag,
                _plain(heads.get("X-Repo-Commit")),
                checksum=file.sha256 or kept or named,
                kept=bool(kept and not file.sha256),
            )
    raise ModelUnavailable(f"The model hub sends in circles for {file.path}: name another hub.")


def _within_hub(url: str, location: str) -> str:
    """Where a redirect leads, if that is another address of the same host; else nothing."""
    try:
        to = urljoin(url, location)
        return to if to != url and urlsplit(to).netloc == urlsplit(url).netloc else ""
    except ValueError:  # no address
        return ""


def _plain(header: str | None) -> str:
    """A header as ASCII: it is written into a file and may be anything."""
    return (header or "").encode("ascii", "backslashreplace").decode("ascii")


def _check_named(one: _Remote, host: str, folder: Path, *, unverified: bool) -> None:
    """Raise ModelUnavailable for a file that has no checksum, or another one than is known."""
    path = one.file.path
    if not one.checksum and not unverified:
        raise ModelUnavailable(
            f"The model hub {host} names no checksum of {path}: name another hub, or add --unverified to take the "
            "file as it comes."
        )
    if _SHA256.fullmatch(one.etag) and one.checksum != one.etag:
        if one.kept:
            raise ModelUnavailable(_CHANGED.format(place=f"{path} of the model hub {host}", folder=folder))
        raise ModelUnavailable(f"The model hub {host} has another {path}: update Citegram.")


def _given(answer: aiohttp.ClientResponse, file: HubFile) -> None:
    host, status = answer.url.host, answer.status
    if status in (401, 403):
        raise ModelUnavailable(f"The model hub {host} refuses {file.path} ({status}): name another hub.")
    if status == 404:
        raise ModelUnavailable(f"The model hub {host} has no {file.path}: update Citegram, or name another hub.")
    if status >= 400:
        raise ModelUnavailable(f"The model hub {host} answered {status} for {file.path}: try again later.")


def _begun(one: _Remote, part: Path) -> int:
    """Bytes that came earlier, of the same version of the file; one that cannot be checked begins anew."""
    version = part.with_name(part.name + ".etag")
    if (
        one.etag
        and one.checksum
        and part.is_file()
        and version.is_file()
        and version.read_text(encoding="utf-8") == one.etag
    ):
        return part.stat().st_size
    return 0


async def _fetched(
    session: aiohttp.ClientSession,
    remote: Sequence[_Remote],
    partial: Path,
    folder: Path,
    progress: Progress,
    pauses: Sequence[float],
) -> None:
    total, before = sum(one.size for one in remote), 0
    for one in remote:
        part = partial / one.file.name
        if not _begun(one, part):
            part.unlink(missing_ok=True)
            part.with_name(part.name + ".etag").write_text(one.etag, encoding="utf-8")

        def moved(here: int, before: int = before) -> None:
            progress(before + here, total)

        left = list(pauses)
        while not await _whole(session, one, part, moved):
            if not left:
                raise ModelUnavailable(f"The download of {one.file.path} was interrupted: "
                                       "run the command again, it goes on where it stopped.")  # fmt: skip
            await asyncio.sleep(left.pop(0))
        if not await asyncio.to_thread(_as_promised, one, part):
            part.unlink()
            if one.kept and one.etag != one.checksum:
                raise ModelUnavailable(_CHANGED.format(place=one.file.path, folder=folder))
            raise ModelUnavailable(f"The file {one.file.path} came damaged: nothing of it was kept, try again.")
        before += one.size


async def _whole(session: aiohttp.ClientSession, one: _Remote, part: Path, moved: Callable[[int], None]) -> bool:
    """One attempt at what is missing of a file; False where the connection or the hub gave up."""
    had = part.stat().st_size if one.checksum and part.exists() else 0
    if had and had == one.size:
        return True
    wanted = {**_AS_IT_IS, "Range": f"bytes={had}-"} if had else _AS_IT_IS
    try:
        async with session.get(one.url, headers=wanted) as answer:
            if answer.status in _BUSY:
                return False
            if answer.status == 416:  # what we have is longer than the file
                part.unlink()
                return False
            _given(answer, one.file)
            goes_on = answer.headers.get("Content-Range", "").startswith(f"bytes {had}-")
            with part.open("ab" if goes_on else "wb") as out:
                async for piece in answer.content.iter_chunked(_PIECE):
                    out.write(piece)
                    moved(out.tell())
                    if out.tell() > one.limit:
                        return True  # more than was said: `_as_promised` says what it is
    except _INTERRUPTED:
        return False
    return part.stat().st_size >= one.size


def _as_promised(one: _Remote, part: Path) -> bool:
    size = part.stat().st_size
    if size > one.limit or (one.size and size != one.size):
        return False
    if _GIT_SHA1.fullmatch(one.checksum):
        return _git_sha1_of(part) == one.checksum
    return not one.checksum or sha256_of(part) == one.checksum


def _git_sha1_of(file: Path) -> str:
    """The name that git gives to a file's content."""
    digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
