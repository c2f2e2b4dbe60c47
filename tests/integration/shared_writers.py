"""Processes that write to one ledger in PostgreSQL at once, whatever the ledger allows. Run as a script:

    shared_writers.py FOLDER DATABASE JOURNALS SEED WRITERS COMMANDS

Each asks every command that people, agents and the scheduler ask, at random, until it has asked so many; with 0 until the
file `stop` is in JOURNALS. What it asked and was answered is written to its journal. Should the database be away for
longer than the ledger waits, it repeats the command under its key.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from remand.app.errors import EnvironmentFault
from remand.app.requests import Acceptance, Answer, Request
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.events.reviews import Finding
from remand.domain.events.work import How, Purpose
from remand.domain.forge import ForgeAction
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict
from remand.domain.ids import make_id
from remand.domain.task import Status, Task
from remand.wiring.ledger import find_place, open_at
from tests.support.rejection_records import a_rejection

AGENTS = ("Alice", "Bob", "Carol", "Dave")
REASONS = ("BLOCKER", "SCOPE_CREEP", "INFEASIBLE", "UNCLEAR_REQUIREMENTS")
DECISIONS = ("OVERRIDE", "ACCEPT_AND_DEFER", "ACCEPT_AND_CANCEL", "REASSIGN")
ALIASES = tuple(f"#{number}" for number in range(1, 30))
COMMITS = tuple(f"work-{number}" for number in range(200))
"""Branches with a commit each: no two tasks may have the same work approved."""
FIRST = 3
"""How many tasks each adds before anything else."""
COORDINATOR = THE_COORDINATOR.name
Ask = tuple[c.Command, str]


class Writer:
    """One process; what it asks follows from its seed, and from what it finds."""

    def __init__(self, folder: str, database: str, seed: str) -> None:
        self.opened = open_at(find_place(folder), "", database)
        self._ledger = self.opened.ledger
        self._chance = random.Random(seed)
        self._commits = self._ledger.repository.commit("HEAD")
        self._tasks: list[Task] = []
        self._number = 0
        self._seed = seed
        self._kinds: list[Callable[[], Ask]] = [
            *[self._add] * 4,
            *[self._claim] * 6,
            *[self._submit] * 5,
            *[self._review] * 4,
            *[self._give_back] * 2,
            *[self._edit, self._link, self._link] * 2,
            *[self._hand_over, self._answer_handoff, self._answer_handoff, self._reject] * 2,
            *(self._decide, self._escalate, self._answer, self._lock_out, self._unlock, self._retract),
            *(self._reassign, self._end, self._sleep, self._judge, self._run, self._feedback),
        ]
        rare = [
            *(self._assign, self._appeal, self._advise, self._request_review, self._comment, self._import),
            *(self._note_review, self._note_merge, self._retract_answer, self._acknowledge, self._repeat),
            *(self._deliver, self._override, self._settle_finding, self._dismiss, self._note_measured),
            *(self._note_session, self._stop_idly, self._plan_action, self._record_action, self._fail_action),
            *(self._expire, self._wake, self._settle, self._check_staff),
        ]
        self._chance.shuffle(rare)
        self._rare = cycle(rare)

    def next(self) -> tuple[str, c.Command, str]:
        """The next command, with its key and who asks it."""
        if self._number % 4 == 0:
            with self._ledger.store.read() as view:
                self._tasks = list(view.tasks.every())
        self._number += 1
        if self._number <= FIRST:
            kind = self._add
        else:
            kind = next(self._rare) if self._number % 3 == 0 else self._chance.choice(self._kinds)
        ask, by = kind()
        return f"{self._seed}-{self._number}", ask, by

    def ask(self, key: str, ask: c.Command, by: str) -> Answer:
        """What is answered to a command."""
        if by == COORDINATOR:
            return self._ledger.ask_as(THE_COORDINATOR, ask, key)
        return self._ledger.ask(Request(command=ask, actor=by, key=key))

    # What is asked.

    def _task(self, *statuses: Status) -> Task | None:
        wanted = [task for task in self._tasks if task.status in statuses] or self._tasks
        return self._chance.choice(wanted[-40:]) if wanted else None

    def _name(self, *statuses: Status) -> str:
        task = self._task(*statuses)
        return task.id if task else "T-none"

    def _held(self) -> tuple[str, str, str]:
        """A task that somebody works on, who, and under which claim."""
        task = self._task(Status.CLAIMED)
        if task is None or task.claim is None:
            return (task.id if task else "T-none"), self._chance.choice(AGENTS), ""
        return task.id, task.claim.agent, task.claim.handoff_id

    def _add(self) -> Ask:
        aliases = (self._chance.choice(ALIASES),) if self._chance.random() < 0.5 else ()
        depends_on = (self._name(),) if self._tasks and self._chance.random() < 0.3 else ()
        return c.AddTask(
            title=f"Task {self._seed} {self._number}", aliases=aliases, depends_on=depends_on
        ), "user"

    def _claim(self) -> Ask:
        agent = self._chance.choice(AGENTS)
        name = self._name(Status.INCOMING, Status.REJECTED) if self._chance.random() < 0.5 else ""
        return c.ClaimTask(agent=agent, task_id=name), agent

    def _submit(self) -> Ask:
        task, agent, _ = self._held()
        return c.SubmitTask(task_id=task, agent=agent, commit=self._chance.choice(COMMITS)), agent

    def _review(self) -> Ask:
        task, by = self._task(Status.PROVISIONAL), self._chance.choice(("Lea", "Tess", "user", "user"))
        name, commit = (task.id, task.submission and task.submission.commit) if task else ("T-none", "")
        if self._chance.random() < 0.6:
            return c.ApproveReview(task_id=name, commit=commit or "HEAD"), by
        finding = Finding(text="It leaks.", path="work.txt", line=1)
        return c.RejectReview(task_id=name, commit=commit or "HEAD", findings=(finding,)), by

    def _give_back(self) -> Ask:
        task, agent, _ = self._held()
        kind = self._chance.choice((c.ReleaseTask, c.ContinueTask, c.WaitTask, c.FailTask, c.Heartbeat))
        return kind(task_id=task, agent=agent, reason="enough"), agent

    def _edit(self) -> Ask:
        aliases = (self._chance.choice(ALIASES),)
        return c.EditTask(task_id=self._name(), aliases=aliases, priority="high"), "user"

    def _link(self) -> Ask:
        one, other = self._name(), self._name()
        if self._chance.random() < 0.3:
            return c.EditTask(task_id=one, drop_depends_on=(other,)), "user"
        return c.EditTask(task_id=one, depends_on=(other,)), "user"

    def _hand_over(self) -> Ask:
        return c.InitiateHandoff(task_id=self._name(), target=self._chance.choice(AGENTS)), "Dir"

    def _answer_handoff(self) -> Ask:
        offered = [offer for task in self._tasks for offer in task.claims.offers]
        if not offered:
            return self._claim()
        offer = self._chance.choice(offered)
        if self._chance.random() < 0.7:
            return c.AcceptHandoff(handoff_id=offer.handoff_id, agent=offer.target), offer.target
        return c.CompleteHandoff(handoff_id=offer.handoff_id, agent=offer.target, commit="HEAD"), offer.target

    def _reject(self) -> Ask:
        _, agent, handoff = self._held()
        record = (
            a_rejection(self._chance.choice(REASONS))
            if self._chance.random() < 0.7
            else {"reason_type": "BLOCKER"}
        )
        return c.RejectHandoff(handoff_id=handoff or "H-none", agent=agent, rejection=record), agent

    def _decide(self) -> Ask:
        filed = [task.rejections.last_rejection for task in self._tasks if task.rejections.last_rejection]
        if not filed:
            return self._reject()
        handoff = self._chance.choice(filed).handoff_id
        return c.AnswerRejection(
            handoff_id=handoff, decision=self._chance.choice(DECISIONS), rationale="So be it"
        ), "Dir"

    def _escalate(self) -> Ask:
        return c.EscalateTask(task_id=self._name(), reason="What now?"), "user"

    def _answer(self) -> Ask:
        option = self._chance.choice(("reopen", "wontfix", "fix", f"reassign:{self._chance.choice(AGENTS)}"))
        return c.AnswerEscalation(task_id=self._name(Status.ESCALATED), option=option), "user"

    def _lock_out(self) -> Ask:
        return c.LockOut(task_id=self._name(), agent=self._chance.choice(AGENTS), reason="Because"), "user"

    def _unlock(self) -> Ask:
        return c.Unlock(
            task_id=self._name(Status.REJECTED), agent=self._chance.choice(AGENTS), reason="Because"
        ), "user"

    def _retract(self) -> Ask:
        return c.RetractReview(task_id=self._name(Status.REJECTED), reason="I was wrong"), "user"

    def _reassign(self) -> Ask:
        return c.ReassignTask(task_id=self._name(Status.REJECTED), target=self._chance.choice(AGENTS)), "user"

    def _end(self) -> Ask:
        if self._chance.random() < 0.5:
            return c.CancelTask(task_id=self._name(), reason="not needed"), "user"
        return c.ReopenTask(task_id=self._name(Status.FAILED, Status.BLOCKED, Status.DEFERRED)), "user"

    def _sleep(self) -> Ask:
        return c.DeferTask(task_id=self._name(), waits_for=(self._name(),)), "user"

    def _judge(self) -> Ask:
        task, agent, handoff = self._held()
        status = self._chance.choice((GateStatus.PASSED, GateStatus.FAILED, GateStatus.ERRORED))
        verdict = self._verdict(status)
        return c.RecordVerdict(task_id=task, agent=agent, handoff_id=handoff, verdict=verdict), COORDINATOR

    def _verdict(self, status: GateStatus) -> Verdict:
        commit = self._commits
        return Verdict(
            status=status,
            commit=commit.sha if commit else "",
            tree=commit.tree if commit else "",
            gates=(GateResult(name="tests", status=status),),
        )

    def _run(self) -> Ask:
        going = [(task, run) for task in self._tasks for run in task.runs]
        if going and self._chance.random() < 0.6:
            task, run = self._chance.choice(going)
            ask: c.Command = c.EndRun(task_id=task.id, run_id=run.id, how=How.EXITED)
        else:
            name, agent, _ = self._held()
            run_id = self._run_id()
            ask = c.StartRun(task_id=name, agent=agent, run_id=run_id, purpose=Purpose.WORK)
        return ask, COORDINATOR

    def _run_id(self) -> str:
        return make_id("RUN", self._ledger.clock.now(), f"{self._chance.getrandbits(32):08x}")

    def _feedback(self) -> Ask:
        task, agent, _ = self._held()
        return c.FetchFeedback(task_id=task, agent=agent), agent

    # What is asked seldom, by turns.

    def _assign(self) -> Ask:
        name = self._name(Status.INCOMING, Status.REJECTED) if self._chance.random() < 0.5 else ""
        run_id = self._run_id()
        return c.AssignTask(agent=self._chance.choice(AGENTS), run_id=run_id, task_id=name), COORDINATOR

    def _rejected(self) -> tuple[str, str]:
        """A handoff that its agent rejected, and the agent."""
        filed = [task.rejections.last_rejection for task in self._tasks if task.rejections.last_rejection]
        found = self._chance.choice(filed) if filed else None
        return (found.handoff_id, found.agent) if found else ("H-none", self._chance.choice(AGENTS))

    def _appeal(self) -> Ask:
        handoff, agent = self._rejected()
        return c.AppealRejection(handoff_id=handoff, agent=agent, reason="It cannot be done"), agent

    def _advise(self) -> Ask:
        return c.GiveOpinion(handoff_id=self._rejected()[0], opinion="It stands"), COORDINATOR

    def _request_review(self) -> Ask:
        return c.RequestReview(task_id=self._name(Status.PROVISIONAL), reviewer="Lea"), "user"

    def _submitted(self) -> tuple[str, str, str, str]:
        """A task with work of somebody: its id, its commit, the code tree, and the handoff."""
        task = self._task(Status.PROVISIONAL)
        work = task.submission if task else None
        return (
            (task.id, work.commit, work.tree, work.handoff_id)
            if task and work
            else ("T-none", "HEAD", "", "")
        )

    def _comment(self) -> Ask:
        task, _, tree, handoff = self._submitted()
        said = (Finding(text="A nit.", path="work.txt", line=1, is_blocking=False),)
        return c.AddComments(
            task_id=task, handoff_id=handoff, tree=tree, findings=said, source=self._source()
        ), "Lea"

    def _source(self) -> str:
        """One of a few reviews on the forge, so that writers bring in the same."""
        return f"forge:review:{self._chance.randrange(200)}"

    def _import(self) -> Ask:
        issue = self._chance.randrange(1, 200)
        source, opened = f"forge:issue:{issue}", "2026-11-15T09:00:00.000000Z"
        return c.ImportIssue(
            title=f"Issue {issue}", issue=issue, source=source, opened_at=opened
        ), COORDINATOR

    def _note_review(self) -> Ask:
        return c.NoteReview(
            task_id=self._name(), reviewer="Eve", source=self._source(), why="unknown"
        ), COORDINATOR

    def _note_merge(self) -> Ask:
        task, commit, _, _ = self._submitted()
        return c.NoteMerge(
            task_id=task, by="Eve", commit=commit, why="unknown", source=self._source()
        ), COORDINATOR

    def _retract_answer(self) -> Ask:
        return c.RetractAnswer(task_id=self._name(), reason="I was wrong"), "user"

    def _acknowledge(self) -> Ask:
        return c.AcknowledgeEscalation(task_id=self._name(Status.ESCALATED)), "user"

    def _repeat(self) -> Ask:
        return c.RepeatEscalation(task_id=self._name(Status.ESCALATED)), COORDINATOR

    def _deliver(self) -> Ask:
        task = self._task(Status.ESCALATED)
        asked = task.inbox.escalation if task else None
        name, about = (task.id, asked.id if asked else "none") if task else ("T-none", "none")
        return c.NoteDelivery(task_id=name, escalation_id=about, channel="mail"), COORDINATOR

    def _override(self) -> Ask:
        return c.OverrideGate(task_id=self._held()[0], gate="tests", reason="I looked"), "user"

    def _settle_finding(self) -> Ask:
        return c.SettleFinding(task_id=self._held()[0], finding="f1", is_accepted=True), "Lea"

    def _dismiss(self) -> Ask:
        return c.DismissObjections(task_id=self._name(), reason="a stranger"), "user"

    def _note_measured(self) -> Ask:
        return c.NoteGatesMeasured(task_id=self._name(), gates=("tests",)), COORDINATOR

    def _note_session(self) -> Ask:
        return c.RecordSessionVerdict(
            task_id=self._name(), verdict=self._verdict(GateStatus.PASSED)
        ), COORDINATOR

    def _stop_idly(self) -> Ask:
        task, _, handoff = self._held()
        return c.CountIdleStop(task_id=task, handoff_id=handoff, key=f"stop {self._number}"), COORDINATOR

    def _plan_action(self) -> Ask:
        return c.PlanForgeAction(task_id=self._name(), act=self._action(), about=self._source()), COORDINATOR

    def _record_action(self) -> Ask:
        return c.RecordForgeAction(task_id=self._name(), act=self._action(), pr=self._number), COORDINATOR

    def _fail_action(self) -> Ask:
        return c.RecordForgeActionFailure(task_id=self._name(), act=self._action(), why="away"), COORDINATOR

    def _action(self) -> ForgeAction:
        return self._chance.choice(list(ForgeAction))

    def _expire(self) -> Ask:
        return c.ExpireLease(task_id=self._held()[0]), COORDINATOR

    def _wake(self) -> Ask:
        return c.WakeTask(task_id=self._name(Status.DEFERRED)), COORDINATOR

    def _settle(self) -> Ask:
        return c.SettleTask(task_id=self._name(Status.DECOMPOSED)), COORDINATOR

    def _check_staff(self) -> Ask:
        return c.CheckStaff(task_id=self._name(Status.REJECTED)), COORDINATOR


def patiently(do: Callable[[], Any]) -> Any:
    """Does something, again and again while the database is away."""
    deadline = time.monotonic() + 600
    while True:
        try:
            return do()
        except EnvironmentFault:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def write(writer: Writer, journals: str, number: int, commands: int) -> None:
    """Asks so many commands, or until it is told to stop."""
    stop = os.path.join(journals, "stop")
    with open(os.path.join(journals, f"{number}.jsonl"), "a", encoding="utf-8", buffering=1) as journal:
        asked = 0
        while asked < commands if commands else not os.path.exists(stop):
            key, ask, by = patiently(writer.next)
            journal.write(json.dumps({"key": key, "ask": type(ask).__name__}) + "\n")
            answer = patiently(lambda args=(key, ask, by): writer.ask(*args))
            is_done = isinstance(answer, Acceptance)
            row = {"events": [one.meta.id for one in answer.events]} if is_done else {"refused": answer.code}
            journal.write(json.dumps({"key": key, "ask": type(ask).__name__, **row}) + "\n")
            asked += 1


def start(arguments: Sequence[str], number: int) -> None:
    """One process."""
    folder, database, journals, seed, _, commands = arguments
    writer = patiently(lambda: Writer(folder, database, f"{seed}-{number}"))
    write(writer, journals, number, int(commands))


def main(arguments: Sequence[str]) -> int:
    """Starts the processes and waits for them; 1 when one of them failed."""
    fork = multiprocessing.get_context("fork")
    started = [fork.Process(target=start, args=(arguments, number)) for number in range(int(arguments[4]))]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return int(any(process.exitcode for process in started))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
