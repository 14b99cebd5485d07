"""The Dockerfile, read: its stages, and its own steps carried out by a user of no rights in a folder of their own."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from string import Template

_NOBODY = 65534


@dataclass
class Stage:
    """One FROM and what follows: (instruction, value), continued lines joined."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction):
        return [value for word, value in self.steps if word == instruction]


def read_stages(dockerfile):
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")]
    found = []
    arguments = {}
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, value = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = value.partition(" AS ")
            found.append(Stage(Template(base).substitute(arguments), name))
        elif word and not found:
            arguments.update([value.split("=", 1)])
        elif word:
            found[-1].steps.append((word, value.strip()))
    return found


def is_in_build_context(root, path):
    """Whether .dockerignore lets a path of the project into the build: the last rule that speaks of it decides."""
    kept = True
    for rule in (root / ".dockerignore").read_text("utf-8").splitlines():
        if rule and not rule.startswith("#"):
            pattern = rule.removeprefix("!")
            parents = [path, *(str(parent) for parent in Path(path).parents)]
            matches = any(fnmatch(one, pattern) or fnmatch(f"/{one}", pattern.replace("**", "*")) for one in parents)
            kept = rule.startswith("!") if matches else kept
    return kept


def copy_build_context(root, stage, target):
    """Do what the stage's COPY lines do, with the files that git knows or would know."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(asked, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    for value in stage.all("COPY"):
        *sources, to = value.split()
        for source in sources:
            files = [name for name in known if name == source or name.startswith(f"{source}/")]
            files = [name for name in files if is_in_build_context(root, name)]
            assert files, f"COPY {source}: nothing of it is let through by .dockerignore"
            for name in files:
                inside = Path(name).relative_to(source) if name != source else Path(Path(source).name)
                single = name == source and not to.endswith("/")
                place = target / to if single else target / to / inside
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, place)


def trim_image(lock, names):
    """Leave only these packages in a lock file."""
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", lock.read_text("utf-8"))
    kept = [block for block in blocks[1:] if block.partition("==")[0] in names]
    assert len(kept) == len(names)
    lock.write_text("".join(kept), "utf-8")


class UnprivilegedUser:
    """Runs programs as nobody, in an environment with nothing of ours; as oneself where one is not root."""

    def __init__(self, home):
        self.home = home
        who = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs"]
        self._dropped = ["setpriv", *who, "env"]  # setpriv itself still starts programs with root's rights
        if os.getuid():
            self._dropped = []
        else:
            shutil.chown(home, _NOBODY, _NOBODY)
            for path in home.rglob("*"):
                shutil.chown(path, _NOBODY, _NOBODY)

    def run(self, command, cwd, **environment):
        passed = {
            name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "LANG"))
        }
        given = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), **passed, **environment}
        whole = [*self._dropped, *command]
        return subprocess.run(whole, cwd=cwd, env=given, capture_output=True, text=True, check=False)

    def python(self):
        """A Python of this minor version that this user may run and make environments with."""
        code = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
        for one in (getattr(sys, "_base_executable", sys.executable), "/usr/local/bin/python3", "/usr/bin/python3"):
            if Path(one).exists() and self.run([one, "-c", code], self.home).returncode == 0:
                return str(one)
        return None
