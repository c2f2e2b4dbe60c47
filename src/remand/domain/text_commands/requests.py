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
    """A wish that was understood. Whether it is granted only `decide` says."""


class ReviewTextRequest(TextRequest, kw_only=True):
    """A reviewer is to look at the submission."""

    reviewer: str
    task: TaskName


class WhyTextRequest(TextRequest, kw_only=True):
    """Why an agent is locked out, or why a task's work was rejected."""

    agent: str = ""
    task: TaskName | None = None


class UnlockTextRequest(TextRequest, kw_only=True):
    """An agent is to work on the task again."""

    agent: str
    task: TaskName
    reason: str = ""
    guidance: str = ""

    @property
    def advice(self) -> str:
        """What the agent is told: guidance, or the reason that was given in its place."""
        return self.guidance or self.reason


class ReassignTextRequest(TextRequest, kw_only=True):
    """Another agent is to go on with the task."""

    task: TaskName
    target: str
    source: str = ""
    reason: str = ""


class EscalateTextRequest(TextRequest, kw_only=True):
    """The user is to decide what becomes of the task."""

    task: TaskName
    reason: str = ""


class StatusTextRequest(TextRequest, kw_only=True):
    """How it stands with the task."""

    task: TaskName


class LockoutsTextRequest(TextRequest, kw_only=True):
    """Who is locked out, of one task or of any."""

    task: TaskName | None = None


class InboxTextRequest(TextRequest, kw_only=True):
    """What waits for the user."""


class AnswerTextRequest(TextRequest, kw_only=True):
    """The user's answer to an escalation."""

    task: TaskName
    option: str
    guidance: str = ""


USER_ONLY_REQUESTS = (UnlockTextRequest, AnswerTextRequest)
"""Wishes that only the user is granted: nobody in an agent's place is shown how."""


DEFAULT_REASON = "the user said so"
"""The reason in a command that needs one, where none was given."""


class UnclearRequest(Record, kw_only=True):
    """A question: what is not clear, and the wishes it may have been."""

    message: str
    command: str = ""
    """What does that part of it which is not taken from plain words."""
    wishes: tuple[TextRequest, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The exact command lines that would do it."""
        return tuple(dict.fromkeys(map(render_command_line, self.wishes)))


class UnknownRequest(Record, kw_only=True):
    """Nothing that can be obeyed, and why."""

    message: str
    command: str = ""
    """What does it, where it is not taken from plain words."""


TextResult = TextRequest | UnclearRequest | UnknownRequest


def describe_request(wish: TextRequest) -> str:
    """A wish as one sentence."""
    match wish:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"Ask {reviewer} to review {_task_with_pull_request(task)}."
        case WhyTextRequest(agent=agent, task=task):
            if task and not agent:
                return f"Explain why {task.label} was rejected."
            return f"Explain why {agent} is locked out{f' {_for_task(task)}' if task else ''}."
        case UnlockTextRequest(agent=agent, task=task):
            return f"Unlock {agent} {_for_task(task)}."
        case ReassignTextRequest(task=task, source=source, target=target):
            return f"Reassign {task.label}{f' from {source}' if source else ''} to {target}."
        case EscalateTextRequest(task=task):
            return f"Escalate {task.label} to the user."
        case StatusTextRequest(task=task):
            return f"Show the status of {task.label}."
        case LockoutsTextRequest(task=task):
            return f"List who is locked out{f' {_for_task(task)}' if task else ''}."
        case AnswerTextRequest(task=task, option=option):
            return f"Answer the question about {task.label} with {option}."
        case _:
            return "List the questions that await the user."


def render_command_line(wish: TextRequest) -> str:
    """The command that would do it."""
    match wish:
        case ReviewTextRequest(reviewer=reviewer, task=task):
            return f"remand review request {task.argument} --from {quote(reviewer)}"
        case WhyTextRequest(agent=agent, task=task) if agent:
            return f"remand why {quote(agent)}{f' --task {task.argument}' if task else ''}"
        case UnlockTextRequest(agent=agent, task=task):
            return f"remand unlock {quote(agent)} --task {task.argument} {_reason_options(wish)}"
        case ReassignTextRequest(task=task, source=source, target=target):
            from_whom = f" --from {quote(source)}" if source else ""
            return f"remand reassign {task.argument}{from_whom} --to {quote(target)}"
        case EscalateTextRequest(task=task):
            return f"remand escalate {task.argument} {_reason_options(wish)}"
        case StatusTextRequest(task=task) | WhyTextRequest(task=TaskName() as task):
            return f"remand task show {task.argument}"
        case LockoutsTextRequest():
            return "remand lockout list"
        case AnswerTextRequest(task=task, option=option):
            return f"remand inbox answer {task.argument} {quote(option)}{_guidance_option(wish)}"
        case _:
            return "remand inbox"


def _for_task(task: TaskName) -> str:
    return f"for {task.label}"


def _task_with_pull_request(task: TaskName) -> str:
    return f"{task.label} (PR #{task.pr})" if task.pr else task.label


def _reason_options(wish: UnlockTextRequest | EscalateTextRequest) -> str:
    return f"--reason {quote(wish.reason or DEFAULT_REASON)}{_guidance_option(wish) if isinstance(wish, UnlockTextRequest) else ''}"


def _guidance_option(wish: UnlockTextRequest | AnswerTextRequest) -> str:
    text = wish.advice if isinstance(wish, UnlockTextRequest) else wish.guidance
    return f" --guidance {quote(text)}" if text else ""
