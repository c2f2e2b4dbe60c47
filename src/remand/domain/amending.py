"""Verdicts with what people must say to them, or have said: findings that gates cannot see, and what was settled."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256

from msgspec.structs import replace

from remand.domain.control import CODE, ControlChange, is_control_finding
from remand.domain.gates.figures import GateFinding
from remand.domain.gates.verdict import INTEGRITY, RELEASING, GateResult, GateStatus, Verdict, overall
from remand.domain.gates.wording import measured
from remand.domain.task import Status, Task

SAME_CHANGE = "same-"
"""How the names of findings begin that the user alone may accept: a rejected change that was handed in again."""
CONFIGURATION = "remand.toml"
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


def passes_only_now(now: Verdict, then: Verdict, unmeasurable: Collection[str] = ()) -> bool:
    """True when work passes, or is held for less, by the rules of now alone: those at the claim stand in its way.

    Gates that cannot be measured on the base either say nothing of the work.
    """
    if set(then.standing) - set(now.standing) - set(unmeasurable):
        return True
    return bool(set(then.suspicions) - set(now.suspicions))


def without_base_rules(verdict: Verdict) -> Verdict:
    """A verdict without the finding that the configuration was changed: the base has changed it."""
    return replace(verdict, gates=(gates := tuple(map(_without_rules, verdict.gates))), status=overall(gates))


def _without_rules(gate: GateResult) -> GateResult:
    dropped = [
        (name, finding)
        for name, finding in gate.held
        if (finding.code, finding.path) == (CODE, CONFIGURATION) and gate.name == INTEGRITY
    ]
    if not dropped:
        return gate
    names = [name for name, _ in dropped]
    left = tuple(name for name in gate.suspicions if name not in names)
    return replace(
        gate,
        status=GateStatus.PASSED if gate.status is GateStatus.HELD and not left else gate.status,
        measured={"findings": float(len(left))},
        line=measured(INTEGRITY, "", {"findings": len(left)}, {"max_findings": 0}),
        findings=tuple(one for one in gate.findings if (one.code, one.path) != (CODE, CONFIGURATION)),
        finding_count=gate.finding_count - len(dropped),
        suspicions=left,
        excess=float(len(left)),
    )


def moved_rules(verdict: Verdict, claimed_under: str) -> Verdict:
    """A verdict held because the work passes by none but the rules that the base got while the task was claimed.

    Where anyone who works here can commit to the base, only a reviewer can tell whose change that was.
    """
    text = (
        "The gates' rules on the base changed while the task was claimed, and by those before the work does not pass:"
        f" {claimed_under}, now {verdict.policy}"
    )
    name = sha256(f"{claimed_under} {verdict.policy}".encode()).hexdigest()[:12]
    return _held(
        verdict, name, GateFinding(path=CONFIGURATION, code="rules_changed", text=f"{text} [{name}]")
    )


def handed_in_again(verdict: Verdict, name: str) -> Verdict:
    """A verdict held because the change was rejected before, whoever hands it in now."""
    text = "This very change was rejected before; whether it may pass now only the user says"
    return _held(verdict, name, GateFinding(code="rejected_before", text=f"{text} [{name}]"))


def control_held(verdict: Verdict, change: ControlChange) -> Verdict:
    """A verdict held because the work changes the ledger's own files. The code tree, which is measured, has none of them."""
    return _held(verdict, change.name, change.finding) if change.name else verdict


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
        _overridden(gate, task)
        if gate.name in overridden and gate.status not in RELEASING
        else _by_reviewers(gate, task)
        for gate in verdict.gates
    )
    return replace(verdict, gates=gates, status=overall(gates))


def _overridden(gate: GateResult, task: Task) -> GateResult:
    """A gate that the user let pass for its code tree, which the ledger's own files are no part of."""
    held = [one for one in gate.held if is_control_finding(one[0]) and one[0] not in task.gating.accepted]
    if not held:
        return replace(gate, status=GateStatus.OVERRIDDEN, detail="The user let it pass.")
    left = replace(
        gate,
        status=GateStatus.HELD,
        findings=tuple(finding for _, finding in held),
        suspicions=tuple(name for name, _ in held),
    )
    return _by_reviewers(left, task)


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
