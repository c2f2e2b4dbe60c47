"""Which paths are the ledger's own, and what is said of a branch that changes them."""

from __future__ import annotations

import pytest

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.findings import apply_settlements, hold_for_control_change, open_findings
from remand.domain.decisions.gates import is_settled_by_people, unsettled_control_changes
from remand.domain.gate.control_files import (
    ControlChange,
    ControlFile,
    is_control_finding,
    is_control_path,
    is_event_file,
    is_nested_control_path,
    make_control_change,
)
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.testing.builders import ALICE, SHA, a_task, actor
from tests.support.builders import OTHER_SHA, refusal_code
from tests.unit.domain.done_claims import (
    SUBMIT,
    TREE,
    WORK,
    Story,
    a_result,
    a_verdict,
    names,
    overriding,
    passed,
    recording,
    settling,
)

PAYLOAD = ControlFile(".got/payload.txt", "", "100644 aaaa")
CHANGE = make_control_change("c1", 0, [(PAYLOAD, "added")])


@pytest.mark.parametrize(
    "name",
    [
        ".got",
        ".GOT",
        ".Got",
        ".got.",
        ".got ",
        ".got. .",
        ".GOT...",
        "got~1",
        "GOT~1",
        "GOT~9",
        ".got::$INDEX_ALLOCATION",
        ".got:stream",
        ".got\\events",
        ".g\u200cot",
        ".go\u202et",
        "\ufeff.got",
        ".got\u206a",
        ".\u2060got",
        "\uff0egot",
        ".\uff47\uff4f\uff54",
        "\u2024got",
    ],
    ids=ascii,
)
def test_what_a_file_system_takes_for_the_ledgers_folder_is_in_it(name: str) -> None:
    assert is_control_path(name)
    assert is_control_path(f"{name}/events/x.jsonl")
    assert is_nested_control_path(f"sub/{name}/ledger.db")


@pytest.mark.parametrize(
    "name",
    ["got", ".gotten", ".gott", "x.got", ".go", ".g\u043et", ".g\u00f3t", "got~", "forgot.py", "..got"],
    ids=ascii,
)
def test_other_names_are_not(name: str) -> None:
    assert not is_control_path(f"{name}/events/x.jsonl")
    assert not is_nested_control_path(f"sub/{name}/x")


def test_a_folder_of_that_name_further_down_is_not_the_repositorys_own() -> None:
    assert not is_control_path("sub/.got/events/x.jsonl")
    assert not is_nested_control_path(".got/events/x.jsonl")


@pytest.mark.parametrize(
    "path",
    [
        ".got/events/x.txt",
        ".got/events/sub/x.jsonl",
        ".got/x.jsonl",
        ".GOT/events/x.jsonl",
        ".got/events/.x.jsonl",
    ],
)
def test_event_files_have_one_form_of_name(path: str) -> None:
    assert is_event_file(".got/events/20261115-080000-0000f0f0.jsonl")
    assert not is_event_file(path)


def test_the_finding_stands_for_exactly_this_content() -> None:
    same = make_control_change("c2", 3, [(PAYLOAD._replace(before="100644 bbbb"), "changed")])
    other = make_control_change("c1", 0, [(PAYLOAD._replace(after="100644 cccc"), "added")])

    assert is_control_finding(CHANGE.name)
    assert CHANGE.name == same.name != other.name
    assert not make_control_change("c1", 3, []).name


def test_a_verdict_is_held_for_it_beside_what_else_was_found() -> None:
    verdict = hold_for_control_change(passed(), CHANGE)
    (finding,) = verdict.gates[-1].findings

    assert (verdict.status, verdict.suspicions) == (GateStatus.HELD, (CHANGE.name,))
    assert (finding.path, finding.code) == (".got", "control_changed")
    assert ".got/payload.txt" in finding.text
    assert hold_for_control_change(passed(), make_control_change("c1", 1, [])) == passed()
    failed = hold_for_control_change(a_verdict(a_result("tests")), CHANGE)
    assert failed.status is GateStatus.FAILED


def test_an_override_of_the_integrity_gate_for_a_code_tree_does_not_cover_it() -> None:
    found = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1",), finding_count=1)
    verdict = hold_for_control_change(a_verdict(found), CHANGE)
    overridden = update_gates(GateState(), overridden=((INTEGRITY_GATE, TREE),))

    left = apply_settlements(verdict, a_task(gates=overridden))
    assert (left.status, left.suspicions) == (GateStatus.HELD, (CHANGE.name,))
    accepted = update_gates(GateState(), overridden=((INTEGRITY_GATE, TREE),), accepted=(CHANGE.name,))
    assert apply_settlements(verdict, a_task(gates=accepted)).status is GateStatus.OVERRIDDEN
    refused = update_gates(GateState(), overridden=((INTEGRITY_GATE, TREE),), refused=((CHANGE.name, "no"),))
    assert apply_settlements(verdict, a_task(gates=refused)).status is GateStatus.FAILED


# What may be decided.

LEAD = actor("Lead", Role.LEAD)
OWNER = actor("owner", Role.USER)


def change_at(commit: str) -> ControlChange:
    return make_control_change(commit, 0, [(PAYLOAD, "added")])


@pytest.mark.parametrize("gates", [("tests",), ()], ids=["gates", "no gates"])
def test_a_release_of_the_code_hands_in_no_commit_that_changes_the_ledgers_files(
    gates: tuple[str, ...],
) -> None:
    story = Story()
    story.ask(recording(passed()))
    other = {**WORK, "gates": gates, "commit": OTHER_SHA}

    assert refusal_code(story.task, SUBMIT, ALICE, **other, control=(change_at(OTHER_SHA),)) == "not_measured"
    assert names(story.ask(SUBMIT, ALICE, **other))[-1] == "task.submit"


def test_what_was_released_with_it_is_handed_in() -> None:
    story = Story()
    story.ask(recording(passed()))

    assert names(story.ask(SUBMIT, ALICE, **WORK, control=(change_at(SHA),))) == ["task.submit"]


def test_what_a_reviewer_accepted_is_handed_in_with_any_commit() -> None:
    story = Story()
    story.ask(recording(hold_for_control_change(passed(), CHANGE)))
    story.ask(settling(CHANGE.name), LEAD)

    assert story.task.gates.decisions.accepted == (CHANGE.name,)
    assert unsettled_control_changes(story.task, (change_at(OTHER_SHA),)) == ()


def test_the_user_who_overrides_the_gate_accepts_this_change_and_no_other() -> None:
    story = Story()
    story.ask(recording(hold_for_control_change(passed(), CHANGE)))
    events = story.ask(overriding(INTEGRITY_GATE), OWNER)

    assert names(events) == ["gate.accept", "gate.override", "gate.pass", "task.submit"]
    other = make_control_change("c1", 0, [(PAYLOAD._replace(after="100644 cccc"), "added")])
    again = Story()
    again.ask(recording(hold_for_control_change(passed(), CHANGE)))
    again.events += events[:2]
    again.ask(recording(hold_for_control_change(passed(), other)))
    assert open_findings(again.task) == (other.name,), "it is still listed"
    assert not is_settled_by_people(again.task)
    assert names(again.ask(settling(other.name), LEAD)) == ["gate.accept", "gate.pass", "task.submit"]


@pytest.mark.parametrize("who", [LEAD, OWNER], ids=["reviewer", "user"])
def test_nobody_approves_what_changes_the_ledgers_files_unsettled(who: Actor) -> None:
    story = Story()
    story.ask(recording(passed()))
    story.ask(SUBMIT, ALICE, **WORK)
    approve = c.ApproveReview(task_id=story.task.id, commit=SHA)
    facts = {"commit": SHA, "tree": TREE}

    assert (
        refusal_code(story.task, approve, who, **facts, control=(change_at(OTHER_SHA),)) == "control_changed"
    )
    assert names(story.ask(approve, who, **facts, control=(change_at(SHA),))) == ["review.approve"]
