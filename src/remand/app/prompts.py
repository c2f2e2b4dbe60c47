"""What the agent that holds a task is given to read."""

from __future__ import annotations

from remand.app.rejection_context import RejectionContext, context_section
from remand.domain import events as e
from remand.domain.feedback.escape import plain_lines
from remand.domain.feedback.rounds import feedback_of
from remand.domain.feedback.section import section
from remand.domain.gates import message
from remand.domain.notices import alert_sentence, open_alert
from remand.domain.task import Claim, Task
from remand.domain.visible import visible


def prompt(
    task: Task,
    events: list[e.Event],
    context: RejectionContext = RejectionContext(),  # noqa: B008 - a frozen value
    repository: str = "",
    *,
    is_for_another: bool = False,
) -> str:
    """The task as text: feedback first, then the rejections behind it, what it is, where it stands, how to end it.

    `context` is what other tasks add to the rejections behind this one. `repository` is the address of the project's own
    repository: links into it stay in what others say. Another than the agent that holds the task is told who ends it,
    and not how.
    """
    feedback = feedback_of(task, events, repository)
    given = _given_with(task, events)
    instructions = given.instructions if given else ""
    sections = [
        section(task, feedback),
        _measured(task, events),
        _override(task),
        context_section(task, events, context, repository, instructions),
        _task(task),
        f"## Instructions from {given.source_agent}\n\n{_quoted(instructions)}"
        if given and instructions
        else "",
        "" if feedback.rounds else _standing(task),
        _ending(task) if not (is_for_another and task.claim) else _ends_it(task.claim),
    ]
    return "\n\n".join(part for part in sections if part)


def _measured(task: Task, events: list[e.Event]) -> str:
    """The last verdict of the gates, as long as it stands in the way."""
    if task.gating.is_released or not task.gating.standing:
        return ""
    told = [
        event
        for event in events
        if isinstance(event, e.GateRejected | e.GateHeld) and event.verdict.tree == task.gating.tree
    ]
    if not told:
        return ""
    last, held = told[-1], next((event for event in reversed(told) if isinstance(event, e.GateHeld)), None)
    alert = _alert(task, last) if isinstance(last, e.GateRejected) else ""
    if isinstance(last, e.GateRejected) and last.because and held is not None:
        text = message.refused(held.verdict, last.because, alert)
    elif alert:
        text = message.rejection(last.verdict, alert=alert)
    else:
        text = message.told(last.verdict)
    return f"## Gate feedback (rejection #{task.gate_rejection_count})\n\n{_quoted(text)}"


def _alert(task: Task, last: e.GateRejected) -> str:
    """What the agent is told of the alert about its claim, with the rejection that led to it."""
    found = open_alert(task)
    is_of_last = found is not None and (found.handoff_id, found.number) == (last.handoff_id, last.number)
    return alert_sentence(found.number, found.escalate_after) if found and is_of_last else ""


def _override(task: Task) -> str:
    """What the director said when it did not accept this agent's rejection."""
    filed, claim = task.filed, task.claim
    if filed is None or claim is None or filed.agent != claim.agent or filed.decision != "OVERRIDE":
        return ""
    return f"## Your rejection was overridden\n\n{_quoted(filed.message)}"


def _given_with(task: Task, events: list[e.Event]) -> e.HandoffInitiated | None:
    """The handoff under which the task is held; none when it was taken from the queue."""
    held = task.claim.handoff_id if task.claim else ""
    found = (event for event in reversed(events) if isinstance(event, e.HandoffInitiated))
    return next((event for event in found if event.handoff_id == held and not event.is_legacy), None)


def _task(task: Task) -> str:
    title = " ".join(visible(task.title).split())
    return f"## Task {task.id}: {title}\n\n{chr(10).join(plain_lines(visible(task.scope)))}".rstrip()


def _standing(task: Task) -> str:
    rows = [f"- attempt {task.attempt_count}"]
    if task.branch:
        rows.append(f"- branch `{task.branch}`: go on there")
    if task.submission:
        rows.append(f"- earlier submission: {task.submission.commit} by {task.submission.agent}")
    return "\n".join(rows)


def _ending(task: Task) -> str:
    agent, handoff = (task.claim.agent, task.claim.handoff_id) if task.claim else ("NAME", "H")
    return (
        "When it is done, commit and run:\n\n"
        f"    remand task submit {task.id} --agent {agent} --commit $(git rev-parse HEAD)\n\n"
        "Should it be impossible, say so with at least 2 concrete attempts, evidence and an alternative:\n\n"
        f"    remand handoff reject {handoff} --agent {agent} --from rejection.json\n\n"
        "If you have the MCP tools of `remand`, `submit` and `reject_task` do the same."
    )


def _ends_it(claim: Claim) -> str:
    return f"{claim.agent} holds this task, and hands it in or rejects it."


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in visible(text).splitlines())
