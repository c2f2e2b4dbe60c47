"""What can be requested in plain English: each request as a sentence, and as the command line that does it."""

from __future__ import annotations

from shlex import quote

from remand.domain.record import Record


class TaskName(Record, kw_only=True):
    """A task as people call it."""

    id: str
    label: str
    """`issue #42`, or `task T-…`."""
    alias: str = ""
    pr: int = 0

    @property
    def argument(self) -> str:
        """The task as a command line names it."""
        return quote(self.alias or self.id)


class TextRequest(Record, kw_only=True):
    """A request that was understood. Whether it is granted only `decide` says."""


class ReviewTextRequest(TextRequest, kw_only=True):
    """Ask a reviewer to look at the submission."""

    reviewer: str
    task: TaskName


class WhyTextRequest(TextRequest, kw_only=True):
    """Why an agent is locked out, or why a task's work was rejected."""

    agent: str = ""
    task: TaskName | None = None


class UnlockTextRequest(TextRequest, kw_only=True):
    """Let an agent work on the task again."""

    agent: str
    task: TaskName
    reason: str = ""
    guidance: str = ""

    @property
    def advice(self) -> str:
        """What the agent is told: guidance, or the reason that was given in its place."""
        return self.guidance or self.reason


class ReassignTextRequest(TextRequest, kw_only=True):
    """Let another agent continue the task."""

    task: TaskName
    target: str
    source: str = ""
    reason: str = ""


class EscalateTextRequest(TextRequest, kw_only=True):
    """Let the user decide what becomes of the task."""

    task: TaskName
    reason: str = ""


class StatusTextRequest(TextRequest, kw_only=True):
    """The state of the task."""

    task: TaskName


class LockoutsTextRequest(TextRequest, kw_only=True):
    """Who is locked out, of one task or of any."""

    task: TaskName | None = None


class InboxTextRequest(TextRequest, kw_only=True):
    """The questions that await the user."""


class AnswerTextRequest(TextRequest, kw_only=True):
    """The user's answer to an escalation."""

    task: TaskName
    option: str
    guidance: str = ""


USER_ONLY_REQUESTS = (UnlockTextRequest, AnswerTextRequest)
"""Requests that only the user is granted; nobody else is shown their commands."""


_DEFAULT_REASON = "the user said so"
"""The reason in a command that needs one, where none was given."""


class UnclearRequest(Record, kw_only=True):
    """A question back: what is not clear, and the requests it may have been."""

    message: str
    command: str = ""
    """The command for what plain English does not do."""
    requests: tuple[TextRequest, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The exact command lines that would do it."""
        return tuple(dict.fromkeys(map(render_command_line, self.requests)))


class UnknownRequest(Record, kw_only=True):
    """Nothing that can be obeyed, and why."""

    message: str
    command: str = ""
    """The command for what plain English does not do."""


TextResult = TextRequest | UnclearRequest | UnknownRequest


def describe_request(request: TextRequest) -> str:
    match request:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"Ask {reviewer} to review {task.label}{f' (PR #{task.pr})' if task.pr else ''}."
        case WhyTextRequest(agent="", task=TaskName() as task):
            return f"Explain why {task.label} was rejected."
        case WhyTextRequest(agent=agent, task=any_task):
            return f"Explain why {agent} is locked out{f' for {any_task.label}' if any_task else ''}."
        case UnlockTextRequest(agent=agent, task=task):
            return f"Unlock {agent} for {task.label}."
        case ReassignTextRequest(task=task, source=source, target=target):
            return f"Reassign {task.label}{f' from {source}' if source else ''} to {target}."
        case EscalateTextRequest(task=task):
            return f"Escalate {task.label} to the user."
        case StatusTextRequest(task=task):
            return f"Show the status of {task.label}."
        case LockoutsTextRequest(task=any_task):
            return f"List who is locked out{f' for {any_task.label}' if any_task else ''}."
        case AnswerTextRequest(task=task, option=option):
            return f"Answer the question about {task.label} with {option}."
        case _:
            return "List the questions that await the user."


def render_command_line(request: TextRequest) -> str:
    match request:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"remand review request {task.argument} --from {quote(reviewer)}"
        case WhyTextRequest(agent=agent, task=any_task) if agent:
            return f"remand why {quote(agent)}{f' --task {any_task.argument}' if any_task else ''}"
        case UnlockTextRequest(agent=agent, task=task):
            return f"remand unlock {quote(agent)} --task {task.argument} {_reason(request.reason)}{_guidance(request.advice)}"
        case ReassignTextRequest(task=task, source=source, target=target):
            from_whom = f" --from {quote(source)}" if source else ""
            return f"remand reassign {task.argument}{from_whom} --to {quote(target)}"
        case EscalateTextRequest(task=task):
            return f"remand escalate {task.argument} {_reason(request.reason)}"
        case StatusTextRequest(task=task) | WhyTextRequest(task=TaskName() as task):
            return f"remand task show {task.argument}"
        case LockoutsTextRequest():
            return "remand lockout list"
        case AnswerTextRequest(task=task, option=option):
            return f"remand inbox answer {task.argument} {quote(option)}{_guidance(request.guidance)}"
        case _:
            return "remand inbox"


def _reason(text: str) -> str:
    return f"--reason {quote(text or _DEFAULT_REASON)}"


def _guidance(text: str) -> str:
    return f" --guidance {quote(text)}" if text else ""
