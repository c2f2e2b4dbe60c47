"""Findings that a person settles: adding them to a verdict, who may accept each, and the command for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from itertools import accumulate
from shlex import quote

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import REVIEWERS, USER, Actor, Role, Team, paths_outside_scope, review_scope
from remand.domain.gate.control_files import CONTROL_CODE, ControlChange, is_control_finding
from remand.domain.gate.gate import GateFinding, render_measurement
from remand.domain.gate.verdict import (
    INTEGRITY_GATE,
    PASSING,
    GateResult,
    GateStatus,
    Verdict,
    overall_status,
)
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task
from remand.domain.text.words import flatten

SAME_CHANGE_PREFIX = "same-"
"""The prefix of findings that only the user may accept: a rejected change that was resubmitted."""
CONFIGURATION = "remand.toml"
_ABANDONED_STATUSES = frozenset({Status.CANCELLED, Status.INFEASIBLE, Status.DECOMPOSED})
_NO_FINDINGS = GateResult(
    name=INTEGRITY_GATE, status=GateStatus.PASSED, line="- Integrity: 0 findings (requires 0)"
)


def conflicting_tasks(task: Task, tasks: Iterable[Task]) -> list[Task]:
    """Other open tasks that already own the commit or pull request."""
    return [other for other in tasks if other.id != task.id and other.status not in _ABANDONED_STATUSES]


def find_rejected_change_elsewhere(task: Task, others: Iterable[Task], tree: str, patch: str) -> str:
    """The finding about a change that was rejected under another task; empty for a new change."""
    names = (find_rejected_change(other, tree, patch) for other in others if other.id != task.id)
    return next(filter(None, names), "")


def find_rejected_change(task: Task, tree: str, patch: str) -> str:
    """The finding about a change that was rejected before; empty for a new change.

    It concerns the last such rejection: an earlier one that the user let pass was followed by a new rejection.
    """
    review_round = next(
        (
            one
            for one in reversed(task.standing_rounds)
            if (tree and one.tree == tree) or (patch and one.patch == patch)
        ),
        None,
    )
    if review_round is None:
        return ""
    return f"{SAME_CHANGE_PREFIX}{sha256(f'{task.id} {review_round.handoff_id}'.encode()).hexdigest()[:12]}"


def passes_only_by_new_rules(now: Verdict, then: Verdict, unmeasurable: Collection[str] = ()) -> bool:
    """True if work passes, or is held for less, only under the current rules, not under those at the claim.

    Gates that cannot run on the base either are ignored.
    """
    if set(then.blocking_gates) - set(now.blocking_gates) - set(unmeasurable):
        return True
    return bool(set(then.suspicions) - set(now.suspicions))


def without_configuration_finding(verdict: Verdict) -> Verdict:
    """A verdict without the finding that the configuration was changed, as the base changed it."""
    return replace(
        verdict,
        gates=(gates := tuple(map(_drop_configuration_finding, verdict.gates))),
        status=overall_status(gates),
    )


def _drop_configuration_finding(gate: GateResult) -> GateResult:
    dropped = [
        (name, finding)
        for name, finding in gate.held_findings
        if (finding.code, finding.path) == (CONTROL_CODE, CONFIGURATION) and gate.name == INTEGRITY_GATE
    ]
    if not dropped:
        return gate
    names = [name for name, _ in dropped]
    left = tuple(name for name in gate.suspicions if name not in names)
    return replace(
        gate,
        status=GateStatus.PASSED if gate.status is GateStatus.HELD and not left else gate.status,
        measured={"findings": float(len(left))},
        line=render_measurement(INTEGRITY_GATE, "", {"findings": len(left)}, {"max_findings": 0}),
        findings=tuple(one for one in gate.findings if (one.code, one.path) != (CONTROL_CODE, CONFIGURATION)),
        finding_count=gate.finding_count - len(dropped),
        suspicions=left,
        excess=float(len(left)),
    )


def hold_for_changed_rules(verdict: Verdict, claimed_under: str) -> Verdict:
    """Holds work that passes only under rules that were added to the base after the claim.

    Where anybody working here can commit to the base, only a reviewer can tell whose change that was.
    """
    text = (
        "The gate rules on the base changed while the task was claimed, and the work does not pass under the earlier rules:"
        f" {claimed_under}, now {verdict.policy}"
    )
    name = sha256(f"{claimed_under} {verdict.policy}".encode()).hexdigest()[:12]
    return _hold(
        verdict, name, GateFinding(path=CONFIGURATION, code="rules_changed", text=f"{text} [{name}]")
    )


def hold_for_rejected_change(verdict: Verdict, name: str) -> Verdict:
    """Holds a verdict because the change was rejected before, whoever submits it now."""
    text = "This same change was rejected before; only the user may let it pass now"
    return _hold(verdict, name, GateFinding(code="rejected_before", text=f"{text} [{name}]"))


def hold_for_control_change(verdict: Verdict, change: ControlChange) -> Verdict:
    """Holds a verdict because the work changes the ledger's own files, which the measured code tree does not contain."""
    return _hold(verdict, change.name, change.finding) if change.name else verdict


def _hold(verdict: Verdict, name: str, finding: GateFinding) -> Verdict:
    """A verdict with an additional finding for a reviewer."""
    known = next((gate for gate in verdict.gates if gate.name == INTEGRITY_GATE), _NO_FINDINGS)
    result = replace(
        known,
        status=GateStatus.HELD if known.status in PASSING else known.status,
        line=render_measurement(
            INTEGRITY_GATE, "", {"findings": known.finding_count + 1}, {"max_findings": 0}
        ),
        findings=(finding, *known.findings),
        finding_count=known.finding_count + 1,
        suspicions=(name, *known.suspicions),
    )
    gates = (*(gate for gate in verdict.gates if gate.name != INTEGRITY_GATE), result)
    return replace(verdict, gates=gates, status=overall_status(gates))


def apply_settlements(verdict: Verdict, task: Task) -> Verdict:
    """A verdict with the task's accepted findings and overrides applied."""
    overridden = {name for name, tree in task.gates.decisions.overridden if tree == verdict.tree}
    gates = tuple(
        _apply_override(gate, task)
        if gate.name in overridden and gate.status not in PASSING
        else _apply_reviewers_answers(gate, task)
        for gate in verdict.gates
    )
    return replace(verdict, gates=gates, status=overall_status(gates))


def _apply_override(gate: GateResult, task: Task) -> GateResult:
    """Applies the user's override of a gate for its code tree, which excludes the ledger's own files."""
    findings = [
        one
        for one in gate.held_findings
        if is_control_finding(one[0]) and one[0] not in task.gates.decisions.accepted
    ]
    if not findings:
        return replace(gate, status=GateStatus.OVERRIDDEN, detail="The user let it pass.")
    left = replace(
        gate,
        status=GateStatus.HELD,
        findings=tuple(finding for _, finding in findings),
        suspicions=tuple(name for name, _ in findings),
    )
    return _apply_reviewers_answers(left, task)


def _apply_reviewers_answers(gate: GateResult, task: Task) -> GateResult:
    """Applies reviewers' answers to a gate's findings: one refused finding fails it; if all are accepted, it passes."""
    if gate.status is not GateStatus.HELD or not gate.suspicions:
        return gate
    refused = {name: reason for name, reason in task.gates.decisions.refused if name in gate.suspicions}
    if refused:
        reasons = "; ".join(f"{name}{f' ({reason})' if reason else ''}" for name, reason in refused.items())
        return replace(gate, status=GateStatus.FAILED, detail=f"A reviewer refused {reasons}.")
    if set(gate.suspicions) <= set(task.gates.decisions.accepted):
        return replace(
            gate, status=GateStatus.PASSED, suspicions=(), detail="A reviewer accepted the findings."
        )
    return gate


def is_change_accepted(task: Task, name: str, tree: str) -> bool:
    """True if the user let a rejected change pass, or nothing is enforced where it was measured."""
    gates = task.gates
    return name in gates.decisions.accepted or (
        gates.is_released and name in gates.held and gates.tree == tree
    )


def is_still_rejected(task: Task) -> bool:
    """True if a rejection of the very code under review stands and the user has not let it pass.

    Two ledgers can cause that: one rejects the code while the other accepts it again.
    """
    tree = task.submission.tree if task.submission else ""
    same = [one for one in task.standing_rounds if tree and one.tree == tree]
    return bool(same) and not is_change_accepted(task, find_rejected_change(task, tree, same[-1].patch), tree)


REJECTED_BEFORE = "rejected_before"
"""The kind of question about a resubmitted rejected change."""
MAX_COMMAND_TEXT = 20_000
"""The most characters of commands in one text; omitted ones are counted."""
MAX_LISTED_FINDINGS = 20
REFUSE_ADVICE = (
    "To reject the work instead, use `refuse` in place of `accept`, and give the reason with `--reason TEXT`."
)


def open_findings(task: Task) -> tuple[str, ...]:
    """The findings that must be settled before the task's work counts.

    A hold ends with the claim under which it was measured. For a resubmitted rejected change the claim has ended; the
    user is asked about that change, and nothing else can be settled until then.
    """
    gates = task.gates
    if gates.status is not GateStatus.HELD or gates.is_released:
        return ()
    is_overridden = (INTEGRITY_GATE, gates.tree) in gates.decisions.overridden
    settled = {*gates.decisions.accepted, *(name for name, _ in gates.decisions.refused)}
    unsettled = tuple(
        name
        for name in dict.fromkeys(gates.held)
        if name not in settled and (is_control_finding(name) or not is_overridden)
    )
    if task.status == Status.CLAIMED and task.claim and task.claim.handoff_id == gates.handoff_id:
        return unsettled
    question = task.open_escalation
    if question is not None and question.kind == REJECTED_BEFORE:
        return tuple(filter(is_same_change, unsettled))
    return ()


def is_same_change(finding: str) -> bool:
    """True for a resubmitted rejected change."""
    return finding.startswith(SAME_CHANGE_PREFIX)


def require_not_worker(task: Task, actor: Actor) -> None:
    """Refuses anybody who worked on the task."""
    name = actor.name
    holds = task.claim is not None and task.claim.agent == name
    if holds or name in task.people.authors or name in task.gates.decisions.questioned:
        raise Refused("own_work", f"{name} worked on task {task.id} and cannot settle what its gates found.")


def require_finding_in_scope(task: Task, command: c.SettleFinding, actor: Actor) -> None:
    """Refuses a reviewer who may not accept a finding, or whose scope excludes its file."""
    path = dict(task.gates.places).get(command.finding, "")
    if paths_outside_scope(actor, (path,)):
        raise Refused(
            "out_of_scope",
            f"{actor.name} settles findings in {', '.join(review_scope(actor))}; this one is about {path or 'no file'}.",
        )
    if command.is_accepted and _is_reserved_for_user(command.finding, actor):
        raise Refused(
            "user_only",
            f"{command.finding} is a rejected change that was submitted again; only the user may let it pass.",
        )


def acceptable_findings(task: Task, findings: Iterable[str], actor: Actor) -> tuple[str, ...]:
    """Those of the findings that the actor may accept."""
    try:
        r.require_role(REVIEWERS, actor)
        require_not_worker(task, actor)
    except Refused:
        return ()
    places = dict(task.gates.places)
    paths = {one: places.get(one, "") for one in findings}
    beyond = set(paths_outside_scope(actor, set(paths.values())))
    return tuple(one for one in paths if paths[one] not in beyond and not _is_reserved_for_user(one, actor))


def _is_reserved_for_user(finding: str, actor: Actor) -> bool:
    """True for a change that was rejected before: as a reviewer may be an agent, only the user may let it pass."""
    return is_same_change(finding) and not actor.is_user


def possible_settlers(task: Task, team: Team) -> tuple[str, ...]:
    """Who may accept at least one open finding of the task: members by name, and the user if no member is the user."""
    names = [member.name for member in team.members]
    has_user = any(Role.USER in member.roles for member in team.members)
    candidates = [(name, team.actor(name)) for name in names]
    candidates += [] if has_user else [("the user", team.actor(USER))]
    findings = open_findings(task)
    return tuple(name for name, actor in candidates if acceptable_findings(task, findings, actor))


def settle_command(task: Task, finding: str, actor: Actor | None = None, *, is_accepted: bool = True) -> str:
    """The shell command with which somebody settles a finding; it names actors other than the user."""
    reviewer = actor.name if actor is not None and not actor.is_user else ""
    word, by = (
        "accept" if is_accepted else "refuse",
        f" --reviewer {_shell_argument(reviewer)}" if reviewer else "",
    )
    return f"remand gate {word} {_shell_argument(_task_name(task))} {_shell_argument(finding)}{by}"


def override_command(task: Task) -> str:
    """The command with which the user lets held work pass that nobody may settle."""
    return f"remand gate override {_shell_argument(_task_name(task))} --gate {INTEGRITY_GATE} --reason TEXT"


def show_command(task: Task) -> str:
    """The command that shows every finding of the task."""
    return f"remand task show {_shell_argument(_task_name(task))}"


def _task_name(task: Task) -> str:
    return task.details.aliases[0] if task.details.aliases else task.id


def _shell_argument(text: str) -> str:
    return quote(flatten(text))


def settle_lines(
    task: Task,
    actor: Actor,
    findings: Sequence[str],
    *,
    is_accepted: bool = True,
    limit: int = MAX_COMMAND_TEXT,
) -> str:
    """A command for each finding that the actor may settle, and the ids of the others.

    Commands beyond a length limit are only counted.
    """
    own = acceptable_findings(task, findings, actor)
    reached = set(own)
    rows = [f"  {settle_command(task, one, actor, is_accepted=is_accepted)}" for one in own]
    fits = sum(1 for total in accumulate(len(row) + 1 for row in rows) if total <= limit)
    if fits < len(rows):
        rows = [*rows[:fits], f"  and {len(rows) - fits} more: {show_command(task)}"]
    others = [_shell_argument(one) for one in dict.fromkeys(findings) if one not in reached]
    if others:
        more = f" and {len(others) - MAX_LISTED_FINDINGS} more" if len(others) > MAX_LISTED_FINDINGS else ""
        rows.append(
            f"  {'For another reviewer: ' if own else ''}{', '.join(others[:MAX_LISTED_FINDINGS])}{more}"
        )
    return "\n".join(rows)


def hold_summary(task: Task, team: Team) -> str:
    """The agent's message about a hold: how much is held, and who must act."""
    count, names = len(open_findings(task)), possible_settlers(task, team)
    if not count:
        return ""
    if not names:
        return f"{describe_held_count(count)}, and nobody on the team may settle {_pronoun(count)}. Tell the user."
    who = _capitalise(join_names(names))
    return (
        f"{describe_held_count(count)}. {who} has to settle {_pronoun(count)}; you cannot do that yourself."
    )


def hold_notice(task: Task, team: Team, limit: int = MAX_COMMAND_TEXT) -> str:
    """The notice about a hold for people: who must act, and a command for each finding."""
    findings, names = open_findings(task), possible_settlers(task, team)
    if not findings:
        return ""
    if not names:
        return f"{describe_held_count(len(findings))}, and everybody who could settle {_pronoun(len(findings))} worked on the task. The user lets it pass with:\n  {override_command(task)}"
    user = team.actor(USER)
    is_users = bool(acceptable_findings(task, findings, user))
    rows = settle_lines(task, user if is_users else team.actor(names[0]), findings, limit=limit)
    by = " Reviewers other than the user add `--reviewer NAME`." if is_users and len(names) > 1 else ""
    who = _capitalise(join_names(names))
    return f"{describe_held_count(len(findings))}. {who} accepts {_pronoun(len(findings))} with:\n{rows}\n{REFUSE_ADVICE}{by}"


def _capitalise(text: str) -> str:
    """A text with a capital first letter, unless it starts with a name."""
    return f"T{text[1:]}" if text.startswith("the user") else text


def _pronoun(count: int) -> str:
    return "it" if count == 1 else "each of them"


def describe_held_count(count: int, *, still: bool = False) -> str:
    """The number of held findings as a sentence without full stop."""
    findings = "1 finding is" if count == 1 else f"{count} findings are"
    return f"{findings}{' still' if still else ''} held"


def join_names(names: Sequence[str]) -> str:
    """Names as alternatives: `Lead or the user`."""
    if not names:
        return "nobody"
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
