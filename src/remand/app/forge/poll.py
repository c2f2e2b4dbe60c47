"""One poll of the forge: what changed is read and imported, and what the configuration allows is reported there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from remand.app.forge.ports import (
    CheckState,
    ForgeFault,
    ForgeFaultKind,
    PollMarks,
    PullReader,
    ReviewWriter,
    Usage,
)
from remand.app.forge.review_import import ReviewImportResult
from remand.app.history.task_history import UncountedReview
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, ReviewRejected, ReviewRetracted
from remand.domain.instant import Instant
from remand.domain.pull_request.comments import REMAND_MARK, find_reported_rejections
from remand.domain.pull_request.records import ForgeComment, PullRequest, PullState
from remand.domain.record import Record
from remand.domain.task import Status, Task

STATUS, REVIEW = "status", "review"
_FINAL_FAULTS = (ForgeFaultKind.REFUSED, ForgeFaultKind.MISSING)
_STATES = {
    Status.PROVISIONAL: (CheckState.PENDING, "Handed in; awaits review"),
    Status.DONE: (CheckState.SUCCESS, "Passed its gates and was approved"),
    Status.REJECTED: (CheckState.FAILURE, "Rejected in review"),
    Status.ESCALATED: (CheckState.FAILURE, "Waits for the user's decision"),
}


class ForgeReporter:
    """Tells the forge how a task stands, each thing once."""

    def __init__(
        self,
        forge: ReviewWriter,
        marks: PollMarks,
        kind: str,
        report: Collection[str],
        events_of: Callable[[str], list[Event]],
    ) -> None:
        self._forge = forge
        self._marks = marks
        self._kind = kind
        self._report = report
        self._events_of = events_of

    def report(self, task: Task, pull: PullRequest | None = None) -> str:
        """Leaves what is configured and has changed since it was last left; returns what the forge did not take.

        A pull request that was just read shows what another machine has left there already.
        """
        if task.submission is None or not self._report:
            return ""
        refused: list[str] = []
        if REVIEW in self._report:
            for key in _reported_reviews(pull):
                self._marks.put(key, REVIEW)
            refused += self._report_reviews(task)
        if STATUS in self._report and task.status in _STATES:
            commit, (state, text) = task.submission.commit, _STATES[task.status]
            refused += self._post_once(
                f"status {commit}", state, partial(self._forge.set_status, commit, state, text)
            )
        return "; ".join(refused)

    def _report_reviews(self, task: Task) -> Iterator[str]:
        """Leaves the rejections that were given here and stand; those of the forge are there already."""
        events = self._events_of(task.id)
        retracted = {event.review_id for event in events if isinstance(event, ReviewRetracted)}
        for event in events:
            if not isinstance(event, ReviewRejected) or event.review_id in retracted:
                continue
            if not event.source.startswith(f"{self._kind}:"):
                given = (task.pr, event.commit, _review_text(event), _review_comments(event))
                leave = partial(self._forge.request_changes, *given)
                yield from self._post_once(_review_key(event.review_id), REVIEW, leave)

    def _post_once(self, key: str, value: str, leave: Callable[[], object]) -> Iterable[str]:
        """Leaves something once. What the forge will not take is not offered again; any other fault is raised."""
        if self._marks.get(key) == value:
            return ()
        refused: tuple[str, ...] = ()
        try:
            leave()
        except ForgeFault as fault:
            if fault.trouble not in _FINAL_FAULTS:
                raise
            refused = (str(fault),)
        self._marks.put(key, value)
        return refused


def _review_key(review_id: str) -> str:
    return f"review {review_id}"


def _reported_reviews(pull: PullRequest | None) -> Iterator[str]:
    """The marks of the rejections that were left at a pull request."""
    for review in pull.reviews if pull else ():
        for text in (review.text, *(comment.text for comment in review.comments)):
            yield from map(_review_key, find_reported_rejections(text))


def _review_text(event: ReviewRejected) -> str:
    rows = [_finding_text(finding) for finding in event.findings if not finding.path]
    return "\n\n".join([f"{event.reviewer} rejected this.", _signature_line(event), *rows])


def _review_comments(event: ReviewRejected) -> list[ForgeComment]:
    return [
        ForgeComment(
            id="",
            path=finding.path,
            line=finding.line,
            text=f"{_finding_text(finding)}\n\n{_signature_line(event)}",
        )
        for finding in event.findings
        if finding.path
    ]


def _finding_text(finding: Finding) -> str:
    return f"{'BLOCKING' if finding.is_blocking else 'suggestion'}: {finding.text}"


def _signature_line(event: ReviewRejected) -> str:
    return f"{REMAND_MARK}: {event.review_id}."


CLOSED_MARK = "closed"
"""Noted of a pull request of a task that is done: nothing of it can matter any more."""
FORGE_PREFIX = "the forge: "
FAULT_KEY = "trouble"
"""Where it is noted why the forge could not be asked the last time."""


class ForgeWait(Record, kw_only=True):
    """What a task waits for on the forge."""

    task_id: str
    text: str


class PollResult(Record, kw_only=True, omit_defaults=False):
    """What came of a poll."""

    polled: int = 0
    """How many pull requests were asked about."""
    read: int = 0
    """How many of them had changed."""
    requests: int = 0
    not_modified: int = 0
    points: int = 0
    rejections: int = 0
    approvals: int = 0
    comments: int = 0
    """How many comments of reviewers were added to rejections."""
    noted: int = 0
    ignored: int = 0
    commands: int = 0
    not_counted: tuple[UncountedReview, ...] = ()
    """Reviews that were seen for the first time and do not count."""
    waits: tuple[ForgeWait, ...] = ()
    trouble: str = ""
    """Why the forge could not be asked; empty when it could."""
    until: Instant = ""
    """When it may be asked again."""


class Poller:
    """Asks the forge about every pull request of a task that is not over."""

    def __init__(
        self,
        ledger: Ledger,
        forge: PullReader,
        marks: PollMarks,
        take: Callable[[Task, PullRequest], ReviewImportResult],
        report: Callable[[Task, PullRequest | None], str] = lambda *_: "",
    ) -> None:
        self._ledger = ledger
        self._forge = forge
        self._marks = marks
        self._take = take
        self._report = report

    def poll(self, only: Collection[int] = ()) -> PollResult:
        """Asks once; with numbers only those are looked at.

        The glance is at all of them even then: it costs the same, and a mark may depend on what is asked along.
        """
        before = self._forge.usage
        every = watched_tasks(self._ledger, self._marks)
        tasks = [task for task in every if not only or task.pr in only]
        poll = _Poll()
        try:
            seen = self._forge.change_marks(sorted({task.pr for task in every})) if tasks else {}
            for task in tasks:
                self._poll_task(task, seen, poll)
        except ForgeFault as fault:
            poll.fault = fault
            poll.stopped = f"{FORGE_PREFIX}{fault}"
        if tasks:
            self._marks.put(FAULT_KEY, poll.stopped)
        poll.waits = [one for task in tasks if (one := self._wait_of(task, poll))]
        return poll.result(len(tasks), before, self._forge.usage)

    def _wait_of(self, task: Task, poll: _Poll) -> ForgeWait | None:
        """What a task waits for: that the forge can be asked, or what was found when its pull request was last read."""
        text = poll.stopped if task.id not in poll.looked else self._marks.get(_wait_key(task.id))
        return ForgeWait(task_id=task.id, text=text) if text else None

    def _poll_task(self, task: Task, seen: dict[int, str], poll: _Poll) -> None:
        """Looks at one pull request. A fault that may be of this one alone keeps nobody from the others."""
        glance = seen.get(task.pr)
        try:
            if glance is None:
                self._marks.put(_pull_key(task), "")
                self._note_wait(task, f"pull request #{task.pr}, which the forge does not show")
            elif self._marks.get(_pull_key(task)) != _pull_mark(task, glance):
                self._import_pull(task, glance, poll)
            else:
                self._note_wait(task, self._report_status(task, None) or self._last_wait(task))
        except ForgeFault as fault:
            if poll.must_stop(fault):
                raise
            poll.fault = fault
            self._note_wait(task, f"{FORGE_PREFIX}{fault}")
        poll.looked.add(task.id)

    def _import_pull(self, task: Task, glance: str, poll: _Poll) -> None:
        """Takes a pull request in. Only when all of it was taken is it left alone until something changes."""
        pull = self._forge.pull_request(task.pr)
        taken = self._take(task, pull)
        poll.read += 1
        poll.taken = poll.taken.plus(taken)
        now = self._ledger.task_of(c.TaskCommand(task_id=task.id)) or task
        refused = self._report_status(now, pull)
        self._note_wait(task, taken.waits_for or refused)
        is_over = pull.state is not PullState.OPEN and now.is_terminal
        if not taken.unsettled:
            self._marks.put(_pull_key(task), CLOSED_MARK if is_over else _pull_mark(now, glance))

    def _report_status(self, task: Task, pull: PullRequest | None) -> str:
        refused = self._report(task, pull)
        return f"{FORGE_PREFIX}{refused}" if refused else ""

    def _last_wait(self, task: Task) -> str:
        """What was found when the pull request was read, which has not changed since; no fault lasts longer."""
        text = self._marks.get(_wait_key(task.id))
        return "" if text.startswith(FORGE_PREFIX) else text

    def _note_wait(self, task: Task, text: str) -> None:
        if self._marks.get(_wait_key(task.id)) != text:
            self._marks.put(_wait_key(task.id), text)


class _Poll:
    """What has come of a poll so far."""

    def __init__(self) -> None:
        self.taken = ReviewImportResult()
        self.read = 0
        self.looked: set[str] = set()
        self.waits: list[ForgeWait] = []
        self.fault: ForgeFault | None = None
        self.stopped = ""
        """Why the forge was not asked any further."""

    def must_stop(self, fault: ForgeFault) -> bool:
        """True when the fault is the forge's as a whole: it asks for patience, or fails a second time."""
        is_of_one = fault.trouble in (ForgeFaultKind.GARBLED, ForgeFaultKind.MISSING, ForgeFaultKind.REFUSED)
        return fault.trouble is ForgeFaultKind.LIMITED or (not is_of_one and self.fault is not None)

    def result(self, polled: int, before: Usage, after: Usage) -> PollResult:
        """The whole, as it is shown."""
        return PollResult(
            polled=polled,
            read=self.read,
            requests=after.requests - before.requests,
            not_modified=after.not_modified - before.not_modified,
            points=after.points - before.points,
            rejections=self.taken.rejections,
            approvals=self.taken.approvals,
            comments=self.taken.comments,
            noted=self.taken.noted,
            not_counted=self.taken.not_counted,
            ignored=self.taken.ignored,
            commands=self.taken.commands,
            waits=tuple(self.waits),
            trouble=str(self.fault or ""),
            until=self.fault.until if self.fault else "",
        )


def watched_tasks(ledger: Ledger, marks: PollMarks) -> list[Task]:
    """The tasks with a pull request that may still matter."""
    with ledger.store.read() as view:
        named = [task for task in view.tasks.every() if task.pr]
    return [
        task
        for task in named
        if not task.is_terminal or (task.status == Status.DONE and marks.get(_pull_key(task)) != CLOSED_MARK)
    ]


def failed_poll(ledger: Ledger, marks: PollMarks, fault: ForgeFault) -> PollResult:
    """What comes of a poll when there is no way to the forge at all."""
    tasks = watched_tasks(ledger, marks)
    text = f"{FORGE_PREFIX}{fault}"
    marks.put(FAULT_KEY, text)
    waits = tuple(ForgeWait(task_id=task.id, text=text) for task in tasks)
    return PollResult(polled=len(tasks), waits=waits, trouble=str(fault), until=fault.until)


def forge_wait(marks: PollMarks, task_id: str) -> str:
    """What a task with an open pull request waits for on the forge, by the last poll; empty when for nothing."""
    return marks.get(FAULT_KEY) or marks.get(_wait_key(task_id))


def _wait_key(task_id: str) -> str:
    return f"waits {task_id}"


def _pull_key(task: Task) -> str:
    return f"pull {task.pr} {task.id}"


def _pull_mark(task: Task, glance: str) -> str:
    """Changes when the forge has something new, or the task stands otherwise than when it was last looked at."""
    handoff = task.submission.handoff_id if task.submission else ""
    return f"{handoff} {task.status} {task.branch} {glance}"
