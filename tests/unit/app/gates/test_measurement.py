"""Measuring, with a sandbox that follows a script."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from remand.app.gates.known_results import MeasurementTerms
from remand.app.gates.measurement import CommitMeasurement, GateTrial, check_gates, try_gates
from remand.app.gates.ports import (
    GateEnvironment,
    Job,
    JobResult,
    RegistrySettings,
    ReportParser,
    ResultWatch,
)
from remand.app.gates.preparation import PreparationBase
from remand.app.gates.runner import find_cause
from remand.domain.gate.gate import (
    Gate,
    GateFinding,
    GateMode,
    GatePolicy,
    GatePreparation,
    Measurement,
    RunCheck,
)
from remand.domain.gate.message import render_report
from remand.domain.gate.verdict import GateStatus
from remand.integrity.result_records import ResultRecord
from tests.support.gate_fakes import FakeMirror, FakeSandbox, FixedTools, MemoryReports, a_gate_environment

LINT = Gate(name="lint", command=("lint",), parser="lines", require={"max_errors": 0.0})
TESTS = Gate(name="tests", command=("tests",), parser="lines", require={"max_failures": 0.0})


def said(text: str) -> JobResult:
    return JobResult("exited", 0, text.encode())


class Stage:
    """A base and a head, and what the gates say of each."""

    def __init__(self, script: Callable[[str, str], JobResult], **policy: object) -> None:
        self.mirror = FakeMirror()
        self.mirror.commit("base", {"a.py": b"1"})
        self.mirror.commit("head", {"a.py": b"2"}, parent="base")
        self.environment = a_gate_environment(
            self.mirror, lambda job: script(job.command[0], self._side(job))
        )
        self.policy = GatePolicy(**{"gates": (LINT, TESTS), "integrity": False, **policy})

    def _side(self, job: Job) -> str:
        return next((name for name, tree in self.mirror.commits.items() if tree == job.folder), "other")

    def verdict(self, base: str = "base"):
        return CommitMeasurement(self.environment, self.policy).verdict(
            MeasurementTerms(commit="head", base=base, prepare_base=base, may_have_secrets=bool(base))
        )

    @property
    def jobs(self) -> list[Job]:
        sandbox = self.environment.sandbox
        assert isinstance(sandbox, FakeSandbox)
        return sandbox.jobs


def trial(
    stage: Stage, environment: GateEnvironment | None = None, *, may_have_secrets: bool = False
) -> list[GateTrial]:
    tree = stage.mirror.commits["base"]
    base = PreparationBase(tree, is_shared=True, may_have_secrets=may_have_secrets)
    return try_gates(environment or stage.environment, stage.policy, tree, base)


def clean(command: str, side: str) -> JobResult:
    return said("errors 0") if command == "lint" else said("pass t::one\npass t::two")


def test_all_gates_within_their_thresholds_pass() -> None:
    judged = Stage(clean).verdict()
    assert judged.verdict.status is GateStatus.PASSED
    assert [gate.name for gate in judged.verdict.gates] == ["lint", "tests"]
    assert not judged.is_cached


def test_an_unchanged_tree_is_not_measured_again() -> None:
    stage = Stage(clean)
    stage.verdict()
    ran = len(stage.jobs)
    assert stage.verdict().is_cached
    assert len(stage.jobs) == ran


def test_other_tools_or_other_rules_make_it_measured_anew() -> None:
    stage = Stage(clean)
    stage.verdict()
    tools = stage.environment.tools
    assert isinstance(tools, FixedTools)
    tools.version = "2"
    assert not stage.verdict().is_cached
    stage.policy = GatePolicy(gates=(LINT,), integrity=False)
    assert not stage.verdict().is_cached


def test_the_base_is_measured_only_where_the_threshold_is_missed() -> None:
    stage = Stage(lambda command, side: said("errors 3") if command == "lint" else clean(command, side))
    assert stage.verdict().verdict.status is GateStatus.PASSED
    assert sorted(job.command[0] for job in stage.jobs) == ["lint", "lint", "tests"]


def test_what_the_base_misses_already_is_no_failure_and_what_is_new_is_one() -> None:
    def worse(command: str, side: str) -> JobResult:
        return (
            said("errors 3" if side == "base" else "errors 4") if command == "lint" else clean(command, side)
        )

    found = Stage(worse).verdict().verdict
    assert found.status is GateStatus.FAILED
    assert found.gates[0].base == {"errors": 3.0}
    assert found.gates[0].line == "- Lint: 4 errors (requires 0)"


def test_strict_gates_do_not_look_at_the_base() -> None:
    strict = Gate(
        name="lint", command=("lint",), parser="lines", require={"max_errors": 0.0}, mode=GateMode.STRICT
    )
    stage = Stage(lambda command, side: said("errors 3"), gates=(strict,))
    assert stage.verdict().verdict.status is GateStatus.FAILED
    assert len(stage.jobs) == 1


def test_a_command_that_leaves_no_report_is_errored_and_never_kept() -> None:
    stage = Stage(lambda command, side: said("garbage"), gates=(LINT,))
    found = stage.verdict().verdict
    assert found.status is GateStatus.ERRORED
    assert "no report" in found.gates[0].detail
    assert not stage.verdict().is_cached


def test_a_command_that_does_not_end_is_timed_out_and_one_that_does_not_start_is_errored() -> None:
    slow = Stage(lambda command, side: JobResult("timed_out", 0), gates=(LINT,))
    assert slow.verdict().verdict.status is GateStatus.TIMED_OUT
    gone = Stage(lambda command, side: JobResult("not_started", 0, detail="there is no lint"), gates=(LINT,))
    assert gone.verdict().verdict.status is GateStatus.ERRORED
    assert "there is no lint" in gone.verdict().verdict.gates[0].detail


def test_a_failure_is_told_before_what_could_not_be_measured() -> None:
    def mixed(command: str, side: str) -> JobResult:
        return said("garbage") if command == "lint" else said("fail t::one")

    assert Stage(mixed).verdict(base="").verdict.status is GateStatus.FAILED


def test_a_gate_about_files_nobody_changed_is_not_run() -> None:
    docs = Gate(
        name="docs", command=("docs",), parser="lines", require={"max_errors": 0.0}, paths=("docs/**",)
    )
    stage = Stage(clean, gates=(docs,))
    assert stage.verdict().verdict.status is GateStatus.PASSED
    assert not stage.jobs


def test_a_gate_that_is_not_required_changes_nothing() -> None:
    optional = Gate(
        name="lint", command=("lint",), parser="lines", require={"max_errors": 0.0}, required=False
    )
    found = Stage(lambda command, side: said("errors 9"), gates=(optional,)).verdict(base="").verdict
    assert found.status is GateStatus.PASSED
    assert found.gates[0].status is GateStatus.FAILED


def test_a_test_that_passes_when_run_again_is_flaky_and_is_said_to_be() -> None:
    turns = iter(["fail t::one\npass t::two", "pass t::one\npass t::two"])
    flaky = Gate(name="tests", command=("tests",), parser="lines", require={"max_failures": 0.0}, retries=2)
    found = Stage(lambda command, side: said(next(turns)), gates=(flaky,)).verdict(base="").verdict
    assert found.status is GateStatus.PASSED
    assert found.gates[0].flaky == ("t::one",)


def test_a_test_that_fails_every_time_is_not_flaky() -> None:
    flaky = Gate(name="tests", command=("tests",), parser="lines", require={"max_failures": 0.0}, retries=2)
    stage = Stage(lambda command, side: said("fail t::one\npass t::two"), gates=(flaky,))
    found = stage.verdict(base="").verdict
    assert found.status is GateStatus.FAILED
    assert found.gates[0].flaky == ()
    assert len(stage.jobs) == 3


def test_without_retries_nothing_is_run_again() -> None:
    stage = Stage(lambda command, side: said("fail t::one"), gates=(TESTS,))
    assert stage.verdict(base="").verdict.status is GateStatus.FAILED
    assert len(stage.jobs) == 1


def test_a_threshold_the_parser_cannot_measure_is_errored() -> None:
    odd = Gate(name="lint", command=("lint",), parser="lines", require={"max_colours": 0.0})
    found = Stage(lambda command, side: said("errors 0"), gates=(odd,)).verdict().verdict
    assert found.status is GateStatus.ERRORED
    assert "colours" in found.gates[0].detail


def test_the_full_report_holds_every_finding() -> None:
    many = "\n".join(f"fail t::{number}" for number in range(60))
    stage = Stage(lambda command, side: said(many), gates=(TESTS,))
    found = stage.verdict(base="").verdict
    reports = stage.environment.reports
    assert isinstance(reports, MemoryReports)
    assert len(found.gates[0].findings) == 20
    assert "t::59" in reports.written[found.report]


def test_no_gate_sees_what_is_hidden_and_each_has_a_checkout_of_its_own() -> None:
    stage = Stage(clean)
    stage.environment = stage.environment._replace(hide=("ledger",))
    stage.verdict()
    assert {job.hide for job in stage.jobs} == {("ledger",)}
    assert not any(job.has_network for job in stage.jobs)


def test_a_tool_that_has_gone_since_the_base_was_measured_is_not_blamed_on_the_work() -> None:
    is_gone = False

    def gone(command: str, side: str) -> JobResult:
        return said("garbage") if is_gone else said("errors 3")

    stage = Stage(gone, gates=(LINT,))
    assert stage.verdict().verdict.gates[0].base == {"errors": 3.0}
    is_gone = True
    stage.mirror.commit("head", {"a.py": b"3"}, parent="base")

    assert stage.verdict().verdict.status is GateStatus.ERRORED


def test_what_was_measured_before_is_said_to_be_known() -> None:
    def lint_gone(command: str, side: str) -> JobResult:
        return said("garbage") if command == "lint" else clean(command, side)

    stage = Stage(lint_gone)
    first, second = (stage.verdict().verdict.gates for _ in range(2))

    assert [gate.is_known for gate in first] == [False, False]
    assert [gate.is_known for gate in second] == [False, True], "what could not be measured is tried again"


SKIPPED = b"import pytest\n\n@pytest.mark.skip\ndef test_a():\n    assert 1 == 2\n"


def test_a_commit_is_examined_beside_its_base_by_what_the_policy_says() -> None:
    def examined(*, base: str = "base", **policy: object) -> list[tuple[str, GateStatus]]:
        stage = Stage(clean, **policy)
        files = {"a.py": b"1", "tests/test_a.py": b"def test_a():\n    assert 1 == 1\n"}
        stage.mirror.commit("base", files)
        stage.mirror.commit("head", files | {"tests/test_a.py": SKIPPED}, parent="base")
        return [(gate.name, gate.status) for gate in stage.verdict(base).verdict.gates]

    gates = [("lint", GateStatus.PASSED), ("tests", GateStatus.PASSED)]
    assert examined(integrity=True) == [*gates, ("integrity", GateStatus.HELD)]
    assert examined(integrity=False) == gates
    assert examined(integrity=True, base="") == gates
    assert examined(integrity=True, gates=()) == []


def test_the_start_of_a_session_is_measured_only_where_its_end_fails() -> None:
    def sides(script: Callable[[str, str], JobResult], *, is_lazy: bool) -> list[str]:
        stage = Stage(script, integrity=True, gates=(TESTS,))
        terms = MeasurementTerms(commit="head", base="base", is_base_lazy=is_lazy)
        verdict = CommitMeasurement(stage.environment, stage.policy).verdict(terms).verdict
        assert verdict.gates[-1].name == "integrity"
        return [stage._side(job) for job in stage.jobs]

    def breaks(_command: str, side: str) -> JobResult:
        return said("fail t::one") if side == "head" else said("pass t::one")

    assert sides(clean, is_lazy=True) == ["head"]
    assert sides(breaks, is_lazy=True) == ["head", "base"]
    assert "base" in sides(clean, is_lazy=False), "a done claim is compared with the base's tests, too"


# What a prepare step is given, and what is kept of a command that fails.

MADE = GatePreparation(command=("install", "{scripts}/make.py", "{cache}"), key=("lock",))
PREPARED_LINT = replace(LINT, prepare=MADE)
PREPARED_TESTS = replace(TESTS, prepare=MADE)


class Registries:
    """Notes whether secrets were asked for."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def __call__(self, folder: str, *, has_secrets: bool) -> RegistrySettings:
        self.asked.append(has_secrets)
        return RegistrySettings({"PIP_INDEX_URL": "https://user:pass@example.org"}, ("/certificates",))


def prepared_stage(tmp_path: Path, step: JobResult, lock: bytes = b"1") -> tuple[Stage, Registries]:
    stage, registries = Stage(clean, gates=(PREPARED_LINT, PREPARED_TESTS)), Registries()
    stage.mirror.commit("base", {"a.py": b"1", "lock": b"1"})
    stage.mirror.commit("head", {"a.py": b"2", "lock": lock}, parent="base")
    sandbox = FakeSandbox(lambda job: step if job.command[0] == "install" else clean(job.command[0], ""))
    stage.environment = stage.environment._replace(
        prepared=str(tmp_path), scripts="/ours", registry=registries, sandbox=sandbox
    )
    return stage, registries


def test_only_the_prepare_step_is_given_the_users_registries(tmp_path: Path) -> None:
    stage, registries = prepared_stage(tmp_path, JobResult("exited", 0))
    assert stage.verdict().verdict.status is GateStatus.PASSED

    step, *gates = stage.jobs
    assert step.command[1] == "/ours/make.py"
    assert step.environment["PIP_INDEX_URL"]
    assert "/certificates" in step.read
    assert all("PIP_INDEX_URL" not in job.environment and not job.has_network for job in gates)
    assert registries.asked == [True]


def test_a_branch_that_changes_what_is_installed_is_given_no_secret_of_the_users(tmp_path: Path) -> None:
    stage, registries = prepared_stage(tmp_path, JobResult("exited", 0), lock=b"2")
    stage.verdict()

    assert registries.asked == [False]


def test_without_a_base_no_secrets_are_given_nor_to_a_trial_unless_the_user_asks(tmp_path: Path) -> None:
    stage, registries = prepared_stage(tmp_path / "commit", JobResult("exited", 0))
    stage.verdict("")
    assert registries.asked == [False]

    for is_asked in (False, True):
        stage, registries = prepared_stage(tmp_path / f"trial-{is_asked}", JobResult("exited", 0))
        trial(stage, may_have_secrets=is_asked)
        assert registries.asked == [is_asked]


def test_a_start_that_the_base_branch_does_not_have_gives_no_secrets_and_no_folder_to_others(
    tmp_path: Path,
) -> None:
    stage, registries = prepared_stage(tmp_path / "prepared", JobResult("exited", 0))

    def measure(prepare_base: str, base: str = "start", **more: bool) -> str:
        terms = MeasurementTerms(commit="head", base=base, prepare_base=prepare_base, **more)
        stage.environment.cache.kept.clear()  # type: ignore[attr-defined] - the fake one
        CommitMeasurement(stage.environment, stage.policy).verdict(terms)
        return stage.jobs[-1].cache

    stage.mirror.commit("start", {"a.py": b"1", "lock": b"1", "setup.py": b"forged"}, parent="base")
    apart = measure("", may_have_secrets=True)
    (seen,) = [job.folder for job in stage.jobs if job.command[0] == "install"]
    assert stage.mirror.trees[seen]["setup.py"] == b"forged"
    assert measure("") == apart, "it is made once for each start"
    shared = measure("base")
    assert shared != apart
    assert stage.mirror.trees[stage.jobs[-3].folder] == {"a.py": b"1", "lock": b"1"}
    assert measure("base", "base", may_have_secrets=True) == shared
    assert registries.asked == [False, False]


def test_what_init_prepared_and_measured_is_found_again_by_the_rules_that_it_wrote(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path / "prepared", JobResult("exited", 0))
    trial(stage)
    read = replace(
        PREPARED_LINT, timeout=float("600"), prepare=replace(PREPARED_LINT.prepare, timeout=float("900"))
    )
    stage.policy = replace(stage.policy, gates=(read,))
    stage.verdict()

    assert [job.command[0] for job in stage.jobs].count("install") == 1


def test_programs_of_a_prepared_environment_are_found_first(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path / "prepared", JobResult("exited", 0))

    def install(job: Job) -> JobResult:
        if job.command[0] == "install":
            Path(job.cache, "venv", "bin").mkdir(parents=True)
            return JobResult("exited", 0)
        return clean(job.command[0], "")

    stage.environment = stage.environment._replace(sandbox=FakeSandbox(install))
    stage.verdict()

    gate = stage.jobs[-1]
    assert gate.path[0] == f"{gate.cache}/venv/bin"


def test_versions_that_a_prepare_step_chose_outlive_its_folder(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path / "prepared", JobResult("exited", 0))
    found: list[list[str]] = []

    def install(job: Job) -> JobResult:
        if job.command[0] != "install":
            return clean(job.command[0], "")
        pins = Path(job.cache, "pins")
        found.append(sorted(path.name for path in pins.glob("*")))
        pins.mkdir(exist_ok=True)
        (pins / "constraints.txt").write_text("a==1\n", encoding="utf-8")
        (pins / "link").symlink_to("/etc/passwd")
        return JobResult("exited", 0)

    stage.environment = stage.environment._replace(sandbox=FakeSandbox(install))
    stage.verdict()
    shutil.rmtree(tmp_path / "prepared")
    stage.environment.cache.kept.clear()  # type: ignore[attr-defined] - the fake one
    stage.verdict()

    assert found == [[], ["constraints.txt"]]


def test_what_a_prepare_step_generated_is_copied_inside_the_sandbox(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 0))
    made = FakeSandbox(
        lambda job: _generate(job) if job.command[0] == "install" else said("errors 0\npass t")
    )
    stage.environment = stage.environment._replace(sandbox=made)
    stage.verdict()

    gate = made.jobs[-1]
    assert gate.command[:2] == ("/bin/sh", "-c")
    assert gate.command[-1] in ("lint", "tests")
    assert gate.environment["REMAND_CHECKOUT"] == gate.folder


def _generate(job: Job) -> JobResult:
    (Path(job.cache) / "generated").mkdir()
    return JobResult("exited", 0)


def test_the_cause_of_a_failed_step_is_named_and_its_whole_output_kept(tmp_path: Path) -> None:
    output = (
        b"error: Failed to fetch: https://example.org/a\n"
        + b"x\n" * 3000
        + b"  Caused by: UnknownIssuer\n"
        + b"y\n" * 900
    )
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 2, b"", output))
    verdict = stage.verdict().verdict
    reports = stage.environment.reports
    assert isinstance(reports, MemoryReports)

    detail = verdict.gates[0].detail
    (name,) = re.findall(r"remand gate report (output-\w+)", detail)
    assert "Caused by: UnknownIssuer" in detail
    assert reports.written[name].count("x\n") == 3000
    text = render_report(verdict)
    assert "Lint, Tests:" in text
    assert text.count("UnknownIssuer") == 1


def test_the_whole_output_of_a_gate_is_named_in_the_report() -> None:
    stage = Stage(clean)
    verdict = stage.verdict().verdict
    reports = stage.environment.reports
    assert isinstance(reports, MemoryReports)

    (name, *_) = re.findall(
        r"whole output: `remand gate report (output-\w+)`", reports.written[verdict.report]
    )
    assert "errors 0" in reports.written[name]


def test_the_figures_of_other_gates_are_shown_when_one_cannot_be_measured() -> None:
    stage = Stage(lambda command, side: said("garbage") if command == "lint" else clean(command, side))

    assert "- Tests: 0 failures in 2 tests (requires 100% pass)" in render_report(stage.verdict().verdict)


def test_each_step_is_told_while_it_runs_and_when_it_has_ended(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 0))
    told: list[tuple[str, str, bool]] = []
    stage.environment = stage.environment._replace(
        progress=lambda name, step, seconds=None: told.append((name, step, seconds is None))
    )
    stage.verdict()

    assert told[:2] == [("lint, tests", "prepare", True), ("lint, tests", "prepare", False)]
    assert {("lint", "run", True), ("lint", "run", False), ("tests", "run", False)} <= set(told)


def test_a_trial_tells_what_a_gate_measures_or_why_it_cannot() -> None:
    stage = Stage(lambda command, side: said("garbage") if command == "lint" else clean(command, side))
    lint, tests = trial(stage)

    assert lint.fault.startswith("the output is no report")
    assert (tests.fault, tests.measured.found and tests.measured.found.figures["tests"]) == ("", 2)


def test_a_trial_takes_no_figures_from_tests_of_which_most_cannot_be_loaded() -> None:
    def script(command: str, side: str) -> JobResult:
        return said("error a\nerror b\npass c\n") if command == "tests" else clean(command, side)

    stage = Stage(script)
    _, tests = trial(stage)

    assert tests.fault.startswith("2 of 3 tests cannot be loaded or set up here: ")


def test_a_trial_names_the_line_to_change_for_a_module_that_nothing_declares(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 0))
    lost = JobResult("exited", 1, b"garbage", b"ModuleNotFoundError: No module named 'trio.abc'")
    done = JobResult("exited", 0)
    sandbox = FakeSandbox(lambda job: done if job.command[0] == "install" else lost)
    environment = stage.environment._replace(sandbox=sandbox)
    lint, _ = trial(stage, environment)

    assert lint.fault.endswith('add "--with", "trio" to `prepare` in remand.toml.')


def readiness(stage: Stage, *missing: str, gates: tuple[Gate, ...] = ()) -> list[tuple[str, str, str]]:
    """Name, fault and remedy of each gate, where these programs are missing."""

    def missing_program(command: Sequence[str], path: Sequence[str]) -> str:
        return command[0] if command[0] in missing else ""

    policy = replace(stage.policy, gates=gates) if gates else stage.policy
    tree = stage.mirror.commits["base"]
    found = check_gates(stage.environment, policy, tree, missing_program)
    return [(one.gate.name, one.fault, one.fix) for one in found]


def test_a_check_makes_prepare_steps_and_runs_no_gate(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 0))

    assert readiness(stage) == [("lint", "", ""), ("tests", "", "")]
    assert [job.command[0] for job in stage.jobs] == ["install"]


def test_a_check_names_a_prepare_step_that_fails_and_the_line_to_change(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 2, b"", b"error: no matching distribution"))

    for name, fault, fix in readiness(stage):
        assert "no matching distribution" in fault
        assert fix == f"Change `prepare` in [gates.{name}] of remand.toml on the base branch."


def test_a_check_names_missing_programs_of_gates_and_of_prepare_steps(tmp_path: Path) -> None:
    stage, _ = prepared_stage(tmp_path, JobResult("exited", 0))

    assert readiness(stage, "install")[0][1] == "program `install` of the prepare step was not found"
    assert not stage.jobs, "a step whose program is missing is not tried"
    assert [fault for _, fault, _ in readiness(stage, "lint")] == ["program `lint` was not found", ""]


@pytest.mark.parametrize(
    ("status", "fault"),
    [(0, ""), (3, "`python` has no module `pytest`"), (1, "`python` failed to run: boom")],
)
def test_a_check_looks_for_the_module_behind_python_where_the_gate_would(status: int, fault: str) -> None:
    stage = Stage(lambda _, __: JobResult("exited", status, b"", b"boom" if status == 1 else b""))
    gate = replace(TESTS, command=("env", "A=1", "python", "-m", "pytest.main", "-q"))
    found = readiness(stage, gates=(gate,))

    assert found[0][1] == (fault and fault.replace("`python`", "`env A=1 python`"))
    (job,) = stage.jobs
    assert job.command[:4] == ("env", "A=1", "python", "-c")
    assert job.command[-1] == "pytest"
    assert bool(found[0][2]) is bool(fault)


def test_a_trial_says_what_to_do_where_a_registry_refuses_or_a_gate_takes_too_long(tmp_path: Path) -> None:
    step = JobResult(
        "exited", 2, b"", b"error: Failed to fetch\ncause: HTTP status client error (403 Forbidden)"
    )
    stage, _ = prepared_stage(tmp_path, step)
    lint, _ = trial(stage)
    slow = Stage(lambda command, side: JobResult("timed_out", 0))
    late, _ = trial(slow)

    assert (lint.is_unprepared, "run `remand init` again in a shell" in lint.fault) == (True, True)
    assert late.fault.endswith('set `timeout = "30m"` in `[gates.lint]`.')


def test_a_trial_names_the_fault_of_tests_that_do_not_compile() -> None:
    stage = Stage(clean)
    unbuilt = Measurement(
        figures={"tests": 0.0, "failures": 0.0, "errors": 1.0}, findings=(GateFinding(text="a.go:1: no"),)
    )
    parser = ReportParser(lambda ran: unbuilt, ("errors", "failures", "tests"), {})
    environment = stage.environment._replace(parser={"lines": parser}.get)
    _, tests = trial(stage, environment)

    assert tests.fault.startswith("The tests could not be built: a.go:1: no.")


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            b"Collecting a\nERROR: No matching distribution found for nope\n[notice] A new release",
            "ERROR: No matching distribution found for nope",
        ),
        (
            b"npm error code ETARGET\nnpm error notarget No matching version\nnpm error A complete log of this run",
            "npm error code ETARGET\nnpm error notarget No matching version",
        ),
        (b"one\ntwo\n", "one\ntwo"),
        (b"", ""),
    ],
    ids=["pip", "npm", "plain", "nothing"],
)
def test_the_rows_that_name_a_cause_are_found(output: bytes, cause: str) -> None:
    assert find_cause(output) == cause


def test_a_test_that_the_task_names_must_pass_although_it_failed_on_the_base() -> None:
    stage = Stage(lambda command, side: said("pass t::one\nfail t::two"), gates=(TESTS,))
    terms = MeasurementTerms(commit="head", base="base", prepare_base="base")
    measure = CommitMeasurement(stage.environment, stage.policy).verdict
    assert measure(terms).verdict.status is GateStatus.PASSED, "it failed before"
    named = measure(replace(terms, must_pass=("t::two",))).verdict
    assert named.status is GateStatus.FAILED
    assert named.gates[-1].line == "- Must-pass: 1 failure (requires 100% pass)"
    assert measure(replace(terms, must_pass=("t::one",))).verdict.status is GateStatus.PASSED
    away = Stage(lambda command, side: JobResult("timed_out", 0), gates=(TESTS,))
    unmeasured = CommitMeasurement(away.environment, away.policy).verdict(
        replace(terms, must_pass=("t::one",))
    )
    assert unmeasured.verdict.status is not GateStatus.FAILED, "it may be among what could not be measured"


def crossing_jobs(
    seconds: float,
    on_base: str = "pass t::one",
    extra: float = 0.0,
    *,
    takes_files: bool = False,
    **policy: object,
) -> tuple[int, list[str]]:
    """How many runs a change of product and tests takes at a gate of such a length, and what is said to be left out.

    Extra runs may take another time.
    """

    def script(command: str, side: str) -> JobResult:
        output = on_base if side == "base" else "pass t::one\npass t::two"
        return said(output)._replace(seconds=extra if extra and side == "other" else seconds)

    stage = Stage(script, **{"gates": (TESTS,), "integrity": True, **policy})
    if takes_files:
        watch = _FakeWatch(takes_files=True)
        stage.environment = stage.environment._replace(watch_results=watch)
    test = b"def test_one():\n    assert f(1) == 2\n"
    stage.mirror.commit("base", {"a.py": b"def f(x):\n    return x\n", "tests/test_a.py": test})
    more = test + b"\n\ndef test_two():\n    assert f(2) == 3\n"
    files = {"a.py": b"def f(x):\n    return x + 1\n", "tests/test_a.py": more}
    stage.mirror.commit("head", files, parent="base")
    notes = stage.verdict().verdict.gates[-1].findings
    assert all(job.limits.seconds <= max(2 * seconds, 20.0) for job in stage.jobs[2:]), "code may hang there"
    return len(stage.jobs), [one.severity for one in notes if one.code == "run_left_out"]


def test_extra_runs_stay_within_their_time_and_what_did_not_fit_is_said() -> None:
    assert crossing_jobs(1.0) == (6, []), (
        "head, base, the tests of each on the code of the other, two mutants"
    )
    assert crossing_jobs(100.0) == (3, ["note", "note"]), "new tests and mutants"
    assert crossing_jobs(9.0) == (4, ["note"]), "mutants take all tests of a runner that leaves none out"
    assert crossing_jobs(100.0, runs=(RunCheck.NEW_TESTS,)) == (3, []), "the other kind is switched off"
    assert crossing_jobs(9.0, takes_files=True) == (4, ["note"]), (
        "the start takes all of the time, and no test"
    )
    assert crossing_jobs(1.0, extra=18.0) == (5, ["note"]), "a mutant took the time of the other"
    assert crossing_jobs(1.0, runs=()) == (2, [])
    assert crossing_jobs(1.0, on_base="nothing") == (5, []), "no test of the base ran that could be compared"


class _FakeWatch:
    """Has every run tell that it began; `spoilt` says on which sides it leaves no report then."""

    def __init__(self, *spoilt: str, takes_files: bool = False) -> None:
        self.spoilt = spoilt
        self.takes_files = takes_files
        self.is_on = False

    @contextmanager
    def __call__(
        self, command: Sequence[str], folder: str, files: Sequence[str] = ()
    ) -> Iterator[ResultWatch | None]:
        self.is_on = True
        records = [ResultRecord(kind="start", takes_files=self.takes_files), ResultRecord(kind="end")]
        yield ResultWatch((f"told-{command[0]}",), {}, lambda: records)

    def script(self, command: str, side: str) -> JobResult:
        is_on, self.is_on = self.is_on, False
        assert command == ("told-tests" if is_on else "tests"), "what is watched is what tells"
        return said("garbage") if is_on and side in self.spoilt else said("pass t::one")


@pytest.mark.parametrize(
    ("spoilt", "held"),
    [(("head", "base"), []), (("head",), ["harness_tampered"]), ((), [])],
)
def test_what_our_plugin_spoils_on_the_base_as_well_is_measured_without_it_and_held_against_nobody(
    spoilt: tuple[str, ...], held: list[str]
) -> None:
    watch = _FakeWatch(*spoilt)
    stage = Stage(watch.script, gates=(TESTS,), integrity=True)
    stage.environment = stage.environment._replace(watch_results=watch)
    verdict = stage.verdict().verdict
    assert verdict.gates[0].status is GateStatus.PASSED
    assert [one.code for one in verdict.gates[-1].findings] == held
