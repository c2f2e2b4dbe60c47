"""Checking the log: every line, every chain, and that nothing seen before has gone."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.absorb import problems_in
from remand.app.ports import Clock, Exchange, Marks
from remand.domain.events import Event
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.problems import BadLine, Problem
from remand.ledger.store import Transaction

LEDGER = ".got/ledger.db"


class Verified(Record, kw_only=True):
    """What a check of the log found."""

    events: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems


def verify(tx: Transaction, exchange: Exchange, marks: Marks, clock: Clock) -> Verified:
    """Reads every file and every kept event again."""
    now = clock.now()
    problems = [problem for mark in exchange.files() for problem in problems_in(exchange, mark.path, now)]
    chains = _Chains()
    count = 0
    for line in tx.events.lines():
        count += 1
        problems += chains.check(line)
    problems += chains.behind(marks.all())
    return Verified(events=count, problems=tuple(problems))


class _Chains:
    """Follows each session's chain while its events pass by."""

    def __init__(self) -> None:
        self._last: dict[str, Event] = {}
        self._reach: dict[str, int] = {}

    def check(self, line: bytes) -> Iterator[Problem]:
        """What is wrong with one kept event, or with its place in its chain."""
        try:
            event = codec.read(line)
        except BadLine as bad:
            yield _in_ledger(f"an event {bad}")
            return
        meta = event.meta
        if event.is_legacy:
            return
        last = self._last.get(meta.session)
        self._last[meta.session] = event
        self._reach[meta.session] = max(meta.seq, self._reach.get(meta.session, 0))
        if last is not None and meta.seq <= last.meta.seq:
            yield _in_ledger(
                f"session {meta.session} was written twice: event {meta.seq} is there in two versions. "
                "A copied ledger does that; keep the one you trust"
            )
        elif last is not None and meta.seq == last.meta.seq + 1 and meta.prev != last.meta.id:
            yield _in_ledger(f"event {meta.seq} of session {meta.session} does not follow the one before it")

    def behind(self, marks: dict[str, tuple[int, str]]) -> Iterator[Problem]:
        """Sessions that reach less far than they were seen to."""
        for session, (seq, _) in sorted(marks.items()):
            reach = self._reach.get(session, 0)
            if reach < seq:
                yield _in_ledger(
                    f"events of session {session} are gone: {seq} were seen here, {reach} are left. "
                    "Restore the ledger or its event files from a clone or a backup; if they were deleted on "
                    "purpose, delete the marks that name this folder in the state folder (~/.local/state/remand)"
                )


def _in_ledger(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
