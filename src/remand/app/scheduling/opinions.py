"""Reviewers and directors that are agents: whom to ask, what they are told, and what becomes of what they say."""

from __future__ import annotations

from collections.abc import Callable

from remand.app.asking import Request
from remand.app.scheduling.beginning import Assigned, Brief, UnderWay
from remand.app.scheduling.books import Books
from remand.app.scheduling.ports import CannotRun, Changes, Told
from remand.app.scheduling.reviewers import director_for, reviewer_for
from remand.app.scheduling.reviewing import direct_prompt, review_prompt
from remand.app.scheduling.scheduler import Choosers
from remand.app.scheduling.staff import Load
from remand.domain import commands as c
from remand.domain.event import KnownBy
from remand.domain.events import Purpose
from remand.domain.refusals import Refused
from remand.domain.reviewing.answer import Approved, Rejected, review
from remand.domain.reviewing.blocks import Unclear
from remand.domain.reviewing.decision import decision
from remand.domain.roles import Member
from remand.domain.runs import Run
from remand.domain.task import TERMINAL, Status, Task


class Opinions:
    """What is asked of agents in place of people, for one ledger."""

    def __init__(self, books: Books, changes: Changes, fresh_mark: Callable[[], str]) -> None:
        self._books = books
        self._changes = changes
        self._fresh_mark = fresh_mark
        """Tells what is quoted to an agent apart from what it is told: nobody can know it before."""
        self._last = {Purpose.REVIEW: "", Purpose.DIRECT: ""}

    @property
    def choosers(self) -> Choosers:
        """Whom to ask."""
        return Choosers(self._reviewer, self._director)

    @property
    def briefs(self) -> dict[Purpose, Brief]:
        """What they are told."""
        return {Purpose.REVIEW: self._review_brief, Purpose.DIRECT: self._direct_brief}

    def heard(self, work: UnderWay, told: Told) -> str:
        """Has the last words of a run count, by the rights of who said them; gives why nothing comes of them."""
        task = self._books.task(work.assigned.task.id)
        run = task.run(work.assigned.run_id) if task else None
        if task is None or run is None:
            return "its run is not known any more"
        found = opinion(run, task, told.text, self._books.home)
        if found is None:
            return ""
        if isinstance(found, Unclear):
            return f"its answer cannot be read: {found.why}"
        answer = self._books.ask_as(found)
        return f"refused ({answer.code}): {answer.message}" if isinstance(answer, Refused) else ""

    def _reviewer(self, task: Task, load: Load) -> Member | None:
        if self._books.waits_for_answer(task):
            return None
        team, last = self._books.rules.team, self._last[Purpose.REVIEW]
        found = reviewer_for(
            task,
            team,
            lambda: self._books.changed(task),
            load,
            kept_away=self._books.kept_away(task),
            after=last,
        )
        self._last[Purpose.REVIEW] = found.name if found else last
        return found

    def _director(self, task: Task, load: Load) -> Member | None:
        rules, last = self._books.rules, self._last[Purpose.DIRECT]
        if rules.policy.has_director_command:
            return None
        found = director_for(task, rules.team, load, after=last)
        self._last[Purpose.DIRECT] = found.name if found else last
        return found

    def _review_brief(self, assigned: Assigned) -> str:
        task = assigned.task
        submission = task.submission
        if submission is None:
            raise CannotRun("git", f"Nothing of task {task.id} awaits review.")
        return review_prompt(
            task,
            self._books.events(task.id),
            self._books.with_ledger(lambda: self._changes.submitted(task, submission)),
            reviewer=self._books.rules.team.actor(assigned.member.name),
            run_id=assigned.run_id,
            mark=self._fresh_mark(),
            since=self._books.with_ledger(lambda: self._changes.since(task, submission.commit)),
            repository=self._books.home,
        )

    def _direct_brief(self, assigned: Assigned) -> str:
        return direct_prompt(
            assigned.task,
            self._books.events(assigned.task.id),
            director=self._books.rules.team.actor(assigned.member.name),
            run_id=assigned.run_id,
            mark=self._fresh_mark(),
        )


def opinion(run: Run, task: Task, text: str, repository: str = "") -> Request | Unclear | None:
    """What follows from the last words of a run, given the task as it is now; None when nothing is left to say.

    That is so when the agent has spoken already, through its own door, or somebody else has settled the matter.
    `repository` is the address of the project's own repository: links into it stay in findings.
    """
    match run.purpose:
        case Purpose.REVIEW:
            return _review(run, task, text, repository)
        case Purpose.DIRECT:
            return _decision(run, task, text)
        case _:
            return None


def _review(run: Run, task: Task, text: str, repository: str) -> Request | Unclear | None:
    is_open, is_sent_back = _is_awaited(run, task), _is_sent_back_by_others(run, task)
    if not is_open and not is_sent_back:
        return None
    match review(text, run.id, repository):
        case Approved() as yes:
            ask = c.ApproveReview(task_id=task.id, commit=run.about, checked=yes.checked)
            return _asked(run, ask) if is_open else None
        case Rejected() as no:
            return _asked(run, c.RejectReview(task_id=task.id, commit=run.about, findings=no.findings))
        case unclear:
            return unclear


def _is_awaited(run: Run, task: Task) -> bool:
    """True while what it was shown is still under review."""
    work = task.submission
    return task.status == Status.PROVISIONAL and work is not None and work.commit == run.about


def _is_sent_back_by_others(run: Run, task: Task) -> bool:
    """True when others have rejected the same work meanwhile: what it found goes with what they found."""
    work = task.submission
    known = task.sent_back(work.handoff_id, work.tree) if work and work.commit == run.about else None
    if known is None or task.status in TERMINAL:
        return False
    return all(one.reviewer != run.agent for one in known.reviews)


def _decision(run: Run, task: Task, text: str) -> Request | Unclear | None:
    filed = task.filed
    if filed is None or filed.decision or filed.rejection_id != run.about or task.status != Status.BLOCKED:
        return None
    found = decision(text, run.id)
    return found if isinstance(found, Unclear) else _asked(run, found.ask(filed.handoff_id))


def _asked(run: Run, ask: c.ApproveReview | c.RejectReview | c.AnswerRejection) -> Request:
    return Request(ask=ask, actor=run.agent, confined=True, key=f"{run.id}:opinion", known_by=KnownBy.SOCKET)
