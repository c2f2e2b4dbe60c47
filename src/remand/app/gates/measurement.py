"""Measures a commit: the gates, the verdict, and the full report."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.gates.change_examination import Examination
from remand.app.gates.known_results import KnownVerdicts, MeasurementTerms, VerdictQuery, VerdictResult
from remand.app.gates.ports import GateEnvironment
from remand.app.gates.preparation import SCRIPTS, Preparation, PreparationBase
from remand.app.gates.runner import CACHE, GateMeasurement, GateRun, GateRunner, fill_placeholders, find_cause
from remand.domain.gate.gate import (
    Gate,
    GateFinding,
    GatePolicy,
    Measurement,
    format_number,
    gate_title,
    policy_digest,
)
from remand.domain.gate.judge import (
    failing_ids,
    is_uncollected,
    judge_gate,
    judge_must_pass,
    make_untouched_result,
)
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict, overall_status
from remand.domain.text.path_patterns import PathPattern
from remand.domain.text.redaction import redact
from remand.domain.text.words import remove_invisible

MAX_REPORTED_FINDINGS = 5000


def render_report(
    verdict: Verdict, found: Mapping[str, Measurement], outputs: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The report in Markdown; tools' output is escaped in it."""
    head = [
        f"# {verdict.status.upper()} at {verdict.commit[:12]}",
        "",
        f"- commit {verdict.commit}, code tree {verdict.tree}",
        f"- compared with {verdict.base or 'nothing'}",
        f"- rules {verdict.policy}, tools {verdict.tools[:16]}, sandbox: {verdict.tier}",
    ]
    return "\n".join(
        [
            *head,
            *(
                line
                for gate in verdict.gates
                for line in _gate_rows(gate, found.get(gate.name), outputs.get(gate.name, ""))
            ),
            "",
        ]
    )


def _gate_rows(gate: GateResult, found: Measurement | None, output: str) -> list[str]:
    findings = found.findings if found else gate.findings
    failing = failing_ids(found) if found else gate.failing
    figures = [f"{name} {format_number(value)}" for name, value in gate.measured.items()]
    base = [f"{name} {format_number(value)}" for name, value in gate.base.items()]
    rows = [
        "",
        f"## {gate_title(gate.name)}: {gate.status}",
        "",
        gate.line,
        *([f"- measured: {', '.join(figures)}"] if figures else []),
        *([f"- base: {', '.join(base)}"] if base else []),
        *([f"- whole output: `remand gate report {output}`"] if output else []),
        *([f"- {_plain_line(gate.detail)}"] if gate.detail else []),
        *(f"- flaky: {_plain_line(name)}" for name in gate.flaky),
        *(f"- failing: {_plain_line(name)}" for name in failing),
        *(f"- {_finding_row(finding)}" for finding in findings[:MAX_REPORTED_FINDINGS]),
    ]
    more = len(findings) - MAX_REPORTED_FINDINGS
    return [*rows, f"- and {more} more findings"] if more > 0 else rows


def _finding_row(finding: GateFinding) -> str:
    where = f"{finding.path}:{finding.line}" if finding.line else finding.path
    return _plain_line(" ".join(part for part in (where, finding.code, finding.text) if part))


def _plain_line(text: str) -> str:
    return " ".join(redact(remove_invisible(text)).split())


_LONGER = "30m"
_UNREACHED = re.compile(
    r"no such host|could not resolve|name resolution|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|connection refused|network is unreachable"
    r"|\b40[13] (?:Forbidden|Unauthorized|Client Error|Error)|\bE40[13]\b|UnknownIssuer|certificate",
    re.IGNORECASE,
)
_REMEDY = (
    "run `remand init` again in a shell in which your own installer works (proxy, certificates, registry): it passes these"
    " settings to `prepare`. A trial gets passwords and tokens only from `remand init --credentials`, because the"
    " project's code can then read them."
)
_MISSING_MODULE = re.compile(r"No module named '([A-Za-z_]\w*)")


class GateTrial(NamedTuple):
    """The result of trying a gate by itself."""

    gate: Gate
    measured: GateMeasurement
    fault: str
    """Why it cannot measure anything in its current form; empty if it can."""
    is_unprepared: bool = False
    """True if its dependencies could not be installed."""

    @property
    def status(self) -> GateStatus:
        """The gate's status on its own; errored if it cannot measure anything."""
        found = self.measured.found
        return (
            GateStatus.ERRORED if self.fault or found is None else judge_gate(self.gate, found, None).status
        )

    @property
    def fix(self) -> str:
        """The line to change, if known; the fault ends with it."""
        return _trial_fix(self.gate, self.measured, self.fault)


def try_gates(
    environment: GateEnvironment, policy: GatePolicy, tree: str, base: PreparationBase
) -> list[GateTrial]:
    """Prepares and runs every gate once on a tree, without comparing it."""
    gates = policy.gates or ()
    run = GateRun(runner := GateRunner(environment, policy), "")
    with (
        Preparation(environment, policy, runner).folders(gates, tree, base) as run.prepared,
        ThreadPoolExecutor(len(gates) + 1) as pool,
    ):
        found = [pool.submit(run.measure, gate, tree) for gate in gates]
        return [
            GateTrial(
                gate,
                future.result(),
                _trial_fault(gate, future.result()),
                run.prepared.get(gate.name, "").startswith("!"),
            )
            for gate, future in zip(gates, found, strict=True)
        ]


def _trial_fault(gate: Gate, measured: GateMeasurement) -> str:
    """Why a gate cannot measure anything, with the line to change if known."""
    fault = _measurement_fault(gate, measured)
    return f"{fault} {_trial_fix(gate, measured, fault)}".rstrip()


def _trial_fix(gate: Gate, measured: GateMeasurement, fault: str) -> str:
    """What to change so that a gate can measure; empty if unknown."""
    missing = _MISSING_MODULE.search(fault)
    has_script = gate.prepare is not None and any(SCRIPTS in word for word in gate.prepare.command)
    if missing and has_script:
        return f'To install it, add "--with", "{missing[1]}" to `prepare` in remand.toml.'
    if measured.status is GateStatus.TIMED_OUT:
        return f'If it is only slow, set `timeout = "{_LONGER}"` in `[gates.{gate.name}]`.'
    if gate.prepare is not None and _UNREACHED.search(fault):
        return f"A registry was not reached, or refused: {_REMEDY}"
    return ""


def _measurement_fault(gate: Gate, measured: GateMeasurement) -> str:
    found = measured.found
    if found is None:
        return measured.why
    whole = f" Whole output: `remand gate report {measured.output}`." if measured.output else ""
    said = _plain_line(found.findings[0].text) if found.findings else ""
    if is_uncollected(found):
        return f"The tests could not be collected: {said}.{whole}"
    if found.figures.get("tests") == 0 and found.figures.get("errors") and said:
        return f"The tests could not be built: {said}.{whole}"
    if found.figures.get("tests") == 0:
        return f"No tests were collected.{whole}"
    unloaded = sum(test.outcome == "error" for test in found.tests)
    if 2 * unloaded > len(found.tests):
        return f"{unloaded} of {len(found.tests)} tests cannot be loaded or set up here: {said}.{whole}"
    if gate.parser == "exit" and found.figures.get("errors"):
        return f"It fails here already, so it cannot judge a change: {said}.{whole}"
    return ""


class GateReadiness(NamedTuple):
    """Whether a gate could run, and the line to change if not."""

    gate: Gate
    fault: str = ""
    fix: str = ""


_FIND_MODULE = (
    "import importlib.util, sys; sys.exit(3 if importlib.util.find_spec(sys.argv[1]) is None else 0)"
)
_NO_MODULE_STATUS = 3
_CHECK_SECONDS = 60.0


def check_gates(
    environment: GateEnvironment,
    policy: GatePolicy,
    tree: str,
    missing_program: Callable[[Sequence[str], Sequence[str]], str],
    *,
    may_have_secrets: bool = False,
) -> list[GateReadiness]:
    """Whether each gate could run on a tree: runs prepare steps, but no gate.

    `missing_program` returns a command's program if it is not on a path. Without a tree, only programs are
    checked.
    """
    gates, runner = policy.gates or (), GateRunner(environment, policy)
    lost = {
        gate.name: missing_program(gate.prepare.command, runner.path)
        for gate in gates
        if gate.prepare is not None
    }
    startable = [gate for gate in gates if not lost.get(gate.name)] if tree else []
    base = PreparationBase(tree, is_shared=True, may_have_secrets=may_have_secrets)
    with Preparation(environment, policy, runner).folders(startable, tree, base) as prepared:

        def check(gate: Gate) -> GateReadiness:
            table, folder = f"[gates.{gate.name}] of remand.toml", prepared.get(gate.name, "")
            install = "Install it, or add its folder to `[sandbox] path`"
            if program := lost.get(gate.name):
                fault = f"program `{program}` of the prepare step was not found"
                return GateReadiness(gate, fault, f"{install}; or change `prepare` in {table}.")
            if folder.startswith("!"):
                return GateReadiness(gate, folder[1:], f"Change `prepare` in {table} on the base branch.")
            fill = {CACHE: folder} if folder else {}
            path = fill_placeholders(runner.path, fill)
            if program := missing_program(fill_placeholders(gate.command, fill), path):
                made = f"The prepare step does not make it; change `prepare` or `command` in {table}."
                is_made = bool(folder) and program.startswith(folder)
                shown = program.replace(folder, CACHE) if is_made else program
                fix = made if is_made else f"{install}; or change `command` in {table}."
                return GateReadiness(gate, f"program `{shown}` was not found", fix)
            return _check_module(environment, runner, gate, tree, folder) if tree else GateReadiness(gate)

        return [check(gate) for gate in gates]


def _check_module(
    environment: GateEnvironment, runner: GateRunner, gate: Gate, tree: str, prepared: str
) -> GateReadiness:
    """Whether the interpreter of a gate that runs `python -m` has that module, in the gate's own sandbox."""
    words = gate.command
    place = next(
        (n for n, word in enumerate(words) if word == "-m" and _is_python(words[:n]) and words[n + 1 :]), 0
    )
    if not place:
        return GateReadiness(gate)
    module = words[place + 1].partition(".")[0]
    check = replace(gate, command=(*words[:place], "-c", _FIND_MODULE, module), timeout=_CHECK_SECONDS)
    with environment.checkouts.lend(tree) as folder, environment.reports.folder() as report:
        ended = environment.sandbox.run(runner.make_job(check, folder, report, prepared))
    table = f"[gates.{gate.name}] of remand.toml"
    if ended.how == "exited" and ended.status == _NO_MODULE_STATUS:
        has_script = gate.prepare is not None and any(SCRIPTS in word for word in gate.prepare.command)
        fix = (
            f'Add "--with", "{module}" to `prepare` in {table}.'
            if has_script
            else f"Have `prepare` in {table} install it, or name the interpreter that has it in `command`."
        )
        return GateReadiness(gate, f"`{' '.join(words[:place])}` has no module `{module}`", fix)
    if ended.how != "exited" or ended.status:
        why = find_cause(ended.errors) or ended.detail or f"{ended.how} {ended.status}"
        fault = f"`{' '.join(words[:place])}` failed to run: {_plain_line(why)}"
        return GateReadiness(gate, fault, f"Change `command` in {table} on the base branch.")
    return GateReadiness(gate)


def _is_python(words: Sequence[str]) -> bool:
    """True if the command so far names a Python interpreter."""
    return bool(words) and os.path.basename(words[-1]).startswith("python")


class CommitMeasurement:
    """Measures commits by the gates of one policy."""

    def __init__(self, environment: GateEnvironment, policy: GatePolicy) -> None:
        self._environment = environment
        self._policy = policy
        self._runner = GateRunner(environment, policy)
        self._known = KnownVerdicts(
            environment.tree, environment.cache, environment.tools, self._runner.path, policy
        )
        self._gates = tuple(self._with_defaults(gate) for gate in policy.gates or ())

    def verdict(self, terms: MeasurementTerms) -> VerdictResult:
        """The verdict on a commit; known for an unchanged tree."""
        query = self._known.query_for(terms)
        return self._known.find(query, terms) or VerdictResult(self._measure(query, terms))

    def _measure(self, query: VerdictQuery, terms: MeasurementTerms) -> Verdict:
        run = GateRun(self._runner, query.base_tree)
        gates = self._gate_results(run, query, terms)
        verdict = Verdict(
            status=overall_status(gates),
            commit=terms.commit,
            tree=query.tree,
            base=terms.base,
            policy=policy_digest(self._policy),
            tools=query.tools,
            tier=self._environment.sandbox.tier,
            gates=gates,
        )
        name = query.key[:16]
        verdict = replace(
            verdict,
            report=self._environment.reports.write(name, render_report(verdict, run.found, run.outputs)),
        )
        self._known.store(query, verdict)
        return verdict

    def _with_defaults(self, gate: Gate) -> Gate:
        parser = self._environment.parser(gate.parser)
        return gate if gate.require or parser is None else replace(gate, require=dict(parser.defaults))

    def _gate_results(
        self, run: GateRun, query: VerdictQuery, terms: MeasurementTerms
    ) -> tuple[GateResult, ...]:
        """The results of all gates, run concurrently."""
        tree, base_tree = query.tree, query.base_tree
        examination = Examination(self._environment.mirror, self._policy, tree, base_tree, terms.must_pass)
        judged_tree = examination.judged_tree
        touched = [gate for gate in self._gates if terms.must_pass or examination.touches(_patterns(gate))]
        preparing = Preparation(self._environment, self._policy, self._runner)
        prepare_base = PreparationBase(
            query.prepare_tree or base_tree,
            is_shared=bool(query.prepare_tree),
            may_have_secrets=terms.may_have_secrets and bool(query.prepare_tree),
        )
        with (
            preparing.folders(touched, judged_tree, prepare_base) as run.prepared,
            ThreadPoolExecutor(6 * len(touched) + 1) as pool,
        ):
            found = {gate.name: pool.submit(run.measure, gate, judged_tree) for gate in touched}
            integrity = (
                pool.submit(examination.result, run, () if terms.is_base_lazy else touched, found, pool)
                if self._policy.integrity and self._gates and base_tree
                else None
            )
            results = [
                pool.submit(run.judge_gate, gate, found[gate.name]) if gate.name in found else None
                for gate in self._gates
            ]
            gates = [
                make_untouched_result(gate) if result is None else result.result()
                for gate, result in zip(self._gates, results, strict=True)
            ]
            if terms.must_pass:
                is_complete = all(gate.name in run.found for gate in touched)
                gates.append(judge_must_pass(terms.must_pass, run.found.values(), is_complete=is_complete))
            return (*gates, integrity.result()) if integrity else tuple(gates)


def _patterns(gate: Gate) -> list[PathPattern]:
    return [PathPattern(text) for text in gate.paths]
