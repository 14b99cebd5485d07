import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bot.settings import Settings


@pytest.fixture(scope="module")
def compose(root):
    return yaml.safe_load((root / "deploy" / "compose.yaml").read_text("utf-8"))


def services(compose):
    return list(compose["services"].items())


def test_it_is_a_compose_file_by_the_specifications_own_schema(root):
    checker = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("check-jsonschema is not here: pip install check-jsonschema")
    asked = [checker, "--builtin-schema", "vendor.compose-spec", root / "deploy" / "compose.yaml"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_container_is_held_short(compose):
    for name, service in services(compose):
        held = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"],
                "restart": "unless-stopped"}  # fmt: skip
        assert service | held == service, name
        assert service["mem_limit"] and service["pids_limit"], name
        assert not {"privileged", "network_mode"} & service.keys(), name
        assert not any("docker.sock" in volume for volume in service["volumes"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert name == "bot" or service["healthcheck"]["test"][0] == "CMD", name  # the bot's is in its image
        assert (name == "bot") == (not service.get("profiles")), name  # what is beside the bot is asked for
        assert re.search(r":.*\d", service["image"]) and "latest" not in service["image"], name


def test_secrets_are_in_a_file_that_only_the_bot_gets(compose):
    assert [name for name, service in services(compose) if "env_file" in service] == ["bot"]
    for name, service in services(compose):
        for variable, value in service.get("environment", {}).items():
            if re.search(r"TOKEN|SECRET|PASSWORD|KEY", variable):
                assert re.fullmatch(r"\$\{\w+:-\}", value), (name, variable)


def test_the_bots_settings_are_ones_it_has(compose):
    own = compose["services"]["bot"]["environment"]
    assert own["DATA__DIR"] == "/data"
    for name in own:
        section, _, field = name.lower().partition("__")
        if section in Settings.model_fields:
            assert field in Settings.model_fields[section].annotation.model_fields, name


def test_the_time_to_stop_is_longer_than_the_bot_takes(compose, root):
    from bot import app
    from bot.telegram import updates
    from bot.worker import question_worker

    takes = question_worker._DRAIN_SECONDS + app._SHUTDOWN_GRACE_SECONDS + 2 * updates._CLOSE_SECONDS
    assert int(compose["services"]["bot"]["stop_grace_period"].removesuffix("s")) >= 2 * takes
    unit = (root / "deploy" / "citegram.service").read_text("utf-8")
    (patience,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(patience) >= 2 * takes
