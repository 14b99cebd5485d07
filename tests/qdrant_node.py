"""Real Qdrant servers on loopback: one node, or a cluster of them, each a process of its own with a folder of its own.

QDRANT_BIN names the binary of a server (1.16 or later), built from its public source; nothing of it is in this
repository. QDRANT__URL names a server that runs already. Without either, what needs a server is skipped.

A node can be killed, held (it accepts connections and answers nothing: what a cut cable looks like), and left without
room on its disk (no file of it may grow).
"""

import os
import resource
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from local_server import find_free_ports

BINARY = os.environ.get("QDRANT_BIN", "")
needs_server = pytest.mark.skipif(
    not BINARY and "QDRANT__URL" not in os.environ, reason="neither QDRANT__URL nor QDRANT_BIN names a Qdrant server"
)
needs_binary = pytest.mark.skipif(not BINARY, reason="QDRANT_BIN names no binary of a Qdrant server")
_START_SECONDS, _STOP_SECONDS = 60.0, 30.0
_WAL_MB = 4  # a node sets aside two such files for each shard, and a test has little


class QdrantNode:
    """Server process. `bootstrap`: the peer address of a node whose cluster it joins; "" founds one, None is alone."""

    def __init__(self, folder, *, bootstrap=None, key="", more=None):
        self.folder, self._bootstrap, self._key, self.binary = folder, bootstrap, key, BINARY
        self._http, grpc, peer = find_free_ports(3)
        self.peer_url = f"http://127.0.0.1:{peer}"
        settings = {
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": str(self._http),
            "SERVICE__GRPC_PORT": str(grpc),
            "STORAGE__STORAGE_PATH": str(folder / "storage"),
            "STORAGE__SNAPSHOTS_PATH": str(folder / "snapshots"),
            "STORAGE__WAL__WAL_CAPACITY_MB": str(_WAL_MB),
            "TELEMETRY_DISABLED": "true",
            "LOG_LEVEL": "INFO",
        }
        if key:
            settings["SERVICE__API_KEY"] = key
        if bootstrap is not None:
            settings |= {"CLUSTER__ENABLED": "true", "CLUSTER__P2P__PORT": str(peer)}
        ours = {name: value for name, value in os.environ.items() if not name.startswith("QDRANT__")}
        self._environment = ours | {f"QDRANT__{name}": value for name, value in (settings | dict(more or {})).items()}
        self._scheme = "https" if (more or {}).get("SERVICE__ENABLE_TLS") == "true" else "http"
        self._process = None

    @property
    def url(self):
        return f"{self._scheme}://127.0.0.1:{self._http}"

    @property
    def pid(self):
        return self._process.pid

    @property
    def version(self):
        return str(httpx.get(self.url, timeout=30).json()["version"])

    def describe_use(self):
        """Memory of its own, that of mapped files, and disk, in MB."""
        fields = dict(line.split(":") for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        own, mapped = (int(fields[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile"))
        disk = sum(file.stat().st_blocks * 512 for file in self.folder.rglob("*") if file.is_file()) // 2**20
        return f"{self.folder.name}: {own} MB of memory, {mapped} MB of mapped files, {disk} MB of disk"

    def start(self, seconds=_START_SECONDS):
        """Start and wait until it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        peers = [] if self._bootstrap is None else ["--uri", self.peer_url]
        joined = peers + (["--bootstrap", self._bootstrap] if self._bootstrap else [])
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary, *joined],
                env=self._environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                restore_signals=False,  # a file that may not grow is an error then, and not the end of the process
            )
        self.wait_until_ready(seconds)

    def wait_until_ready(self, seconds=_START_SECONDS):
        """Wait until it answers; its last words are in the error if it ends instead."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended: {(self.folder / 'log.txt').read_text()[-2000:]}")
            try:
                headers = {"api-key": self._key} if self._key else {}
                if httpx.get(f"{self.url}/readyz", headers=headers, timeout=2, verify=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"the server was not ready in {seconds:.0f} s")

    def stop(self):
        self._end(signal.SIGTERM)

    def kill(self):
        self._end(signal.SIGKILL)

    def _end(self, number):
        if self._process is None or self._process.poll() is not None:
            return
        self.resume()
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def hold(self):
        """Let it do nothing any more, with its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def limit_disk(self, megabytes):
        """Let no file of it grow beyond this size; None lifts the limit."""
        soft = resource.RLIM_INFINITY if megabytes is None else megabytes * 2**20
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))


@contextmanager
def run_cluster(folder):
    """Run the three nodes of a cluster; all are ended afterwards."""
    nodes = []
    try:
        for number in range(3):
            bootstrap = nodes[0].peer_url if nodes else ""
            nodes.append(QdrantNode(folder / f"node{number}", bootstrap=bootstrap))
            nodes[-1].start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


@contextmanager
def run_node(folder, **options):
    node = QdrantNode(folder, **options)
    try:
        node.start()
        yield node
    finally:
        node.kill()
