"""Holds what reviewers and the user may settle about a done claim, and what follows from it."""

import pytest

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.findings import apply_settlements, hold_for_changed_rules
from remand.domain.decisions.gates import is_settled_by_people
from remand.domain.events.tasks import LeaseExpired, LeaseRenewed, TaskSubmitted
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRejected,
)
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.domain.instant import add_seconds
from remand.domain.task import MAX_LEASE_SECONDS, Claim, Status
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    NOW,
    SHA,
    T1,
    TREE,
    a_claim,
    a_task,
    actor,
    task_claimed,
)
from tests.support.builders import LEAD, OTHER_SHA, THE_USER, a_result, a_verdict, decide_events, refusal_code
from tests.unit.domain.done_claims import (
    SUBMIT,
    WORK,
    Story,
    failed,
    held,
    names,
    overriding,
    passed,
    recording,
    settling,
)

LEA = actor("Lea", Role.LEAD, Role.AGENT)


# What a reviewer settles.


def test_a_held_claim_goes_on_with_a_long_lease() -> None:
    story = Story()

    (event,) = story.ask(recording(held("f1", "f2")))

    assert isinstance(event, GateHeld)
    assert (event.branch, event.pr) == ("roof", 7)
    task = story.task
    assert (task.status, task.gates.held) == (Status.CLAIMED, ("f1", "f2"))
    assert task.claim is not None
    assert add_seconds(NOW, 6 * 86400) < task.claim.lease_expires_at < add_seconds(NOW, MAX_LEASE_SECONDS + 1)
    assert task.gates.rejection_count == 0


def test_a_held_claim_hands_nothing_in_by_itself() -> None:
    story = Story()
    story.ask(recording(held()))

    assert refusal_code(story.task, SUBMIT, ALICE, **WORK) == "not_measured"


def test_once_every_finding_is_accepted_the_held_work_is_handed_in() -> None:
    story = Story()
    story.ask(recording(held("f1", "f2")))

    assert names(story.ask(settling("f2"), LEAD)) == ["gate.accept"]
    accepted, verdict, work = story.ask(settling("f1", reason="It is a rename."), LEAD)

    assert accepted == FindingAccepted(task_id=T1, finding="f1", reviewer="Lead", reason="It is a rename.")
    assert isinstance(verdict, GatePassed)
    assert (verdict.agent, verdict.verdict.status) == ("Alice", GateStatus.PASSED)
    assert work == TaskSubmitted(
        task_id=T1, handoff_id=H1, agent="Alice", commit=SHA, tree=TREE, branch="roof", pr=7
    )
    assert (story.task.status, story.task.people.authors) == (Status.PROVISIONAL, ("Alice",))


def test_the_same_finding_accepted_twice_is_one() -> None:
    story = Story()
    story.ask(recording(held("f1", "f2")))
    story.ask(settling("f1"), LEAD)

    assert names(story.ask(settling("f1"), THE_USER)) == ["gate.accept"]
    assert story.task.gates.decisions.accepted == ("f1",)


def test_a_refused_finding_sends_the_work_back_and_counts() -> None:
    story = Story()
    story.ask(recording(held("f1", "f2")))

    refusal, rejection, lease = story.ask(
        settling("f1", is_accepted=False, reason="It hides a bug."), LEAD, at=LATER, lease_seconds=1800
    )

    assert refusal == FindingRefused(task_id=T1, finding="f1", reviewer="Lead", reason="It hides a bug.")
    assert isinstance(rejection, GateRejected)
    assert rejection.because == "a reviewer refused the finding f1: It hides a bug."
    assert rejection.verdict.blocking_gates == (INTEGRITY_GATE,)
    assert isinstance(lease, LeaseRenewed)
    task = story.task
    assert (task.status, task.gates.rejection_count, task.gates.progress.count) == (Status.CLAIMED, 1, 1)
    assert task.claim is not None
    assert task.claim.lease_expires_at == add_seconds(LATER, 1800), "nobody may be at work on it any more"


def test_refused_findings_alert_and_escalate_as_other_rejections_do() -> None:
    story = Story()
    outcomes = []
    for number in range(5):
        story.ask(recording(held(f"f{number}")))
        outcomes.append(names(story.ask(settling(f"f{number}", is_accepted=False), LEAD))[1:])

    assert [outcome[1] for outcome in outcomes] == [
        *("task.heartbeat", "task.heartbeat", "gate.alert", "task.heartbeat", "escalation.open")
    ]
    assert INTEGRITY_GATE in story.events[-1].reason


def test_a_rejection_after_a_hold_ends_the_long_lease() -> None:
    story = Story()
    story.ask(recording(held()))

    events = story.ask(recording(failed()), at=LATER, lease_seconds=600)

    assert names(events) == ["gate.reject", "task.heartbeat"]
    assert story.task.claim is not None
    assert story.task.claim.lease_expires_at == add_seconds(LATER, 600)


def test_a_refused_finding_that_was_accepted_before_is_accepted_no_more() -> None:
    story = Story()
    story.ask(recording(held("f1", "f2")))
    story.ask(settling("f1"), LEAD)
    story.ask(settling("f1", is_accepted=False), LEAD)

    assert story.task.gates.decisions.accepted == ()


def test_a_finding_settled_while_other_gates_fail_releases_and_rejects_nothing() -> None:
    story = Story()
    story.ask(recording(held("f1", others=(a_result("tests"),))))

    assert names(story.ask(settling("f1"), LEAD)) == ["gate.accept"]
    assert names(story.ask(settling("f1", is_accepted=False), LEAD)) == ["gate.refuse"]
    assert story.task.gates.rejection_count == 1


@pytest.mark.parametrize("is_accepted", [True, False])
def test_what_is_settled_after_the_claim_has_ended_is_noted_alone(is_accepted: bool) -> None:
    story = Story()
    story.ask(recording(held()))
    task = story.task
    assert task.claim is not None

    late = decide_events(task, settling(is_accepted=is_accepted), LEAD, at=task.claim.lease_expires_at)
    story.events.append(LeaseExpired(task_id=T1, handoff_id=H1, agent="Alice"))
    ended = decide_events(story.task, settling(is_accepted=is_accepted), LEAD)

    assert names(late) == names(ended) == ["gate.accept" if is_accepted else "gate.refuse"]


def test_work_that_was_measured_by_other_rules_is_not_handed_in_by_itself() -> None:
    for verdict, ask, who in ((held("f1"), settling("f1"), LEAD), (failed(), overriding(), THE_USER)):
        story = Story()
        story.ask(recording(verdict))

        assert len(story.ask(ask, who, gates_digest="p2")) == 1
        assert story.task.status == Status.CLAIMED


def test_work_that_was_measured_under_another_claim_is_nobody_elses() -> None:
    for verdict, ask, who in ((held("f1"), settling("f1"), LEAD), (failed(), overriding(), THE_USER)):
        story = Story()
        story.ask(recording(verdict))
        story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
        story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)

        assert len(story.ask(ask, who)) == 1
        assert story.task.status == Status.CLAIMED


def test_a_refused_finding_can_be_accepted_later() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(settling("f1", is_accepted=False), LEAD)

    assert names(story.ask(settling("f1"), LEAD)) == ["gate.accept"]
    assert apply_settlements(held("f1"), story.task).status == GateStatus.PASSED


def test_refusing_what_was_undone_sends_nothing_back() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(settling("f1", is_accepted=False), LEAD)
    story.ask(recording(held("f2")))

    assert names(story.ask(settling("f1", is_accepted=False), LEAD)) == ["gate.refuse"]
    assert story.task.gates.rejection_count == 1


def test_only_a_finding_that_is_held_is_settled() -> None:
    story = Story()
    assert refusal_code(story.task, settling("f1"), LEAD) == "nothing_held"
    story.ask(recording(held("f1")))

    assert refusal_code(story.task, settling("f2"), LEAD) == "nothing_held"
    assert refusal_code(story.task, settling(""), LEAD) == "nothing_held"
    story.ask(settling("f1"), LEAD)
    assert refusal_code(story.task, settling("f1"), LEAD) == "nothing_held"


def test_whoever_works_on_a_task_settles_no_finding_of_it() -> None:
    story = Story(task_claimed("Lea", H1))
    story.ask(recording(held("f1"), "Lea"))

    assert refusal_code(story.task, settling("f1"), LEA) == "own_work"
    story.ask(c.ReleaseTask(task_id=T1, agent="Lea"), LEA)
    assert refusal_code(story.task, settling("f1"), LEA) == "own_work", "giving it back changes nothing"
    story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)
    story.ask(recording(held("f1"), "Bob"))
    assert refusal_code(story.task, settling("f1"), LEA) == "own_work", (
        "nor does another's claim on the same work"
    )
    assert names(story.ask(settling("f1"), LEAD)) == ["gate.accept", "gate.pass", "task.submit"]


def test_whoever_goes_on_with_held_work_settles_no_finding_of_it() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
    story.ask(c.ClaimTask(task_id=T1, agent="Lea"), LEA, handoff_id=H2)

    assert refusal_code(story.task, settling("f1"), LEA) == "own_work"


def test_whoever_handed_a_refused_finding_in_again_does_not_settle_it() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(settling("f1", is_accepted=False), LEAD)
    story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
    story.ask(c.ClaimTask(task_id=T1, agent="Lea"), LEA, handoff_id=H2)
    story.ask(recording(apply_settlements(held("f1"), story.task), "Lea"))
    story.ask(c.ReleaseTask(task_id=T1, agent="Lea"), LEA)

    assert refusal_code(story.task, settling("f1"), LEA) == "own_work"


def test_an_author_settles_no_finding_of_its_task() -> None:
    task = a_task(
        status=Status.CLAIMED, claim=a_claim("Bob"), authors=("Lea",), gates=GateState(held=("f1",))
    )

    assert refusal_code(task, settling("f1"), LEA) == "own_work"


@pytest.mark.parametrize("who", [ALICE, actor("Dir", Role.DIRECTOR)], ids=lambda who: who.name)
def test_only_reviewers_and_the_user_settle_findings(who: Actor) -> None:
    task = a_task(gates=GateState(held=("f1",), places=(("f1", "tests/test_roof.py"),)))

    assert refusal_code(task, settling("f1"), who) == "not_authorised"
    for reviewer in (LEAD, actor("Tess", Role.TESTER), THE_USER):
        assert names(decide_events(task, settling("f1"), reviewer)) == ["gate.accept"]


def test_what_a_reviewer_says_is_text_of_some_length() -> None:
    task = a_task(gates=GateState(held=("f1",)))

    for reason in ("a\x00b", "x" * 70_000):
        assert refusal_code(task, settling("f1", reason=reason), LEAD) == "bad_value"


# What the user lets pass.


def test_the_user_lets_a_gates_failure_pass_and_the_next_claim_passes() -> None:
    story = Story()
    story.ask(recording(failed()))

    (word,) = story.ask(overriding("tests", "Known to be broken."), THE_USER)

    assert word == GateOverridden(
        task_id=T1, gate="tests", tree=TREE, reason="Known to be broken.", by_user=True
    )
    assert is_settled_by_people(story.task)
    again = apply_settlements(failed(), story.task)
    assert again.status == GateStatus.OVERRIDDEN
    assert names(story.ask(recording(again))) == ["gate.pass"]
    story.ask(SUBMIT, ALICE, **WORK)
    assert story.task.status == Status.PROVISIONAL


def test_the_user_lets_a_held_gate_pass_and_the_work_is_handed_in() -> None:
    story = Story()
    story.ask(recording(held("f1")))

    assert names(story.ask(overriding(INTEGRITY_GATE), THE_USER)) == [
        "gate.override",
        "gate.pass",
        "task.submit",
    ]
    assert story.task.status == Status.PROVISIONAL


def test_every_gate_that_stands_in_the_way_has_to_be_let_pass() -> None:
    story = Story()
    story.ask(recording(failed(0, 1.0, a_result("lint"))))

    story.ask(overriding("lint"), THE_USER)
    assert not is_settled_by_people(story.task)
    story.ask(overriding("tests"), THE_USER)
    assert is_settled_by_people(story.task)


@pytest.mark.parametrize(
    "words",
    [
        [(settling("f1"), LEAD), (overriding("tests"), THE_USER)],
        [(overriding("tests"), THE_USER), (settling("f1"), LEAD)],
    ],
    ids=["accepted first", "overridden first"],
)
def test_what_is_accepted_and_what_is_overridden_go_together(words: list[tuple[c.Command, Actor]]) -> None:
    story = Story()
    story.ask(recording(held("f1", others=(a_result("tests"),))))

    settled = []
    for ask, who in words:
        assert len(story.ask(ask, who)) == 1
        settled.append(is_settled_by_people(story.task))

    assert settled == [False, True]


def test_accepted_findings_let_no_failed_integrity_gate_pass() -> None:
    story = Story()
    broken = a_result(INTEGRITY_GATE, GateStatus.FAILED, suspicions=("f1",))
    story.ask(recording(a_verdict(broken, policy="p1")))

    assert refusal_code(story.task, settling("f1"), LEAD) == "nothing_held"
    assert not is_settled_by_people(story.task)
    story.ask(overriding(INTEGRITY_GATE), THE_USER)
    assert is_settled_by_people(story.task)


def test_an_override_of_one_gate_lets_no_failed_integrity_gate_pass() -> None:
    story = Story()
    story.ask(recording(a_verdict(a_result("tests"), a_result(INTEGRITY_GATE), policy="p1")))

    story.ask(overriding("tests"), THE_USER)
    assert not is_settled_by_people(story.task)


@pytest.mark.parametrize(
    "who", [ALICE, LEAD, actor("Dir", Role.DIRECTOR), actor("user", Role.USER, confined=True)], ids=str
)
def test_only_the_user_lets_a_gate_pass_and_not_from_an_agents_place(who: Actor) -> None:
    story = Story()
    story.ask(recording(failed()))

    assert refusal_code(story.task, overriding(), who) == "user_only"


def test_only_a_gate_that_stands_in_the_way_is_let_pass() -> None:
    story = Story()
    assert refusal_code(story.task, overriding(), THE_USER) == "nothing_to_override"
    story.ask(recording(failed()))
    assert refusal_code(story.task, overriding("lint"), THE_USER) == "nothing_to_override"
    story.ask(overriding("tests"), THE_USER)
    assert refusal_code(story.task, overriding("tests"), THE_USER) == "nothing_to_override"


@pytest.mark.parametrize("reason", ["", "  ", "a\x00b"])
def test_letting_a_gate_pass_needs_a_reason(reason: str) -> None:
    story = Story()
    story.ask(recording(failed()))

    assert refusal_code(story.task, overriding(reason=reason), THE_USER) == "bad_value"


def test_a_gate_is_let_pass_for_the_code_tree_it_was_measured_on() -> None:
    story = Story()
    story.ask(recording(failed(0, 1.0, a_result("lint"))))
    story.ask(overriding("tests"), THE_USER)
    story.ask(recording(failed(0, 1.0, a_result("lint"), tree="other")))

    assert names(story.ask(overriding("lint"), THE_USER)) == ["gate.override"]
    assert story.task.gates.decisions.overridden == (("tests", TREE), ("lint", "other"))


def test_what_is_let_pass_after_the_claim_has_ended_counts_for_the_next_one() -> None:
    story = Story()
    story.rejected(5, 5, 5, 5, 5)

    assert names(story.ask(overriding("tests"), THE_USER)) == ["gate.override"]
    assert story.task.status == Status.ESCALATED
    assert apply_settlements(failed(), story.task).status == GateStatus.OVERRIDDEN


def test_the_user_may_let_a_refused_finding_pass_after_all() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(settling("f1", is_accepted=False), LEAD)
    story.ask(overriding(INTEGRITY_GATE), THE_USER)

    assert is_settled_by_people(story.task)


# What was settled before, in a new verdict.


def test_an_accepted_finding_is_held_no_more_for_as_long_as_the_task_lives() -> None:
    task = a_task(gates=update_gates(GateState(), accepted=("f1", "f2", "gone")))

    verdict = apply_settlements(held("f1", "f2"), task)

    assert (verdict.status, verdict.blocking_gates) == (GateStatus.PASSED, ())
    assert verdict.gates[0].suspicions == ()


@pytest.mark.parametrize("accepted", [(), ("f1",), ("f3",)], ids=str)
def test_a_finding_that_is_not_accepted_is_held(accepted: tuple[str, ...]) -> None:
    verdict = held("f1", "f2")

    assert apply_settlements(verdict, a_task(gates=update_gates(GateState(), accepted=accepted))) == verdict


def test_an_accepted_finding_lets_no_failed_gate_pass() -> None:
    verdict = a_verdict(a_result(INTEGRITY_GATE, GateStatus.FAILED, suspicions=("f1",)))

    assert apply_settlements(verdict, a_task(gates=update_gates(GateState(), accepted=("f1",)))) == verdict


def test_a_held_gate_without_findings_is_not_let_pass() -> None:
    verdict = a_verdict(a_result(INTEGRITY_GATE, GateStatus.HELD))

    assert apply_settlements(verdict, a_task()) == verdict


@pytest.mark.parametrize("status", sorted(set(GateStatus) - {GateStatus.PASSED, GateStatus.OVERRIDDEN}))
def test_an_overridden_gate_is_let_pass_on_its_code_tree_alone(status: GateStatus) -> None:
    task = a_task(gates=update_gates(GateState(), overridden=(("tests", TREE),)))
    verdict = a_verdict(a_result("tests", status))
    elsewhere = a_verdict(a_result("tests", status), tree="other")

    assert apply_settlements(verdict, task).status == GateStatus.OVERRIDDEN
    assert apply_settlements(elsewhere, task) == elsewhere


def test_a_gate_that_passes_needs_no_override() -> None:
    task = a_task(gates=update_gates(GateState(), overridden=(("tests", TREE),)))

    assert apply_settlements(passed(), task) == passed()


def test_one_settled_gate_lets_no_other_pass() -> None:
    task = a_task(gates=update_gates(GateState(), accepted=("f1",), overridden=(("lint", TREE),)))
    verdict = held("f1", others=(a_result("lint"), a_result("tests")))

    assert apply_settlements(verdict, task).status == GateStatus.FAILED
    assert apply_settlements(verdict, task).blocking_gates == ("tests",)


def test_a_refused_finding_fails_until_it_is_undone_or_accepted() -> None:
    task = a_task(gates=update_gates(GateState(), accepted=("f2",), refused=(("f1", "It hides a bug."),)))

    verdict = apply_settlements(held("f1", "f2"), task)

    assert (verdict.status, verdict.blocking_gates, verdict.suspicions) == (
        GateStatus.FAILED,
        (INTEGRITY_GATE,),
        (),
    )
    assert verdict.gates[0].detail == "A reviewer refused f1 (It hides a bug.)."
    assert apply_settlements(held("f2"), task).status == GateStatus.PASSED
    assert apply_settlements(held("f3"), task).status == GateStatus.HELD


# Rules that changed on the base.


def test_work_is_held_where_the_rules_changed_while_it_was_done() -> None:
    verdict = hold_for_changed_rules(passed(), "p0")

    assert verdict.status == GateStatus.HELD
    (name,) = verdict.suspicions
    (finding,) = verdict.gates[-1].findings
    assert (finding.path, finding.code) == ("remand.toml", "rules_changed")
    assert name in finding.text
    assert verdict.gates[-1].line == "- Integrity: 1 finding (requires 0)"
    assert (
        apply_settlements(verdict, a_task(gates=update_gates(GateState(), accepted=(name,)))).status
        == GateStatus.PASSED
    )


def test_one_change_of_the_rules_is_one_finding_and_another_is_another() -> None:
    (first,) = hold_for_changed_rules(passed(), "p0").suspicions
    (again,) = hold_for_changed_rules(passed(commit=OTHER_SHA), "p0").suspicions
    (other,) = hold_for_changed_rules(passed(), "p9").suspicions

    assert first == again != other


def test_changed_rules_are_found_beside_what_else_was() -> None:
    before = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1",), finding_count=1)

    verdict = hold_for_changed_rules(a_verdict(a_result("tests"), before, policy="p1"), "p0")

    assert verdict.status == GateStatus.FAILED
    assert verdict.suspicions[1:] == ("f1",)
    assert [gate.name for gate in verdict.gates] == ["tests", INTEGRITY_GATE]
    assert verdict.gates[-1].line == "- Integrity: 2 findings (requires 0)"


@pytest.mark.parametrize("status", [GateStatus.FAILED, GateStatus.ERRORED, GateStatus.TIMED_OUT])
def test_what_could_not_be_measured_is_not_merely_held_for_changed_rules(status: GateStatus) -> None:
    verdict = hold_for_changed_rules(a_verdict(a_result(INTEGRITY_GATE, status), policy="p1"), "p0")

    assert verdict.status == status


def test_a_reviewers_word_reaches_as_far_as_its_scope() -> None:
    story = Story()
    found = GateFinding(path="src/app.py", code="suppressed", text="x")
    result = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1",), findings=(found,))
    story.ask(recording(a_verdict(result, policy="p1")))
    tester = Actor(name="Tess", roles=frozenset({Role.TESTER}), paths=("tests/**",))
    coder = Actor(name="Cody", roles=frozenset({Role.TESTER}), paths=("src/**",))

    assert refusal_code(story.task, settling("f1"), tester) == "out_of_scope"
    assert names(story.ask(settling("f1"), coder))[0] == "gate.accept"


@pytest.mark.parametrize(
    ("claim", "standing", "overridden"),
    [
        (None, ("tests",), True),
        (a_claim("Alice", H2), ("tests",), True),
        (a_claim("Alice", H1), (), True),
        (a_claim("Alice", H1), ("tests",), False),
        (a_claim("Alice", H1), ("tests", "lint"), True),
    ],
    ids=[
        "its claim ended",
        "another claim followed",
        "nothing stands",
        "nothing is let pass",
        "one stands still",
    ],
)
def test_work_is_settled_only_while_its_claim_holds_and_all_that_stood_is_let_pass(
    claim: Claim | None, standing: tuple[str, ...], overridden: bool
) -> None:
    let = (("tests", TREE),) if overridden else ()
    gates = update_gates(GateState(), handoff_id=H1, tree=TREE, blocking=standing, overridden=let)

    assert not is_settled_by_people(a_task(claim=claim, gates=gates))
    whole = update_gates(
        GateState(), handoff_id=H1, tree=TREE, blocking=("tests",), overridden=(("tests", TREE),)
    )
    assert is_settled_by_people(a_task(claim=a_claim("Alice", H1), gates=whole))
