import re
import shutil
import subprocess

import pytest

MOST_EXPOSED = 2.0  # of systemd's 10; the rest is the network, which a bot needs


@pytest.fixture
def unit(root, tmp_path):
    text = (root / "deploy" / "citegram.service").read_text("utf-8")
    copy = tmp_path / "citegram.service"
    copy.write_text(text.replace("/opt/citegram/bin/citegram", "/bin/true"), "utf-8")
    return copy


def analysed(*words):
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    done = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_understands_the_unit(unit):
    assert analysed("verify", unit) == ""


def test_the_unit_is_hardened(unit):
    said = analysed("security", "--offline=true", "--no-pager", f"--threshold={int(MOST_EXPOSED * 10)}", unit)
    (exposed,) = re.findall(r"Overall exposure level for citegram\.service: ([\d.]+)", said)
    assert float(exposed) <= MOST_EXPOSED
