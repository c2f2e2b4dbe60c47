"""One short text for the whole state: equal on every machine that has the same events and trusts the same keys."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from remand.app.signatures import voids_of
from remand.domain.events import VOIDS, subject
from remand.ledger import codec
from remand.ledger.signatures import Doubt
from remand.ledger.store import Transaction

_encode = msgspec.json.Encoder().encode


def digest(tx: Transaction) -> tuple[str, int]:
    """The digest of all tasks and of all signed events without effect on one, and how many signed events there are.

    Events that were voided and restated do not count: another machine need not have seen them.
    """
    voids = voids_of(tx)
    whole = sha256()
    for task in tx.tasks.every():
        whole.update(_encode(task))
    count = 0
    loose: list[str] = []
    doubts = {found.event_id: found.doubt for found in tx.unconfirmed.every()}
    for line in tx.events.lines():
        event = codec.recall(line)
        doubt = doubts.get(event.meta.id, Doubt.NONE)
        if doubt is Doubt.VOID and event in voids:
            continue
        if doubt not in (Doubt.NONE, Doubt.VOID):
            continue
        count += 1
        if doubt or subject(event) in ("", VOIDS):
            loose.append(event.meta.id)
    whole.update("".join(sorted(loose)).encode())
    return whole.hexdigest(), count
