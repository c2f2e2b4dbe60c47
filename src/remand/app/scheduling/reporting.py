"""How the scheduler is doing, written down for whoever looks on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from remand.app.scheduling.beginning import UnderWay
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.loop import Chore, Loop
from remand.app.scheduling.ports import Crew, KeptFile, Logs
from remand.app.scheduling.status import AgentAtWork, Measurement, SchedulerStatus, ToldBreach, written
from remand.domain.instant import Instant, plus

FRESH_SECONDS = 10.0
"""How old a status gets at most before it is written again, although nothing in it has changed."""


class Reporting:
    """Writes the status when it has changed, and now and then."""

    def __init__(
        self,
        *,
        floor: Floor,
        crew: Crew,
        loop: Loop,
        logs: Logs,
        file: KeptFile,
        now: Callable[[], Instant],
        pid: int,
    ) -> None:
        self._floor = floor
        self._crew = crew
        self._loop = loop
        self._logs = logs
        self._file = file
        self._now = now
        self._pid = pid
        self._started_at = now()
        self._last: SchedulerStatus | None = None
        self.chores: tuple[Chore, ...] = ()
        """Whose troubles are told."""

    def write(self) -> str:
        """Puts the status where it is looked for; gives what kept it from that."""
        status, last = self._status(), self._last
        is_stale = last is None or plus(last.tick_at, FRESH_SECONDS) < status.tick_at
        if not is_stale and last is not None and replace(status, tick_at=last.tick_at) == last:
            return ""
        self._last = status
        return "" if self._file.write(written(status)) else "the status file cannot be written"

    def _status(self) -> SchedulerStatus:
        now = self._now()
        since = partial(_told, now, self._floor.clock())
        troubles = dict.fromkeys(f"{one.name}: {one.trouble}" for one in self.chores if one.trouble)
        return SchedulerStatus(
            pid=self._pid,
            started_at=self._started_at,
            tick_at=now,
            tier=self._crew.tier,
            detail=self._crew.detail,
            breaker=tuple(
                ToldBreach(
                    cause=one.scope, message=one.message, since=since(one.since), until=since(one.until)
                )
                for one in self._floor.breaker.breaches
            ),
            waiting=self._loop.kept_from,
            forge="; ".join(troubles),
            agents=tuple(map(self._shown, self._floor.at_work)),
            gates=tuple(
                Measurement(task_id=task, agent=agent, started_at=since(begun))
                for (task, agent), begun in self._floor.measuring.items()
            ),
        )

    def _shown(self, work: UnderWay) -> AgentAtWork:
        run = work.assigned
        return AgentAtWork(
            run_id=run.run_id,
            task_id=run.task.id,
            agent=run.member.name,
            purpose=run.purpose,
            started_at=work.started_at,
            last_line=self._logs.last_line(run.run_id),
        )


def _told(now: Instant, ticking: float, ticked: float) -> Instant:
    """When the scheduler's own clock showed something, to the second: it is told again and again."""
    return f"{plus(now, ticked - ticking)[:19]}.000000Z"
