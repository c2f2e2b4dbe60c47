"""`remand log move`: takes the log into another ledger, and closes this one by a signed event.

The event that ends the move is written to the ledger that the log leaves: with it, and at no other moment, that one is
closed. The other one has everything by then but that event, and stays closed until it has it, too. Should the move be
killed in between, the other ledger fetches the event by itself when somebody next writes to it. So one of both is open
at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from itertools import chain

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.signatures import Signer
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.log.verification import state_digest
from remand.domain.access.team import Actor
from remand.domain.events.log import LedgerMoved, MoveBegun
from remand.domain.preconditions import require_trusted_key, require_user
from remand.domain.record import Record
from remand.ledger.store import Transaction


class LogMove(Record, kw_only=True):
    """A move that has ended, and what both ledgers say of the log now."""

    ledger: str
    to_ledger: str
    to: str
    digest: str
    events: int
    old_digest: str
    old_events: int


def move_log(
    source: Ledger, target: Ledger, to: str, actor: Actor, *, untrusted_key: str = "", is_lost: bool = False
) -> LogMove:
    """Moves the log; one that was killed is brought to its end. `to` says where, for people, and holds no secret.

    Refuses a machine whose key the base does not trust: no other machine would see that the ledger is closed.
    A closed ledger moves it as well, or is opened again, when the user says that the one which the log moved to is lost.
    """
    if is_lost:
        require_user(actor)
    source.refresh()
    if source.ledger_id == target.ledger_id:
        return _open_again(source, to, actor, is_lost=is_lost)
    with source.store.read() as view:
        has_moved = find_move(source, view, target.ledger_id) is not None
    if not has_moved:
        require_trusted_key(untrusted_key, is_confined=True)
        with source.taking_over() if is_lost else nullcontext():
            _move(source, target, to, actor)
    with source.store.read() as view:
        _copy_lines(view, target)
        old, (new, count) = state_digest(view), _digest(target)
    if old != (new, count):
        raise EnvironmentFault(
            "The log has moved, but its new ledger is not equal to the old one. Run it again."
        )
    return LogMove(
        ledger=source.ledger_id,
        to_ledger=target.ledger_id,
        to=to,
        digest=new,
        events=count,
        old_digest=old[0],
        old_events=old[1],
    )


def _move(source: Ledger, target: Ledger, to: str, actor: Actor) -> None:
    old, new = source.ledger_id, target.ledger_id
    source.record([MoveBegun(ledger=old, to_ledger=new, to=to)], actor)
    with source.store.read() as view:
        _copy_lines(view, target)

    def end(handler: RequestHandler, _signer: Signer) -> None:
        tx = handler.tx
        tx.fence_writers()
        _copy_lines(tx, target)
        digest, count = state_digest(tx)
        if (digest, count) != _digest(target):
            raise EnvironmentFault(
                "Nothing was moved: the other ledger has events of its own, or trusts other keys. "
                "Move the log into an empty one, in a clone of this repository."
            )
        moved = LedgerMoved(ledger=old, to_ledger=new, to=to, events=count, digest=digest)
        handler.record_events([moved], actor)

    source.change_as_user(actor, end)


def _open_again(ledger: Ledger, to: str, actor: Actor, *, is_lost: bool) -> LogMove:
    """Has the log go on in a closed ledger, and closes every other one, by an event that moves it where it is."""
    if ledger.is_open():
        raise UsageError("The log is in that ledger already.")
    if not is_lost:
        raise UsageError(
            "This ledger is closed. Move the log back from the one that it is in; only if that one is lost, "
            "add --lost: then this one is opened again."
        )
    own = ledger.ledger_id

    def end(handler: RequestHandler, _signer: Signer) -> None:
        handler.tx.fence_writers()
        digest, count = state_digest(handler.tx)
        moved = LedgerMoved(ledger=own, to_ledger=own, to=to, events=count, digest=digest)
        handler.record_events([moved], actor)

    with ledger.taking_over():
        ledger.change_as_user(actor, end)
    digest, count = _digest(ledger)
    return LogMove(
        ledger=own, to_ledger=own, to=to, digest=digest, events=count, old_digest=digest, old_events=count
    )


def _digest(ledger: Ledger) -> tuple[str, int]:
    with ledger.store.read() as view:
        return state_digest(view)


def find_move(ledger: Ledger, view: Transaction, to_ledger: str) -> LedgerMoved | None:
    """The last move that a ledger knows of, if it was to that one."""
    moves = [event for event in ledger.moves(view) if isinstance(event, LedgerMoved)]
    return moves[-1] if moves and moves[-1].to_ledger == to_ledger else None


def missing_content(view: Transaction, known: Collection[int]) -> bytes:
    """The lines of a ledger whose hash is not known, groups first, as a file would hold them."""
    return b"".join(line + b"\n" for line in _lines(view) if hash(line) not in known)


def known_lines(view: Transaction) -> set[int]:
    """The hashes of the lines that a ledger has."""
    return {hash(line) for line in _lines(view)}


def _lines(view: Transaction) -> Iterator[bytes]:
    return chain(view.group_doubts.lines(), view.events.lines(), view.held.lines())


def _copy_lines(view: Transaction, target: Ledger) -> None:
    """Has the target take in what it lacks."""
    with target.store.read() as other:
        known = known_lines(other)
    content = missing_content(view, known)
    if content:
        target.change(lambda tx: target.read_files(tx, [], target.verifier(tx), [content]))
