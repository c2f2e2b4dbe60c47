"""What reviews cost: cycles, rework, who is rejected and who rejects, time in each state, false rejections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median

from remand.app.patterns.intervals import Share, share
from remand.domain import events as e
from remand.domain.evolve import evolve
from remand.domain.instant import Instant, moment
from remand.domain.record import Record
from remand.domain.task import Status, Task


class Tally(Record, kw_only=True):
    """One agent's submissions, or one reviewer's reviews, and how many of them were rejections that stand."""

    name: str
    reviewed: int
    rejected: int
    retracted: int
    rate: Share


class Stay(Record, kw_only=True):
    """How long tasks stayed in a status, each time they came to it."""

    status: str
    times: int
    median_seconds: float
    total_seconds: float


class Rework(Record, kw_only=True):
    """Every figure about reviews, from the events alone."""

    since: Instant
    reviewed_tasks: int
    """Tasks of which work was approved or rejected."""
    done_tasks: int
    reworked_tasks: int
    """Reviewed tasks with a rejection that stands."""
    rework_rate: Share
    cycles: dict[str, int]
    """Of the tasks that are done, how many took so many rounds of review."""
    mean_cycles: float
    rejections: int
    retracted: int
    false_rejection_rate: Share
    """Rejections that were retracted, of all there were."""
    by_agent: tuple[Tally, ...]
    by_reviewer: tuple[Tally, ...]
    time_in_status: tuple[Stay, ...]


def rework(stories: Iterable[list[e.Event]], now: Instant, since: Instant = "") -> Rework:
    """The figures of tasks, each given by its events in order; with `since` of what happened from then on."""
    count = _Count(since)
    for story in stories:
        count.add(story, now)
    return count.told()


class _Count:
    """What is counted while the tasks pass by."""

    def __init__(self, since: Instant) -> None:
        self._since = since
        self._done = self._reworked = self._tasks = 0
        self._cycles: Counter[int] = Counter()
        self._agents: dict[str, Counter[str]] = {}
        self._reviewers: dict[str, Counter[str]] = {}
        self._stays: dict[Status, list[float]] = {}

    def add(self, story: list[e.Event], now: Instant) -> None:
        task: Task | None = None
        began: Instant = ""
        for event in story:
            before, task = task, evolve(task, event)
            if task is None:
                continue
            if before is None or before.status != task.status:
                self._stay(before, began, event.ts)
                began = event.ts
            if event.ts >= self._since and before is not None:
                self._review(event, before, task)
        if task is not None:
            self._stay(None if task.is_terminal else task, began, now)
            self._task(task, story)

    def _stay(self, task: Task | None, began: Instant, ended: Instant) -> None:
        if task is not None and ended > max(began, self._since):
            seconds = (moment(ended) - moment(max(began, self._since) or began)).total_seconds()
            self._stays.setdefault(task.status, []).append(seconds)

    def _review(self, event: e.Event, before: Task, after: Task) -> None:
        """One review that had an effect: of whose work, by whom."""
        author = before.submission.agent if before.submission else ""
        match event:
            case e.ReviewApproved() if after.status == Status.DONE != before.status:
                self._note(author, event.reviewer, "approved")
            case e.ReviewRejected() if len(after.rounds) > len(before.rounds):
                self._note(author, event.reviewer, "rejected")
            case e.ReviewRejected() if after.feedback > before.feedback:
                self._of(self._reviewers, event.reviewer)["rejected"] += 1
            case e.ReviewRetracted() if after.rounds != before.rounds:
                self._retract(event, before, after)
            case _:
                return

    def _retract(self, event: e.ReviewRetracted, before: Task, after: Task) -> None:
        self._of(self._reviewers, event.reviewer)["retracted"] += 1
        if len(after.standing_rounds) < len(before.standing_rounds):
            author = next(
                one.agent for one in before.rounds if any(own.id == event.review_id for own in one.reviews)
            )
            self._of(self._agents, author)["retracted"] += 1

    def _note(self, author: str, reviewer: str, outcome: str) -> None:
        self._of(self._agents, author)[outcome] += 1
        self._of(self._reviewers, reviewer)[outcome] += 1

    @staticmethod
    def _of(tallies: dict[str, Counter[str]], name: str) -> Counter[str]:
        return tallies.setdefault(name, Counter())

    def _task(self, task: Task, story: list[e.Event]) -> None:
        reviews = [
            event
            for event in story
            if isinstance(event, e.ReviewApproved | e.ReviewRejected) and event.ts >= self._since
        ]
        if not reviews:
            return
        self._tasks += 1
        self._reworked += bool(task.standing_rounds)
        if task.status == Status.DONE:
            self._done += 1
            self._cycles[len(task.standing_rounds) + 1] += 1

    def told(self) -> Rework:
        by_reviewer = tuple(_tallies(self._reviewers))
        by_agent = tuple(_tallies(self._agents, counts_retracted=False))
        retracted = sum(one.retracted for one in by_reviewer)
        rejections = max(retracted, sum(counts["rejected"] for counts in self._reviewers.values()))
        cycles = sum(number * times for number, times in self._cycles.items())
        return Rework(
            since=self._since,
            reviewed_tasks=self._tasks,
            done_tasks=self._done,
            reworked_tasks=self._reworked,
            rework_rate=share(self._reworked, self._tasks),
            cycles={str(number): self._cycles[number] for number in sorted(self._cycles)},
            mean_cycles=cycles / self._done if self._done else 0.0,
            rejections=rejections,
            retracted=retracted,
            false_rejection_rate=share(retracted, rejections),
            by_agent=by_agent,
            by_reviewer=by_reviewer,
            time_in_status=tuple(_stays(self._stays)),
        )


def _tallies(counted: dict[str, Counter[str]], *, counts_retracted: bool = True) -> Iterator[Tally]:
    """By name. A reviewer gave a review that was retracted, too; an agent's submission is reviewed once, by what stands."""
    for name in sorted(counted):
        counts = counted[name]
        rejected = max(0, counts["rejected"] - counts["retracted"])
        reviewed = counts["approved"] + (counts["rejected"] if counts_retracted else rejected)
        yield Tally(
            name=name,
            reviewed=reviewed,
            rejected=rejected,
            retracted=counts["retracted"],
            rate=share(rejected, reviewed),
        )


def _stays(stays: dict[Status, list[float]]) -> Iterator[Stay]:
    for status in Status:
        if status in stays:
            seconds = stays[status]
            yield Stay(
                status=status,
                times=len(seconds),
                median_seconds=median(seconds),
                total_seconds=sum(seconds),
            )
