"""How a run ends: what it cost, whose fault it was if it was one, and what it said."""

from __future__ import annotations

from collections.abc import Callable

from remand.app.asking import Accepted
from remand.app.scheduling.beginning import UnderWay
from remand.app.scheduling.books import Books, taken
from remand.app.scheduling.ports import CannotRun, Ended, Hosts, Told, Workplaces
from remand.app.scheduling.signs import seconds_lost
from remand.domain import commands as c
from remand.domain.assigning import told
from remand.domain.events import How, Purpose, RunEnded
from remand.domain.instant import Instant
from remand.domain.runs import Run
from remand.domain.task import Task
from remand.domain.visible import visible

MAX_DETAIL = 500

Opinion = Callable[[UnderWay, Told], str]
"""Makes a reviewer's or director's words count; gives why they do not, should that be so."""


class Ending:
    """Notes ends in the ledger. What follows from them the ledger decides."""

    def __init__(self, books: Books, workplaces: Workplaces, hosts: Hosts, opinion: Opinion) -> None:
        self._books = books
        self._workplaces = workplaces
        self._hosts = hosts
        self._opinion = opinion

    def end(self, work: UnderWay, ended: Ended) -> tuple[Task | None, str]:
        """Notes the end of a run; gives the task after it, and how the run failed if it did, in words."""
        said = self._hosts.told(work.assigned.member.command, ended.output, ended.status)
        is_work = work.assigned.purpose == Purpose.WORK
        unheard = "" if is_work or not _is_whole(ended, said) else self._opinion(work, said)
        is_answered = not is_work and _is_whole(ended, said) and not unheard
        ask = c.EndRun(
            task_id=work.assigned.task.id,
            run_id=work.assigned.run_id,
            how=How.EXHAUSTED if said.is_exhausted else How(ended.how),
            status=ended.status,
            seconds=round(ended.seconds, 3),
            turns=said.turns,
            tokens=said.tokens,
            cost=said.cost,
            detail=unheard[:MAX_DETAIL] or _detail(ended, said),
            has_work=is_work and self._has_work(work),
            is_answered=is_answered,
            is_systems=work.assigned.is_trial and not is_answered and not _is_clean(ended, said),
        )
        answer = self._books.ask(ask)
        events = answer.events if isinstance(answer, Accepted) else ()
        has_failed = [one for one in events if isinstance(one, RunEnded) and (one.is_fault or ask.is_systems)]
        fault = told(has_failed[0]) if has_failed else ""
        return taken(answer), fault

    def never_began(self, task_id: str, run_id: str, fault: CannotRun, *, is_systems: bool) -> None:
        """Notes that a run could not be begun."""
        self._books.ask(
            c.EndRun(
                task_id=task_id,
                run_id=run_id,
                how=How.NOT_STARTED,
                detail=str(fault)[:MAX_DETAIL],
                is_systems=is_systems,
            )
        )

    def lost(self, task_id: str, run: Run, sign: Instant, longest: float) -> None:
        """Notes that a run ended with the scheduler that had begun it, some time after its last sign of life."""
        seconds = seconds_lost(run, sign, self._books.now(), longest)
        self._books.ask(c.EndRun(task_id=task_id, run_id=run.id, how=How.LOST, seconds=seconds))

    def _has_work(self, work: UnderWay) -> bool:
        try:
            look = self._workplaces.look(work.workplace)
        except CannotRun:
            return False
        claim = work.assigned.task.claim
        return bool(look.uncommitted) or bool(look.head and claim and look.head != claim.base)


def _is_whole(ended: Ended, told: Told) -> bool:
    return ended.how == How.EXITED and not told.is_exhausted and not told.error


def _is_clean(ended: Ended, told: Told) -> bool:
    return _is_whole(ended, told) and not ended.status


def _detail(ended: Ended, told: Told) -> str:
    """The last thing that was said of what went wrong; nothing when nothing did."""
    if ended.how == How.EXITED and not ended.status and not told.error:
        return ""
    lines = visible(told.error or ended.errors or ended.output).strip().splitlines()
    return lines[-1][:MAX_DETAIL] if lines else ""
