"""Where the events without effect stand: file and line, what they say, and why they do not count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from remand.app.ports import Exchange
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.problems import LEDGER
from remand.ledger.signatures import Doubt
from remand.ledger.store import Transaction, Unconfirmed


class UnconfirmedLine(Record, kw_only=True):
    """An event without effect, and where it stands."""

    file: str
    line: int
    event: str
    task_id: str
    why: str
    signer: str
    session: str
    number: int


class UnconfirmedSigner(Record, kw_only=True):
    """How many events without effect a key is said to have signed, in which sessions, and why they do not count."""

    signer: str
    why: str
    events: int
    sessions: tuple[str, ...]


def unconfirmed_signers(withheld: Iterable[Unconfirmed], most: int) -> list[UnconfirmedSigner]:
    """The events without effect by signer and reason, with the first of their sessions."""
    found: dict[tuple[str, Doubt], list[str]] = defaultdict(list)
    for one in withheld:
        event = codec.recall(one.line)
        found[one.signer, one.doubt].append("" if event.is_legacy else event.meta.session)
    return [
        UnconfirmedSigner(
            signer=signer,
            why=doubt.value,
            events=len(sessions),
            sessions=tuple(sorted({*sessions} - {""})[:most]),
        )
        for (signer, doubt), sessions in sorted(found.items())
    ]


def unconfirmed_lines(view: Transaction, exchange: Exchange, most: int) -> list[UnconfirmedLine]:
    """The first events without effect, by file and line; those that no file has come last."""
    withheld = {one.line: one for one in view.unconfirmed.every()}
    found: list[UnconfirmedLine] = []
    for path, number, one in _placed(exchange, withheld) if withheld else ():
        found.append(_described(one, path, number))
        if len(found) == most:
            return found
    return found + [_described(one, LEDGER, 0) for one in list(withheld.values())[: most - len(found)]]


def _placed(exchange: Exchange, withheld: dict[bytes, Unconfirmed]) -> Iterator[tuple[str, int, Unconfirmed]]:
    """Takes the events out that a file has, as they are found."""
    for mark in sorted(exchange.files()):
        for number, line in exchange.read(mark.path):
            one = withheld.pop(line.rstrip(b"\r"), None) if isinstance(line, bytes) else None
            if one is not None:
                yield mark.path, number, one


def _described(one: Unconfirmed, path: str, number: int) -> UnconfirmedLine:
    event = codec.recall(one.line)
    return UnconfirmedLine(
        file=path,
        line=number,
        event=event.name,
        task_id=one.task,
        why=one.doubt.value,
        signer=one.signer,
        session="" if event.is_legacy else event.meta.session,
        number=event.meta.seq,
    )
