"""Verdicts as text, on tasks and on sessions without one; held work, and how to settle held findings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.events.signatures import confirmed_events
from remand.app.events.task_folds import task_events
from remand.app.gates.done_claims import ClaimOutcome
from remand.app.inbox.held_findings import (
    HeldFinding,
    HeldWork,
    held_work,
    held_work_of_task,
    settled_kinds,
    with_settlements,
)
from remand.app.tasks.lookup import Lineage
from remand.domain import commands as c
from remand.domain.access.team import Actor, Team
from remand.domain.decisions import findings
from remand.domain.decisions.gates import is_settled_by_people
from remand.domain.events import work
from remand.domain.events.event import event_names
from remand.domain.gate import message
from remand.domain.gate.verdict import PASSING, Verdict
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import Result, one_line, refused_result, table
from remand.interfaces.hook.session import open_session_ledger
from remand.ledger.order import order_key
from remand.wiring.startup import folders_of

if TYPE_CHECKING:
    from rich.console import Console

MOST_SHOWN = 100
"""How many findings of a task lists show; `remand task show` shows all."""


def acting_member(context: Context, name: str = "", task: Task | None = None) -> Actor:
    """The actor, or the member of that name, with the team's roles and the name by which the task knows it."""
    team = team_for_task(context, task) if task else context.opened_ledger.settings.rules().team
    return context.limit(team.actor(name or context.actor(), confined=context.is_confined))


def team_for_task(context: Context, task: Task) -> Team:
    """The team, each member by the name by which the task knows it."""
    with context.opened_ledger.store.read() as view:
        return context.opened_ledger.settings.rules().team.with_task_names(
            Lineage(view).participant_names(task)
        )


def held_work_for(context: Context, who: Actor) -> list[HeldWork]:
    """The held work that a member may settle, oldest first."""
    team = context.opened_ledger.settings.rules().team
    with context.opened_ledger.store.read() as view:
        return held_work(view, team, lambda task_id: task_events(view, task_id), who)


def task_held_work(context: Context, task: Task) -> HeldWork | None:
    """The held findings of a task, with commands for those that the actor may settle; None if there are none."""
    if not findings.open_findings(task):
        return None
    team = context.opened_ledger.settings.rules().team
    with context.opened_ledger.store.read() as view:
        actor, events = acting_member(context), task_events(view, task.id)
        return with_settlements(held_work_of_task(view, team, task, events, actor), settled_kinds(view))


def render_held_work(work: HeldWork, most: int = MOST_SHOWN) -> str:
    """Held work: every finding with its command, how to send the work back, who may settle it, the report."""
    count = len(work.findings)
    name = f"{work.task_id} ({work.label})" if work.label.startswith("issue ") else work.task_id
    rows = [
        f"{name}  {one_line(work.title)}  (since {work.since[:19]})",
        f"  {findings.describe_held_count(count)} in {one_line(work.agent)}'s work; {findings.join_names(work.settlers)} may settle this:",
        *(row for finding in work.findings[:most] for row in finding_rows(finding)),
    ]
    if count > most:
        rows.append(f"  and {count - most} more: remand task show {work.task_id}")
    rows += [f"  The user lets it pass with:\n      {work.override}"] if work.override else []
    rows += [f"  {findings.REFUSE_ADVICE}"] if any(finding.refuse for finding in work.findings) else []
    rows += [f"  Full report: remand gate report {one_line(work.report)}"] if work.report else []
    return "\n".join(rows)


def finding_rows(finding: HeldFinding) -> tuple[str, ...]:
    """A finding in two lines and, on a separate line to be copied, the command that accepts it."""
    first, *second = finding.lines or (finding.finding,)
    explained = tuple(f"    {row}" for row in second)
    if not finding.accept:
        return (f"  - {finding.finding}: {first}", *explained)
    return (f"  - {first}", *explained, f"      {finding.accept}")


def settle_held(context: Context, request: c.SettleFinding, actor: str, *, step: int = 0) -> Task:
    """Settles a finding; once everything that held the work is accepted, the work is claimed done again."""
    task = context.ask(request, actor, step=step).task
    return claim_again(context, task, step=step) if request.is_accepted else task


def claim_again(context: Context, task: Task, *, step: int = 0) -> Task:
    """Claims the work done again when everything that held it has been settled; returns the task."""
    claim, gates = task.claim, task.gates
    if claim is None or not is_settled_by_people(task):
        return task
    request = c.SubmitTask(
        task_id=task.id,
        agent=claim.agent,
        handoff_id=claim.handoff_id,
        commit=gates.commit,
        branch=gates.branch,
        is_branch_given=gates.is_branch_given,
        pr=gates.pr,
    )
    claimed = context.claim_known(request, claim.agent, step=step)
    return task if claimed is None or isinstance(claimed.answer, Refused) else claimed.answer.task


def settlement_result(context: Context, task: Task, name: str) -> Result:
    """The result of settling a finding: the task's status, and a command for each finding that is still held."""
    actor, held = acting_member(context, name, task), findings.open_findings(task)
    data: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status.value,
        "held": list(held),
        "accept": [
            findings.settle_command(task, finding, actor)
            for finding in findings.acceptable_findings(task, held, actor)
        ],
    }
    text = f"{task.id} is {task.status}"
    if held:
        names = ", ".join(held[: findings.MAX_LISTED_FINDINGS])
        more = len(held) - findings.MAX_LISTED_FINDINGS
        names += f" and {more} more" if more > 0 else ""
        text += f". {findings.describe_held_count(len(held), still=True)}: {names}\n{findings.settle_lines(task, actor, held)}"
    return Result(data, text)


def verdict_data(
    context: Context, verdict: Verdict, *, is_cached: bool = False, text: str = ""
) -> dict[str, Any]:
    return {
        "status": verdict.status.value,
        "commit": verdict.commit,
        "tree": verdict.tree,
        "base": verdict.base or None,
        "policy": verdict.policy,
        "tier": verdict.tier,
        "cached": is_cached,
        "gates": [
            {
                "name": gate.name,
                "status": gate.status.value,
                "measured": gate.measured,
                "required": gate.required,
                "base": gate.base,
                "line": gate.line,
                "detail": gate.detail,
                "findings": [
                    {"path": f.path, "line": f.line, "code": f.code, "text": f.text, "severity": f.severity}
                    for f in gate.findings
                ],
                "finding_count": gate.finding_count,
                "failing": list(gate.failing),
                "flaky": list(gate.flaky),
                "held": list(gate.suspicions),
                "is_required": gate.is_required,
                "seconds": round(gate.seconds, 3),
            }
            for gate in verdict.gates
        ],
        "report": context.gates.report_path(verdict.report_name) or None,
        "message": text or message.render_verdict(verdict),
    }


def rules_note(source: str) -> str:
    """A note if the verdict used the working tree's own rules."""
    if source != "working tree":
        return ""
    return "\nThe rules come from the working tree, because the base branch has none."


def done_claim_result(context: Context, claimed: ClaimOutcome) -> Result:
    """The answer to a done claim, and whose rules it was judged by."""
    answer, verdict = claimed.answer, claimed.verdict
    if isinstance(answer, Refused):
        if verdict is None:
            raise answer
        return _refused_claim_result(context, answer, claimed, verdict)
    task = answer.task
    source = context.opened_ledger.settings.settings().source
    data = (
        verdict_data(context, verdict, is_cached=claimed.is_cached, text=claimed.message) if verdict else {}
    )
    data["policy_source"] = source
    commit = task.submission.commit if task.submission else ""
    text = f"{task.id} is {task.status} at {commit[:12]}\n{claimed.message}{rules_note(source)}"
    return Result({"task_id": task.id, "status": task.status.value, "verdict": data}, text.strip())


def _refused_claim_result(
    context: Context, refusal: Refused, claimed: ClaimOutcome, verdict: Verdict
) -> Result:
    with context.opened_ledger.store.read() as view:
        task = view.tasks.get(claimed.task_id)
    held = task_held_work(context, task) if task else None
    data = {
        "task_id": task.id if task else None,
        "status": task.status.value if task else None,
        "gate_rejection_count": task.gates.rejection_count if task else None,
        "verdict": verdict_data(context, verdict, is_cached=claimed.is_cached, text=refusal.message),
    }
    data |= {"held": msgspec.to_builtins(held.findings)} if held else {}
    text = refusal.message if context.is_confined else claimed.notice or refusal.message
    return refused_result(refusal, data, text)


_COLUMNS = ("time", "host", "verdict", "session", "says")


def session_rows(context: Context) -> list[dict[str, Any]]:
    """Every verdict on a session, in order of time."""
    if not os.path.isdir(folders_of(context.place).session_ledger):
        return []
    with closing(open_session_ledger(context.place)) as opened, opened.store.read() as view:
        events = sorted(confirmed_events(view, event_names(work.SessionMeasured)), key=order_key)
        titles = {task.id: task.title for task in view.tasks.every()}
    return [_row(event, titles) for event in events if isinstance(event, work.SessionMeasured)]


def session_history(context: Context) -> Result:
    """The gates' results for sessions."""
    rows = session_rows(context)
    return Result(rows, session_table(rows, context.row_limit))


def session_list(context: Context) -> Result:
    """The sessions, each with its last verdict."""
    verdicts = session_rows(context)
    last = {row["session_id"]: row for row in verdicts}
    counts = Counter(row["session_id"] for row in verdicts)
    rows = [row | {"verdicts": counts[name]} for name, row in last.items()]
    return Result(rows, session_table(rows, context.row_limit))


def _row(event: work.SessionMeasured, titles: dict[str, str]) -> dict[str, Any]:
    verdict = event.verdict
    lines = [gate.line.removeprefix("- ") for gate in verdict.gates if gate.name in verdict.blocking_gates]
    lines = lines or [gate.line.removeprefix("- ") for gate in verdict.gates if gate.status in PASSING]
    return {
        "ts": event.ts,
        "session_id": event.task_id,
        "title": titles.get(event.task_id, ""),
        "host": event.host,
        "status": verdict.status.value,
        "is_own": event.is_own,
        "is_partial": bool(event.left_out),
        "left_out": list(event.left_out),
        "tree": verdict.tree,
        "says": "; ".join(lines) + ("; partly measured" if event.left_out else ""),
        "report": verdict.report_name or None,
    }


def session_table(rows: list[dict[str, Any]], limit: int = 0) -> Callable[[Console], None]:
    """Verdicts as a table."""
    cells = [
        (
            row["ts"][5:16].replace("T", " "),
            row["host"],
            row["status"] if row["is_own"] else f"{row['status']}, not its own",
            row["title"],
            row["says"],
        )
        for row in rows
    ]
    return table(_COLUMNS, cells, "No session has been measured yet.", limit=limit, shows_last=True)
