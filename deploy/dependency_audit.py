"""The dependency audit: every locked package against PyPI's advisories, and a software bill of materials.

`make audit OUT=folder`. A finding that deploy/dependency_audit.md does not explain fails, and so does an audit that did
not run: what was not looked at is no all-clear.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["explained", "main", "told"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_LOCKS = ("requirements.lock", "requirements-dev.lock")
_PATIENCE_S = 600
_NOT_RUN = "the advisories could not be asked for, so nothing was looked at: try again with a network"


def explained(text: str) -> frozenset[str]:
    """The ids of the findings that have a row in the table of dependency_audit.md."""
    return frozenset(re.findall(r"^\| *((?:GHSA|PYSEC|CVE|OSV)-[\w-]+) *\|", text, re.M))


def told(found: dict[str, Any] | None, known: frozenset[str]) -> tuple[list[str], bool]:
    """What to say of a report of pip-audit's, and whether it is well. None: it gave no report."""
    packages = found["dependencies"] if found else []
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    looked = len(packages) - len(skipped)
    if not looked:
        return [_NOT_RUN], False
    wrong = list(_findings(packages, known))
    lines = [f"{looked} packages looked at, {len(wrong)} unexplained findings"]
    if skipped:
        lines.append(f"not known to the service and not looked at: {', '.join(skipped)}")
    return [*lines, *wrong], not wrong


def _findings(packages: Sequence[dict[str, Any]], known: frozenset[str]) -> Iterator[str]:
    for one in packages:
        for finding in one.get("vulns", ()):
            if not known & {finding["id"], *finding.get("aliases", ())}:
                mended = ", ".join(finding.get("fix_versions", ())) or "no version yet"
                yield f"{one['name']} {one['version']}: {finding['id']} (mended in {mended})"


def _audited(lock: Path) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "pip_audit", "-r", str(lock), "--disable-pip", "--require-hashes", "-f", "json"]
    try:
        ran = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False,  # noqa: S603
                             timeout=_PATIENCE_S)  # fmt: skip
        found = json.loads(ran.stdout)
    except (ValueError, subprocess.TimeoutExpired) as exc:  # no network: pip-audit ends with a traceback
        print(f"{lock.name}: {'no answer' if isinstance(exc, subprocess.TimeoutExpired) else ran.stderr[-500:]}")
        return None
    return found if isinstance(found, dict) else None


def _materials(out: Path) -> Path:
    file = out / "sbom.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(_ROOT / "requirements.lock"), "--of", "JSON",
               "--pyproject", str(_ROOT / "pyproject.toml"), "--output-reproducible", "-o", str(file)]  # fmt: skip
    subprocess.run(command, check=True, timeout=_PATIENCE_S)  # noqa: S603
    return file


def main(words: Sequence[str]) -> int:
    """Audit the locks and write the bill into a folder; 1 where something is found that nobody explained.

    With `--unreachable-is-fine` an audit that could not ask for the advisories is only said, and does not fail.
    """
    out, lenient = Path(words[0]), "--unreachable-is-fine" in words
    out.mkdir(parents=True, exist_ok=True)
    known, well = explained((_HERE / "dependency_audit.md").read_text(encoding="utf-8")), True
    for name in _LOCKS:
        lines, fine = told(_audited(_ROOT / name), known)
        well = well and (fine or (lenient and lines == [_NOT_RUN]))
        print("\n".join(f"{name}: {line}" for line in lines))
    file = _materials(out)
    parts = json.loads(file.read_text(encoding="utf-8"))["components"]
    print(f"{file}: {len(parts)} components (CycloneDX)")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
