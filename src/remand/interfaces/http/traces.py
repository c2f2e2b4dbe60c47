"""Traces of requests for OpenTelemetry: sent only where the environment names a collector, and with nothing of their content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remand.app.errors import EnvironmentFault
from remand.startup import VERSION

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Where the collector is, by the names that OpenTelemetry's own programs read."""
SERVER_ERROR = 500


class RequestSpan:
    """A request that is being traced."""

    def __init__(self, span: Any, failed: Any) -> None:
        self._span = span
        self._failed = failed

    def end(self, method: str, route: str, status: int) -> None:
        """Says what the request was, and how it ended."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            self._span.set_status(self._failed)
        self._span.end()


class RequestTracer:
    """Makes a span of each request, below the one that its caller names in the header `traceparent`."""

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise EnvironmentFault(
                f"Traces need packages that are not installed ({error.name}). Install remand[otel], "
                f"or take {' and '.join(ENDPOINTS)} out of the environment."
            ) from None
        self._extract = propagate.extract
        self._kind = trace.SpanKind.SERVER
        self._failed = trace.StatusCode.ERROR
        resource = Resource.create({"service.name": "remand", "service.version": VERSION})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("remand.http", VERSION)

    def begin(self, scope: Any) -> RequestSpan:
        """The span of a request that has come in."""
        wanted = (b"traceparent", b"tracestate")
        headers = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in wanted
        }
        span = self._tracer.start_span("request", self._extract(headers), kind=self._kind)
        return RequestSpan(span, self._failed)

    def close(self) -> None:
        """Sends what is still waiting."""
        self._provider.shutdown()


def make_tracer(environment: Mapping[str, str]) -> RequestTracer | None:
    """What traces requests; None where the environment names no collector."""
    return RequestTracer() if any(environment.get(name) for name in ENDPOINTS) else None
