"""One poll of the forge: changes are read and imported, and statuses are posted as configured."""

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
)
from remand.app.forge.review_import import COUNTED, ReviewImportResult
from remand.app.history.task_history import UncountedReview, uncounted_reviews
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, ReviewRejected, ReviewRetracted
from remand.domain.feedback.comments import REMAND_MARK, find_reported_rejections
from remand.domain.forge import ForgeComment, PullRequest, PullState
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.task import Status, Task

STATUS, REVIEW, COMMENT = "status", "review", "comment"
_FINAL_FAULTS = (ForgeFaultKind.REFUSED, ForgeFaultKind.MISSING)
_STATES = {
    Status.PROVISIONAL: (CheckState.PENDING, "Submitted; awaiting review"),
    Status.DONE: (CheckState.SUCCESS, "Passed its gates and was approved"),
    Status.REJECTED: (CheckState.FAILURE, "Rejected in review"),
    Status.ESCALATED: (CheckState.FAILURE, "Waits for the user's decision"),
}


class ForgeReporter:
    """Posts a task's status, its rejections and uncounted reviews to the forge, each once."""

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
        """Posts what is configured and has changed since the last time; returns what the forge refused.

        A pull request that was just read shows what another machine has posted already.
        """
        if task.submission is None or not self._report:
            return ""
        refused: list[str] = []
        if REVIEW in self._report:
            for review in pull.reviews if pull else ():
                for text in (review.text, *(comment.text for comment in review.comments)):
                    for review_id in find_reported_rejections(text):
                        self._marks.put(_review_key(review_id), REVIEW)
            refused += self._report_reviews(task)
        if COMMENT in self._report and task.reviews.sources:
            refused += self._report_uncounted(task, pull)
        if STATUS in self._report and task.status in _STATES:
            commit, (state, text) = task.submission.commit, _STATES[task.status]
            refused += self._post_once(
                f"status {commit}", state, partial(self._forge.set_status, commit, state, text)
            )
        return "; ".join(refused)

    def _report_reviews(self, task: Task) -> Iterator[str]:
        """Posts the rejections that were given here and are in force; those of the forge are there already."""
        events = self._events_of(task.id)
        retracted = {event.review_id for event in events if isinstance(event, ReviewRetracted)}
        for event in events:
            if not isinstance(event, ReviewRejected) or event.review_id in retracted:
                continue
            if not event.source.startswith(f"{self._kind}:"):
                signature = f"{REMAND_MARK}: {event.review_id}."
                rows = [_finding_text(finding) for finding in event.findings if not finding.path]
                text = "\n\n".join([f"{event.reviewer} rejected this.", signature, *rows])
                comments = [
                    ForgeComment(
                        id="",
                        path=finding.path,
                        line=finding.line,
                        text=f"{_finding_text(finding)}\n\n{signature}",
                    )
                    for finding in event.findings
                    if finding.path
                ]
                post = partial(self._forge.request_changes, task.pr, event.commit, text, comments)
                yield from self._post_once(_review_key(event.review_id), REVIEW, post)

    def _report_uncounted(self, task: Task, pull: PullRequest | None) -> Iterator[str]:
        """Posts which reviews of the submission do not count and why: their reviewers look there, and not here."""
        posted = {remark.text.strip() for remark in pull.remarks} if pull else set()
        for review in uncounted_reviews(self._events_of(task.id)):
            key, text = f"uncounted {task.id} {review.source}", f"{review.text}\n\n{REMAND_MARK}."
            if text in posted:
                self._marks.put(key, COMMENT)
            yield from self._post_once(key, COMMENT, partial(self._forge.comment, task.pr, text))

    def _post_once(self, key: str, value: str, post: Callable[[], object]) -> Iterable[str]:
        """Posts something once. A refusal by the forge is not retried; other faults are raised."""
        if self._marks.get(key) == value:
            return ()
        refused: tuple[str, ...] = ()
        try:
            post()
        except ForgeFault as fault:
            if fault.kind not in _FINAL_FAULTS:
                raise
            refused = (str(fault),)
        self._marks.put(key, value)
        return refused


def _review_key(review_id: str) -> str:
    return f"review {review_id}"


def _finding_text(finding: Finding) -> str:
    return f"{'BLOCKING' if finding.is_blocking else 'suggestion'}: {finding.text}"


CLOSED_MARK = "closed"
"""Marks a closed pull request of a finished task, which is no longer polled."""
FORGE_PREFIX = "the forge: "
FAULT_KEY = "trouble"
"""The key for the fault of the last poll."""


class ForgeWait(Record, kw_only=True):
    """What a task waits for on the forge."""

    task_id: str
    text: str


class PollResult(Record, kw_only=True, omit_defaults=False):
    """The result of a poll."""

    polled: int = 0
    """How many pull requests were polled."""
    read: int = 0
    """How many of them had changed."""
    requests: int = 0
    not_modified: int = 0
    points: int = 0
    rejections: int = 0
    approvals: int = 0
    retractions: int = 0
    """Rejections that their reviewers dismissed on the forge."""
    comments: int = 0
    """Reviewers' comments added to rejections."""
    noted: int = 0
    ignored: int = 0
    commands: int = 0
    not_counted: tuple[UncountedReview, ...] = ()
    """New reviews that do not count."""
    waits: tuple[ForgeWait, ...] = ()
    trouble: str = ""
    """Why the poll failed; empty if it did not."""
    until: Instant = ""
    """When the forge may be polled again."""


class Poller:
    """Polls the forge for the pull requests of all open tasks."""

    def __init__(
        self,
        ledger: Ledger,
        forge: PullReader,
        marks: PollMarks,
        import_pull: Callable[[Task, PullRequest], ReviewImportResult],
        report: Callable[[Task, PullRequest | None], str] = lambda *_: "",
    ) -> None:
        self._ledger, self._forge, self._marks = ledger, forge, marks
        self._import_pull, self._report = import_pull, report

    def poll(self, only: Collection[int] = ()) -> PollResult:
        """Polls once; with numbers, only those pull requests are imported.

        The change marks of all are read even then: it costs the same, and a mark may depend on which are requested.
        """
        before = self._forge.usage
        every = watched_tasks(self._ledger, self._marks)
        tasks = [task for task in every if not only or task.pr in only]
        poll = _Poll()
        stopped = ""
        try:
            self._ledger.store.note_progress("asking the forge what has changed")
            marks = self._forge.change_marks(sorted({task.pr for task in every})) if tasks else {}
            for number, task in enumerate(tasks, 1):
                self._ledger.store.note_progress(f"pull request #{task.pr}, {number} of {len(tasks)}")
                self._poll_task(task, marks.get(task.pr), poll)
        except ForgeFault as fault:
            poll.fault = fault
            stopped = f"{FORGE_PREFIX}{fault}"
        if tasks:
            self._marks.put(FAULT_KEY, stopped)
        # A task waits for an answer of the forge, or for what its pull request showed when it was last read.
        texts = {
            task.id: self._marks.get(_wait_key(task.id)) if task.id in poll.done else stopped
            for task in tasks
        }
        after = self._forge.usage
        return PollResult(
            polled=len(tasks),
            read=poll.read,
            requests=after.requests - before.requests,
            not_modified=after.not_modified - before.not_modified,
            points=after.points - before.points,
            waits=tuple(ForgeWait(task_id=name, text=text) for name, text in texts.items() if text),
            trouble=str(poll.fault or ""),
            until=poll.fault.until if poll.fault else "",
            **{name: getattr(poll.imported, name) for name in COUNTED},
        )

    def _poll_task(self, task: Task, mark: str | None, poll: _Poll) -> None:
        """Imports one pull request if it has changed. A fault that may be specific to it does not stop the poll."""
        try:
            if mark is None:
                self._marks.put(_pull_key(task), "")
                self._note_wait(task, f"pull request #{task.pr}, which the forge does not show")
            elif self._marks.get(_pull_key(task)) != _pull_mark(task, mark):
                self._import_changed(task, mark, poll)
            else:
                # Nothing has changed since its wait was recorded; only a fault is temporary.
                last = self._marks.get(_wait_key(task.id))
                reason = "" if last.startswith(FORGE_PREFIX) else last
                self._note_wait(task, self._report_status(task, None) or reason)
        except ForgeFault as fault:
            is_of_one = fault.kind in (
                ForgeFaultKind.GARBLED,
                ForgeFaultKind.MISSING,
                ForgeFaultKind.REFUSED,
            )
            if fault.kind is ForgeFaultKind.LIMITED or (not is_of_one and poll.fault is not None):
                raise
            poll.fault = fault
            self._note_wait(task, f"{FORGE_PREFIX}{fault}")
        poll.done.add(task.id)

    def _import_changed(self, task: Task, mark: str, poll: _Poll) -> None:
        """Imports a pull request. It is skipped until its next change only if everything in it was settled."""
        pull = self._forge.pull_request(task.pr)
        imported = self._import_pull(task, pull)
        poll.read += 1
        poll.imported.add(imported)
        now = self._ledger.task_of(c.TaskCommand(task_id=task.id)) or task
        refused = self._report_status(now, pull)
        self._note_wait(task, imported.waits_for or refused)
        is_over = pull.state is not PullState.OPEN and now.is_terminal
        if not imported.is_unsettled:
            self._marks.put(_pull_key(task), CLOSED_MARK if is_over else _pull_mark(now, mark))

    def _report_status(self, task: Task, pull: PullRequest | None) -> str:
        refused = self._report(task, pull)
        return f"{FORGE_PREFIX}{refused}" if refused else ""

    def _note_wait(self, task: Task, text: str) -> None:
        if self._marks.get(_wait_key(task.id)) != text:
            self._marks.put(_wait_key(task.id), text)


class _Poll:
    """The state of a poll so far."""

    def __init__(self) -> None:
        self.imported = ReviewImportResult()
        self.read = 0
        self.done: set[str] = set()
        self.fault: ForgeFault | None = None


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
    """The result of a poll if the forge cannot be opened."""
    tasks = watched_tasks(ledger, marks)
    text = f"{FORGE_PREFIX}{fault}"
    marks.put(FAULT_KEY, text)
    waits = tuple(ForgeWait(task_id=task.id, text=text) for task in tasks)
    return PollResult(polled=len(tasks), waits=waits, trouble=str(fault), until=fault.until)


def forge_wait(marks: PollMarks, task_id: str) -> str:
    """What a task with an open pull request waits for on the forge, from the last poll; empty if nothing."""
    return marks.get(FAULT_KEY) or marks.get(_wait_key(task_id))


def _wait_key(task_id: str) -> str:
    return f"waits {task_id}"


def _pull_key(task: Task) -> str:
    return f"pull {task.pr} {task.id}"


def _pull_mark(task: Task, change_mark: str) -> str:
    """Changes when the pull request or the state of the task changes."""
    handoff = task.submission.handoff_id if task.submission else ""
    return f"{handoff} {task.status} {task.branch} {change_mark}"
