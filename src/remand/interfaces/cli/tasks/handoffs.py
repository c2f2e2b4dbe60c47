"""Commands on handoffs: initiating, accepting, completing and showing them; an agent's rejections, and a director's answers."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.analysis.warnings import HandoffWarning, handoff_warnings
from remand.app.errors import RemandError, UsageError
from remand.app.events.task_folds import task_events
from remand.app.history.rejections import (
    RejectionFacts,
    RejectionView,
    rejection_facts,
    rejection_of_handoff,
    task_rejections,
    value_text,
)
from remand.app.history.task_history import HandoffView, task_handoffs
from remand.app.requests import Acceptance
from remand.app.tasks.lookup import resolve_handoff_id, task_of_handoff
from remand.domain import commands as c
from remand.domain.decide import require_permission
from remand.domain.decisions import rejections
from remand.domain.events.tasks import HandoffInitiated
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, parse_reason
from remand.domain.refusals import require_handoff
from remand.domain.rejection import FIELDS, TaskRejection
from remand.domain.task import Status, Task
from remand.domain.validation.validator import assess
from remand.interfaces.cli.context import Context, argument, command, require_json_object
from remand.interfaces.cli.output import NamedValues, Page, Result, clean, one_line, refused_result, table
from remand.interfaces.cli.tasks.changes import claim_result
from remand.interfaces.cli.tasks.verdicts import done_claim_result
from remand.interfaces.cli.tasks.views import find_task
from remand.ledger.problems import BadLine
from remand.wiring.coordinator import make_consultants
from remand.wiring.startup import find_socket

if TYPE_CHECKING:
    from rich.console import Console


@command(
    "handoff initiate",
    argument("task"),
    argument("--to", required=True, metavar="AGENT"),
    argument(
        "--from", dest="source", default="", metavar="NAME", help="who hands it off; by default the caller"
    ),
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
    argument("--acknowledgment", default="", metavar="TEXT", help="the agent's reply, for the record"),
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
    argument("--result", default="", metavar="JSON", help="the result, for the record"),
)
def _complete(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    result = context.text(options.result)
    request = c.CompleteHandoff(
        handoff_id=options.handoff,
        agent=agent,
        commit=context.commit(options.commit),
        branch=options.branch or context.branch,
        is_branch_given=bool(options.branch),
        pr=options.pr,
        result=require_json_object(result) if result else "",
    )
    return done_claim_result(context, context.claim_done(request, agent))


@command("handoff status", argument("handoff"))
def _status(context: Context) -> Result:
    with context.opened_ledger.store.read() as view:
        name = resolve_handoff_id(view, context.arguments.handoff)
        task_id = task_of_handoff(view, name)
        events = task_events(view, task_id) if task_id else []
    known_handoff = next((view for view in task_handoffs(events) if view.handoff_id == name), None)
    handoff_view = require_handoff(known_handoff, context.arguments.handoff)
    filed = rejection_of_handoff(events, name)
    known = rejection_facts(filed) if filed else RejectionFacts()
    data = {field: getattr(handoff_view, field) for field in handoff_view.__struct_fields__}
    data |= {field: getattr(known, field) for field in known.__struct_fields__}
    data |= {"rejection": filed, "decision": filed.decision if filed else None}
    return Result(msgspec.to_builtins(data), _render_handoff(handoff_view, filed, known))


def _render_handoff(
    view: HandoffView, filed: RejectionView | None, known: RejectionFacts
) -> Callable[[Console], None]:
    """A handoff as text: its fields, then each part of its last rejection, and the decision."""
    below = ("instructions", "override_message", "result")
    rows = [
        (field.replace("_", " "), getattr(view, field))
        for field in view.__struct_fields__
        if field not in below
    ]
    passed_on = f"{view.reassigned_to}; the task is no longer {view.agent}'s" if view.reassigned_to else ""
    rows = [(name, passed_on if name == "reassigned to" else value) for name, value in rows]

    def show(out: Console) -> None:
        NamedValues(rows)(out)
        page = Page(out, f"remand handoff status {view.handoff_id} --json")
        page.text("Instructions", view.instructions)
        page.text("Override message", view.override_message)
        page.text("Result", value_text(view.result) if view.result else "")
        if filed is not None:
            _show_rejection(page, filed, known)
            _show_decision(page, filed)

    return show


def _show_rejection(page: Page, filed: RejectionView, known: RejectionFacts) -> None:
    """Everything on which a decision is based."""
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
    page.text("Appeal", filed.appeal)
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


_TEXTS = {
    "summary": "reason_summary",
    "detail": "reason_detail",
    "blocker": "blocking_factor",
    "alternative": "suggested_alternative",
    "original_scope": "task_original_scope",
}


def _reason(value: str) -> str:
    reason = parse_reason(value)
    if reason is None:
        names = ", ".join(RejectionReason.__members__)
        raise UsageError(f"There is no reason {value[:80]!r}; use one of {names}.")
    return reason.name


def _figure(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"--scope-growth {value[:80]!r} is not a number. Write it as 5.0.") from None


@command(
    "handoff reject",
    argument("handoff"),
    argument("--agent"),
    argument("--reason", type=_reason, metavar="R", help=", ".join(RejectionReason.__members__)),
    argument("--summary", metavar="TEXT", help="one line; this and the options below also take @file and -"),
    argument("--detail", metavar="TEXT", help="what the reason is in this case"),
    argument(
        "--attempted", nargs="+", action="extend", metavar="TEXT", help="what was tried, and the result"
    ),
    argument("--blocker", metavar="TEXT", help="the specific blocker"),
    argument("--alternative", metavar="TEXT", help="what to do instead"),
    argument("--scope-growth", type=_figure, metavar="X", help="by what factor the scope grew"),
    argument("--original-scope", metavar="TEXT", help="what the task asked for"),
    argument(
        "--evidence", nargs="+", action="extend", metavar="JSON", help='{"type", "data", "source", "probe"}'
    ),
    argument(
        "--alt-task",
        nargs="+",
        action="extend",
        metavar="JSON",
        help='{"title", "scope", "dependencies", "estimate"}',
    ),
    argument(
        "--from", dest="source", metavar="FILE", help="read a whole record as JSON; - is standard input"
    ),
    argument("--explain", action="store_true", help="show which features of the record counted"),
)
def _reject(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = c.RejectHandoff(handoff_id=options.handoff, agent=agent, rejection=_record(context))
    answer = context.ask(request, agent)
    note = _consult_if_configured(context, answer)
    view = _find_rejection(context, answer)
    task = find_task(context, answer.task.id)[0]
    data = _rejection_data(view, task) | ({"note": note} if note else {})
    if options.explain:
        assessment = assess(TaskRejection.from_dict(view.rejection), rejections.task_context(task))
        data["features"] = [
            msgspec.to_builtins(feature) | {"contribution": round(feature.contribution, 4)}
            for feature in sorted(assessment.features, key=lambda feature: -abs(feature.contribution))
        ]
    if view.is_valid and view.decided_by == "auto" and data["decision"]["decision_type"] == "OVERRIDE":
        refusal = rejections.overridden_rejection_refusal(data["decision"]["override_message"])
        data["accepted"] = False
        return refused_result(refusal, data, _render_rejection(data, refusal.message))
    if not view.is_valid:
        refusal = rejections.invalid_rejection_refusal(
            task.id, " ".join(issue.message for issue in view.issues)
        )
        return refused_result(refusal, data, _render_rejection(data, "OVERRIDE"))
    return Result(data, _render_rejection(data, f"The rejection {view.rejection_id} is accepted as valid."))


def _record(context: Context) -> dict[str, Any]:
    """The record from its file and from the options, which take precedence."""
    options = context.arguments
    record = _read_record(context, options.source) if options.source else {}
    if options.reason:
        record["reason_type"] = options.reason
    elif "reason_type" not in record:
        raise UsageError(f"Give a reason: --reason with one of {', '.join(RejectionReason.__members__)}.")
    for option, field in _TEXTS.items():
        if getattr(options, option) is not None:
            record[field] = context.text(getattr(options, option))
    if options.attempted is not None:
        record["what_attempted"] = [context.text(text) for text in options.attempted]
    if options.scope_growth is not None:
        record["scope_growth_factor"] = options.scope_growth
    for option, field in (("evidence", "evidence"), ("alt_task", "alternative_tasks")):
        if getattr(options, option) is not None:
            record[field] = _objects(context, f"--{option.replace('_', '-')}", getattr(options, option))
    return record


def _read_record(context: Context, source: str) -> dict[str, Any]:
    found = _json("--from", context.file(source.removeprefix("@")))
    if not isinstance(found, dict):
        raise UsageError(f"--from must hold one JSON object with fields such as {', '.join(FIELDS[:6])}.")
    for name in found:
        if name not in FIELDS:
            close = difflib.get_close_matches(name, FIELDS, 1)
            hint = f"did you mean {close[0]}?" if close else f"the fields are {', '.join(FIELDS)}."
            raise UsageError(f"A rejection has no field {name[:80]!r}; {hint}")
    return found


def _objects(context: Context, option: str, values: list[str]) -> list[Any]:
    """The objects after an option, given one by one or several in a list."""
    found: list[Any] = []
    for value in values:
        item = _json(option, context.text(value))
        found += item if isinstance(item, list) else [item]
    for item in found:
        if not isinstance(item, dict):
            raise UsageError(f'{option} takes JSON objects, as in \'{{"type": "error_log", "data": "…"}}\'.')
    return found


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option} is not JSON: {str(error)[:200]}.") from None


def _consult_if_configured(context: Context, answer: Acceptance) -> str:
    """Runs the user's adviser and director if the policy names them; returns why they failed.

    If a coordinator is running, it does so itself, in the user's environment instead of the agent's.
    """
    filed, policy = answer.task.rejections.last_rejection, context.opened_ledger.settings.rules().policy
    if filed is None or not policy.has_consultants:
        return ""
    if context.origin.opened is None and find_socket(context.place):
        return "The coordinator consults the adviser and director that the policy names; see `remand handoff status`."
    return _ask_consultants(context, answer.task.id, filed.handoff_id, is_users_own=False)


def _ask_consultants(context: Context, task_id: str, handoff_id: str, *, is_users_own: bool) -> str:
    """Asks adviser and director about a rejection; returns why they failed."""
    policy = context.opened_ledger.settings.rules().policy
    consultants = make_consultants(context.opened_ledger, is_users_own=is_users_own)
    if policy.adviser:
        consultants.advise(task_id, handoff_id)
    task = find_task(context, task_id)[0]
    if (
        not policy.has_director_command
        or task.status != Status.BLOCKED
        or not task.rejections.last_rejection
        or task.rejections.last_rejection.decision
    ):
        return ""
    problem = consultants.decide(task_id, handoff_id)
    return problem if isinstance(problem, str) else ""


@command(
    "handoff appeal",
    argument("handoff"),
    argument("--agent"),
    argument("--reason", required=True, metavar="TEXT", help="why the issues are wrong (@file, -)"),
)
def _appeal(context: Context) -> Result:
    options, agent = context.arguments, context.agent()
    request = c.AppealRejection(handoff_id=options.handoff, agent=agent, reason=context.text(options.reason))
    answer = context.ask(request, agent)
    note = _consult_if_configured(context, answer)
    view = _find_rejection(context, answer)
    data = _rejection_data(view, find_task(context, answer.task.id)[0]) | ({"note": note} if note else {})
    return Result(data, _render_rejection(data, f"A director decides on {view.rejection_id}. You may stop."))


@command("handoff consult", argument("handoff"))
def _consult(context: Context) -> Result:
    # It runs in the name of the user, so an agent may not start it.
    with context.opened_ledger.store.read() as view:
        name = resolve_handoff_id(view, context.arguments.handoff)
        found = view.tasks.get(view.names.find_task_id(name)) if name else None
    task = rejections.require_filed_rejection(found, name, context.arguments.handoff)
    team = context.opened_ledger.settings.rules().team
    actor = context.limit(team.actor(context.actor(), confined=context.is_confined))
    require_permission(c.AnswerRejection, actor)
    rejections.require_not_filer(task, actor)
    note = _ask_consultants(context, task.id, name, is_users_own=True)
    task, events = find_task(context, task.id)
    rejection = [view for view in task_rejections(events) if view.handoff_id == name][-1]
    data = _rejection_data(rejection, task) | ({"note": note} if note else {})
    return Result(data, _render_rejection(data, f"Consulted on {rejection.rejection_id}."))


def _find_rejection(context: Context, answer: Acceptance) -> RejectionView:
    """The rejection that an answer is about, even if another was filed since."""
    _, events = find_task(context, answer.task.id)
    wanted = (
        answer.task.rejections.last_rejection.rejection_id if answer.task.rejections.last_rejection else ""
    )
    return next(view for view in task_rejections(events) if view.rejection_id == wanted)


def _rejection_data(view: RejectionView, task: Task) -> dict[str, Any]:
    plain = msgspec.to_builtins(view)
    return {
        "accepted": view.is_valid,
        "rejection_id": view.rejection_id,
        "task_id": task.id,
        "handoff_id": view.handoff_id,
        "agent": view.agent,
        "status": str(task.status),
        "issues": plain["issues"],
        "decision": plain["decision"],
        "evidence": plain["graded"],
        "attempts": plain["attempts"],
        "opinion": view.opinion or None,
        "appeal": view.appeal or None,
        "score": round(view.score, 3),
    }


def _render_rejection(data: dict[str, Any], headline: str) -> Callable[[Console], None]:
    decision = data["decision"]
    lines = [f"  - {issue['field']}: {issue['message']} [{issue['code']}]" for issue in data["issues"]]
    if decision is None:
        lines.append(
            f"Waiting for a director's answer: remand handoff rejection-response {data['handoff_id']}"
        )
    else:
        lines.append(f"{decision['decision_type']}: {decision['rationale']}")
        lines += [f"  created {name}" for name in decision["created_tasks"]]
        message = decision["override_message"].splitlines()
        lines += [f"If the issues are wrong, appeal: {line}" for line in message if "handoff appeal" in line]
    lines += [
        f"  {kind} {row['index'] + 1}: {row['grade']} ({row.get('detail', '')})"
        for kind, rows in (("attempt", data["attempts"]), ("evidence", data["evidence"]))
        for row in rows
    ]
    features = [
        (
            row["name"],
            row["field"],
            f"{row['value']:.2f}",
            f"{row['contribution']:+.2f}",
            one_line(row.get("note", "")),
        )
        for row in data.get("features", ())
    ]

    def show(out: Console) -> None:
        from rich.text import Text

        out.print(Text(clean(headline), style="bold green" if data["accepted"] else "bold red"))
        for line in lines:
            out.print(Text(clean(line)))
        if data.get("note"):
            out.print(Text(clean(data["note"]), style="yellow"))
        out.print(Text(clean(f"{data['task_id']} is {data['status']}")))
        if "features" in data:
            table(("feature", "field", "value", "counted", "why"), features, "No feature counted.")(out)

    return show


@command(
    "handoff rejection-response",
    argument("handoff"),
    argument("--decision", required=True, metavar="D", help=", ".join(DecisionType.__members__)),
    argument(
        "--created-tasks",
        nargs="+",
        action="extend",
        default=[],
        metavar="ID",
        help="existing tasks that replace or block it",
    ),
    argument("--rationale", default="", metavar="TEXT", help="the reason for the decision"),
    argument("--message", default="", metavar="TEXT", help="the message to the agent on an override"),
    argument("--reassign-to", default="", metavar="AGENT", help="the agent that takes over the task"),
)
def _respond(context: Context) -> Result:
    options = context.arguments
    decision = parse_decision_type(options.decision)
    if decision is None:
        names = ", ".join(DecisionType.__members__)
        raise UsageError(f"There is no decision {options.decision[:80]!r}; use one of {names}.")
    request = c.AnswerRejection(
        handoff_id=options.handoff,
        decision=decision.name,
        created_tasks=tuple(options.created_tasks),
        rationale=context.text(options.rationale),
        message=context.text(options.message),
        reassign_to=options.reassign_to,
    )
    answer = context.ask(request, context.actor())
    view = _find_rejection(context, answer)
    data = _rejection_data(view, answer.task) | {"decided_by": view.decided_by}
    text = f"{view.decision.decision_type if view.decision else ''}: {answer.task.id} is {answer.task.status}"
    target = view.decision.reassign_to if view.decision else ""
    if target not in ("", view.agent):
        text += f", reserved for {target}; it is no longer {view.agent}'s"
    return Result(data, text)
