"""The scheduler: looks at the ledger, and takes the next step of every task that waits for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

from remand.app.gates.known_results import BrokenGates
from remand.app.scheduler.active_runs import ActiveRuns
from remand.app.scheduler.ledger_client import LedgerClient, accepted_task
from remand.app.scheduler.ports import CannotRun, TaskWorktree, TaskWorktrees
from remand.app.scheduler.runs import ActiveRun, RunAssignment, RunEnder, RunStops, task_branch
from remand.app.tasks.queue import agent_pool, is_suitable
from remand.app.tasks.staff import Load, max_waiting_reviews, rotate_after, startable_workers
from remand.domain import commands as c
from remand.domain.access.team import Actor, Member
from remand.domain.decisions.findings import open_findings
from remand.domain.events.work import How, Purpose
from remand.domain.instant import Instant, add_seconds
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task
from remand.domain.text.words import format_count

MAX_CANDIDATES = 500
"""How far down the line a task for somebody is looked for."""


class CandidateTasks:
    """Gives each task once. What was read for one agent is not read again for the next."""

    def __init__(self, tasks: Iterator[Task], most: int = MAX_CANDIDATES) -> None:
        self._all = tasks
        self._rest = islice(tasks, most)
        self._passed: list[tuple[str, Task]] = []

    def take(self, agent: Actor, *, has_team: bool) -> Task | None:
        """The first task that suits an agent; None when there is none among those that are looked through."""
        for one in self._in_order():
            if is_suitable(one[0], agent, has_team):
                self._passed.remove(one)
                return one[1]
        return None

    @property
    def is_empty(self) -> bool:
        """True when there is nothing left to be given."""
        if not self._passed:
            next(self._in_order(), None)
        return not self._passed and not self.has_more

    @cached_property
    def has_more(self) -> bool:
        """True when there are tasks beyond those that were looked through. To be asked in the end."""
        return next(self._all, None) is not None

    def _in_order(self) -> Iterator[tuple[str, Task]]:
        yield from tuple(self._passed)
        for task in self._rest:
            self._passed.append((agent_pool(task), task))
            yield self._passed[-1]


FORGOTTEN_SECONDS = 600.0
"""How much longer than it may take a run of another ledger is waited for."""
LINGER_SECONDS = 30.0
"""How long an agent may go on talking after its work is handed in."""
BACKOFF_SECONDS = 5.0
_WANTED_STATUS = {Purpose.REVIEW: Status.PROVISIONAL, Purpose.DIRECT: Status.BLOCKED}
"""While a task is that, somebody's opinion of it is wanted."""

Among = Collection[str] | None
"""The tasks that are looked at; None: all of them."""
FindLastSign = Callable[[str], Instant]
"""When something was last heard of a run; empty when that is not known."""
ChooseMember = Callable[[Task, Load], Member | None]
"""Whom to ask about a task; None when a person has to look."""


class Choosers(NamedTuple):
    """Who is asked, among agents, for what people would be asked for."""

    reviewer: ChooseMember
    director: ChooseMember


class Scheduler:
    """Each tick is one look at the ledger; what takes long is done by the floor's hands."""

    def __init__(
        self,
        *,
        books: LedgerClient,
        floor: ActiveRuns,
        workplaces: TaskWorktrees,
        ending: RunEnder,
        settling: RunStops,
        choosers: Choosers,
        tier: str,
        longest: Callable[[], float],
        last_sign: FindLastSign,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = books
        self._floor = floor
        self._workplaces = workplaces
        self._ending = ending
        self._settling = settling
        self._choosers = choosers
        self._tier = tier
        self._longest = longest
        """How long a run may take, as the configuration has it now."""
        self._last_sign = last_sign
        self._clock = clock
        self._lingering: dict[str, float] = {}
        self._last = ""
        self._room = 0
        """How many more tasks may be begun before too much is on its way to review."""
        self._session = ""
        self._is_stopping = False
        self._takes_new = True
        self.has_begun = False
        """The last tick has given somebody something, or would have if there had been room."""
        self._hindrance = ""
        self.waiting = ""
        """Why nothing is begun; empty when nothing keeps it."""
        self._gates = BrokenGates()

    def recover(self) -> None:
        """Takes up what a scheduler before this one left: its runs are lost, its worktrees are kept or taken down."""
        self._session = self._books.session
        self._books.skip_news()
        for task in self._books.running_tasks():
            for run in task.runs:
                if run.session == self._session:
                    self._ending.record_lost(task.id, run, self._last_sign(run.id), self._longest())
        self._workplaces.remove_others(self._books.open_tasks())

    def end_forgotten_runs(self) -> None:
        """Ends runs of other ledgers that must be over by now: who had begun them does not say so any more."""
        longest = self._longest()
        for task in self._books.running_tasks():
            for run in task.runs:
                is_over = add_seconds(run.started_at, longest + FORGOTTEN_SECONDS) < self._books.now()
                if run.session != self._session and is_over:
                    self._ending.record_lost(task.id, run, "", longest)

    def stop(self) -> None:
        """Begins nothing more, and asks every agent to end; ticks go on until the floor is empty."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._floor.close()
        self._settling.close()

    def stop_assigning(self) -> None:
        """Goes on with what is begun, and begins no other task."""
        self._takes_new = False

    def check_staff(self) -> None:
        """Asks the user about every waiting task that nobody on the team is left for."""
        for task_id in self._books.ready_ids():
            self._books.ask(c.CheckStaff(task_id=task_id))

    def check_given_up(self) -> None:
        """Asks the user about every task that its agent has given up: nobody else takes it by itself."""
        for task in self._books.active_tasks(Status.FAILED):
            self._books.ask(c.CheckStaff(task_id=task.id))

    def tick(self, *, is_whole: bool = True) -> None:
        """Does the next step of everything that waits for one, or only of what has changed since the last tick."""
        changed = self._books.changed_tasks() | self._floor.take_finished_tasks()
        among = None if is_whole else changed
        self._floor.collect_ended(self._on_run_finished, is_whole=is_whole)
        self._watch_active_runs(among)
        if self._is_stopping:
            return
        self._gates = self._books.broken_gates()
        self._hindrance, self.has_begun = self._gates.reason, False
        for task in self._tasks_of_status(Status.CLAIMED, among):
            self._continue_task(task)
        self._start_opinions(Purpose.REVIEW, self._choosers.reviewer, among)
        self._start_opinions(Purpose.DIRECT, self._choosers.director, among)
        if self._takes_new:
            self._assign_tasks()
        self.waiting = self._hindrance

    def _tasks_of_status(self, status: Status, among: Among) -> list[Task]:
        if among is None:
            return self._books.active_tasks(status)
        return [task for task in map(self._books.task, among) if task is not None and task.status == status]

    # ---------------------------------------------------------------------------------------- those at work

    def _watch_active_runs(self, among: Among) -> None:
        """Renews the leases of those at work, and ends those whose task is theirs no longer."""
        known = {task.id: task for task in self._books.running_tasks()} if among is None else {}
        half = self._renewal_time()
        for work in self._floor.active_runs:
            name = work.assigned.task.id
            if among is not None and name not in among:
                continue
            task = known.get(name) or self._books.task(name)
            if task is None or not self._is_still_needed(work, task):
                work.running.stop()
            else:
                self._renew_if_due(task, half)

    def _renewal_time(self) -> Instant:
        """Until when half a lease lasts from now: one that ends before that is renewed."""
        return add_seconds(self._books.now(), self._books.rules.policy.lease_seconds / 2)

    def _renew_if_due(self, task: Task, half: Instant) -> None:
        """Keeps the lease of one at work, or whose work is being measured, from running out."""
        if task.claim is not None and task.claim.lease_expires_at < half:
            self._books.renew_lease(task)

    def _is_still_needed(self, work: ActiveRun, task: Task) -> bool:
        """True while the agent has something to do; one that has handed in, or rejected, may say a few words more."""
        run = work.assigned
        if run.purpose in _WANTED_STATUS:
            return task.status == _WANTED_STATUS[run.purpose]
        held = run.task.claim.handoff_id if run.task.claim else ""
        if task.claim is not None and task.claim.handoff_id == held:
            return True
        if held not in {
            one.handoff_id for one in (task.submission, task.rejections.last_rejection) if one is not None
        }:
            return False
        since = self._lingering.setdefault(run.run_id, self._clock())
        return self._clock() - since < LINGER_SECONDS

    def _on_run_finished(self, work: ActiveRun, after: Task | None) -> None:
        """What comes after a run: its stop is answered, or its place taken down."""
        self._lingering.pop(work.assigned.run_id, None)
        self._workplaces.restore_git_links(work.workplace)
        if work.assigned.purpose != Purpose.WORK:
            self._workplaces.remove(work.workplace.task_id, is_kept=False)
        elif after is not None and after.is_terminal:
            self._workplaces.remove(after.id)
        elif after is not None and after.claim is not None and after.claim.run_ended == How.EXITED:
            settle = partial(self._resolve_stop, after, work.workplace)
            self._floor.run_in_background(after.id, settle, work.assigned.member, is_long=True)

    # ---------------------------------------------------------------------------------------- going on

    def _continue_task(self, task: Task) -> None:
        """The next step of a task that an agent of ours holds and nobody is at work on."""
        claim = task.claim
        is_ours = claim is not None and claim.runner == self._session
        if claim is None or not is_ours or task.runs or task.claims.waiting_for or _is_held(task):
            return
        member = self._member(claim.agent)
        if self._floor.is_busy(task.id):
            self._renew_if_due(task, self._renewal_time())
            return
        if member is None or not self._may_start(member) or not self._may_work(task.id):
            return
        if claim.run_ended == How.EXITED:
            settle = partial(self._resolve_earlier_stop, task, claim.base)
            self._floor.run_in_background(task.id, settle, member, is_long=True)
        else:
            self._start_further_run(task, member, Purpose.WORK)

    def _resolve_earlier_stop(self, task: Task, start: str) -> None:
        """Answers a stop that an earlier scheduler heard and did not answer, or that could not be answered then."""
        is_confined = self._tier != "plain"
        try:
            place = self._workplaces.prepare(
                task.id, task.branch or task_branch(task), start, is_confined=is_confined
            )
        except CannotRun as fault:
            self._restart_with_note(task, self._settling.send_back_for_git_fault(task, fault))
        else:
            self._resolve_stop(task, place)

    def _resolve_stop(self, task: Task, workplace: TaskWorktree) -> None:
        self._restart_with_note(task, self._settling.resolve(task, workplace))

    def _restart_with_note(self, task: Task, note: str | None) -> None:
        """Starts the agent again with what it is to be told, if there is anything."""
        member = self._member(task.claim.agent) if task.claim else None
        current = self._books.task(task.id)
        if note is None or member is None or current is None or self._is_stopping:
            return
        self._gates = self._books.broken_gates()
        if self._floor.may_start(member) and self._may_work(task.id):
            self._start_further_run(current, member, Purpose.WORK, note)

    def _start_opinions(self, purpose: Purpose, choose: ChooseMember, among: Among) -> None:
        """Asks reviewers or directors that are agents about what waits for them."""
        for task in self._tasks_of_status(_WANTED_STATUS[purpose], among):
            if task.runs or self._floor.is_busy(task.id) or self._is_backing_off(task):
                continue
            member = choose(task, self._floor.load)
            if member is not None and self._may_start(member):
                self._start_further_run(task, member, purpose)

    def _start_further_run(self, task: Task, member: Member, purpose: Purpose, note: str = "") -> None:
        """Begins a further run on a task."""
        run_id = self._books.new_run_id()
        answer = self._books.ask(
            c.StartRun(task_id=task.id, agent=member.name, run_id=run_id, purpose=purpose, tier=self._tier)
        )
        after = accepted_task(answer)
        if after is not None:
            self._floor.start_run(
                RunAssignment(run_id=run_id, task=after, member=member, purpose=purpose, note=note)
            )

    # ---------------------------------------------------------------------------------------- new work

    def _assign_tasks(self) -> None:
        """Gives free agents the tasks that are next for them, one each: those first that can take on most, in turn."""
        rules = self._books.rules
        limit = max_waiting_reviews(rules.team, rules.policy.max_waiting_reviews)
        waiting = self._books.waiting_for_review()
        load = self._floor.load
        self._room = limit - waiting - load.total
        if waiting >= limit:
            self._hindrance = f"{format_count(waiting, 'submission')} {'awaits' if waiting == 1 else 'await'} review (limit {limit}); no new work starts until some are reviewed"
        free = [one for one in rotate_after(startable_workers(rules.team), self._last) if load.has_room(one)]
        free = sorted(filter(self._may_start, free), key=load.room, reverse=True)
        line = CandidateTasks(filter(self._may_assign, self._candidate_tasks()) if free else iter(()))
        for member in free:
            if line.is_empty:
                return
            if self._floor.has_max_starting:
                self.has_begun = True
                return
            if not self._may_work():
                return
            if not self._may_start(member):
                continue
            self._assign_first(member, line)

    def _assign_first(self, member: Member, line: CandidateTasks) -> None:
        """Gives a member the first task that it may have: the queue does not know all that the rules do."""
        actor = self._books.rules.team.actor(member.name)
        while (task := line.take(actor, has_team=True)) is not None:
            if self._assign_task(member, task):
                return
        first = self._books.first_for(actor, has_team=True) if line.has_more else None
        if first is not None and self._may_assign(first):
            self._assign_task(member, first)

    def _candidate_tasks(self) -> Iterator[Task]:
        """The tasks that wait; of those that are new, which come last, none when too much waits for review."""
        for task in self._books.ready_tasks():
            if self._room <= 0 and task.status == Status.INCOMING:
                return
            yield task

    def _assign_task(self, member: Member, task: Task) -> bool:
        if self._room <= 0 and task.status == Status.INCOMING:
            return False
        run_id = self._books.new_run_id()
        answer = self._books.ask(
            c.AssignTask(agent=member.name, run_id=run_id, task_id=task.id, tier=self._tier)
        )
        if isinstance(answer, Refused):
            return False
        self._last, self.has_begun = member.name, True
        self._room -= 1
        self._floor.start_run(
            RunAssignment(run_id=run_id, task=answer.task, member=member, purpose=Purpose.WORK)
        )
        return True

    def _may_assign(self, task: Task) -> bool:
        return not task.runs and not self._floor.is_taken(task.id) and not self._is_backing_off(task)

    def _is_backing_off(self, task: Task) -> bool:
        """True for a while after runs of the task have failed, each time longer."""
        if not task.spent.failures:
            return False
        seconds = BACKOFF_SECONDS * 2 ** min(task.spent.failures - 1, 6)
        return add_seconds(task.spent.last_fault, seconds) > self._books.now()

    def _may_start(self, member: Member) -> bool:
        """False while something is wrong with what the member needs; that is said instead."""
        if self._floor.may_start(member):
            return True
        self._hindrance = "; ".join(breach.message for breach in self._floor.breaker.breaches)
        return False

    def _may_work(self, task_id: str = "") -> bool:
        """False while the user is asked about a broken gate; while one is on trial, True for one task at a time.

        A done claim may need every gate, whatever it changes. Reviews go on: they need none.
        """
        if self._gates.open_questions:
            return False
        return not self._gates.is_on_trial or not self._floor.has_other_workers(task_id)

    @property
    def is_held(self) -> bool:
        """True while nothing is started because of a broken gate."""
        return bool(self._gates.open_questions)

    def _member(self, name: str) -> Member | None:
        """The member of a name, as far as it can be started."""
        members = self._books.rules.team.members
        return next((one for one in members if one.command and name in (one.name, *one.aliases)), None)


def _is_held(task: Task) -> bool:
    """True while somebody has to settle what the integrity gate found."""
    return bool(open_findings(task))
