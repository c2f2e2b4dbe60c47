"""One short text for the whole state: equal on every machine that has the same events and trusts the same keys."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from remand.domain.events import subject
from remand.ledger import codec
from remand.ledger.signatures import Doubt
from remand.ledger.store import Transaction

_encode = msgspec.json.Encoder().encode


def digest(tx: Transaction) -> tuple[str, int]:
    """The digest of all tasks and of all signed events without effect on one, and how many signed events there are."""
    whole = sha256()
    for task in tx.tasks.every():
        whole.update(_encode(task))
    count = 0
    loose: list[str] = []
    doubts = {found.event_id: found.doubt for found in tx.unconfirmed.every()}
    for line in tx.events.lines():
        event = codec.recall(line)
        doubt = doubts.get(event.meta.id, Doubt.NONE)
        if doubt not in (Doubt.NONE, Doubt.VOID):
            continue
        count += 1
        if doubt or not subject(event):
            loose.append(event.meta.id)
    whole.update("".join(sorted(loose)).encode())
    return whole.hexdigest(), count
