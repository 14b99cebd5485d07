from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from driver import OTTO
from local_server import LocalServer, find_free_port
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import StatusCode
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bot.monitoring import RunSpanExporter
from bot.settings import read_settings
from rag_core.run import Budgets, Run, Span

FERRY = "When does the ferry to Owl Island leave?"


def test_a_run_is_a_span_with_one_in_it_for_each_stage() -> None:
    kept = InMemorySpanExporter()
    spans, run = RunSpanExporter(SimpleSpanProcessor(kept)), Run(Budgets(), "agent")
    run.spans += [
        Span("plan", 100.0, {"tokens": 12}, ended=1_000.5),
        Span("write", 2000.0, {}, "StageTimeout", ended=1_003.0),
    ]
    spans.export_run(run)
    spans.export_run(Run(Budgets(), "direct"))  # nothing was done: nothing is told
    plan, write, whole = kept.get_finished_spans()
    assert [one.name for one in (plan, write, whole)] == ["plan", "write", "agent"]
    assert whole.attributes == {"citegram.recipe": "agent", "citegram.request": run.trace_id}
    assert plan.attributes == {"citegram.tokens": 12}
    assert plan.parent is not None
    assert whole.context is not None
    assert plan.parent.span_id == whole.context.span_id
    assert (plan.start_time, plan.end_time) == (1_000_400_000_000, 1_000_500_000_000)
    assert (whole.start_time, whole.end_time) == (1_000_400_000_000, 1_003_000_000_000)
    assert (write.status.status_code, write.status.description) == (StatusCode.ERROR, "StageTimeout")
    assert plan.status.status_code is StatusCode.UNSET
    spans.close()


@pytest.fixture
async def collector() -> AsyncIterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector of our own: its address, and what it is sent."""
    sent: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        sent.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(content_type="application/x-protobuf")

    async with LocalServer(web.post("/v1/traces", take)) as server:
        yield server.url, sent


async def test_a_running_bot_sends_its_stages_and_no_text(
    live: Any, ask: Any, collector: tuple[str, list[ExportTraceServiceRequest]]
) -> None:
    address, sent = collector
    async with live(sections={"monitoring": {"collector": address}}):
        await ask(OTTO, FERRY)
    spans = [one for each in sent for part in each.resource_spans for scope in part.scope_spans for one in scope.spans]
    assert {"direct", "plan", "lexical", "extract", "cite"} <= {one.name for one in spans}
    (whole,) = [one for one in spans if not one.parent_span_id]
    assert all(one.trace_id == whole.trace_id for one in spans)
    assert all(
        whole.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano <= whole.end_time_unix_nano
        for one in spans
    )
    assert "ferry" not in str(sent).lower()


async def test_a_collector_that_is_gone_keeps_nobody_from_an_answer(live: Any, ask: Any) -> None:
    async with live(sections={"monitoring": {"collector": f"http://127.0.0.1:{find_free_port()}"}}):
        assert "7:30" in (await ask(OTTO, FERRY))["text"]


async def test_without_opentelemetry_that_is_said_once_and_questions_are_answered(
    live: Any, ask: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    async with live(sections={"monitoring": {"collector": "http://127.0.0.1:1"}}):
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
    assert sum("citegram[otel]" in line for line in caplog.messages) == 1


def test_the_collector_of_other_tools_is_used_where_ours_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert read_settings(None).monitoring.collector == "http://127.0.0.1:4318"
    monkeypatch.setenv("MONITORING__COLLECTOR", "http://127.0.0.1:9999")
    assert read_settings(None).monitoring.collector == "http://127.0.0.1:9999"
