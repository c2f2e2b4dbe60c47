"""Held work as people are shown it, and settling it: what several groups of commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remand.app.family import Family
from remand.app.held import HeldFinding, HeldWork, held_work, work_of
from remand.app.rebuild import story
from remand.domain import commands as c
from remand.domain.gating import is_settled
from remand.domain.holds import (
    BACK,
    MANY,
    acceptable,
    held_count,
    name_choice,
    open_findings,
    settle_command,
    settle_lines,
)
from remand.domain.refusals import Refused
from remand.domain.roles import Actor, Team
from remand.domain.task import Task
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.output import Result, one_line

MOST_SHOWN = 100
"""How many findings of a task are shown in lists; `remand task show` shows all."""


def acting_member(context: Context, name: str = "", task: Task | None = None) -> Actor:
    """Who acts, or the member of that name, with the roles of the team and the name that a task knows it by."""
    team = known_team(context, task) if task else context.opened.settings.rules().team
    return team.actor(name or context.actor(), confined=context.is_confined)


def known_team(context: Context, task: Task) -> Team:
    """The team, each member by the name that the task knows it by."""
    with context.opened.store.read() as view:
        return context.opened.settings.rules().team.as_known(Family(view).names(task))


def held_work_for(context: Context, who: Actor) -> list[HeldWork]:
    """The held work that somebody may settle, the oldest first."""
    team = context.opened.settings.rules().team
    with context.opened.store.read() as view:
        return held_work(view, team, lambda task_id: story(view, task_id), who)


def held_work_of(context: Context, task: Task) -> HeldWork | None:
    """All that is held of a task, with commands for what whoever acts may settle; None when nothing is."""
    if not open_findings(task):
        return None
    team = context.opened.settings.rules().team
    with context.opened.store.read() as view:
        return work_of(view, team, task, story(view, task.id), acting_member(context))


def held_block(work: HeldWork, most: int = MOST_SHOWN) -> str:
    """Held work: every finding with its command, how to send the work back, who may settle it, the report."""
    count = len(work.findings)
    name = f"{work.task_id} ({work.label})" if work.label.startswith("issue ") else work.task_id
    rows = [f"{name}  {one_line(work.title)}  (since {work.since[:19]})"]
    rows += [
        f"  {held_count(count)} in {one_line(work.agent)}'s work; {name_choice(work.settlers)} may settle this:"
    ]
    rows += [row for one in work.findings[:most] for row in finding_rows(one)]
    if count > most:
        rows.append(f"  and {count - most} more: remand task show {work.task_id}")
    rows += [f"  The user lets it pass with:\n      {work.override}"] if work.override else []
    rows += [f"  {BACK}"] if any(one.refuse for one in work.findings) else []
    rows += [f"  Full report: remand gate report {one_line(work.report)}"] if work.report else []
    return "\n".join(rows)


def finding_rows(one: HeldFinding) -> tuple[str, ...]:
    """A finding, and on a line of its own, to be copied, the command that accepts it."""
    if not one.accept:
        return (f"  - {one.finding}: {one.place}",)
    return (f"  - {one.place or one.finding}", f"      {one.accept}")


def settle_held(context: Context, ask: c.SettleFinding, actor: str, *, step: int = 0) -> Task:
    """Settles a finding; once all that stood in the way of the work is accepted, it is claimed done again."""
    task = context.ask(ask, actor, step=step).task
    return claim_again(context, task, step=step) if ask.is_accepted else task


def claim_again(context: Context, task: Task, *, step: int = 0) -> Task:
    """Claims the work done once more when people have settled all that stood in its way; the task then."""
    claim, gating = task.claim, task.gating
    if claim is None or not is_settled(task):
        return task
    ask = c.SubmitTask(
        task_id=task.id,
        agent=claim.agent,
        handoff_id=claim.handoff_id,
        commit=gating.commit,
        branch=gating.branch,
        is_branch_given=gating.is_branch_given,
        pr=gating.pr,
    )
    claimed = context.claim_known(ask, claim.agent, step=step)
    return task if claimed is None or isinstance(claimed.answer, Refused) else claimed.answer.task


def settled_result(context: Context, task: Task, name: str) -> Result:
    """What came of settling something: where the task stands, and what is still held of it."""
    actor = acting_member(context, name, task)
    held = open_findings(task)
    commands = [settle_command(task, one, actor) for one in acceptable(task, held, actor)]
    data: dict[str, Any] = {
        "task_id": task.id,
        "status": task.status.value,
        "held": list(held),
        "accept": commands,
    }
    return Result(data, settled_text(context, task, name))


def settled_text(context: Context, task: Task, name: str) -> str:
    """Where a task stands, with one command for each finding that is still held."""
    actor = acting_member(context, name, task)
    held = open_findings(task)
    stands = f"{task.id} is {task.status}"
    if not held:
        return stands
    return f"{stands}. {held_count(len(held), still=True)}: {_named(held)}\n{settle_lines(task, actor, held)}"


def _named(findings: Sequence[str]) -> str:
    more = f" and {len(findings) - MANY} more" if len(findings) > MANY else ""
    return f"{', '.join(findings[:MANY])}{more}"
