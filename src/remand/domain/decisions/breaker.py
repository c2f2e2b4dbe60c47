"""The circuit breaker: tells when failures are the system's, a program's or a member's, and stops new runs for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from remand.domain.access.team import Member
from remand.domain.evidence.programs import find_program
from remand.domain.record import NamedTuple, Record

BREAKER_THRESHOLD = 3
MEMBER_THRESHOLD = 2
FIRST_SECONDS = 30.0
LONGEST_SECONDS = 900.0


class Breach(NamedTuple):
    """What is wrong, since when, and when one run is let through to try."""

    scope: str
    message: str
    since: float
    until: float
    is_tried: bool = False
    """One run is on its way to find out."""
    seconds: float = FIRST_SECONDS


class BreakerSnapshot(Record, kw_only=True):
    failing: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    """By scope the tasks that failed, each with the member whose run failed last."""
    breaches: tuple[Breach, ...] = ()


class FailureScope(NamedTuple):
    """What a failure is charged to, and how much it takes to believe it."""

    scope: str
    tasks: int = BREAKER_THRESHOLD
    """How many different tasks have to fail with nothing that succeeds between."""
    members: int = 1
    """How many different members have to fail."""


class Breaker:
    """Counts failures by scope: a program, the disk, git. Times are any clock's seconds, and only compared.

    Several threads may use it: each step is one look at, or one change of, a table.
    """

    def __init__(self) -> None:
        self._failing: dict[str, dict[str, str]] = {}
        self._open: dict[str, Breach] = {}

    def allows(self, *scopes: str, now: float) -> bool:
        """True when no known fault prevents a run."""
        return all(now >= self._open[scope].until for scope in scopes if scope in self._open)

    def record_start(self, *scopes: str, now: float) -> None:
        """Records that a run starts; of a scope that is open, it is the one that finds out.

        Should it end without having found out anything, another is let through after the same while.
        """
        for scope in scopes:
            breach = self._open.get(scope)
            if breach is not None:
                self._open[scope] = breach._replace(is_tried=True, until=now + breach.seconds)

    def record_failure(
        self,
        charged: FailureScope | str,
        task_id: str,
        message: str,
        *,
        now: float,
        member: str = "",
        is_certain: bool = False,
    ) -> bool:
        """Records a failure; True when that opens the breaker. A certain one needs no second."""
        scope, tasks, members = charged if isinstance(charged, FailureScope) else FailureScope(charged)
        failing = self._failing.setdefault(scope, {})
        failing[task_id] = member
        before = self._open.get(scope)
        is_enough = len(failing) >= tasks and len(set(failing.values())) >= members
        if before is None and not is_certain and not is_enough:
            return False
        seconds = min(before.seconds * 2, LONGEST_SECONDS) if before and before.is_tried else FIRST_SECONDS
        since = before.since if before else now
        self._open[scope] = Breach(scope, message, since, now + seconds, seconds=seconds)
        return before is None

    def record_success(self, *scopes: str) -> None:
        """Records a success: what was wrong is not wrong any more."""
        for scope in scopes:
            self._failing.pop(scope, None)
            self._open.pop(scope, None)

    def keep_only(self, scopes: Collection[str]) -> None:
        """Forgets every other scope: nobody on the team uses that program any more."""
        for known in (self._failing, self._open):
            for scope in [one for one in known if one not in scopes]:
                known.pop(scope, None)

    def is_open(self, *scopes: str) -> bool:
        """True when a fault is known: a run that starts all the same is let through to try."""
        return any(scope in self._open for scope in scopes)

    @property
    def is_closed(self) -> bool:
        """True when no fault is known."""
        return not self._open

    def snapshot(self) -> BreakerSnapshot:
        """All it knows, for the next to continue with."""
        failing = {scope: dict(tasks) for scope, tasks in list(self._failing.items())}
        return BreakerSnapshot(failing=failing, breaches=self.breaches)

    def restore(self, kept: BreakerSnapshot, *, now: float) -> None:
        """Restores what another breaker saved. Impossible times, as after a restart of the machine, are left out."""
        self._failing = {scope: dict(tasks) for scope, tasks in kept.failing.items()}
        for breach in kept.breaches:
            if breach.since <= now and breach.until <= now + LONGEST_SECONDS:
                self._open[breach.scope] = breach._replace(is_tried=False)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """What is wrong now, the oldest first."""
        found = list(self._open.values())
        return tuple(sorted(found, key=lambda breach: breach.since))


SYSTEM_CAUSES = ("disk", "sandbox", "socket")
"""Causes that are the system's beyond doubt: no second task has to fail to know."""


def program_scope(member: Member) -> str:
    """What a program's own failures are charged to, whatever the member's command starts it by."""
    return f"command {find_program(member.command)}"


def run_scope(member: Member) -> str:
    """What failed runs are charged to that say nothing of the program: others use it, too, or do the same work."""
    return f"runs of {member.name}"


def charge_run(member: Member, workers: Iterable[Member]) -> tuple[FailureScope, ...]:
    """What a failed run is charged to.

    Where others can be started, a member is set aside before it fails more of what they could do; and a program that
    one of them uses, too, is blamed only once it has failed for two members.
    """
    program = program_scope(member)
    others = [one for one in workers if one.name != member.name]
    if not others:
        return (FailureScope(program),)
    is_shared = any(program_scope(one) == program for one in others)
    return (
        FailureScope(program, members=2 if is_shared else 1),
        FailureScope(run_scope(member), tasks=MEMBER_THRESHOLD),
    )


def failure_scope(cause: str, member: Member) -> str:
    """What a failure is charged to: the machine, or a program, or else nobody but the one whose work it was.

    What an agent leaves behind can be in git's or the gates' way. No other has to wait for that.
    """
    if cause in SYSTEM_CAUSES:
        return cause
    return f"program {member.command[0]}" if cause == "program" else f"{cause} of {member.name}"


def own_scopes(member: Member) -> tuple[str, ...]:
    """The scopes whose failures keep this member from being started, and not everybody."""
    causes = ("program", "git", "gates", "system")
    return (program_scope(member), run_scope(member), *(failure_scope(cause, member) for cause in causes))


def member_scopes(member: Member) -> tuple[str, ...]:
    """Every scope whose failures keep the member from being started."""
    return (*own_scopes(member), *SYSTEM_CAUSES)


def unstartable_members(
    members: Iterable[Member], faults: Mapping[str, str], missing: Collection[str]
) -> dict[str, str]:
    """The members that cannot be started, and why: by the open scopes, and by the programs that were not found."""
    found = {}
    for member in members:
        if not member.command:
            continue
        faulty = [faults[scope] for scope in own_scopes(member) if scope in faults]
        if member.command[0] in missing:
            faulty.insert(0, f"its program `{member.command[0]}` was not found")
        if faulty:
            found[member.name] = faulty[0]
    return found
