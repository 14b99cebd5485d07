import asyncio
import hashlib
import json
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web
from local_server import LocalServer

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import HubFile, HubSource, ModelRole, ModelSpec, ModelTier, check_model_files
from rag_core.models.download import pull_from_hub, pull_model

WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
TOKENIZER = b'{"version": "1.0"}'
REPO, REVISION = "acme/tiny", "main"
FILES = (HubFile("onnx/model_int8.onnx", "model.onnx", len(WEIGHTS)), HubFile("tokenizer.json", "tokenizer.json"),
         HubFile("tokenizer_config.json", "tokenizer_config.json"))  # fmt: skip
ROW = ModelSpec(
    "tiny", ModelTier.DEFAULT, ModelRole.EMBEDDER, "MIT", frozenset({"en"}), HubSource(REPO, FILES), dimension=4
)


@dataclass
class Hub:
    """A model hub as the real one answers: large files by a redirect that carries their sha256."""

    files: dict[str, bytes] = field(
        default_factory=lambda: {
            "onnx/model_int8.onnx": WEIGHTS,
            "tokenizer.json": TOKENIZER,
            "tokenizer_config.json": b"{}",
        }
    )
    url: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # method, path, range
    drop_after: int = 0  # bytes of a large file, then the connection is cut
    status: int = 0
    ranges: bool = True
    wrong: bool = False  # other bytes than the checksum says
    claimed: int = 0  # another size than the true one
    moved: bool = False  # the repository has a new name
    etag: str | None = None  # what it says in the place of checksums
    size: str | None = None  # what it says in the place of a large file's size
    to: str = ""  # where it sends for large files
    endless: bool = False  # large files go on for ever
    sent: int = 0  # bytes of those

    async def resolve(self, request):
        self.asked.append((request.method, request.match_info["path"], request.headers.get("Range", "")))
        if self.status:
            return web.Response(status=self.status)
        if self.moved and request.match_info["repo"] == REPO:
            return web.Response(status=307, headers={"Location": str(request.rel_url).replace(REPO, "acme/new")})
        path = request.match_info["path"]
        if path not in self.files:
            return web.Response(status=404)
        raw = self.files[path]
        heads = {"X-Repo-Commit": "c0ffee"}
        if len(raw) > 1000:
            etag, size = hashlib.sha256(raw).hexdigest(), str(self.claimed or len(raw))
            heads |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": size, "Location": f"{self.url}/cdn/{etag}/{path}"}
            heads |= {"X-Linked-Etag": self.etag} if self.etag is not None else {}
            heads |= {"X-Linked-Size": self.size} if self.size is not None else {}
            heads |= {"Location": self.to} if self.to else {}
            return web.Response(status=302, headers=heads)
        blob = hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()
        named = {"ETag": f'W/"{blob}"' if self.etag is None else self.etag}
        return web.Response(body=b"[]" if self.wrong else raw, headers={**heads, **named})

    async def cdn(self, request):
        wanted = request.headers.get("Range", "")
        self.asked.append(("CDN", request.match_info["path"], wanted))
        raw = self.files[request.match_info["path"]]
        raw = bytes(len(raw)) if self.wrong else raw
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        answer = web.StreamResponse(status=206 if first else 200)
        if self.endless:
            await answer.prepare(request)
            while request.transport and not request.transport.is_closing():
                await answer.write(bytes(1 << 16))
                self.sent += 1 << 16
            return answer
        answer.content_length = len(raw) - first
        if first:
            answer.headers["Content-Range"] = f"bytes {first}-{len(raw) - 1}/{len(raw)}"
        await answer.prepare(request)
        await answer.write(raw[first : first + self.drop_after] if self.drop_after else raw[first:])
        if self.drop_after and request.transport:
            await asyncio.sleep(0.02)
            request.transport.close()
        return answer

    def gets(self):
        """Path and range of what was downloaded from the content server."""
        return [(path, wanted) for method, path, wanted in self.asked if method == "CDN"]


@pytest.fixture
async def hub(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    hub = Hub()
    at = "/{repo:[^/]+/[^/]+}/resolve/main/{path:.+}"
    resolve = [web.route("*", start + at, hub.resolve) for start in ("", "/mirror")]
    async with LocalServer(*resolve, web.get("/cdn/{etag}/{path:.+}", hub.cdn)) as server:
        hub.url = server.url
        yield hub


async def test_files_come_whole_with_their_checksums_and_the_commit(hub, tmp_path):
    seen = []
    folder = tmp_path / "models" / "tiny"
    await pull_from_hub(ROW, folder, hub=hub.url, progress=lambda *moved: seen.append(moved))
    check_model_files(ROW, folder)
    assert (folder / "model.onnx").read_bytes() == WEIGHTS
    about = json.loads((folder / "files.json").read_text("utf-8"))
    assert (about["repo"], about["commit"]) == (REPO, "c0ffee")
    assert about["files"]["model.onnx"]["sha256"] == hashlib.sha256(WEIGHTS).hexdigest()
    total = len(WEIGHTS) + len(TOKENIZER) + 2
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    assert not list((tmp_path / "models" / ".partial").iterdir())


@pytest.mark.parametrize(
    ("ranges", "changed", "asked"),
    [(True, False, ["", "bytes=300000-"]), (False, False, ["", "bytes=300000-"]), (True, True, ["", ""])],
)
async def test_an_interrupted_download_goes_on_where_it_stopped_if_it_can(hub, tmp_path, ranges, changed, asked):
    hub.drop_after, hub.ranges = 300_000, ranges
    with pytest.raises(ModelUnavailable, match=r"model_int8\.onnx was interrupted: run the command again, it goes on"):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url, pauses=())
    assert not (tmp_path / "tiny").exists()
    (part,) = (tmp_path / ".partial" / "tiny").glob("model.onnx.*")
    hub.drop_after, begun = 0, part.read_bytes()
    if ranges and not changed:
        part.write_bytes(bytes(len(begun)))  # a beginning that was exchanged
        with pytest.raises(ModelUnavailable, match=r"model_int8\.onnx came damaged"):
            await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url, pauses=())
        assert not part.exists()
        part.write_bytes(begun)
        asked = [*asked, asked[-1]]
    hub.files["onnx/model_int8.onnx"] = WEIGHTS[::-1] if changed else WEIGHTS
    await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url, pauses=())
    assert [wanted for _, wanted in hub.gets()] == asked
    assert (tmp_path / "tiny" / "model.onnx").read_bytes() == hub.files["onnx/model_int8.onnx"]


async def test_a_wrong_checksum_keeps_nothing_and_leaves_the_old_model(hub, tmp_path):
    await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url)
    hub.wrong = True
    small = replace(ROW, name="small", source=HubSource(REPO, FILES[2:]))
    with pytest.raises(ModelUnavailable, match=r"tokenizer_config\.json came damaged"):
        await pull_from_hub(small, tmp_path / "small", hub=hub.url)
    with pytest.raises(ModelUnavailable, match=r"model_int8\.onnx came damaged: nothing of it was kept"):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url)
    check_model_files(ROW, tmp_path / "tiny")
    assert not list((tmp_path / ".partial" / "tiny").glob("model.onnx*"))


@pytest.mark.parametrize(
    ("status", "says"), [(404, "has no onnx/model"), (401, "refuses onnx/model"), (503, "answered 503")]
)
async def test_a_refusal_is_one_sentence(hub, tmp_path, status, says):
    hub.status = status
    with pytest.raises(ModelUnavailable, match=says):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url)


async def test_what_cannot_work_is_said_before_the_download(hub, tmp_path, unused_tcp_port):
    with pytest.raises(ModelUnavailable, match=r"hub 127\.0\.0\.1 cannot be reached .*: check the network, or name"):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=f"http://127.0.0.1:{unused_tcp_port}")
    row = replace(ROW, source=HubSource(REPO, (replace(FILES[0], sha256="0" * 64),)))
    with pytest.raises(ModelUnavailable, match=r"has another onnx/model_int8\.onnx: update Citegram"):
        await pull_from_hub(row, tmp_path / "tiny", hub=hub.url)
    hub.claimed = 10**17
    with pytest.raises(ModelUnavailable, match=r"tiny needs 100000000000 MB .* make room"):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url)
    assert hub.gets() == []


async def test_a_shaky_line_is_tried_again_and_what_is_here_is_left_alone(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")  # settings say it, not the environment
    hub.drop_after = 400_000
    await pull_from_hub(ROW, tmp_path / "tiny", hub=f"{hub.url}/mirror", pauses=(0, 0, 0))
    await asyncio.gather(*(pull_model(ROW, tmp_path, hub=f"{hub.url}/mirror/") for _ in range(2)))
    assert [wanted for _, wanted in hub.gets()] == ["", "bytes=400000-", "bytes=800000-"]


@pytest.mark.parametrize("odd", [{"moved": True}, *({"size": size} for size in ("²", "9" * 5000, "-1", "1e3", ""))])
async def test_a_repository_with_a_new_name_is_followed_and_a_size_that_is_none_is_ignored(hub, tmp_path, odd):
    vars(hub).update(odd)
    await pull_model(ROW, tmp_path, hub=hub.url)
    check_model_files(ROW, tmp_path / "tiny")


async def test_what_is_here_is_not_asked_for_and_what_is_damaged_is_fetched_anew(hub, tmp_path):
    folder = await pull_model(ROW, tmp_path, hub=hub.url)
    hub.asked.clear()
    await pull_model(ROW, tmp_path, hub=hub.url)
    assert hub.asked == []
    (folder / "model.onnx").write_bytes(WEIGHTS[:1000])
    await pull_model(ROW, tmp_path, hub=hub.url)
    assert (folder / "model.onnx").read_bytes() == WEIGHTS


HUB_NAMES = (
    *(REPO + "/onnx/model_int8.onnx", "onnx/model_int8.onnx", "model_int8.onnx", "tiny/model.onnx", "model.onnx"),
    *("onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx"),
)


@pytest.mark.parametrize("at", HUB_NAMES)
async def test_a_folder_can_stand_for_the_hub(tmp_path, at):
    stick = tmp_path / "stick"
    for place in (at, *(file.path for file in FILES[1:])):
        (stick / place).parent.mkdir(parents=True, exist_ok=True)
        (stick / place).write_bytes(WEIGHTS if place == at else b"{}")
    folder = await pull_model(ROW, tmp_path / "models", hub=str(stick))
    check_model_files(ROW, folder)
    assert (folder / "model.onnx").read_bytes() == WEIGHTS


@pytest.mark.parametrize("named", [".", "tiny"])
async def test_what_citegram_wrote_is_taken_and_checked(hub, tmp_path, named):
    written = await pull_model(ROW, tmp_path / "one", hub=hub.url)
    (written / "stray.txt").write_text("is not the model's")
    folder = await pull_model(ROW, tmp_path / "two", hub=str(tmp_path / "one" / named))
    about, copied = (json.loads((place / "files.json").read_bytes()) for place in (written, folder))
    assert {**about, "files": [*about["files"]]} == {**copied, "files": [*copied["files"]]}
    assert (folder / "model.onnx").stat().st_mtime_ns == copied["files"]["model.onnx"]["time"]  # not read at each start
    assert not (folder / "stray.txt").exists()


@pytest.mark.parametrize("damage", ["short", "changed", "gone"])
async def test_a_damaged_folder_is_refused_in_one_sentence(hub, tmp_path, damage):
    written = await pull_model(ROW, tmp_path / "one", hub=hub.url)
    if damage == "gone":
        (written / "model.onnx").unlink()
    else:
        (written / "model.onnx").write_bytes(WEIGHTS[:-1] if damage == "short" else WEIGHTS[:-1] + b"!")
    with pytest.raises(
        ModelUnavailable,
        match=r"model\.onnx is damaged or another one: fetch it again\.$|cannot be copied .*: copy it there again\.$",
    ):
        await pull_model(ROW, tmp_path / "two", hub=str(tmp_path / "one"))
    assert [file.name for file in (tmp_path / "two").iterdir()] == [".pull.lock"]


async def test_a_folder_without_the_file_or_that_cannot_be_made_is_one_sentence(hub, tmp_path):
    with pytest.raises(ModelUnavailable, match=r"has no onnx/model_int8\.onnx of the model tiny"):
        await pull_model(ROW, tmp_path / "models", hub=str(tmp_path))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ModelUnavailable, match="models' folder cannot be used"):
        await pull_model(ROW, tmp_path / "file" / "models", hub=hub.url)


# what nobody names a checksum of, and what is not what it was


@pytest.mark.parametrize("etag", ["", '"not-a-checksum"', '"d41d8cd98f00b204e9800998ecf8427e"', '"' + "a" * 64 + '-2"'])
async def test_a_file_without_a_checksum_is_refused(hub, tmp_path, etag):
    hub.etag = etag
    says = r"hub 127\.0\.0\.1 names no checksum of onnx/model_int8\.onnx: name another hub, or copy the file"
    with pytest.raises(ModelUnavailable, match=says):
        await pull_model(ROW, tmp_path, hub=hub.url)
    assert {method for method, _, _ in hub.asked} == {"HEAD"}
    assert not (tmp_path / "tiny").exists()


async def test_the_first_checksum_is_compared_at_later_pulls(hub, tmp_path):
    folder = await pull_model(ROW, tmp_path, hub=hub.url)
    (folder / "model.onnx").unlink()
    hub.etag = ""  # there is a checksum now: its own
    await pull_model(ROW, tmp_path, hub=hub.url)
    for hub.etag in (None, ""):
        (folder / "model.onnx").unlink(missing_ok=True)
        hub.files["onnx/model_int8.onnx"] = WEIGHTS[::-1]
        with pytest.raises(
            ModelUnavailable, match=r"model_int8\.onnx.* is not the one that came first: delete .*tiny if"
        ):
            await pull_model(ROW, tmp_path, hub=hub.url)
        assert not (folder / "model.onnx").exists()
        assert not list((tmp_path / ".partial" / "tiny").glob("model.onnx*"))
    hub.files["onnx/model_int8.onnx"] = WEIGHTS
    await pull_model(ROW, tmp_path, hub=hub.url)
    check_model_files(ROW, folder)


async def test_a_small_file_that_changed_is_not_taken_in_the_place_of_the_first(hub, tmp_path):
    """Its name at the hub is git's sha1, which fits its new content."""
    folder = await pull_model(ROW, tmp_path, hub=hub.url)
    (folder / "tokenizer.json").unlink()
    hub.files["tokenizer.json"] = b'{"version": "6.6"}'
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json is not the one that came first"):
        await pull_model(ROW, tmp_path, hub=hub.url)


async def test_a_hub_that_sends_more_than_it_says_is_cut_short(hub, tmp_path):
    hub.claimed, hub.endless = 300_000, True
    with pytest.raises(ModelUnavailable, match=r"model_int8\.onnx came damaged"):
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url, pauses=())
    assert hub.sent < 64 << 20
    assert not list((tmp_path / ".partial" / "tiny").glob("model.onnx*"))


@pytest.mark.parametrize(
    "to",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
        "http://127.0.0.1:1/x",
        "//",
        "http://[",
        "/../../../etc/passwd",
        "{hub}/cdn/other/tokenizer.json",
        "{hub}/acme/tiny/resolve/main/onnx/model_int8.onnx",
    ],
)
async def test_a_redirect_elsewhere_brings_nothing_in(hub, tmp_path, to):
    hub.to = to.format(hub=hub.url)
    with pytest.raises(ModelUnavailable) as said:
        await pull_from_hub(ROW, tmp_path / "tiny", hub=hub.url, pauses=())
    assert "\n" not in said.value.reason
    assert not (tmp_path / "tiny").exists()
