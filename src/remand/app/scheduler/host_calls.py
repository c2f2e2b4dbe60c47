"""The calls of a host's scheduler to the server's ledger: the methods of `LedgerClient` as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Union

import msgspec

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.ports import CannotRun
from remand.app.scheduler.review_runs import ReviewRuns
from remand.app.scheduler.runs import FORGOTTEN_SECONDS, RunAssignment
from remand.domain import commands as c
from remand.domain.access.team import Member
from remand.domain.access.tokens import (
    ANY_MEMBER,
    Caller,
    TokenRole,
    require_held_task,
    require_started_member,
)
from remand.domain.decisions.tokens import require_host_command
from remand.domain.events.event import Event
from remand.domain.events.work import Purpose
from remand.domain.instant import Instant, add_seconds
from remand.domain.record import NamedTuple, Record
from remand.domain.refusals import Refused, require_task
from remand.domain.run import Run
from remand.domain.task import Status, Task

MAX_MESSAGE = 1_000_000
"""How much of a run's last message is transferred; a review's answer is at its end."""

HostCommand = Union[  # noqa: UP007 - msgspec reads it when this module is loaded
    c.AssignTask, c.StartRun, c.EndRun, c.CountIdleStop, c.CheckStaff
]
"""Commands that a scheduler gives in the name of the system."""


class HostMethod(StrEnum):
    """The available questions."""

    MEMBERS = "members"
    TASK = "task"
    EVENTS = "events"
    RUNNING = "running"
    ACTIVE = "active"
    BROKEN_GATES = "broken_gates"
    WAITING_FOR_REVIEW = "waiting_for_review"
    OPEN = "open"
    READY = "ready"
    FIRST_FOR = "first_for"
    PROMPT = "prompt"
    REVIEW_FACTS = "review_facts"
    OPINION = "opinion"
    RENEW = "renew"
    ASK = "ask"


class HostQuestion(Record, kw_only=True):
    method: HostMethod
    task_id: str = ""
    agent: str = ""
    status: str = ""
    run_id: str = ""
    """The review or director run in question, if any."""
    text: str = ""
    """That run's last message."""
    command: HostCommand | None = None


class HostAnswer(Record, kw_only=True):
    """The answer to any question; each kind has its own field."""

    tasks: tuple[Task, ...] = ()
    names: tuple[str, ...] = ()
    events: tuple[msgspec.Raw, ...] = ()
    text: str = ""
    count: int = 0
    paths: tuple[str, ...] | None = None
    """The files that a submission changes; None if unknown."""
    refused: str = ""
    message: str = ""


class HostedRuns(NamedTuple):
    """The server's part in the runs of hosts."""

    reviews: ReviewRuns
    max_seconds: float
    """The time limit of a run."""


def answer_question(
    ledger: LedgerClient, hosted: HostedRuns, caller: Caller, question: HostQuestion
) -> HostAnswer:
    """Answers a host; raises `Refused` for questions that its token does not permit."""
    task_id = question.task_id
    match question.method:
        case HostMethod.MEMBERS:
            return HostAnswer(names=_own_members(ledger, caller))
        case HostMethod.ASK:
            over_before = add_seconds(ledger.now(), -hosted.max_seconds - FORGOTTEN_SECONDS)
            return _ask(ledger, caller, question.command, over_before)
        case HostMethod.OPINION:
            _require_own_run(ledger, caller, question)
            return HostAnswer(
                text=hosted.reviews.apply_message(task_id, question.run_id, question.text[-MAX_MESSAGE:])
            )
        case HostMethod.PROMPT if question.run_id:
            return _prompt_for_review(ledger, hosted.reviews, _require_own_run(ledger, caller, question))
        case HostMethod.PROMPT:
            require_started_member(caller, question.agent)
            return HostAnswer(text=ledger.prompt_for_agent(task_id, question.agent))
        case HostMethod.RENEW:
            task = require_task(ledger.task(task_id), task_id)
            require_held_task(caller, task.id, task.claim.agent if task.claim else "")
            ledger.renew_lease(task)
            return HostAnswer()
        case _:
            return _READS[question.method](ledger, question)


def _require_own_run(ledger: LedgerClient, caller: Caller, question: HostQuestion) -> tuple[Task, Run | None]:
    """The task and run that a host asks about; None if the run is over. Refuses runs of members that are not the host's."""
    task = require_task(ledger.task(question.task_id), question.task_id)
    run = task.find_run(question.run_id)
    if run is not None:
        require_started_member(caller, run.agent)
    return task, run


def _prompt_for_review(
    ledger: LedgerClient, reviews: ReviewRuns, asked: tuple[Task, Run | None]
) -> HostAnswer:
    """The prompt of a reviewer or director. The server writes it, as it has the commit and the earlier findings."""
    task, run = asked
    if run is None or run.purpose == Purpose.WORK:
        return HostAnswer(refused="unknown_run", message="The run is over, or reviews nothing.")
    members = ledger.rules.team.members
    member = next((one for one in members if one.name == run.agent), Member(name=run.agent))
    try:
        assignment = RunAssignment(run_id=run.id, task=task, member=member, purpose=Purpose(run.purpose))
        return HostAnswer(text=reviews.prompt(assignment))
    except (CannotRun, EnvironmentFault) as fault:
        return HostAnswer(refused="cannot_run", message=str(fault))


def _review_facts(ledger: LedgerClient, question: HostQuestion) -> HostAnswer:
    """What a host needs to choose a reviewer: excluded agents, changed files, and whether the task waits for the user."""
    task = require_task(ledger.task(question.task_id), question.task_id)
    return HostAnswer(
        names=ledger.barred_agents(task),
        paths=ledger.changed_paths(task),
        count=int(ledger.is_blocked_by_objection(task)),
    )


def _first_for(ledger: LedgerClient, question: HostQuestion) -> HostAnswer:
    return _one(ledger.first_for(ledger.rules.team.actor(question.agent), has_team=True))


def _broken_gates(ledger: LedgerClient, _: HostQuestion) -> HostAnswer:
    gates = ledger.broken_gates()
    return HostAnswer(names=tuple(sorted(gates.broken)), tasks=gates.questions)


def _status(name: str) -> Status:
    if name not in set(Status):
        raise UsageError(f"{name[:40]!r} is not a task status.")
    return Status(name)


def _one(task: Task | None) -> HostAnswer:
    return HostAnswer(tasks=(task,) if task else ())


_READS: dict[HostMethod, Callable[[LedgerClient, HostQuestion], HostAnswer]] = {
    HostMethod.TASK: lambda ledger, host_question: _one(ledger.task(host_question.task_id)),
    HostMethod.EVENTS: lambda ledger, asked: HostAnswer(
        events=_encode_events(ledger.task_events(asked.task_id))
    ),
    HostMethod.RUNNING: lambda ledger, _: HostAnswer(tasks=tuple(ledger.running_tasks())),
    HostMethod.ACTIVE: lambda ledger, asked: HostAnswer(
        tasks=tuple(ledger.active_tasks(_status(asked.status)))
    ),
    HostMethod.BROKEN_GATES: _broken_gates,
    HostMethod.WAITING_FOR_REVIEW: lambda ledger, _: HostAnswer(count=ledger.waiting_for_review()),
    HostMethod.OPEN: lambda ledger, _: HostAnswer(names=tuple(sorted(ledger.open_tasks()))),
    HostMethod.READY: lambda ledger, _: HostAnswer(names=tuple(ledger.ready_ids())),
    HostMethod.FIRST_FOR: _first_for,
    HostMethod.REVIEW_FACTS: _review_facts,
}
"""Read-only questions: a host that runs members may see every task, as everybody may."""


def _own_members(ledger: LedgerClient, caller: Caller) -> tuple[str, ...]:
    """The members that the host may start; the user's own token may start all that have a command."""
    if caller.role is TokenRole.USER or ANY_MEMBER in caller.starts:
        return tuple(member.name for member in ledger.rules.team.members)
    return caller.starts


def _ask(
    ledger: LedgerClient, caller: Caller, command: HostCommand | None, over_before: Instant
) -> HostAnswer:
    if command is None:
        return HostAnswer(refused="bad_value", message="There is no command.")
    task = ledger.task(command.task_id) if command.task_id else None
    require_host_command(caller, command, task, over_before=over_before)
    answer = ledger.ask(command)
    if isinstance(answer, Refused):
        return HostAnswer(refused=answer.code, message=answer.message)
    return HostAnswer(tasks=(answer.task,), events=_encode_events(answer.events))


def _encode_events(events: Iterable[Event]) -> tuple[msgspec.Raw, ...]:
    return tuple(msgspec.Raw(msgspec.json.encode(event)) for event in events)
