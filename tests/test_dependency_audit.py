"""The dependency audit: what it says of a report, and that what nobody explained fails."""

import importlib.util

import pytest

SKIPPED = {"name": "tqdm", "skip_reason": "not found"}
CLEAN = {"name": "yarl", "version": "1.0", "vulns": []}
HOLED = {"name": "aiohttp", "version": "3.0",
         "vulns": [{"id": "PYSEC-2030-1", "aliases": ["CVE-2030-9"], "fix_versions": ["3.1"]}]}  # fmt: skip


@pytest.fixture(scope="module")
def audit(root):
    spec = importlib.util.spec_from_file_location("audit", root / "deploy" / "dependency_audit.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_finding_that_nobody_explained_fails(audit):
    lines, fine = audit.told({"dependencies": [CLEAN, HOLED, SKIPPED]}, frozenset())
    assert not fine
    assert lines[0] == "2 packages looked at, 1 unexplained findings"
    assert "not looked at: tqdm" in lines[1]
    assert lines[2] == "aiohttp 3.0: PYSEC-2030-1 (mended in 3.1)"


@pytest.mark.parametrize("known", ["PYSEC-2030-1", "CVE-2030-9"])
def test_an_explained_one_does_not(audit, known):
    rows = audit.explained(f"| Finding | Package |\n| --- | --- |\n| {known} | aiohttp | not used |\n")
    assert audit.told({"dependencies": [HOLED]}, rows) == (["1 packages looked at, 0 unexplained findings"], True)


@pytest.mark.parametrize("report", [None, {"dependencies": []}, {"dependencies": [SKIPPED]}])
@pytest.mark.parametrize("lenient", [False, True])
def test_an_audit_that_did_not_run_fails_unless_that_is_allowed(audit, report, lenient, tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "_audited", lambda _: report)
    (tmp_path / "sbom.json").write_text('{"components": []}')
    monkeypatch.setattr(audit, "_materials", lambda out: out / "sbom.json")
    assert audit.told(report, frozenset())[1] is False
    assert audit.main([str(tmp_path), *["--unreachable-is-fine"] * lenient]) == (0 if lenient else 1)
