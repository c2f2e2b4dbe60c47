"""Holds what a verdict is worth: that of its required gates, the worst first."""

from itertools import permutations

import msgspec
import pytest

from remand.domain.gate.gate import Gate, GateMode, GatePolicy, GatePreparation, policy_digest
from remand.domain.gate.verdict import (
    INTEGRITY_GATE,
    PASSING,
    UNMEASURED,
    GateResult,
    GateStatus,
    Verdict,
    overall_status,
)
from tests.support.builders import a_result, a_verdict

PASSED, FAILED, HELD = GateStatus.PASSED, GateStatus.FAILED, GateStatus.HELD


def of(*statuses: GateStatus) -> tuple[GateResult, ...]:
    return tuple(a_result(f"gate {number}", status) for number, status in enumerate(statuses))


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((), PASSED),
        ((PASSED, PASSED), PASSED),
        ((PASSED, GateStatus.OVERRIDDEN), GateStatus.OVERRIDDEN),
        ((GateStatus.OVERRIDDEN, HELD), HELD),
        ((PASSED, HELD), HELD),
        ((HELD, GateStatus.STALE), GateStatus.STALE),
        ((HELD, GateStatus.TIMED_OUT), GateStatus.TIMED_OUT),
        ((HELD, GateStatus.ERRORED), GateStatus.ERRORED),
        ((GateStatus.TIMED_OUT, GateStatus.ERRORED), GateStatus.ERRORED),
        ((GateStatus.ERRORED, FAILED), FAILED),
        ((HELD, FAILED), FAILED),
    ],
)
def test_the_status_is_that_of_the_gate_that_matters_most(
    statuses: tuple[GateStatus, ...], expected: GateStatus
) -> None:
    assert {overall_status(of(*order)) for order in permutations(statuses)} == {expected}


@pytest.mark.parametrize("status", sorted(set(GateStatus)))
def test_a_gate_that_is_not_let_through_is_never_a_pass(status: GateStatus) -> None:
    verdict = a_verdict(a_result("lint", status))

    assert verdict.status is status
    assert verdict.allows_submission == (status in PASSING)
    assert bool(verdict.blocking_gates) == (status not in PASSING)


def test_every_status_lets_work_through_or_does_not() -> None:
    assert set(GateStatus) == PASSING | UNMEASURED | {FAILED, HELD}
    assert not PASSING & UNMEASURED


@pytest.mark.parametrize("status", sorted(set(GateStatus)))
def test_what_is_not_required_changes_nothing(status: GateStatus) -> None:
    extra = a_result("extra", status, is_required=False, failing_count=9, excess=9.0, suspicions=("f1",))

    verdict = a_verdict(a_result("lint", PASSED), extra)

    assert (verdict.status, verdict.blocking_gates, verdict.suspicions) == (PASSED, (), ())
    assert (verdict.failing_count, verdict.excess) == (0, 0)


def test_failing_tests_and_excess_are_summed_over_the_required_gates() -> None:
    gates = (a_result("lint", excess=2.5), a_result("tests", failing_count=3, excess=3.0))

    verdict = a_verdict(*gates)

    assert (verdict.failing_count, verdict.excess) == (3, 5.5)
    assert verdict.blocking_gates == ("lint", "tests")


@pytest.mark.parametrize("status", sorted(set(GateStatus)))
def test_a_reviewer_settles_what_a_gate_holds_and_nothing_else(status: GateStatus) -> None:
    verdict = a_verdict(a_result(INTEGRITY_GATE, status, suspicions=("f1", "f2")))

    assert verdict.suspicions == (("f1", "f2") if status is HELD else ())


def test_a_verdict_reads_back_as_it_was_written() -> None:
    verdict = a_verdict(a_result("lint", measured={"errors": 1.0}), base="b", policy="p", tier="plain")

    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


# The rules it was judged by.

POLICY = GatePolicy(gates=(Gate(name="lint", command=("ruff",), require={"max_errors": 0}),))


@pytest.mark.parametrize(
    "changed",
    [
        GatePolicy(),
        GatePolicy(gates=()),
        msgspec.structs.replace(POLICY, enforce=False),
        msgspec.structs.replace(POLICY, integrity=False),
        msgspec.structs.replace(POLICY, protected=("setup.cfg",)),
        *(
            msgspec.structs.replace(POLICY, gates=(msgspec.structs.replace(POLICY.gates[0], **change),))
            for change in (
                {"require": {"max_errors": 1}},
                {"command": ("ruff", "check")},
                {"parser": "ruff"},
                {"mode": GateMode.STRICT},
                {"required": False},
                {"paths": ("src/**",)},
                {"prepare": GatePreparation(command=("uv",))},
                {"retries": 1},
            )
        ),
    ],
    ids=str,
)
def test_the_digest_changes_with_any_rule(changed: GatePolicy) -> None:
    assert policy_digest(changed) != policy_digest(POLICY)


def test_the_digest_is_the_same_for_the_same_rules() -> None:
    gates = tuple(
        Gate(name="lint", command=("ruff",), require=require)
        for require in ({"max_errors": 0, "max_warnings": 1}, {"max_warnings": 1, "max_errors": 0})
    )

    assert policy_digest(GatePolicy(gates=gates[:1])) == policy_digest(GatePolicy(gates=gates[1:]))
