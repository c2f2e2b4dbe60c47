"""Holds when a gate counts as broken: which causes are the same, and which gates were measured."""

import pytest

from remand.domain.gate.state import (
    ANY_CAUSE,
    MAX_GATES,
    Outage,
    broken_gate_names,
    comparable_cause,
    find_measured_gates,
    find_outages,
    outages_after_verdict,
    render_outage_question,
    summarise_cause,
)
from remand.domain.gate.verdict import RUNNER_GATE, GateResult, GateStatus, make_unstarted_verdict
from remand.testing.builders import SHA
from tests.support.builders import a_result, a_verdict

ERRORED, TIMED_OUT = GateStatus.ERRORED, GateStatus.TIMED_OUT
SAID = "The report is not there. It said last: "


def errored(detail: str = "", name: str = "tests", **fields: object) -> GateResult:
    return a_result(name, ERRORED, detail=detail, **fields)


def outage(
    gate: str = "tests", cause: str = "no pytest", policy: str = "p1", text: str = "no pytest"
) -> Outage:
    return Outage(gate=gate, cause=cause, text=text, policy=policy)


SAME = {
    "a path": ("no such file: /tmp/a/venv/bin/ruff", "no such file: /home/me/venv/bin/ruff"),
    "a relative path": ("cannot read build/x1/report", "cannot read build/y22/report"),
    "a path on Windows": ("cannot read C:\\work\\report", "cannot read C:\\other\\report"),
    "a temporary name": ("cannot open tmpab_k9sd", "cannot open tmpzzyyxwq"),
    "numbers": ("ended after 12.5 s with status 3", "ended after 7 s with status 4"),
    "one and many": ("1 error during collection", "12 errors during collection"),
    "a process": ("pid 4711: killed", "pid 99: killed"),
    "an address": ("object at 0x7f3a11cc dies", "object at 0x55deadbe dies"),
    "a hash": ("bad object deadbeefcafe", "bad object 0a1b2c3d4e5f"),
    "an id": ("run 1e1ad-77-b4 failed", "run 9f02c-11-aa failed"),
    "a time": ("08:28:23.589 no disk", "17:01:00.1 no disk"),
    "a date": ("Mon Nov 16 08:28:23 2026: no disk", "Tue Dec 1 23:59:59 2026: no disk"),
    "an ISO time": ("2026-11-16T08:28:23Z no disk", "2027-01-01T00:00:00Z no disk"),
    "what a tool said before its last line": (f"{SAID}one\nno pytest", f"{SAID}two\nthree\nno pytest"),
    "where the output is cut": (f"{SAID}ng 12\nno pytest", f"{SAID}testing 12\nno pytest"),
    "blanks and case": ("No  Module\tnamed x", "no module named x"),
}
OTHER = {
    "another module": (f"{SAID}No module named pytest", f"{SAID}No module named yaml"),
    "other words of ours": (f"{SAID}no pytest", "The report is no XML. It said last: no pytest"),
    "another fault": ("no space left on device", "permission denied"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_a_cause_is_the_same_whatever_differs_from_time_to_time(pair: tuple[str, str]) -> None:
    one, two = (comparable_cause(errored(detail)) for detail in pair)
    assert one == two != ""


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_another_cause_is_another(pair: tuple[str, str]) -> None:
    one, two = (comparable_cause(errored(detail)) for detail in pair)
    assert one != two


def test_running_out_of_time_is_one_cause_wherever_the_command_was() -> None:
    one, two = (
        comparable_cause(a_result("tests", TIMED_OUT, detail=f"It did not end. It said last: {said}"))
        for said in ("collecting", "half of it")
    )
    assert one == two


def test_very_much_text_costs_no_time_to_compare() -> None:
    for text in ("a" * 250_000, "/" * 250_000, "a/" * 100_000, "1a" * 100_000, "tmp" * 80_000):
        assert len(comparable_cause(errored(text))) <= 200
        assert len(summarise_cause(errored(text))) <= 310


def test_the_same_cause_twice_breaks_a_gate_and_two_causes_do_not() -> None:
    assert broken_gate_names([outage()], "p1") == frozenset()
    assert broken_gate_names([outage(), outage()], "p1") == {"tests"}
    assert broken_gate_names([outage(), outage(cause="no disk")], "p1") == frozenset()


def test_a_gate_that_fails_for_another_cause_each_time_is_broken_after_a_few() -> None:
    causes = [outage(cause=f"cause {'abc'[number]}") for number in range(ANY_CAUSE)]
    assert broken_gate_names(causes[:-1], "p1") == frozenset()
    assert broken_gate_names(causes, "p1") == {"tests"}


def test_two_gates_are_counted_apart() -> None:
    assert broken_gate_names([outage("tests"), outage("lint")], "p1") == frozenset()


def test_what_could_not_be_measured_by_other_rules_does_not_count() -> None:
    assert broken_gate_names([outage(policy="p0"), outage(policy="p1")], "p1") == frozenset()


def test_a_gate_that_is_not_required_has_no_outage() -> None:
    verdict = a_verdict(errored(is_required=False), a_result("lint", TIMED_OUT))
    assert [one.gate for one in find_outages(verdict)] == ["lint"]


@pytest.mark.parametrize(
    ("result", "is_measured"),
    [
        (a_result("tests", GateStatus.PASSED, measured={"failures": 0.0}), True),
        (a_result("tests", GateStatus.FAILED, measured={"failures": 1.0}), True),
        (a_result("tests", GateStatus.PASSED), False),
        (a_result("tests", GateStatus.OVERRIDDEN), False),
        (a_result("tests", GateStatus.PASSED, measured={"failures": 0.0}, is_known=True), False),
        (errored(), False),
    ],
    ids=["passed", "failed", "not run", "let pass by the user", "known from before", "errored"],
)
def test_only_figures_of_now_show_that_a_gate_can_be_measured(result: GateResult, is_measured: bool) -> None:
    assert ("tests" in find_measured_gates(a_verdict(result))) is is_measured


def test_the_gates_can_be_started_again_once_any_of_them_was() -> None:
    assert find_measured_gates(make_unstarted_verdict(SHA, "", "no sandbox")) == frozenset()
    assert find_measured_gates(a_verdict(errored())) == {RUNNER_GATE}


def test_a_measurement_ends_the_outages_of_its_gate_alone() -> None:
    known = (outage("tests"), outage("lint"))
    verdict = a_verdict(a_result("tests", GateStatus.FAILED, measured={"failures": 1.0}))
    assert outages_after_verdict(known, verdict, "") == (outage("lint"),)


def test_a_task_keeps_few_outages_whatever_a_file_says() -> None:
    known: tuple[Outage, ...] = ()
    for number in range(10):
        gates = (errored(str(number), f"{name}{'x' * 1000}") for name in range(100))
        known = outages_after_verdict(known, a_verdict(*gates), "")
    assert len(known) <= MAX_GATES * ANY_CAUSE
    assert all(len(one.gate) <= 80 and len(one.text) <= 310 for one in known)


def test_of_a_long_cause_the_line_that_says_it_comes_first() -> None:
    detail = f"The prepare step `npm ci` failed: {'npm WARN old ' * 60}\nnpm ERR! no certificate"
    assert summarise_cause(errored(detail)).startswith(
        "npm ERR! no certificate (The prepare step `npm ci` failed"
    )
    slow = a_result("tests", TIMED_OUT, detail="It did not end within 9 s. It said last: collecting")
    assert summarise_cause(slow) == "It did not end within 9 s (collecting)"


ADVICE = {
    "`[sandbox] path`": errored(f"{SAID}/usr/bin/python3: No module named pytest"),
    "Install what is missing": errored("`ruff` failed to run: The program ruff is in none of /bin"),
    "`timeout`": a_result("tests", TIMED_OUT, detail="It did not end within 600 s."),
    "`prepare`": errored("The prepare step `uv sync` failed: uv: not found"),
    "Free space": errored("It failed to run: [Errno 28] No space left on device: '/x'."),
    "remand doctor": errored("`bwrap` failed to run: no user namespace"),
    "`parser`": errored("there is no report"),
}


@pytest.mark.parametrize(
    "why",
    [
        "`bin/ruff` failed to run: The program bin/ruff is not there",
        "the command ended with status 126: a program could not be started\nIt said last: sh: ruff: Permission denied",
    ],
)
def test_a_missing_program_is_to_be_installed_however_that_is_said(why: str) -> None:
    assert "Install what is missing" in render_outage_question(find_outages(a_verdict(errored(why))))


@pytest.mark.parametrize(("advice", "result"), ADVICE.items(), ids=ADVICE)
def test_the_question_says_which_gate_why_what_to_change_and_how_to_try_again(
    advice: str, result: GateResult
) -> None:
    asked = render_outage_question(find_outages(a_verdict(result)))
    assert "The gate `tests` could not be measured" in asked
    assert summarise_cause(result) in asked
    assert advice in asked
    assert f"`remand gate run --fresh --commit {SHA[:12]}`" in asked
    assert "retry" in asked
    assert "\n" not in asked


def test_gates_with_one_cause_are_asked_about_in_one_sentence() -> None:
    asked = render_outage_question(
        find_outages(a_verdict(errored("no disk", "lint"), errored("no disk", "tests")))
    )
    assert asked.startswith("The gates `lint` and `tests` could not be measured")
    assert asked.count("no disk") == 1
