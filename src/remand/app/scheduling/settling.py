"""The end of a run that still holds its task is a stop, and answered as one: measured, or sent back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from remand.app.scheduling.books import Books
from remand.app.scheduling.ports import CannotRun, Claims, Look, Workplace, Workplaces
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.gates.verdict import unstarted
from remand.domain.task import Claim, Status, Task

IDLE_RUNS = 3
SUBMISSIONS = 2
"""How often work is submitted that cannot be."""
MAX_NAMED = 10
LETS_GO = ("gate_held", "gate_errored")
"""Answers to a done claim after which the agent is not started again."""
_BEGINS_ANEW = (e.TaskClaimed, e.HandoffAccepted, e.GatePassed, e.GateRejected, e.GateHeld, e.GateErrored)


class Settling:
    """Answers stops by what is in the workplace. How often an agent stopped with nothing to show stands in the ledger."""

    def __init__(
        self,
        books: Books,
        workplaces: Workplaces,
        claims: Claims,
        measured: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._books = books
        self._workplaces = workplaces
        self._claims = claims
        self._measured = measured
        """Told whose work was measured, whatever came of it."""
        self._faults: Counter[str] = Counter()
        """How often in a row a task's work could not be submitted."""
        self._is_closed = False

    def settle(self, task: Task, workplace: Workplace) -> str | None:
        """What the agent is to be told in its next run; None when there is to be none now."""
        claim = task.claim
        if claim is None or task.status != Status.CLAIMED or task.waiting_for:
            return None
        try:
            look = self._workplaces.look(workplace)
            if look.uncommitted:
                return self._sent_back(task, _commit_it(look))
            if not look.head or look.head == claim.base:
                return self._sent_back(
                    task, "You stopped, and there is no commit of yours on the branch yet."
                )
            commit = self._workplaces.bring(workplace)
        except CannotRun as fault:
            return self.untaken(task, fault)
        if _is_rejected_already(self._books.events(task.id), commit):
            return ""
        try:
            answer = self._claims.submit(workplace, claim.agent, commit)
        except CannotRun as fault:
            self._note_unmeasured(task, claim, commit, fault)
            return None
        self._faults.pop(task.id, None)
        self._measured(claim.agent)
        if not answer.refused or answer.refused in LETS_GO:
            return None
        if answer.refused == "gate_rejected":
            return ""
        return self._sent_back(task, answer.message)

    def untaken(self, task: Task, fault: CannotRun) -> str | None:
        """What is in the way may be of the agent's own making: it is told, and no other has to wait for it."""
        if fault.cause != "git":
            raise fault
        return self._sent_back(task, f"Your work cannot be taken: {fault}")

    def _note_unmeasured(self, task: Task, claim: Claim, commit: str, fault: CannotRun) -> None:
        """Notes that nothing could be measured, once that was tried twice; before, and at the end, it is tried again."""
        self._faults[task.id] += 1
        if self._is_closed or self._faults[task.id] < SUBMISSIONS:
            raise fault
        verdict = unstarted(commit, "", str(fault))
        ask = c.RecordVerdict(
            task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id, verdict=verdict
        )
        self._books.ask(ask)

    def close(self) -> None:
        """Answers no more: what is being measured is ended."""
        self._is_closed = True
        self._claims.close()

    def _sent_back(self, task: Task, text: str) -> str | None:
        """Sends the agent back with nothing measured, as long as that makes sense."""
        claim = task.claim
        if claim is None:
            return None
        count = _idle_runs(self._books.events(task.id))
        if count < IDLE_RUNS:
            return text
        why = f"{claim.agent} stopped {count} times with nothing to measure: {text[:300]}"
        self._books.ask(c.OpenEscalation(task_id=task.id, reason=why))
        return None


def _is_rejected_already(story: Sequence[e.Event], commit: str) -> bool:
    """True when the gates have rejected the commit since the last run: that stop is answered, and not counted again."""
    found = (one for one in reversed(story) if isinstance(one, e.GateRejected | e.RunEnded))
    last = next(found, None)
    return isinstance(last, e.GateRejected) and last.verdict.commit == commit


def _idle_runs(story: Sequence[e.Event]) -> int:
    """How many runs have ended since the task was taken, or anything of it was measured."""
    count = 0
    for event in reversed(story):
        if isinstance(event, _BEGINS_ANEW):
            break
        count += isinstance(event, e.RunEnded) and event.how == e.How.EXITED
    return count


def _commit_it(look: Look) -> str:
    names = ", ".join(look.uncommitted[:MAX_NAMED])
    more = len(look.uncommitted) - MAX_NAMED
    return f"You stopped with uncommitted changes: {names}{f' and {more} more' if more > 0 else ''}. Commit them."


def brought(books: Books, workplaces: Workplaces, workplace: Workplace) -> str:
    """Takes over what an agent has committed, as long as the task is its own: what was handed in stays as it is."""
    task = books.task(workplace.task_id)
    if task is None or task.status != Status.CLAIMED:
        raise CannotRun(
            "git", f"Task {workplace.task_id} is not held any more; nothing more is taken over for it."
        )
    return workplaces.bring(workplace)
