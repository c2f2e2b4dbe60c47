"""Work that the gates hold: which findings wait for a person, who may settle each, and the command that does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from shlex import quote

from remand.domain import commands as c
from remand.domain import rules as r
from remand.domain.amending import SAME_CHANGE
from remand.domain.control import is_control_finding
from remand.domain.gates.verdict import INTEGRITY, GateStatus
from remand.domain.refusals import Refused
from remand.domain.roles import USER, Actor, Role, Team
from remand.domain.scopes import outside, scope
from remand.domain.task import Status, Task
from remand.domain.visible import visible

REJECTED_BEFORE = "rejected_before"
"""The kind of question that a rejected change, handed in again, puts to the user."""
MAX_COMMANDS = 20_000
"""How many characters of commands one text has; what is left out is counted."""
MANY = 20
BACK = "To send the work back instead, write `refuse` for `accept`, and say why with `--reason TEXT`."


def open_findings(task: Task) -> tuple[str, ...]:
    """The findings that somebody has to settle before the task's work counts.

    A hold ends with the claim that it was measured under. The claim of a rejected change that was handed in again has
    ended; the user is asked about that change, and nothing else is settled until then.
    """
    gating = task.gating
    if gating.status is not GateStatus.HELD or gating.is_released:
        return ()
    is_overridden = (INTEGRITY, gating.tree) in gating.overridden
    settled = {*gating.accepted, *(name for name, _ in gating.refused)}
    unsettled = tuple(
        name
        for name in dict.fromkeys(gating.held)
        if name not in settled and (is_control_finding(name) or not is_overridden)
    )
    if task.status == Status.CLAIMED and task.claim and task.claim.handoff_id == gating.handoff_id:
        return unsettled
    question = task.open_escalation
    if question is not None and question.kind == REJECTED_BEFORE:
        return tuple(filter(is_same_change, unsettled))
    return ()


def is_same_change(finding: str) -> bool:
    """True for a rejected change that was handed in again."""
    return finding.startswith(SAME_CHANGE)


def require_no_part(task: Task, actor: Actor) -> None:
    """Refuses whoever worked on the task."""
    name = actor.name
    holds = task.claim is not None and task.claim.agent == name
    if holds or name in task.authors or name in task.gating.questioned:
        raise Refused("own_work", f"{name} worked on task {task.id} and cannot settle what its gates found.")


def require_reach(task: Task, ask: c.SettleFinding, actor: Actor) -> None:
    """Refuses a reviewer whose word does not reach the file that a finding is about, or who may not accept it."""
    path = dict(task.gating.places).get(ask.finding, "")
    if outside(actor, (path,)):
        raise Refused(
            "out_of_scope",
            f"{actor.name} settles findings in {', '.join(scope(actor))}; this one is about {path or 'no file'}.",
        )
    if ask.is_accepted and _is_for_user(ask.finding, actor):
        raise Refused(
            "user_only", f"{ask.finding} is a rejected change handed in again; only the user lets it pass."
        )


def acceptable(task: Task, findings: Iterable[str], actor: Actor) -> tuple[str, ...]:
    """Of these findings of the task, those that the actor may accept."""
    try:
        r.require_permission(c.SettleFinding(task_id=task.id, finding="", is_accepted=True), actor)
        require_no_part(task, actor)
    except Refused:
        return ()
    places = dict(task.gating.places)
    paths = {one: places.get(one, "") for one in findings}
    beyond = set(outside(actor, set(paths.values())))
    return tuple(one for one in paths if paths[one] not in beyond and not _is_for_user(one, actor))


def _is_for_user(finding: str, actor: Actor) -> bool:
    """True for a change that was rejected before: a reviewer may be an agent too, so only the user lets it pass."""
    return is_same_change(finding) and not actor.is_user


def settlers(task: Task, team: Team) -> tuple[str, ...]:
    """Who may accept at least one open finding of the task: members by name, and the user where none is a member."""
    names = [member.name for member in team.members]
    has_user = any(Role.USER in member.roles for member in team.members)
    asked = [(name, team.actor(name)) for name in names]
    asked += [] if has_user else [("the user", team.actor(USER))]
    findings = open_findings(task)
    return tuple(name for name, actor in asked if acceptable(task, findings, actor))


def settle_command(task: Task, finding: str, actor: Actor | None = None, *, is_accepted: bool = True) -> str:
    """The command by which somebody settles a finding, ready for a shell; it names whoever is not the user."""
    reviewer = actor.name if actor is not None and not actor.is_user else ""
    word, by = "accept" if is_accepted else "refuse", f" --reviewer {_argument(reviewer)}" if reviewer else ""
    return f"remand gate {word} {_argument(_name(task))} {_argument(finding)}{by}"


def override_command(task: Task) -> str:
    """The command by which the user lets held work pass that nobody may settle."""
    return f"remand gate override {_argument(_name(task))} --gate {INTEGRITY} --reason TEXT"


def show_command(task: Task) -> str:
    """The command that shows every finding of the task."""
    return f"remand task show {_argument(_name(task))}"


def _name(task: Task) -> str:
    return task.aliases[0] if task.aliases else task.id


def _argument(text: str) -> str:
    return quote(" ".join(visible(text).split()))


def settle_lines(
    task: Task, actor: Actor, findings: Sequence[str], *, is_accepted: bool = True, room: int = MAX_COMMANDS
) -> str:
    """One command for each of these findings that the actor may settle, and the ids of the others.

    Of more commands than there is room for, in characters, the rest is counted.
    """
    own = acceptable(task, findings, actor)
    reached = set(own)
    rows = [f"  {settle_command(task, one, actor, is_accepted=is_accepted)}" for one in own]
    fits = sum(1 for total in accumulate(len(row) + 1 for row in rows) if total <= room)
    if fits < len(rows):
        rows = [*rows[:fits], f"  and {len(rows) - fits} more: {show_command(task)}"]
    others = [_argument(one) for one in dict.fromkeys(findings) if one not in reached]
    if others:
        more = f" and {len(others) - MANY} more" if len(others) > MANY else ""
        rows.append(f"  {'For another reviewer: ' if own else ''}{', '.join(others[:MANY])}{more}")
    return "\n".join(rows)


def hold_summary(task: Task, team: Team) -> str:
    """What an agent is told about a hold: how much is held, and who has to act."""
    count, names = len(open_findings(task)), settlers(task, team)
    if not count:
        return ""
    if not names:
        return f"{held_count(count)}, and nobody in the team may settle {_them(count)}. Tell the user."
    who = _capital(name_choice(names))
    return f"{held_count(count)}. {who} has to settle {_them(count)}; you cannot do that yourself."


def hold_notice(task: Task, team: Team, room: int = MAX_COMMANDS) -> str:
    """What people are told about a hold: who has to act, and one command for each finding."""
    findings, names = open_findings(task), settlers(task, team)
    if not findings:
        return ""
    if not names:
        return (
            f"{held_count(len(findings))}, and whoever could settle {_them(len(findings))} worked on it. "
            f"The user lets it pass with:\n  {override_command(task)}"
        )
    user = team.actor(USER)
    is_users = bool(acceptable(task, findings, user))
    rows = settle_lines(task, user if is_users else team.actor(names[0]), findings, room=room)
    by = " Whoever is not the user adds `--reviewer NAME`." if is_users and len(names) > 1 else ""
    who = _capital(name_choice(names))
    return f"{held_count(len(findings))}. {who} accepts {_them(len(findings))} with:\n{rows}\n{BACK}{by}"


def _capital(text: str) -> str:
    """The start of a sentence; a name stays as it is written."""
    return f"T{text[1:]}" if text.startswith("the user") else text


def _them(count: int) -> str:
    return "it" if count == 1 else "each of them"


def held_count(count: int, *, still: bool = False) -> str:
    """How many findings are held, as a sentence without its end."""
    findings = "1 finding is" if count == 1 else f"{count} findings are"
    return f"{findings}{' still' if still else ''} held"


def name_choice(names: Sequence[str]) -> str:
    """Names as a choice: `Lead or the user`."""
    if not names:
        return "nobody"
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
