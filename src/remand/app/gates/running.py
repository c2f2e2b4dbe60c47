"""Running one gate on one tree, and reading what it says."""

from __future__ import annotations

import os
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from remand.app.gates.known import search_path
from remand.app.gates.ports import Ended, Job, Limits, Ran
from remand.app.gates.workshop import Parser, Workshop
from remand.domain.gates.figures import Measurement, TestOutcome, Unreadable
from remand.domain.gates.gate import Gate, GatePolicy
from remand.domain.gates.judge import failing_ids, require_figures
from remand.domain.gates.outages import SAID_LAST
from remand.domain.gates.verdict import GateStatus
from remand.domain.record import Record
from remand.domain.secrets import redacted
from remand.domain.visible import visible

REPORT = "{report}"
CACHE = "{cache}"
_TAIL = 600
_encode = msgspec.json.Encoder(order="deterministic").encode


class Measured(Record, kw_only=True):
    """What came of running a gate: a measurement, or why there is none."""

    found: Measurement | None = None
    status: GateStatus = GateStatus.PASSED
    why: str = ""
    flaky: tuple[str, ...] = ()
    seconds: float = 0.0
    is_known: bool = False
    """It was measured before; nothing was run."""
    is_by_tool: bool = False
    """The command ran to its end, and what it left behind is no report: the code may be why."""


_decode = msgspec.json.Decoder(Measured).decode


class Runner:
    """Runs gates by one policy; what was measured before is not measured again."""

    def __init__(self, workshop: Workshop, policy: GatePolicy) -> None:
        self._workshop = workshop
        self._policy = policy
        self.path = search_path(workshop.root, workshop.path, policy)

    def run(self, gate: Gate, tree: str, prepared: str = "", *, is_fresh: bool = False) -> Measured:
        """Measures a gate on a tree, or takes what was measured on it before, unless it is to be measured afresh."""
        parser = self._workshop.parser(gate.parser)
        if parser is None:
            return Measured(status=GateStatus.ERRORED, why=f"There is no parser `{gate.parser}`.")
        key = self._key(gate, tree, prepared)
        known = None if is_fresh else self._workshop.cache.get(key)
        if known is not None:
            return replace(_decode(known), is_known=True)
        try:
            measured = self._settled(gate, parser, tree, prepared)
        except OSError as fault:
            return Measured(status=GateStatus.ERRORED, why=f"It could not be run: {fault}.")
        if measured.found is not None:
            self._workshop.cache.put(key, _encode(measured))
        return measured

    def _key(self, gate: Gate, tree: str, prepared: str) -> str:
        plain = replace(gate, require={}, paths=(), required=True)
        parts = (
            "measured 1",
            tree,
            plain,
            os.path.basename(prepared),
            self._workshop.tools.digest([gate.command], self.path),
        )
        return sha256(_encode(parts)).hexdigest()

    def _settled(self, gate: Gate, parser: Parser, tree: str, prepared: str) -> Measured:
        """Runs a gate, and again while tests fail and the gate may be run again; what changed is flaky."""
        first = self._once(gate, parser, tree, prepared)
        again, left = first, gate.retries
        while left and again.found is not None and failing_ids(again.found):
            left -= 1
            later = self._once(gate, parser, tree, prepared)
            if later.found is None:
                return later
            again = replace(again, found=_still_failing(again.found, later.found))
        if first.found is None or again.found is None:
            return first
        bad = set(failing_ids(again.found))
        return replace(again, flaky=tuple(name for name in failing_ids(first.found) if name not in bad))

    def _once(self, gate: Gate, parser: Parser, tree: str, prepared: str) -> Measured:
        with self._workshop.checkouts.lend(tree) as folder, self._workshop.reports.folder() as report:
            ended = self._workshop.sandbox.run(self._job(gate, folder, report, prepared))
            ran = Ran(
                status=ended.status,
                output=ended.output,
                errors=ended.errors,
                report=self._workshop.reports.read(os.path.join(report, "report")),
                root=folder,
                is_cut=ended.is_cut,
            )
        if ended.how != "exited" or ended.detail:
            return _ended_badly(ended, gate)
        try:
            found = parser.parse(ran)
            require_figures(found)
            return Measured(found=found, seconds=ended.seconds)
        except Unreadable as why:
            said = f"{why}. {_said(ended)}".strip()
            return Measured(status=GateStatus.ERRORED, why=said, seconds=ended.seconds, is_by_tool=True)

    def _job(self, gate: Gate, folder: str, report: str, prepared: str) -> Job:
        fill = {REPORT: os.path.join(report, "report"), CACHE: prepared}
        return Job(
            command=filled(gate.command, fill),
            folder=folder,
            report=report,
            cache=prepared,
            read=self._policy.read,
            hide=self._workshop.hide,
            path=tuple(filled(self.path, fill)),
            limits=Limits(seconds=gate.timeout),
        )


def filled(words: tuple[str, ...], fill: dict[str, str]) -> tuple[str, ...]:
    """Words with their placeholders filled in."""
    for name, value in fill.items():
        words = tuple(word.replace(name, value) for word in words)
    return words


def _still_failing(found: Measurement, later: Measurement) -> Measurement:
    """A measurement in which only those tests fail that failed both times."""
    bad = set(failing_ids(later)) & set(failing_ids(found))
    counts = {test.id: test.failure_count for test in later.tests}
    tests = tuple(
        replace(test, failure_count=min(test.failure_count, counts[test.id]))
        if test.id in bad
        else test
        if test.outcome not in ("failed", "error")
        else TestOutcome(id=test.id, outcome="passed", seconds=test.seconds)
        for test in found.tests
    )
    figures = {**found.figures, "failures": float(sum(1 for test in tests if test.id in bad))}
    findings = tuple(finding for finding in found.findings if not finding.code or finding.code in bad)
    return replace(found, tests=tests, figures=figures, findings=findings)


def _ended_badly(ended: Ended, gate: Gate) -> Measured:
    if ended.how == "timed_out":
        why = f"It did not end within {gate.timeout:g} s. {_said(ended)}"
        return Measured(status=GateStatus.TIMED_OUT, why=why.strip(), seconds=ended.seconds)
    happened = ended.detail.rstrip(".") or (
        f"it was ended by signal {ended.status}" if ended.how == "signalled" else ""
    )
    why = f"`{gate.command[0]}` could not be run to its end: {happened}. {_said(ended)}"
    return Measured(status=GateStatus.ERRORED, why=why.strip(), seconds=ended.seconds)


def _said(ended: Ended) -> str:
    """The end of what a command said, for people."""
    text = (ended.errors.strip() or ended.output.strip())[-_TAIL:].decode("utf-8", "replace")
    return f"{SAID_LAST} {redacted(visible(text)).strip()}" if text else ""
