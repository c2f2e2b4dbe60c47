"""What the server counts of its requests, for Prometheus: names after OpenTelemetry's conventions, no value of any request."""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from h11 import LocalProtocolError
from litestar.types import ASGIApp, Receive, Send

from remand.interfaces.http.traces import RequestTracer

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The upper bounds of the histogram's buckets in seconds, as OpenTelemetry advises for requests."""
OTHER = "_OTHER"
"""The route of requests that no route takes, and the method of those that HTTP does not know: others choose these names."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_Labels = tuple[str, str, int]


class Metrics:
    """The figures so far. Only the server's event loop writes them."""

    def __init__(self) -> None:
        self._buckets: dict[_Labels, list[int]] = {}
        self._seconds: Counter[_Labels] = Counter()
        self.refusals: Counter[str] = Counter()
        """How often each refusal was given."""
        self.active = 0
        self._begun = time.monotonic()

    def note(self, labels: _Labels, seconds: float) -> None:
        """Counts a request that was answered: its method, route and status, and how long it took."""
        counts = self._buckets.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds[labels] += seconds  # type: ignore[assignment] # a counter of seconds

    def text(self, waiting: int) -> str:
        """The figures as Prometheus reads them; `waiting` is how many commands run or wait for a thread."""
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
        rows += _show("remand_commands_active", "gauge", "Commands that run, or wait for a thread.", waiting)
        named = "remand_refusals_total"
        rows += [f"# HELP {named} Commands that were refused, by code.", f"# TYPE {named} counter"]
        rows += [f'{named}{{code="{code}"}} {count}' for code, count in sorted(self.refusals.items())]
        return "\n".join([*rows, *self._process_rows(), ""])

    def _process_rows(self) -> Iterable[str]:
        spent = resource.getrusage(resource.RUSAGE_SELF)
        seconds = spent.ru_utime + spent.ru_stime
        uptime = time.monotonic() - self._begun
        return [
            *_show("process_cpu_time_seconds_total", "counter", "Processor time that was used.", seconds),
            *_show("process_memory_usage_bytes", "gauge", "Memory that is in use.", _resident_bytes()),
            *_show("process_uptime_seconds", "gauge", "How long the server runs.", uptime),
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
        return 0  # only Linux says so


class RequestObserver:
    """An application that counts the requests of another, and has them traced where that is wanted."""

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
            # Raised when the body turned out to be no HTTP meanwhile: that was answered already, and is over.
            with suppress(LocalProtocolError):
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
