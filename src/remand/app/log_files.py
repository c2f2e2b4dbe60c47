"""The event files of a ledger: what they hold, what they lack, and what the base has of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from remand.app.absorb import problems_in, read_in
from remand.app.asking import Rules
from remand.app.errors import EnvironmentFault
from remand.app.missing import Expected, behind
from remand.app.ports import Clock, Exchange, History, Marks, Segment
from remand.app.published import compare_files, files_elsewhere, look_at_base
from remand.app.signatures import Verifier
from remand.domain.clock import horizon
from remand.domain.instant import END, Instant
from remand.domain.policy import Policy
from remand.ledger.order import tick
from remand.ledger.problems import Problem
from remand.ledger.store import FileMark, Head, Store, Transaction

Follow = Callable[[Transaction], None]
"""What follows from a change, as a part of it."""


def do_nothing(tx: Transaction) -> None:
    """For a change from which nothing else follows."""


class LogFiles:
    """What a ledger has to do with its event files besides writing to them."""

    store: Store
    exchange: Exchange
    segment: Segment
    clock: Clock
    marks: Marks
    _rules: Callable[[], Rules]
    _history: History | None
    _has_compared = False
    _signature: tuple[int, ...] | None = None

    def forget_signature(self) -> None:
        """Has the files looked at again."""
        self._signature = None

    def event_files(self) -> dict[str, str]:
        """The event files of the ledger's own folder: name to path."""
        folder = os.path.dirname(self.segment.path("x"))
        marks = self.exchange.files()
        return {os.path.basename(m.path): m.path for m in marks if os.path.dirname(m.path) == folder}

    def vanished_files(self) -> set[str]:
        """The names of event files that were read here once and are gone: deleted, or on another branch."""
        folder = os.path.dirname(self.segment.path("x"))
        with self.store.read() as view:
            known = {os.path.basename(path) for path in view.files.marks() if os.path.dirname(path) == folder}
        return known - set(self.event_files())

    def content(self, path: str) -> bytes:
        """An event file's lines, as they are."""
        return b"".join(line + b"\n" for _, line in self.exchange.read(path) if isinstance(line, bytes))

    def problems_in(self, path: str) -> list[Problem]:
        """What is wrong with an event file, whenever its events are from."""
        return problems_in(self.exchange, path, END)

    def limit(self, tx: Transaction) -> Instant:
        """The latest time an event of another ledger may have now."""
        return horizon(self.clock.now(), self.clock_skew, tx.head.bounded_from)

    @property
    def clock_skew(self) -> float:
        """How many seconds ahead of the machine's clock events may be. While that cannot be read, the default holds."""
        try:
            return self._rules().policy.clock_skew_seconds
        except EnvironmentFault:
            return Policy().clock_skew_seconds

    def read_files(
        self,
        tx: Transaction,
        files: Sequence[FileMark],
        verifier: Verifier,
        recovered: Sequence[bytes] = (),
    ) -> None:
        """Reads files in, and what was recovered of others."""
        limit = self.limit(tx)
        read_in(
            tx,
            list(files),
            self.exchange,
            self.clock,
            self.marks,
            limit=limit,
            verifier=verifier,
            recovered=recovered,
        )

    def has_lost_lines(self) -> bool:
        """True when a published file has lost lines."""
        with self.store.read() as view:
            return bool(view.rewritten.every())

    def base_tip(self) -> str:
        """The commit at the tip of the base; empty while the configuration cannot be read."""
        if self._history is None:
            return ""
        try:
            return self._rules().base
        except EnvironmentFault:
            return ""

    def read_published(self, tx: Transaction, verifier: Verifier, changed: Sequence[str]) -> None:
        """Notes what is gone from published files, and reads in what the base had of it.

        Files are compared that have changed since they were read; all of them, where something is missing.
        """
        history = self._history
        if history is None:
            return
        recovered = look_at_base(tx, history)
        paths = list(self.event_files().values()) if tx.missing.faults() else changed
        own = self.segment.path(tx.head.segment) if tx.head.segment else ""
        recovered += compare_files(tx, history, self.exchange, [path for path in paths if path != own])
        self._read_again(tx, verifier, recovered)
        if tx.missing.faults():
            self._read_again(tx, verifier, files_elsewhere(history, self.exchange))

    def _read_again(self, tx: Transaction, verifier: Verifier, contents: Sequence[bytes]) -> None:
        if contents:
            self.read_files(tx, [], verifier, contents)

    def miss_what_was_seen(self, tx: Transaction) -> None:
        """Notes what is gone of sessions that reach less far than this machine has seen; once for each process."""
        if self._has_compared:
            return
        seen = self.marks.all()
        gone = behind(tx, seen)
        noted = {(one.session, one.last) for one in tx.missing.every()} if gone else set()
        if any((session, seen[session][0]) not in noted for session in gone):
            Expected(tx).settle(seen, self.tick(tx), gone)
        self._has_compared = True

    def tick(self, tx: Transaction) -> Instant:
        """The time of the next event."""
        return tick(self.clock.now(), tx.head.clock)

    def is_ripe(self, tx: Transaction) -> bool:
        """True when an event held back for its time is not too far ahead any more."""
        held = tx.files.earliest_held()
        return bool(held) and held <= self.limit(tx)

    def set_aside(self, tx: Transaction) -> None:
        """Moves what stands behind the head out of the log, if anything does, and notes that."""
        if path := self.segment.cut_off(tx.head):
            problem = (
                f"holds what stood behind event {tx.head.seq} in the open event file: it was not signed here and was "
                "never answered, or somebody else wrote it. It has no effect"
            )
            tx.files.note(FileMark(path, 0, 0, 0), [Problem(file=path, line=0, problem=problem)])

    def close_segment(self, tx: Transaction, segment: str) -> None:
        """Notes that a segment that is not written to any more holds nothing new."""
        path = self.segment.path(segment)
        for mark in self.exchange.files():
            if mark.path == path:
                tx.files.note(mark, ())

    def sync(self, head: Head) -> None:
        """Makes what was written durable, and remembers how far the session reaches."""
        self.exchange.sync(head.segment)
        self.marks.raise_to(head.session, head.seq, head.tip)

    def untrusted_writer(self) -> str:
        """The key that this ledger's events are signed with, if the base does not trust it."""
        with self.store.read() as view:
            return view.unconfirmed.writer if view.head.seq else ""
