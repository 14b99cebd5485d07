import asyncio
import json
import logging
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from driver import GROUP, OTTO, RITA
from local_server import find_free_port
from metrics_client import fetch_metrics, fetch_text, get_value, wait_for

from bot.app import run_bot
from bot.jobs import JobLog
from bot.metrics import Meter
from bot.monitoring import Monitoring, check_readiness
from bot.settings import Settings
from bot.views.keyboards import DEEP_MODE
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, SettingsWrong
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import find_models
from rag_core.run import Budgets, Run, Span
from rag_core.storage.questions import QuestionRow
from rag_core.types import PassageRef, PostKey, Shortfall

FERRY = "When does the ferry to Owl Island leave?"
CHANGES, VOTES = "citegram_post_changes_total", "citegram_feedback_votes"
NOTHING = "Who won the chess tournament in Reykjavik?"


def watching(port):
    return {"monitoring": {"port": port}}


async def test_questions_are_counted_by_what_became_of_them(sandbox, live, ask, monkeypatch):
    from bot.worker import question_worker

    real = question_worker.answer_question

    async def broken(question, *args, **more):
        if "mackerel" in question.text:
            raise IndexUnavailable("The index is gone.")
        return await real(question, *args, **more)

    begun = asyncio.Event()

    async def endless(*args, **more):
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(question_worker, "answer_question", broken)
    port = find_free_port()
    async with live(sections=watching(port)):
        for text in (FERRY, FERRY, NOTHING, "Is mackerel sold?", "/verify The ferry leaves at 7:30 from pier four."):
            await ask(OTTO, text)
        found = await fetch_metrics(port)
        assert get_value(found, "citegram_questions_total") == 5
        monkeypatch.setattr(question_worker, "answer_question", endless)
        await sandbox.say(OTTO, "When does the ferry to Bear Island leave?")
        await begun.wait()
        await sandbox.say(OTTO, "/stop")
        last = await wait_for(port, lambda found: get_value(found, "citegram_questions_total") == 6)
    assert get_value(last, "citegram_questions_total", outcome="stopped", recipe="none") == 1
    questions = "citegram_questions_total"
    assert get_value(found, questions, kind="ask", recipe="direct", outcome="answered") == 2
    assert get_value(found, questions, kind="ask", recipe="direct", outcome="refused") == 1
    assert get_value(found, questions, kind="ask", outcome="trouble") == 1
    assert get_value(found, questions, kind="verify", recipe="verify", outcome="answered") == 1
    for name in ("question_seconds", "queue_wait_seconds"):
        assert get_value(found, f"citegram_{name}_count") == 5
    for name in ("sum", "count"):
        assert get_value(found, f"citegram_citation_coverage_{name}") == 2
    assert get_value(found, "citegram_confidence_count", recipe="direct") == 3
    assert get_value(found, "citegram_stage_seconds_count", stage="lexical") >= 2
    assert get_value(found, "citegram_question_rounds_sum") >= 2
    assert get_value(found, "citegram_log_records_total", level="error") == 1
    assert get_value(found, "citegram_telegram_calls_total", method="sendMessage", outcome="ok") >= 5


def test_what_is_asked_again_did_not_wait_since_the_first_asking():
    meter, hour_ago = Meter(), datetime.now(UTC) - timedelta(hours=1)
    row = {"bot_id": 1, "update_id": 1, "chat_id": 1, "message_id": 1, "user_id": 1, "text": FERRY, "lang": "en"}
    asked = QuestionRow(**row, asked_at=hour_ago, private=True)
    for one in (asked, replace(asked, mode=DEEP_MODE)):
        with meter.turn(one):
            pass
    count, total = (
        meter.instruments.registry.get_sample_value(f"citegram_queue_wait_seconds_{n}") for n in ("count", "sum")
    )
    assert (count, total) == (1, pytest.approx(3600, abs=5))


async def test_states_are_read_when_they_are_asked_for(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.monitoring._REFRESH_SECONDS", 0.0)
    port = find_free_port()
    with closing(sqlite3.connect(home / "citegram.db")) as archive, archive:
        archive.execute("INSERT INTO gaps (chat_id, since, until, noted_at) VALUES (-1001000001, 1, 2, 3)")
        archive.execute("INSERT INTO gaps (chat_id, since, until, noted_at) VALUES (-1001000001, 5, 6, 7)")
    async with live(sections=watching(port)):
        await sandbox.post(-1001000001, "The second ferry leaves at noon.")
        sandbox.push({"brand_new_kind": {}})
        await wait_for(port, lambda found: get_value(found, CHANGES, source="live", change="kept"))
        await wait_for(port, lambda found: get_value(found, "citegram_updates_quarantined"))
        found = await wait_for(port, lambda found: not get_value(found, "citegram_index_lag_changes"))
    legs = {dict(labels)["leg"] for labels in found["citegram_index_lag_changes"]}
    assert legs == {"words", "copies"}  # no model, no vectors
    assert get_value(found, "citegram_archive_posts") == get_value(found, "citegram_index_passages", leg="words") == 13
    assert get_value(found, "citegram_gaps_open") == get_value(found, "citegram_channel_gaps_max") == 2
    assert get_value(found, "citegram_gap_channels") == 1
    assert get_value(found, "citegram_channels") == 4
    assert get_value(found, "citegram_disk_bytes", part="archive") > 0
    assert get_value(found, "citegram_disk_free_bytes") > 0
    assert get_value(found, "citegram_job_runs_total", task="lexical") > 0
    assert get_value(found, "process_resident_memory_bytes") > 1e6
    assert get_value(found, "citegram_scrape_failures_total") == 0
    assert len(found["citegram_build_info"]) == 1


async def test_caches_votes_and_refusals_are_told_and_no_text_reader_or_channel(sandbox, live, ask, monkeypatch):
    monkeypatch.setattr("bot.monitoring._REFRESH_SECONDS", 0.0)
    port, handlers = find_free_port(), list(logging.getLogger().handlers)
    async with live(sections=watching(port)):
        assert len(logging.getLogger().handlers) > len(handlers)
        sandbox.faults.fail_next("sendMessage", "429", retry_after=1)
        reply = await ask(OTTO, FERRY)
        sandbox.faults.fail_next("sendMessage", "500")
        await ask(RITA, FERRY)
        await sandbox.say(RITA, f"/ask@citegram_bot {FERRY}", chat_id=GROUP)
        await sandbox.replies(GROUP)
        good = next(one for row in reply["reply_markup"]["inline_keyboard"] for one in row if "👍" in one["text"])
        await sandbox.press(OTTO, OTTO, reply["message_id"], good["callback_data"])
        found = await wait_for(port, lambda found: get_value(found, VOTES, vote="good", reason="none"))
        _, page = await fetch_text(port, "metrics")
    assert logging.getLogger().handlers == handlers  # the log is left as it was
    assert get_value(found, "citegram_cache_requests_total", cache="plans") >= 1
    assert {dict(labels)["cache"] for labels in found["citegram_cache_requests_total"]} == {"plans", "hits"}
    calls = "citegram_telegram_calls_total"
    assert get_value(found, calls, method="sendMessage", outcome="flood") == 1
    assert get_value(found, calls, method="sendMessage", outcome="server") == 1
    assert get_value(found, calls, method="sendMessage", outcome="ok") >= 3
    labels = " ".join(re.findall(r"\{(.*)\}", page))
    assert not re.search(r"ferry|owl|harbour|печь|otto|rita", labels, re.IGNORECASE)
    assert not re.search(r"\"-?\d{3,}\"", labels)  # ids
    assert sandbox.token not in page


def test_what_a_run_notes_of_tools_and_models_is_counted():
    meter = Meter()
    run = Run(Budgets(), "react")
    run.spans += [
        Span("lookup", 4.0, {}),
        Span("step", 900.0, {"step": 1, "calls": 1, "tokens": 30, "prompt_tokens": 200, "evaluated": 120}),
        Span("tool.search", 12.0, {"step": 1, "ok": 1.0}),
        Span("step", 700.0, {"step": 2, "calls": 1, "tokens": 20, "prompt_tokens": 260, "evaluated": 60}),
        Span("tool.calculate", 2000.0, {"step": 2, "ok": 0.0, "late": 1.0}, "The tool took longer than 2 s."),
        Span("tool.calculate", 1.0, {"step": 2, "ok": 0.0}, "The input is not JSON."),
        Span("plan", 300.0, {"tokens": 50, "read": 90, "first_ms": 80.0}),
        Span("write", 5000.0, {}, "StageTimeout"),
        Span("judge", 1500.0, {"read": 170, "calls": 2, "judged": 3, "odds": -1.5}),
        Span("judge", 2.0, {"calls": 0, "judged": 1, "odds": 2.5}),
        Span("reflect", 800.0, {"calls": 1, "tokens": 10, "evaluated": 40, "score": 7}),
    ]
    run.shortfalls += [Shortfall("write", "late"), Shortfall("write", "late again"), Shortfall("dense", "off")]
    meter.record_run(run)

    def counted(name, **labels):
        return meter.instruments.registry.get_sample_value(name, labels)

    assert counted("citegram_tool_calls_total", tool="search", outcome="ok") == 1
    assert counted("citegram_tool_calls_total", tool="calculate", outcome="timeout") == 1
    assert counted("citegram_tool_calls_total", tool="calculate", outcome="failed") == 1
    assert counted("citegram_model_tokens_total", stage="step", kind="written") == 50
    assert counted("citegram_model_tokens_total", stage="step", kind="read") == 180
    assert counted("citegram_model_tokens_total", stage="plan", kind="read") == 90
    assert counted("citegram_model_calls_total", stage="step") == 2
    assert counted("citegram_model_calls_total", stage="plan") == 1
    assert counted("citegram_model_calls_total", stage="judge") == 2  # one judgement was known
    assert counted("citegram_model_tokens_total", stage="judge", kind="read") == 170
    assert counted("citegram_model_calls_total", stage="lookup") is None
    assert counted("citegram_stage_failures_total", stage="write", why="timeout") == 1
    assert counted("citegram_stage_seconds_sum", stage="write") == 5.0
    assert counted("citegram_shortfalls_total", stage="write") == 1  # an answer lacks it once
    assert counted("citegram_question_steps_sum", recipe="react") == 2
    assert counted("citegram_question_rounds_sum", recipe="react") == 1
    assert counted("citegram_reflections_total", outcome="ok") == 1


async def test_two_who_scrape_at_once_count_a_post_once(sandbox, live, home, monkeypatch):
    from rag_core.storage import posts

    real = posts.count_changes_by_source

    async def slowly(*args):
        await asyncio.sleep(0.2)
        return await real(*args)

    port = find_free_port()
    async with live(sections=watching(port)):
        assert get_value(await fetch_metrics(port), "citegram_post_changes_total") == 0
        await sandbox.post(-1001000001, "The second ferry leaves at noon.")
        with closing(sqlite3.connect(home / "citegram.db")) as archive:
            async with asyncio.timeout(30):
                while archive.execute("SELECT count(*) FROM posts").fetchone() != (13,):  # noqa: ASYNC110 - an archive rings no bell
                    await asyncio.sleep(0.02)
        monkeypatch.setattr(posts, "count_changes_by_source", slowly)
        await asyncio.gather(fetch_metrics(port), fetch_metrics(port))
        assert get_value(await fetch_metrics(port), "citegram_post_changes_total") == 1


async def test_the_bot_says_whether_it_lives_and_is_ready(live, monkeypatch):
    port = find_free_port()
    async with live(sections=watching(port)):
        status, text = await fetch_text(port, "healthz")
        assert (status, json.loads(text)) == (200, {"alive": True})
        async with asyncio.timeout(20):
            while (answered := await fetch_text(port, "readyz"))[0] != 200:  # noqa: ASYNC110 - it rings no bell
                await asyncio.sleep(0.02)
        assert json.loads(answered[1]) == {
            "ready": True,
            "checks": {"archive": "ok", "words": "ok", "vectors": "off", "telegram": "ok"},
        }

        async def full(*args):
            raise ArchiveUnavailable("The disk is full: /srv/secret/place.")

        monkeypatch.setattr("rag_core.storage.index_state.check_writable", full)
        monkeypatch.setattr("bot.monitoring._MAX_SILENCE_SECONDS", 0.0)
        status, text = await fetch_text(port, "readyz")
    assert status == 503
    said = json.loads(text)
    assert said["ready"] is False
    assert said["checks"]["archive"] == "cannot be written"
    assert said["checks"]["telegram"].startswith("silent for")
    assert "secret" not in text


async def test_a_bot_that_cannot_reach_telegram_lives_and_is_not_ready(sandbox, home):
    port, stop = find_free_port(), asyncio.Event()
    await sandbox.stop()
    settings = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": home}, **watching(port)}
    running = asyncio.create_task(run_bot(Settings.model_validate(settings), stop=stop))
    async with asyncio.timeout(30):
        while True:
            try:
                status, text = await fetch_text(port, "readyz")
                break
            except OSError:
                await asyncio.sleep(0.02)
    assert (await fetch_text(port, "healthz"))[0] == (await fetch_text(port, "metrics"))[0] == 200
    stop.set()
    await running
    assert status == 503
    assert json.loads(text)["checks"]["telegram"] == "not reached yet"


@pytest.mark.parametrize(
    ("watch", "named"),
    [({"host": "0.0.0.0"}, "MONITORING__PUBLIC=true"), ({"host": "no.such.host", "public": True}, "MONITORING__PORT")],
)
async def test_a_port_that_cannot_be_opened_is_said_in_one_sentence(sandbox, home, watch, named):
    given = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": home}}
    settings = Settings.model_validate({**given, "monitoring": {"port": find_free_port(), **watch}})
    with pytest.raises(SettingsWrong, match=named):
        await run_bot(settings, stop=asyncio.Event())


@pytest.mark.parametrize(("by_webhook", "silence", "said"), [
    (False, 60.0, "ok"), (False, 100.0, "silent for 100 s"),
    (True, 100.0, "ok"), (True, 300.0, "silent for 300 s"), (True, None, "not reached yet"),
])  # fmt: skip
async def test_telegram_may_be_silent_for_longer_where_it_brings_updates(by_webhook, silence, said):
    wire = SimpleNamespace(by_webhook=by_webhook, silence=silence)
    checks = await check_readiness(None, wire)
    assert checks["telegram"] == said


def told(metrics, name):
    """Leg -> value."""
    return {one.labels["leg"]: one.value for metric in metrics for one in metric.samples if one.name == name}


@pytest.fixture
async def store(tmp_path):
    vectors = await open_vector_store(tmp_path / "vectors", model="tiny", dimension=2)
    yield vectors
    await vectors.close()


def desk_of(library, store):
    """The part of a desk that is looked at."""
    rag = replace(library.rag, dense=DenseIndex(find_models("tiny")[0], None, store))
    return SimpleNamespace(rag=rag, archive=rag.archive, indexing=SimpleNamespace(job_log=JobLog(rag.archive)))


async def test_the_lag_and_the_size_of_the_vectors_are_told(library, store):
    monitoring = Monitoring()
    monitoring.context = desk_of(library, store)
    place = PassageRef(PostKey(library.harbour, 3), 0, 0, 58)
    await store.upsert(
        [VectorPoint(place, datetime(2025, 3, 3, tzinfo=UTC), "en", "hash", np.array([1, 0], np.float32))]
    )
    read = await monitoring.read()
    assert told(read, "citegram_index_lag_changes") == {"words": 0, "copies": 10, "vectors": 10}
    assert told(read, "citegram_index_passages")["vectors"] == 1


async def test_vectors_that_do_not_answer_are_no_reason_to_tell_nothing(library, store, monkeypatch):
    async def gone(self):
        raise IndexUnavailable("The Qdrant server at http://secret does not answer.")

    monitoring = Monitoring()
    desk = monitoring.context = desk_of(library, store)
    meter = monitoring.meter
    monkeypatch.setattr(type(store), "count", gone)
    read = await monitoring.read()
    assert meter.instruments.registry.get_sample_value("citegram_scrape_failures_total", {"part": "sizes"}) == 1
    assert told(read, "citegram_index_lag_changes")["vectors"] == 10
    assert told(read, "citegram_index_passages") == {}
    said = await check_readiness(desk, meter.wire)
    assert said["vectors"] == "cannot be searched"
    assert said["archive"] == said["words"] == "ok"
    wanted = replace(library.rag, without=(Shortfall("dense", "There is no model."),))
    desk.rag = wanted
    assert (await check_readiness(desk, meter.wire))["vectors"] == "not opened"
