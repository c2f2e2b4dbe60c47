"""Request metrics for Prometheus and traces for OpenTelemetry, without any request content."""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from litestar.types import ASGIApp, Receive, Send

from remand.app.errors import EnvironmentFault
from remand.startup import VERSION

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The upper bounds of the histogram's buckets in seconds, as OpenTelemetry recommends."""
OTHER = "_OTHER"
"""The label for unmatched routes and unknown methods, whose names clients choose."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_Labels = tuple[str, str, int]


class Metrics:
    """The metrics so far. Only the server's event loop writes them."""

    def __init__(self) -> None:
        self._buckets: dict[_Labels, list[int]] = {}
        self._seconds: Counter[_Labels] = Counter()
        self.refusals: Counter[str] = Counter()
        """The number of times each refusal was given."""
        self.active = 0
        self._begun = time.monotonic()

    def note(self, labels: _Labels, seconds: float) -> None:
        """Counts an answered request by method, route and status, with its duration."""
        counts = self._buckets.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds[labels] += seconds  # type: ignore[assignment] # a counter of seconds

    def text(self, waiting: int) -> str:
        """The metrics in Prometheus's format; `waiting` is the number of commands running or waiting for a thread."""
        name = "http_server_request_duration_seconds"
        rows = [f"# HELP {name} How long requests took.", f"# TYPE {name} histogram"]
        for labels, counts in self._buckets.items():
            shown = _show_labels(labels)
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), counts, strict=True):
                total += count
                rows.append(f'{name}_bucket{{{shown},le="{bound}"}} {total}')
            rows += [f"{name}_sum{{{shown}}} {self._seconds[labels]}", f"{name}_count{{{shown}}} {total}"]
        rows += _show(
            "http_server_active_requests", "gauge", "Requests that are being answered.", self.active
        )
        rows += _show(
            "remand_commands_active", "gauge", "Commands that are running, or waiting for a thread.", waiting
        )
        named = "remand_refusals_total"
        rows += [f"# HELP {named} Commands that were refused, by code.", f"# TYPE {named} counter"]
        rows += [f'{named}{{code="{code}"}} {count}' for code, count in sorted(self.refusals.items())]
        return "\n".join([*rows, *self._process_rows(), ""])

    def _process_rows(self) -> Iterable[str]:
        spent = resource.getrusage(resource.RUSAGE_SELF)
        seconds = spent.ru_utime + spent.ru_stime
        uptime = time.monotonic() - self._begun
        return [
            *_show("process_cpu_time_seconds_total", "counter", "CPU time used.", seconds),
            *_show("process_memory_usage_bytes", "gauge", "Memory in use.", _resident_bytes()),
            *_show("process_uptime_seconds", "gauge", "How long the server has been running.", uptime),
        ]


def _show_labels(labels: _Labels) -> str:
    method, route, status = labels
    return f'http_request_method="{method}",http_route="{route}",http_response_status_code="{status}"'


def _show(name: str, kind: str, about: str, value: float) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value}"]


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0  # only available on Linux


class RequestObserver:
    """Wraps an application to count its requests and, if enabled, to trace them."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracer: RequestTracer | None) -> None:
        self._app = app
        self._metrics = metrics
        self._tracer = tracer

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def send_and_note(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        metrics, begun = self._metrics, time.perf_counter()
        metrics.active += 1
        span = self._tracer.begin(scope) if self._tracer else None
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            metrics.active -= 1
            method = scope["method"] if scope["method"] in _METHODS else OTHER
            route = str(scope.get("path_template") or OTHER)
            metrics.note((method, route, status), time.perf_counter() - begun)
            if span is not None:
                span.end(method, route, status)


ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables that name the collector, as in OpenTelemetry's own tools."""
SERVER_ERROR = 500


class RequestSpan:
    """A request that is being traced."""

    def __init__(self, span: Any, failed: Any) -> None:
        self._span = span
        self._failed = failed

    def end(self, method: str, route: str, status: int) -> None:
        """Records what the request was and how it ended."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            self._span.set_status(self._failed)
        self._span.end()


class RequestTracer:
    """Creates a span per request, as a child of the one in the `traceparent` header."""

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
        """Starts the span of an incoming request."""
        wanted = (b"traceparent", b"tracestate")
        headers = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in wanted
        }
        span = self._tracer.start_span("request", self._extract(headers), kind=self._kind)
        return RequestSpan(span, self._failed)

    def close(self) -> None:
        """Sends the remaining spans."""
        self._provider.shutdown()


def make_tracer(environment: Mapping[str, str]) -> RequestTracer | None:
    """The tracer; None if the environment names no collector."""
    return RequestTracer() if any(environment.get(name) for name in ENDPOINTS) else None
