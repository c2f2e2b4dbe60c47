"""Gates: verdicts and figures over time, slow gates, flaky tests, and the decisions on integrity findings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from remand.app.analysis.statistics import quantile
from remand.app.errors import RemandError
from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import without_garbage_collection
from remand.app.inbox.held_findings import FINDING_EVENTS, KindReport, count_settlements
from remand.domain.events.event import Event, event_names
from remand.domain.events.work import GateErrored, GateHeld, GatePassed, GateRejected
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.text.redaction import redact
from remand.interfaces.cli.tasks.gates import VERDICT_EVENTS
from remand.interfaces.http.pages.charts import DayChart, bar_width, chart_days, chosen_period, line_points
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.interfaces.http.problems import NOT_FOUND, HttpProblem
from remand.ledger.order import order_key

MAX_VERDICTS = 50
"""The most verdicts on a page."""
MAX_POINTS = 60
"""The most points of a line."""
MAX_FIGURES, MAX_FLAKY = 60, 30
MAX_OUTPUTS = 20
_OUTPUT = re.compile(r"`remand gate report (output-[0-9a-f]+)`")
VerdictEvent = GatePassed | GateRejected | GateHeld | GateErrored
_SERIES = (("passed", "good"), ("rejected", "bad"), ("held", "warn"), ("not measured", "none"))


class VerdictSummary(NamedTuple):
    """One verdict in the list."""

    id: str
    at: Instant
    task_id: str
    title: str
    agent: str
    status: str
    commit: str
    blocking: tuple[str, ...]
    is_observed: bool
    seconds: float


class GateFigure(NamedTuple):
    """One figure of a gate over time."""

    gate: str
    name: str
    values: tuple[float, ...]
    required: str
    points: str
    address: str
    """The URL of the verdict that measured it last."""

    @property
    def last(self) -> float:
        return self.values[-1]


class GateDuration(NamedTuple):
    """The duration of a gate's runs."""

    gate: str
    runs: int
    failed: int
    median: float
    p90: float
    width: float


class FlakyTest(NamedTuple):
    """A test that failed and then passed when rerun."""

    name: str
    gate: str
    times: int
    last: Instant


class GatesView(NamedTuple):
    days: str
    chart: DayChart | None
    rows: tuple[VerdictSummary, ...]
    total: int
    number: int
    """The number of this page of the list."""
    older: str
    newer: str
    figures: tuple[GateFigure, ...]
    durations: tuple[GateDuration, ...]
    flaky: tuple[FlakyTest, ...]
    kinds: tuple[KindReport, ...]


def read_gates(query: PageQuery) -> GatesView:
    """All verdicts, or those of the chosen period."""
    days, since = chosen_period(query)
    with without_garbage_collection(), query.opened.store.read() as view:
        events = [
            event for event in confirmed_events(view, event_names(*FINDING_EVENTS)) if event.ts >= since
        ]
        verdicts = sorted((event for event in events if isinstance(event, VerdictEvent)), key=order_key)
        text = query.address.query.get("page", "")
        number = max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1
        page = verdicts[::-1][(number - 1) * MAX_VERDICTS : number * MAX_VERDICTS]
        tasks = {event.task_id: view.tasks.get(event.task_id) for event in page}
    titles = {name: task.title for name, task in tasks.items() if task is not None}
    is_more = len(verdicts) > number * MAX_VERDICTS
    return GatesView(
        days=days,
        chart=chart_days(_SERIES, _counts_by_day(verdicts)),
        rows=tuple(_verdict_row(event, titles.get(event.task_id, "")) for event in page),
        total=len(verdicts),
        number=number,
        older=query.address.with_values(page=str(number + 1)) if is_more else "",
        newer=query.address.with_values(page=str(number - 1) if number > 2 else "") if number > 1 else "",
        figures=tuple(_figures(verdicts))[:MAX_FIGURES],
        durations=tuple(_durations(verdicts)),
        flaky=tuple(_flaky_tests(verdicts))[:MAX_FLAKY],
        kinds=tuple(count_settlements(events)),
    )


def _counts_by_day(events: Iterable[VerdictEvent]) -> Mapping[str, list[int]]:
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(_SERIES))
    for event in events:
        counts[event.ts[:10]][VERDICT_EVENTS.index(type(event))] += 1
    return counts


def _verdict_row(event: VerdictEvent, title: str) -> VerdictSummary:
    verdict = event.verdict
    return VerdictSummary(
        id=event.meta.id,
        at=event.ts,
        task_id=event.task_id,
        title=title,
        agent=event.agent,
        status=verdict.status.value,
        commit=verdict.commit,
        blocking=verdict.blocking_gates,
        is_observed=isinstance(event, GatePassed) and event.is_observed,
        seconds=sum(gate.seconds for gate in verdict.gates if not gate.is_known),
    )


def _figures(events: Iterable[VerdictEvent]) -> Iterator[GateFigure]:
    """Each measured figure by gate."""
    found: defaultdict[tuple[str, str], list[tuple[float, str, str]]] = defaultdict(list)
    for event in events:
        for gate in event.verdict.gates:
            for name, value in gate.measured.items():
                found[gate.name, name].append((value, required_text(gate, name), event.meta.id))
    for (gate_name, name), known in sorted(found.items()):
        values = tuple(value for value, _, _ in known[-MAX_POINTS:])
        _, required, last = known[-1]
        yield GateFigure(gate_name, name, values, required, line_points(values), f"/gates/{last}")


def required_text(gate: GateResult, name: str) -> str:
    """The requirement of a gate on a figure; empty if there is none."""
    signs = (("max", "≤"), ("min", "≥"))
    found = [
        f"{sign} {gate.required[f'{end}_{name}']:g}"
        for end, sign in signs
        if f"{end}_{name}" in gate.required
    ]
    return ", ".join(found)


def _durations(events: Iterable[VerdictEvent]) -> Iterator[GateDuration]:
    """The duration of each gate, slowest first."""
    runs: defaultdict[str, list[GateResult]] = defaultdict(list)
    for event in events:
        for gate in event.verdict.gates:
            if not gate.is_known and gate.seconds:
                runs[gate.name].append(gate)
    durations = []
    for name, results in runs.items():
        seconds = [result.seconds for result in results]
        failed = sum(result.status is GateStatus.FAILED for result in results)
        median, p90 = (quantile(seconds, at).value or 0.0 for at in (0.5, 0.9))
        durations.append(GateDuration(name, len(results), failed, median, p90, 0.0))
    durations.sort(key=lambda one: (-one.median, one.gate))
    for duration in durations:
        yield duration._replace(width=bar_width(duration.median, durations[0].median))


def _flaky_tests(events: Iterable[VerdictEvent]) -> Iterator[FlakyTest]:
    """Flaky tests, most frequent first."""
    times: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], Instant] = {}
    for event in events:
        for gate in event.verdict.gates:
            names = [(gate.name, test) for test in gate.flaky if not gate.is_known]
            times.update(names)
            last |= dict.fromkeys(names, event.ts)
    for (gate_name, test), count in sorted(times.items(), key=lambda item: (-item[1], item[0])):
        yield FlakyTest(test, gate_name, count, last[gate_name, test])


# ------------------------------------------------------------------------------------------------ a verdict


class FigureRow(NamedTuple):
    """One figure of a gate in a verdict."""

    name: str
    measured: float
    required: str
    base: float | None


class VerdictView(NamedTuple):
    row: VerdictSummary
    verdict: Verdict
    figures: tuple[tuple[FigureRow, ...], ...]
    """The figures of each gate."""
    report: str
    """The full report; empty if it is not on this machine."""
    missing: str
    """Why the report is missing."""
    outputs: tuple[tuple[str, str], ...]
    """The output of the gates' commands by file name."""


def read_verdict(query: PageQuery) -> VerdictView:
    """One verdict in full."""
    event = _find_verdict(query)
    with query.opened.store.read() as view:
        task = view.tasks.get(event.task_id)
    report, missing = _read_report(query, event.verdict)
    figures = tuple(
        tuple(
            FigureRow(name, value, required_text(gate, name), gate.base.get(name))
            for name, value in gate.measured.items()
        )
        for gate in event.verdict.gates
    )
    row = _verdict_row(event, task.title if task else "")
    return VerdictView(row, event.verdict, figures, report, missing, tuple(_outputs(query, report)))


def read_report(query: PageQuery) -> str:
    """The full output as text, of any length."""
    report, missing = _read_report(query, _find_verdict(query).verdict)
    if missing:
        raise HttpProblem(NOT_FOUND, "not_found", missing)
    return redact("\n\n".join([report, *(f"# {name}\n\n{text}" for name, text in _outputs(query, report))]))


def _find_verdict(query: PageQuery) -> VerdictEvent:
    """The verdict named in the address. Raises `HttpProblem` if there is none."""
    name = query.address.names["verdict"]
    with without_garbage_collection(), query.opened.store.read() as view:
        events: Iterator[Event] = confirmed_events(view, event_names(*VERDICT_EVENTS))
        found = next((event for event in events if event.meta.id == name), None)
    if not isinstance(found, VerdictEvent):
        raise HttpProblem(NOT_FOUND, "not_found", "There is no such verdict.")
    return found


def _read_report(query: PageQuery, verdict: Verdict) -> tuple[str, str]:
    """The full report of a verdict, or why it is missing."""
    if not verdict.report_name:
        return "", "This verdict has no report: nothing was run for it, or its gates could not be started."
    return _read_stored_text(query, verdict.report_name)


def _outputs(query: PageQuery, report: str) -> Iterator[tuple[str, str]]:
    """The outputs named in a report that still exist."""
    for name in list(dict.fromkeys(_OUTPUT.findall(report)))[:MAX_OUTPUTS]:
        text, missing = _read_stored_text(query, name)
        yield name, text or missing


def _read_stored_text(query: PageQuery, name: str) -> tuple[str, str]:
    """A report or output by name, or why it is missing."""
    try:
        return query.ask("gate report", name=name)["report"], ""
    except HttpProblem as problem:
        return "", problem.detail
    except RemandError as error:
        return "", str(error)


PAGES = (
    WebPage(
        "/gates",
        "gates.html",
        "Gates",
        "gate history",
        read_gates,
        nav="Gates",
        key="t",
        is_long=True,
        is_live=False,
    ),
    WebPage(
        "/gates/{verdict:str}",
        "verdict.html",
        "Verdict",
        "gate report",
        read_verdict,
        is_long=True,
        is_live=False,
        is_lasting=True,
    ),
    WebPage("/gates/{verdict:str}/report.txt", "", "Report", "gate report", read_report, is_live=False),
)
