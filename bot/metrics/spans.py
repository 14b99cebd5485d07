"""Stages as OpenTelemetry spans, sent to a collector. Loaded only where one is named: the extra `otel` brings it.

A run is told when it has ended, so its spans are made afterwards, with the times at which they were.
"""

from __future__ import annotations

from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from rag_core.stage import Run, Span

__all__ = ["Spans", "to_collector"]

_PATIENCE_S = 5.0  # with a collector that does not answer
_NS = 1_000_000_000


class Spans:
    """Gives finished runs to a processor. `close` sends what waits; blocking."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create({"service.name": "citegram", "service.version": version("citegram")})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("citegram")

    def traced(self, run: Run) -> None:
        """One span for the run, and one in it for each stage: names, times, figures, classes of errors."""
        if not run.spans:
            return
        began, ended = min(map(_began, run.spans)), max(span.ended for span in run.spans)
        about = {"citegram.recipe": run.recipe, "citegram.request": run.trace_id}
        whole = self._tracer.start_span(run.recipe, start_time=int(began * _NS), attributes=about)
        inside = set_span_in_context(whole)
        for span in run.spans:
            counts = {f"citegram.{name}": value for name, value in span.counts.items()}
            part = self._tracer.start_span(span.stage, inside, start_time=int(_began(span) * _NS), attributes=counts)
            if span.error:
                part.set_status(Status(StatusCode.ERROR, span.error))
            part.end(int(span.ended * _NS))
        whole.end(int(ended * _NS))

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()


def _began(span: Span) -> float:
    """When a stage began, in Unix seconds."""
    return span.ended - span.took_ms / 1000


def to_collector(address: str) -> Spans:
    """Spans for the collector at this address, by OTLP over HTTP, in the background."""
    exporter = OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces", timeout=_PATIENCE_S)
    return Spans(BatchSpanProcessor(exporter))
