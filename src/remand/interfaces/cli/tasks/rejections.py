"""Commands by which an agent rejects a task, and a director answers."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from remand.app.errors import UsageError
from remand.app.history.rejections import RejectionView, task_rejections
from remand.app.requests import Acceptance
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.decisions.rejections import (
    invalid_rejection_refusal,
    overridden_rejection_refusal,
    require_filed_rejection,
    require_not_filer,
    task_context,
)
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, parse_reason
from remand.domain.registry import require_permission
from remand.domain.rejection import FIELDS, TaskRejection
from remand.domain.task import Status, Task
from remand.domain.validation.validator import assess
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, clean, one_line, refused_result, table
from remand.interfaces.cli.tasks.views import find_task
from remand.wiring.coordinator import make_consultants
from remand.wiring.startup import find_socket

if TYPE_CHECKING:
    from rich.console import Console


_TEXTS = {
    "summary": "reason_summary",
    "detail": "reason_detail",
    "blocker": "blocking_factor",
    "alternative": "suggested_alternative",
    "original_scope": "task_original_scope",
}


def _reason(value: str) -> str:
    found = parse_reason(value)
    if found is None:
        names = ", ".join(RejectionReason.__members__)
        raise UsageError(f"There is no reason {value[:80]!r}; use one of {names}.")
    return found.name


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
    argument("--detail", metavar="TEXT"),
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
        found = assess(TaskRejection.from_dict(view.rejection), task_context(task))
        data["features"] = [
            msgspec.to_builtins(feature) | {"contribution": round(feature.contribution, 4)}
            for feature in sorted(found.features, key=lambda feature: -abs(feature.contribution))
        ]
    if view.is_valid and view.decided_by == "auto" and data["decision"]["decision_type"] == "OVERRIDE":
        refusal = overridden_rejection_refusal(data["decision"]["override_message"])
        data["accepted"] = False
        return refused_result(refusal, data, _render_rejection(data, refusal.message))
    if not view.is_valid:
        refusal = invalid_rejection_refusal(task.id, " ".join(issue.message for issue in view.issues))
        return refused_result(refusal, data, _render_rejection(data, "OVERRIDE"))
    return Result(data, _render_rejection(data, f"The rejection {view.rejection_id} is accepted as valid."))


def _record(context: Context) -> dict[str, Any]:
    """The record from its file, and from the options, which win."""
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
    """The objects after an option, each given by itself or several in a list."""
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
    """Asks the user's adviser and director, where the policy names them; returns what they could not do.

    Where a coordinator runs it does so itself, in the user's environment and not in the agent's.
    """
    filed, policy = answer.task.rejections.last_rejection, context.opened_ledger.settings.rules().policy
    if filed is None or not policy.has_consultants:
        return ""
    if context.origin.opened is None and find_socket(context.place):
        return "The coordinator consults the adviser and director that the policy names; see `remand handoff status`."
    return _ask_consultants(context, answer.task.id, filed.handoff_id, is_users_own=False)


def _ask_consultants(context: Context, task_id: str, handoff_id: str, *, is_users_own: bool) -> str:
    """Asks adviser and director about a rejection; returns what they could not do."""
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


@command("handoff consult", argument("handoff"))
def _consult(context: Context) -> Result:
    # It runs in the name of the user, so an agent may not start it.
    name = ids.parse_handoff_id(context.arguments.handoff) or ""
    with context.opened_ledger.store.read() as view:
        found = view.tasks.get(view.names.find_task_id(name)) if name else None
    task = require_filed_rejection(found, name, context.arguments.handoff)
    actor = context.opened_ledger.settings.rules().team.actor(context.actor(), confined=context.is_confined)
    require_permission(c.AnswerRejection, actor)
    require_not_filer(task, actor)
    note = _ask_consultants(context, task.id, name, is_users_own=True)
    task, events = find_task(context, task.id)
    rejection = [view for view in task_rejections(events) if view.handoff_id == name][-1]
    data = _rejection_data(rejection, task) | ({"note": note} if note else {})
    return Result(data, _render_rejection(data, f"Consulted on {rejection.rejection_id}."))


def _find_rejection(context: Context, answer: Acceptance) -> RejectionView:
    """The rejection that an answer is about, whatever was filed since."""
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
    argument("--created-tasks", nargs="+", action="extend", default=[], metavar="ID"),
    argument("--rationale", default="", metavar="TEXT"),
    argument("--message", default="", metavar="TEXT", help="the message to the agent on an override"),
    argument("--reassign-to", default="", metavar="AGENT"),
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
