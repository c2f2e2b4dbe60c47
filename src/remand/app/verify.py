"""Checking the log: every line, every chain, every signature, and that nothing seen before has gone."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.absorb import problems_in
from remand.app.believing import Judge
from remand.app.ports import Clock, Exchange, Marks
from remand.domain.events import Event
from remand.domain.record import Record
from remand.domain.releases import Doubt, is_releasing
from remand.ledger import codec
from remand.ledger.problems import BadLine, Problem
from remand.ledger.store import Transaction, Unconfirmed

LEDGER = ".got/ledger.db"
_BATCH = 5000


class Verified(Record, kw_only=True):
    """What a check of the log found."""

    events: int
    problems: tuple[Problem, ...]
    unconfirmed: tuple[Unconfirmed, ...] = ()
    """Releasing events that nobody known has signed. That alone is no problem: the user may come to trust the key."""

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems


def verify(tx: Transaction, exchange: Exchange, marks: Marks, clock: Clock, judge: Judge) -> Verified:
    """Reads every file and every kept event again."""
    now = clock.now()
    problems = [problem for mark in exchange.files() for problem in problems_in(exchange, mark.path, now)]
    unconfirmed = tx.unconfirmed.every()
    chains, signatures = _Chains(), _Signatures(judge, unconfirmed)
    count = 0
    for line in tx.events.lines():
        count += 1
        try:
            event = codec.read(line)
        except BadLine as bad:
            problems.append(_in_ledger(f"an event {bad}"))
            continue
        problems += chains.check(event)
        signatures.check(event, line)
    problems += signatures.problems(exchange)
    problems += chains.behind(marks)
    return Verified(events=count, problems=tuple(problems), unconfirmed=tuple(unconfirmed))


class _Chains:
    """Follows each session's chain while its events pass by."""

    def __init__(self) -> None:
        self._last: dict[str, Event] = {}
        self._reach: dict[str, int] = {}

    def check(self, event: Event) -> Iterator[Problem]:
        """What is wrong with the place of one kept event in its chain."""
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

    def behind(self, marks: Marks) -> Iterator[Problem]:
        """Sessions that reach less far than they were seen to."""
        for session, (seq, _) in sorted(marks.all().items()):
            reach = self._reach.get(session, 0)
            if reach < seq:
                yield _in_ledger(
                    f"events of session {session} are gone: {seq} were seen here, {reach} are left. "
                    "Restore the ledger or its event files from a clone or a backup; if they were deleted on "
                    f"purpose, delete the marks that name this folder in the state folder ({marks.folder})"
                )


class _Signatures:
    """Verifies the signatures of releasing events, and that the ledger gives each the effect it is due."""

    def __init__(self, judge: Judge, unconfirmed: list[Unconfirmed]) -> None:
        self._judge = judge
        self._withheld = {found.event_id for found in unconfirmed}
        self._waiting: list[tuple[Event, bytes]] = []
        self._wrong: dict[bytes, str] = {}

    def check(self, event: Event, line: bytes) -> None:
        """Takes one kept event into account."""
        if is_releasing(event):
            self._waiting.append((event, line))
        if len(self._waiting) >= _BATCH:
            self._verify()

    def _verify(self) -> None:
        for (event, line), doubt in zip(self._waiting, self._judge.doubts(self._waiting), strict=True):
            meta = event.meta
            told = f"event {meta.seq} of session {meta.session} ({event.name})"
            if doubt == Doubt.WRONG_SIGNATURE:
                self._wrong[line] = (
                    f"{told} bears a signature that key {meta.signer[:40]} did not make for it"
                )
            elif bool(doubt) != (meta.id in self._withheld):
                state = "counts without being confirmed" if doubt else "is confirmed and does not count"
                self._wrong[line] = (
                    f"{told} {state}: the ledger was changed. Move {LEDGER} away, it is made anew"
                )
        self._waiting = []

    def problems(self, exchange: Exchange) -> Iterator[Problem]:
        """What is wrong, by file and line where a file has it."""
        self._verify()
        files = exchange.files() if self._wrong else []
        for mark in files:
            for number, line in exchange.read(mark.path):
                if isinstance(line, bytes) and (why := self._wrong.pop(line.rstrip(b"\r"), "")):
                    yield Problem(file=mark.path, line=number, problem=why)
        yield from (_in_ledger(why) for why in self._wrong.values())


def _in_ledger(problem: str) -> Problem:
    return Problem(file=LEDGER, line=0, problem=problem)
