"""Holds when a gate passes: its figures against the threshold, and against a base that may miss it already."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.gate.gate import Gate, GateFinding, GateMode, Measurement, TestOutcome, UnreadableReport
from remand.domain.gate.judge import (
    MAX_FIGURE,
    MAX_IDS,
    MAX_KEPT_FINDINGS,
    MAX_TEXT_LENGTH,
    MAX_WHY_LENGTH,
    failing_ids,
    judge_gate,
    make_broken_result,
    make_unmeasured_result,
    make_untouched_result,
    needs_base,
    require_figures,
    select_findings,
)
from remand.domain.gate.verdict import GateResult, GateStatus

PASSED, FAILED = GateStatus.PASSED, GateStatus.FAILED
SECRET = "ghp_" + "a1B2" * 9


def a_gate(name: str = "lint", mode: GateMode = GateMode.DELTA, **require: float) -> Gate:
    return Gate(name=name, command=("make", name), mode=mode, require=require)


def found(**figures: float) -> Measurement:
    return Measurement(figures=figures)


def a_run(*failed: str, passed: int = 3, **figures: float) -> Measurement:
    """A run of tests of which these failed."""
    good = [TestOutcome(id=f"good {number}", outcome="passed") for number in range(passed)]
    bad = [TestOutcome(id=name, outcome="failed") for name in failed]
    counted = {"tests": float(len(good) + len(bad)), "failures": float(len(bad)), **figures}
    return Measurement(figures=counted, tests=(*good, *bad))


# The modes.


@pytest.mark.parametrize(
    ("limit", "now", "base", "passes"),
    [
        (0, 0, None, "delta ratchet strict"),
        (0, 0, 5, "delta ratchet strict"),
        (0, 1, None, ""),
        (0, 1, 0, ""),
        (0, 5, 5, "delta ratchet"),
        (0, 4, 5, "delta ratchet"),
        (0, 6, 5, ""),
        (50, 50, None, "delta ratchet strict"),
        (50, 51, None, ""),
        (50, 51, 50, ""),
        (50, 40, 30, "delta strict"),
        (50, 30, 30, "delta ratchet strict"),
        (50, 20, 30, "delta ratchet strict"),
        (50, 60, 70, "delta ratchet"),
    ],
)
def test_a_maximum_is_held_as_the_mode_says(
    limit: float, now: float, base: float | None, passes: str
) -> None:
    before = None if base is None else found(errors=base)

    passing = [
        mode
        for mode in GateMode
        if judge_gate(a_gate(mode=mode, max_errors=limit), found(errors=now), before).status is PASSED
    ]

    assert passing == passes.split()


@pytest.mark.parametrize(
    ("limit", "now", "base", "passes"),
    [
        (80, 80, None, "delta ratchet strict"),
        (80, 79.99, None, ""),
        (80, 79.99, 80, ""),
        (80, 70, 70, "delta ratchet"),
        (80, 71, 70, "delta ratchet"),
        (80, 69.9, 70, ""),
        (80, 85, 90, "delta strict"),
        (80, 90, 85, "delta ratchet strict"),
    ],
)
def test_a_minimum_is_held_as_the_mode_says(
    limit: float, now: float, base: float | None, passes: str
) -> None:
    before = None if base is None else found(coverage=base)

    passing = [
        mode
        for mode in GateMode
        if judge_gate(a_gate("coverage", mode, min_coverage=limit), found(coverage=now), before).status
        is PASSED
    ]

    assert passing == passes.split()


@pytest.mark.parametrize("mode", GateMode)
def test_every_threshold_has_to_hold(mode: GateMode) -> None:
    gate = a_gate(mode=mode, max_errors=0, max_warnings=50)

    assert judge_gate(gate, found(errors=0, warnings=50), None).status is PASSED
    assert judge_gate(gate, found(errors=0, warnings=51), None).status is FAILED
    assert judge_gate(gate, found(errors=1, warnings=0), None).status is FAILED


def test_one_threshold_that_the_base_misses_excuses_no_other() -> None:
    gate = a_gate(max_errors=0, max_warnings=50)

    result = judge_gate(gate, found(errors=5, warnings=51), found(errors=5, warnings=50))

    assert result.status is FAILED
    assert result.excess == 1


def test_a_figure_the_base_does_not_have_excuses_nothing() -> None:
    gate = a_gate(max_errors=0)

    result = judge_gate(gate, found(errors=1), found(warnings=9))

    assert result.status is FAILED
    assert result.detail == ""


def test_a_ratchet_says_nothing_of_a_figure_the_base_does_not_have() -> None:
    gate = a_gate(mode=GateMode.RATCHET, max_errors=5)

    assert judge_gate(gate, found(errors=1), found(warnings=0)).status is PASSED


def test_a_gate_that_requires_nothing_passes_and_says_so() -> None:
    result = judge_gate(a_gate(), found(errors=5), None)

    assert result.status is PASSED
    assert result.line == "- Lint: measured (requires nothing)"


# Tests that fail.


@pytest.mark.parametrize("mode", [GateMode.DELTA, GateMode.RATCHET])
def test_failures_that_the_base_has_are_nobodys(mode: GateMode) -> None:
    gate = a_gate("tests", mode, max_failures=0)

    result = judge_gate(gate, a_run("a", "b"), a_run("b", "a"))

    assert result.status is PASSED
    assert (result.failing_count, result.excess) == (0, 0)
    assert result.detail == "The base already has 2 failures; nothing got worse."


@pytest.mark.parametrize("mode", [GateMode.DELTA, GateMode.RATCHET])
def test_a_new_failure_counts_even_when_there_are_no_more_than_before(mode: GateMode) -> None:
    gate = a_gate("tests", mode, max_failures=0)

    result = judge_gate(gate, a_run("a", "new"), a_run("a", "mended", "too"))

    assert result.status is FAILED
    assert (result.failing, result.failing_count) == (("new",), 1)
    assert result.detail == "The base has 3 failures; 1 of the failures is new."


def a_run_with_subtests(**failures: int) -> Measurement:
    """A run of tests, each of which failed in so many of its subtests."""
    tests = tuple(
        TestOutcome(id=name, outcome="failed", failure_count=count) for name, count in failures.items()
    )
    return Measurement(figures={"tests": float(len(tests)), "failures": float(len(tests))}, tests=tests)


@pytest.mark.parametrize("mode", [GateMode.DELTA, GateMode.RATCHET])
def test_a_test_that_fails_in_more_subtests_than_on_the_base_is_a_new_failure(mode: GateMode) -> None:
    gate = a_gate("tests", mode, max_failures=0)

    result = judge_gate(gate, a_run_with_subtests(a=1, b=3), a_run_with_subtests(a=1, b=2))

    assert result.status is FAILED
    assert (result.failing, result.failing_count) == (("b",), 1)
    assert result.detail == (
        "The base has 2 failures; 1 of the failures is new. 1 test fails in more subtests than on the base."
    )


@pytest.mark.parametrize("now", [1, 2])
def test_a_test_that_fails_in_no_more_subtests_than_on_the_base_is_nobodys(now: int) -> None:
    gate = a_gate("tests", GateMode.DELTA, max_failures=0)

    assert judge_gate(gate, a_run_with_subtests(a=now), a_run_with_subtests(a=2)).status is PASSED


def test_a_new_failure_within_the_threshold_is_forbidden_by_a_ratchet_alone() -> None:
    outcomes = {
        mode: judge_gate(a_gate("tests", mode, max_failures=5), a_run("new"), a_run("old")).status
        for mode in GateMode
    }

    assert outcomes == {GateMode.DELTA: PASSED, GateMode.RATCHET: FAILED, GateMode.STRICT: PASSED}


def test_strict_knows_no_base() -> None:
    gate = a_gate("tests", GateMode.STRICT, max_failures=0)

    result = judge_gate(gate, a_run("a", "new"), a_run("a"))

    assert result.status is FAILED
    assert result.failing == ("a", "new")


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_a_failing_test_is_one_that_failed_or_broke_each_once(outcome: str) -> None:
    again = TestOutcome(id="a", outcome=outcome)
    others = tuple(TestOutcome(id=name, outcome=name) for name in ("passed", "skipped"))

    assert failing_ids(Measurement(tests=(again, *others, again))) == ("a",)


@pytest.mark.parametrize("mode", GateMode)
@pytest.mark.parametrize("base", [None, a_run(passed=0), a_run(passed=9)], ids=["no base", "empty", "full"])
def test_no_tests_collected_is_a_failure_whatever_the_base_has(
    mode: GateMode, base: Measurement | None
) -> None:
    gate = a_gate("tests", mode, max_failures=0)

    result = judge_gate(gate, a_run(passed=0), base)

    assert result.status is FAILED
    assert result.line == "- Tests: no tests were collected (requires at least 1)"
    assert result.excess == 1


def test_a_gate_without_tests_is_not_one_whose_tests_are_missing() -> None:
    assert judge_gate(a_gate(max_errors=0), found(errors=0), None).status is PASSED


# What cannot be judged.


@pytest.mark.parametrize("mode", GateMode)
def test_a_figure_that_is_required_and_not_there_is_unreadable(mode: GateMode) -> None:
    gate = a_gate(mode=mode, max_errors=0, max_warnings=50)

    with pytest.raises(UnreadableReport, match=r"`warnings`.*`max_warnings`"):
        judge_gate(gate, found(errors=0), None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, MAX_FIGURE, -MAX_FIGURE], ids=str)
@pytest.mark.parametrize("figure", ["errors", "not_required"])
def test_what_is_no_figure_is_unreadable_and_never_a_pass(figure: str, value: float) -> None:
    gate, odd = a_gate(max_errors=0), found(**{"errors": 0.0, figure: value})

    for judging in (
        lambda: require_figures(odd),
        lambda: judge_gate(gate, odd, None),
        lambda: judge_gate(gate, found(errors=1), odd),
        lambda: needs_base(gate, odd),
    ):
        with pytest.raises(UnreadableReport, match=f"`{figure}`"):
            judging()


@pytest.mark.parametrize("status", [GateStatus.ERRORED, GateStatus.TIMED_OUT])
def test_what_could_not_be_measured_is_said_to_be_so(status: GateStatus) -> None:
    result = make_unmeasured_result(a_gate(max_errors=0), status, "It would not start.")

    assert result.status is status
    assert result.detail == "It would not start."
    assert result.required == {"max_errors": 0}
    assert result.line.startswith("- Lint: ")
    assert ("timed out" in result.line) == (status is GateStatus.TIMED_OUT)


def test_a_gate_that_the_work_broke_fails_and_what_it_said_is_a_finding() -> None:
    result = make_broken_result(a_gate(max_errors=0), f"It said last: {SECRET}")

    assert (result.status, result.excess, result.required) == (FAILED, 1, {"max_errors": 0})
    assert result.line.startswith("- Lint: no longer runs to completion")
    assert [finding.text for finding in result.findings] == ["It said last: [redacted: GitHub token]"]
    assert (result.finding_count, result.detail) == (1, "")


def test_a_gate_about_files_nobody_changed_is_not_run_and_passes() -> None:
    result = make_untouched_result(a_gate(max_errors=0))

    assert (result.status, result.line) == (PASSED, "- Lint: not run")


@pytest.mark.parametrize("is_required", [True, False])
def test_a_result_says_whether_the_gate_is_required(is_required: bool) -> None:
    gate = Gate(name="lint", command=("ruff",), require={"max_errors": 0}, required=is_required)

    results = [
        judge_gate(gate, found(errors=1), None),
        make_unmeasured_result(gate, GateStatus.ERRORED, ""),
        make_untouched_result(gate),
    ]

    assert {result.is_required for result in results} == {is_required}


# When the base is asked.


@pytest.mark.parametrize(
    ("mode", "now", "expected"),
    [
        (GateMode.DELTA, found(errors=0), False),
        (GateMode.DELTA, found(errors=1), True),
        (GateMode.RATCHET, found(errors=0), True),
        (GateMode.RATCHET, found(errors=1), True),
        (GateMode.STRICT, found(errors=0), False),
        (GateMode.STRICT, found(errors=1), False),
    ],
)
def test_the_base_is_measured_only_where_it_matters(mode: GateMode, now: Measurement, expected: bool) -> None:
    assert needs_base(a_gate(mode=mode, max_errors=0), now) == expected


@pytest.mark.parametrize("mode", GateMode)
def test_no_base_can_excuse_that_there_are_no_tests(mode: GateMode) -> None:
    assert not needs_base(a_gate("tests", mode, max_failures=0), a_run(passed=0))


# What is told.


def test_a_result_has_the_figures_of_both_sides() -> None:
    gate = a_gate(max_errors=0, max_warnings=50)

    result = judge_gate(gate, found(errors=509, warnings=344, notes=1), found(errors=3, warnings=1))

    assert result.measured == {"errors": 509, "warnings": 344, "notes": 1}
    assert result.required == {"max_errors": 0, "max_warnings": 50}
    assert result.base == {"errors": 3, "warnings": 1}
    assert result.line == "- Lint: 509 errors, 344 warnings (requires 0 errors, max 50 warnings)"
    assert result.detail == "The base has 3 errors, 1 warning."


def test_the_excess_is_what_is_over_all_limits_together() -> None:
    gate = a_gate(max_errors=0, max_warnings=50, min_coverage=80)

    result = judge_gate(gate, found(errors=9, warnings=344, coverage=70.5), None)

    assert result.excess == 9 + 294 + 9.5


def test_the_excess_of_a_ratchet_counts_a_figure_once() -> None:
    over_the_limit = judge_gate(a_gate(mode=GateMode.RATCHET, max_errors=0), found(errors=5), found(errors=3))
    within_it = judge_gate(a_gate(mode=GateMode.RATCHET, max_errors=9), found(errors=5), found(errors=3))
    new = judge_gate(a_gate("tests", GateMode.RATCHET, max_failures=0), a_run("new"), a_run("old"))

    assert (over_the_limit.excess, within_it.excess, new.excess) == (5, 2, 1)


def test_a_ratchet_says_that_it_may_not_get_worse() -> None:
    result = judge_gate(a_gate(mode=GateMode.RATCHET, max_errors=9), found(errors=5), found(errors=3))

    assert result.detail == "The base has 3 errors; this gate may not get worse (ratchet)."


def test_new_failures_and_the_worst_findings_are_kept_first() -> None:
    findings = [
        GateFinding(text="a note", severity="note"),
        GateFinding(text="a warning", severity="warning"),
        GateFinding(text="an old failure", code="old"),
        GateFinding(text="a new failure", code="new"),
    ]

    shown = select_findings(tuple(findings), ("new",))

    assert [finding.text for finding in shown] == ["a new failure", "an old failure", "a warning", "a note"]


def test_the_failures_of_the_base_do_not_hide_the_new_one() -> None:
    names = [f"old {number}" for number in range(MAX_KEPT_FINDINGS)]
    findings = tuple(GateFinding(code=name, text="It broke.") for name in [*names, "new"])
    now = msgspec.structs.replace(a_run(*names, "new"), findings=findings)

    result = judge_gate(a_gate("tests", max_failures=0), now, a_run(*names))

    assert result.findings[0].code == "new"


def test_of_many_findings_and_failures_the_first_are_kept_and_all_counted() -> None:
    names = [f"t{number:04d}" for number in range(MAX_IDS + 7)]
    findings = tuple(GateFinding(text=name) for name in names)
    now = msgspec.structs.replace(a_run(*names), findings=findings)

    result = judge_gate(a_gate("tests", max_failures=0), now, None)

    assert (len(result.findings), result.finding_count) == (MAX_KEPT_FINDINGS, len(names))
    assert (result.failing, result.failing_count) == (tuple(names[:MAX_IDS]), len(names))


def a_result_with(text: str) -> GateResult:
    finding = GateFinding(path=text, code=text, text=text)
    now = Measurement(
        figures={"failures": 1, "tests": 1},
        findings=(finding,),
        tests=(TestOutcome(id=text, outcome="failed"),),
    )
    return judge_gate(a_gate("tests", max_failures=0), now, None, flaky=(text,))


def test_secrets_are_taken_out_before_anything_is_written_down() -> None:
    text = f"test_login[{SECRET}]"

    written = msgspec.json.encode(
        [a_result_with(text), make_unmeasured_result(a_gate(), GateStatus.ERRORED, text)]
    ).decode()

    assert SECRET not in written
    assert written.count("[redacted: GitHub token]") == 6


def test_no_half_of_a_secret_is_left_where_a_text_is_cut() -> None:
    for place in range(MAX_TEXT_LENGTH - len(SECRET), MAX_TEXT_LENGTH):
        (finding,) = a_result_with("x" * (place - 1) + " " + SECRET).findings

        assert len(finding.text) <= MAX_TEXT_LENGTH
        assert "ghp_" not in finding.text


@pytest.mark.parametrize("text", ["x" * 100_000, "\N{FACE WITH TEARS OF JOY}" * 1000])
def test_what_tools_say_is_written_down_cut_short(text: str) -> None:
    result = a_result_with(text)
    (finding,) = result.findings
    why = make_unmeasured_result(a_gate(), GateStatus.ERRORED, text).detail

    assert {len(part) for part in (finding.path, finding.code, finding.text)} == {MAX_TEXT_LENGTH}
    assert {len(part) for part in (*result.failing, *result.flaky)} == {MAX_TEXT_LENGTH}
    assert len(why) == MAX_WHY_LENGTH


@pytest.mark.parametrize("text", ["caf\udce9.py", "\ud800"])
def test_what_is_no_utf_8_is_spelled_out(text: str) -> None:
    written_down = a_result_with(text)

    assert msgspec.json.decode(msgspec.json.encode(written_down), type=GateResult) == written_down
    assert "\\ud" in written_down.findings[0].text


def test_what_the_base_has_not_been_told_of_stands_first() -> None:
    def told(*texts: str) -> Measurement:
        return Measurement(figures={"errors": 9}, findings=tuple(GateFinding(text=text) for text in texts))

    result = judge_gate(a_gate(max_errors=0), told("old", "old", "new", "old", "newer"), told("old", "old"))

    assert [finding.text for finding in result.findings] == ["new", "old", "newer", "old", "old"]


# Whatever is measured.

figures = st.dictionaries(st.sampled_from(["errors", "tests", "coverage"]), st.floats(), max_size=3)
thresholds = st.dictionaries(
    st.sampled_from(["max_errors", "min_tests", "min_coverage"]), st.floats(0, 1e9), max_size=3
)


@given(thresholds, figures, st.none() | figures, st.sampled_from(GateMode))
def test_a_gate_that_passes_misses_nothing_that_its_base_does_not(
    require: dict[str, float], now: dict[str, float], base: dict[str, float] | None, mode: GateMode
) -> None:
    gate = Gate(name="g", command=("x",), mode=mode, require=require)
    try:
        result = judge_gate(
            gate, Measurement(figures=now), Measurement(figures=base) if base is not None else None
        )
    except UnreadableReport:
        return

    assert msgspec.json.decode(msgspec.json.encode(result), type=GateResult) == result
    if result.status is FAILED:
        assert result.excess > 0
        return
    for name, limit in require.items():
        is_max, value, before = name.startswith("max"), now[name[4:]], (base or {}).get(name[4:])
        holds = value <= limit if is_max else value >= limit
        is_excused = before is not None and (value <= before if is_max else value >= before)
        assert holds or (is_excused and mode is not GateMode.STRICT)


def test_what_the_base_has_not_is_shown_before_what_it_has() -> None:
    old = tuple(GateFinding(path="old.py", line=n, code="E1", text="same") for n in range(30))
    new = GateFinding(path="new.py", line=1, code="E1", text="same")
    gate = Gate(name="lint", command=("lint",), parser="ruff", require={"max_errors": 0.0})
    base = Measurement(figures={"errors": 30.0}, findings=old)
    found = Measurement(figures={"errors": 31.0}, findings=(*old, new))
    assert judge_gate(gate, found, base).findings[0].path == "new.py"
