"""Reviewers and directors that are agents: whom to ask, what they are told, and what becomes of what they say."""

from __future__ import annotations

import secrets

from remand.app.scheduling.beginning import Assigned, AtWork, Brief
from remand.app.scheduling.books import Books
from remand.app.scheduling.opinions import opinion
from remand.app.scheduling.ports import CannotRun, Told
from remand.app.scheduling.reviewers import director_for, reviewer_for
from remand.app.scheduling.reviewing import direct_prompt, review_prompt
from remand.app.scheduling.scheduler import Choosers
from remand.app.scheduling.staff import Load
from remand.bootstrap.ledger import Opened
from remand.bootstrap.patches import changed_since, submitted_change
from remand.domain.events import Purpose
from remand.domain.refusals import Refused
from remand.domain.reviewing.blocks import Unclear
from remand.domain.roles import Member
from remand.domain.task import Task

LONGEST_CHANGE = 200_000
"""How many characters of a change a reviewer is shown at once; the rest it looks up."""


class Opinions:
    """What is asked of agents in place of people, for one ledger."""

    def __init__(self, opened: Opened, books: Books) -> None:
        self._opened = opened
        self._books = books
        self._last = {Purpose.REVIEW: "", Purpose.DIRECT: ""}

    @property
    def choosers(self) -> Choosers:
        """Whom to ask."""
        return Choosers(self._reviewer, self._director)

    @property
    def briefs(self) -> dict[Purpose, Brief]:
        """What they are told."""
        return {Purpose.REVIEW: self._review_brief, Purpose.DIRECT: self._direct_brief}

    def heard(self, work: AtWork, told: Told) -> str:
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
            self._books.with_ledger(
                lambda: submitted_change(self._opened, task, submission, longest=LONGEST_CHANGE)
            ),
            reviewer=self._books.rules.team.actor(assigned.member.name),
            run_id=assigned.run_id,
            mark=secrets.token_hex(16),
            since=self._books.with_ledger(lambda: changed_since(self._opened, task, submission.commit)),
            repository=self._books.home,
        )

    def _direct_brief(self, assigned: Assigned) -> str:
        return direct_prompt(
            assigned.task,
            self._books.events(assigned.task.id),
            director=self._books.rules.team.actor(assigned.member.name),
            run_id=assigned.run_id,
            mark=secrets.token_hex(16),
        )
