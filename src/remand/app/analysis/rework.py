"""Rework: submissions, reviews that sent them back, and how long tasks stayed in each status."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from statistics import median

import msgspec

from remand.app.analysis.statistics import Share, wilson_share
from remand.app.events.task_folds import TELLING, task_lines, told_events
from remand.domain.events import tasks, work
from remand.domain.events.event import Event, event_names
from remand.domain.events.reviews import LockoutSet, ReviewApproved, ReviewRejected, ReviewRetracted
from remand.domain.evolve import evolve
from remand.domain.instant import Instant, seconds_between
from remand.domain.record import Record
from remand.domain.task import MAX_CONFLICTS, TERMINAL, TRANSITIONS, Status, Task
from remand.ledger import codec
from remand.ledger.store import TaskOutline, Transaction


class ReviewTally(Record, kw_only=True):
    """The number of an agent's submissions or a reviewer's reviews, and of standing rejections among them."""

    name: str
    reviewed: int
    rejected: int
    retracted: int
    rate: Share


class StatusDuration(Record, kw_only=True):
    """How long tasks stayed in a status, per visit."""

    status: str
    times: int
    median_seconds: float
    total_seconds: float


class Rework(Record, kw_only=True):
    """All figures on reviews, from the events alone."""

    since: Instant
    reviewed_tasks: int
    """Tasks with approved or rejected work."""
    done_tasks: int
    reworked_tasks: int
    """Reviewed tasks with a standing rejection."""
    rework_rate: Share
    cycles: dict[str, int]
    """The number of done tasks by number of review rounds."""
    mean_cycles: float
    rejections: int
    retracted: int
    false_rejection_rate: Share
    """The share of retracted rejections."""
    by_agent: tuple[ReviewTally, ...]
    by_reviewer: tuple[ReviewTally, ...]
    time_in_status: tuple[StatusDuration, ...]


def read_rework(view: Transaction, now: Instant, since: Instant = "") -> Rework:
    """The figures for all tasks of a ledger. Lease renewals change no task and are not read."""
    count = _ReworkCount(since)
    outlines = {task.id: task for task in view.task_lists.pages.outlines()}
    for task_id, lines in task_lines(view):
        task = outlines.get(task_id)
        if task is None:
            continue
        moves = _plain_moves(task, lines)
        if moves is None:
            count.add(told_events(view, lines, TELLING), now)
        else:
            count.add_moves(task, moves, now)
    return count.result()


def measure_rework(histories: Iterable[list[Event]], now: Instant, since: Instant = "") -> Rework:
    """The figures for tasks given by their events in order; with `since`, only for what happened from then on."""
    count = _ReworkCount(since)
    for history in histories:
        count.add(history, now)
    return count.result()


class _Origin(Record, kw_only=True):
    session: str
    seq: int
    id: str


class _MovingEvent(Record, kw_only=True):
    """What is read of an event that may move its task."""

    name: str = msgspec.field(name="event")
    ts: Instant
    meta: _Origin
    agent: str = ""
    reviewer: str = ""
    source: str = ""


_Move = tuple[_MovingEvent, Status, bool]
"""An event, the task's status after it, and whether it had an effect."""
_time = attrgetter("ts")
_place = attrgetter("ts", "meta.session", "meta.seq", "meta.id")
"""As in `ledger/order.order_key`."""
_decode = msgspec.json.Decoder(_MovingEvent).decode
_SUBMITTED, _CONTINUED, _WOKEN, _APPROVED, _REJECTED, _LOCKED_OUT = (
    str(kind.__struct_config__.tag)
    for kind in (
        *(tasks.TaskSubmitted, tasks.TaskContinued, tasks.TaskWoken),
        *(ReviewApproved, ReviewRejected, LockoutSet),
    )
)
_ADDED = str(tasks.TaskAdded.__struct_config__.tag).encode()
_REVIEWED = (_APPROVED, _REJECTED)
_BY_TABLE = event_names(
    *(tasks.TaskClaimed, tasks.TaskSubmitted, tasks.TaskReleased, tasks.TaskContinued, ReviewApproved),
    *(tasks.TaskBlocked, tasks.TaskReopened, tasks.TaskDeferred),
)
"""Events that move a task as the transition table says, or have no effect and are among its conflicts."""
_MOVING = {name.encode() for name in (*_BY_TABLE, _WOKEN, _REJECTED, _LOCKED_OUT)}
_STILL = {
    name.encode()
    for name in event_names(
        *(tasks.TaskAdded, tasks.TaskEdited, tasks.EdgeCreated, tasks.LeaseRenewed, tasks.TaskWaiting),
        *(tasks.HandoffRejected, tasks.HandoffRejectionInvalid, tasks.RejectionAnswered),
        *(work.GatePassed, work.GateRejected, work.RunStarted, work.RunEnded),
    )
}
"""Events that change neither the status of a task nor its reviews."""


def _plain_moves(task: TaskOutline, lines: Sequence[bytes]) -> list[_Move] | None:
    """What moved a task, if that follows from the transition table and the task's conflicts; None if only the fold knows.

    Most tasks are such, and few of their events are read.
    """
    events: list[_MovingEvent] = []
    added = 0
    for name, line in zip(codec.line_names(lines), lines, strict=True):
        if name in _MOVING:
            try:
                events.append(_decode(line))
            except msgspec.MsgspecError:
                return None
        elif name not in _STILL:
            return None
        elif name == _ADDED:
            added += 1 if codec.stored_id(line) else 2  # a line of a GoT tool has no id
    if added != 1 or task.is_legacy or len(task.inbox.conflicts) >= MAX_CONFLICTS:
        return None
    events.sort(key=_time if len(set(map(_time, events))) == len(events) else _place)
    return _moves(task, events)


def _moves(task: TaskOutline, events: Sequence[_MovingEvent]) -> list[_Move] | None:
    """The moves of a task; None if they do not lead to its state."""
    without_effect = {one.event_id for one in task.inbox.conflicts}
    if any(one.event in (_REJECTED, _LOCKED_OUT) for one in task.inbox.conflicts) or (
        events and events[0].ts <= task.details.created_at
    ):
        return None
    moves: list[_Move] = []
    status, queue, rejected = Status.INCOMING, Status.INCOMING, 0
    for event in events:
        has_effect = event.meta.id not in without_effect
        if has_effect and event.name in _BY_TABLE:
            row = TRANSITIONS[event.name]
            if status not in row.sources:
                return None
            queue = Status.NEEDS_CONTINUATION if event.name == _CONTINUED else queue
            status = row.target or queue
        elif event.name == _WOKEN:
            status = queue if status is Status.DEFERRED else status
        elif event.name == _REJECTED:
            if status is not Status.PROVISIONAL or event.source:
                return None
            status = queue = Status.REJECTED
            rejected += 1
        elif event.name == _LOCKED_OUT and status is Status.CLAIMED:
            return None  # it may end the claim
        moves.append((event, status, has_effect))
    return moves if (status, rejected) == (task.status, len(task.reviews.rounds)) else None


class _ReworkCount:
    def __init__(self, since: Instant) -> None:
        self._since = since
        self._done = self._reworked = self._tasks = 0
        self._cycles: Counter[int] = Counter()
        self._agents: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._reviewers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._stays: defaultdict[Status, list[float]] = defaultdict(list)

    def add(self, history: list[Event], now: Instant) -> None:
        """Adds a task by all its events."""
        task: Task | None = None
        began: Instant = ""
        for event in history:
            before, task = task, evolve(task, event)
            if task is None:
                continue
            if before is None or before.status != task.status:
                self._stay(before.status if before else None, began, event.ts)
                began = event.ts
            if event.ts >= self._since and before is not None:
                self._review(event, before, task)
        if task is not None:
            self._stay(None if task.is_terminal else task.status, began, now)
            reviews = (event for event in history if isinstance(event, ReviewApproved | ReviewRejected))
            if any(event.ts >= self._since for event in reviews):
                self._add_reviewed(task.status, len(task.standing_rounds))

    def add_moves(self, task: TaskOutline, moves: Sequence[_Move], now: Instant) -> None:
        """Adds a task by the events that moved it."""
        status: Status = Status.INCOMING
        began, author = task.details.created_at, ""
        is_reviewed = False
        for event, after, has_effect in moves:
            if after is not status:
                self._stay(status, began, event.ts)
                began, status = event.ts, after
            if event.name == _SUBMITTED and has_effect:
                author = event.agent
            elif event.name in _REVIEWED and event.ts >= self._since:
                is_reviewed = True
                if has_effect:
                    outcome = "rejected" if event.name == _REJECTED else "approved"
                    self._count(author, event.reviewer, outcome)
        self._stay(None if status in TERMINAL else status, began, now)
        if is_reviewed:
            self._add_reviewed(status, len(task.reviews.rounds))

    def _add_reviewed(self, status: Status, rejected: int) -> None:
        self._tasks += 1
        self._reworked += bool(rejected)
        if status == Status.DONE:
            self._done += 1
            self._cycles[rejected + 1] += 1

    def _count(self, author: str, reviewer: str, outcome: str) -> None:
        self._agents[author][outcome] += 1
        self._reviewers[reviewer][outcome] += 1

    def _stay(self, status: Status | None, began: Instant, ended: Instant) -> None:
        start = max(self._since, began)
        if status is not None and ended > start:
            self._stays[status].append(seconds_between(start, ended))

    def _review(self, event: Event, before: Task, after: Task) -> None:
        """Counts an effective review for the author and for the reviewer."""
        author = before.submission.agent if before.submission else ""
        match event:
            case ReviewApproved() if after.status == Status.DONE != before.status:
                self._count(author, event.reviewer, "approved")
            case ReviewRejected() if len(after.reviews.rounds) > len(before.reviews.rounds):
                self._count(author, event.reviewer, "rejected")
            case ReviewRejected() if after.reviews.feedback > before.reviews.feedback:
                self._reviewers[event.reviewer]["rejected"] += 1
            case ReviewRetracted() if after.reviews.rounds != before.reviews.rounds:
                self._reviewers[event.reviewer]["retracted"] += 1
                if len(after.standing_rounds) < len(before.standing_rounds):
                    rounds = (
                        review_round
                        for review_round in before.reviews.rounds
                        if event.review_id in {own.id for own in review_round.reviews}
                    )
                    self._agents[next(rounds).agent]["retracted"] += 1
            case _:
                return

    def result(self) -> Rework:
        by_reviewer = tuple(_review_tallies(self._reviewers))
        by_agent = tuple(_review_tallies(self._agents, counts_retracted=False))
        retracted = sum(one.retracted for one in by_reviewer)
        rejections = max(retracted, sum(counts["rejected"] for counts in self._reviewers.values()))
        cycles = sum(number * times for number, times in self._cycles.items())
        return Rework(
            since=self._since,
            reviewed_tasks=self._tasks,
            done_tasks=self._done,
            reworked_tasks=self._reworked,
            rework_rate=wilson_share(self._reworked, self._tasks),
            cycles={str(number): self._cycles[number] for number in sorted(self._cycles)},
            mean_cycles=cycles / self._done if self._done else 0.0,
            rejections=rejections,
            retracted=retracted,
            false_rejection_rate=wilson_share(retracted, rejections),
            by_agent=by_agent,
            by_reviewer=by_reviewer,
            time_in_status=tuple(_status_durations(self._stays)),
        )


def _review_tallies(
    counted: dict[str, Counter[str]], *, counts_retracted: bool = True
) -> Iterator[ReviewTally]:
    """By name. Retracted reviews still count for their reviewer; for an agent, each submission counts once by its standing result."""
    for name in sorted(counted):
        counts = counted[name]
        rejected = max(0, counts["rejected"] - counts["retracted"])
        reviewed = counts["approved"] + (counts["rejected"] if counts_retracted else rejected)
        yield ReviewTally(
            name=name,
            reviewed=reviewed,
            rejected=rejected,
            retracted=counts["retracted"],
            rate=wilson_share(rejected, reviewed),
        )


def _status_durations(stays: dict[Status, list[float]]) -> Iterator[StatusDuration]:
    for status in Status:
        if status in stays:
            seconds = stays[status]
            yield StatusDuration(
                status=status,
                times=len(seconds),
                median_seconds=median(seconds),
                total_seconds=sum(seconds),
            )
