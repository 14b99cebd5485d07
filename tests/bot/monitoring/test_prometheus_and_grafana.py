"""What is in deploy/watch fits the bot: rules, dashboards, and its page of metrics as Prometheus reads it."""

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
import yaml
from driver import OTTO
from local_server import find_free_port
from metrics_client import fetch_text, wait_for

from rag_core.storage.backups import make_backup

FERRY = "When does the ferry to Owl Island leave?"
WATCH = Path(__file__).parents[3] / "deploy" / "watch"
BOARDS = sorted((WATCH / "grafana" / "dashboards").glob("*.json"))
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: apt-get install prometheus")

# Metrics of ours, and those of the process that Prometheus' client brings.
METRIC = re.compile(r"\b(?:citegram|process|python)_\w+")
SELECTOR = re.compile(r"\b((?:citegram|process|python)_\w+)\{([^}]*)\}")


def rules():
    (group,) = yaml.safe_load((WATCH / "alerts.yml").read_text("utf-8"))["groups"]
    return group["rules"]


def panels(board):
    for panel in json.loads(board.read_text("utf-8"))["panels"]:
        yield panel
        yield from panel.get("panels", ())


def shown(board):
    asked = [target["expr"] for panel in panels(board) for target in panel.get("targets", ())]
    return [expr.replace("$__rate_interval", "1m").replace("$instance", ".*") for expr in asked]


def promtool(*words, **more):
    done = subprocess.run([str(PROMTOOL), *words], cwd=WATCH, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_rules_are_prometheus_own_and_alerts_fire_when_they_should():
    promtool("check", "config", "prometheus.yml")
    promtool("check", "config", "prometheus-compose.yml")
    promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


@pytest.fixture
async def exposed(live, ask, home):
    """A page of metrics, and of each series its labels."""
    make_backup(home, threading.Event())
    port = find_free_port()
    async with live(sections={"monitoring": {"port": port}}):
        await ask(OTTO, FERRY)
        await ask(OTTO, "/help")
        await wait_for(port, lambda found: "citegram_telegram_silence_seconds" in found)
        _, page = await fetch_text(port, "metrics")
    from bot.metrics import Meter

    labels = {}
    for name, inside in re.findall(r"^(\w+)(?:\{(.*)\})? ", page, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=\"", inside))
    for metric in vars(Meter().instruments).values():  # what has not happened yet has no series
        if hasattr(metric, "_labelnames"):
            ends = ("_total",) if metric._type == "counter" else ("_bucket", "_sum", "_count")
            for end in ends:
                more = {"le"} if end == "_bucket" else set()
                labels.setdefault(metric._name + end, set()).update({*metric._labelnames, *more})
    return page, labels


async def test_rules_and_dashboards_name_what_the_bot_tells_and_all_of_it(exposed):
    _, labels = exposed
    asked = [rule["expr"] for rule in rules()] + [expr for board in BOARDS for expr in shown(board)]
    named = {name for expr in asked for name in METRIC.findall(expr)}
    assert len(named) > 35
    assert named <= set(labels), named - set(labels)
    for expr in asked:
        for name, inside in SELECTOR.findall(expr):
            wanted = set(re.findall(r"(\w+)\s*[=!]~?", inside)) - {"job", "instance"}
            assert wanted <= labels[name], (name, wanted)
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in labels if name.startswith("citegram_")}
    left = families - {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert left <= {"citegram_build_info", "citegram_job_runs_total"}


@with_promtool
async def test_prometheus_reads_the_page_and_the_expressions_of_the_dashboards(exposed, tmp_path):
    page, _ = exposed
    promtool("check", "metrics", input=page)
    asked = [{"record": f"shown:{n}", "expr": expr} for n, expr in enumerate(e for b in BOARDS for e in shown(b))]
    (tmp_path / "shown.yml").write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": asked}]}), "utf-8")
    promtool("check", "rules", str(tmp_path / "shown.yml"))
