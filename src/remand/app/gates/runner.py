"""Runs commands on trees in the sandbox: dependencies prepared, a gate run and its report read, evidence reproduced."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from remand.app.gates.known_results import search_path
from remand.app.gates.ports import (
    MIB,
    Checkouts,
    GateEnvironment,
    Job,
    JobLimits,
    JobResult,
    Mirror,
    ReportParser,
    Reports,
    Sandbox,
    ToolOutput,
    watch_nothing,
)
from remand.app.ports import CommandOutcome
from remand.domain.gate.gate import (
    Gate,
    GatePolicy,
    Irregularity,
    Measurement,
    RunCheck,
    TestOutcome,
    UnreadableReport,
)
from remand.domain.gate.judge import (
    failing_ids,
    is_uncollected,
    judge_gate,
    make_broken_result,
    make_unmeasured_result,
    needs_base,
    require_figures,
)
from remand.domain.gate.state import SAID_LAST
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.record import Record
from remand.domain.text.redaction import redact
from remand.domain.text.words import remove_invisible
from remand.integrity.result_records import compare_with_records

REPORT = "{report}"
CACHE = "{cache}"
CHECKOUT_VARIABLE = "REMAND_CHECKOUT"
"""The variable that tells a prepared environment where the checked-out code is."""
GENERATED = "generated"
"""Files that a prepare step leaves here are copied into the checkout, unless it has files of these names."""
_COPY_GENERATED = 'cp -Rn "$0/." . 2>/dev/null; exec "$@"'
MAX_KEPT_OUTPUT = 2 * MIB
_CAUSE_ROWS = 3
_CAUSE_ROW = 240
_CAUSE = re.compile(
    r"\berror\b|\berr!|\bfatal\b|\bfailed\b|\bfailure\b|exception|not found|no such|no module|cannot|could not|unable to"
    r"|denied|read-only|unknownissuer|certificate|\be[a-z]+error\b|\be(?:noent|rofs|acces|target)\b|caused by|panicked",
    re.IGNORECASE,
)
_NO_CAUSE = re.compile(
    r"npm (?:notice|warn)|npm (?:err!|error) a complete log|\[notice\]|note: this error originates|traceback \(most recent"
    r"|\s*(?:╰─>|\[end of output\])|hint: see above",
    re.IGNORECASE,
)
"""Lines that sound like a cause and are none."""
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_encode = msgspec.json.Encoder(order="deterministic").encode


class GateMeasurement(Record, kw_only=True):
    """The outcome of running a gate: a measurement, or why there is none."""

    found: Measurement | None = None
    status: GateStatus = GateStatus.PASSED
    why: str = ""
    flaky: tuple[str, ...] = ()
    seconds: float = 0.0
    is_known: bool = False
    """True if it was measured before, and nothing ran now."""
    is_by_tool: bool = False
    """True if the command ended without a usable report; the code may be the cause."""
    output: str = ""
    """The name of the stored output on this machine; empty if it is not stored."""


_decode = msgspec.json.Decoder(GateMeasurement).decode


class GateRunner:
    """Runs the gates of one policy; reuses earlier measurements."""

    def __init__(self, environment: GateEnvironment, policy: GatePolicy) -> None:
        self._environment = environment
        self._policy = policy
        self._is_watching = policy.integrity and bool(
            {RunCheck.RESULTS, RunCheck.ASSERTIONS} & {*policy.runs}
        )
        self.path = search_path(environment.root, environment.path, policy)

    def run(
        self, gate: Gate, tree: str, prepared: str = "", *, is_fresh: bool = False, files: Sequence[str] = ()
    ) -> GateMeasurement:
        """Measures a gate on a tree. Reuses an earlier measurement unless a fresh one is asked for.

        Of named files of tests the others are left out, where the gate's runner can do that.
        """
        parser = self._environment.parser(gate.parser)
        if parser is None:
            return GateMeasurement(status=GateStatus.ERRORED, why=f"There is no parser `{gate.parser}`.")
        key = self._key(gate, tree, prepared, files)
        known = None if is_fresh else self._environment.cache.get(key)
        if known is not None:
            return replace(_decode(known), is_known=True)
        self._environment.progress(gate.name, "run")
        begun = time.monotonic()
        try:
            measured = self._run_with_retries(gate, parser, tree, prepared, files)
        except OSError as fault:
            return GateMeasurement(status=GateStatus.ERRORED, why=f"It failed to run: {fault}.")
        finally:
            self._environment.progress(gate.name, "run", time.monotonic() - begun)
        if measured.found is not None:
            self._environment.cache.put(key, _encode(measured))
        return measured

    def _key(self, gate: Gate, tree: str, prepared: str, files: Sequence[str]) -> str:
        plain = (gate.command, gate.parser, gate.timeout, gate.retries, *files)
        parts = (
            "measured 6",
            tree,
            plain,
            os.path.basename(prepared),
            self._environment.tools.digest([gate.command], self.path),
        )
        return sha256(_encode(parts)).hexdigest()

    def _run_with_retries(
        self, gate: Gate, parser: ReportParser, tree: str, prepared: str, files: Sequence[str]
    ) -> GateMeasurement:
        """Runs a gate, and repeats it while tests fail and retries are left; tests with different results are flaky."""
        first = self._run_once(gate, parser, tree, prepared, files)
        again, left = first, gate.retries
        while left and again.found is not None and failing_ids(again.found):
            left -= 1
            later = self._run_once(gate, parser, tree, prepared, files)
            if later.found is None:
                return later
            again = replace(again, found=_still_failing(again.found, later.found))
        if first.found is None or again.found is None:
            return first
        bad = set(failing_ids(again.found))
        return replace(again, flaky=tuple(name for name in failing_ids(first.found) if name not in bad))

    def _run_once(
        self,
        gate: Gate,
        parser: ReportParser,
        tree: str,
        prepared: str,
        files: Sequence[str] = (),
        *,
        is_watched: bool = True,
    ) -> GateMeasurement:
        is_watched = is_watched and self._is_watching
        watch_results = self._environment.watch_results if is_watched else watch_nothing
        with (
            self._environment.checkouts.lend(tree) as folder,
            self._environment.reports.folder() as report,
            watch_results(gate.command, report, files) as watch,
        ):
            command = watch.command if watch is not None else gate.command
            job = self.make_job(replace(gate, command=command), folder, report, prepared)
            if watch is not None:
                job = replace(job, environment={**job.environment, **watch.environment})
            ended = self._environment.sandbox.run(job)
            records = watch.records() if watch is not None else ()
            ran = ToolOutput(
                status=ended.status,
                output=ended.output,
                errors=ended.errors,
                report=self._environment.reports.read(os.path.join(report, "report")),
                root=folder,
                is_cut=ended.is_cut,
            )
        if watch is not None and not records and ended.how == "exited":
            # The runner took no plugin of ours: what it says without one is what counts.
            return self._run_once(gate, parser, tree, prepared, is_watched=False)
        kept = keep_output(self._environment.reports, gate.name, ended, ran.report)
        if ended.how != "exited" or ended.detail:
            return replace(_failed_measurement(ended, gate, kept), output=kept)
        try:
            found = parser.parse(ran)
            require_figures(found)
            found = compare_with_records(
                found, records, ended.status, folder, self._file_reader(tree, folder)
            )
            return GateMeasurement(found=found, seconds=ended.seconds, output=kept)
        except UnreadableReport as why:
            if records:
                return self._run_without_plugin(gate, parser, tree, prepared)
            said = f"{why}. {render_output(ended, kept)}".strip()
            return GateMeasurement(
                status=GateStatus.ERRORED, why=said, seconds=ended.seconds, is_by_tool=True, output=kept
            )

    def _file_reader(self, tree: str, folder: str) -> Callable[[str], bytes | None]:
        """Reads files of a checkout before anything runs there."""
        return lambda path: self._environment.mirror.file(tree, os.path.relpath(path, folder))

    def _run_without_plugin(
        self, gate: Gate, parser: ReportParser, tree: str, prepared: str
    ) -> GateMeasurement:
        """Repeats a run that left no report with our plugin, without the plugin; the run on the base shows whether the plugin is at fault."""
        plain = self._run_once(gate, parser, tree, prepared, is_watched=False)
        if plain.found is None:
            return plain
        text = "the run writes a report only when its results are not streamed"
        wrong = Irregularity(code="harness_tampered", text=text)
        return replace(plain, found=replace(plain.found, irregularities=(wrong,)))

    def make_job(self, gate: Gate, folder: str, report: str, prepared: str) -> Job:
        fill = {REPORT: os.path.join(report, "report"), CACHE: prepared}
        command = fill_placeholders(gate.command, fill)
        generated = os.path.join(prepared, GENERATED) if prepared else ""
        programs = os.path.join(prepared, "venv", "bin") if prepared else ""
        if generated and os.path.isdir(generated):
            # By the sandbox's own hand: a link in the checkout could lead a copy of ours anywhere.
            command = ("/bin/sh", "-c", _COPY_GENERATED, generated, *command)
        return Job(
            command=command,
            environment={CHECKOUT_VARIABLE: folder} if prepared else {},
            folder=folder,
            report=report,
            cache=prepared,
            read=self._policy.read,
            hide=self._environment.hide,
            # Tests call programs of the environment by name, too.
            path=(*filter(os.path.isdir, [programs]), *fill_placeholders(self.path, fill)),
            limits=JobLimits(seconds=gate.timeout),
        )


def fill_placeholders(words: tuple[str, ...], fill: dict[str, str]) -> tuple[str, ...]:
    """A command with its placeholders filled in."""
    for name, value in fill.items():
        words = tuple(word.replace(name, value) for word in words)
    return words


def _still_failing(found: Measurement, later: Measurement) -> Measurement:
    """A measurement in which only the tests fail that failed both times."""
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


def _failed_measurement(ended: JobResult, gate: Gate, kept: str) -> GateMeasurement:
    if ended.how == "timed_out":
        why = f"It did not end within {gate.timeout:g} s. {render_output(ended, kept)}"
        return GateMeasurement(status=GateStatus.TIMED_OUT, why=why.strip(), seconds=ended.seconds)
    happened = ended.detail.rstrip(".") or (
        f"it was ended by signal {ended.status}" if ended.how == "signalled" else ""
    )
    why = f"`{gate.command[0]}` failed to run: {happened}. {render_output(ended, kept)}"
    return GateMeasurement(status=GateStatus.ERRORED, why=why.strip(), seconds=ended.seconds)


def keep_output(reports: Reports, name: str, ended: JobResult, report: bytes | None = None) -> str:
    """Stores the whole output of a command, and its report, for `remand gate report`; returns its name."""
    parts = [("standard error", ended.errors), ("standard output", ended.output), ("report", report or b"")]
    texts = [(title, _plain_output(_cut_middle(content))) for title, content in parts if content.strip()]
    if not texts:
        return ""
    head = f"# Output of {name}: {ended.how} {ended.status} after {ended.seconds:.1f} s"
    content = "\n".join([head, *(f"\n## {title}\n\n{text}" for title, text in texts), ""])
    return reports.write(f"output-{sha256(content.encode()).hexdigest()[:12]}", content)


def _cut_middle(content: bytes) -> bytes:
    head, tail = content[: MAX_KEPT_OUTPUT // 4], content[-MAX_KEPT_OUTPUT:]
    return content if len(content) <= MAX_KEPT_OUTPUT else head + b"\n[cut]\n" + tail


def _plain_output(content: bytes) -> str:
    return redact(remove_invisible(_ESCAPES.sub("", content.decode("utf-8", "replace")))).strip()


def render_output(ended: JobResult, kept: str) -> str:
    """The part of a command's output that names the cause, for people, and where the whole output is."""
    said = find_cause(ended.errors) or find_cause(ended.output)
    whole = f"Whole output: `remand gate report {kept}`." if kept else ""
    return f"{whole} {SAID_LAST} {said}".strip() if said else whole


def find_cause(content: bytes) -> str:
    """The lines of an output that name the cause: the first and the last that mention a fault, else its end."""
    text = _plain_output(content[-MAX_KEPT_OUTPUT:])
    rows = [row for row in map(str.strip, text.splitlines()) if row and not _NO_CAUSE.search(row)]
    telling = list(dict.fromkeys(row for row in rows if _CAUSE.search(row)))
    chosen = telling if len(telling) <= _CAUSE_ROWS else [telling[0], *telling[-_CAUSE_ROWS + 1 :]]
    return "\n".join(row[:_CAUSE_ROW] for row in chosen or rows[-_CAUSE_ROWS:])


class GateRun:
    """One run of all gates, in which each gate is measured once on each tree."""

    def __init__(self, runner: GateRunner, base_tree: str) -> None:
        self.found: dict[str, Measurement] = {}
        self.outputs: dict[str, str] = {}
        """The names of the stored outputs of the gates' commands on the head."""
        self.prepared: dict[str, str] = {}
        self._runner = runner
        self._base_tree = base_tree

    def measure(
        self, gate: Gate, tree: str, *, is_fresh: bool = False, files: Sequence[str] = ()
    ) -> GateMeasurement:
        """A gate's measurement on a tree, or of some test files in it. If `is_fresh`, earlier measurements are not used."""
        prepared = self.prepared.get(gate.name, "")
        if prepared.startswith("!"):
            return GateMeasurement(status=GateStatus.ERRORED, why=prepared[1:])
        return self._runner.run(gate, tree, prepared, is_fresh=is_fresh, files=files)

    def _measure_base(self, gate: Gate) -> GateMeasurement:
        return self.measure(gate, self._base_tree)

    def _runs_on_base(self, gate: Gate) -> bool:
        """True if the base can be measured now: its tool may have been removed since the last time."""
        base = self._measure_base(gate) if self._base_tree else GateMeasurement()
        if base.found is not None and base.is_known:
            base = self.measure(gate, self._base_tree, is_fresh=True)
        return base.found is not None

    def judge_gate(self, gate: Gate, found: Future[GateMeasurement]) -> GateResult:
        """A gate's result; the base is measured only if the result depends on it."""
        measured = found.result()
        self.outputs[gate.name] = measured.output
        if measured.found is None:
            if measured.is_by_tool and self._runs_on_base(gate):
                return make_broken_result(gate, measured.why)
            return make_unmeasured_result(gate, measured.status, measured.why)
        self.found[gate.name] = measured.found
        if is_uncollected(measured.found) and self._base_tree:
            base_found = self._measure_base(gate).found
            if base_found is not None and is_uncollected(base_found, at_least=measured.found):
                why = "The tests cannot be collected on the base either; fix that first."
                return make_unmeasured_result(gate, GateStatus.ERRORED, why)
        try:
            base = None
            if self._base_tree and needs_base(gate, measured.found):
                base = self._measure_base(gate).found
            result = judge_gate(gate, measured.found, base, flaky=measured.flaky)
        except UnreadableReport as why:
            return make_unmeasured_result(gate, GateStatus.ERRORED, f"{why}.")
        return replace(result, seconds=measured.seconds, is_known=measured.is_known)


PROBE_SECONDS = 30.0
"""The total time for the commands of one rejection."""
NOT_STARTED_STATUSES = (126, 127)
"""The exit statuses with which a shell or a sandbox reports a missing program."""
UNCONFINED = "plain"


class EvidenceCommands:
    """Runs the commands that agents name as evidence, and only in a sandbox, because agents choose them."""

    def __init__(
        self,
        mirror: Mirror,
        checkouts: Checkouts,
        sandbox: Sandbox,
        policy: GatePolicy,
        *,
        root: str = "",
        path: tuple[str, ...] = (),
        hide: tuple[str, ...] = (),
    ) -> None:
        self._mirror = mirror
        self._checkouts = checkouts
        self._sandbox = sandbox
        self._policy = policy
        self._path = tuple(os.path.join(root, name) for name in policy.path) or path
        self._hide = hide
        self._left = PROBE_SECONDS

    @classmethod
    def in_environment(cls, env: GateEnvironment, policy: GatePolicy) -> EvidenceCommands:
        """Runs them in the environment of the gates."""
        return cls(
            env.mirror, env.checkouts, env.sandbox, policy, root=env.root, path=env.path, hide=env.hide
        )

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        if not is_probe_allowed(command, self._policy.probes) or self._sandbox.tier == UNCONFINED:
            return None
        if self._left <= 0:
            return None
        tree = self._mirror.fetch_commit(commit)
        with self._checkouts.lend(tree) as folder:
            ended = self._sandbox.run(self._job(command, folder))
        self._left -= ended.seconds
        return _command_outcome(ended)

    def _job(self, command: tuple[str, ...], folder: str) -> Job:
        return Job(
            command=command,
            folder=folder,
            read=self._policy.read,
            hide=self._hide,
            path=self._path,
            limits=JobLimits(seconds=self._left, output=MIB),
        )


def is_probe_allowed(command: tuple[str, ...], probes: tuple[tuple[str, ...], ...]) -> bool:
    """True if a command begins with exactly the words of one that the policy lists."""
    return any(prefix and command[: len(prefix)] == prefix for prefix in probes)


def _command_outcome(ended: JobResult) -> CommandOutcome | None:
    if ended.how != "exited" or ended.status in NOT_STARTED_STATUSES:
        return None
    said = b"\n".join(filter(None, (ended.output, ended.errors))).decode("utf-8", "replace")
    return CommandOutcome(ended.status, said, ended.is_cut)
