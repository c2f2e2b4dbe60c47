"""Holds what the ledger and checked evidence say against a rejection."""

import pytest

from remand.domain.validation.assessment import EvidenceGrade, NamedTask, ValidationFacts
from tests.unit.domain.validation.records import codes, judged

OPEN = NamedTask(name="T-41", task_id="T-41", title="Secret store", status="provisional", is_open=True)


def test_an_open_dependency_that_the_ledger_knows_is_fine() -> None:
    assert codes("MISSING_DEPENDENCY", ValidationFacts(named=(OPEN,))) == set()


@pytest.mark.parametrize(
    ("known", "code"),
    [
        (NamedTask(name="T-41"), "dependency_unknown"),
        (NamedTask(name="T-41", task_id="T-41", status="done"), "dependency_done"),
        (NamedTask(name="T-41", task_id="T-41", status="cancelled"), "dependency_done"),
        (NamedTask(name="T-41", task_id="T-100", is_self=True, is_open=True), "dependency_is_itself"),
        (NamedTask(name="T-41", task_id="T-41", is_descendant=True, is_open=True), "dependency_circular"),
    ],
)
def test_a_dependency_that_cannot_be_waited_for_is_an_issue(known: NamedTask, code: str) -> None:
    assert codes("MISSING_DEPENDENCY", ValidationFacts(named=(known,))) == {code}


def test_the_message_names_the_dependency_and_its_status() -> None:
    facts = ValidationFacts(named=(NamedTask(name="T-41", task_id="T-41", status="cancelled"),))

    assert "T-41 is already cancelled" in str(judged("MISSING_DEPENDENCY", facts).issues[0])


def test_one_dependency_that_may_be_waited_for_is_enough() -> None:
    facts = ValidationFacts(named=(OPEN, NamedTask(name="T-40", task_id="T-40", status="done")))

    assert codes("MISSING_DEPENDENCY", facts, blocking_factor="T-41 (secret store), after T-40") == set()


def test_a_prefixed_name_is_found_under_its_bare_id() -> None:
    facts = ValidationFacts(named=(NamedTask(name="T-41"),))

    assert codes("MISSING_DEPENDENCY", facts, blocking_factor="task:T-41 (secret store) is open") == {
        "dependency_unknown"
    }


def test_a_decision_that_the_ledger_does_not_know_is_believed() -> None:
    facts = ValidationFacts(named=(NamedTask(name="D-91"),))

    assert (
        codes("MISSING_DEPENDENCY", facts, blocking_factor="D-91 (key format of the secret store) is open")
        == set()
    )


def test_other_reasons_may_name_closed_tasks() -> None:
    facts = ValidationFacts(named=(NamedTask(name="T-41", task_id="T-41", status="done"),))

    assert codes("BLOCKER", facts, reason_summary="Staging bucket refuses our key since T-41") == set()


@pytest.mark.parametrize("grade", ["reported", "corroborated", "reproduced"])
def test_evidence_that_was_not_disproved_is_fine(grade: str) -> None:
    assert codes("BLOCKER", ValidationFacts(graded=(EvidenceGrade(index=0, grade=grade),))) == set()


def test_disproved_evidence_is_an_issue_that_says_which() -> None:
    facts = ValidationFacts(graded=(EvidenceGrade(index=1, grade="disproved", detail="the key is active"),))
    found = judged("BLOCKER", facts).issues

    assert [issue.code for issue in found] == ["evidence_disproved"]
    assert "Evidence 2" in str(found[0])
    assert "the key is active" in str(found[0])


ONLY_A_TASK = {
    "reason_summary": "Duplicate of #12",
    "reason_detail": "Same crash, same stack; two fixes would collide.",
    "what_attempted": [
        "Compared both stacks: frame 3, TypeError in both",
        "Ran the reproduction on that branch: 0 of 20 crash",
    ],
    "blocking_factor": "#12 covers this crash",
    "evidence": [
        {"type": "error_log", "data": "TypeError: items of null, frame 3", "source": "Sentry 4411 and 4502"}
    ],
    "suggested_alternative": "Close as duplicate of #12.",
}


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (NamedTask(name="#12", task_id="T-64", is_open=True), set()),
        (NamedTask(name="#12", task_id="T-64", status="done"), set()),
        (NamedTask(name="#12"), {"dependency_unknown"}),
        (NamedTask(name="#12", task_id="T-100", is_self=True), {"obsolete_itself"}),
    ],
)
def test_what_made_a_task_obsolete_is_known_and_another_task(known: NamedTask, found: set[str]) -> None:
    assert codes("OBSOLETE", ValidationFacts(named=(known,)), **ONLY_A_TASK) == found


def test_a_commit_shows_obsolescence_whatever_the_ledger_knows() -> None:
    facts = ValidationFacts(named=(NamedTask(name="T-301"), NamedTask(name="9ab12ff")))

    assert codes("OBSOLETE", facts) == set()


SHA = "0a1b2c3d4e5f"
FACTOR = f"The work is in commit {SHA} already"


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (ValidationFacts(has_repository=True, merged=(SHA,)), set()),
        (ValidationFacts(has_repository=True), {"obsolete_unknown"}),
        (ValidationFacts(), set()),
    ],
    ids=["merged", "not merged", "nobody could look"],
)
def test_a_commit_that_made_a_task_obsolete_is_part_of_the_base(
    facts: ValidationFacts, found: set[str]
) -> None:
    plain = {
        "reason_summary": FACTOR,
        "reason_detail": FACTOR,
        "what_attempted": [f"Ran git show {SHA}: 3 files, 41 lines", f"Ran the tests at {SHA}: 12 passed"],
    }
    evidence = [{"type": "log", "data": f"{SHA} Add the export", "source": "git log"}]

    judged_codes = codes("OBSOLETE", facts, blocking_factor=FACTOR, evidence=evidence, **plain)

    assert judged_codes & {"obsolete_unknown"} == found


@pytest.mark.parametrize(("is_related", "found"), [(True, set()), (False, {"obsolete_unknown"})])
def test_a_task_about_something_else_makes_none_obsolete(is_related: bool, found: set[str]) -> None:
    other = NamedTask(name="#12", task_id="T-12", status="incoming", is_open=True, is_related=is_related)

    assert codes("OBSOLETE", ValidationFacts(named=(other,), has_repository=True), **ONLY_A_TASK) == found


def test_a_dependency_that_the_agent_wrote_down_itself_is_an_issue() -> None:
    own = NamedTask(name="T-41", task_id="T-41", is_open=True, created_by="worker-1")

    assert codes("MISSING_DEPENDENCY", ValidationFacts(named=(own,)), agent_id="worker-1") == {
        "dependency_own"
    }
    assert codes("MISSING_DEPENDENCY", ValidationFacts(named=(own,)), agent_id="worker-2") == set()
