"""Commands on handoffs."""

from __future__ import annotations

from argparse import ArgumentParser

import msgspec

from remand.app import stories
from remand.app.errors import RemandError
from remand.app.naming import task_of_handoff
from remand.app.rebuild import story
from remand.app.rejection_views import RejectionView, rejection_of_handoff
from remand.app.warnings import Warned, warnings
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.events import HandoffInitiated
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.interfaces.cli.context import Command, Context, json_object
from remand.interfaces.cli.output import Result, facts, one_line
from remand.interfaces.cli.tasks import claimed
from remand.interfaces.cli.verdicts import claimed_result
from remand.ledger.problems import BadLine


def _initiate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("task")
    parser.add_argument("--to", required=True, metavar="AGENT")
    parser.add_argument("--from", dest="source", default="", metavar="NAME")
    parser.add_argument("--instructions", default="", metavar="TEXT", help="@file and - are read")


def _initiate(context: Context) -> Result:
    options = context.arguments
    ask = c.InitiateHandoff(
        task_id=options.task,
        target=options.to,
        source=options.source,
        instructions=context.text(options.instructions),
    )
    answer = context.ask(ask, context.actor())
    event = next(event for event in answer.events if isinstance(event, HandoffInitiated))
    warned = _warnings(context, answer.task, event.target_agent)
    said = f"{event.handoff_id}: {event.task_id} is handed to {event.target_agent}, reserved until {event.lapses_at}"
    data = {"handoff_id": event.handoff_id, "task_id": event.task_id, "warnings": msgspec.to_builtins(warned)}
    return Result(
        data, "\n".join([said, *(f"  warning: {one_line(found.message, 300)}" for found in warned)])
    )


def _warnings(context: Context, task: Task, agent: str) -> list[Warned]:
    """What there is to warn of. The handoff is recorded by now, and does not fail for a warning that cannot be had."""
    try:
        with context.gateway.opened.store.read() as view:
            return warnings(view, task, agent)
    except (RemandError, BadLine, OSError):
        return []


def _accept_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handoff")
    parser.add_argument("--agent")
    parser.add_argument("--acknowledgment", default="", metavar="TEXT")


def _accept(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    ask = c.AcceptHandoff(
        handoff_id=options.handoff, agent=agent, acknowledgment=context.text(options.acknowledgment)
    )
    return claimed(context.ask(ask, agent))


def _complete_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handoff")
    parser.add_argument("--agent")
    parser.add_argument("--commit", required=True, metavar="SHA")
    parser.add_argument(
        "--branch", default="", help="the branch that has the commit, when it is not the task's"
    )
    parser.add_argument("--pr", type=int, default=0, metavar="N")
    parser.add_argument("--result", default="", metavar="JSON")


def _complete(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    result = context.text(options.result)
    ask = c.CompleteHandoff(
        handoff_id=options.handoff,
        agent=agent,
        commit=context.commit(options.commit),
        branch=options.branch or context.gateway.repository.branch(),
        is_branch_given=bool(options.branch),
        pr=options.pr,
        result=json_object(result) if result else "",
    )
    return claimed_result(context, context.claim_done(ask, agent))


def _status_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("handoff")


def _status(context: Context) -> Result:
    name = ids.handoff_id(context.arguments.handoff) or ""
    with context.opened.store.read() as view:
        task_id = task_of_handoff(view, name)
        events = story(view, task_id) if task_id else []
    found = next((view for view in stories.handoffs(events) if view.handoff_id == name), None)
    if found is None:
        raise Refused("unknown_handoff", f"There is no handoff {context.arguments.handoff}.")
    data = {field: getattr(found, field) for field in found.__struct_fields__}
    filed = rejection_of_handoff(events, name)
    data |= {"rejection": filed, "decision": filed.decision if filed else None}
    shown = data | {
        "rejection": _told(filed),
        "decision": _decided(filed),
        "reassigned_to": _passed_on(found),
    }
    return Result(
        msgspec.to_builtins(data), facts([(key.replace("_", " "), value) for key, value in shown.items()])
    )


def _passed_on(found: stories.HandoffView) -> str:
    return f"{found.reassigned_to}; the task is no longer {found.agent}'s" if found.reassigned_to else ""


def _told(filed: RejectionView | None) -> str:
    if filed is None:
        return ""
    reason, summary = (filed.rejection.get(name, "") for name in ("reason_type", "reason_summary"))
    issues = "".join(f"\n- {issue.message}" for issue in filed.issues)
    return f"{reason}: {summary} ({'valid' if filed.is_valid else 'invalid'}, {filed.rejection_id}){issues}"


def _decided(filed: RejectionView | None) -> str:
    if filed is None or filed.decision is None:
        return "" if filed is None else "a director has yet to answer"
    return f"{filed.decision.decision_type}: {filed.decision.rationale}"


COMMANDS = {
    "handoff initiate": Command(_initiate_arguments, _initiate),
    "handoff accept": Command(_accept_arguments, _accept),
    "handoff complete": Command(_complete_arguments, _complete),
    "handoff status": Command(_status_arguments, _status),
}
