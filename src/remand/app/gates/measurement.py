"""From a commit to its verdict: gates measured, the change examined for integrity, and the full report."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.gates.known_results import KnownVerdicts, MeasurementTerms, VerdictQuery, VerdictResult
from remand.app.gates.ports import GateEnvironment, TreeChange
from remand.app.gates.preparation import SCRIPTS, Preparation, PreparationBase
from remand.app.gates.runner import CACHE, GateMeasurement, GateRun, GateRunner, fill_placeholders, find_cause
from remand.domain.gate.gate import (
    Gate,
    GateFinding,
    GatePolicy,
    Measurement,
    TestOutcome,
    format_number,
    gate_title,
    policy_digest,
)
from remand.domain.gate.judge import (
    MAX_KEPT_FINDINGS,
    clean_text,
    failing_ids,
    is_uncollected,
    judge_gate,
    make_untouched_result,
)
from remand.domain.gate.verdict import INTEGRITY_GATE, GateResult, GateStatus, Verdict, overall_status
from remand.domain.text.path_patterns import PathPattern
from remand.domain.text.redaction import redact
from remand.domain.text.words import remove_invisible
from remand.integrity.comparison import LINK, CollectedTests, Comparison, FileDiff, FileText, build_file_diff
from remand.integrity.examination import examine, judge_base_tests, judge_new_tests, plan_cross_checks
from remand.integrity.harness import harness_paths, merge_configuration, mixed_paths, trusted_paths
from remand.integrity.paths import follow_links, is_test_path
from remand.integrity.suspicions import Suspicion, Weight

KEPT_SUSPICIONS = 200
MAX_READ_ALONG = 100
MAX_READ_ALONG_BYTES = 32 << 10


class Examination:
    """A tree beside its base: what differs, whether it is honest, and which tree is measured in its place."""

    def __init__(self, environment: GateEnvironment, policy: GatePolicy, tree: str, base_tree: str) -> None:
        self._mirror = environment.mirror
        self._policy = policy
        self._tree = tree
        self._base_tree = base_tree
        self._is_examined = policy.integrity and bool(base_tree)

    @cached_property
    def changes(self) -> list[TreeChange]:
        """The files that differ."""
        return self._mirror.changes(self._base_tree, self._tree) if self._base_tree else []

    def touches(self, patterns: Sequence[PathPattern]) -> bool:
        """True when a change is about one of the patterns; without patterns, or without a base, always."""
        if not patterns or not self._base_tree:
            return True
        return any(pattern.matches(name) for pattern in patterns for name in self._changed_paths)

    @cached_property
    def judged_tree(self) -> str:
        """The tree that is measured: the head's, with what steers its gates taken from the base."""
        if not self._is_examined:
            return self._tree
        trusted = trusted_paths(self._comparison, examine(self._comparison))
        base, head = self._paths
        taken = [path for path in harness_paths(base, head, trusted=trusted) if path in self._changed_paths]
        files: dict[str, bytes] = {}
        for path in mixed_paths(base, head):
            content = self._merge_file(path) if path in self._changed_paths else None
            if content is not None:
                files[path] = content
            elif path in self._changed_paths:
                taken.append(path)
        tree = self._mirror.compose(self._tree, self._base_tree, taken) if taken else self._tree
        return self._mirror.with_files(tree, files) if files else tree

    def _merge_file(self, path: str) -> bytes | None:
        before, after = self._mirror.file(self._base_tree, path), self._mirror.file(self._tree, path)
        return None if before is None or after is None else merge_configuration(path, before, after)

    def result(
        self,
        run: GateRun,
        gates: Sequence[Gate],
        found: Mapping[str, Future[GateMeasurement]],
        pool: Executor,
    ) -> GateResult:
        """The result of the integrity gate."""
        sides = [
            side for gate in gates if (side := self._test_sides(run, gate, found[gate.name])) is not None
        ]
        collected = tuple(
            CollectedTests(gate=side.gate.name, base=side.on_base, head=side.on_head) for side in sides
        )
        suspicions = list(examine(replace(self._comparison, collected=collected)))
        if not any(side.has_new_failures for side in sides):
            suspicions += self._cross_check(run, sides, pool)
        unique = {one.id: one for one in suspicions}
        return integrity_result(tuple(unique.values()))

    def _test_sides(self, run: GateRun, gate: Gate, found: Future[GateMeasurement]) -> _TestSides | None:
        """The tests of a gate on both sides; None for a gate that runs no tests."""
        head = found.result().found
        if head is None or not head.tests:
            return None
        base = run.measure(gate, self._base_tree).found
        return _TestSides(gate, base.tests if base else (), head.tests)

    def _cross_check(self, run: GateRun, sides: Sequence[_TestSides], pool: Executor) -> list[Suspicion]:
        """What the tests of one side say to the code of the other."""
        checks = plan_cross_checks(self._comparison, *self._paths)
        asked = []
        if checks.from_base:
            tree = self._mirror.compose(self.judged_tree, self._base_tree, checks.from_base)
            asked += [(side, judge_base_tests, pool.submit(run.measure, side.gate, tree)) for side in sides]
        if checks.from_head:
            tree = self._mirror.compose(self._base_tree, self._tree, checks.from_head)
            asked += [(side, judge_new_tests, pool.submit(run.measure, side.gate, tree)) for side in sides]
        found: list[Suspicion] = []
        for side, judge, future in asked:
            crossed = future.result().found
            if crossed is not None:
                found += judge(
                    self._comparison, on_base=side.on_base, on_head=side.on_head, crossed=crossed.tests
                )
        return found

    @cached_property
    def _changed_paths(self) -> frozenset[str]:
        return frozenset(name for change in self.changes for name in (change.path, change.old_path) if name)

    @cached_property
    def _paths(self) -> tuple[list[str], list[str]]:
        return self._mirror.paths(self._base_tree), self._mirror.paths(self._tree)

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(
            changes=tuple(self._file_change(change) for change in self.changes),
            links=self._links[1],
            paths=tuple(self._paths[1]),
            unchanged=tuple(self._unchanged_tests()),
            protected=self._policy.protected,
        )

    def _unchanged_tests(self) -> Iterator[FileText]:
        """Test files that did not change, as many as are cheap to read: answers are copied from them, too."""
        names = (path for path in self._paths[1] if path not in self._changed_paths and is_test_path(path))
        for path in islice(names, MAX_READ_ALONG):
            content = self._mirror.file(self._tree, path)
            if content is not None and len(content) <= MAX_READ_ALONG_BYTES and b"\0" not in content:
                yield FileText(path=path, text=content.decode("utf-8", "replace"))

    def _file_change(self, change: TreeChange) -> FileDiff:
        """A change with both of its sides, and what its link leads to."""
        base_links, links = self._links
        old = change.old_path or change.path
        before = None if change.status == "A" else self._content(self._base_tree, old, base_links)
        after = None if change.status == "D" else self._mirror.file(self._tree, change.path)
        linked = None
        if change.mode == LINK:
            after = links.get(change.path, "").encode("utf-8", "surrogateescape")
            linked = self._content(self._tree, change.path, links)
        return build_file_diff(
            change.status,
            change.path,
            before,
            after,
            old_path=change.old_path,
            mode=change.mode,
            linked=linked,
        )

    def _content(self, tree: str, path: str, links: Mapping[str, str]) -> bytes | None:
        """A file's content in a tree, through links that stay inside it."""
        place, problem = follow_links(path, links)
        return None if problem else self._mirror.file(tree, place)

    @cached_property
    def _links(self) -> tuple[dict[str, str], dict[str, str]]:
        """The links of base and head; none where the change has no links."""
        if not any(change.mode == LINK or change.status == "T" for change in self.changes):
            return {}, {}
        base, head = (
            {
                path: target.decode("utf-8", "surrogateescape")
                for path, target in self._mirror.links(tree).items()
            }
            for tree in (self._base_tree, self._tree)
        )
        return base, head


class _TestSides(NamedTuple):
    """The tests of one gate as the base has them, and as the head has them."""

    gate: Gate
    on_base: tuple[TestOutcome, ...]
    on_head: tuple[TestOutcome, ...]

    @property
    def has_new_failures(self) -> bool:
        """True when the gate rejects the work by itself, and nothing has to be crossed to know it."""
        bad = ("failed", "error")
        known = {test.id for test in self.on_base if test.outcome in bad}
        return any(test.outcome in bad and test.id not in known for test in self.on_head)


def integrity_result(suspicions: Sequence[Suspicion]) -> GateResult:
    """The gate's result: anything that a reviewer has to settle holds the work."""
    serious = [one for one in suspicions if one.weight is Weight.HELD]
    notes = [one for one in suspicions if one.weight is not Weight.HELD]
    count = len(serious)
    return GateResult(
        name=INTEGRITY_GATE,
        status=GateStatus.HELD if serious else GateStatus.PASSED,
        measured={"findings": float(count)},
        required={"max_findings": 0.0},
        line=f"- Integrity: {count} {'finding' if count == 1 else 'findings'} (requires 0)",
        findings=tuple(
            _integrity_finding(one) for one in (*serious[:KEPT_SUSPICIONS], *notes[:MAX_KEPT_FINDINGS])
        ),
        finding_count=len(suspicions),
        suspicions=tuple(one.id for one in serious),
        excess=float(count),
    )


def _integrity_finding(one: Suspicion) -> GateFinding:
    severity = "error" if one.weight is Weight.HELD else "note"
    text = clean_text(one.text)
    return GateFinding(
        path=clean_text(one.path),
        line=one.line,
        code=one.code,
        text=f"{text} [{one.id}]" if one.weight is Weight.HELD else text,
        severity=severity,
    )


MAX_REPORTED_FINDINGS = 5000


def render_report(
    verdict: Verdict, found: Mapping[str, Measurement], outputs: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The report, in Markdown; what tools said is data in it."""
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
    "run `remand init` again in a shell in which your own installer works (proxy, certificates, registry), as it hands these"
    " to `prepare`. Passwords and tokens are handed to a trial only by `remand init --credentials`: its code gets to know them."
)
_MISSING_MODULE = re.compile(r"No module named '([A-Za-z_]\w*)")


class GateTrial(NamedTuple):
    """How a gate fared when it was tried by itself."""

    gate: Gate
    measured: GateMeasurement
    fault: str
    """Why it can tell nothing as it is; empty when it can."""
    is_unprepared: bool = False
    """What it needs could not be installed."""

    @property
    def status(self) -> GateStatus:
        """How the gate stands on its own; errored when it can tell nothing."""
        found = self.measured.found
        return (
            GateStatus.ERRORED if self.fault or found is None else judge_gate(self.gate, found, None).status
        )

    @property
    def fix(self) -> str:
        """The line to change, where that is known; the fault ends with it."""
        return _trial_fix(self.gate, self.measured, self.fault)


def try_gates(
    environment: GateEnvironment, policy: GatePolicy, tree: str, base: PreparationBase
) -> list[GateTrial]:
    """Prepares and runs every gate once on a tree, and compares it with nothing."""
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
    """Why a gate can tell nothing, with the line to change where that is known."""
    fault = _measurement_fault(gate, measured)
    return f"{fault} {_trial_fix(gate, measured, fault)}".rstrip()


def _trial_fix(gate: Gate, measured: GateMeasurement, fault: str) -> str:
    """What to change so that a gate can tell something; empty where that is not known."""
    missing = _MISSING_MODULE.search(fault)
    has_script = gate.prepare is not None and any(SCRIPTS in word for word in gate.prepare.command)
    if missing and has_script:
        return f'To install it, add "--with", "{missing[1]}" to `prepare` in remand.toml.'
    if measured.status is GateStatus.TIMED_OUT:
        return f'If it only takes long, set `timeout = "{_LONGER}"` in `[gates.{gate.name}]`.'
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
    """Whether a gate could be run, and the line to change where it could not."""

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
    """Whether each gate could be run on a tree, as `try_gates` does: prepare steps are made, and no gate is run.

    `missing_program` names the program of a command that is not on a path. Without a tree only programs are looked for.
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
    asked = replace(gate, command=(*words[:place], "-c", _FIND_MODULE, module), timeout=_CHECK_SECONDS)
    with environment.checkouts.lend(tree) as folder, environment.reports.folder() as report:
        ended = environment.sandbox.run(runner.make_job(asked, folder, report, prepared))
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
    """True when a command so far names a Python."""
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
        """The verdict on a commit; an unchanged tree is answered at once."""
        asked = self._known.query_for(terms)
        return self._known.find(asked, terms) or VerdictResult(self._measure(asked, terms))

    def _measure(self, asked: VerdictQuery, terms: MeasurementTerms) -> Verdict:
        run = GateRun(self._runner, asked.base_tree)
        gates = self._gate_results(run, asked, terms)
        verdict = Verdict(
            status=overall_status(gates),
            commit=terms.commit,
            tree=asked.tree,
            base=terms.base,
            policy=policy_digest(self._policy),
            tools=asked.tools,
            tier=self._environment.sandbox.tier,
            gates=gates,
        )
        name = asked.key[:16]
        verdict = replace(
            verdict,
            report=self._environment.reports.write(name, render_report(verdict, run.found, run.outputs)),
        )
        self._known.store(asked, verdict)
        return verdict

    def _with_defaults(self, gate: Gate) -> Gate:
        parser = self._environment.parser(gate.parser)
        return gate if gate.require or parser is None else replace(gate, require=dict(parser.defaults))

    def _gate_results(
        self, run: GateRun, asked: VerdictQuery, terms: MeasurementTerms
    ) -> tuple[GateResult, ...]:
        """Every gate's result, all of them run at once."""
        tree, base_tree = asked.tree, asked.base_tree
        examination = Examination(self._environment, self._policy, tree, base_tree)
        judged_tree = examination.judged_tree
        touched = [gate for gate in self._gates if examination.touches(_patterns(gate))]
        preparing = Preparation(self._environment, self._policy, self._runner)
        prepare_base = PreparationBase(
            asked.prepare_tree or base_tree,
            is_shared=bool(asked.prepare_tree),
            may_have_secrets=terms.may_have_secrets and bool(asked.prepare_tree),
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
            return (*gates, integrity.result()) if integrity else tuple(gates)


def _patterns(gate: Gate) -> list[PathPattern]:
    return [PathPattern(text) for text in gate.paths]
