"""What `remand log repair` finds and proposes. Each kind of damage knows how to find it and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Protocol

from remand.app.clock_repair import Ahead, find_ahead, repair_clock
from remand.app.ledger import Ledger
from remand.app.missing import MAX_GIVEN_UP, Expected, given_up, note_missing
from remand.app.published import describe
from remand.app.rebuild import rebuild
from remand.domain.events import LinesGivenUp
from remand.domain.instant import Instant
from remand.domain.missing import GivenUp, MissingLines
from remand.domain.record import Record
from remand.domain.roles import Actor
from remand.domain.rules import require_text, require_user
from remand.ledger.missing_tables import RewrittenLine
from remand.ledger.store import Transaction

_BRING_BACK = "Bring them back with git fetch and git checkout -- .got, or from a clone or a backup"


class Finding(Record, kw_only=True):
    """Something that is wrong with the log, and what is proposed."""

    kind: str
    what: str
    proposal: str
    session: str = ""
    first: int = 0
    last: int = 0
    id: str = ""
    task_id: str = ""
    file: str = ""


class Damage(Protocol):
    """A kind of damage."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """What there is of it, and what is proposed."""

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Does what is proposed, in the user's name, and records it."""


def look_closely(ledger: Ledger) -> None:
    """Reads in what is new, and compares every event file with what the base has of it."""
    with ledger.change() as tx:
        ledger.read_published(tx, ledger.verifier(tx), list(ledger.event_files().values()))


def rebuild_from_files(ledger: Ledger) -> int:
    """Makes every table anew from the events, and reads all files again: what the tables lost comes back."""
    with ledger.change() as tx:
        ledger.read_files(tx, ledger.exchange.files(), ledger.verifier(tx))
        rebuild(tx)
        note_missing(tx, ledger.marks.all(), ledger.tick(tx))
        return tx.events.count()


def missing_lines(ledger: Ledger) -> list[MissingLines]:
    """What is missing of the log, as far as it is a fault."""
    with ledger.store.read() as view:
        return view.missing.faults()


def rewritten_lines(ledger: Ledger) -> list[RewrittenLine]:
    """The lines that are gone from published files."""
    with ledger.store.read() as view:
        return view.rewritten.every()


def give_up(ledger: Ledger, lines: Sequence[MissingLines], actor: Actor, reason: str) -> None:
    """Records that the user gives missing lines up: they bar nothing any more."""

    def follow(tx: Transaction) -> None:
        Expected(tx).settle(ledger.marks.all(), ledger.tick(tx), {one.session for one in lines})

    _record(ledger, tuple(map(given_up, lines)), actor, reason, follow)


def accept_rewritten(ledger: Ledger, lines: Sequence[RewrittenLine], actor: Actor, reason: str) -> None:
    """Records that published files stay as they are now."""
    given = tuple(GivenUp(session="", first=one.line, last=one.line, id=one.hash) for one in lines)
    _record(ledger, given, actor, reason, lambda tx: tx.rewritten.drop(lines))


def _record(
    ledger: Ledger,
    lines: Sequence[GivenUp],
    actor: Actor,
    reason: str,
    follow: Callable[[Transaction], None],
) -> None:
    require_user(actor)
    require_text("reason", reason)
    parts = [tuple(lines[n : n + MAX_GIVEN_UP]) for n in range(0, len(lines), MAX_GIVEN_UP)]
    if parts:
        ledger.record([LinesGivenUp(lines=part, reason=reason) for part in parts], actor, follow)


class MissingDamage:
    """Lines that are missing: the user may give them up."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """The missing lines that are a fault."""
        return [_missing(one) for one in missing_lines(ledger)]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Gives them up."""
        give_up(ledger, missing_lines(ledger), actor, reason)


class RewrittenDamage:
    """Published files that have changed: the ledger has their lines, and the user may leave it at that."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """The lines that are gone from files."""
        return [_rewritten(one) for one in rewritten_lines(ledger)]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Records that the files stay as they are."""
        accept_rewritten(ledger, rewritten_lines(ledger), actor, reason)


class ClockDamage:
    """Events that are ahead of the machine's clock: its own are written again, those of others are held back."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """The runs of events that are ahead, session by session, as far as they can be repaired here."""
        found = find_ahead(ledger)
        return [*_ahead("own", found.own, found.now), *_ahead("foreign", found.foreign, found.now)]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Voids the machine's own and writes them again, in one change with what is held back."""
        repair_clock(ledger, actor, reason)


_AHEAD = {
    "own": "void and written again with the right time",
    "foreign": "held back until their time has come",
}


def _ahead(kind: str, events: Sequence[Ahead], now: Instant) -> Iterator[Finding]:
    for session, run in groupby(events, key=lambda one: one.event.meta.session):
        part = [one.event for one in run]
        first, last = min(event.meta.seq for event in part), max(event.meta.seq for event in part)
        count = "1 event" if len(part) == 1 else f"{len(part)} events"
        yield Finding(
            kind=f"ahead_{kind}",
            what=f"{count} of session {session} (numbers {first} to {last}) from {part[0].ts} to {part[-1].ts}: "
            f"this machine's clock says {now}",
            proposal="If the clock is wrong, set it right first. "
            f"With --yes {'it is' if len(part) == 1 else 'they are'} {_AHEAD[kind]}",
            session=session,
            first=first,
            last=last,
        )


DAMAGES: Sequence[Damage] = (ClockDamage(), MissingDamage(), RewrittenDamage())
"""In the order of their repair: while the clock is ahead nothing else can be written."""


def find_damage(ledger: Ledger) -> list[Finding]:
    """Everything that is wrong and can be repaired."""
    return [finding for damage in DAMAGES for finding in damage.find(ledger)]


def repair(ledger: Ledger, actor: Actor, reason: str) -> None:
    """Does all that is proposed."""
    for damage in DAMAGES:
        damage.repair(ledger, actor, reason)


def _missing(lines: MissingLines) -> Finding:
    whom = f"task {lines.task}" if lines.task else "any task that was there then"
    return Finding(
        kind="missing",
        what=f"{lines.description}. A no to {whom} may be among them: it is not released",
        proposal=f"{_BRING_BACK}. With --yes they are given up: they bar nothing any more, and count should they come",
        session=lines.session,
        first=lines.first,
        last=lines.last,
        id=lines.id,
        task_id=lines.task,
    )


def _rewritten(line: RewrittenLine) -> Finding:
    return Finding(
        kind="changed_file",
        what=f"{line.file}:{line.line}: {describe(line)}",
        proposal="Bring it back as it says. With --yes the file stays as it is and is not named any more",
        first=line.line,
        last=line.line,
        id=line.hash,
        file=line.file,
    )
