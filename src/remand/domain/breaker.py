"""The circuit breaker: when different tasks fail the same way, it is the system that is ill, and nothing is begun."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from remand.domain.record import Record

THRESHOLD = 3
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


class Kept(Record, kw_only=True):
    """What a breaker leaves for the next."""

    failing: dict[str, list[str]] = msgspec.field(default_factory=dict)
    breaches: tuple[Breach, ...] = ()


class Breaker:
    """Counts failures by scope: a program, the disk, git. Times are any clock's seconds, and only compared.

    Several threads may use it: each step is one look at, or one change of, a table.
    """

    def __init__(self, threshold: int = THRESHOLD) -> None:
        self._threshold = threshold
        self._failing: dict[str, set[str]] = {}
        self._open: dict[str, Breach] = {}

    def allows(self, *scopes: str, now: float) -> bool:
        """True when nothing that is known to be wrong stands in the way of a run."""
        return all(_lets_through(self._open.get(scope), now) for scope in scopes)

    def begin(self, *scopes: str, now: float) -> None:
        """Notes that a run is begun; of a scope that is open, it is the one that finds out.

        Should it end without having found out anything, another is let through after the same while.
        """
        for scope in scopes:
            breach = self._open.get(scope)
            if breach is not None:
                self._open[scope] = breach._replace(is_tried=True, until=now + breach.seconds)

    def fail(self, scope: str, task_id: str, message: str, *, now: float, is_certain: bool = False) -> bool:
        """Notes a failure; True when that opens the breaker. A certain one needs no second."""
        failing = self._failing.setdefault(scope, set())
        failing.add(task_id)
        before = self._open.get(scope)
        if before is None and not is_certain and len(failing) < self._threshold:
            return False
        seconds = min(before.seconds * 2, LONGEST_SECONDS) if before and before.is_tried else FIRST_SECONDS
        since = before.since if before else now
        self._open[scope] = Breach(scope, message, since, now + seconds, seconds=seconds)
        return before is None

    def succeed(self, *scopes: str) -> None:
        """Notes that something went well there: what was wrong is not wrong any more."""
        for scope in scopes:
            self._failing.pop(scope, None)
            self._open.pop(scope, None)

    def is_open(self, *scopes: str) -> bool:
        """True when something is known to be wrong: whoever is begun all the same is let through to try."""
        return any(scope in self._open for scope in scopes)

    @property
    def is_closed(self) -> bool:
        """True when nothing at all is known to be wrong."""
        return not self._open

    def kept(self) -> Kept:
        """All it knows, for the next to go on with."""
        failing = {scope: sorted(tasks) for scope, tasks in list(self._failing.items())}
        return Kept(failing=failing, breaches=self.breaches)

    def go_on_with(self, kept: Kept, *, now: float) -> None:
        """Takes up what another has kept. Times that cannot be, as after a restart of the machine, are left out."""
        self._failing = {scope: set(tasks) for scope, tasks in kept.failing.items()}
        for breach in kept.breaches:
            if breach.since <= now and breach.until <= now + LONGEST_SECONDS:
                self._open[breach.scope] = breach._replace(is_tried=False)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """What is wrong now, the oldest first."""
        found = list(self._open.values())
        return tuple(sorted(found, key=lambda breach: breach.since))


def _lets_through(breach: Breach | None, now: float) -> bool:
    return breach is None or now >= breach.until
