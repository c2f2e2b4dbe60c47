"""What `remand log repair` finds and proposes. Each kind of damage knows how to find it and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from remand.app.ledger import Ledger
from remand.app.published import describe
from remand.domain.missing import MissingLines
from remand.domain.record import Record
from remand.domain.roles import Actor
from remand.ledger.store import RewrittenLine

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


class MissingDamage:
    """Lines that are missing: the user may give them up."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """The missing lines that are a fault."""
        return [_missing(one) for one in ledger.missing_lines()]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Gives them up."""
        ledger.give_up(ledger.missing_lines(), actor, reason)


class RewrittenDamage:
    """Published files that have changed: the ledger has their lines, and the user may leave it at that."""

    def find(self, ledger: Ledger) -> list[Finding]:
        """The lines that are gone from files."""
        return [_rewritten(one) for one in ledger.rewritten_lines()]

    def repair(self, ledger: Ledger, actor: Actor, reason: str) -> None:
        """Records that the files stay as they are."""
        ledger.accept_rewritten(ledger.rewritten_lines(), actor, reason)


DAMAGES: Sequence[Damage] = (MissingDamage(), RewrittenDamage())


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
