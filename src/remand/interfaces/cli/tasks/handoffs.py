"""Commands on handoffs: initiating, accepting and completing them, and showing one with its rejection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from remand.app.analysis.warnings import HandoffWarning, handoff_warnings
from remand.app.errors import RemandError
from remand.app.events.task_folds import task_events
from remand.app.history.rejections import (
    RejectionFacts,
    RejectionView,
    rejection_facts,
    rejection_of_handoff,
    value_text,
)
from remand.app.history.task_history import HandoffView, task_handoffs
from remand.app.tasks.lookup import task_of_handoff
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.references import require_handoff
from remand.interfaces.cli.context import Context, argument, command, require_json_object
from remand.interfaces.cli.output import NamedValues, Page, Result, one_line
from remand.interfaces.cli.tasks.changes import claim_result
from remand.interfaces.cli.tasks.verdicts import done_claim_result
from remand.ledger.problems import BadLine

if TYPE_CHECKING:
    from rich.console import Console


@command(
    "handoff initiate",
    argument("task"),
    argument("--to", required=True, metavar="AGENT"),
    argument("--from", dest="source", default="", metavar="NAME"),
    argument("--instructions", default="", metavar="TEXT", help="instructions for the agent (@file, -)"),
)
def _initiate(context: Context) -> Result:
    options = context.arguments
    request = c.InitiateHandoff(
        task_id=options.task,
        target=options.to,
        source=options.source,
        instructions=context.text(options.instructions),
    )
    answer = context.ask(request, context.actor())
    event = next(event for event in answer.events if isinstance(event, HandoffInitiated))
    warned: list[HandoffWarning] = []
    # The handoff is recorded by now, and does not fail because a warning cannot be read.
    with suppress(RemandError, BadLine, OSError), context.gateway.opened_ledger.store.read() as view:
        warned = handoff_warnings(view, answer.task, event.target_agent)
    lines = [
        f"{event.handoff_id}: {event.task_id} is handed to {event.target_agent}, reserved until {event.lapses_at}",
        *(f"  warning: {one_line(warning.message, 300)}" for warning in warned),
    ]
    data = {"handoff_id": event.handoff_id, "task_id": event.task_id, "warnings": msgspec.to_builtins(warned)}
    return Result(data, "\n".join(lines))


@command(
    "handoff accept",
    argument("handoff"),
    argument("--agent"),
    argument("--acknowledgment", default="", metavar="TEXT"),
)
def _accept(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = c.AcceptHandoff(
        handoff_id=options.handoff, agent=agent, acknowledgment=context.text(options.acknowledgment)
    )
    return claim_result(context, context.ask(request, agent))


@command(
    "handoff complete",
    argument("handoff"),
    argument("--agent"),
    argument("--commit", required=True, metavar="SHA"),
    argument("--branch", default="", help="the branch that contains the commit, if it is not the task's"),
    argument("--pr", type=int, default=0, metavar="N"),
    argument("--result", default="", metavar="JSON"),
)
def _complete(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    result = context.text(options.result)
    request = c.CompleteHandoff(
        handoff_id=options.handoff,
        agent=agent,
        commit=context.commit(options.commit),
        branch=options.branch or context.gateway.repository.branch(),
        is_branch_given=bool(options.branch),
        pr=options.pr,
        result=require_json_object(result) if result else "",
    )
    return done_claim_result(context, context.claim_done(request, agent))


@command("handoff status", argument("handoff"))
def _status(context: Context) -> Result:
    name = ids.parse_handoff_id(context.arguments.handoff) or ""
    with context.opened_ledger.store.read() as view:
        task_id = task_of_handoff(view, name)
        events = task_events(view, task_id) if task_id else []
    known_handoff = next((view for view in task_handoffs(events) if view.handoff_id == name), None)
    found = require_handoff(known_handoff, context.arguments.handoff)
    filed = rejection_of_handoff(events, name)
    known = rejection_facts(filed) if filed else RejectionFacts()
    data = {field: getattr(found, field) for field in found.__struct_fields__}
    data |= {field: getattr(known, field) for field in known.__struct_fields__}
    data |= {"rejection": filed, "decision": filed.decision if filed else None}
    return Result(msgspec.to_builtins(data), _render_handoff(found, filed, known))


def _render_handoff(
    found: HandoffView, filed: RejectionView | None, known: RejectionFacts
) -> Callable[[Console], None]:
    """A handoff for people: its fields, then each part of its last rejection, and the decision."""
    below = ("instructions", "override_message", "result")
    rows = [
        (field.replace("_", " "), getattr(found, field))
        for field in found.__struct_fields__
        if field not in below
    ]
    passed_on = f"{found.reassigned_to}; the task is no longer {found.agent}'s" if found.reassigned_to else ""
    rows = [(name, passed_on if name == "reassigned to" else value) for name, value in rows]

    def show(out: Console) -> None:
        NamedValues(rows)(out)
        page = Page(out, f"remand handoff status {found.handoff_id} --json")
        page.text("Instructions", found.instructions)
        page.text("Override message", found.override_message)
        page.text("Result", value_text(found.result) if found.result else "")
        if filed is not None:
            _show_rejection(page, filed, known)
            _show_decision(page, filed)

    return show


def _show_rejection(page: Page, filed: RejectionView, known: RejectionFacts) -> None:
    """Everything that a decision rests on."""
    record = filed.rejection
    judged = f"{'valid' if filed.is_valid else 'invalid'}, score {filed.score:.2f}"
    if filed.is_imported:
        judged = "imported, not judged here" if filed.is_valid else "imported, recorded as invalid"
    page.text(
        f"Rejection {filed.rejection_id} by {filed.agent or 'an unnamed agent'} ({judged})",
        f"{value_text(record.get('reason_type'))}: {value_text(record.get('reason_summary'))}",
    )
    page.items(
        "Validation issues",
        [
            issue.message if filed.is_imported else f"{issue.field}: {issue.message} [{issue.code}]"
            for issue in known.issues
        ],
    )
    page.text("Detail", value_text(record.get("reason_detail")))
    page.text("Blocking factor", known.blocking_factor)
    for title, checked in (("Attempts", known.attempts), ("Evidence", known.evidence)):
        page.items(
            title,
            [
                f"[{item.grade}] {item.text}" + (f"\nChecked: {item.detail}" if item.detail else "")
                for item in checked
            ],
        )
    page.text("Original scope", known.task_original_scope)
    if known.scope_growth_factor is not None:
        growth = value_text(known.scope_growth_factor)
        page.text("Growth", f"The scope grew {growth} times, as the agent states.")
    page.text("Suggested alternative", known.suggested_alternative)
    proposed = []
    for task in known.alternative_tasks:
        fields = (("Scope", task.scope), ("Depends on", task.dependencies), ("Estimate", task.estimate))
        lines = [task.title, *(f"{name}: {text}" for name, text in fields if text)]
        proposed.append("\n".join(filter(None, lines)))
    page.items("Proposed sub-tasks", proposed)
    page.text("Adviser's opinion", filed.opinion)


def _show_decision(page: Page, filed: RejectionView) -> None:
    decision = filed.decision
    if decision is None and filed.is_imported:
        page.text(
            "Decision", "No decision was imported. An imported rejection changes no task and needs no answer."
        )
    elif decision is None:
        page.text("Decision", "Waiting for a director's answer.")
        page.command(f"remand handoff rejection-response {filed.handoff_id} --decision DECISION")
    else:
        by = f" by {filed.decided_by}" if filed.decided_by else ""
        page.text("Decision", f"{decision.decision_type}{by} at {filed.decided_at}\n{decision.rationale}")
        page.items("Tasks created by the decision", list(decision.created_tasks))
        if decision.reassign_to not in ("", filed.agent):
            page.text("Reassigned to", decision.reassign_to)
