from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.settings import Settings

OURS = "citegram:0.1.0"


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((root / "deploy" / "compose.yaml").read_text("utf-8"))
    return read


def services(compose: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(compose["services"].items())


def test_it_is_a_compose_file_by_the_specifications_own_schema(root: Path) -> None:
    checker = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("check-jsonschema is not here: pip install check-jsonschema")
    asked = [checker, "--builtin-schema", "vendor.compose-spec", root / "deploy" / "compose.yaml"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("profiles", [(), ("scale", "gpu", "watch")])
def test_every_profile_is_understood_by_compose(root: Path, tmp_path: Path, profiles: tuple[str, ...]) -> None:
    command = shutil.which("docker-compose")
    if command is None:
        pytest.skip("docker-compose is not here: apt-get install docker-compose")
    (tmp_path / "deploy").mkdir()
    whole = (root / "deploy" / "compose.yaml").read_text("utf-8")
    without = whole.replace("name: citegram\n", "", 1)  # Debian 12 has Compose 1.29, which knows no names of projects
    (tmp_path / "deploy" / "compose.yaml").write_text(without, "utf-8")
    (tmp_path / ".env").write_text("BOT__TOKEN=1:x\n", "utf-8")
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    asked = [command, "-f", "deploy/compose.yaml", *chosen, "config", "--services"]
    done = subprocess.run(
        asked, cwd=tmp_path, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert "bot" in done.stdout.split()


def test_what_is_beside_the_bot_is_started_only_by_its_profile(compose: dict[str, Any]) -> None:
    by_profile = {name: service.get("profiles") for name, service in services(compose)}
    assert by_profile == {
        "bot": None,
        "qdrant": ["scale"],
        "llama": ["scale"],
        "llama-gpu": ["gpu"],
        "prometheus": ["watch"],
        "grafana": ["watch"],
    }


def test_every_container_is_held_short(compose: dict[str, Any]) -> None:
    for name, service in services(compose):
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["restart"] == "unless-stopped", name
        assert "privileged" not in service, name
        assert "network_mode" not in service, name
        assert not any("docker.sock" in volume for volume in service["volumes"]), name
        assert name == "bot" or service["healthcheck"]["test"][0] == "CMD", name  # the bot's is in its image


def test_ports_are_opened_on_this_machine_alone(compose: dict[str, Any]) -> None:
    opened = [port for _, service in services(compose) for port in service.get("ports", ())]
    assert opened
    assert all(port.startswith("127.0.0.1:") for port in opened)


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    for name, service in services(compose):
        tag = service["image"].rpartition(":")[2]
        assert re.search(r"\d", tag), name
        assert "latest" not in tag, name


def test_secrets_are_in_a_file_that_only_the_bot_gets(compose: dict[str, Any]) -> None:
    assert [name for name, service in services(compose) if "env_file" in service] == ["bot"]
    for name, service in services(compose):
        for variable, value in service.get("environment", {}).items():
            if re.search(r"TOKEN|SECRET|PASSWORD|KEY", variable):
                assert re.fullmatch(r"\$\{\w+:-\}", value), (name, variable)


def test_the_bots_settings_are_ones_it_has(compose: dict[str, Any]) -> None:
    own = compose["services"]["bot"]["environment"]
    assert own["DATA__DIR"] == "/data"
    for name in own:
        section, _, field = name.lower().partition("__")
        if section in Settings.model_fields:
            assert field in Settings.model_fields[section].annotation.model_fields, name  # type: ignore[union-attr]


def test_what_is_written_goes_to_volumes(compose: dict[str, Any]) -> None:
    bot = compose["services"]["bot"]
    assert bot["volumes"] == ["data:/data"]
    assert any(place.startswith("/tmp") for place in bot["tmpfs"])
    named = {volume.partition(":")[0] for _, service in services(compose) for volume in service["volumes"]}
    assert {name for name in named if name.isalpha()} == set(compose["volumes"])


def test_the_time_to_stop_is_longer_than_the_bot_takes(compose: dict[str, Any], root: Path) -> None:
    from bot import app
    from bot.telegram import updates
    from bot.worker import question_worker

    takes = question_worker._DRAIN_SECONDS + app._SHUTDOWN_GRACE_SECONDS + 2 * updates._CLOSE_SECONDS
    assert int(compose["services"]["bot"]["stop_grace_period"].removesuffix("s")) >= 2 * takes
    unit = (root / "deploy" / "citegram.service").read_text("utf-8")
    (patience,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(patience) >= 2 * takes
