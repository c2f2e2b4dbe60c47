"""The ledger's own session: finding its way back after a command was killed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from remand.domain.events import subject
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.store import Entry, Head


def continuation(head: Head, lines: list[bytes]) -> tuple[list[Entry], Head, bool]:
    """The events that killed commands left behind the head, as far as they continue its chain.

    Whole commands alone: of one that was cut, the part that is there is not taken; the last value says so.
    """
    whole: tuple[list[Entry], Head] = ([], head)
    entries: list[Entry] = []
    for line in lines:
        try:
            event = codec.read(line)
        except BadLine:
            break
        meta = event.meta
        if (meta.session, meta.seq, meta.prev) != (head.session, head.seq + 1, head.tip):
            break
        entries.append(Entry(event, line, subject(event)))
        clock = max(head.clock, event.ts)
        head = replace(head, seq=meta.seq, tip=meta.id, clock=clock, size=head.size + len(line) + 1)
        if not meta.more:
            whole = ([*whole[0], *entries[len(whole[0]) :]], head)
    return *whole, len(entries) > len(whole[0])


def continued(head: Head, lines: Iterable[bytes]) -> Head:
    """The head after events of its own session that were found in a file, as far as they continue its chain.

    A command that was killed just after it began a new segment leaves such a file.
    """
    for line in lines:
        event = codec.recall(line)
        if (event.meta.seq, event.meta.prev) != (head.seq + 1, head.tip):
            break
        head = replace(head, seq=event.meta.seq, tip=event.meta.id, clock=max(head.clock, event.ts))
    return head
