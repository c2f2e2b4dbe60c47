"""One poll of the forge: what changed is read whole and taken in; what fails is asked again next time."""

from __future__ import annotations

from collections.abc import Callable, Collection

from remand.app.forges.ports import Forge, ForgeFault, Marks, Trouble, Usage
from remand.app.forges.taking import Taken
from remand.app.ledger import Ledger
from remand.app.stories import UncountedReview
from remand.domain import commands as c
from remand.domain.instant import Instant
from remand.domain.pulls.shapes import PullRequest, PullState
from remand.domain.record import Record
from remand.domain.task import Status, Task

CLOSED = "closed"
"""Noted of a pull request of a task that is done: nothing of it can matter any more."""
FORGE = "the forge: "
TROUBLE = "trouble"
"""Where it is noted why the forge could not be asked the last time."""


class Waits(Record, kw_only=True):
    """What a task waits for on the forge."""

    task_id: str
    text: str


class Polled(Record, kw_only=True, omit_defaults=False):
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
    waits: tuple[Waits, ...] = ()
    trouble: str = ""
    """Why the forge could not be asked; empty when it could."""
    until: Instant = ""
    """When it may be asked again."""


class Poller:
    """Asks the forge about every pull request of a task that is not over."""

    def __init__(
        self,
        ledger: Ledger,
        forge: Forge,
        marks: Marks,
        take: Callable[[Task, PullRequest], Taken],
        report: Callable[[Task, PullRequest | None], str] = lambda *_: "",
    ) -> None:
        self._ledger = ledger
        self._forge = forge
        self._marks = marks
        self._take = take
        self._report = report

    def poll(self, only: Collection[int] = ()) -> Polled:
        """Asks once; with numbers only those are looked at.

        The glance is at all of them even then: it costs the same, and a mark may depend on what is asked along.
        """
        before = self._forge.usage
        every = watched(self._ledger, self._marks)
        tasks = [task for task in every if not only or task.pr in only]
        poll = _Poll()
        try:
            seen = self._forge.glance(sorted({task.pr for task in every})) if tasks else {}
            for task in tasks:
                self._look(task, seen, poll)
        except ForgeFault as fault:
            poll.fault = fault
            poll.stopped = f"{FORGE}{fault}"
        if tasks:
            self._marks.put(TROUBLE, poll.stopped)
        poll.waits = [one for task in tasks if (one := self._waits(task, poll))]
        return poll.told(len(tasks), before, self._forge.usage)

    def _waits(self, task: Task, poll: _Poll) -> Waits | None:
        """What a task waits for: that the forge can be asked, or what was found when its pull request was last read."""
        text = poll.stopped if task.id not in poll.looked else self._marks.get(_waiting(task.id))
        return Waits(task_id=task.id, text=text) if text else None

    def _look(self, task: Task, seen: dict[int, str], poll: _Poll) -> None:
        """Looks at one pull request. A fault that may be of this one alone keeps nobody from the others."""
        glance = seen.get(task.pr)
        try:
            if glance is None:
                self._marks.put(_key(task), "")
                self._note(task, f"pull request #{task.pr}, which the forge does not show")
            elif self._marks.get(_key(task)) != _mark(task, glance):
                self._read(task, glance, poll)
            else:
                self._note(task, self._reported(task, None) or self._kept(task))
        except ForgeFault as fault:
            if poll.must_stop(fault):
                raise
            poll.fault = fault
            self._note(task, f"{FORGE}{fault}")
        poll.looked.add(task.id)

    def _read(self, task: Task, glance: str, poll: _Poll) -> None:
        """Takes a pull request in. Only when all of it was taken is it left alone until something changes."""
        pull = self._forge.pull_request(task.pr)
        taken = self._take(task, pull)
        poll.read += 1
        poll.taken = poll.taken.plus(taken)
        now = self._ledger.task_of(c.TaskAsk(task_id=task.id)) or task
        refused = self._reported(now, pull)
        self._note(task, taken.waits_for or refused)
        is_over = pull.state is not PullState.OPEN and now.is_terminal
        if not taken.unsettled:
            self._marks.put(_key(task), CLOSED if is_over else _mark(now, glance))

    def _reported(self, task: Task, pull: PullRequest | None) -> str:
        refused = self._report(task, pull)
        return f"{FORGE}{refused}" if refused else ""

    def _kept(self, task: Task) -> str:
        """What was found when the pull request was read, which has not changed since; no fault lasts longer."""
        text = self._marks.get(_waiting(task.id))
        return "" if text.startswith(FORGE) else text

    def _note(self, task: Task, text: str) -> None:
        if self._marks.get(_waiting(task.id)) != text:
            self._marks.put(_waiting(task.id), text)


class _Poll:
    """What has come of a poll so far."""

    def __init__(self) -> None:
        self.taken = Taken()
        self.read = 0
        self.looked: set[str] = set()
        self.waits: list[Waits] = []
        self.fault: ForgeFault | None = None
        self.stopped = ""
        """Why the forge was not asked any further."""

    def must_stop(self, fault: ForgeFault) -> bool:
        """True when the fault is the forge's as a whole: it asks for patience, or fails a second time."""
        is_of_one = fault.trouble in (Trouble.GARBLED, Trouble.MISSING, Trouble.REFUSED)
        return fault.trouble is Trouble.LIMITED or (not is_of_one and self.fault is not None)

    def told(self, polled: int, before: Usage, after: Usage) -> Polled:
        """The whole, as it is shown."""
        return Polled(
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


def watched(ledger: Ledger, marks: Marks) -> list[Task]:
    """The tasks with a pull request that may still matter."""
    with ledger.store.read() as view:
        named = [task for task in view.tasks.every() if task.pr]
    return [
        task
        for task in named
        if not task.is_terminal or (task.status == Status.DONE and marks.get(_key(task)) != CLOSED)
    ]


def not_asked(ledger: Ledger, marks: Marks, fault: ForgeFault) -> Polled:
    """What comes of a poll when there is no way to the forge at all."""
    tasks = watched(ledger, marks)
    text = f"{FORGE}{fault}"
    marks.put(TROUBLE, text)
    waits = tuple(Waits(task_id=task.id, text=text) for task in tasks)
    return Polled(polled=len(tasks), waits=waits, trouble=str(fault), until=fault.until)


def waits_for(marks: Marks, task_id: str) -> str:
    """What a task with an open pull request waits for on the forge, by the last poll; empty when for nothing."""
    return marks.get(TROUBLE) or marks.get(_waiting(task_id))


def _waiting(task_id: str) -> str:
    return f"waits {task_id}"


def _key(task: Task) -> str:
    return f"pull {task.pr} {task.id}"


def _mark(task: Task, glance: str) -> str:
    """Changes when the forge has something new, or the task stands otherwise than when it was last looked at."""
    handoff = task.submission.handoff_id if task.submission else ""
    return f"{handoff} {task.status} {task.branch} {glance}"
