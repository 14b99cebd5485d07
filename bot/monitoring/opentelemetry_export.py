"""OpenTelemetry export: the stages of a run as spans, sent to a collector (OTLP over HTTP).

Imported only where a collector is configured: the extra `otel` installs what it needs. A run is reported after it has
ended, so its spans are created afterwards, with their original times.
"""

from __future__ import annotations

from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from rag_core.run import Run, Span

_NANOSECONDS_PER_SECOND = 1_000_000_000


class RunSpanExporter:
    """Export finished runs to a span processor. `close` flushes it; blocking."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create({"service.name": "citegram", "service.version": version("citegram")})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("citegram")

    def export_run(self, run: Run) -> None:
        """Create one span for the run and a child span for each stage: names, times, counts, error classes."""
        if not run.spans:
            return
        began, ended = min(map(_compute_start_time, run.spans)), max(span.ended for span in run.spans)
        about = {"citegram.recipe": run.recipe, "citegram.request": run.trace_id}
        whole = self._tracer.start_span(run.recipe, start_time=int(began * _NANOSECONDS_PER_SECOND), attributes=about)
        inside = set_span_in_context(whole)
        for span in run.spans:
            counts = {f"citegram.{name}": value for name, value in span.counts.items()}
            started = int(_compute_start_time(span) * _NANOSECONDS_PER_SECOND)
            part = self._tracer.start_span(span.stage, inside, start_time=started, attributes=counts)
            if span.error:
                part.set_status(Status(StatusCode.ERROR, span.error))
            part.end(int(span.ended * _NANOSECONDS_PER_SECOND))
        whole.end(int(ended * _NANOSECONDS_PER_SECOND))

    def close(self) -> None:
        """Flush and shut down."""
        self._provider.shutdown()


def _compute_start_time(span: Span) -> float:
    return span.ended - span.took_ms / 1000


def open_span_exporter(address: str) -> RunSpanExporter:
    """Open an exporter to the collector at this address, by OTLP over HTTP, in the background."""
    exporter = OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces", timeout=5.0)
    return RunSpanExporter(BatchSpanProcessor(exporter))
