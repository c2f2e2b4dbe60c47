"""Verdicts with what people must say to them, or have said: findings that gates cannot see, and what was settled."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from msgspec.structs import replace

from remand.domain.gates.figures import GateFinding
from remand.domain.gates.verdict import INTEGRITY, RELEASING, GateResult, GateStatus, Verdict, overall
from remand.domain.gates.wording import measured
from remand.domain.task import Status, Task

SAME_CHANGE = "same-"
"""How the names of findings begin that the user alone may accept: a rejected change that was handed in again."""
_GIVEN_UP = frozenset({Status.CANCELLED, Status.INFEASIBLE, Status.DECOMPOSED})
_NO_FINDINGS = GateResult(
    name=INTEGRITY, status=GateStatus.PASSED, line="- Integrity: 0 findings (requires 0)"
)


def work_of_others(task: Task, found: Iterable[Task]) -> list[Task]:
    """Of the tasks that a commit or pull request belongs to, those it cannot be this task's own beside."""
    return [other for other in found if other.id != task.id and other.status not in _GIVEN_UP]


def rejected_elsewhere(task: Task, others: Iterable[Task], tree: str, patch: str) -> str:
    """The name under which the user is asked about a change that was rejected under another task; empty when it is new."""
    names = (rejected_change(other, tree, patch) for other in others if other.id != task.id)
    return next(filter(None, names), "")


def rejected_change(task: Task, tree: str, patch: str) -> str:
    """The name under which the user is asked about a change that was rejected before; empty when it is new.

    It is of the last such rejection: what the user let pass before that was rejected again since.
    """
    found = next(
        (
            one
            for one in reversed(task.standing_rounds)
            if (tree and one.tree == tree) or (patch and one.patch == patch)
        ),
        None,
    )
    if found is None:
        return ""
    return f"{SAME_CHANGE}{sha256(f'{task.id} {found.handoff_id}'.encode()).hexdigest()[:12]}"


def moved_rules(verdict: Verdict, claimed_under: str) -> Verdict:
    """A verdict held because the rules were changed on the base while the task was held.

    Where anyone who works here can commit to the base, only a reviewer can tell whose change that was.
    """
    text = f"The gates' rules on the base changed while the task was claimed, from {claimed_under} to {verdict.policy}"
    name = sha256(f"{claimed_under} {verdict.policy}".encode()).hexdigest()[:12]
    return _held(
        verdict, name, GateFinding(path="remand.toml", code="rules_changed", text=f"{text} [{name}]")
    )


def handed_in_again(verdict: Verdict, name: str) -> Verdict:
    """A verdict held because the change was rejected before, whoever hands it in now."""
    text = "This very change was rejected before; whether it may pass now only the user says"
    return _held(verdict, name, GateFinding(code="rejected_before", text=f"{text} [{name}]"))


def _held(verdict: Verdict, name: str, finding: GateFinding) -> Verdict:
    """A verdict with one more finding for a reviewer."""
    known = next((gate for gate in verdict.gates if gate.name == INTEGRITY), _NO_FINDINGS)
    held = replace(
        known,
        status=GateStatus.HELD if known.status in RELEASING else known.status,
        line=measured(INTEGRITY, "", {"findings": known.finding_count + 1}, {"max_findings": 0}),
        findings=(finding, *known.findings),
        finding_count=known.finding_count + 1,
        suspicions=(name, *known.suspicions),
    )
    gates = (*(gate for gate in verdict.gates if gate.name != INTEGRITY), held)
    return replace(verdict, gates=gates, status=overall(gates))


def let_pass(verdict: Verdict, task: Task) -> Verdict:
    """A verdict with what was accepted and overridden for the task taken into account."""
    overridden = {name for name, tree in task.gating.overridden if tree == verdict.tree}
    gates = tuple(
        replace(gate, status=GateStatus.OVERRIDDEN, detail="The user let it pass.")
        if gate.name in overridden and gate.status not in RELEASING
        else _by_reviewers(gate, task)
        for gate in verdict.gates
    )
    return replace(verdict, gates=gates, status=overall(gates))


def _by_reviewers(gate: GateResult, task: Task) -> GateResult:
    """A gate as reviewers have settled its findings: one that is refused fails, all accepted pass."""
    if gate.status is not GateStatus.HELD or not gate.suspicions:
        return gate
    refused = {name: reason for name, reason in task.gating.refused if name in gate.suspicions}
    if refused:
        said = "; ".join(f"{name}{f' ({reason})' if reason else ''}" for name, reason in refused.items())
        return replace(gate, status=GateStatus.FAILED, detail=f"A reviewer refused {said}.")
    if set(gate.suspicions) <= set(task.gating.accepted):
        return replace(
            gate, status=GateStatus.PASSED, suspicions=(), detail="A reviewer accepted the findings."
        )
    return gate
