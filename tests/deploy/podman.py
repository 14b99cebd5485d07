"""The image and its containers, by podman, as `make image-check` and `make compose-check` use them.

Without a registry of images the base is made by debootstrap. Containers are in a network of loopback alone.
"""

import ctypes
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml
from dockerfile_stages import read_stages

ROOT = Path(__file__).parents[2]
BASE = "localhost/citegram-base"
USER = 10001
_NEEDED = ("podman", "runc", "debootstrap", "catatonit", "ip")
_PIP = ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "CERT", "DEFAULT_TIMEOUT")
_SOURCES = """deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
"""
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_CLONE_NEWNET = 0x40000000


def find_missing(*more):
    """What these checks need and this machine has not, as words; empty where all is there."""
    places = f"{os.environ['PATH']}:/usr/sbin:/sbin:/usr/lib/podman:/usr/libexec/podman"
    missing = [one for one in (*_NEEDED, *more) if shutil.which(one, path=places) is None]
    return ", ".join(missing + ["root's rights"] * bool(os.getuid()))


def podman(*words, **how):
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False, **how)
    if done.returncode:
        raise RuntimeError(
            f"podman {' '.join(words)} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout.strip()


def configure(folder):
    """Let podman use runc, and limits that a machine without CAP_SYS_RESOURCE may give its containers."""
    hard = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1] for name in ("nofile", "nproc")}
    limits = [f"{name}={n}:{n}" for name, most in hard.items() for n in [8192 if most < 0 else min(most // 2, 8192)]]
    file = folder / "containers.conf"
    network = '[network]\nnetwork_backend = "netavark"\n' if not find_missing("netavark") else ""
    limits_line = f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n"
    file.write_text(f'{limits_line}[engine]\nruntime = "runc"\n{network}')
    os.environ["CONTAINERS_CONF"] = str(file)


def find_base():
    """The base that the Dockerfile names where this machine has it, else one made here by debootstrap, once."""
    for one in (read_stages(ROOT / "deploy" / "Dockerfile")[0].base, BASE):
        if subprocess.run(["podman", "image", "exists", one], check=False).returncode == 0:
            return one
    return make_base()


def make_base():
    """Debian 12 with its Python 3.11, as an image."""
    root = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)]
    subprocess.run(bootstrap, check=True, stdout=subprocess.DEVNULL)
    (root / "etc" / "apt" / "sources.list").write_text(_SOURCES)
    left_out = ["--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*"]
    packed = subprocess.Popen(["tar", "-C", str(root), *left_out, "-cf", "-", "."], stdout=subprocess.PIPE)
    podman("import", "-", BASE, stdin=packed.stdout)
    shutil.rmtree(root)
    return BASE


def build(context, tag, folder, *, dockerfile=ROOT / "deploy" / "Dockerfile"):
    """Build the image as `docker build` does; the seconds it took. Certificates and pip's index are the machine's."""
    mounts = ["/etc/ssl/certs:/etc/ssl/certs:ro"]
    asked = {name: os.environ[f"PIP_{name}"] for name in _PIP if f"PIP_{name}" in os.environ}
    if asked:
        file = folder / "pip.conf"
        lines = [f"{name.lower().replace('_', '-')} = {value}" for name, value in asked.items()]
        file.write_text("\n".join(["[global]", *lines]) + "\n")
        mounts.append(f"{file}:/etc/pip.conf:ro")
    started = time.monotonic()
    podman(
        "build", "--isolation", "chroot", "--network", "host", "--format", "docker", "--layers", "--quiet",
        *(word for one in mounts for word in ("--volume", one)),
        "--build-arg", f"PYTHON_IMAGE={find_base()}", "--file", str(dockerfile), "--tag", tag, str(context),
    )  # fmt: skip
    return time.monotonic() - started


def enter_loopback():
    """Move this process, and what it starts, into a network namespace that has loopback and nothing else."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@cache
def compose_flags():
    """What deploy/compose.yaml holds the bot to, as podman's options."""
    bot = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["bot"]
    assert bot["read_only"] and bot["init"]
    memory = bot["mem_limit"].rpartition(":-")[2].rstrip("}")
    held = [f"--cap-drop={one}" for one in bot["cap_drop"]] + [f"--tmpfs={one}" for one in bot["tmpfs"]]
    held += [f"--security-opt={one.replace(':true', '')}" for one in bot["security_opt"]]
    return ("--read-only", "--init", f"--memory={memory}", f"--pids-limit={bot['pids_limit']}", *held)


@dataclass
class Container:
    """A container of the image, held as compose.yaml holds the bot, in this process' network."""

    image: str
    data: str  # a volume's name or a folder: /data
    settings: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[str] = ("run",)
    more: Sequence[str] = ()  # of podman's options
    name: str = field(default_factory=lambda: f"citegram-check-{os.urandom(4).hex()}")

    def command(self, *how):
        settings = [f"--env={name}={value}" for name, value in self.settings.items()]
        asked = ["run", *how, f"--name={self.name}", "--network=host", *compose_flags(), f"--volume={self.data}:/data"]
        return [*asked, *settings, *self.more, self.image, *self.words]

    def run(self):
        return subprocess.run(
            ["podman", *self.command("--rm")], capture_output=True, text=True, timeout=600, check=False
        )

    def start(self):
        podman(*self.command("--detach"))

    def exec(self, *words):
        return subprocess.run(
            ["podman", "exec", self.name, *words], capture_output=True, text=True, timeout=600, check=False
        )

    def find_first_process(self):
        """The number of its first process on this machine; 0 where there is none."""
        with suppress(RuntimeError, ValueError):
            return int(podman("inspect", "--format", "{{.State.Pid}}", self.name))
        return 0

    def stop(self):
        """SIGTERM, and after a minute SIGKILL; seconds until its end, and its exit code."""
        started = time.monotonic()
        podman("kill", "--signal", "TERM", self.name)
        code = int(podman("wait", "--interval", "20ms", self.name, timeout=60))
        return time.monotonic() - started, code

    def log(self):
        done = subprocess.run(["podman", "logs", self.name], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def memory(self):
        """Bytes of its own and of mapped files that are in memory now."""
        said = self.exec("sh", "-c", "cat /sys/fs/cgroup/memory.stat /sys/fs/cgroup/memory/memory.stat 2>/dev/null")
        stat = dict(line.split() for line in said.stdout.splitlines())
        names = ("anon", "file_mapped") if "anon" in stat else ("total_rss", "total_mapped_file")
        return sum(int(stat.get(one, 0)) for one in names)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.remove()

    def remove(self):
        subprocess.run(["podman", "rm", "--force", "--time", "0", self.name], capture_output=True, check=False)
