"""Making every table anew, after somebody or something changed the ledger's own file."""

from __future__ import annotations

from remand.app.judging_anew import judge_events
from remand.app.ledger import Ledger
from remand.app.missing import note_missing
from remand.app.rebuild import rebuild
from remand.ledger import codec
from remand.ledger.problems import LEDGER, BadLine
from remand.ledger.store import FileMark, SignedGroup


def restore(ledger: Ledger) -> None:
    """Makes every table anew. Lines that are not as they were written are dropped, and all files are read again."""
    ledger.refresh()
    with ledger.store.write() as tx:
        tx.events.drop([row.line for row in tx.events.rows() if not _is_whole(row.line)])
        tx.groups.index()
        lines = {kept.group: kept.line for kept in tx.groups.every()}
        verifier = ledger.verifier(tx)
        doubts = verifier.doubts(lines)
        tx.groups.add(SignedGroup(group, lines[group], doubt) for group, doubt in doubts.items())
        ledger.read_files(tx, ledger.exchange.files(), verifier)
        judge_events(tx)
        rebuild(tx)
        note_missing(tx, ledger.marks.all(), ledger.tick(tx))
        tx.files.note(FileMark(LEDGER, 0, 0, 0), ())


def _is_whole(line: bytes) -> bool:
    try:
        codec.read(line)
    except BadLine:
        return False
    return True
