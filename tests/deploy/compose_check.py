"""`make compose-check`: deploy/compose.yaml by Docker Compose 2 on podman's socket, each service killed under load.

COMPOSE names the program of Compose (default: docker-compose). Images that this machine has are used. For the others
Debian's Prometheus and the programs that LLAMA_SERVER_BIN and QDRANT_BIN name stand in; what is not to be had is left
out, and said. Posts come and people ask all the while, and each service is killed in turn. What readers see meanwhile
is printed; anything lost, twice or stale in the end, and a service that does not come back, is an error.
"""

import asyncio
import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script

import yaml
from aiohttp import web
from chaos.consistency_check import is_lexical_index_behind
from chaos.kill_loop import Chaos, Plan, run_kills
from chaos.offline_models import offline_models
from chaos.prepared_archive import EXPORTED, make_expected_posts, write_export
from image_check import copy_for_others, expect, failed, find_writer, tell
from podman import ROOT, USER, build, configure, enter_loopback, find_base, find_missing, podman

_COMPOSE = shlex.split(os.environ.get("COMPOSE", "docker-compose"))
_SERVICES = ("bot", "llama", "qdrant", "prometheus", "grafana")
_PORT = 8999  # of Telegram, in the network of the bot's container
_PHASE_S, _PATIENCE_S = 30.0, 180.0
_WRITTEN = ("Written by", "Написал")  # footer-model
# Stand-ins, with the paths and users of the real images.
_PROMETHEUS = """FROM {base}
RUN apt-get update && apt-get install -y --no-install-recommends prometheus wget \\
    && mkdir /prometheus && chown 65534:65534 /prometheus
USER 65534
VOLUME /prometheus
ENTRYPOINT ["prometheus"]
"""
_LLAMA = """FROM {base}
RUN apt-get update && apt-get install -y --no-install-recommends curl libgomp1
COPY llama-server /app/llama-server
ENTRYPOINT ["/app/llama-server"]
"""
_QDRANT = """FROM {base}
WORKDIR /qdrant
COPY qdrant /qdrant/qdrant
RUN mkdir storage && chown -R 1000:1000 .
USER 1000
ENTRYPOINT ["./qdrant"]
"""


def find_images(folder):
    """The image of each service that can be had on this machine."""
    named = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    images = {"bot": "localhost/citegram:0.1.0"}
    print(f"bot        built in {build(ROOT, images['bot'], folder) / 60:.1f} minutes")
    stand_ins = {"prometheus": _PROMETHEUS, "llama": _LLAMA, "qdrant": _QDRANT}
    programs = {"llama": ("llama-server", "LLAMA_SERVER_BIN"), "qdrant": ("qdrant", "QDRANT_BIN")}
    for name in _SERVICES[1:]:
        if subprocess.run(["podman", "image", "exists", named[name]["image"]], check=False).returncode == 0:
            images[name] = named[name]["image"]
        elif name in stand_ins and (name not in programs or os.environ.get(programs[name][1])):
            (context := folder / f"image-{name}").mkdir()
            if name in programs:
                shutil.copy(os.environ[programs[name][1]], context / programs[name][0])
            (context / "Dockerfile").write_text(stand_ins[name].format(base=find_base()))
            images[name] = f"localhost/citegram-check-{name}:1"
            build(context, images[name], folder, dockerfile=context / "Dockerfile")
            print(f"{name:10} a stand-in for {named[name]['image']}")
        else:
            print(f"{name:10} left out: {named[name]['image']} is not here")
    return images


class Project:
    """A copy of deploy/ with its .env, as somebody has it who follows deploy/README.md, and Compose in it."""

    def __init__(self, folder, images, models):
        self.folder, self.services = folder / "project", list(images)
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        override = {name: {"image": image, "pull_policy": "never"} for name, image in images.items()}
        if models:
            override["bot"]["volumes"] = [f"{models}:/models:ro"]
        (self.folder / "deploy" / "override.yaml").write_text(yaml.safe_dump({"services": override}))
        self.socket = folder / "podman.sock"
        served = ["podman", "system", "service", "--time", "0", f"unix://{self.socket}"]
        self._engine = subprocess.Popen(served, stderr=subprocess.DEVNULL)  # without systemd it complains at length

    def write_settings(self, **settings):
        (self.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (self.folder / ".env").chmod(0o600)

    def compose(self, *words):
        """Run Compose; its output. Raises RuntimeError with it."""
        files = ["--env-file", ".env", "-f", "deploy/compose.yaml", "-f", "deploy/override.yaml"]
        done = subprocess.run(
            [*_COMPOSE, *files, "--profile", "scale", "--profile", "watch", *words],
            cwd=self.folder, env=os.environ | {"DOCKER_HOST": f"unix://{self.socket}"}, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"compose {' '.join(words)} ended with {done.returncode}: {done.stdout[-3000:]}")
        return done.stdout

    def find_first_process(self, service):
        """The number of a service's first process on this machine; 0 where there is none."""
        with suppress(RuntimeError, ValueError):
            return int(podman("inspect", "--format", "{{.State.Pid}}", f"citegram-{service}-1"))
        return 0

    def is_healthy(self, service):
        asked = ["podman", "healthcheck", "run", f"citegram-{service}-1"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def close(self):
        with suppress(RuntimeError):
            self.compose("down", "--volumes", "--timeout", "5")
        self._engine.terminate()
        self._engine.wait()


def listen_in_network_of(process, port):
    """A socket that listens on the loopback of another process' network. For a thread of its own. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{process}/ns/net").open() as other:
        if libc.setns(other.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            return socket.create_server(("127.0.0.1", port))
        finally:
            libc.setns(own.fileno(), 0)


class ServiceKills(Chaos):
    """Kills each service once while channels live on and people ask."""

    def __init__(self, project, folder, models, gguf):
        kills = len(project.services)
        super().__init__(Plan(kills=kills, updates=300 * kills, rate=5, questions=0.2), folder, models)
        self._project = project
        self._asked_at = {}
        settings = {"BOT__TOKEN": self.sandbox.token, "BOT__API": f"http://127.0.0.1:{_PORT}", "BOT__ADMINS": "900"}
        settings |= {"GRAFANA_PASSWORD": "loopback"}
        settings |= {"MODELS__DIR": "/models"} if models else {"MODELS__EMBEDDER": "none"}
        if gguf and "llama" in project.services:
            settings |= {
                "LLM__URL": "http://llama:8080",
                "CITEGRAM_MODELS": str(gguf.parent),
                "CITEGRAM_GGUF": gguf.name,
            }
        if "qdrant" in project.services:
            settings |= {"QDRANT__URL": "http://qdrant:6333"}
        project.write_settings(**settings)
        project.compose("up", "--no-start", *project.services)
        self.home.data = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", "citegram_data"))

    def _ask(self):
        super()._ask()
        self._asked_at[self.asked[-1]] = self.sandbox.world.clock()

    async def _killing(self):
        self._own_data()
        self._telegram = asyncio.create_task(self._serve_telegram())
        try:
            await asyncio.to_thread(self._project.compose, "up", "-d", *self._project.services)
            for service in self._project.services:
                await self._until_healthy(service)
            await asyncio.to_thread(self._follow_the_page)
            await self._observe("nothing is killed")
            for service in self._project.services:
                os.kill(await asyncio.to_thread(self._project.find_first_process, service), signal.SIGKILL)
                self.kills[service] += 1
                self._find_unnoted()
                await self._observe(f"{service} is killed", service)
            if "prometheus" in self._project.services:
                await asyncio.to_thread(check_metrics)
        except BaseException:
            self._telegram.cancel()
            raise

    def _follow_the_page(self):
        """The commands of deploy/README.md to a running bot: an export is copied in and imported, and taken away."""
        posts = make_expected_posts(EXPORTED, 150, self.plan.seed)
        write_export(self._project.folder / "ChatExport", posts)
        self._project.compose("cp", "ChatExport", "bot:/data/export")
        self._project.compose("exec", "-T", "bot", "citegram", "import", "/data/export")
        self.traffic.told.update({one.key: one for one in posts})
        shell = ["run", "--rm", "--user=0", "--network=none", "--volume=citegram_data:/data", "--entrypoint=rm"]
        podman(*shell, "localhost/citegram:0.1.0", "-r", "/data/export")
        self._project.compose("exec", "-T", "bot", "citegram", "backup")

    async def _observe(self, what, service=""):
        """Let half a minute pass, and more until the service is there again; what readers saw."""
        first, begun = len(self.asked), time.monotonic()
        back = await self._until_healthy(service) if service else 0.0
        await asyncio.sleep(max(5.0, _PHASE_S - back))
        readers = self.asked[first:]
        await self.sandbox.until(lambda: all(self.sandbox.world.sent.get(one) for one in readers), 120)
        sent = {str(line["params"].get("chat_id")): line["at"] for line in reversed(self.sandbox.transcript)
                if line["ok"] and line["method"].startswith("send") and line["method"] != "sendChatAction"}  # fmt: skip
        waits = [sent[str(one)] - self._asked_at[one] for one in readers if str(one) in sent]
        texts = [self._read(one) for one in readers]
        tell(
            "readers",
            f"while {what}{f', healthy again after {back:.0f} s' if service else ''}: {len(waits)} of {len(readers)} "
            f"answered, median {statistics.median(waits or [0]):.1f} s, longest {max(waits, default=0):.1f} s, "
            f"{sum(any(mark in text for mark in _WRITTEN) for text in texts)} written by the model "
            f"({time.monotonic() - begun:.0f} s)",
        )

    def _read(self, reader):
        messages = self.sandbox.world.room(reader).messages
        return " ".join(
            str(messages[n].get("text", "")) for n in self.sandbox.world.sent.get(reader, ()) if n in messages
        )

    async def _until_healthy(self, service):
        """Seconds until its own check is content. Raises TimeoutError."""
        started = time.monotonic()
        while not await asyncio.to_thread(self._project.is_healthy, service):
            if time.monotonic() - started > _PATIENCE_S:
                raise TimeoutError(f"{service} is not healthy: {podman('logs', f'citegram-{service}-1')[-3000:]}")
            await asyncio.sleep(0.5)
        return time.monotonic() - started

    async def _serve_telegram(self):
        """Be Telegram on the loopback of the bot's container, and of each that comes after it."""
        served = 0
        while True:
            process = await asyncio.to_thread(self._project.find_first_process, "bot")
            if process not in {0, served}:
                with suppress(OSError):  # it has ended meanwhile
                    taken = await asyncio.to_thread(listen_in_network_of, process, _PORT)
                    await web.SockSite(self.sandbox._runner, taken).start()
                    served = process
            await asyncio.sleep(0.2)

    async def _settled(self):
        """Let the bot finish its backlog, and stop it as an operator does."""
        until = time.monotonic() + self.plan.patience
        try:
            while True:
                while not self._quiet():
                    if time.monotonic() > until:
                        raise TimeoutError(f"the bot did not finish its backlog within {self.plan.patience:.0f} s")
                    await asyncio.sleep(0.5)
                await asyncio.sleep(5)  # a round of the lexical leg
                started = time.monotonic()
                await asyncio.to_thread(self._project.compose, "stop", "bot")
                tell("stop", f"{time.monotonic() - started:.1f} s by Compose")
                code = podman("inspect", "--format", "{{.State.ExitCode}}", "citegram-bot-1")
                expect(code == "0", f"stopped by Compose, the bot ended with {code}")
                if not await is_lexical_index_behind(self.home.data):
                    return
                self._own_data()
                await asyncio.to_thread(self._project.compose, "start", "bot")
        finally:
            self._telegram.cancel()

    def _own_data(self):
        for path in (self.home.data, *self.home.data.rglob("*")):
            os.chown(path, USER, USER)


def ask_prometheus(expression):
    """What an expression gives now: its series."""
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/query?{query}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def check_metrics():
    """Prometheus reaches the bot, and every panel of the dashboards has an expression that it understands."""
    (up,) = ask_prometheus('up{job="citegram"}')
    expect(up["value"][1] == "1", f"Prometheus does not reach the bot: {up}")
    asked, empty = 0, []
    for file in sorted((ROOT / "deploy" / "watch" / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"].replace("$__rate_interval", "2m").replace("$instance", ".*")
                asked += 1
                empty += [] if ask_prometheus(expression) else [f"{panel['title']}"]
    tell("panels", f"{asked} expressions asked, {len(empty)} without a value now: {', '.join(dict.fromkeys(empty))}")


def main():
    """Bring all of it up, kill it, look. Returns the exit code."""
    begun, missing = time.monotonic(), find_missing("netavark", "aardvark-dns")
    version = ""
    with suppress(OSError):
        version = subprocess.run([*_COMPOSE, "version", "--short"], capture_output=True, text=True, check=False).stdout
    if missing or not version or version.startswith("1."):
        print(f"compose-check did not run: it needs {missing or 'Docker Compose 2, whose program COMPOSE names'}.")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="citegram-compose-"))
    configure(folder)
    gguf, models = find_writer(), copy_for_others(offline_models(None), folder)
    images = find_images(folder)
    enter_loopback()
    project = Project(folder, images, models)
    try:
        run = ServiceKills(project, folder, None if "qdrant" in images else models, gguf)
        metrics, wrong = asyncio.run(run_kills(run))
    finally:
        project.close()
    names = ("kills", "updates", "posts", "questions", "lost", "twice", "stale")
    tell("kills", ", ".join(f"{metrics[name]} {name}" for name in names))
    expect(not wrong, "; ".join(wrong[:10]))
    shutil.rmtree(folder)
    print(f"compose-check took {(time.monotonic() - begun) / 60:.1f} minutes: {'; '.join(failed) or 'all held'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
