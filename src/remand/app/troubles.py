"""What goes wrong, the worst first: the system, questions to the user, then tasks that are stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from remand.app.alerts import KIND as ALERT
from remand.app.asking import Rules
from remand.app.escalations import Question, line
from remand.app.held import KIND as HELD
from remand.app.scheduling.status import SchedulerStatus
from remand.domain.clock import is_ahead
from remand.domain.gates.outages import GATE_QUESTION
from remand.domain.holds import open_findings
from remand.domain.instant import Instant, plus
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.task import Status, Task
from remand.ledger.store import Transaction

SILENT_SECONDS = 60.0
"""A scheduler that has not looked at the ledger for so long is stuck."""
MAX_CAUSE = 500
LITTLE_OF_A_LEASE = 0.1


class Around(NamedTuple):
    """What is known besides the ledger."""

    now: Instant
    rules: Rules = Rules()
    scheduler: SchedulerStatus | None = None
    is_scheduled: bool = False
    is_measured: Callable[[str], bool] = lambda _: False
    """Whether the gates of a task run in the background."""


class Trouble(Record, kw_only=True, omit_defaults=False):
    """One thing that goes wrong."""

    kind: str
    """`system`, `questions` or `task`."""
    text: str
    since: Instant = ""
    task_id: str = ""
    label: str = ""


def troubles(
    view: Transaction,
    around: Around,
    active: Mapping[Status, Sequence[Task]],
    questions: Sequence[Question],
) -> tuple[Trouble, ...]:
    """Everything that goes wrong, the worst first."""
    policy = around.rules.policy
    found = [
        *_of_scheduler(around),
        *_of_gates(questions),
        *_of_clock(view, around),
        *_of_files(view),
        *_of_log(view),
        *_of_questions(questions),
    ]
    for task in active[Status.CLAIMED]:
        found += _of_claim(task, policy, around.now)
    for status in (Status.CLAIMED, Status.PROVISIONAL, Status.REJECTED):
        found += [one for task in active[status] for one in _of_rounds(task, policy)]
    for status in (Status.FAILED, Status.BLOCKED):
        found += [_of_task(task, _why_idle(task)) for task in active[status]]
    return tuple(found)


def _of_scheduler(around: Around) -> Iterator[Trouble]:
    status = around.scheduler
    if status is None:
        return
    if not around.is_scheduled:
        yield _of_system("The scheduler has ended without a word; start it again.", status.tick_at)
        return
    for breach in status.breaker:
        until = f"; tried again at {breach.until[11:19]}" if breach.until else ""
        text = f"Nothing is started ({breach.cause}): {breach.message.rstrip('.')}{until}."
        yield _of_system(text, breach.since)
    if status.forge:
        yield _of_system(f"The forge: {status.forge}")
    if status.tick_at < plus(around.now, -SILENT_SECONDS):
        yield _of_system("The scheduler has stopped looking at the ledger.", status.tick_at)


def _of_gates(questions: Sequence[Question]) -> Iterator[Trouble]:
    """Broken gates, for which nothing is started."""
    for asked in questions:
        if asked.kind == GATE_QUESTION:
            why, _, _ = asked.question.partition(" No agent is started")
            yield Trouble(
                kind="system", text=f"Nothing is started: {line(why, MAX_CAUSE)}", since=asked.since
            )


def _of_system(text: str, since: Instant = "") -> Trouble:
    return Trouble(kind="system", text=line(text), since=since)


def _of_clock(view: Transaction, around: Around) -> Iterator[Trouble]:
    if is_ahead(view.head.clock, around.now, around.rules.policy.clock_skew_seconds):
        text = f"Nothing can be written: the latest event is from {view.head.clock}; `remand log repair` says what to do."
        yield _of_system(text)


def _of_files(view: Transaction) -> Iterator[Trouble]:
    problems = view.files.problems()
    if problems:
        many = f"{len(problems)} lines" if len(problems) > 1 else "One line"
        yield _of_system(f"{many} of the event files cannot be read; `remand log verify` says which.")


def _of_log(view: Transaction) -> Iterator[Trouble]:
    """A log that is not whole, by which work is barred."""
    count = len(view.missing.faults()) + len(view.rewritten.every())
    if count:
        many = f"{count} findings" if count > 1 else "one finding"
        yield _of_system(f"The log is not whole ({many}); `remand log repair` says what to do.")


def _of_questions(questions: Sequence[Question]) -> Iterator[Trouble]:
    """One trouble for all that waits for the user: each stands in the inbox. Held work and alerts are troubles of their tasks."""
    asked = [one for one in questions if one.kind not in (HELD, ALERT)]
    if asked:
        many = f"{len(asked)} questions wait" if len(asked) > 1 else "One question waits"
        yield Trouble(kind="questions", text=f"{many} for the user.", since=asked[0].since)


def _of_claim(task: Task, policy: Policy, now: Instant) -> Iterator[Trouble]:
    """A holder that was not heard of, or whom the gates reject again and again."""
    claim, gating = task.claim, task.gating
    if claim is None:
        return
    if claim.lease_expires_at <= now:
        yield _of_task(task, f"{claim.agent}'s lease has ended", claim.lease_expires_at)
    elif claim.lease_expires_at < plus(now, LITTLE_OF_A_LEASE * policy.lease_seconds):
        yield _of_task(task, f"{claim.agent}'s lease ends at {claim.lease_expires_at[11:19]}")
    is_current = gating.handoff_id == claim.handoff_id
    if is_current and gating.count >= policy.alert_after_gates:
        yield _of_task(task, f"the gates rejected {claim.agent}'s work {gating.count} times")
    if task.spent.faults:
        runs = f"{task.spent.faults} runs" if task.spent.faults > 1 else "run"
        yield _of_task(task, f"its last {runs} failed", task.spent.last_fault)
    if open_findings(task):
        yield _of_task(task, f"findings in {claim.agent}'s work wait for a reviewer")


def _of_rounds(task: Task, policy: Policy) -> Iterator[Trouble]:
    """A task whose next rejection goes to the user."""
    rounds = len(task.standing_rounds)
    if rounds and rounds >= policy.escalate_after_reviews - 1:
        yield _of_task(task, f"was rejected in {rounds} reviews; the next rejection goes to the user")


def _why_idle(task: Task) -> str:
    """Why nothing happens to a task that has failed or is blocked."""
    if task.status == Status.BLOCKED and task.filed and task.filed.is_valid and not task.filed.decision:
        return f"{task.filed.agent} rejected it, and a director has to answer"
    return f"is {task.status.value}, and comes back by `remand task reopen` alone"


def _of_task(task: Task, text: str, since: Instant = "") -> Trouble:
    return Trouble(kind="task", text=line(text), since=since, task_id=task.id, label=task.label)
